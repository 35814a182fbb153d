"""The primitive steps of views: each view op is a short list of these.

Axes are numbered in the tensor that a step is applied to; numbers may be `Extent`s, and None where not known.
"""

from __future__ import annotations

from typing import NamedTuple

from irscope.ops.view_steps.extents import Num

__all__ = [
    "Cut", "Dense", "Diagonal", "Drop", "Expand", "Insert", "Joined", "Paired", "Permute", "Pick", "Place", "Regroup", "Retyped",
    "Step", "Window",
]  # fmt: skip


class Permute(NamedTuple):
    """Reorders the axes."""

    axes: tuple[int, ...]


class Insert(NamedTuple):
    """Inserts an axis of extent 1."""

    axis: int


class Drop(NamedTuple):
    """Removes axes of extent 1."""

    axes: tuple[int, ...]


class Pick(NamedTuple):
    """Selects one index of an axis and removes the axis."""

    axis: int
    place: Num | None


class Cut(NamedTuple):
    """Selects evenly spaced indices of an axis."""

    axis: int
    start: Num | None
    length: Num
    step: Num = 1


class Expand(NamedTuple):
    """Repeats axes of extent 1, and adds new ones in front."""

    shape: tuple[Num, ...]


class Regroup(NamedTuple):
    """Takes all elements in row-major order with other extents."""

    shape: tuple[Num, ...]
    may_copy: bool


class Diagonal(NamedTuple):
    """Replaces two axes by a new last one along which both advance."""

    offset: int
    rows: int
    columns: int
    length: Num


class Window(NamedTuple):
    """Cuts an axis into as many windows as fit, `step` apart, with their elements along a new last axis."""

    axis: int
    size: int
    step: int
    windows: Num


class Place(NamedTuple):
    """Sets extents and strides explicitly; the offset counts from the start of the storage, None keeps the tensor's own."""

    shape: tuple[Num, ...]
    strides: tuple[Num, ...]
    offset: Num | None


class Retyped(NamedTuple):
    """Reinterprets the same bytes as elements of another type."""

    dtype: str


class Paired(NamedTuple):
    """Views complex numbers as pairs along a new last axis, or takes one part of them."""

    part: int | None
    dtype: str


class Joined(NamedTuple):
    """Views pairs along the last axis as complex numbers."""

    dtype: str


class Dense(NamedTuple):
    """Returns the tensor itself if it has this memory format, otherwise a copy that has: 0 row-major, 2 and 3 channels-last."""

    memory_format: int
    suggested: bool = False
    """Whether it is enough that torch would suggest the format; gaps do not matter then."""


Step = (
    Permute | Insert | Drop | Pick | Cut | Expand | Regroup | Diagonal | Window | Place | Retyped | Paired | Joined | Dense
)
