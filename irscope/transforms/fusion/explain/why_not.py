"""Explains why two nodes did not fuse: the write, the effect or the path between them, with witnesses.

A reason that is the policy's own, or the consequence of an earlier merge, says what would put the two into one kernel. That is
looked up and not guessed: with nothing merged the two are no obstacle to each other, and a plan by bytes has them in one group.
"""

from __future__ import annotations

from irscope._base.verdict import Verdict, yes
from irscope._base.words import listed
from irscope.analysis.per_graph import once
from irscope.ir import CONTROL_FLOW, Block, Graph, Node
from irscope.ops.view_steps import byte_words, is_unknown
from irscope.transforms.functionalize import why_in_place
from irscope.transforms.fusion.policy import (
    NOWHERE,
    POLICIES,
    BlockPlan,
    Candidate,
    Policy,
    candidate_of,
    obstacle,
    ties_along,
)
from irscope.transforms.grouping import Refusal

__all__ = ["GivenGroups", "same_group", "why_apart", "with_cause"]


def why_apart(plan: BlockPlan, policy: Policy, a: Node, b: Node, *, min_size: int | None) -> Refusal:
    """Returns why two eligible nodes of one block are in different groups, and what would join them in a group of `min_size` nodes
    (not if that is None)."""
    x, y = sorted((plan.index[a], plan.index[b]))
    if plan.partition.find(x) == plan.partition.find(y):
        what = "their group is smaller than the smallest that was asked for"
        return Refusal("too-small", what, plan.nodes(x, y))
    found = obstacle(plan, x, y)
    if found is None:
        found = _own_limit(plan, x, y) or _declined(plan, policy, x, y)
    elif found.rule in ("argument-limit", "size-limit") or obstacle(plan.untouched, x, y) is not None:
        return found
    else:
        found = _other_partner(plan, policy, x, y, found)
    remedy = "" if min_size is None else _remedy(plan, policy, x, y, min_size)
    return Refusal(found.rule, found.because + remedy, found.evidence)


def with_cause(graph: Graph, node: Node, refusal: Refusal) -> Refusal:
    """The refusal, for a write that stays in place with what keeps it there."""
    cause = once(graph, why_in_place, lambda: why_in_place(graph)).get(node) if refusal.rule == "in-place" else None
    return refusal if cause is None else Refusal(refusal.rule, f"{refusal.because}: {cause}", refusal.evidence)


def _remedy(plan: BlockPlan, policy: Policy, x: int, y: int, min_size: int) -> str:
    """Says what would put two nodes into one kernel; nothing where that is not certain."""
    if policy.name != "min-bytes" and plan.wishes is NOWHERE:
        other = plan.by_policy.get("min-bytes")
        if other is None:
            other = plan.by_policy["min-bytes"] = plan.anew()
            POLICIES["min-bytes"].grow(other)
        group = other.group(x)
        if other.partition.find(x) == other.partition.find(y) and group.size - group.views >= min_size:
            return '; policy="min-bytes" joins them'
    views = sum(plan.untouched.group(index).views for index in (x, y))
    if 2 - views >= min_size and obstacle(plan.untouched, x, y) is None and not plan.wishes.together:
        return "; what_if(force=[(a, b)]) joins them"
    return ""


def _own_limit(plan: BlockPlan, x: int, y: int) -> Refusal | None:
    """The refusal between the two groups by a limit that the policy counts in its own way; None if there is none."""
    refusal = _last_refusal(plan, x, y)
    return refusal if refusal is not None and refusal.rule == "argument-limit" else None


def _last_refusal(plan: BlockPlan, x: int, y: int) -> Refusal | None:
    """Why the policy refused the merge of these two groups when it last tried."""
    find = plan.partition.find
    return plan.refused_groups.get(frozenset((find(x), find(y))))


def _declined(plan: BlockPlan, policy: Policy, x: int, y: int) -> Refusal:
    """Returns why a policy did not do a merge that would be legal."""
    found = candidate_of(plan, x, y)
    nodes, name = plan.nodes(x, y), plan.rules.name
    quoted = f"policy {policy.name!r}"
    score = policy.score(found) if policy.score is not None else 1
    if found.is_sibling:
        opening = "neither group reads from the other"
        if policy.siblings is None:
            what = f"{opening}, and {quoted} merges producers with their consumers only"
        elif not found.common:
            what = f"{opening}, and they read nothing in common: one kernel would save nothing"
        elif score is None or score <= 0:
            return Refusal("declined", f"{quoted} declines: its score is {score}", nodes)
        elif not found.bytes_saved and policy.score is None:
            what = f"{opening}, and {quoted} counts no bytes for {name(found.common[0])}, the view that both read"
        else:
            what = f"{opening}, and {quoted} {policy.siblings(found)}"
        return Refusal("siblings", what, nodes)
    if score is None or score <= 0:
        return Refusal("declined", f"{quoted} declines: its score is {score}", nodes)
    before = _last_refusal(plan, x, y)
    if before is not None:
        return Refusal("declined", f"when {quoted} tried, {before.because}; it did not try again after the merges that ended this", nodes)
    return Refusal("declined", f"{quoted} never reconsidered this pair after its groups had grown", nodes)


def _other_partner(plan: BlockPlan, policy: Policy, x: int, y: int, now: Refusal) -> Refusal:
    """Returns which earlier merge made it impossible for two nodes to be one kernel, though they could be without it."""
    path = plan.partition.obstacle(x, y)
    merge = plan.merges[_last_on_path(plan, x, y, path) if path else _first_that_blocks(plan, x, y)]
    nodes = plan.nodes(merge.producer, merge.consumer)
    a, b = (plan.rules.name(node.outputs[0]) for node in nodes)
    saving = f", saving {byte_words(merge.bytes_saved)}" if merge.bytes_saved != 0 and not is_unknown(merge.bytes_saved) else ""
    what = f"policy {policy.name!r} chose another partner: {a} went with {b}{saving}, and since then {now.because}"
    return Refusal("other-partner", what, (*nodes, *now.evidence))


def _last_on_path(plan: BlockPlan, x: int, y: int, path: list[int]) -> int:
    """The index of the merge that completed the path between two groups: each group on it is entered at one node and left at
    another, and the last two of these that became one group completed it."""
    index, find = plan.index, plan.partition.find
    ties = ties_along(plan, plan.nodes(*path))
    first, last = (x, y) if find(path[0]) == find(x) else (y, x)
    entered = [first, *(index[tie.obstacle.later] for tie in ties)]
    left = [*(index[tie.node] for tie in ties), last]
    return max(plan.merged_at(a, b) for a, b in zip(entered, left, strict=True))


def _first_that_blocks(plan: BlockPlan, x: int, y: int) -> int:
    """The index of the first merge after which two groups have no common domain. That depends on the merges of these two alone."""
    find, replay = plan.partition.find, plan.anew()
    ends = {find(x), find(y)}
    for index, merge in enumerate(plan.merges):
        if find(merge.producer) in ends:
            replay.try_merge(Candidate(replay, merge.producer, merge.consumer))
            if isinstance(candidate_of(replay, x, y).verdict(), Refusal):
                return index
    raise AssertionError("the groups are as they were planned, and have no common domain")


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
