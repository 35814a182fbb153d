"""The greedy policy on one block: consumers bottom-up, and for each the producers from the latest to the earliest.

The latest producer first lets `f(a, a + b)` see `a + b` before `a` (the order of PyTorch's GraphFuser). A producer
that was refused because a path leads around it stays refused while its group grows: whatever joins later stands
before it in the program, and what stands on the path was asked before it. So a group looks at each candidate once;
further sweeps over the block find what becomes possible only when two groups have met.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from irscope.transforms.fusion.plan import BlockPlan

__all__ = ["grow_greedily"]

_SWEEPS = 8


def grow_greedily(plan: BlockPlan) -> None:
    """Decide the groups of a block."""
    consumers = [index for index in reversed(range(len(plan.block.nodes))) if plan.fusible[index]]
    for sweep in range(_SWEEPS):
        before = len(plan.merges)
        plan.refusals.clear()
        for consumer in consumers:
            if sweep or len(plan.partition.members(consumer)) == 1:
                _grow(plan, consumer)
        if len(plan.merges) == before:
            break


def _grow(plan: BlockPlan, consumer: int) -> None:
    """Let producers join the group of a node, the latest first, until no candidate is left."""
    find = plan.partition.find
    heap = [(-producer, consumer) for producer in plan.producers(consumer)]
    heapify(heap)
    asked: set[int] = set()
    while heap:
        negative, reader = heappop(heap)
        producer = -negative
        if producer in asked or find(producer) == find(consumer):
            continue
        asked.add(producer)
        joining = plan.partition.members(producer)
        single = len(joining) == 1
        refusal = plan.try_merge(producer, reader)
        if refusal is not None:
            plan.refusals[producer, reader] = refusal
        elif single:  # the producers of a larger group were its candidates already
            for earlier in plan.producers(producer):
                heappush(heap, (-earlier, producer))
