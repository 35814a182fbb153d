"""Why two nodes did not fuse: the write, the effect or the path that stands between them, with witnesses."""

from __future__ import annotations

from itertools import pairwise

from irscope._base.verdict import Verdict, no, yes
from irscope.analysis.alias.alias_db import AliasDb
from irscope.analysis.dependence import Dependence
from irscope.ir.core import Graph, Node
from irscope.transforms.fusion.plan import BlockPlan
from irscope.transforms.fusion.rules import Refusal

__all__ = ["explain_path", "why_apart"]


def explain_path(plan: BlockPlan, path: tuple[Node, ...]) -> Refusal:
    """What a path between two groups through a third one consists of: a write, an effect, or data alone.

    `path` holds one node of each group along it.
    """
    ties = [_tie(plan, a, b) for a, b in pairwise(path)]
    nodes = tuple(dict.fromkeys(node for tie in ties for node in (tie.node, tie.obstacle.later)))
    for kind, rule in (("memory", "blocked-by-write"), ("effect", "side-effect-between"), ("random", "random-order")):
        found = next((tie for tie in ties if tie.kind == kind), None)
        if found is not None:
            named = (found.node, found.obstacle.later)
            return Refusal(rule, found.because + _between(plan.rules.db, nodes, named), (*named, *nodes))
    told = " → ".join(plan.rules.db.node_words(node) for node in nodes)
    return Refusal("cycle", f"together they would wait for themselves: {told}", nodes)


def _between(db: AliasDb, nodes: tuple[Node, ...], named: tuple[Node, Node]) -> str:
    """The ends of the path, where the sentence does not name them."""
    first, last = nodes[0], nodes[-1]
    if first in named and last in named:
        return ""
    return f"; that lies between {db.node_words(first)} and {db.node_words(last)}"


def _tie(plan: BlockPlan, a: Node, b: Node) -> Dependence:
    """A dependence of some node of the group of `b` on one of the group of `a`."""
    find, nodes = plan.partition.find, plan.block.nodes
    here = find(plan.index[a])
    for index in sorted(plan.partition.members(plan.index[b])):
        for tie in plan.ties.predecessors[nodes[index]]:
            if find(plan.index[tie.node]) == here:
                return tie
    raise AssertionError(f"no dependence leads from {a!r} to {b!r}")


def why_apart(plan: BlockPlan, a: Node, b: Node) -> Verdict:
    """Why two nodes of one block, each fit for a group, are in different ones."""
    x, y = sorted((plan.index[a], plan.index[b]))
    first, last = plan.block.nodes[x], plan.block.nodes[y]
    path = plan.partition.obstacle(x, y)
    if path:
        found = explain_path(plan, tuple(plan.block.nodes[index] for index in path))
        return no(found.because, *found.evidence)
    if plan.partition.find(x) == plan.partition.find(y):
        return no("their group is smaller than the smallest that this policy makes", first, last)
    for producer, consumer in ((x, y), (y, x)):
        if plan.reads_from(consumer, producer):
            refusal = plan.refusal(producer, consumer)
            if refusal is not None:
                return no(refusal.because, *refusal.evidence)
            return no("the policy chose other partners first", first, last)
    refusal = plan.refusal(x, y)
    if refusal is not None:
        return no(refusal.because, *refusal.evidence)
    return no(
        "neither group reads from the other, and policy 'greedy' merges producers with their consumers only",
        first,
        last,
    )


def same_group(group: Node, a: Node, b: Node, graph: Graph) -> Verdict:
    """The verdict on two nodes of one group."""
    names = ", ".join(f"%{graph.names[value]}" for value in group.outputs)
    return yes(f"both are in the fusion group that makes {names}", group, a, b)
