"""Sums over nodes as tidy tables: by node, group, op, module, line or class.

No clock can time the ops inside a kernel. Where a table needs that, the time of a group is divided among its nodes in
proportion to their times op by op, and the column `estimated` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from irscope.errors import ArgumentError, new_table
from irscope.ir import Node
from irscope.runtime.profile.readings import NodeRow, Readings, class_numbers, place, type_words

if TYPE_CHECKING:
    import pandas as pd

By = Literal["node", "group", "op", "module", "line", "class"]
BY: Final = ("node", "group", "op", "module", "line", "class")


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
        known = [(node, profile.before_ns(node)) for node in inner]
        whole = sum(ns for _, ns in known)
        if not known:
            yield Share(row, row.node, 1.0)
        for node, ns in known:
            yield Share(row, node, ns / whole if whole else 1.0 / len(known))


def node_table(profile: Readings, way: str) -> pd.DataFrame:
    """Returns one row for each node that ran, in program order."""
    rows = profile.rows(way)
    classes = class_numbers(profile.graph(way), rows)
    return _frame([_node_cells(profile, row, classes[row.node.id]) for row in rows], _NODE_COLUMNS)


def _node_cells(profile: Readings, row: NodeRow, number: int) -> dict[str, Any]:
    where, cost, took = place(row.node), row.cost, row.self_time.median
    is_host = profile.device == "cuda"
    return {
        "node": row.name, "op": row.node.op, "type": type_words(row.node), "line": str(where or ""), "module": row.node.scope,
        "group": row.group or None, "class": number, "ms": took / 1e6, "low ms": row.self_time.low / 1e6,
        "high ms": row.self_time.high / 1e6, "total ms": row.total_ns / 1e6, "share": row.share, "calls": row.calls,
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
    "node", "op", "type", "line", "module", "group", "class", "ms", "low ms", "high ms", "total ms", "share", "calls", "trips",
    "launches", "host ms", "idle ms", "MB", "MFLOP", "GB/s", "of copy", "GFLOP/s", "of peak", "live MB", "allocated MB",
)  # fmt: skip


def group_table(profile: Readings) -> pd.DataFrame:
    """Returns one row for each fusion group: its nodes one by one, and its kernel."""
    cells = []
    for row in profile.rows("fused") if "fused" in profile.ways else ():
        if row.node.op != "prim::FusionGroup":
            continue
        before = profile.group_before(row.node)
        nodes = profile.members.get(row.node.id, [])
        verdict = row.self_time.against(before)
        moved = sum(profile.cost(node).bytes for node in nodes)
        cells.append({
            "group": row.node.id, "node": row.name, "kind": row.node.attrs.get("kind", ""), "ops": len(nodes),
            "line": str(place(row.node) or ""), "before ms": before.median / 1e6, "after ms": row.self_time.median / 1e6,
            "low ms": row.self_time.low / 1e6, "high ms": row.self_time.high / 1e6,
            "times": before.median / row.self_time.median if row.self_time.median and verdict != "the same" else None,
            "verdict": verdict, "MB before": moved / 1e6, "MB after": row.cost.bytes / 1e6,
            "of copy": row.copy_ns / row.self_time.median if row.self_time.median and row.copy_ns else None,
        })  # fmt: skip
    return _frame(cells, _GROUP_COLUMNS)


_GROUP_COLUMNS: Final = (
    "group", "node", "kind", "ops", "line", "before ms", "after ms", "low ms", "high ms", "times", "verdict", "MB before",
    "MB after", "of copy",
)  # fmt: skip


@dataclass(slots=True)
class _Sum:
    ns: float = 0.0
    nodes: int = 0
    calls: int = 0
    launches: int = 0
    bytes: float = 0.0
    flops: float = 0.0
    estimated_ns: float = 0.0
    rows: set[int] = field(default_factory=set)


def summed_table(profile: Readings, way: str, by: By) -> pd.DataFrame:
    """Returns one row for each op, module, line or class, the slowest first. A module includes those inside it."""
    sums: dict[Any, _Sum] = {}
    for share in shares(profile, way):
        for key in _keys(profile, way, by)(share):
            _add(sums.setdefault(key, _Sum()), share)
    whole = sum(row.self_time.median for row in profile.rows(way)) or 1.0
    cells = [
        {
            by: key, "ms": found.ns / 1e6, "share": found.ns / whole, "nodes": found.nodes, "calls": found.calls,
            "launches": found.launches, "MB": found.bytes / 1e6, "MFLOP": found.flops / 1e6,
            "estimated": found.estimated_ns / found.ns if found.ns else 0.0,
        }
        for key, found in sorted(sums.items(), key=lambda entry: -entry[1].ns)
    ]  # fmt: skip
    return _frame(cells, (by, "ms", "share", "nodes", "calls", "launches", "MB", "MFLOP", "estimated"))


def _add(found: _Sum, share: Share) -> None:
    found.ns += share.ns
    found.nodes += 1
    found.calls += share.row.calls
    if share.row.node.id not in found.rows:
        found.rows.add(share.row.node.id)
        found.launches += share.row.launches
    found.bytes += share.row.cost.bytes * share.part
    found.flops += share.row.cost.flops * share.part
    found.estimated_ns += share.ns if share.is_estimated else 0.0


def _keys(profile: Readings, way: str, by: By) -> Callable[[Share], Iterable[Any]]:
    if by == "op":
        return lambda share: (share.node.op,)
    if by == "line":
        return lambda share: (_line(share),)
    if by == "module":
        return lambda share: _modules(share.node.scope or share.row.node.scope)
    numbers = profile.class_numbers(way)
    return lambda share: (numbers[share.row.node.id],)


def _line(share: Share) -> str:
    where = share.node.location or place(share.row.node)
    return "" if where is None else f"{where.file}:{where.line}"


def _modules(scope: str) -> Iterator[str]:
    """Yields a module and all that enclose it; the whole model is the empty name."""
    yield ""
    parts = scope.split(".") if scope else []
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def check(by: str) -> None:
    """Raises ArgumentError for an unknown table."""
    if by not in BY:
        raise ArgumentError(f"there is no table by {by!r}", hint=f"the tables are by {', '.join(BY)}")


def _frame(cells: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    return new_table(cells, columns=list(columns))
