"""The greedy policy on one block: consumers bottom-up, and for each the producers from the latest to the earliest.

The latest producer first lets `f(a, a + b)` see `a + b` before `a` (the order of PyTorch's GraphFuser). A producer
that was refused because a path leads around it stays refused while its group grows: whatever joins later stands
before it in the program, and what stands on the path was asked before it. So a group looks at each candidate once;
further sweeps over the block find what becomes possible only when two groups have met. This file is policy; legality
is `partition`'s.

What decides (readings outside a group, inputs, outputs) is counted per group and updated from the smaller side of
each merge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from irscope.analysis.dependence import Dependences
from irscope.ir.core import Node, Value
from irscope.ir.payload import NOT_CONSTANT
from irscope.transforms.fusion.partition import Partition
from irscope.transforms.fusion.rules import Refusal, Rules, Space, same_space, told_space

__all__ = ["BlockPlan", "Merge", "plan_block"]

_SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Merge:
    """One step of a plan: the groups of two nodes became one."""

    producer: Node
    consumer: Node
    space: Space
    """The iteration space of the merged group."""
    bytes_saved: int
    """Memory traffic that it avoids; 0 when sizes are not known."""


@dataclass(slots=True)
class _Group:
    """What decides about merging a group."""

    space: Space
    device: str | None
    inputs: dict[Value, int]
    """Values from outside that are not known numbers, and how often the group reads each."""
    values: list[Value]
    outputs: int
    """How many of its values are read outside."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large one kernel may be."""

    arguments: int
    """Inputs and outputs together."""
    nodes: int
    """A compiler's time grows faster than its kernel; beyond some hundred nodes another kernel costs less than it saves."""


