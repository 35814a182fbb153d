"""Converts a constant's elements to another element type, with the bits that torch and NumPy give."""

from __future__ import annotations

from typing import Final

import numpy as np

from irscope.transforms.dedup.constants.stored import Array, Stored

__all__ = ["converted", "is_castable"]

_FLOATS: Final = ("float64", "float32", "bfloat16", "float16")
_INTEGERS: Final = ("int64", "int32", "int16", "int8", "uint8")


def is_castable(dtype: str) -> bool:
    """Whether conversions of a type are known here: all but those of quantised types, complex numbers and 8-bit floats."""
    return dtype in _FLOATS or dtype in _INTEGERS or dtype == "bool"


def converted(one: Stored, dtype: str) -> Array:
    """Returns the elements of a constant converted to another type, as unsigned integers of their size.

    Floats are rounded to the nearest, ties to even; integers wrap around, as in C. For a NaN, or a float outside the range of
    the integer type, the result is arbitrary: two constants then differ, or agree by chance and are compared.
    """
    array = one.data.array
    assert array is not None
    flat = np.ascontiguousarray(array).reshape(-1)
    if one.data.dtype == "bfloat16":
        flat = (flat.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if dtype == "bfloat16":
        with np.errstate(all="ignore"):
            return _rounded(flat.astype(np.float32))
    with np.errstate(all="ignore"):
        made = flat.astype(dtype)
    return made.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[made.dtype.itemsize])


def _rounded(floats: Array) -> Array:
    """The upper halves of float32 numbers, rounded to the nearest, ties to even; a NaN stays a NaN."""
    bits = floats.view(np.uint32)
    halves = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(floats), np.uint16(0x7FC0), halves)
