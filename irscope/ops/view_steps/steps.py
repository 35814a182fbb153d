"""The few things that views do: each view op is a short list of these.

A step speaks of axes by number, in the tensor that it is applied to; numbers may be `Extent`s, and None where not known.
"""

from __future__ import annotations

from typing import NamedTuple

from irscope.ops.view_steps.extents import Num

__all__ = [
    "Cut", "Dense", "Diagonal", "Drop", "Expand", "Insert", "Joined", "Paired", "Permute", "Pick", "Place", "Regroup", "Retyped",
    "Step", "Window",
]  # fmt: skip


class Permute(NamedTuple):
    """Axes in another order."""

    axes: tuple[int, ...]


class Insert(NamedTuple):
    """A new axis of extent 1."""

    axis: int


class Drop(NamedTuple):
    """Axes of extent 1 go."""

    axes: tuple[int, ...]


class Pick(NamedTuple):
    """One index of an axis, which goes."""

    axis: int
    place: Num | None


class Cut(NamedTuple):
    """Some indices of an axis, evenly apart."""

    axis: int
    start: Num | None
    length: Num
    step: Num = 1


class Expand(NamedTuple):
    """Axes of extent 1 repeat, and new ones stand in front."""

    shape: tuple[Num, ...]


class Regroup(NamedTuple):
    """All elements in row-major order under other extents."""

    shape: tuple[Num, ...]
    may_copy: bool


class Diagonal(NamedTuple):
    """Two axes are walked at once, along a new last one."""

    offset: int
    rows: int
    columns: int
    length: Num


class Window(NamedTuple):
    """An axis in windows: as many as fit, `step` apart, their elements along a new last axis."""

    axis: int
    size: int
    step: int
    windows: Num


class Place(NamedTuple):
    """Extents and strides given outright; the offset counts from the start of the storage, None is the tensor's own."""

    shape: tuple[Num, ...]
    strides: tuple[Num, ...]
    offset: Num | None


class Retyped(NamedTuple):
    """The same bytes as elements of another type."""

    dtype: str


class Paired(NamedTuple):
    """Complex numbers as pairs along a new last axis, or one part of them."""

    part: int | None
    dtype: str


class Joined(NamedTuple):
    """Pairs along the last axis as complex numbers."""

    dtype: str


class Dense(NamedTuple):
    """The tensor itself if it lies in this memory format, otherwise a copy that does: 0 row by row, 2 and 3 channels last."""

    memory_format: int
    suggested: bool = False
    """Whether it is enough that torch would suggest the format for it; gaps do not matter then."""


Step = (
    Permute | Insert | Drop | Pick | Cut | Expand | Regroup | Diagonal | Window | Place | Retyped | Paired | Joined | Dense
)
