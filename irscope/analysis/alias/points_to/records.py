"""The records of a points-to graph: labels of elements, writes, calls, and the sealed graph itself; data only.

The meaning of the graph, and why its answers hold, is explained in `irscope.analysis.alias.points_to.builder`.
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
    """The label of an element that belongs to no value."""

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
    """Labels by element, to be indexed only; None means the contents of the previous element."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        found = list.__getitem__(self, index)
        if found is None:
            found = self[index] = make_place("contents", list.__getitem__(self, index - 1), "")
        return found


class Write(NamedTuple):
    """A write of one element by one node."""

    node: Node
    element: int
    to_shape: bool
    """Whether extents, strides or the storage itself may change, not only data."""


@dataclass(frozen=True, slots=True)
class Called:
    """The effects of one call, besides what it adds to the graph and writes."""

    callee: str
    has_side_effect: bool
    is_random: bool
    stops: bool
    """May end the program by an exception."""
    waits: bool
    """Waits for a task that may have written anything."""
    starts: bool
    """Starts a task, which other code may wait for."""
    is_unseen: bool
    """Runs unseen code, which may wait for a task."""
    reads: tuple[int, ...]
    """Elements that it may read, with all their contents, besides its operands."""


Edges = Mapping[int, Sequence[int]]


@dataclass(frozen=True, eq=False, slots=True)
class PointsTo:
    """A sealed points-to graph over *classes* of elements (each a cycle of the graph, or one element).

    Classes are numbered so that edges go from higher to lower.
    """

    element_of: Mapping[Value, int]
    """Values whose memory may be shared; the others are their own memory."""
    labels: Sequence[Label]
    class_of: Sequence[int]
    """Maps an element to its class."""
    edges: Edges
    """Maps an element to the elements it may be; a location has none."""
    targets: Edges
    """The same edges between classes."""
    cells: Mapping[int, int]
    """Maps a container element to the element of its contents."""
    fields: Mapping[int, tuple[int | None, ...]]
    """Maps a tuple element to the elements of its fields."""
    reasons: Reasons
    writes: Sequence[Write]
    is_written: Sequence[int]
    """For each class, whether some node writes its memory."""
    is_reshaped: Sequence[int]
    """The same for writes that may change shapes."""
    outside: frozenset[int]
    """Classes of memory that the graph's caller or unseen code can reach."""
    slots: Mapping[tuple[str, str], int]
    """Maps a class name and an attribute name to the element of that attribute's slot."""
    opaque: int | None
    """The element of everything passed to unseen code."""
    nones: Container[Value]
    """Values that are always None, or never set."""
    consulted: Container[Value]
    """Values that a rule checked for being known constants: indexes of tuples, training flags."""
    calls: Mapping[int, Called]
    """The calls whose callees are known, by the ids of their nodes."""
    typed: Container[Value] = frozenset()
    """Operands whose types decided whether a node copies."""
    writes_shapes: bool = False
    """Whether some write may change a shape."""
    has_inferred: bool = False
    """Whether such a decision needed more than declared types."""


@dataclass(frozen=True, eq=False, slots=True)
class Reasons:
    """The node that added each edge; usually one node added all edges of a source."""

    of_source: Mapping[int, Node]
    of_edge: Mapping[tuple[int, int], Node]

    def of(self, source: int, target: int) -> Node | None:
        """The node, or None for edges that no node adds, such as those between inputs."""
        return self.of_edge.get((source, target)) or self.of_source.get(source)
