"""A layout that a value must have, demanded by a caller, a kernel or a user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from irscope.errors import ArgumentError
from irscope.ops.view_steps import Layout, memory_order, row_major

__all__ = ["Demand", "as_demand"]


@dataclass(frozen=True, slots=True)
class Demand:
    """The order of the axes in memory, the slowest first, and a flag for each in that order.

    A flag is True (the next index is just past everything that the axes after it cover), False (it may be further away), or None
    (the axis has one index, or all its indices are the same elements). A demand that allows gaps is also met without them.
    """

    order: tuple[int, ...]
    contiguity: tuple[bool | None, ...]

    def is_met(self, layout: Layout) -> bool:
        """Whether a layout meets the demand; axes of one index never matter.

        >>> Demand((0, 1), (False, True)).is_met(Layout((2, 3), (3, 1), 0, None)), Demand((1, 0), (True, True)).is_met(
        ...     Layout((2, 3), (3, 1), 0, None)
        ... )
        (True, False)
        """
        shape, strides = layout.shape, layout.strides
        if strides is None or len(shape) != len(self.order):
            return False
        flag = dict(zip(self.order, self.contiguity, strict=True))
        moving = [axis for axis in self.order if shape[axis] != 1 and not (flag[axis] is None and strides[axis] == 0)]
        inner = [axis for axis in layout.order if axis in moving]
        if [axis for axis in moving if strides[axis] != 0] != [axis for axis in inner if strides[axis] != 0]:
            return False
        past: object = 1
        for axis in reversed(moving):
            if flag[axis] is True and strides[axis] != past:
                return False
            past = strides[axis] * shape[axis]
        return True

    def layout(self, like: Layout) -> Layout:
        """The dense layout with the extents of `like` that meets the demand."""
        strides = row_major([like.shape[axis] for axis in self.order])
        back = tuple(strides[self.order.index(axis)] for axis in range(len(self.order)))
        return Layout(like.shape, back, 0, like.dtype)


def as_demand(given: Demand | Sequence[int] | str, rank: int) -> Demand:
    """A demand for a dense layout from an order of the axes or `"rows"`, `"columns"` or `"channels_last"`; a `Demand` as it is.

    >>> as_demand("channels_last", 4).order, as_demand("columns", 3).order
    ((0, 2, 3, 1), (2, 1, 0))
    """
    if isinstance(given, Demand):
        return given
    if isinstance(given, str):
        if given not in ("rows", "columns", "channels_last") or (given == "channels_last" and rank not in (4, 5)):
            raise ArgumentError(
                f"{given!r} is not a layout of a tensor of {rank} axes",
                hint="'rows', 'columns', 'channels_last' (rank 4 or 5), or the axes in memory order",
            )
        order = tuple(range(rank))[::-1] if given == "columns" else memory_order(2 * (given == "channels_last"), rank)
    else:
        order = tuple(given)
    if sorted(order) != list(range(rank)):
        raise ArgumentError(f"{order} does not name each of {rank} axes once", hint="give the axes in memory order, the slowest first")
    return Demand(order, (True,) * rank)
