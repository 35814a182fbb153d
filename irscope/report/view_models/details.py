"""The details of one record or a pair: aliases, fusion, neighbours, kernel."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

__all__ = [
    "AliasDetail",
    "Detail",
    "KernelDetail",
    "KernelText",
    "NeighbourView",
    "PairDetail",
    "PointsToView",
    "VerdictView",
]


class VerdictView(TypedDict):
    holds: bool
    because: str
    witness: list[int]


class PointsToView(TypedDict):
    """The part of the points-to graph around one value."""

    labels: list[str]
    kinds: list[Literal["value", "content", "location", "wildcard"]]
    records: list[int]
    """Value id of each element, 0 for none."""
    edges: list[list[int]]
    """Pairs of positions in `labels`: the first may point to the second."""
    contains: list[list[int]]
    """Pairs: the first is a container that holds the second."""


class AliasDetail(TypedDict):
    summary: str
    alias_set: list[int]
    shared_set: NotRequired[int]
    """In a stored detail: the index of its alias set in the view's `alias_sets`, where equal sets are stored once."""
    writers: list[int]
    shared_writers: NotRequired[int]
    """In a stored detail with many writers: their index in the view's `alias_sets`."""
    points_to: PointsToView


class KernelDetail(TypedDict):
    name: str
    language: str
    source: str
    """Empty in a stored detail: the view's `kernels` stores it once, by name, for all groups that run it."""
    line_nodes: list[int]
    """The node that each source line came from, 0 for none."""
    shared_by: int
    """Number of groups that run this kernel."""
    launched: str
    """The size of the iteration space, and what that means for the time."""


class KernelText(TypedDict):
    """A kernel in one language, with facts about the device that runs it."""

    language: str
    """`llvm`, `assembly`, `cuda`, `ptx` or `sass`."""
    source: str
    """Empty if the kernel's detail has the text."""
    origins: list[int]
    """For each line, the line of the kernel's own text it came from, counted from 0, or -1; empty if `line_nodes`
    is used."""
    line_nodes: list[int]
    """The node that each line came from, 0 for none."""
    hot: list[int]
    """The lines that run for every point of the iteration space."""
    facts: list[list[str]]
    """Label and value."""
    because: str
    """What bounds its speed, and why."""
    trouble: str
    """Why the text is not available here, and how to get it; empty if it is available."""


class NeighbourView(TypedDict):
    """A neighbour of a fusion group, and why it is not part of it."""

    id: int
    feeds: bool
    """Whether it is a producer for the group; otherwise it is a consumer."""
    because: str


class Detail(TypedDict):
    """Everything the inspector shows about one record."""

    id: int
    kind: Literal["value", "node", "class"]
    title: str
    text: str
    """Its line of IR; empty in a stored detail if the view's text has the line."""
    location: str
    scope: str
    alias: AliasDetail | None
    fusion: str
    """Which group it is in and why, or why it is in none; empty if nothing was fused."""
    neighbours: NotRequired[list[NeighbourView]]
    """The neighbours of a group."""
    same: str
    """Which class it is in; empty if none."""
    kernel: KernelDetail | None
    time: str
    gone_after: NotRequired[int]
    """For a record that a pass removed: the last state that contains it."""


class PairDetail(TypedDict):
    """The answers about two records: may they alias, why not fused, are they the same."""

    ids: list[int]
    alias: VerdictView | None
    fusion: VerdictView | None
    same: VerdictView | None
