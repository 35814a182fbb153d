"""What schemas, and the tables beside them, say that ops do to memory."""

import pytest

from irscope.analysis.effects import (
    CONTENTS,
    OBJECT,
    OPAQUE,
    PURE,
    Signatures,
    compile_signature,
    fits,
    is_fully_opaque,
    is_stopping,
)
from irscope.ir.core import Node, Value
from irscope.ir.types import INT, TENSOR, ListType, TensorType
from irscope.ops.schemas import parse_schema


def test_a_pure_op_is_one_object() -> None:
    assert compile_signature(parse_schema("aten::mul.Tensor(Tensor self, Tensor other) -> Tensor")) is PURE


def test_letters_bind_results_to_arguments() -> None:
    view = compile_signature(parse_schema("aten::where_(Tensor(a) x, Tensor(b) y) -> Tensor(a|b)"))
    assert view.results == (((0, OBJECT), (1, OBJECT)),) and not view.writes


def test_a_list_of_views_holds_its_argument() -> None:
    split = compile_signature(parse_schema("aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"))
    assert split.held == (((0, OBJECT),),) and split.results == ((),) and split.stores == ()
    assert split.reads == "shape"


def test_writes_reach_the_members_of_a_list_argument() -> None:
    each = compile_signature(parse_schema("aten::_foreach_neg_(Tensor(a!)[] self) -> ()"))
    assert each.writes == ((0, CONTENTS),)
    append = compile_signature(parse_schema("aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)"))
    assert append.writes == ((0, OBJECT),) and append.stores == (1,) and append.reads == "object"


@pytest.mark.parametrize(
    ("schema", "to_shape"),
    [
        ("aten::relu_(Tensor(a!) self) -> Tensor(a!)", False),
        ("aten::squeeze_(Tensor(a!) self) -> Tensor(a!)", True),
        ("aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", True),
    ],
)
def test_few_writes_change_shapes(schema: str, to_shape: bool) -> None:
    assert compile_signature(parse_schema(schema)).writes_shape is to_shape


def test_undeclared_results_may_be_anything() -> None:
    assert compile_signature(parse_schema("mine::op(Tensor x) -> ...")) is OPAQUE


def test_calls_are_opaque_and_prints_are_not() -> None:
    assert is_fully_opaque("prim::CallMethod") and is_fully_opaque("^f") and not is_fully_opaque("prim::Print")
    assert is_stopping("prim::RaiseException") and not is_stopping("prim::Print")


def test_overloads_are_distinguished_by_count_and_first_operand() -> None:
    lists = parse_schema("aten::mul.left_t(t[] l, int n) -> t[]")
    assert fits(lists, 2, ListType) and not fits(lists, 2, TensorType) and not fits(lists, 3)
    a, n = Value(1, TENSOR), Value(2, INT)
    tensor, numbers = Node(3, "aten::mul", (a, a)), Node(4, "aten::mul", (Value(5, ListType(TENSOR)), n))
    assert Signatures().of(tensor) is PURE and Signatures().of(numbers).is_container
