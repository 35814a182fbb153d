"""What schemas, and the tables beside them, say that ops do to memory."""

from irscope.analysis.effects import CONTENTS, OBJECT, compile_signature
from irscope.ops.schemas import parse_schema


def test_writes_reach_the_members_of_a_list_argument() -> None:
    each = compile_signature(parse_schema("aten::_foreach_neg_(Tensor(a!)[] self) -> ()"))
    assert each.writes == ((0, CONTENTS),)
    append = compile_signature(parse_schema("aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)"))
    assert append.writes == ((0, OBJECT),) and append.stores == (1,) and append.reads == "object"
