"""The interface of an alias db that code motion and tables use."""

from __future__ import annotations

from typing import Protocol

from irscope.analysis.alias.build import ModRef, OrderConflict
from irscope.analysis.alias.points_to import Label, PointsTo, Reachability
from irscope.ir import Graph, Node, Value

__all__ = ["Answers"]


class Answers(Protocol):
    """The part of `AliasDb` that its own package uses. Places are classes of elements, as `Reachability` numbers them."""

    graph: Graph

    @property
    def sealed(self) -> PointsTo:
        """The points-to graph."""

    @property
    def reach(self) -> Reachability:
        """The reachability between places."""

    def accesses(self, node: Node | str) -> ModRef:
        """The accesses of a node: its reads and writes."""

    def region(self, place: int) -> int:
        """The region of a place: places of different regions never meet."""

    def index_of(self, node: Node) -> int:
        """The position of a node in its block."""

    def is_memory(self, value: Value) -> bool:
        """Whether a value is, or may hold, mutable memory."""

    def lie_apart(self, a: Value, b: Value) -> bool:
        """Whether two tensors that may be one memory have no byte in common."""

    def label_of(self, place: int) -> Label:
        """The value or place that names a class."""

    def node_words(self, node: Node) -> str:
        """A node in a sentence."""

    def place_words(self, label: Label) -> str:
        """A place in a sentence."""

    def obstacle_words(self, obstacle: OrderConflict) -> str:
        """Why two nodes must keep their order, as a sentence."""
