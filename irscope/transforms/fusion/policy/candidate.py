"""A candidate merge of two groups, as built-in policies and a user's own policy see it."""

from __future__ import annotations

from collections.abc import Sequence

from irscope.ir import Node, Value
from irscope.ops.view_steps import Num, typical
from irscope.transforms.fusion.legality import Domain
from irscope.transforms.fusion.policy.group_state import GrowingGroups, Marks
from irscope.transforms.grouping import Refusal

__all__ = ["Candidate"]


class Candidate:
    """Two groups of one block that might become one; a fusion policy may inspect it, and must not change it.

    The second group reads values of the first, or they are siblings: neither reads from the other. All properties are current,
    even if the groups have grown since the candidate was queued.
    """

    __slots__ = ("_plan", "consumer_index", "ours", "producer_index", "shared", "theirs")

    def __init__(self, plan: GrowingGroups, producer: int, consumer: int) -> None:
        self._plan = plan
        self.producer_index = producer
        self.consumer_index = consumer
        find, groups = plan.partition.find, plan.groups
        self.ours = ours = groups[find(producer)]
        self.theirs = theirs = groups[find(consumer)]
        values, inputs = ours.values, theirs.inputs
        self.shared: Sequence[Value] = (
            [value for value in values if value in inputs]
            if len(values) <= len(inputs)
            else plan.shared(producer, consumer)
        )
        """The values of the first group that the second reads; empty for siblings."""

    @property
    def producer(self) -> Node:
        """The node of the first group whose merge is in question."""
        return self._plan.block.nodes[self.producer_index]

    @property
    def consumer(self) -> Node:
        """The node of the second group whose merge is in question."""
        return self._plan.block.nodes[self.consumer_index]

    @property
    def nodes(self) -> tuple[Node, Node]:
        """The producer and the consumer."""
        return self.producer, self.consumer

    @property
    def first(self) -> tuple[Node, ...]:
        """The nodes of the first group."""
        return tuple(self._plan.members(self.producer_index))

    @property
    def second(self) -> tuple[Node, ...]:
        """The nodes of the second group."""
        return tuple(self._plan.members(self.consumer_index))

    @property
    def is_sibling(self) -> bool:
        """Whether neither group reads from the other."""
        return not self.shared

    @property
    def common(self) -> list[Value]:
        """The values that both groups read from outside."""
        a, b = self.ours.inputs, self.theirs.inputs
        if len(a) > len(b):
            a, b = b, a
        return [value for value in a if value in b]

    @property
    def bytes_saved(self) -> int:
        """The memory traffic that the merge avoids: a value that both read is read once, and one that only the second reads
        is not written either. An unknown extent counts as 64, so that larger tensors count for more."""
        sizes = self._plan.profiles.sizes
        outside, times = self._plan.outside, self.theirs.inputs
        saved: Num = 0
        for value in self.common:
            saved += sizes[value]
        for value in self.shared:
            saved += sizes[value] * (2 if outside[value] == times[value] else 1)
        return typical(saved)

    @property
    def transfers_saved(self) -> int:
        """The number of reads and writes of tensors that the merge avoids, of known size or not."""
        return len(self.common) + len(self.shared) + self._inside()

    @property
    def arguments(self) -> int:
        """The number of inputs and outputs that the kernel would have."""
        ours, theirs = self.ours, self.theirs
        both = len(ours.inputs) + len(theirs.inputs) - len(self.common) + ours.outputs + theirs.outputs
        return both - len(self.shared) - self._inside()

    @property
    def size(self) -> int:
        """The number of nodes that the kernel would have."""
        return self.ours.size + self.theirs.size

    def leaves(self) -> bool:
        """Whether a value of the first group is still read outside both after the merge."""
        return self.ours.outputs > self._inside()

    def kept(self) -> Value | None:
        """A shared value that is still read outside both after the merge, or None."""
        outside, times = self._plan.outside, self.theirs.inputs
        return next((value for value in self.shared if outside[value] > times[value]), None)

    def verdict(self) -> Domain | Refusal:
        """The domain of the merged group; or why there is none, or why the kernel would be too large."""
        ours, theirs, limits = self.ours, self.theirs, self._plan.limits
        if ours.marks and theirs.marks:
            forbidden = self._forbidden(ours.marks, theirs.marks)
            if forbidden is not None:
                return forbidden
        domain = self._plan.profiles.domains.join(ours.domain, theirs.domain, self)
        if isinstance(domain, Refusal):
            return domain
        if len(ours.inputs) + len(theirs.inputs) + ours.outputs + theirs.outputs > limits.arguments:
            count = self.arguments
            if count > limits.arguments:
                return self._too_many("argument-limit", count, "arguments", limits.arguments)
        if ours.size + theirs.size > limits.nodes:
            return self._too_many("size-limit", self.size, "nodes", limits.nodes)
        return domain

    def _forbidden(self, ours: Marks, theirs: Marks) -> Refusal | None:
        """The refusal if the user forbade two of these nodes to be in one kernel."""
        name = self._plan.profiles.rules.name
        mark = next((mark for mark in ours if mark in theirs and ours[mark][0] != theirs[mark][0]), None)
        if mark is None:
            return None
        a, b = ours[mark][1], theirs[mark][1]
        return Refusal("forbidden", f"{name(a.outputs[0])} and {name(b.outputs[0])} would be in one kernel, which you forbade", (a, b))

    def _inside(self) -> int:
        """The number of shared values that are used nowhere else."""
        outside, times = self._plan.outside, self.theirs.inputs
        count = 0
        for value in self.shared:
            count += outside[value] == times[value]
        return count

    def _too_many(self, rule: str, number: int, what: str, limit: int) -> Refusal:
        return Refusal(rule, f"the kernel would have {number} {what}, the limit is {limit}", self.nodes)
