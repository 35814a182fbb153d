"""Why two nodes did not fuse: the write, the effect or the path that stands between them, with witnesses."""

from __future__ import annotations

from itertools import pairwise

from irscope._base.verdict import Verdict, yes
from irscope._base.words import byte_count, listed
from irscope.analysis.alias.query import AliasDb
from irscope.analysis.dependence import Dependence
from irscope.ir import CONTROL_FLOW, Block, Graph, Node
from irscope.transforms.fusion.policy import BlockPlan, Candidate, Policy
from irscope.transforms.grouping import Refusal

__all__ = ["GivenGroups", "candidate", "explain_path", "obstacle", "same_group", "why_apart"]




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
    return Refusal("cycle", f"fusing them would create a cycle: {told}", nodes)


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


def why_apart(plan: BlockPlan, policy: Policy, a: Node, b: Node) -> Refusal:
    """Why two nodes of one block, each fit for a group, are in different ones."""
    x, y = sorted((plan.index[a], plan.index[b]))
    if plan.partition.find(x) == plan.partition.find(y):
        what = "their group is smaller than the smallest that was asked for"
        return Refusal("too-small", what, plan.nodes(x, y))
    found = obstacle(plan, x, y)
    if found is None:
        return _own_limit(plan, x, y) or _declined(plan, policy, x, y)
    if found.rule not in ("argument-limit", "size-limit") and obstacle(plan.untouched, x, y) is None:
        return _other_partner(plan, policy, x, y, found)
    return found


def obstacle(plan: BlockPlan, x: int, y: int) -> Refusal | None:
    """What forbids a merge of the groups of two nodes, as they are in the plan, whatever the policy."""
    path = plan.partition.obstacle(x, y)
    if path:
        return explain_path(plan, plan.nodes(*path))
    verdict = candidate(plan, x, y).verdict()
    return verdict if isinstance(verdict, Refusal) else None


def candidate(plan: BlockPlan, x: int, y: int) -> Candidate:
    """The two groups, the one that is read first."""
    return Candidate(plan, y, x) if plan.shared(y, x) else Candidate(plan, x, y)


def _own_limit(plan: BlockPlan, x: int, y: int) -> Refusal | None:
    """A limit that the policy counts in a way of its own, and that it met between the two groups."""
    find = plan.partition.find
    ends = {find(x), find(y)}
    for (producer, consumer), refusal in plan.refusals.items():
        if refusal.rule == "argument-limit" and {find(producer), find(consumer)} == ends:
            return refusal
    return None


def _declined(plan: BlockPlan, policy: Policy, x: int, y: int) -> Refusal:
    """Why a policy did not do what it could have done."""
    found = candidate(plan, x, y)
    nodes, name = plan.nodes(x, y), plan.rules.name
    if found.is_sibling:
        told = "neither group reads from the other"
        if not policy.joins_siblings:
            what = f"{told}, and policy {policy.name!r} merges producers with their consumers only"
        elif not found.common:
            what = f"{told}, and they read nothing in common: one kernel would save nothing"
        elif not found.bytes_saved:
            what = f"{told}, and how large {name(found.common[0])} is, which both read, is not known"
        else:
            what = f"{told}, and of those that read {name(found.common[0])} too, only neighbours are looked at"
        return Refusal("siblings", what, nodes)
    score = policy.score(found) if policy.score is not None else 1
    if score is None or score <= 0:
        return Refusal("declined", f"policy {policy.name!r} declines: its score is {score}", nodes)
    return Refusal("declined", f"policy {policy.name!r} never reconsidered this pair", nodes)


def _other_partner(plan: BlockPlan, policy: Policy, x: int, y: int, now: Refusal) -> Refusal:
    """Alone the two could be one kernel; which merge came before, and made that impossible."""
    merge = plan.merges[_first_that_blocks(plan, x, y)]
    nodes = plan.nodes(merge.producer, merge.consumer)
    a, b = (plan.rules.name(node.outputs[0]) for node in nodes)
    saving = f", saving {byte_count(merge.bytes_saved)}" if merge.bytes_saved else ""
    what = f"policy {policy.name!r} chose another partner: {a} went with {b}{saving}, and since then {now.because}"
    return Refusal("other-partner", what, (*nodes, *now.evidence))


def _first_that_blocks(plan: BlockPlan, x: int, y: int) -> int:
    """The merge before which two nodes could have been one kernel, and after which they could not: by halving, because
    what blocks them once does so from then on."""
    low, high = 0, len(plan.merges) - 1
    while low < high:
        middle = (low + high) // 2
        replay = plan.anew()
        for merge in plan.merges[: middle + 1]:
            replay.try_merge(Candidate(replay, merge.producer, merge.consumer))
        if obstacle(replay, x, y) is None:
            low = middle + 1
        else:
            high = middle
    return low


class GivenGroups:
    """What stood around the nodes of a graph before it was fused."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._around: dict[Block, Node | None] = {}
        """By block; each is asked of its outer ones once, however deep they nest."""

    def around(self, node: Node) -> Node | None:
        """The outermost node around one, other than ifs and loops, whose block was there before fusion: a group, or what
        nobody knows. None where the node stands in a block that is fused."""
        inner: list[tuple[Block, Node]] = []
        block = self._graph.block_of[node]
        while block not in self._around and (owner := self._graph.owner.get(block)) is not None:
            inner.append((block, owner))
            block = self._graph.block_of[owner]
        found = self._around.get(block)
        for block, owner in reversed(inner):
            found = found or (None if owner.op in CONTROL_FLOW else owner)
            self._around[block] = found
        return found


def same_group(group: Node, a: Node, b: Node, graph: Graph) -> Verdict:
    """The verdict on two nodes of one group."""
    names = listed(group.outputs, lambda value: f"%{graph.names[value]}")
    return yes(f"both are in the fusion group that makes {names}", group, a, b)
