"""Torch's type promotion: the element type that an op computes in and returns, from those of its operands.

Operands come in three strengths. Tensors with dimensions decide; tensors without dimensions count only when they are
of a higher kind (bool < integer < float < complex); plain numbers count only when they are of a higher kind than both.
So a float32 tensor plus the number 2.5 or a 0-dim float64 tensor is float32, and an int64 tensor plus 2.5 is the
default float32.

Source: `result_type` in torch's aten/src/ATen/native/TypeProperties.cpp, `promoteTypes` in c10/core/ScalarType.cpp.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import lru_cache
from itertools import product
from typing import Any, Final, NamedTuple

from irscope.ir import BOOL, COMPLEX, FLOAT, INT, TensorType, Type
from irscope.ops.typing.type_rules import Unknown

__all__ = [
    "DEFAULT_FLOAT",
    "DIMENSIONED",
    "NUMBER_STRENGTH",
    "ZERO_DIM",
    "Operand",
    "is_integral",
    "operand_of",
    "opmath",
    "promote_types",
    "result_dtype",
    "to_complex",
    "to_float",
    "to_real",
]

NUMBER_STRENGTH: Final = 0
ZERO_DIM: Final = 1
DIMENSIONED: Final = 2

DEFAULT_FLOAT: Final = "float32"
"""The element type of a Python float, or of an integer that must become a float."""

_UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
_SIGNED: Final = ("int8", "int16", "int32", "int64")
_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
_COMPLEX: Final = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_COMPLEX_OF: Final = {"float16": "complex32", "bfloat16": "complex64", "float32": "complex64", "float64": "complex128"}


class Operand(NamedTuple):
    """The properties of an operand that promotion depends on; None where not known."""

    dtype: str | None
    strength: int | None


def kind_of(dtype: str) -> int:
    """Return 0 for bool, 1 for integers, 2 for floats, 3 for complex numbers."""
    if dtype == "bool":
        return 0
    if dtype in _UNSIGNED or dtype in _SIGNED:
        return 1
    return 3 if dtype in _COMPLEX else 2


def is_integral(dtype: str) -> bool:
    """Whether the type has whole numbers only; bool counts.

    >>> is_integral("uint8"), is_integral("bool"), is_integral("bfloat16")
    (True, True, False)
    """
    return kind_of(dtype) < 2


def to_float(dtype: str) -> str:
    """Return the result type of ops such as `sin`: floats stay, whole numbers become the default float."""
    return DEFAULT_FLOAT if is_integral(dtype) else dtype


def to_real(dtype: str) -> str:
    """Return the type of the parts of a complex number, and of its absolute value; real types stay."""
    return _COMPLEX.get(dtype, dtype)


def to_complex(dtype: str) -> str | None:
    """Return the type of complex numbers with parts of this type; None if there is none."""
    return {part: number for number, part in _COMPLEX.items()}.get(dtype)


def opmath(dtype: str) -> str:
    """Return the type in which torch computes on such elements: float32 for halves."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def promote_types(a: str, b: str) -> str | None:
    """Return the type that two types promote to by torch's rules; None where torch refuses.

    >>> promote_types("uint8", "int8"), promote_types("int64", "float16"), promote_types("float16", "bfloat16")
    ('int16', 'float16', 'float32')
    """
    if a == b:
        return a
    if not {a, b}.isdisjoint(_UNSIGNED[1:]) and kind_of(a) != 2 and kind_of(b) != 2:
        return None  # torch stores the wide unsigned types and computes little with them
    low, high = sorted((a, b), key=kind_of)
    if kind_of(low) != kind_of(high):
        return _promote_up(low, high)
    if kind_of(a) == 1:
        return _promote_integers(a, b)
    if kind_of(a) == 3:
        return max(a, b, key=list(_COMPLEX).index)
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    if a not in _FLOATS or b not in _FLOATS:
        return None
    return max(a, b, key=_FLOATS.index)


def _promote_up(low: str, high: str) -> str | None:
    """Promote types of different kinds: the higher wins, and a complex type becomes wide enough for the float."""
    if kind_of(high) < 3 or kind_of(low) < 2:
        return high
    wanted = _COMPLEX_OF.get(low)
    return None if wanted is None else promote_types(wanted, high)


