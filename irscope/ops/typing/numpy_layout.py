"""Maps torch's tensors to the arrays of the NumPy reference: element types, and the layout of an array as a `TensorType`.

NumPy has no bfloat16: the reference holds such tensors as float32 values, which is at least as precise.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from irscope.errors import RunError
from irscope.ir import TensorType
from irscope.ops.typing.strides import channels_last_strides, contiguous_strides, like_strides, suggests_channels_last
from irscope.ops.typing.type_rules import Abstract, Unknown, dtype_name, mismatch, refined, static_shape

__all__ = [
    "Array", "array_type", "at", "channels_last_copy", "laid_out_like", "mean_of", "numpy_dtype", "type_suggests_channels_last",
]  # fmt: skip

Array = np.ndarray[Any, Any]

_STAND_INS = {"bfloat16": "float32", "complex32": "complex64"}


def array_type(array: Array) -> TensorType:
    """Return the type of a NumPy array, with shape and strides.

    >>> str(array_type(np.zeros((2, 3), np.float32).T))
    'Float(3, 2, strides=[1, 3])'
    """
    if not array.size:  # NumPy's strides are arbitrary then
        return TensorType(str(array.dtype), array.shape, contiguous_strides(array.shape))
    return TensorType(str(array.dtype), array.shape, tuple(step // array.itemsize for step in array.strides))


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
    """Return `array[index]`, for an index whose number of entries is not known statically.

    >>> at(np.arange(6).reshape(2, 3), *[slice(None)] * 1, 2).tolist()
    [2, 5]
    """
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


def mean_of(array: Array, axes: tuple[int, ...], *, keepdims: bool = False) -> Array:
    """Return the mean along some axes; NaN for no elements, as in torch, and without NumPy's warning."""
    count = prod(array.shape[axis] for axis in axes)
    with np.errstate(all="ignore"):
        total = array.sum(axis=axes, keepdims=keepdims)
        return np.asarray(np.divide(total, np.asarray(count, array.dtype)))
