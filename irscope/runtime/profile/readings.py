"""The measurements of a program, by way and node, from which remarks and traces are built, and their sums as tidy tables: by node,
group, op, module, line or class.

No clock can time the ops inside a kernel. Where a table needs that, the time of a group is divided among its nodes in
proportion to their times op by op, and the column `estimated` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from irscope._base.nested import grouped
from irscope.errors import ArgumentError, new_table
from irscope.ir import GROUPS, Block, Graph, Location, Node, TensorType
from irscope.ops.registry import category_of
from irscope.ops.view_steps import Num
from irscope.runtime.profile.costs import NodeCost, Speeds
from irscope.runtime.profile.measuring import Measured
from irscope.runtime.profile.way import Way
from irscope.runtime.timer import Spread
from irscope.transforms.dedup import Piece, Relation, dedup, fingerprint

if TYPE_CHECKING:
    import pandas as pd


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


# -- all rows of all ways ---------------------------------------------------------------------------------------------


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
            self._rows[label] = self._rows_of(self.ways[label])
        return self._rows[label]

    def _rows_of(self, way: Way) -> list[NodeRow]:
        if not way.runs:
            return []
        graph, plain, speeds = way.graph, self.ways["op by op"], self.speeds
        group_of = {node.id: group for group, nodes in self.members.items() for node in nodes}
        low, median, high = np.quantile(way.busy, (0.25, 0.5, 0.75), axis=0).tolist()
        waiting, launching = np.median(way.idle, axis=0).tolist(), np.median(way.host, axis=0).tolist()
        whole = sum(median) or 1.0
        totals = dict(zip(way.nodes, median, strict=True))
        for node in reversed(way.nodes):  # a node comes before those of its blocks
            owner = graph.owner.get(graph.block_of[node])
            if owner is not None and owner in totals:
                totals[owner] += totals[node]
        rows = []
        for index, node in enumerate(way.nodes):
            cost, has_kernels = way.cost(node), way.plain.has_kernels(node)
            if has_kernels:  # the arithmetic of a group is that of its nodes one by one
                members = [plain.cost(member) for member in self.members.get(node.id, ())]
                cost.flops, cost.is_counted = sum(each.flops for each in members), all(each.is_counted for each in members)
                moved = self.moved.get(node.id)
                if isinstance(moved, int):  # what its kernel needs of the operands, as in the fusion's table
                    cost.written_bytes = min(cost.written_bytes, moved * cost.calls)
                    cost.read_bytes = moved * cost.calls - cost.written_bytes
            name = ", ".join(f"%{graph.names[value]}" for value in node.outputs) or node.op
            # a view that has to copy runs a kernel of the library, a dropout that passes its tensor on does not
            is_launch = has_kernels or (cost.bytes > 0 and not node.op.startswith("prim::"))
            rows.append(
                NodeRow(
                    node, name, Spread(median[index], low[index], high[index]), totals[node], launching[index], waiting[index],
                    median[index] / whole, cost.trips if node.op == "prim::Loop" else None, cost.calls if is_launch else 0, cost,
                    speeds.copy_ns(cost.bytes), speeds.flops_ns(cost.flops),
                    group_of.get(node.id, node.id if node.op == "prim::FusionGroup" else 0),
                )
            )  # fmt: skip
        return rows

    @property
    def group_rows(self) -> list[NodeRow]:
        """The records of the fusion groups that ran as kernels."""
        return [row for row in self.rows("fused") if row.node.op == "prim::FusionGroup"] if "fused" in self.ways else []

    def row_of(self, id: int, way: str | None = None) -> NodeRow | None:
        """Returns the record of one node, by its id; None for a node that did not run."""
        label = self.label(way)
        if label not in self._row_of:
            self._row_of[label] = {row.node.id: row for row in self.rows(label)}
        return self._row_of[label].get(id)

    def class_numbers(self, way: str | None = None) -> dict[int, int]:
        """Returns the number of each node's equivalence class, by the node's id: groups by dedup, other nodes by fingerprint."""
        graph, found, keys = self.graph(way), dict[int, int](), dict[str, int]()
        groups = dedup(graph).classes
        for cls in groups:
            found.update({member.id: cls.index for member in cls.members if isinstance(member, Node)})
        for row in self.rows(way):
            if row.node.id not in found:
                found[row.node.id] = keys.setdefault(piece_key(graph, row.node), len(groups) + len(keys))
        return found

    @cached_property
    def speeds(self) -> Speeds:
        """The limits of the machine."""
        return Speeds(int(self.environment["threads"]), self.device)

    @cached_property
    def members(self) -> Mapping[int, list[Node]]:
        """The nodes of the original program that run in each group, by the group's id."""
        fusion = self.measured.fusion
        if fusion is None:
            groups = [node for node in self.graph().nodes() if node.op == "prim::FusionGroup"]
            return {group.id: members_of(group) for group in groups}
        placed = ((fusion.group_of(node), node) for node in self.measured.original.nodes() if node.op != "prim::Constant")
        return grouped((group.id, node) for group, node in placed if group is not None)

    @cached_property
    def moved(self) -> Mapping[int, Num]:
        """The bytes that the kernel of each group moves, by the group's id."""
        fusion = self.measured.fusion
        return {} if fusion is None else {group.id: fusion.traffic(group)[1] for group in fusion.groups}

    def cost(self, node: Node) -> NodeCost:
        """Returns the cost of a node op by op, or of a group as a kernel."""
        row = self.row_of(node.id, "op by op") or self.row_of(node.id)
        return NodeCost() if row is None else row.cost

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
            raise ArgumentError(f"there is no way {label!r} to run it", hint=f"it was run {' and '.join(self.ways)}")
        return label


