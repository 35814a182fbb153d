"""Schemas are read as torch's own parser reads them, and the corrected ones say what torch's overloads share and write."""

import importlib.util
from typing import Any

import pytest

from irscope.errors import ParseError

from irscope.ir import (  # isort: skip
    REQUIRED, AliasAnnotation, Argument, AwaitType, DictType, FutureType, ListType, OpSchema, OptionalType, PrimitiveType, RRefType,
    TensorType, TupleType, Type,
)  # fmt: skip
from irscope.ops.registry import overloads
from irscope.ops.schemas import corrected, overlaid_names, parse_schema
from tests.ops.schema.audit import DANGEROUS, audit, run_all


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
    assert ours.before == set(theirs.before_set) and ours.after == set(theirs.after_set)
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
        assert ours.default == wanted and type(ours.default) is type(wanted)
    compare_alias(ours.alias, theirs.alias_info)


def test_every_schema_of_torch_means_the_same(torch: Any) -> None:
    schemas = torch._C._jit_get_all_schemas()
    assert len(schemas) > 3000
    for theirs in schemas:
        ours = parse_schema(str(theirs))
        assert (ours.name, ours.overload) == (theirs.name, theirs.overload_name)
        assert len(ours.arguments) == len(theirs.arguments) and len(ours.returns) == len(theirs.returns)
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


@pytest.mark.parametrize("text", ["Tensor(a!)[]", "Tensor(a -> *)[]", "Tensor(a)[]?"])
def test_annotations_of_what_a_list_holds(text: str) -> None:
    alias = argument(text).alias
    assert alias is not None and not alias.before and not alias.is_write
    assert alias.element is not None and alias.element.before == {"a"}


@pytest.mark.parametrize(("text", "column", "message"), [
    ("aten::add(Tensor self", 22, "or ','"),
    ("aten::add(Tensor) -> Tensor", 17, "argument's name"),
    ("aten::add(Tensor a) Tensor", 21, "expected '->'"),
    ("aten::add(Tensor a) -> Tensor Tensor b", 38, "expected the end"),
    ("aten::add(Tensor a=@) -> Tensor", 20, "a default value, found"),
    ("(Tensor a) -> Tensor", 1, "op's name"),
    ("aten::add(Tensor(a|!) a) -> Tensor", 20, "alias set"),
])  # fmt: skip
def test_a_text_that_is_not_a_schema_says_where(text: str, column: int, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_schema(text)
    assert caught.value.column == column


def test_reading_back_what_was_read() -> None:
    text = "aten::clamp_.Tensor(Tensor(a!) self, Tensor? min=None, Tensor? max=None) -> Tensor(a!)"
    schema = parse_schema(text)
    assert isinstance(schema, OpSchema) and schema == parse_schema(text)
    assert schema.full_name == "aten::clamp_.Tensor"


@pytest.fixture(scope="module")
def findings() -> list[dict[str, Any]]:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    found, crashes = run_all()
    assert crashes <= 3, "the audit left out too much"
    return found


def test_most_overloads_ran(findings: list[dict[str, Any]]) -> None:
    assert len(findings) >= 1900


def test_corrected_schemas_do_not_lie(findings: list[dict[str, Any]]) -> None:
    assert {finding["name"]: finding["corrected"] for finding in findings if finding["corrected"]} == {}


def test_corrections_are_needed(findings: list[dict[str, Any]]) -> None:
    """Most corrected overloads were caught lying by the same run; the others need other inputs or hardware."""
    liars = {finding["name"] for finding in findings if finding["declared"]}
    assert liars <= set(overlaid_names()) and len(liars) >= 33


def test_an_overload_that_lies_is_caught(findings: list[dict[str, Any]]) -> None:
    told = {finding["name"]: finding["declared"] for finding in findings}
    assert told["aten::dropout"] == ["result 0 may share the memory of input"]
    assert told["aten::batch_norm_update_stats"] == ["running_mean may be written", "running_var may be written"]
    assert told["aten::relu"] == []


def test_a_correction_that_is_dropped_is_noticed(torch: Any) -> None:
    """Each correction but those that need other inputs: without it, the same run tells of a lie."""
    schemas = {
        schema.full_name: schema
        for schema in map(parse_schema, map(str, torch._C._jit_get_all_schemas()))
        if schema.full_name in overlaid_names() and not DANGEROUS.search(schema.full_name)
    }
    noticed = 0
    for schema in schemas.values():
        finding = audit(torch, schema)
        assert finding.lies(corrected(schema)) == []
        noticed += bool(finding.lies(schema))
    assert noticed >= 33


def test_an_honest_schema_is_left_alone() -> None:
    schema = parse_schema("aten::relu(Tensor self) -> Tensor")
    assert corrected(schema) is schema


def test_every_correction_names_an_overload_of_torch(torch: Any) -> None:
    known = {parse_schema(str(schema)).full_name: parse_schema(str(schema)) for schema in torch._C._jit_get_all_schemas()}
    for name in overlaid_names():
        assert name in known, name
        assert any(argument.alias for argument in corrected(known[name]).arguments), name


def test_the_registry_gives_corrected_schemas() -> None:
    assert all(schema.returns[0].alias for schema in overloads("aten::type_as"))
    assert all(schema.returns[0].alias for schema in overloads("aten::dropout"))
