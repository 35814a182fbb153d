"""The records of a points-to graph: what an element stands for, who writes it, and the sealed graph itself; data only.

What the graph means, and why its answers hold, is argued in `irscope.analysis.alias.points_to.builder`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from irscope._base.frozen import fast_constructor
from irscope.ir import Node, Value

__all__ = ["Called", "Label", "LazyLabels", "Origin", "Place", "PointsTo", "Reasons", "Write", "make_place"]


@dataclass(frozen=True, slots=True)
class Place:
    """What an element that is not a value's stands for."""

    kind: Literal[
        "contents", "field", "input", "argument", "escaped", "unknown", "attribute", "slot", "objects", "opaque", "called"
    ]
    of: Value | None = None
    """The container whose contents or field this is."""
    name: str = ""

    def __str__(self) -> str:
        of = f" of {self.of!r}" if self.of is not None else f" {self.name}" if self.name else ""
        return f"{self.kind}{of}"


make_place = fast_constructor(Place)
Label = Value | Place
Origin = Literal["input", "argument", "escaped", "unknown"]


class LazyLabels(list[Any]):
    """Labels by element, to be indexed only; None stands for the contents of the element before."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        found = list.__getitem__(self, index)
        if found is None:
            found = self[index] = make_place("contents", list.__getitem__(self, index - 1), "")
        return found


class Write(NamedTuple):
    """One node writes one element."""

    node: Node
    element: int
    to_shape: bool
    """Whether extents, strides or the storage itself may change, and not just data."""


@dataclass(frozen=True, slots=True)
class Called:
    """What is known of one call, besides what it adds to the graph and writes."""

    callee: str
    has_side_effect: bool
    is_random: bool
    stops: bool
    """May end the program by an exception."""
    waits: bool
    """Waits for a task that may have written anything."""
    starts: bool
    """Starts a task, which somebody else may wait for."""
    is_unseen: bool
    """Runs unseen code, which may wait for a task."""
    reads: tuple[int, ...]
    """Elements that it may read, with all that they hold, besides its operands."""


Edges = Mapping[int, Sequence[int]]


@dataclass(frozen=True, eq=False, slots=True)
class PointsTo:
    """A sealed points-to graph over *classes* of elements (each a cycle of the graph, or one element).

    Classes are numbered so that edges go from higher to lower.
    """

    element_of: Mapping[Value, int]
    """Values that something may share; the others are their own memory."""
    labels: Sequence[Label]
    class_of: Sequence[int]
    """Element to class."""
    edges: Edges
    """Element to the elements it may be; a location has none."""
    targets: Edges
    """The same between classes."""
    cells: Mapping[int, int]
    """Container element to the element of what it holds."""
    fields: Mapping[int, tuple[int | None, ...]]
    """Tuple element to the elements of its fields."""
    reasons: Reasons
    writes: Sequence[Write]
    is_written: Sequence[int]
    """For each class, whether some node writes memory of it."""
    is_reshaped: Sequence[int]
    """The same for writes that may change shapes."""
    outside: frozenset[int]
    """Classes of memory that the graph's caller or unseen code can reach."""
    slots: Mapping[tuple[str, str], int]
    """Class name and attribute name to the element of that attribute's slot."""
    opaque: int | None
    """The element of everything that unseen code was given."""
    nones: Container[Value]
    """Values that are always None, or never set."""
    consulted: Container[Value]
    """Values that a rule looked at to learn whether they are known numbers: indexes of tuples, training flags."""
    calls: Mapping[int, Called]
    """By the ids of their nodes, the calls whose callees are known."""


@dataclass(frozen=True, eq=False, slots=True)
class Reasons:
    """Which node made an edge: mostly the one that made all edges of its source."""

    of_source: Mapping[int, Node]
    of_edge: Mapping[tuple[int, int], Node]

    def of(self, source: int, target: int) -> Node | None:
        """The node, or None for edges that no node makes, such as those between inputs."""
        return self.of_edge.get((source, target)) or self.of_source.get(source)