# -- tables -----------------------------------------------------------------------------------------------------------

By = Literal["node", "group", "op", "module", "line", "class"]
BY: Final[tuple[By, ...]] = get_args(By)


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a measured row that belongs to one node of the original program."""

    row: NodeRow
    node: Node
    part: float
    """1 except for nodes of groups."""

    @property
    def ns(self) -> float:
        return self.row.self_time.median * self.part

    @property
    def is_estimated(self) -> bool:
        return self.node is not self.row.node


def shares(profile: Readings, way: str) -> Iterator[Share]:
    """Yields every row of a way; those of groups are divided among their nodes."""
    for row in profile.rows(way):
        inner = profile.members.get(row.node.id, []) if row.node.op == "prim::FusionGroup" else []
        known = [(node, before.self_time.median if (before := profile.row_of(node.id, "op by op")) else 0.0) for node in inner]
        whole = sum(ns for _, ns in known)
        if not known:
            yield Share(row, row.node, 1.0)
        for node, ns in known:
            yield Share(row, node, ns / whole if whole else 1.0 / len(known))


def node_table(profile: Readings, way: str) -> pd.DataFrame:
    """Returns one row for each node that ran, in program order."""
    classes = profile.class_numbers(way)
    return new_table([_node_cells(profile, row, classes[row.node.id]) for row in profile.rows(way)], columns=[*_NODE_COLUMNS])


def _node_cells(profile: Readings, row: NodeRow, number: int) -> dict[str, Any]:
    where, cost, took = place(row.node), row.cost, row.self_time.median
    is_host = profile.device == "cuda"
    made = row.node.outputs[0].type if row.node.outputs else None
    type_words = ""
    if isinstance(made, TensorType) and made.shape is not None:
        type_words = f"{made.dtype or '?'}[{', '.join('?' if dim is None else str(dim) for dim in made.shape)}]"
    return {
        "node": row.name, "op": row.node.op, "type": type_words, "line": str(where or ""), "module": row.node.scope,
        "group": row.group or None, "class": number, "ms": took / 1e6, "low ms": row.self_time.low / 1e6,
        "high ms": row.self_time.high / 1e6, "share": row.share, "total ms": row.total_ns / 1e6, "calls": row.calls,
        "trips": row.trips, "launches": row.launches, "host ms": row.host_ns / 1e6 if is_host else None,
        "idle ms": row.idle_ns / 1e6 if is_host else None, "MB": cost.bytes / 1e6,
        "MFLOP": cost.flops / 1e6 if cost.is_counted else None,
        "GB/s": cost.bytes / took if took and cost.bytes else None,
        "of copy": row.copy_ns / took if took and row.copy_ns else None,
        "GFLOP/s": cost.flops / took if took and cost.flops else None,
        "of peak": row.flops_ns / took if took and row.flops_ns else None,
        "live MB": cost.live_bytes / 1e6, "allocated MB": cost.allocated_bytes / 1e6,
    }  # fmt: skip


_NODE_COLUMNS: Final = (
    "node", "line", "ms", "share", "low ms", "high ms", "op", "type", "module", "group", "class", "total ms", "calls", "trips",
    "launches", "host ms", "idle ms", "MB", "MFLOP", "GB/s", "of copy", "GFLOP/s", "of peak", "live MB", "allocated MB",
)  # fmt: skip


def group_table(profile: Readings) -> pd.DataFrame:
    """Returns one row for each fusion group: its nodes one by one, and its kernel."""
    cells = []
    for row in profile.group_rows:
        before = profile.group_before(row.node)
        nodes = profile.members.get(row.node.id, [])
        verdict = row.self_time.against(before)
        moved = sum(profile.cost(node).bytes for node in nodes)
        cells.append({
            "group": row.node.id, "node": row.name, "kind": row.node.attrs.get("kind", ""), "ops": len(nodes),
            "line": str(place(row.node) or ""), "before ms": before.median / 1e6, "after ms": row.self_time.median / 1e6,
            "low ms": row.self_time.low / 1e6, "high ms": row.self_time.high / 1e6,
            "times": before.median / row.self_time.median if row.self_time.median and verdict in ("faster", "slower") else None,
            "verdict": verdict, "MB before": moved / 1e6, "MB after": row.cost.bytes / 1e6,
            "of copy": row.copy_ns / row.self_time.median if row.self_time.median and row.copy_ns else None,
        })  # fmt: skip
    return new_table(cells, columns=[*_GROUP_COLUMNS])


_GROUP_COLUMNS: Final = (
    "group", "node", "kind", "ops", "line", "before ms", "after ms", "low ms", "high ms", "times", "verdict", "MB before",
    "MB after", "of copy",
)  # fmt: skip


def summed_table(profile: Readings, way: str, by: By) -> pd.DataFrame:
    """Returns one row for each op, module, line or class, the slowest first. A module includes those inside it."""
    numbers = profile.class_numbers(way) if by == "class" else {}

    def keys_of(share: Share) -> Iterable[Any]:
        if by == "op":
            return (share.node.op,)
        if by == "line":
            where = share.node.location or place(share.row.node)
            return ("" if where is None else f"{where.file}:{where.line}",)
        if by == "module":
            return ("", *enclosing_modules(share.node.scope or share.row.node.scope))  # "" is the whole model
        return (numbers[share.row.node.id],)

    parts = grouped((key, share) for share in shares(profile, way) for key in keys_of(share))
    whole = sum(row.self_time.median for row in profile.rows(way)) or 1.0
    cells = []
    for key, found in parts.items():
        ns = sum(share.ns for share in found)
        kernels = {share.row.node.id: share.row.launches for share in found}
        cells.append({
            by: key, "ms": ns / 1e6, "share": ns / whole, "nodes": len(found), "calls": sum(share.row.calls for share in found),
            "launches": sum(kernels.values()), "MB": sum(share.row.cost.bytes * share.part for share in found) / 1e6,
            "MFLOP": sum(s.row.cost.flops * s.part for s in found) / 1e6 if all(s.row.cost.is_counted for s in found) else None,
            "estimated": sum(share.ns for share in found if share.is_estimated) / ns if ns else 0.0,
        })  # fmt: skip
    cells.sort(key=lambda row: -row["ms"])
    return new_table(cells, columns=[by, "ms", "share", "nodes", "calls", "launches", "MB", "MFLOP", "estimated"])


def enclosing_modules(scope: str) -> list[str]:
    """Returns a module and all that enclose it, from the outermost in."""
    return list(accumulate(scope.split("."), "{}.{}".format)) if scope else []
