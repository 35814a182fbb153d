"""The greedy policy on one block: consumers bottom-up, and for each the producers from the latest to the earliest.

The latest producer first lets `f(a, a + b)` see `a + b` before `a` (the order of PyTorch's GraphFuser). A producer
that was refused because of a path through a third group stays refused while its group grows: nodes that join later come
before it in the program, and the nodes on the path were tried before it. So a group tries each candidate once. Pairs
refused for another reason are tried again after other merges; siblings join when nothing else can, and then the
refused pairs are tried once more.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from irscope.transforms.fusion.policy.block_plan import BlockPlan
from irscope.transforms.fusion.policy.candidate import Candidate
from irscope.transforms.fusion.policy.siblings import join_siblings

__all__ = ["grow_greedily"]

_ROUNDS: Final = 8

_FOR_GOOD: Final = frozenset({"cycle", "size-limit", "device", "forbidden"})
"""Refusals that remain valid however the groups grow."""


def grow_greedily(plan: BlockPlan) -> None:
    """Decide the groups of a block."""
    find, groups = plan.partition.find, plan.groups
    roots = {find(merge.consumer) for merge in plan.merges}
    together = {index for root in roots for index in plan.partition.members(root)}  # merged before the policy began
    for consumer in reversed(range(len(plan.block.nodes))):
        if groups[find(consumer)].size == 1 or consumer in together:
            _grow(plan, consumer)
    for _ in range(_ROUNDS):
        before = len(plan.merges)
        _retry(plan)
        if len(plan.merges) == before:
            join_siblings(plan)
        if len(plan.merges) == before:
            break


def _retry(plan: BlockPlan) -> None:
    """Try the pairs that were refused, consumers bottom-up."""
    find = plan.partition.find
    refused = [pair for pair, refusal in plan.refusals.items() if refusal.rule not in _FOR_GOOD]
    for producer, consumer in sorted(refused, key=lambda pair: (pair[1], pair[0]), reverse=True):
        if find(producer) != find(consumer):
            single = plan.group(producer).size == 1
            refusal = plan.try_merge(Candidate(plan, producer, consumer))
            if refusal is not None:
                plan.refusals[producer, consumer] = refusal
            elif single:
                _grow(plan, producer)


def _grow(plan: BlockPlan, consumer: int) -> None:
    """Merge producers into the group of a node, the latest first, until no candidate is left."""
    find, groups = plan.partition.find, plan.groups
    heap = [(-producer, consumer) for producer in plan.producers(consumer)]
    heapify(heap)
    asked: set[int] = set()
    while heap:
        negative, reader = heappop(heap)
        producer = -negative
        if producer in asked:
            continue
        asked.add(producer)
        root = find(producer)
        if root == find(consumer):
            continue
        single = groups[root].size == 1
        refusal = plan.try_merge(Candidate(plan, producer, reader))
        if refusal is not None:
            plan.refusals[producer, reader] = refusal
        elif single:  # the producers of a larger group were its candidates already
            for earlier in plan.producers(producer):
                heappush(heap, (-earlier, producer))
