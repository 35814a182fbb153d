"""Bounds-checked views of NumPy arrays, which never reach outside the memory of their operand.

NumPy's own indexing checks bounds; `as_strided` does not, and reads and writes wherever it is told to. So every view that is
not NumPy indexing is created here. An op's arguments are also checked by its type rule before its reference runs, as torch
checks them: NumPy would silently shorten a slice past the end, and take a dimension that does not exist for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from irscope.ops.typing import Array, mismatch

__all__ = ["Unbounded", "address_of", "memory_of", "strided_view", "view_at"]


class Unbounded(np.ndarray[Any, Any]):
    """An array with a shape and strides but no memory: only the offsets and strides of its views are used, and nothing is read."""


def strided_view(
    self: Array, shape: Sequence[int], strides: Sequence[int], offset: int | None = None, *, op: str = "as_strided"
) -> Array:
    """Return a view of an array's memory with other extents and strides, as `torch.as_strided` does, but with strides and offset
    in bytes. `offset` counts from the start of the memory; None means the array's own. Raises ArgumentError if the view is out of bounds.

    >>> strided_view(np.arange(6.0), (2, 2), (16, 8), 8).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    first = memory_of(self)[1]
    if offset is not None and (offset < 0 or min(strides, default=0) < 0):
        raise mismatch(f"{op} takes no negative offset or stride", rule="view-bounds")
    return view_at(self, shape, strides, address_of(self) if offset is None else first + offset, op=op)


def view_at(self: Array, shape: Sequence[int], strides: Sequence[int], start: int, *, op: str) -> Array:
    """Return a view of an array's memory that begins at an address. Raises ArgumentError if it is out of bounds.

    >>> row = np.arange(6.0)
    >>> view_at(row, (2, 2), (16, 8), address_of(row) + 8, op="a view").tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
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
            raise mismatch(
                f"{op} reaches from byte {low - first} to {high - first} of memory that has {last - first}",
                rule="view-bounds",
            )
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
