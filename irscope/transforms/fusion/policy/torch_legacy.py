"""The order in which PyTorch's GraphFuser merges (the fuser of `prim::FusionGroup`), decision by decision.

It visits the nodes from the last to the first. A node or group tries its producers, the latest first; the first that can
be moved directly in front of it joins it, and the new group starts again. When none joins, the node in front is next; the
whole is repeated until nothing changes. A successful move stays even if the kernel would then have too many arguments,
and moves change which producer is the latest, so they are done here as well.

Arguments are counted as in PyTorch: inputs and outputs of both sides added up, regardless of what they share, those of a
single node with its constants. Groups never join siblings.
"""

from __future__ import annotations

from irscope.transforms.fusion.policy.block_plan import BlockPlan
from irscope.transforms.fusion.policy.candidate import Candidate
from irscope.transforms.grouping import Refusal

__all__ = ["grow_like_torch"]


def grow_like_torch(plan: BlockPlan) -> None:
    """Decide the groups of a block."""
    merged = True
    while merged:
        merged = False
        plan.refusals.clear()
        node = plan.partition.last()
        while node is not None:
            if _look_up(plan, node):
                merged = True
            else:
                node = plan.partition.in_front_of(node)


def _look_up(plan: BlockPlan, consumer: int) -> bool:
    """Merge the latest possible producer into a node's group, and return whether there was one."""
    if not plan.fusible[consumer]:
        return False
    find, place, maker = plan.partition.find, plan.partition.place, plan.maker
    read = {find(maker[value]): (maker[value], value) for value in plan.group(consumer).inputs if value in maker}
    for producer, value in sorted(read.values(), key=lambda found: place(found[0]), reverse=True):
        reader = plan.reader(consumer, value)
        refusal = _fuse(plan, Candidate(plan, producer, reader))
        if refusal is None:
            return True
        plan.refusals[producer, reader] = refusal
    return False


def _fuse(plan: BlockPlan, candidate: Candidate) -> Refusal | None:
    """Move the two groups together, which is not undone, and merge them."""
    path = plan.partition.bring(candidate.producer_index, candidate.consumer_index)
    if path:
        nodes = tuple(plan.block.nodes[index] for index in path)
        return Refusal("cycle", "fusing them would create a cycle", nodes)
    count = sum(_arguments(plan, index) for index in (candidate.producer_index, candidate.consumer_index))
    limit = plan.limits.arguments
    if count > limit:
        what = f"the two kernels have {count} arguments together, and 'torch-legacy' allows {limit}"
        return Refusal("argument-limit", what, candidate.nodes)
    return plan.try_merge(candidate)


def _arguments(plan: BlockPlan, index: int) -> int:
    group, node = plan.group(index), plan.block.nodes[index]
    return len(group.inputs) + group.outputs if group.size > 1 else len(node.inputs) + len(node.outputs)
