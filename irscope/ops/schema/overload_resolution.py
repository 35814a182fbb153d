"""Selects the overload of an op for a list of operand types, by TorchScript's rules.

TorchScript writes every argument of a call into its IR, already converted, so the first overload whose argument
types are supertypes of the operands' is the right one. Graphs from other sources are laxer: trailing arguments may be missing
where there are defaults, and a number may stand for a list of equal numbers or a wider number. Hence there are three rounds,
each over all overloads in the order in which torch declares them: as written, with defaults, with conversions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from irscope.ir import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    REQUIRED,
    STR,
    Argument,
    AwaitType,
    ClassType,
    DictType,
    FutureType,
    ListType,
    OpSchema,
    OptionalType,
    PrimitiveType,
    RRefType,
    TensorType,
    TupleType,
    Type,
    UnionType,
)

__all__ = ["choose_overload", "counts_with_results", "may_end_in_results"]

_VARIABLES: Final = frozenset({"t", "t1", "t2", "tVal"})
"""The type variables of schemas: the same type wherever the name occurs."""

_WIDER: Final[dict[Type, tuple[Type, ...]]] = {
    BOOL: (INT, FLOAT, COMPLEX, NUMBER),
    INT: (FLOAT, COMPLEX, BOOL),
    FLOAT: (COMPLEX,),
    NUMBER: (INT, FLOAT, COMPLEX, BOOL),
    STR: (PrimitiveType("Device"),),
}
"""The types that each type also matches when conversions are allowed."""

_MAKING: Final = frozenset({"dtype", "layout", "device", "pin_memory"})

_NUMBERS: Final = (BOOL, INT, FLOAT, COMPLEX, NUMBER)


def choose_overload(schemas: Sequence[OpSchema], operands: Sequence[Type]) -> OpSchema | None:
    """Return the first schema that takes these operands, all of them positional; None when none does.

    >>> from irscope.ir.types import TENSOR
    >>> from irscope.ops.schema.parser import parse_schema
    >>> texts = "aten::neg(Tensor self) -> Tensor", "aten::neg.int(int a) -> int"
    >>> choose_overload([parse_schema(text) for text in texts], [INT]).overload
    'int'
    """
    fitting = _taking(schemas, operands)
    exact = [schema for schema in fitting if schema.is_vararg or len(schema.arguments) == len(operands)]
    return (
        _first(exact, operands, convert=False)
        or _first(fitting, operands, convert=False)
        or _first(fitting, operands, convert=True)
    )


def counts_with_results(schemas: Iterable[OpSchema]) -> frozenset[int]:
    """Return how many operands the overloads take that write their results into the last ones, which are often in no table.

    Torch makes one of each schema whose results are fresh tensors: it drops the arguments that say how to make a tensor, and
    adds an argument for each result.

    >>> from irscope.ops.schema.parser import parse_schema
    >>> counts_with_results([parse_schema("aten::log(Tensor self) -> Tensor"), parse_schema("aten::log.int(int a) -> float")])
    frozenset({2})
    """
    counts = set()
    for schema in schemas:
        if schema.returns and all(isinstance(result.type, TensorType) and result.alias is None for result in schema.returns):
            names = {argument.name for argument in schema.arguments}
            counts.add(len(names - _MAKING if "layout" in names else names) + len(schema.returns))
    return frozenset(counts)


def may_end_in_results(schemas: Sequence[OpSchema], operands: Sequence[Type]) -> bool:
    """Whether the last operand may be a tensor to write a result into, of an overload that is not among the schemas.

    It fits only if it is converted to a number: `torch.log(x, out=y)` is `aten::log(%x, %y)` in TorchScript's IR, which could
    also be the logarithm of a number to a base.
    """
    if not operands or not isinstance(operands[-1], TensorType) or len(operands) not in counts_with_results(schemas):
        return False
    return _first(_taking(schemas, operands), operands, convert=False) is None


def _taking(schemas: Sequence[OpSchema], operands: Sequence[Type]) -> list[OpSchema]:
    return [schema for schema in schemas if _takes_count(schema, len(operands))]


def _takes_count(schema: OpSchema, count: int) -> bool:
    declared = len(schema.arguments)
    if count > declared:
        return schema.is_vararg
    return all(argument.default is not REQUIRED for argument in schema.arguments[count:])


def _first(schemas: Iterable[OpSchema], operands: Sequence[Type], *, convert: bool) -> OpSchema | None:
    for schema in schemas:
        variables: dict[str, Type] = {}
        if all(
            _passes(type, argument, variables, convert)
            for type, argument in zip(operands, schema.arguments, strict=False)
        ):
            return schema
    return None


def _passes(operand: Type, argument: Argument, variables: dict[str, Type], convert: bool) -> bool:
    if _fits(operand, argument.type, variables, convert):
        return True
    if not convert or argument.length is None:
        return False
    wanted = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
    return isinstance(wanted, ListType) and _fits(operand, wanted.element, variables, convert)


def _fits(operand: Type, wanted: Type, variables: dict[str, Type], convert: bool) -> bool:
    """Whether a value of type `operand` is one of type `wanted`; types nest a few levels, so recursion is safe."""
    if isinstance(wanted, PrimitiveType):
        return _fits_primitive(operand, wanted, variables, convert)
    if isinstance(wanted, TensorType):
        return isinstance(operand, TensorType)
    if isinstance(wanted, OptionalType):
        inner = operand.element if isinstance(operand, OptionalType) else operand
        return operand == NONE or _fits(inner, wanted.element, variables, convert)
    if isinstance(wanted, ListType):
        if isinstance(operand, TupleType) and convert:
            return all(_fits(part, wanted.element, variables, convert) for part in operand.elements)
        return isinstance(operand, ListType) and _fits(operand.element, wanted.element, variables, convert)
    if isinstance(wanted, UnionType):
        members = operand.members if isinstance(operand, UnionType) else (operand,)
        return all(any(_fits(m, w, variables, convert) for w in wanted.members) for m in members)
    return _fits_compound(operand, wanted, variables, convert)


def _fits_primitive(operand: Type, wanted: PrimitiveType, variables: dict[str, Type], convert: bool) -> bool:
    if isinstance(operand, UnionType) and all(member in _NUMBERS for member in operand.members):
        operand = NUMBER
    if operand == wanted or wanted == ANY:
        return True
    if wanted.name in _VARIABLES:
        bound = variables.setdefault(wanted.name, operand)
        return bound is operand or _fits(operand, bound, {}, convert=False)
    if wanted == NUMBER and operand in (INT, FLOAT, COMPLEX):
        return True
    if wanted.name in ("AnyEnumType", "AnyClassType"):
        return isinstance(operand, ClassType)
    if not convert:
        return False
    return wanted in _WIDER.get(operand, ()) or (isinstance(operand, TensorType) and wanted in _NUMBERS)


def _fits_compound(operand: Type, wanted: Type, variables: dict[str, Type], convert: bool) -> bool:
    match operand, wanted:
        case DictType(key, value), DictType(wanted_key, wanted_value):
            return _fits(key, wanted_key, variables, convert) and _fits(value, wanted_value, variables, convert)
        case (FutureType(a), FutureType(b)) | (AwaitType(a), AwaitType(b)) | (RRefType(a), RRefType(b)):
            return _fits(a, b, variables, convert)
        case TupleType(elements), TupleType(wanted_elements):
            return len(elements) == len(wanted_elements) and all(
                _fits(a, b, variables, convert) for a, b in zip(elements, wanted_elements, strict=True)
            )
    return operand == wanted
