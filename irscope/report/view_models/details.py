"""What is told of one record or of a pair: aliases, fusion, neighbours, its kernel."""

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
    """In a stored detail: where the view's `alias_sets` has the alias set, once for all that have the same."""
    writers: list[int]
    shared_writers: NotRequired[int]
    """In a stored detail of many writers: where the view's `alias_sets` has them."""
    points_to: PointsToView


class KernelDetail(TypedDict):
    name: str
    language: str
    source: str
    """Empty in a stored detail: the view's `kernels` has it by name, once for all groups that run it."""
    line_nodes: list[int]
    """The node that each source line came from, 0 for none."""
    shared_by: int
    """Number of groups that run this kernel."""
    launched: str
    """Over how much the group runs it, and what that means for its time."""


class KernelText(TypedDict):
    """A kernel in one language, and what is known of it on the device that runs it."""

    language: str
    """`llvm`, `assembly`, `cuda`, `ptx` or `sass`."""
    source: str
    """Empty for the text that the kernel's detail has."""
    origins: list[int]
    """For each line, the line of the kernel's own text that it came from, counted from 0, or -1; empty where
    `line_nodes` tells."""
    line_nodes: list[int]
    """The node that each line came from, 0 for none."""
    hot: list[int]
    """The lines that run for every point."""
    facts: list[list[str]]
    """Label and value."""
    because: str
    """What sets its pace, and why."""
    trouble: str
    """Why there is no such text here, and what would bring it; empty if there is."""


class NeighbourView(TypedDict):
    """What stands next to a fusion group, and why it is not in it."""

    id: int
    feeds: bool
    """Whether the group reads what it makes; otherwise it reads what the group makes."""
    because: str


class Detail(TypedDict):
    """Everything the inspector shows about one record."""

    id: int
    kind: Literal["value", "node", "class"]
    title: str
    text: str
    """Its line of IR; empty in a stored detail of what the view's text prints."""
    location: str
    scope: str
    alias: AliasDetail | None
    fusion: str
    """Which group it is in and why, or why it is in none; empty when nothing was fused."""
    neighbours: NotRequired[list[NeighbourView]]
    """Of a group, what stands next to it."""
    same: str
    """Which class it is in; empty when there is none."""
    kernel: KernelDetail | None
    time: str
    gone_after: NotRequired[int]
    """Of a record that a pass took away: the last state of the program that has it."""


class PairDetail(TypedDict):
    """The answers about two records: may they alias, why not fused, are they the same."""

    ids: list[int]
    alias: VerdictView | None
    fusion: VerdictView | None
    same: VerdictView | None
