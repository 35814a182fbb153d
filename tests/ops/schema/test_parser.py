"""Schema strings are read as torch's own parser reads them, all of its registry."""

from __future__ import annotations

from typing import Any

import pytest

from irscope.errors import ParseError
from irscope.ir.schema import REQUIRED, AliasAnnotation, Argument, OpSchema
from irscope.ir.types import (
    AwaitType,
    DictType,
    FutureType,
    ListType,
    OptionalType,
    PrimitiveType,
    RRefType,
    TensorType,
    TupleType,
    Type,
)
from irscope.ops.schema.parser import parse_schema


def torch_words(type: Type) -> str:
    """The type as `str(argument.type)` of torch writes it."""
    match type:
        case TensorType():
            return "Tensor"
        case ListType(element):
            return f"List[{torch_words(element)}]"
        case OptionalType(element):
            return f"Optional[{torch_words(element)}]"
        case DictType(key, value):
            return f"Dict[{torch_words(key)}, {torch_words(value)}]"
        case FutureType(element):
            return f"Future[{torch_words(element)}]"
        case AwaitType(element):
            return f"Await[{torch_words(element)}]"
        case RRefType(element):
            return f"RRef[{torch_words(element)}]"
        case TupleType(elements):
            return f"Tuple[{', '.join(map(torch_words, elements))}]"
        case PrimitiveType("Scalar"):
            return "number"
    return str(type)


def compare_alias(ours: AliasAnnotation | None, theirs: Any) -> None:
    assert (ours is None) == (theirs is None)
    if ours is None:
        return
    assert ours.before == set(theirs.before_set)
    assert ours.after == set(theirs.after_set)
    # torch marks a list as written when its elements are; here that is told of the elements
    assert theirs.is_write == (ours.is_write or (ours.element is not None and ours.element.is_write))


def compare_argument(ours: Argument, theirs: Any) -> None:
    assert ours.name == theirs.name
    assert torch_words(ours.type) == str(theirs.type)
    assert ours.length == theirs.N
    assert theirs.has_default_value() == (ours.default is not REQUIRED)
    if theirs.has_default_value():
        wanted = theirs.default_value
        wanted = tuple(wanted) if isinstance(wanted, list) else wanted
        assert ours.default == wanted
        assert type(ours.default) is type(wanted)
    compare_alias(ours.alias, theirs.alias_info)


def test_every_schema_of_torch_means_the_same() -> None:
    torch = pytest.importorskip("torch")
    schemas = torch._C._jit_get_all_schemas()
    assert len(schemas) > 3000
    for theirs in schemas:
        ours = parse_schema(str(theirs))
        assert (ours.name, ours.overload) == (theirs.name, theirs.overload_name)
        assert len(ours.arguments) == len(theirs.arguments)
        assert len(ours.returns) == len(theirs.returns)
        for a, b in zip(ours.arguments, theirs.arguments, strict=True):
            compare_argument(a, b)
            assert a.keyword_only == b.kwarg_only
        for a, b in zip(ours.returns, theirs.returns, strict=True):
            compare_argument(a, b)
        assert ours.is_vararg == ("..." in str(theirs).partition("->")[0])
        assert ours.is_varret == ("..." in str(theirs).partition("->")[2])
        assert ours.is_mutable == theirs.is_mutable


def argument(text: str) -> Argument:
    return parse_schema(f"test::f({text} x) -> ()").arguments[0]


def sets(alias: AliasAnnotation | None) -> tuple[set[str], set[str], bool]:
    assert alias is not None
    return set(alias.before), set(alias.after), alias.is_write


def test_annotations_belong_to_the_type_on_their_left() -> None:
    both = argument("Tensor(a)[](b!)")
    assert sets(both.alias) == ({"b"}, {"b"}, True)
    assert both.alias is not None
    assert sets(both.alias.element) == ({"a"}, {"a"}, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tensor(a!)", ({"a"}, {"a"}, True)),
        ("Tensor(a -> *)", ({"a"}, {"*"}, False)),
        ("Tensor(a! -> a|b)", ({"a"}, {"a", "b"}, True)),
        ("Tensor(a|b)", ({"a", "b"}, {"a", "b"}, False)),
        ("Tensor(*)", ({"*"}, {"*"}, False)),
        ("t(a)?", ({"a"}, {"a"}, False)),
        ("Dict(str, t)(a!)", ({"a"}, {"a"}, True)),
    ],
)
def test_annotations_of_the_value_itself(text: str, expected: tuple[set[str], set[str], bool]) -> None:
    assert sets(argument(text).alias) == expected


@pytest.mark.parametrize("text", ["Tensor(a!)[]", "Tensor(a -> *)[]", "Tensor(a)[]?"])
def test_annotations_of_what_a_list_holds(text: str) -> None:
    alias = argument(text).alias
    assert alias is not None
    assert not alias.before
    assert not alias.is_write
    assert alias.element is not None
    assert alias.element.before == {"a"}


def test_a_number_fills_a_list_of_fixed_length() -> None:
    assert parse_schema("test::f(int[2] stride=1, float[]? scale=None) -> ()").arguments[0].default == (1, 1)


def test_one_tuple_result_is_not_two_results() -> None:
    assert len(parse_schema("test::f() -> (int, Tensor)[]").returns) == 1
    assert len(parse_schema("test::f() -> (int a, Tensor b)").returns) == 2


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("aten::add(Tensor self", 22, "expected ','"),
        ("aten::add(Tensor) -> Tensor", 17, "argument's name"),
        ("aten::add(Tensor a) Tensor", 21, "expected '->'"),
        ("aten::add(Tensor a) -> Tensor Tensor b", 38, "expected the end"),
        ("aten::add(Tensor a=@) -> Tensor", 20, "no meaning"),
        ("(Tensor a) -> Tensor", 1, "op's name"),
        ("aten::add(Tensor(a|!) a) -> Tensor", 20, "alias set"),
    ],
)
def test_a_text_that_is_no_schema_says_where(text: str, column: int, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_schema(text)
    assert caught.value.column == column


def test_reading_back_what_was_read() -> None:
    text = "aten::clamp_.Tensor(Tensor(a!) self, Tensor? min=None, Tensor? max=None) -> Tensor(a!)"
    schema = parse_schema(text)
    assert isinstance(schema, OpSchema)
    assert schema == parse_schema(text)
    assert schema.full_name == "aten::clamp_.Tensor"
