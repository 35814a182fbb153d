"""Records of the nodes that ran: their times, traffic, arithmetic and source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from irscope.ir import GROUPS, Block, Graph, Location, Node, TensorType
from irscope.ops.registry import category_of
from irscope.runtime.profile.counting import NodeCost
from irscope.runtime.profile.speeds import Speeds
from irscope.runtime.profile.way import Way
from irscope.runtime.timer import Spread
from irscope.transforms.dedup import Piece, Relation, dedup, fingerprint

__all__ = ["LAUNCHING", "NodeRow", "class_numbers", "members_of", "node_rows", "piece_key", "place", "type_words"]

LAUNCHING: Final = ("pointwise", "reduction", "normalization", "matmul", "convolution", "memory", "random")
"""Categories of ops that run at least one kernel of the library."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node of one way. Times are nanoseconds of one run, all its calls together."""

    node: Node
    name: str
    """As it is printed: `%y`, or the op if it has no results."""
    self_time: Spread
    total_ns: float
    """Its time including its blocks."""
    host_ns: float
    """The processor's part: the launch, where a GPU does the work."""
    idle_ns: float
    """How long a GPU waited for the host before it."""
    share: float
    """Its fraction of all nodes' self times."""
    trips: int | None
    launches: int
    cost: NodeCost
    copy_ns: float
    """The time of a copy that moves as many bytes; 0 where it is unknown."""
    flops_ns: float
    """The time of its arithmetic at the machine's peak; 0 where it is unknown."""
    group: int
    """The id of the fusion group that it is, or is part of; 0 for none."""

    @property
    def calls(self) -> int:
        return self.cost.calls

    @property
    def roof_ns(self) -> float:
        """The least time that memory and arithmetic allow."""
        return max(self.copy_ns, self.flops_ns)

    @property
    def category(self) -> str:
        return "group" if self.node.op == "prim::FusionGroup" else category_of(self.node)


def node_rows(
    way: Way, speeds: Speeds, group_of: Mapping[int, int], flops_of_group: Callable[[Node], int]
) -> list[NodeRow]:
    """Returns a record for each node of a way, in textual order. The arithmetic of a group is that of its nodes one by one."""
    busy, host, idle = way.busy, way.host, way.idle
    nodes = way.nodes
    if not way.runs:
        return []
    low, median, high = np.quantile(busy, (0.25, 0.5, 0.75), axis=0)
    waiting, launching = np.median(idle, axis=0), np.median(host, axis=0)
    whole = float(median.sum()) or 1.0
    totals = _totals(way.graph, nodes, median)
    rows = []
    for index, node in enumerate(nodes):
        cost = way.cost(node)
        if way.plain.has_kernels(node):
            cost.flops = flops_of_group(node)
        launches = cost.calls if way.plain.has_kernels(node) or _launches(node, cost) else 0
        rows.append(
            NodeRow(
                node, _name(way.graph, node), Spread(float(median[index]), float(low[index]), float(high[index])),
                totals[node], float(launching[index]), float(waiting[index]), float(median[index]) / whole,
                way.trips(node), launches, cost, speeds.copy_ns(cost.bytes), speeds.flops_ns(cost.flops),
                group_of.get(node.id, node.id if node.op == "prim::FusionGroup" else 0),
            )
        )  # fmt: skip
    return rows


def _launches(node: Node, cost: NodeCost) -> bool:
    """Checks whether a library op runs a kernel: a view that has to copy does."""
    category = category_of(node)
    return category in LAUNCHING or (category == "view" and cost.written_bytes > 0)


def _name(graph: Graph, node: Node) -> str:
    return ", ".join(f"%{graph.names[value]}" for value in node.outputs) or node.op


def _totals(graph: Graph, nodes: Sequence[Node], own: np.ndarray[Any, Any]) -> dict[Node, float]:
    """Returns own time plus that of all blocks; a node comes before those of its blocks."""
    totals = {node: float(own[index]) for index, node in enumerate(nodes)}
    for node in reversed(nodes):
        owner = graph.owner.get(graph.block_of[node])
        if owner is not None and owner in totals:
            totals[owner] += totals[node]
    return totals


def members_of(group: Node) -> list[Node]:
    """Returns the nodes of a group's blocks, in order, constants left out; groups are not nested."""
    return [node for block in group.blocks for node in block.nodes if node.op != "prim::Constant"]


def place(node: Node) -> Location | None:
    """Returns the source location of a node; for a group, that of its first node that has one."""
    if node.location is not None:
        return node.location
    return next((inner.location for inner in members_of(node) if inner.location is not None), None)


def piece_key(graph: Graph, node: Node, relation: Relation = "order") -> str:
    """Returns a key that equivalent nodes of two programs share: the fingerprint of a group, or of a node with its constants."""
    if node.op in GROUPS:
        return fingerprint(Piece(node, node.blocks[0], graph, node.attrs), relation).hex()
    made = [graph.producer.get(value) for value in dict.fromkeys(node.inputs)]
    constants = tuple([maker for maker in made if maker is not None and maker.op == "prim::Constant"])
    known = {value for maker in constants for value in maker.outputs}
    params = tuple([value for value in dict.fromkeys(node.inputs) if value not in known])
    block = Block(0, params, (*constants, node), node.outputs)
    return fingerprint(Piece(node, block, graph, {}), relation).hex()


def class_numbers(graph: Graph, rows: Sequence[NodeRow]) -> dict[int, int]:
    """Returns the number of each node's equivalence class, by the node's id: groups by dedup, other nodes by fingerprint."""
    found: dict[int, int] = {}
    groups = dedup(graph)
    for cls in groups.classes:
        found.update({member.id: cls.index for member in cls.members if isinstance(member, Node)})
    keys: dict[str, int] = {}
    first = len(groups.classes)
    for row in rows:
        if row.node.id not in found:
            found[row.node.id] = keys.setdefault(piece_key(graph, row.node), first + len(keys))
    return found


def type_words(node: Node) -> str:
    """Returns the element type and the extents of the first result, in a few characters."""
    kind = node.outputs[0].type if node.outputs else None
    if not isinstance(kind, TensorType) or kind.shape is None:
        return ""
    return f"{kind.dtype or '?'}[{', '.join('?' if dim is None else str(dim) for dim in kind.shape)}]"
