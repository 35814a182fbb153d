"""Types as torch prints them and as Python annotates them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irscope.errors import ParseError
from irscope.ir.text.type_text import annotation, parse_type
from irscope.ir.types import (
    ANY,
    BOOL,
    DEVICE,
    DTYPES,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    AwaitType,
    ClassType,
    DictType,
    FutureType,
    ListType,
    OptionalType,
    RRefType,
    TensorType,
    TupleType,
    UnionType,
)

tensors = st.builds(
    TensorType,
    st.one_of(st.none(), st.sampled_from(sorted(DTYPES))),
    st.none(),
    st.none(),
    st.sampled_from([None, "cpu", "cuda:1"]),
    st.sampled_from([None, True, False]),
    st.booleans(),
)
dims = st.lists(st.one_of(st.integers(0, 2**40), st.none(), st.sampled_from(["SS(-1)", "s0"])), max_size=4).map(tuple)
ranked = st.builds(
    lambda tensor, shape, strided: tensor.with_(
        shape=shape,
        strides=tuple(range(len(shape))) if strided or not shape else None,
        dtype=tensor.dtype if shape else tensor.dtype or "float32",
    ),
    tensors,
    dims,
    st.booleans(),
)
simple = st.one_of(
    tensors, ranked, st.sampled_from([ANY, BOOL, DEVICE, FLOAT, INT, NONE, NUMBER, STR, ClassType("__torch__.a.M")])
)
types = st.recursive(
    simple,
    lambda inner: st.one_of(
        *(st.builds(kind, inner) for kind in (ListType, OptionalType, FutureType, AwaitType, RRefType)),
        st.builds(DictType, inner, inner),
        st.lists(inner, max_size=3).map(lambda xs: TupleType(tuple(xs))),
        st.lists(inner, min_size=1, max_size=3).map(lambda xs: UnionType(tuple(xs))),
    ),
    max_leaves=5,
)


@given(types)
@settings(max_examples=300, deadline=None)
def test_what_a_type_prints_reads_back(type):
    assert parse_type(str(type)) == type


@pytest.mark.parametrize(
    "text",
    [
        "Float(2, *, strides=[3, 1], requires_grad=0, device=cuda:0)",
        "Float()",
        "FloatTensor",
        "Tensor(requires_grad=1)",
        "Tensor[Undefined]",
        "Float(SS(-1), 2)[]",
        "Dict(str, Tensor?[])?",
        "()",
        "(int)",
        "NamedTuple(a : Tensor, b : (int, str))",
        "Union(int[], int, str)",
        "Future[Tensor]",
        "Await(Tensor)",
        "RRef[Tensor]",
        "Enum<__torch__.Color>",
        "InterfaceType<I>",
        "__torch__.___torch_mangle_0.M[]",
        "Tensor(2, *)",
        "BFloat16(1, requires_grad=0)",
        "t[]",
        "AnyEnumType",
    ],
)
def test_the_words_of_torch_are_kept(text):
    assert str(parse_type(text)) == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Optional[Tensor]", "Tensor?"),
        ("List[Dict[str, int]]", "Dict(str, int)[]"),
        ("Tuple[int, str]", "(int, str)"),
        ("Future(Tensor)", "Future[Tensor]"),
        ("Union[int, str]", "Union(int, str)"),
        ("number", "Scalar"),
        (" int [ ] ", "int[]"),
    ],
)
def test_other_spellings(text, same):
    assert str(parse_type(text)) == same


def test_a_named_tuple_knows_its_elements():
    assert parse_type("NamedTuple(a : Tensor, b : int)").elements == (TensorType(), INT)


@pytest.mark.parametrize(
    "text",
    ["", "int[", "int]", "Dict(str)", "Float(2", "Float(2,strides=[1,1])", "Float(x=1)", "(int", "int int", "%x"],
)
def test_what_is_no_type_is_refused(text):
    with pytest.raises(ParseError, match="line 1, column"):
        parse_type(text)


def test_annotations_are_those_of_python():
    assert annotation(parse_type("Dict(str, (Float(2), int?)[])")) == "Dict[str, List[Tuple[Tensor, Optional[int]]]]"
