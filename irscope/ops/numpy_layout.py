"""Maps torch's tensors to the arrays of the NumPy reference: element types, and the layout of an array as a `TensorType`.

NumPy has no bfloat16: the reference holds such tensors as float32 values, which is at least as precise.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from irscope.errors import RunError
from irscope.ir import Dim, TensorType
from irscope.ops.type_rules import (
    Abstract,
    Unknown,
    channels_last_strides,
    contiguous_strides,
    dtype_name,
    fresh,
    like_strides,
    mismatch,
    refined,
    static_shape,
    suggests_channels_last,
)

Array = np.ndarray[Any, Any]

_STAND_INS = {"bfloat16": "float32", "complex32": "complex64"}


def array_type(array: Array) -> TensorType:
    """Return the type of a NumPy array, with shape and strides.

    >>> str(array_type(np.zeros((2, 3), np.float32).T))
    'Float(3, 2, strides=[1, 3])'
    """
    if not array.size:  # NumPy's strides are arbitrary then
        return TensorType(_name(array.dtype), array.shape, contiguous_strides(array.shape))
    item = array.itemsize
    return TensorType(_name(array.dtype), array.shape, tuple([step // item for step in array.strides]))


@lru_cache(maxsize=256)
def _name(dtype: np.dtype[Any]) -> str:
    """Return the name of an element type, which takes NumPy longer than a small op."""
    return str(dtype)


def numpy_dtype(argument: Any, default: Any) -> np.dtype[Any]:
    """Return NumPy's element type for a `dtype` argument; None means the default.

    >>> numpy_dtype(15, np.int64), numpy_dtype(None, np.int64)
    (dtype('float32'), dtype('int64'))
    """
    if argument is None:
        default_dtype: np.dtype[Any] = np.dtype(default)
        return default_dtype
    name = dtype_name(argument, None)
    if name is None:
        raise RunError(f"{argument!r} is not an element type")
    try:
        found: np.dtype[Any] = np.dtype(_STAND_INS.get(name, name))
    except TypeError:
        raise RunError(f"NumPy has no element type for {name}") from None
    return found


def at(array: Array, *index: Any) -> Array:
    """Return `array[index]`, for an index whose number of entries is not known statically."""
    part: Array = array[index]
    return part


def laid_out_like(self: TensorType, dtype: str | None, memory_format: Abstract = None) -> TensorType:
    """Return the type of `empty_like`: the argument's strides where it is dense, unless a memory format is given.

    >>> str(laid_out_like(TensorType("float32", (2, 3), (1, 2)), "int64"))
    'Long(2, 3, strides=[1, 2])'
    """
    shape = static_shape(self)
    if shape is None or isinstance(memory_format, Unknown):
        return refined(dtype, self.shape)
    if memory_format == 0:
        return refined(dtype, shape, contiguous_strides(shape))
    if memory_format in (2, 3):
        if len(shape) != memory_format + 2:
            form = "channels_last" if memory_format == 2 else "channels_last_3d"
            raise mismatch(f"a tensor of rank {len(shape)} has no {form} layout", rule="memory-format")
        return refined(dtype, shape, channels_last_strides(shape))
    return refined(dtype, shape, None if self.strides is None else like_strides(shape, self.strides))


def channels_last_copy(array: Array) -> Array:
    """Return the same elements with channels (axis 1) innermost in memory."""
    back = (0, array.ndim - 1, *range(1, array.ndim - 1))
    return np.ascontiguousarray(np.moveaxis(array, 1, -1)).transpose(back)


def type_suggests_channels_last(type: TensorType) -> bool | None:
    """Whether torch gives a result of this tensor the channels-last format; None when its strides are not known."""
    shape = static_shape(type)
    if type.rank is not None and type.rank not in (4, 5):
        return False
    if shape is None or type.strides is None:
        return None
    return suggests_channels_last(shape, type.strides)


def in_format(dtype: str | None, shape: Sequence[Dim] | None, *formats: bool | None) -> TensorType:
    """Return a type that is channels-last if every operand is (`type_suggests_channels_last`), and row-major if one is not.

    >>> str(in_format("float32", (2, 3, 4, 5), True)), str(in_format("float32", (2, 3), True, None))
    ('Float(2, 3, 4, 5, strides=[60, 1, 15, 3])', 'Float(2, 3)')
    """
    if False in formats:
        return fresh(dtype, shape)
    known = static_shape(refined(dtype, shape))
    return refined(dtype, shape, channels_last_strides(known) if None not in formats and known is not None else None)


def mean_of(array: Array, axis: tuple[int, ...], *, keepdims: bool = False) -> Array:
    """Return the mean along some axes; NaN for no elements, as in torch, and without NumPy's warning."""
    shape = array.shape
    count = prod([shape[each] for each in axis])
    with np.errstate(all="ignore"):
        total = array.sum(axis=axis, keepdims=keepdims)
        return np.asarray(np.divide(total, np.asarray(count, array.dtype)))