class BlockPlan:
    """The groups of one block, while they grow and for later questions."""

    def __init__(self, ties: Dependences, rules: Rules, limits: Limits) -> None:
        block = ties.block
        self.block = block
        self.ties = ties
        self.rules = rules
        self.index = {node: index for index, node in enumerate(block.nodes)}
        self.partition = Partition(_successors(ties, self.index))
        self.merges: list[Merge] = []
        self.refusals: dict[tuple[int, int], Refusal] = {}
        """Why a producer (first) did not join the group of its reader (second); those that stood at the end."""
        self.limits = limits
        self.fusible = [rules.refusal(node) is None for node in block.nodes]
        users = rules.graph.users
        self.outside = {
            v: len(users.get(v, ())) for i, n in enumerate(block.nodes) if self.fusible[i] for v in n.outputs
        }
        """For each value that fusible nodes make, how many readings of it lie outside its group."""
        self._maker = {v: i for i, n in enumerate(block.nodes) if self.fusible[i] for v in n.outputs}
        self._groups = {i: self._alone(i) for i in range(len(block.nodes)) if self.fusible[i]}

    def _alone(self, index: int) -> _Group:
        node = self.block.nodes[index]
        inputs: dict[Value, int] = {}
        for value in node.inputs:
            if self.rules.known(value) is NOT_CONSTANT:
                inputs[value] = inputs.get(value, 0) + 1
        outputs = sum(self.outside[value] > 0 for value in node.outputs)
        return _Group(self.rules.space(node), self.rules.device(node), inputs, list(node.outputs), outputs)

    def producers(self, index: int) -> list[int]:
        """The fusible nodes of this block that a node reads from, in no particular order."""
        maker = self._maker
        return [maker[value] for value in self.block.nodes[index].inputs if value in maker]

    def try_merge(self, producer: int, consumer: int) -> Refusal | None:
        """Merge the groups of two fusible nodes, the second reading the first; or say why not, and change nothing."""
        a, b = self.partition.find(producer), self.partition.find(consumer)
        ours, theirs = self._groups[a], self._groups[b]
        shared = self._shared(ours, theirs, a)
        refusal = self._policy_refusal(producer, consumer, shared)
        if refusal is not None:
            return refusal
        path = self.partition.merge(a, b)
        if path:
            nodes = tuple(self.block.nodes[index] for index in path)
            return Refusal("cycle", "together they would wait for what waits for them", nodes)
        self._commit(producer, consumer, shared, ours, theirs)
        return None

    def policy_refusal(self, producer: int, consumer: int) -> Refusal | None:
        """Why two groups would not be merged even if it were legal."""
        a, b = self.partition.find(producer), self.partition.find(consumer)
        return self._policy_refusal(producer, consumer, self._shared(self._groups[a], self._groups[b], a))

    def reads_from(self, consumer: int, producer: int) -> bool:
        """Whether the group of one fusible node reads a value of another's."""
        a, b = self.partition.find(producer), self.partition.find(consumer)
        return bool(self._shared(self._groups[a], self._groups[b], a))

    def _shared(self, ours: _Group, theirs: _Group, a: int) -> list[Value]:
        """The values that the second group reads from the first, found from the smaller side."""
        if len(ours.values) <= len(theirs.inputs):
            return [value for value in ours.values if value in theirs.inputs]
        find, maker = self.partition.find, self._maker
        return [value for value in theirs.inputs if value in maker and find(maker[value]) == a]

    def _policy_refusal(self, producer: int, consumer: int, shared: list[Value]) -> Refusal | None:
        ours, theirs = self._groups[self.partition.find(producer)], self._groups[self.partition.find(consumer)]
        nodes = self.block.nodes[producer], self.block.nodes[consumer]
        if ours.device is not None and theirs.device is not None and ours.device != theirs.device:
            return Refusal("device", f"one is on {ours.device} and the other on {theirs.device}", nodes)
        if not same_space(ours.space, theirs.space) and self._leaves(ours, theirs, shared):
            spaces = f"{told_space(ours.space)} and {told_space(theirs.space)}"
            kept = next((value for value in shared if self.outside[value] > theirs.inputs[value]), None)
            what = (
                self.rules.name(kept)
                if kept
                else f"another result of the group that makes {self.rules.name(shared[0])}"
            )
            what = f"the iteration spaces differ, {spaces}, and {what} is needed outside too"
            return Refusal("iteration-space", what, (kept or shared[0], *nodes))
        return self._count_refusal(ours, theirs, shared, nodes)

    def _leaves(self, ours: _Group, theirs: _Group, shared: list[Value]) -> bool:
        """Whether something of the first group is still read outside when the second has joined."""
        return ours.outputs > sum(self.outside[value] == theirs.inputs[value] for value in shared)

    def _count_refusal(
        self, ours: _Group, theirs: _Group, shared: list[Value], nodes: tuple[Node, Node]
    ) -> Refusal | None:
        count = len(ours.inputs) + len(theirs.inputs) - len(shared) + ours.outputs + theirs.outputs
        if count > self.limits.arguments:
            count -= len(_common(ours.inputs, theirs.inputs))
            count -= sum(self.outside[value] == theirs.inputs[value] for value in shared)
        size = len(ours.values) + len(theirs.values)
        for rule, number, what, limit in (
            ("argument-limit", count, "arguments", self.limits.arguments),
            ("size-limit", size, "nodes", self.limits.nodes),
        ):
            if number > limit:
                return Refusal(rule, f"the kernel would have {number} {what}, the limit is {limit}", nodes)
        return None

    def _commit(self, producer: int, consumer: int, shared: list[Value], ours: _Group, theirs: _Group) -> None:
        size = self.rules.size_in_bytes
        saved = sum(map(size, _common(ours.inputs, theirs.inputs)))
        for value in shared:
            self.outside[value] -= theirs.inputs.pop(value)
            inside = self.outside[value] == 0
            ours.outputs -= inside
            saved += size(value) * (2 if inside else 1)
        inputs, fewer = (
            (theirs.inputs, ours.inputs) if len(theirs.inputs) >= len(ours.inputs) else (ours.inputs, theirs.inputs)
        )
        for value, times in fewer.items():
            inputs[value] = inputs.get(value, 0) + times
        values, others = (
            (theirs.values, ours.values) if len(theirs.values) >= len(ours.values) else (ours.values, theirs.values)
        )
        values.extend(others)
        device = theirs.device or ours.device
        merged = _Group(theirs.space, device, inputs, values, ours.outputs + theirs.outputs)
        self._groups[self.partition.find(consumer)] = merged
        nodes = self.block.nodes
        self.merges.append(Merge(nodes[producer], nodes[consumer], merged.space, saved))


def _common(a: dict[Value, int], b: dict[Value, int]) -> list[Value]:
    """The values that are in both."""
    fewer, more = (a, b) if len(a) <= len(b) else (b, a)
    return [value for value in fewer if value in more]


def _successors(ties: Dependences, index: Mapping[Node, int]) -> list[list[int]]:
    """The dependences by position in the block."""
    successors: list[list[int]] = [[] for _ in index]
    for later, place in index.items():
        for tie in ties.predecessors[later]:
            successors[index[tie.node]].append(place)
    return successors


def plan_block(ties: Dependences, rules: Rules, limits: Limits) -> BlockPlan:
    """Decide the groups of the block that the dependences are of."""
    plan = BlockPlan(ties, rules, limits)
    consumers = [index for index in reversed(range(len(ties.block.nodes))) if plan.fusible[index]]
    for sweep in range(_SWEEPS):
        before = len(plan.merges)
        plan.refusals.clear()
        for consumer in consumers:
            if sweep or len(plan.partition.members(consumer)) == 1:
                _grow(plan, consumer)
        if len(plan.merges) == before:
            break
    return plan


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
