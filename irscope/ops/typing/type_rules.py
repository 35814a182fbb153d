"""The arguments and results of type rules: the protocol between an op and `irscope.analysis.shapes`.

A rule is called with its schema's arguments by name, like the op itself, as abstract values:

* a tensor is a `TensorType`, refined as far as is known;
* a number, string, device or `None` that is known is itself, otherwise `Unknown(type)`;
* a tuple or list whose length is known is a Python tuple or list of abstract values, otherwise `Unknown(type)`.

It returns abstract values too: one for an op with one result, a tuple of them for several. A rule never guesses:
a field that it cannot infer stays `None`. It raises `ArgumentError` only when *every* run with such arguments must fail.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Final, NamedTuple

from irscope.errors import ArgumentError
from irscope.ir import BOOL, COMPLEX, DTYPES, FLOAT, INT, Dim, TensorType, Type
from irscope.ops.typing.strides import contiguous_strides

SLIPS: Final = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError)
"""The exceptions of a type rule for arguments that it does not cover, and of a reference whose op fails."""

Abstract = Any
"""An abstract value, as described above; Python's type system has no more precise type for it."""

DTYPE_CODES: dict[int, str] = dict(
    enumerate(
        (
            "uint8",
            "int8",
            "int16",
            "int32",
            "int64",
            "float16",
            "float32",
            "float64",
            "complex32",
            "complex64",
            "complex128",
            "bool",
            "qint8",
            "quint8",
            "qint32",
            "bfloat16",
            "quint4x2",
            "quint2x4",
            "bits1x8",
            "bits2x4",
            "bits4x2",
            "bits8",
            "bits16",
            "float8_e5m2",
            "float8_e4m3fn",
            "float8_e5m2fnuz",
            "float8_e4m3fnuz",
            "uint16",
            "uint32",
            "uint64",
        )
    )
)
"""The element type for each integer that TorchScript writes for one."""

FLOAT_DTYPES = frozenset(name for name in DTYPES if name.startswith(("float", "bfloat")))
"""The real floating-point element types."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value of which only the type is known.

    >>> Unknown(INT, "the length of an input list")
    Unknown(type=PrimitiveType(name='int'), because='the length of an input list')
    """

    type: Type
    because: str = ""
    """Why nothing more is known; empty when that is obvious."""


def is_known(value: Abstract) -> bool:
    """Whether a value and all its parts are known, so that Python can compute with it.

    >>> is_known([1, (2.0, None)]), is_known([1, Unknown(INT)]), is_known(TensorType("float32", (2,)))
    (True, False, False)
    """
    if isinstance(value, list | tuple):
        return all(map(is_known, value))
    return not isinstance(value, Unknown | TensorType)


def mismatch(what: str, *, rule: str = "") -> ArgumentError:
    """Return the error of a rule whose op must fail; `irscope.analysis.shapes` adds the location."""
    return ArgumentError(what, rule=rule)


def dtype_name(argument: Abstract, default: str | None) -> str | None:
    """Return the element type of a `dtype` argument: the default for `None`, unknown for an unknown number.

    >>> dtype_name(6, "int64"), dtype_name(None, "int64"), dtype_name(Unknown(INT), "int64")
    ('float32', 'int64', None)
    """
    if argument is None:
        return default
    if isinstance(argument, str):
        name = argument.removeprefix("torch.")
        return name if name in DTYPES else None
    return DTYPE_CODES.get(argument) if isinstance(argument, int) else None


def as_dims(value: Abstract) -> list[Dim] | None:
    """Return a list of extents as dimensions, unknown ones as `None`; None when even their number is unknown.

    >>> as_dims([2, Unknown(INT)]), as_dims(7), as_dims(Unknown(INT))
    ([2, None], [7], [None])
    """
    if isinstance(value, Unknown):
        return [None] if value.type == INT else None
    if isinstance(value, list | tuple):
        return [dim_value(item) for item in value]
    return [dim_value(value)]


def dim_value(value: Abstract) -> Dim:
    """Return an extent as a dimension, None if it is unknown."""
    return int(value) if isinstance(value, int) else None