# Bounds-checked views of NumPy arrays, which never reach outside the memory of their operand.
#
# NumPy's own indexing checks bounds; `as_strided` does not, and reads and writes wherever it is told to. So every view that is
# not NumPy indexing is created here. An op's arguments are also checked by its type rule before its reference runs, as torch
# checks them: NumPy would silently shorten a slice past the end, and take a dimension that does not exist for another.


class Unbounded(np.ndarray[Any, Any]):
    """An array with a shape and strides but no memory: only the offsets and strides of its views are used, and nothing is read."""


def view_at(self: Array, shape: Sequence[int], strides: Sequence[int], start: int, *, op: str) -> Array:
    """Return a view of an array's memory that begins at an address. Raises ArgumentError if it is out of bounds."""
    shape, strides = tuple(map(int, shape)), tuple(map(int, strides))
    if len(shape) != len(strides):
        raise mismatch(f"{op} is given {len(shape)} extents and {len(strides)} strides", rule="view-bounds")
    if min(shape, default=0) < 0:
        raise mismatch(f"{op} takes no negative extent: {min(shape)}", rule="view-bounds")
    if not prod(shape):
        return as_strided(self, shape, (0,) * len(shape), subok=isinstance(self, Unbounded))
    if not isinstance(self, Unbounded):
        _, first, last = memory_of(self)
        reach = [(size - 1) * step for size, step in zip(shape, strides, strict=True)]
        low, high = start + sum(min(0, step) for step in reach), start + sum(max(0, step) for step in reach) + self.itemsize
        if not first <= low <= high <= last:
            raise mismatch(f"{op} reaches from byte {low - first} to {high - first} of memory that has {last - first}", rule="view-bounds")
    strides = tuple(step if abs(step) < 2**62 else 0 for step in strides)  # the step of an extent of 1 is never taken
    here = address_of(self)
    if start != here:  # of two elements at this distance, the second; neither is read
        self = as_strided(self, (2,), (start - here,), subok=isinstance(self, Unbounded))[1:]
    return as_strided(self, shape, strides, subok=isinstance(self, Unbounded))


def memory_of(array: Array) -> tuple[Array, int, int]:
    """Return the array that owns the memory of an array, and the addresses where that memory starts and ends."""
    whole, base = array, cast(Any, array.base)
    while base is not None:
        if not isinstance(base, np.ndarray):  # an object that `as_strided` inserts, or memory that is not NumPy's
            base = getattr(base, "base", None)
            if not isinstance(base, np.ndarray):
                break
        whole, base = base, base.base
    first = address_of(whole)
    if not whole.size:
        return whole, first, first
    reach = [(size - 1) * step for size, step in zip(whole.shape, whole.strides, strict=True)]
    return whole, first + sum(min(0, r) for r in reach), first + sum(max(0, r) for r in reach) + whole.itemsize


def address_of(array: Array) -> int:
    """Return the address of an array's first element."""
    address: int = array.__array_interface__["data"][0]
    return address
