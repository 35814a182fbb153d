"""The boxes and edges of a graph, level by level."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

__all__ = ["Box", "BoxKind", "Edge", "GraphView", "Level"]


BoxKind = Literal["op", "group", "block", "module", "repeat", "stretch", "input", "output"]


class Box(TypedDict):
    """A rectangle of the graph view: a node, a fusion group, a block, a module of the user's model, a run of repeated modules, or
    a stretch of a long program."""

    id: int
    parent: int
    """The enclosing box; 0 at the top."""
    kind: BoxKind
    label: str
    detail: str
    """Second line: result type, or what a closed box contains."""
    category: str
    """Op category, for the colour."""
    values: list[int]
    """Ids of the values that the box produces."""
    writes: bool
    """Whether it writes memory in place."""
    equivalence_class: int
    """Number of its class, -1 for none."""
    size: int
    """Number of ops inside, 1 for an op."""
    copies: NotRequired[int]
    """For a box of repeated modules, their number."""
    holds: NotRequired[bool]
    """Whether it has contents that can be requested."""
    crosses: NotRequired[int]
    """1 if it uses a value from outside its parent, 2 if it produces a value used there, 3 for both; only if the view is sent
    level by level."""


class Edge(TypedDict):
    """The values that flow from one innermost box to another."""

    source: int
    target: int
    value: int


class GraphView(TypedDict):
    boxes: list[Box]
    """Each after its parent, siblings in program order."""
    edges: list[Edge]
    closed: list[int]
    """Boxes that are initially closed."""
    levels: NotRequired[list[int]]
    """For a graph sent level by level: the boxes whose contents are included; 0 is the outermost level. Edges connect boxes of
    one level."""
    kinds: NotRequired[list[str]]
    """For such a graph, the op categories it has, and `in-place` if a node writes in place."""


class Level(TypedDict):
    """The direct contents of one box."""

    around: int
    boxes: list[Box]
    edges: list[Edge]
