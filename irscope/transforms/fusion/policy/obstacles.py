"""Explains what forbids the merge of two groups, with witnesses: the write, the effect or the path between them."""

from __future__ import annotations

from itertools import pairwise

from irscope.analysis.alias.query import AliasDb
from irscope.analysis.dependence import Dependence
from irscope.ir import Node
from irscope.transforms.fusion.policy.block_plan import BlockPlan
from irscope.transforms.fusion.policy.candidate import Candidate
from irscope.transforms.grouping import Refusal

__all__ = ["candidate_of", "explain_path", "obstacle", "ties_along"]


def explain_path(plan: BlockPlan, path: tuple[Node, ...]) -> Refusal:
    """Describes a path between two groups through a third one: blocked by a write, an effect, or by data alone.

    `path` holds one node of each group along it.
    """
    ties = ties_along(plan, path)
    nodes = tuple(dict.fromkeys(node for tie in ties for node in (tie.node, tie.obstacle.later)))
    for kind, rule in (("memory", "blocked-by-write"), ("effect", "side-effect-between"), ("random", "random-order")):
        found = next((tie for tie in ties if tie.kind == kind), None)
        if found is not None:
            named = (found.node, found.obstacle.later)
            return Refusal(rule, found.because + _between(plan.rules.db, nodes, named), (*named, *nodes))
    names = " → ".join(plan.rules.db.node_words(node) for node in nodes)
    return Refusal("cycle", f"fusing them would create a cycle: {names}", nodes)


def _between(db: AliasDb, nodes: tuple[Node, ...], named: tuple[Node, Node]) -> str:
    """Returns text that names the ends of the path, where the sentence does not name them already."""
    first, last = nodes[0], nodes[-1]
    if first in named and last in named:
        return ""
    return f"; that lies between {db.node_words(first)} and {db.node_words(last)}"


def ties_along(plan: BlockPlan, path: tuple[Node, ...]) -> list[Dependence]:
    """Returns a dependence of each group of a path on the group before it."""
    return [_tie(plan, a, b) for a, b in pairwise(path)]


def _tie(plan: BlockPlan, a: Node, b: Node) -> Dependence:
    """Returns a dependence of a node of the group of `b` on one of the group of `a`."""
    find, nodes = plan.partition.find, plan.block.nodes
    here = find(plan.index[a])
    for index in sorted(plan.partition.members(plan.index[b])):
        for tie in plan.ties.predecessors[nodes[index]]:
            if find(plan.index[tie.node]) == here:
                return tie
    raise AssertionError(f"no dependence leads from {a!r} to {b!r}")


def obstacle(plan: BlockPlan, x: int, y: int) -> Refusal | None:
    """Returns what forbids a merge of the groups of two nodes in the plan's current state, whatever the policy."""
    path = plan.partition.obstacle(x, y)
    if path:
        return explain_path(plan, plan.nodes(*path))
    verdict = candidate_of(plan, x, y).verdict()
    return verdict if isinstance(verdict, Refusal) else None


def candidate_of(plan: BlockPlan, x: int, y: int) -> Candidate:
    """Returns the candidate of the two nodes' groups, with the producer first."""
    return Candidate(plan, y, x) if plan.shared(y, x) else Candidate(plan, x, y)
