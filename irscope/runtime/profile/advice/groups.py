"""The measured gain or loss of fusing, and the nodes that separate groups which would move fewer bytes together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from irscope._base.words import byte_count, plural
from irscope.errors import IrscopeError
from irscope.ir import Node
from irscope.runtime.profile.advice.evidence import Evidence
from irscope.runtime.profile.advice.remark import Remark
from irscope.runtime.profile.rows import NodeRow
from irscope.runtime.timer import time_words
from irscope.transforms.fusion import Fusion

__all__ = ["group_remarks"]

_MOST_QUESTIONS = 12
"""The most nodes for which the fusion is asked why they stay apart: those that move most."""


def group_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields remarks on groups that are faster or slower as kernels, and on nodes beside them that are in no kernel."""
    readings = evidence.readings
    if "fused" not in readings.ways:
        return
    groups = [row for row in readings.rows("fused") if row.node.op == "prim::FusionGroup"]
    yield from _faster(evidence, groups)
    fusion = readings.measured.fusion
    if fusion is not None:
        yield from _slower(evidence, groups, fusion)
        yield from _apart(evidence, fusion)


def _faster(evidence: Evidence, groups: list[NodeRow]) -> Iterator[Remark]:
    """Yields one remark for all groups of the same lines, such as a layer's or a loop's."""
    by_lines: dict[object, list[NodeRow]] = {}
    members = {
        row.node.id: [n for n in evidence.readings.members.get(row.node.id, ()) if n in evidence.row_of]
        for row in groups
    }
    for row in groups:
        nodes = members[row.node.id]
        if len(nodes) < 2:
            continue
        verdict = row.self_time.against(evidence.readings.group_before(row.node))
        if verdict == "faster":
            by_lines.setdefault(frozenset(_line(node) for node in nodes), []).append(row)
    for rows in by_lines.values():
        nodes = [node for row in rows for node in members[row.node.id]]
        before = evidence.sum_ns(nodes)
        after = sum(row.self_time.median for row in rows)
        moved, moves = sum(evidence.cost(node).bytes for node in nodes), sum(row.cost.bytes for row in rows)
        kernels = "one kernel" if len(rows) == 1 else f"{len(rows)} kernels"
        yield evidence.remark(
            "fuse", nodes, before - after / evidence.scale,
            f"{_described(nodes)} move {byte_count(moved)} one by one and {byte_count(moves)} as {kernels}",
            "irs.compile(irs.fuse(g)) runs them fused", is_measured=evidence.scale == 1.0,
        )  # fmt: skip


def _slower(evidence: Evidence, groups: list[NodeRow], fusion: Fusion) -> Iterator[Remark]:
    """Yields a remark for each group that the library computes in less time, one by one."""
    for row in groups:
        before = evidence.readings.group_before(row.node)
        nodes = [node for node in evidence.readings.members.get(row.node.id, ()) if node in evidence.row_of and node.outputs]
        if not nodes or row.self_time.against(before) != "slower" or evidence.scale < 1.0:
            continue
        names = ", ".join(f'"{fusion.original.names[node.outputs[0]]}"' for node in nodes)
        after = row.self_time.median
        yield evidence.remark(
            "slower-fused", nodes, after - before.median,
            f"the kernel of {_described(nodes)} takes {time_words(after)}, and the library "
            f"{time_words(before.median)}", f"irs.fuse(g, opaque=[{names}]) leaves it to the library", is_measured=True, now_ns=after,
        )  # fmt: skip


def _line(node: Node) -> object:
    return (node.location.file, node.location.line) if node.location is not None else node.op


def _described(nodes: list[Node]) -> str:
    names = Counter(node.op.partition("::")[2] for node in nodes)
    if "exp" in names and "sum" in names and ("div" in names or "mul" in names):
        return f"a softmax written out in {plural(len(nodes), 'op')}"
    if {"mean", "var"} <= names.keys() or {"mean", "rsqrt"} <= names.keys():
        return f"a normalization written out in {plural(len(nodes), 'op')}"
    shown = ", ".join(name for name, _ in names.most_common(4))
    return f"{plural(len(nodes), 'op')} ({shown}{', …' if len(names) > 4 else ''})"


def _apart(evidence: Evidence, fusion: Fusion) -> Iterator[Remark]:
    """Yields remarks on nodes beside a kernel but in none, with the cost of passing their values through memory."""
    rows = evidence.readings.rows("fused")
    graph = fusion.graph
    found = []
    for row in rows:
        node = row.node
        if (
            node.op == "prim::FusionGroup"
            or row.category not in ("pointwise", "reduction", "memory", "other")
            or node.blocks
        ):
            continue
        makers = [graph.producer.get(value) for value in node.inputs]
        users = [use.user for value in node.outputs for use in graph.users.get(value, ())]
        sides = [side for side in (*makers, *users) if isinstance(side, Node) and side.op == "prim::FusionGroup"]
        if sides and row.cost.bytes:
            found.append((row.cost.bytes, row, len(sides)))
    found.sort(key=lambda entry: -entry[0])
    for moved, row, beside in found[:_MOST_QUESTIONS]:
        own = next((each.node for each in evidence.rows if each.node.id == row.node.id), None)
        why = _why(fusion, row.node)
        if own is None or not why:
            continue
        gain = min(evidence.copy_ns(moved), evidence.ns(own))
        yield evidence.remark(
            "stays-apart", [own], gain,
            f"it is beside {plural(beside, 'kernel')} but in none, because {why}; {byte_count(moved)} pass through memory",
            "otherwise it could be part of them", certainty=0.5,
        )  # fmt: skip


def _why(fusion: Fusion, node: Node) -> str:
    try:
        return fusion.why_alone(node).because
    except IrscopeError:
        return ""
