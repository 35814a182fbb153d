"""Remarks about slicing into differentiable subgraphs: what was grouped, and one remark per obstacle to remove."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from irscope._base.words import plural
from irscope.analysis.dependence import Dependence
from irscope.ir import Node
from irscope.transforms.autodiff.block_slices import BlockSlices
from irscope.transforms.autodiff.outline import Sliced
from irscope.transforms.base import Remark
from irscope.transforms.grouping import Refusal

__all__ = ["path_words", "slice_remarks"]


def path_words(plan: BlockSlices, path: Sequence[int]) -> Refusal:
    """Describes a path between two groups through a third one: blocked by a write, by random numbers, or by data alone."""
    ties = [_tie(plan, a, b) for a, b in pairwise(path)]
    nodes = tuple(dict.fromkeys(node for tie in ties for node in (tie.node, tie.obstacle.later)))
    for kind, rule in (("memory", "blocked-by-write"), ("random", "random-order")):
        found = next((tie for tie in ties if tie.kind == kind), None)
        if found is not None:
            return Refusal(rule, found.because, (found.node, found.obstacle.later, *nodes))
    names = " → ".join(plan.rules.db.node_words(node) for node in nodes)
    return Refusal("cycle", f"fusing them would create a cycle: {names}", nodes)


def _tie(plan: BlockSlices, a: int, b: int) -> Dependence:
    """Returns a dependence of a node of the group of `b` on one of the group of `a`."""
    nodes, found = plan.block.nodes, plan.settled
    for index in sorted(found.members(b)):
        for tie in plan.ties.predecessors[nodes[index]]:
            if found.find(plan.index[tie.node]) == found.find(a):
                return tie
    raise AssertionError(f"no dependence leads from {nodes[a]!r} to {nodes[b]!r}")


def slice_remarks(plans: Sequence[BlockSlices], sliced: Sliced) -> tuple[Remark, ...]:
    """Returns the passed remarks, then the missed ones, each in program order of blocks."""
    passed = [remark for plan in plans for remark in _passed(plan, sliced)]
    missed = [remark for plan in plans for remark in (*_left(plan), *_blocked(plan))]
    return (*passed, *missed, *_without_gradient(plans))


def _passed(plan: BlockSlices, sliced: Sliced) -> Iterator[Remark]:
    size: dict[Node, int] = {}
    for node in plan.block.nodes:
        group = sliced.group_of.get(node)
        if group is not None:
            size[group] = size.get(group, 0) + 1
    for group, count in size.items():
        what = f"{plural(count, 'node')} became one differentiable subgraph"
        yield Remark("passed", "differentiable", group, what, group.outputs)


def _left(plan: BlockSlices) -> Iterator[Remark]:
    """Yields one remark for each aliasing that removed nodes from their group."""
    removed: dict[Refusal, list[Node]] = {}
    for index in sorted(plan.left):
        removed.setdefault(plan.left[index], []).append(plan.block.nodes[index])
    for refusal, nodes in removed.items():
        more = f" ({plural(len(nodes), 'node')} left with it)" if len(nodes) > 1 else ""
        yield Remark("missed", refusal.rule, nodes[0], refusal.because + more, refusal.evidence)


def _blocked(plan: BlockSlices) -> Iterator[Remark]:
    """Yields one remark for each write, or order of random numbers, that keeps producers apart from their users."""
    found: dict[object, tuple[Refusal, Node, int]] = {}
    for producer, reader in plan.paths:
        path = plan.settled.obstacle(producer, reader)
        if not path:
            continue
        refusal = path_words(plan, path)
        if refusal.rule != "cycle":
            key = refusal.rule, frozenset(refusal.evidence[:2])
            known = found.get(key)
            found[key] = (refusal, plan.block.nodes[reader], 1) if known is None else (*known[:2], known[2] + 1)
    for refusal, node, count in found.values():
        more = f" (and {count - 1} more)" if count > 1 else ""
        yield Remark("missed", refusal.rule, node, refusal.because + more, refusal.evidence)


def _without_gradient(plans: Sequence[BlockSlices]) -> Iterator[Remark]:
    """Yields one remark for all nodes that would be in a subgraph if one of their inputs required a gradient."""
    found = []
    for plan in plans:
        for node in plan.block.nodes:
            refusal = plan.rules.refusal(node)
            if refusal is not None and refusal.rule == "no-gradient":
                found.append(node)
    if found:
        what = f"nothing that it reads can require a gradient (this holds for {plural(len(found), 'node')} with formulas)"
        yield Remark("missed", "no-gradient", found[0], what, tuple(found[:8]))