def _promote_integers(a: str, b: str) -> str | None:
    if "uint8" not in (a, b):
        return max(a, b, key=_SIGNED.index)
    signed = b if a == "uint8" else a
    return "int16" if signed == "int8" else signed


def operand_of(value: Any) -> Operand:
    """Return how a value takes part in promotion: a NumPy array, a `TensorType`, an `Expr`, a number, or an `Unknown` number.

    >>> operand_of(2.5), operand_of(TensorType("int64", ()))
    (Operand(dtype='float32', strength=0), Operand(dtype='int64', strength=1))
    """
    np = sys.modules.get("numpy")  # if NumPy is not imported, no value has its types
    if np is not None and isinstance(value, np.ndarray):
        return _array_operand(value.dtype, value.ndim > 0)
    if isinstance(value, bool) or (np is not None and isinstance(value, np.bool_)):
        return Operand("bool", NUMBER_STRENGTH)
    if isinstance(value, int):
        return Operand("int64", NUMBER_STRENGTH)
    if isinstance(value, float):
        return Operand(DEFAULT_FLOAT, NUMBER_STRENGTH)
    if isinstance(value, complex):
        return Operand("complex64", NUMBER_STRENGTH)
    if isinstance(value, Unknown):
        words: dict[Type, str] = {BOOL: "bool", INT: "int64", FLOAT: DEFAULT_FLOAT, COMPLEX: "complex64"}
        return Operand(words.get(value.type), NUMBER_STRENGTH)
    if isinstance(value, TensorType):
        return Operand(value.dtype, None if value.rank is None else DIMENSIONED if value.rank else ZERO_DIM)
    if np is not None and isinstance(value, np.generic):
        return _array_operand(value.dtype, False)
    is_float_number = value.strength == NUMBER_STRENGTH and kind_of(value.dtype) == 2
    return Operand(DEFAULT_FLOAT if is_float_number else value.dtype, value.strength)


@lru_cache(maxsize=256)
def _array_operand(dtype: Any, has_axes: bool) -> Operand:
    return Operand(str(dtype), DIMENSIONED if has_axes else ZERO_DIM)


def result_dtype(operands: Iterable[Operand]) -> str | None:
    """Return the type that operands promote to; None when it depends on something unknown, or torch refuses.

    >>> result_dtype([Operand("int64", DIMENSIONED), Operand("float32", NUMBER_STRENGTH)])
    'float32'
    >>> result_dtype([Operand("float16", DIMENSIONED), Operand("float64", ZERO_DIM)])
    'float16'
    """
    given = list(operands)
    if any(operand.dtype is None for operand in given):
        return _with_unknowns(given)
    choices = [(operand.strength,) if operand.strength is not None else (ZERO_DIM, DIMENSIONED) for operand in given]
    if sum(len(choice) > 1 for choice in choices) > 4:
        return None
    found = {
        _combined([(o.dtype or "", s) for o, s in zip(given, strengths, strict=True)])
        for strengths in product(*choices)
    }
    return found.pop() if len(found) == 1 else None


def _with_unknowns(operands: list[Operand]) -> str | None:
    """Return the result where some type is unknown: a number of unknown kind does not change a float tensor's type, unless it is
    complex."""
    known = [operand for operand in operands if operand.dtype is not None]
    if any(o.dtype is None and o.strength != NUMBER_STRENGTH for o in operands) or not known:
        return None
    result = result_dtype(known)
    return result if result is not None and kind_of(result) == 2 and known[0].strength != NUMBER_STRENGTH else None


def _combined(operands: list[tuple[str, int]]) -> str | None:
    result: str | None = ""
    for strength in (NUMBER_STRENGTH, ZERO_DIM, DIMENSIONED):
        here: str | None = ""
        for dtype, own in operands:
            if own == strength and here is not None:
                here = promote_types(here, dtype) if here else dtype
        if here is None or result is None:
            return None
        result = _outranked(here, result)
    return result


def _outranked(stronger: str, weaker: str) -> str | None:
    """Combine the type of a stronger operand with that of a weaker one, which counts only if its kind is higher."""
    if not stronger or not weaker:
        return stronger or weaker
    if kind_of(stronger) == 3:
        return stronger
    if kind_of(stronger) == 2:
        return _COMPLEX_OF.get(stronger) if kind_of(weaker) == 3 else stronger
    if stronger == "bool" or kind_of(weaker) >= 2:
        return promote_types(stronger, weaker)
    return stronger
