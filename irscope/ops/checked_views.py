"""Bounds-checked views of NumPy arrays, which never reach outside the memory of their operand.

NumPy's own indexing checks bounds; `as_strided` does not, and reads and writes wherever it is told to. So every view that is
not NumPy indexing is created here. An op's arguments are also checked by its type rule before its reference runs, as torch
checks them: NumPy would silently shorten a slice past the end, and take a dimension that does not exist for another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from irscope.ops.schema import Op
from irscope.ops.schema.define import define
from irscope.ops.typing import Array, array_type, mismatch

__all__ = ["Unbounded", "judged_view", "memory_of", "strided_view"]


class Unbounded(np.ndarray[Any, Any]):
    """An array with a shape and strides but no memory: only the offsets and strides of its views are used, and nothing is read."""


class _Window:
    """A view of part of an array's memory with another layout; keeps the array alive."""

    def __init__(self, base: Array, address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.base = base
        self.__array_interface__ = base.__array_interface__ | {
            "data": (address, not base.flags.writeable), "shape": shape, "strides": strides,
        }  # fmt: skip


def strided_view(
    self: Array, shape: Sequence[int], strides: Sequence[int], offset: int | None = None, *, op: str = "as_strided"
) -> Array:
    """Return a view of an array's memory with other extents and strides, as `torch.as_strided` does, but with strides and offset
    in bytes. `offset` counts from the start of the memory; None means the array's own. Raises ArgumentError if the view is out of bounds.

    >>> strided_view(np.arange(6.0), (2, 2), (16, 8), 8).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    shape, strides = tuple(map(int, shape)), tuple(map(int, strides))
    if len(shape) != len(strides):
        raise mismatch(f"{op} is given {len(shape)} extents and {len(strides)} strides", rule="view-bounds")
    if min(shape, default=0) < 0:
        raise mismatch(f"{op} takes no negative extent: {min(shape)}", rule="view-bounds")
    _, first, last = memory_of(self)
    here = _address(self)
    start = here if offset is None else first + offset
    if offset is not None and (offset < 0 or min(strides, default=0) < 0):
        raise mismatch(f"{op} takes no negative offset or stride", rule="view-bounds")
    reach = [(size - 1) * step for size, step in zip(shape, strides, strict=True)]
    low, high = start + sum(min(0, step) for step in reach), start + sum(max(0, step) for step in reach) + self.itemsize
    if prod(shape) and not isinstance(self, Unbounded) and not first <= low <= high <= last:
        raise mismatch(
            f"{op} reaches from byte {low - first} to {high - first} of memory that has {last - first}",
            rule="view-bounds",
        )
    if not prod(shape):
        return as_strided(self, shape, (0,) * len(shape), subok=isinstance(self, Unbounded))
    strides = tuple(step if abs(step) < 2**62 else 0 for step in strides)  # the step of an extent of 1 is never taken
    if start == here:
        return as_strided(self, shape, strides, subok=isinstance(self, Unbounded))
    return np.asarray(_Window(self, start, shape, strides))


def memory_of(array: Array) -> tuple[Array, int, int]:
    """Return the array that owns the memory of an array, and the addresses where that memory starts and ends."""
    whole, base = array, cast(Any, array.base)
    while base is not None:
        if not isinstance(base, np.ndarray):  # an object that `as_strided` inserts, or memory that is not NumPy's
            base = getattr(base, "base", None)
            if not isinstance(base, np.ndarray):
                break
        whole, base = base, base.base
    first = _address(whole)
    if not whole.size:
        return whole, first, first
    reach = [(size - 1) * step for size, step in zip(whole.shape, whole.strides, strict=True)]
    return whole, first + sum(min(0, r) for r in reach), first + sum(max(0, r) for r in reach) + whole.itemsize


def judged_view(*texts: str, rule: Callable[..., Any], array: Callable[..., Any]) -> Op:
    """A view op whose reference first checks that the op's type rule accepts the actual arguments."""

    def checked(*given: Any, **arguments: Any) -> Any:
        rule(*map(_typed, given), **{name: _typed(argument) for name, argument in arguments.items()})
        return array(*given, **arguments)

    return define(*texts, category="view", type_rule=rule, reference=checked)


def _typed(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return array_type(argument)
    if isinstance(argument, list | tuple):
        return [_typed(each) for each in argument]
    return argument


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
