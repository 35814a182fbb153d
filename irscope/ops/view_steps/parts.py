"""View ops that return parts of a tensor: slices, diagonals, windows, pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from irscope.ops.pieces import MOST_PIECES, chunks_of, pieces_of, sections_of
from irscope.ops.view_steps.axes import same_if_real
from irscope.ops.view_steps.extents import Extent, Num, is_at_least, quotient
from irscope.ops.view_steps.operand import NotKnown, Operand, Rules, Steps, aten, whole
from irscope.ops.view_steps.steps import Cut, Diagonal, Pick, Place, Window

__all__ = ["RULES"]

_FAR: Final = 2**62
"""From here on, an end of a slice means the end of the axis."""


def _select(self: Operand) -> Steps:
    axis, index = self.own_axis("dim"), self.num("index")
    if isinstance(index, int) and index < 0:
        index = self.shape[axis] + index
    elif isinstance(index, Extent) and not is_at_least(index, 0):
        index = None
    return (Pick(axis, index),)


def _slice(self: Operand) -> Steps:
    axis, step = self.own_axis("dim"), self.whole("step")
    extent, given = self.shape[axis], self.given
    if step < 1 or not self.rank:
        raise NotKnown
    start = _bound(0 if given["start"] is None else self.num("start"), extent)
    end = _bound(extent if given["end"] is None else self.num("end"), extent)
    if start is None or end is None:
        raise NotKnown
    return (Cut(axis, start, _count(start, end, step), step),)


def _bound(bound: Num | None, extent: Num) -> Num | None:
    """Return where a slice starts or ends: counted from the end if negative, and clamped to the extent; None where not known."""
    if isinstance(bound, int) and bound < 0:
        if isinstance(extent, int):
            return max(extent + bound, 0)
        bound = extent + bound
        return bound if is_at_least(bound, 0) else Extent.of(f"max({bound}, 0)")
    if bound is None or (isinstance(bound, Extent) and not is_at_least(bound, 0)):
        return None
    if is_at_least(extent, bound):
        return bound
    if is_at_least(bound, extent) or (isinstance(bound, int) and bound >= _FAR):
        return extent
    return Extent.of(f"min({bound}, {extent})")


def _count(start: Num, end: Num, step: int) -> Num:
    length = end - start
    if isinstance(length, int):
        return max(-(-length // step), 0)
    if not is_at_least(length, 0):
        length = Extent.of(f"max({length}, 0)")
    if step == 1:
        return length
    exact = quotient(length, step)
    return Extent.of(f"ceil(({length})/{step})") if exact is None else exact


def _narrow(self: Operand) -> Steps:
    axis, start = self.own_axis("dim"), self.num("start")
    (length,) = self.nums("length")
    if isinstance(start, int) and start < 0:
        start = self.shape[axis] + start
    elif isinstance(start, Extent) and not is_at_least(start, 0):
        start = None
    return (Cut(axis, start, length),)


def _diagonal(self: Operand) -> Steps:
    offset, rows, columns = self.whole("offset"), self.own_axis("dim1"), self.own_axis("dim2")
    tall, wide = self.shape[rows], self.shape[columns]
    if isinstance(tall, int) and isinstance(wide, int):
        length: Num = max(min(tall, wide - offset) if offset >= 0 else min(tall + offset, wide), 0)
    elif offset == 0 and (is_at_least(wide, tall) or is_at_least(tall, wide)):
        length = tall if is_at_least(wide, tall) else wide
    else:
        length = Extent.of(f"diagonal({tall}, {wide}, {offset})")
    return (Diagonal(offset, rows, columns, length),)


def _unfold(self: Operand) -> Steps:
    size, step = self.whole("size"), self.positive("step")
    if not self.rank:
        return (Place((size,), (1,), None),)
    axis = self.own_axis("dimension")
    extent = self.shape[axis]
    count = quotient(extent - size, step) if isinstance(extent, Extent) else (extent - size) // step
    return (Window(axis, size, step, (Extent.of(f"({extent - size})//{step}") if count is None else count) + 1),)


def _as_strided(self: Operand) -> Steps:
    offset = self.given["storage_offset"]
    return _placed(self, None if offset is None else self.nums("storage_offset")[0])


def _reshape_alias(self: Operand) -> Steps:
    return _placed(self, None)


def _placed(self: Operand, offset: Num | None) -> Steps:
    sizes, strides = self.nums("size"), self.nums("stride")
    if len(sizes) != len(strides) or any(isinstance(size, int) and size < 0 for size in sizes):
        raise NotKnown
    return (Place(sizes, strides, offset),)


def _pieces(axis: int, sizes: Sequence[Num] | None) -> list[Steps]:
    if sizes is None:
        raise NotKnown
    found: list[Steps] = []
    start: Num = 0
    for size in sizes:
        found.append((Cut(axis, start, size),))
        start = start + size
    return found


def _chunk(self: Operand) -> list[Steps]:
    axis = self.own_axis("dim")
    return _pieces(axis, chunks_of(self.extent(axis), self.positive("chunks")))


def _split(self: Operand) -> list[Steps]:
    name = next(name for name in ("split_size", "split_sizes") if self.given.get(name) is not None)
    axis = self.own_axis("dim")
    if isinstance(self.given[name], list | tuple):
        return _pieces(axis, self.nums(name))
    extent, size = self.extent(axis), self.whole(name)
    if size < 0 or (size == 0 and extent):
        raise NotKnown
    return _pieces(axis, pieces_of(extent, size))


def _unless_conjugate(rule: Callable[[Operand], list[Steps]]) -> Callable[[Operand], list[Steps]]:
    """Restrict a rule to tensors that are not lazily conjugated: torch materializes a conjugate before an op that declares no view,
    and then the parts are views of a copy."""

    def pieces(self: Operand) -> list[Steps]:
        same_if_real(self)
        return rule(self)

    return pieces


def _unbind(self: Operand) -> list[Steps]:
    axis = self.own_axis("dim")
    extent = self.extent(axis)
    if extent > MOST_PIECES:
        raise NotKnown
    return [(Pick(axis, index),) for index in range(extent)]


def _cut_at(self: Operand, axis: int, name: str, sections: str) -> list[Steps]:
    """Return the steps of `tensor_split`: into a number of parts, the first ones larger by one, or at given indices."""
    extent = self.extent(axis)
    if self.given.get(sections) is not None:
        return _pieces(axis, sections_of(extent, self.positive(sections)))
    ends = [whole(_bound(place, extent)) for place in self.nums(name)]
    cuts = zip([0, *ends], [*ends, extent], strict=True)
    return [(Cut(axis, start, max(end - start, 0)),) for start, end in cuts]


def _tensor_split(self: Operand) -> list[Steps]:
    return _cut_at(self, self.own_axis("dim"), "indices", "sections")


def _cut_along(first: int) -> Callable[[Operand], list[Steps]]:
    """Return the rule of `hsplit`, `vsplit` or `dsplit`, which split along a fixed axis."""

    def pieces(self: Operand) -> list[Steps]:
        axis = 0 if first == 1 and self.rank == 1 else first
        if axis >= self.rank:
            raise NotKnown
        return _cut_at(self, axis, "indices", "sections")

    return pieces


RULES: Final[Rules] = aten({
    "select": _select,
    "slice": _slice,
    "narrow": _narrow,
    "diagonal linalg_diagonal": _diagonal,
    "unfold": _unfold,
    "as_strided": _as_strided,
    "_reshape_alias": _reshape_alias,
    "chunk": _chunk,
    "split split_with_sizes": _split,
    "unsafe_chunk": _unless_conjugate(_chunk),
    "unsafe_split unsafe_split_with_sizes": _unless_conjugate(_split),
    "unbind": _unbind,
    "tensor_split": _tensor_split,
    "hsplit": _cut_along(1), "vsplit": _cut_along(0), "dsplit": _cut_along(2),
})  # fmt: skip
