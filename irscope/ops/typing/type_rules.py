"""The arguments and results of type rules: the protocol between an op and `irscope.analysis.shapes`.

A rule is called with its schema's arguments by name, like the op itself, as abstract values:

* a tensor is a `TensorType`, refined as far as is known;
* a number, string, device or `None` that is known is itself, otherwise `Unknown(type)`;
* a tuple or list whose length is known is a Python tuple or list of abstract values, otherwise `Unknown(type)`.

It returns abstract values too: one for an op with one result, a tuple of them for several. A rule never guesses:
a field that it cannot infer stays `None`. It raises `ArgumentError` only when *every* run with such arguments must fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from irscope.errors import ArgumentError
from irscope.ir import DTYPES, INT, Dim, TensorType, Type
from irscope.ops.typing.strides import contiguous_strides

__all__ = [
    "DTYPE_CODES",
    "FLOAT_DTYPES",
    "Abstract",
    "Unknown",
    "as_dims",
    "broadcast",
    "dim_value",
    "dtype_name",
    "fresh",
    "is_known",
    "known_ints",
    "mismatch",
    "refined",
    "same_dim",
    "static_shape",
    "wrap_dim",
]

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
