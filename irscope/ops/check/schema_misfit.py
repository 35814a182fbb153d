"""Finds why a node matches none of an op's schemas: the number of operands or results, or their kinds.

Kinds are interpreted as widely as possible (see `irscope.ops.check.node_check`), so everything reported here is certainly wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from irscope._base.words import plural
from irscope.ir import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    REQUIRED,
    STR,
    TENSOR,
    AliasAnnotation,
    Argument,
    ListType,
    Node,
    OpSchema,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_subtype,
    parts,
)

__all__ = ["Wrong", "misfit"]

_NUMBERS: Final = frozenset({BOOL, COMPLEX, FLOAT, INT, NUMBER})
_NO_NUMBERS: Final = frozenset({DEVICE, NONE, STR})
_PLAIN: Final = _NUMBERS | _NO_NUMBERS
"""Primitive types that determine what a value is; other names are variables, handles, or types of another version of torch."""


class Wrong(NamedTuple):
    """The rule that a node breaks, what is wrong, and a hint how to fix it."""

    rule: str
    what: str
    hint: str = ""


def misfit(schemas: Sequence[OpSchema], node: Node) -> Wrong | None:
    """Return None if the node may match one of these schemas, else what is wrong by the closest one.

    >>> import irscope as irs
    >>> from irscope.ops.schema.parser import parse_schema
    >>> b = irs.GraphBuilder()
    >>> x = b.input("x")
    >>> g = b.finish([b.op("aten::t", x, name="y")])
    >>> misfit([parse_schema("aten::t(Tensor self) -> Tensor")], g.node("y"))
    >>> misfit([parse_schema("aten::t(str self) -> Tensor")], g.node("y")).rule
    'operand-kind'
    """
    counted = [schema for schema in schemas if _takes_count(schema, len(node.inputs))]
    if not counted:
        return _wrong_count(schemas, node)
    by_kind = [schema for schema in counted if _takes_kinds(schema, node)]
    if not by_kind:
        return _wrong_kind(counted, node)
    by_results = [schema for schema in by_kind if schema.is_varret or len(schema.returns) == len(node.outputs)]
    if not by_results:
        return _wrong_results(by_kind, node)
    if not any(_gives_kinds(schema, node) for schema in by_results):
        return _wrong_result_kind(by_results, node)
    return None


def _takes_count(schema: OpSchema, count: int) -> bool:
    """Whether a call with this many operands can match this schema, or its `out=` variant."""
    least, most = _counts(schema)
    return least <= count <= most or schema.is_vararg or count == most + _outs(schema)


def _counts(schema: OpSchema) -> tuple[int, int]:
    required = [index + 1 for index, argument in enumerate(schema.arguments) if argument.default is REQUIRED]
    return max(required, default=0), len(schema.arguments)


def _outs(schema: OpSchema) -> int:
    """Return how many additional tensors the `out` overload takes; such overloads are not bundled."""
    return sum(result.type == TENSOR and result.alias is None for result in schema.returns)


def _takes_kinds(schema: OpSchema, node: Node) -> bool:
    return _first_misfit(schema, node) is None


def _first_misfit(schema: OpSchema, node: Node) -> int | None:
    """Return the position of the first operand that this schema certainly does not take."""
    if schema.is_vararg and not schema.arguments:
        return None
    extra = len(node.inputs) - len(schema.arguments)
    wanted = [*schema.arguments, *[_OUT] * max(0, extra)] if not schema.is_vararg else schema.arguments
    for index, (value, argument) in enumerate(zip(node.inputs, wanted, strict=False)):
        if not _may_be_given(value.type, argument):
            return index
    return None


_OUT: Final = Argument("out", TENSOR, AliasAnnotation(is_write=True))


def _may_be_given(type: Type, argument: Argument) -> bool:
    if argument.type == TENSOR and argument.alias is not None and argument.alias.is_write:
        return is_subtype(type, TENSOR)  # no number is converted into memory to write to
    if _may_be(type, argument.type):
        return True
    wanted = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
    return argument.length is not None and isinstance(wanted, ListType) and _may_be(type, wanted.element)


def _may_be(have: Type, want: Type) -> bool:
    """Whether a value of type `have` may be passed where `want` is declared, by the widest interpretation of both."""
    if NUMBER in (have, want) and {have, want} & _NO_NUMBERS:
        return False  # `is_subtype` treats NUMBER as a type that may be many things
    if have is want or is_subtype(have, want) or is_subtype(want, have):
        return True
    if isinstance(have, OptionalType) or isinstance(want, OptionalType):
        return _may_be(_inner(have), _inner(want))
    if isinstance(have, UnionType) or isinstance(want, UnionType):
        return any(_may_be(a, b) for a in _members(have) for b in _members(want))
    if isinstance(have, ListType) and isinstance(want, ListType):
        return _may_be(have.element, want.element)
    if isinstance(have, TupleType) and isinstance(want, ListType):
        return all(_may_be(part, want.element) for part in have.elements)
    if _is_number(have) and _is_number(want):
        return True
    return {have, want} == {STR, DEVICE} or not (_says(have) and _says(want))


def _is_number(type: Type) -> bool:
    """Whether a type is a number or a tensor, which convert into each other where needed."""
    return type.__class__ is TensorType or type in _NUMBERS


def _says(type: Type) -> bool:
    """Whether the type is certainly distinct from every other such type."""
    return type in _PLAIN or isinstance(type, TensorType | ListType | TupleType) or bool(parts(type))


def _inner(type: Type) -> Type:
    return type.element if isinstance(type, OptionalType) else type


def _members(type: Type) -> tuple[Type, ...]:
    return type.members if isinstance(type, UnionType) else (type,)


def _gives_kinds(schema: OpSchema, node: Node) -> bool:
    if schema.is_varret:
        return True
    return all(_may_give(v.type, result.type) for v, result in zip(node.outputs, schema.returns, strict=True))


def _may_give(type: Type, declared: Type) -> bool:
    """Whether a result may have this type: as for operands, but without conversions between tensors and numbers."""
    if declared.__class__ is TensorType:
        return type.__class__ is TensorType
    if type.__class__ is TensorType and declared in _NUMBERS:
        return False
    return _may_be(type, declared)


def _wrong_count(schemas: Sequence[OpSchema], node: Node) -> Wrong:
    counts = sorted({count for schema in schemas for count in range(_counts(schema)[0], _counts(schema)[1] + 1)})
    taken = _counts_text(counts)
    return Wrong("operand-count", f"{node.op} takes {taken}, and here it has {len(node.inputs)}", _hint(schemas))


def _counts_text(counts: list[int]) -> str:
    if len(counts) == 1:
        return plural(counts[0], "operand")
    if counts == list(range(counts[0], counts[-1] + 1)):
        return f"{counts[0]} to {counts[-1]} operands"
    return f"{', '.join(map(str, counts[:-1]))} or {counts[-1]} operands"


def _wrong_kind(schemas: Sequence[OpSchema], node: Node) -> Wrong:
    """Report the mismatch by the schema whose first misfit comes last."""
    schema = max(schemas, key=lambda schema: _first_misfit(schema, node) or 0)
    index = _first_misfit(schema, node) or 0
    argument = schema.arguments[index] if index < len(schema.arguments) else _OUT
    value = node.inputs[index]
    what = f"operand {index + 1} of {node.op}, {value!r}, is {value.type}, and {argument.name!r} is {argument.type}"
    return Wrong("operand-kind", what, _hint(schemas))


def _wrong_results(schemas: Sequence[OpSchema], node: Node) -> Wrong:
    given = sorted({len(schema.returns) for schema in schemas})
    returned = " or ".join(map(str, given))
    what = f"{node.op} gives {returned} result{'s' * (given != [1])}, and here it has {len(node.outputs)}"
    return Wrong("result-count", what, _hint(schemas))


def _wrong_result_kind(schemas: Sequence[OpSchema], node: Node) -> Wrong:
    schema = schemas[0]
    pairs = zip(node.outputs, schema.returns, strict=True)
    value, result = next((v, r) for v, r in pairs if not _may_give(v.type, r.type))
    what = f"{value!r} is of type {value.type}, and {node.op} gives {result.type}"
    return Wrong("result-kind", what, _hint(schemas))


def _hint(schemas: Sequence[OpSchema]) -> str:
    arguments = ", ".join(f"{argument.type} {argument.name}" for argument in schemas[0].arguments)
    more = f"; and {len(schemas) - 1} more overloads" if len(schemas) > 1 else ""
    return f"{schemas[0].full_name}({arguments}){more}; an op of another namespace is taken as unknown"
