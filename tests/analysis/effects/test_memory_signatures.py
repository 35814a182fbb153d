"""What schemas, and the tables beside them, say that ops do to memory."""

from irscope.analysis.effects import CONTENTS, OBJECT, compile_signature
from irscope.ops.schemas import parse_schema


def test_writes_reach_the_members_of_a_list_argument() -> None:
    each = compile_signature(parse_schema("aten::_foreach_neg_(Tensor(a!)[] self) -> ()"))
    assert each.writes == ((0, CONTENTS),)
    append = compile_signature(parse_schema("aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)"))
    assert append.writes == ((0, OBJECT),) and append.stores == (1,) and append.reads == "object"


def test_a_list_holds_no_optional_tensor_that_the_op_only_reads() -> None:
    """Only what may hold other memory can be handed on: the edges of a histogram are new tensors."""
    takes = "Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool density=False"
    assert not compile_signature(parse_schema(f"aten::histogramdd({takes}) -> (Tensor hist, Tensor[] bin_edges)")).is_container
    assert compile_signature(parse_schema("aten::meshgrid(Tensor[] tensors) -> Tensor[]")).is_container
