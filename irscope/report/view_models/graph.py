"""The boxes and edges of a graph, level by level."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

__all__ = ["Box", "BoxKind", "Edge", "GraphView", "Level"]


BoxKind = Literal["op", "group", "block", "module", "repeat", "stretch", "input", "output"]


class Box(TypedDict):
    """A rectangle of the graph view: a node, a fusion group, a block, a module of the user's model, modules that are alike, or a
    stretch of a long program."""

    id: int
    parent: int
    """The box around it; 0 at the top."""
    kind: BoxKind
    label: str
    detail: str
    """Second line: result type, or what a closed box contains."""
    category: str
    """Op category, for the colour."""
    values: list[int]
    """Ids of the values that the box makes."""
    writes: bool
    """Whether it writes memory in place."""
    equivalence_class: int
    """Number of its class, -1 for none."""
    size: int
    """Number of ops inside, 1 for an op."""
    copies: NotRequired[int]
    """Of a box for modules that are alike, how many they are."""
    holds: NotRequired[bool]
    """Whether there is something in it that may be asked for."""
    crosses: NotRequired[int]
    """1 if it reads what is made outside of the box around it, 2 if it makes what is read there, 3 for both; only where the
    edges of a view are those of single levels."""


class Edge(TypedDict):
    """A value on its way from one innermost box to another."""

    source: int
    target: int
    value: int


class GraphView(TypedDict):
    boxes: list[Box]
    """Each after its parent, siblings in program order."""
    edges: list[Edge]
    closed: list[int]
    """Boxes that are drawn closed at first."""
    levels: NotRequired[list[int]]
    """Of a graph that is given level by level, the boxes whose inside is given, 0 for the outermost level. Its edges join
    boxes of one level."""
    kinds: NotRequired[list[str]]
    """Of such a graph, the op categories that it has, and `in-place` if something writes in place."""


class Level(TypedDict):
    """What is directly in one box."""

    around: int
    boxes: list[Box]
    edges: list[Edge]
