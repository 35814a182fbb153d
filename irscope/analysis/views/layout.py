"""How a tensor lies in its buffer: where it begins, how far its elements are apart, and in which order of the axes.

Strides count elements, the offset counts bytes from the first element of the root. Any of these numbers may be an
`Extent`: a name, or a sum of products of names, for what is known only at run time. The order of the axes and one flag for
each follow from the strides; flags are what stays true when the sizes change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from irscope._base.frozen import fast_constructor
from irscope.analysis.views.byte_sets import ByteSet, SymbolicBytes, byte_set, symbolic_bytes
from irscope.ir import STORED_SIZE
from irscope.ops.view_steps import Num, is_at_least

__all__ = ["Flag", "Layout", "flags_of", "make_layout"]

Flag = Literal["contiguous", "gap", "broadcast", "expanded"]
"""contiguous: an index further along the axis is just past all that the axes after it cover. gap: it may be further away.
broadcast: the axis has one index. expanded: all its indices are the same elements."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of a tensor lie in the buffer of its root.

    >>> layout = Layout((2, 3), (1, 2), 0, "float32")
    >>> print(layout)
    2×3, strides (1, 2), axes in memory order 1 0
    >>> layout.order, layout.contiguity, layout.bytes
    ((1, 0), (True, True), ByteSet(start=0, width=24, counts=(), steps=()))
    """

    shape: tuple[Num, ...]
    """Extents, outermost first."""
    strides: tuple[Num, ...] | None
    """Steps in elements, one an axis; None where they are not known."""
    offset: Num | None
    """Bytes from the root's first element to this tensor's; None where that is not known."""
    dtype: str | None

    @property
    def item_size(self) -> int | None:
        """The bytes of an element; None of a type that is not known, or whose elements have no addresses."""
        return STORED_SIZE.get(self.dtype or "")

    @property
    def is_known(self) -> bool:
        """Whether every number is one before the run."""
        numbers = (self.offset, *self.shape, *(self.strides if self.strides is not None else (None,)))
        return all(isinstance(number, int) for number in numbers)

    @property
    def order(self) -> tuple[int, ...]:
        """The axes in memory order, the slowest first; axes of one index, and expanded ones, keep their places."""
        return _order(self.shape, self.strides) if self.strides is not None else tuple(range(len(self.shape)))

    @property
    def flags(self) -> tuple[Flag, ...]:
        """One for each axis, in memory order."""
        return () if self.strides is None else flags_of(self.shape, self.strides, self.order)

    @property
    def contiguity(self) -> tuple[bool | None, ...]:
        """The flags as nvFuser has them, in memory order: True, False, and None for broadcast and expanded axes."""
        return tuple({"contiguous": True, "gap": False}.get(flag) for flag in self.flags)

    @property
    def bytes(self) -> ByteSet | None:
        """The bytes of the root that its elements cover; None where that is known only at run time."""
        if 0 in self.shape:
            return byte_set(0, 0, (), ())
        shape, strides, offset, item = _whole(self.shape), _whole(self.strides or ()), self.offset, self.item_size
        if shape is None or strides is None or len(strides) != len(shape) or not isinstance(offset, int) or item is None:
            return None
        return byte_set(offset, item, shape, [step * item for step in strides])

    @property
    def symbolic_bytes(self) -> SymbolicBytes | None:
        """The same where numbers have names; None where strides, or where it begins, are not known at all."""
        item, strides, offset = self.item_size, self.strides, self.offset
        if strides is None or offset is None or item is None or len(strides) != len(self.shape):
            return None
        return symbolic_bytes(offset, item, [(self.shape[axis], strides[axis] * item) for axis in self.order])

    def __str__(self) -> str:
        shape = "×".join(map(str, self.shape)) or "one element"
        if self.strides is None:
            return f"{shape}, strides not known"
        parts = [shape, f"strides ({', '.join(map(str, self.strides))})"] if self.shape else [shape]
        if self.order != tuple(range(len(self.shape))):
            parts.append(f"axes in memory order {' '.join(map(str, self.order))}")
        if self.offset != 0:
            parts.append("where it begins is not known" if self.offset is None else f"from byte {self.offset}")
        return ", ".join(parts)


make_layout = fast_constructor(Layout)


def _whole(numbers: Sequence[Num]) -> tuple[int, ...] | None:
    return tuple(n for n in numbers if isinstance(n, int)) if all(isinstance(n, int) for n in numbers) else None


def is_still(size: Num, stride: Num) -> bool:
    """Whether an axis has no step: it has one index, or all its indices are the same elements."""
    return size == 1 or stride == 0


def _order(shape: Sequence[Num], strides: Sequence[Num]) -> tuple[int, ...]:
    moving = [axis for axis in range(len(shape)) if not is_still(shape[axis], strides[axis])]
    for end in range(1, len(moving)):  # by insertion: of two steps with names it may not be known which is larger
        here = end
        while here and _is_slower(shape, strides, moving[here], moving[here - 1]):
            moving[here - 1], moving[here] = moving[here], moving[here - 1]
            here -= 1
    rest = iter(moving)
    return tuple(axis if is_still(shape[axis], strides[axis]) else next(rest) for axis in range(len(shape)))


def _is_slower(shape: Sequence[Num], strides: Sequence[Num], a: int, b: int) -> bool:
    """Whether axis a, which stands after b, is certain to have the larger step; of equal ones the longer axis is outside."""
    if strides[a] == strides[b]:
        return False
    return is_at_least(strides[a], strides[b], _one)


def _one(name: str) -> int:
    """An axis that has no index at all makes every order right."""
    return 1


def flags_of(shape: Sequence[Num], strides: Sequence[Num], order: Sequence[int]) -> tuple[Flag, ...]:
    """What stays true of each axis, in memory order, when the numbers change.

    >>> flags_of((2, 3, 4), (15, 5, 1), (0, 1, 2)), flags_of((4, 5, 6), (5, 1, 0), (0, 1, 2))
    (('contiguous', 'gap', 'contiguous'), ('contiguous', 'contiguous', 'expanded'))
    """
    flags: list[Flag] = []
    past: Num = 1
    for axis in reversed(order):
        if shape[axis] == 1:
            flags.append("broadcast")
        elif strides[axis] == 0:
            flags.append("expanded")
        else:
            flags.append("contiguous" if strides[axis] == past else "gap")
            past = strides[axis] * shape[axis]
    return tuple(reversed(flags))
