"""The measurements of a program, by way and node, from which tables, remarks and traces are built."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from irscope.errors import ArgumentError
from irscope.ir import Graph, Node
from irscope.runtime.profile.counting import NodeCost
from irscope.runtime.profile.measuring import Measured
from irscope.runtime.profile.rows import NodeRow, class_numbers, members_of, node_rows
from irscope.runtime.profile.speeds import Speeds
from irscope.runtime.profile.way import Way
from irscope.runtime.timer import Spread

__all__ = ["Readings"]


class Readings:
    """The measured ways of one program."""

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        self.name = measured.original.name
        self.device = measured.device
        self.ways: Mapping[str, Way] = {str(label): way for label, way in measured.ways.items()}
        """`"op by op"`: the original program. `"fused"`: with its groups as kernels, if it has any."""
        self.environment = measured.environment
        """The processor, threads, load, versions and allocator: plain JSON."""
        self.warnings = measured.warnings
        """The conditions that made the times unreliable."""
        self._rows: dict[str, list[NodeRow]] = {}
        self._row_of: dict[str, dict[int, NodeRow]] = {}

    # -- numbers ------------------------------------------------------------------------------------------------------

    @property
    def main(self) -> str:
        """The default way: fused if there are groups."""
        return "fused" if "fused" in self.ways else "op by op"

    @property
    def is_interrupted(self) -> bool:
        """Whether a Ctrl-C ended the measurement; the results up to then are kept."""
        return self.measured.is_interrupted

    def total(self, way: str | None = None) -> Spread:
        """Returns the time of a whole call, in nanoseconds."""
        return self.way(way).total

    def graph(self, way: str | None = None) -> Graph:
        """Returns the program that ran this way."""
        return self.way(way).graph

    def rows(self, way: str | None = None) -> list[NodeRow]:
        """Returns a record for each node that ran, in program order."""
        label = self.label(way)
        if label not in self._rows:
            self._rows[label] = node_rows(self.ways[label], self.speeds, self._group_of, self._group_flops)
        return self._rows[label]

    def row_of(self, id: int, way: str | None = None) -> NodeRow | None:
        """Returns the record of one node, by its id; None for a node that did not run."""
        label = self.label(way)
        if label not in self._row_of:
            self._row_of[label] = {row.node.id: row for row in self.rows(label)}
        return self._row_of[label].get(id)

    def class_numbers(self, way: str | None = None) -> dict[int, int]:
        """Returns the number of each node's equivalence class, by the node's id."""
        return class_numbers(self.graph(way), self.rows(way))

    @cached_property
    def speeds(self) -> Speeds:
        """The limits of the machine."""
        return Speeds(int(self.environment["threads"]), self.device)

    @cached_property
    def members(self) -> Mapping[int, list[Node]]:
        """The nodes of the original program that run in each group, by the group's id."""
        found: dict[int, list[Node]] = {}
        fusion = self.measured.fusion
        if fusion is None:
            groups = [node for node in self.graph().nodes() if node.op == "prim::FusionGroup"]
            return {group.id: members_of(group) for group in groups}
        for node in self.measured.original.nodes():
            group = fusion.group_of(node) if node.op != "prim::Constant" else None
            if group is not None:
                found.setdefault(group.id, []).append(node)
        return found

    @cached_property
    def _group_of(self) -> Mapping[int, int]:
        return {node.id: group for group, nodes in self.members.items() for node in nodes}

    @cached_property
    def _before(self) -> Mapping[int, NodeRow]:
        return {row.node.id: row for row in self.rows("op by op")}

    def before_ns(self, node: Node) -> float:
        """Returns the nanoseconds of a node op by op."""
        row = self._before.get(node.id)
        return 0.0 if row is None else row.self_time.median

    def cost(self, node: Node) -> NodeCost:
        """Returns the cost of a node op by op."""
        row = self._before.get(node.id)
        return NodeCost() if row is None else row.cost

    def _group_flops(self, group: Node) -> int:
        way = self.ways["op by op"]
        return sum(way.cost(node).flops for node in self.members.get(group.id, ()))

    def group_before(self, group: Node) -> Spread:
        """Returns the total time of a group's nodes, one by one."""
        way = self.ways["op by op"]
        wanted = {node.id for node in self.members.get(group.id, ())}
        places = [index for index, node in enumerate(way.nodes) if node.id in wanted]
        return Spread.of(way.busy[:, places].sum(axis=1)) if places else Spread(0.0, 0.0, 0.0)

    def way(self, label: str | None = None) -> Way:
        """Returns one way that was run. Raises ArgumentError for another."""
        return self.ways[self.label(label)]

    def label(self, way: str | None = None) -> str:
        """Returns the name of a way, by default the main one. Raises ArgumentError for one that was not run."""
        label = way or self.main
        if label not in self.ways:
            raise ArgumentError(f"it was not run {label!r}", hint=f"it was run {' and '.join(map(repr, self.ways))}")
        return label
