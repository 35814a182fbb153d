"""The memory plan, the layout of a value, the views of one buffer, and the copies."""

from __future__ import annotations

from typing import Literal, TypedDict

__all__ = [
    "AssumedLayout",
    "AxisView",
    "BufferRow",
    "BufferView",
    "CopyView",
    "LayoutView",
    "MemoryBar",
    "MemorySection",
    "MemoryView",
]


class MemoryBar(TypedDict):
    """One allocation of a plan: a rectangle of addresses over time."""

    id: int
    """The id of its value."""
    label: str
    title: str
    """Its description, in one sentence."""
    category: str
    """The category of its producer."""
    start: int
    """The moment at which it is allocated."""
    end: int
    """The last moment at which it is needed."""
    low: int
    """Its first address, in bytes from the bottom of the picture."""
    bytes: int
    at_peak: bool
    line: str
    """`file:line`; empty if unknown."""


class MemorySection(TypedDict):
    """A range of addresses: the arenas, the results, or separate allocations."""

    label: str
    low: int
    bytes: int


class MemoryView(TypedDict):
    """A memory plan: the address and live range of each allocation."""

    title: str
    caption: str
    bars: list[MemoryBar]
    sections: list[MemorySection]
    moments: int
    peak_moment: int
    peak: int
    """Bytes."""
    lower_bound: int
    needed: list[list[int]]
    """The pairs (moment, live bytes) where the live bytes change."""
    allocated: list[list[int]]


class BufferRow(TypedDict):
    """One value in the buffer."""

    id: int
    name: str
    depth: int
    """The number of views between it and the root."""
    op: str
    told: str
    """Its layout in words."""
    runs: list[list[float]]
    """The ranges of its bytes, as fractions of the buffer's length."""
    shared: list[list[float]]
    """The ranges where it overlaps a value such that neither is a view of the other."""


class BufferView(TypedDict):
    """A buffer with the values in it, each after its base."""

    root: str
    bytes: int
    window: int
    """How many of them are drawn: all, or one period if the contents repeat."""
    rows: list[BufferRow]
    left_out: int
    """The number of views not listed."""


class AxisView(TypedDict):
    """One axis of a tensor, in memory order."""

    axis: int
    extent: str
    stride: str
    flag: str


class LayoutView(TypedDict):
    """The memory layout of a tensor."""

    id: int
    kind: Literal["view", "copy", "input"]
    decided: bool
    """Whether the layout is the same in every run."""
    because: str
    layout: str
    """The layout in words; empty if not even the rank is known."""
    axes: list[AxisView]
    root: int
    """The value whose buffer it is in; 0 if known only at run time."""
    buffer: BufferView | None
    """The map of that buffer, if it has views; for a stored layout, see `buffers` of the view."""
    others: list[str]
    """For an argument, the layouts it could have instead."""


class CopyView(TypedDict):
    """A node that copies a tensor to other memory and computes nothing."""

    id: int
    value: int
    label: str
    bytes: int
    """-1 if known only at run time."""
    because: str
    """The view step that failed, and what would make it succeed."""


class AssumedLayout(TypedDict):
    """The effect of another layout of an argument."""

    told: str
    views: list[CopyView]
    """Nodes that copy now but would not then."""
    copies: list[CopyView]
    """Nodes that would copy then but do not now."""
