"""Time spent on calls and waits rather than on work: many small ops, and numbers that Python waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from irscope._base.words import plural
from irscope.ir import Node
from irscope.runtime.profile.advice.evidence import Evidence
from irscope.runtime.profile.advice.remark import Remark
from irscope.runtime.profile.rows import NodeRow
from irscope.runtime.timer import time_words

__all__ = ["waiting_remarks"]

_WAITS: Final = frozenset(
    f"aten::{name}"
    for name in "item _local_scalar_dense Bool Int Float Complex ScalarImplicit IntImplicit FloatImplicit is_nonzero nonzero "
    "nonzero_numpy argwhere masked_select unique unique_consecutive _unique2 equal allclose tolist cpu".split()
)
"""Ops whose result the program needs as a number, or whose extents depend on one: a GPU must finish before they return."""
_MANY: Final = 8
_CALLED: Final = 3.0
"""The factor over the roof from which on a small op's time counts as that of the call."""
_SMALL_NS: Final = 30_000.0
_SLICES: Final = frozenset(
    {"aten::select", "aten::slice", "aten::narrow", "aten::unbind", "aten::index", "aten::__getitem__"}
)
_WAIT_WEIGHT: Final = 0.25
"""The part of the time before a wait that is attributed to it: a GPU's host could have been that far ahead."""


def waiting_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields remarks on lines of many small calls, on waits, and on a GPU that waits for Python."""
    yield from _small_calls(evidence)
    yield from _waits(evidence)
    yield from _idle(evidence)


def _small_calls(evidence: Evidence) -> Iterator[Remark]:
    by_line: dict[object, list[NodeRow]] = {}
    for row in evidence.rows:
        where = row.node.location
        key = (where.file, where.line) if where is not None else evidence.graph.block_of[row.node]
        by_line.setdefault(key, []).append(row)
    found = [remark for rows in by_line.values() if (remark := _of_one_line(evidence, rows)) is not None]
    yield from _joined(evidence, found)


def _of_one_line(evidence: Evidence, rows: list[NodeRow]) -> Remark | None:
    launches = sum(row.launches for row in rows)
    took = sum(row.self_time.median for row in rows)
    work = sum(row.roof_ns for row in rows)
    nodes = [row.node for row in rows]
    if launches < _MANY or took / launches > _SMALL_NS or took < _CALLED * work:
        return None
    sliced = any(node.op in _SLICES for node in nodes) or any(node.op in ("aten::stack", "aten::cat") for node in nodes)
    turns = max(row.calls for row in rows)
    ops = len({row.node.op for row in rows if row.launches})
    count = turns if turns >= _MANY else launches // max(ops, 1)
    if (sliced or turns >= _MANY) and _leads_on(evidence, nodes, count):
        because = f"it runs {plural(launches, 'op')} one after the other, {time_words(took / launches)} each"
        advice = "each turn needs the one before: fuse what a turn does, or use an op of the library for the whole loop"
    elif sliced or turns >= _MANY:
        because = f"it runs {plural(launches, 'op')} on parts of tensors, one after the other, {time_words(took / launches)} each"
        advice = f"one op over the whole tensor instead of {count} would do"
    else:
        because = f"it runs {plural(launches, 'small op')}, {time_words(took / launches)} each"
        advice = "fused they are one kernel"
    because += f": {1 - work / took:.0%} of that are calls, not work"
    return evidence.remark("many-small-ops", nodes, took - work - ops * evidence.call_ns, because, advice)


def _leads_on(evidence: Evidence, nodes: list[Node], count: int) -> bool:
    """Checks whether a loop's iteration computes an operand of the next one."""
    loops = {evidence.graph.owner.get(evidence.graph.block_of[node]) for node in nodes}
    if any(loop is not None and loop.op == "prim::Loop" and len(loop.inputs) > 2 for loop in loops):
        return True
    depth: dict[Node, int] = {}
    for node in nodes:  # in program order
        depth[node] = max([depth[maker] for maker in evidence.makers(node) if maker in depth], default=0) + 1
    return max(depth.values()) >= max(count, _MANY)