def known_ints(value: Abstract) -> list[int] | None:
    """Return a list of integers if all are known, otherwise None; one integer counts as a list of one."""
    dims = as_dims(value)
    if dims is None or not all(isinstance(dim, int) for dim in dims):
        return None
    return [dim for dim in dims if isinstance(dim, int)]


def wrap_dim(dim: int, rank: int, *, op: str = "this op") -> int:
    """Return a dimension number counted from the front; a tensor of rank 0 counts as one of rank 1, as in torch.

    >>> wrap_dim(-1, 3)
    2
    """
    span = max(rank, 1)
    if not -span <= dim < span:
        raise mismatch(f"dimension {dim} does not exist: {op} reads a tensor of rank {rank}", rule="dimension-range")
    return dim % span


def static_shape(type: TensorType) -> tuple[int, ...] | None:
    """Return the extents if all are known numbers, otherwise None."""
    if type.shape is None or not all(isinstance(dim, int) for dim in type.shape):
        return None
    return tuple(dim for dim in type.shape if isinstance(dim, int))


def fresh(dtype: str | None, shape: Sequence[Dim] | None) -> TensorType:
    """Return the type of a row-major tensor that the op allocates.

    >>> str(fresh("float32", (2, 3)))
    'Float(2, 3, strides=[3, 1])'
    """
    if shape is None:
        return TensorType(dtype)
    if all(isinstance(dim, int) for dim in shape):
        sizes = [dim for dim in shape if isinstance(dim, int)]
        return TensorType(dtype, tuple(sizes), contiguous_strides(sizes))
    return TensorType(dtype, tuple(shape))


def refined(dtype: str | None, shape: Sequence[Dim] | None, strides: Sequence[int] | None = None) -> TensorType:
    """Return the type of a tensor with explicit strides; None for unknown ones."""
    return TensorType(dtype, None if shape is None else tuple(shape), None if strides is None else tuple(strides))


def same_dim(a: Dim, b: Dim, *, what: str, rule: str) -> Dim:
    """Return the extent that two must share: a number wins over a symbol. Raises ArgumentError for two different numbers."""
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise mismatch(f"{what}: {a} against {b}", rule=rule)
    return a if isinstance(a, int) or b is None else b


def broadcast(*shapes: Sequence[Dim] | None) -> tuple[Dim, ...] | None:
    """Return the shape that tensors broadcast to, or None when some rank is unknown.

    >>> broadcast((2, 1, 4), (3, 1)), broadcast((None, 4), (1, 4)), broadcast((None,), (5,))
    ((2, 3, 4), (None, 4), (5,))
    """
    if any(shape is None for shape in shapes):
        return None
    known = [tuple(shape) for shape in shapes if shape is not None]
    rank = max(map(len, known), default=0)
    result: list[Dim] = [1] * rank
    for shape in known:
        for axis, dim in enumerate(shape, rank - len(shape)):
            result[axis] = _broadcast_dim(result[axis], dim, known)
    return tuple(result)


def _broadcast_dim(a: Dim, b: Dim, shapes: Sequence[tuple[Dim, ...]]) -> Dim:
    if a == 1 or a == b:
        return b
    if b == 1:
        return a
    if isinstance(a, int) and isinstance(b, int):
        text = " and ".join(
            "(" + ", ".join("*" if dim is None else str(dim) for dim in shape) + ")" for shape in shapes
        )
        raise mismatch(f"shapes {text} do not broadcast: {a} against {b}", rule="broadcast")
    if isinstance(a, int):  # the other is unknown: 1 or this one
        return a
    return b if isinstance(b, int) else None


# Torch's type promotion: the element type that an op computes in and returns, from those of its operands.
#
# Operands come in three strengths. Tensors with dimensions decide; tensors without dimensions count only when they are
# of a higher kind (bool < integer < float < complex); plain numbers count only when they are of a higher kind than both.
# So a float32 tensor plus the number 2.5 or a 0-dim float64 tensor is float32, and an int64 tensor plus 2.5 is the
# default float32.
#
# Source: `result_type` in torch's aten/src/ATen/native/TypeProperties.cpp, `promoteTypes` in c10/core/ScalarType.cpp.

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
