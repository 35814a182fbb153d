"""The memory plan, the layout of a value, the views of one buffer, and what is copied."""

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
    """One memory of a plan: a rectangle of addresses by moments."""

    id: int
    """Of its value."""
    label: str
    title: str
    """What there is to say of it, in one sentence."""
    category: str
    """Of the op that makes it."""
    start: int
    """The moment at which it is made."""
    end: int
    """The last moment at which it is needed."""
    low: int
    """Its first address, in bytes from the bottom of the picture."""
    bytes: int
    at_peak: bool
    line: str
    """`file:line`, empty where it is not known."""


class MemorySection(TypedDict):
    """A stretch of addresses: the arenas, the results, or what has memory of its own."""

    label: str
    low: int
    bytes: int


class MemoryView(TypedDict):
    """A memory plan: where each memory lies, and when."""

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
    """Moment and bytes wherever what is needed changes."""
    allocated: list[list[int]]


class BufferRow(TypedDict):
    """One value that lies in the buffer."""

    id: int
    name: str
    depth: int
    """How many views lead to it from the root."""
    op: str
    told: str
    """Its layout in words."""
    runs: list[list[float]]
    """Where its bytes are, as parts of the buffer's length."""
    shared: list[list[float]]
    """Where it meets a value that it is no view of, nor the other way round."""


class BufferView(TypedDict):
    """A buffer with the values that lie in it, each after the one that it is a view of."""

    root: str
    bytes: int
    window: int
    """How many of them are drawn: all, or the first of equal parts in each of which the same lies."""
    rows: list[BufferRow]
    left_out: int
    """How many further views there are."""


class AxisView(TypedDict):
    """One axis of a tensor, in memory order."""

    axis: int
    extent: str
    stride: str
    flag: str


class LayoutView(TypedDict):
    """Where a tensor lies, and how."""

    id: int
    kind: Literal["view", "copy", "input"]
    decided: bool
    """Whether every run agrees."""
    because: str
    layout: str
    """In words; empty where not even the number of axes is known."""
    axes: list[AxisView]
    root: int
    """The value whose buffer it lies in; 0 where that is known only at run time."""
    buffer: BufferView | None
    """The map of that buffer, if views lie in it; a stored layout has it in `buffers` of the view."""
    others: list[str]
    """Of an argument, the layouts that it might have instead."""


class CopyView(TypedDict):
    """A node that moves a tensor to other memory and computes nothing."""

    id: int
    value: int
    label: str
    bytes: int
    """-1 where they are known only at run time."""
    because: str
    """Which step failed, and what would make it a view."""


class AssumedLayout(TypedDict):
    """What would be if an argument lay otherwise."""

    told: str
    views: list[CopyView]
    """Nodes that copy now and would not then."""
    copies: list[CopyView]
    """Nodes that would copy then and do not now."""