def _joined(evidence: Evidence, remarks: list[Remark]) -> Iterator[Remark]:
    """Joins adjacent lines of small calls, which are one loop."""
    ordered = sorted(remarks, key=lambda r: (r.line.file, r.line.line) if r.line is not None else ("", 0))
    group: list[Remark] = []
    for remark in ordered:
        last = group[-1].line if group else None
        near = (
            last is not None
            and remark.line is not None
            and remark.line.file == last.file
            and remark.line.line - last.line <= 2
        )
        if group and not near:
            yield _one_loop(evidence, group)
            group = []
        group.append(remark)
    if group:
        yield _one_loop(evidence, group)


def _one_loop(evidence: Evidence, group: list[Remark]) -> Remark:
    if len(group) == 1:
        return group[0]
    main = max(group, key=lambda remark: remark.now_ns)
    nodes = [node for remark in group for node in remark.nodes]
    because = f"{len(group)} lines, of which {main.because.removeprefix('it ')}"
    gain = sum(remark.gain_ns for remark in group)
    return evidence.remark("many-small-ops", nodes, gain, because, main.advice, first=main.node)


def _waits(evidence: Evidence) -> Iterator[Remark]:
    by_line: dict[object, list[Node]] = {}
    for row in evidence.rows:
        if row.node.op in _WAITS and row.cost.operands and row.cost.operands[0] is not None:
            where = row.node.location
            by_line.setdefault((where.file, where.line) if where is not None else row.node, []).append(row.node)
    for nodes in by_line.values():
        first = nodes[0]
        before = _ancestors(evidence, first)
        waited = evidence.sum_ns(before)
        readers = sum(1 for _ in evidence.users(first))
        name = first.op.partition("::")[2]
        turns = sum(evidence.cost(node).calls for node in nodes)
        times = f" {turns} times" if turns > 1 else ""
        because = (
            f"{name} waits{times} for a number: {plural(len(before), 'op')} ({time_words(waited)}) must be done before "
            f"{plural(readers, 'op')} can start, and none of them can be launched ahead or fused with them"
        )
        idle = sum(evidence.row_of[node].idle_ns for node in nodes)
        gain = evidence.sum_ns(nodes) + max(idle, _WAIT_WEIGHT * waited)
        yield evidence.remark(
            "waits-for-a-number", [*nodes], gain, because, "keep it a zero-dimensional tensor: ops accept one like a number",
            now_ns=max(evidence.sum_ns(nodes) + idle, gain), first=first,
        )  # fmt: skip


def _ancestors(evidence: Evidence, node: Node) -> list[Node]:
    found: list[Node] = []
    seen, pending = {node}, [node]
    while pending:
        for maker in evidence.makers(pending.pop()):
            if maker not in seen:
                seen.add(maker)
                found.append(maker)
                pending.append(maker)
    return [each for each in found if each in evidence.row_of]


def _idle(evidence: Evidence) -> Iterator[Remark]:
    """Yields a remark on a GPU that is idle while it waits for Python."""
    label = evidence.readings.main
    rows = evidence.readings.rows(label)
    idle, launches = sum(row.idle_ns for row in rows), sum(row.launches for row in rows)
    if not idle or not launches:
        return
    hosts = sum(row.host_ns for row in rows)
    nodes = [row.node for row in evidence.rows if row.launches] or [row.node for row in evidence.rows]
    yield evidence.remark(
        "waits-for-python", nodes, idle,
        f"the GPU waits for Python: {time_words(hosts / launches)} a launch, {plural(launches, 'launch', 'launches')}",
        "x.captured(*args) replays them with one call", now_ns=idle, certainty=0.8,
    )  # fmt: skip
