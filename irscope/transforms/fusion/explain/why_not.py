"""Explains why two nodes did not fuse: the write, the effect or the path between them, with witnesses."""

from __future__ import annotations

from irscope._base.verdict import Verdict, yes
from irscope._base.words import listed
from irscope.ir import CONTROL_FLOW, Block, Graph, Node
from irscope.ops.view_steps import byte_words, is_unknown
from irscope.transforms.fusion.policy import BlockPlan, Candidate, Policy, candidate_of, obstacle
from irscope.transforms.grouping import Refusal

__all__ = ["GivenGroups", "same_group", "why_apart"]


def why_apart(plan: BlockPlan, policy: Policy, a: Node, b: Node) -> Refusal:
    """Returns why two eligible nodes of one block are in different groups."""
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


def _own_limit(plan: BlockPlan, x: int, y: int) -> Refusal | None:
    """The refusal between the two groups by a limit that the policy counts in its own way; None if there is none."""
    find = plan.partition.find
    ends = {find(x), find(y)}
    for (producer, consumer), refusal in plan.refusals.items():
        if refusal.rule == "argument-limit" and {find(producer), find(consumer)} == ends:
            return refusal
    return None


def _declined(plan: BlockPlan, policy: Policy, x: int, y: int) -> Refusal:
    """Returns why a policy did not do a merge that would be legal."""
    found = candidate_of(plan, x, y)
    nodes, name = plan.nodes(x, y), plan.rules.name
    if found.is_sibling:
        opening = "neither group reads from the other"
        if not policy.joins_siblings:
            what = f"{opening}, and policy {policy.name!r} merges producers with their consumers only"
        elif not found.common:
            what = f"{opening}, and they read nothing in common: one kernel would save nothing"
        else:
            what = f"{opening}, and of the groups that read {name(found.common[0])}, only neighbours are tried"
        return Refusal("siblings", what, nodes)
    score = policy.score(found) if policy.score is not None else 1
    if score is None or score <= 0:
        return Refusal("declined", f"policy {policy.name!r} declines: its score is {score}", nodes)
    return Refusal("declined", f"policy {policy.name!r} never reconsidered this pair", nodes)


def _other_partner(plan: BlockPlan, policy: Policy, x: int, y: int, now: Refusal) -> Refusal:
    """Returns which earlier merge made it impossible for two nodes to be one kernel, though they could be without it."""
    merge = plan.merges[_first_that_blocks(plan, x, y)]
    nodes = plan.nodes(merge.producer, merge.consumer)
    a, b = (plan.rules.name(node.outputs[0]) for node in nodes)
    saving = f", saving {byte_words(merge.bytes_saved)}" if merge.bytes_saved != 0 and not is_unknown(merge.bytes_saved) else ""
    what = f"policy {policy.name!r} chose another partner: {a} went with {b}{saving}, and since then {now.because}"
    return Refusal("other-partner", what, (*nodes, *now.evidence))


def _first_that_blocks(plan: BlockPlan, x: int, y: int) -> int:
    """The index of the first merge after which two nodes can no longer be one kernel, found by bisection: an obstacle, once
    there, remains."""
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
    """The groups and unknown ops around the nodes of a graph before it was fused."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._around: dict[Block, Node | None] = {}
        """The answers by block, each computed once, however deep the blocks nest."""

    def around(self, node: Node) -> Node | None:
        """The outermost node around a node, other than ifs and loops: an existing group, or an unknown op with blocks. None
        where the node is in a block that is fused."""
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
    """Returns the verdict on two nodes of one group."""
    names = listed(group.outputs, lambda value: f"%{graph.names[value]}")
    return yes(f"both are in the fusion group that makes {names}", group, a, b)
