"""The groups of one block while they grow: what each reads, makes and lets out, and the step that makes two into one.

A merge is legal if the contraction stays acyclic (`partition`), if the two groups have a common domain (`domain`), and if
the kernel stays within the limits. Which of the legal merges happen, and in which order, is a policy's business
(`policies`). A merge is decided before anything is changed: a refused one leaves nothing behind.

Nodes go by their position in the block, groups by the position of one of their nodes. What decides (readings outside a
group, inputs, outputs) is counted per group and updated from the smaller side of each merge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from irscope.analysis.dependence import Dependences
from irscope.ir.core import Node, Value
from irscope.ir.payload import NOT_CONSTANT
from irscope.transforms.fusion.domain import Domain, Domains
from irscope.transforms.fusion.partition import Partition
from irscope.transforms.fusion.rules import Refusal, Rules

__all__ = ["BlockPlan", "Candidate", "Limits", "Merge"]


class Merge(NamedTuple):
    """One step of a plan: the groups of two nodes became one."""

    producer: Node
    consumer: Node
    domain: Domain
    """The domain of the merged group."""
    bytes_saved: int
    """Memory traffic that it avoids; 0 when sizes are not known."""
    shared: Value
    """A value that the second group read from the first, or that both read."""
    is_sibling: bool
    """Whether neither read the other."""


@dataclass(slots=True)
class Group:
    """What decides about merging a group."""

    domain: Domain
    inputs: dict[Value, int]
    """Values from outside that are not known numbers, and how often the group reads each."""
    values: list[Value]
    """What its nodes make."""
    outputs: int
    """How many of its values are read outside."""
    size: int = 1
    """How many nodes it has."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large one kernel may be."""

    arguments: int
    """Inputs and outputs together."""
    nodes: int
    """A compiler's time grows faster than its kernel; beyond some hundred nodes another kernel costs less than it saves."""


class BlockPlan:
    """The groups of one block, while they grow and for later questions."""

    def __init__(
        self, ties: Dependences, rules: Rules, domains: Domains, limits: Limits, readings: Mapping[Value, int]
    ) -> None:
        """`readings`: how often each value is read in the whole program."""
        self.block = ties.block
        self.ties = ties
        self.rules = rules
        self.domains = domains
        self.limits = limits
        nodes = self.block.nodes
        self.index = {node: index for index, node in enumerate(nodes)}
        self.partition = Partition.behind(ties.before)
        self.merges: list[Merge] = []
        self.refusals: dict[tuple[int, int], Refusal] = {}
        """Why a producer (first) did not join the group of its reader (second); those that stood at the end."""
        self.fusible = [rules.refusal(node) is None for node in nodes]
        self.outside: dict[Value, int] = {}
        """For each value that fusible nodes make, how many readings of it lie outside its group."""
        self.maker: dict[Value, int] = {}
        """The fusible node that makes a value."""
        self.readers: dict[Value, list[int]] = {}
        """The fusible nodes that read a value that is not a known number, in program order."""
        self._readings = readings
        for index, node in enumerate(nodes):
            if self.fusible[index]:
                for value in node.outputs:
                    self.outside[value] = readings.get(value, 0)
                    self.maker[value] = index
        self._groups = [self._alone(index) if fits else None for index, fits in enumerate(self.fusible)]

    def _alone(self, index: int) -> Group:
        node = self.block.nodes[index]
        inputs: dict[Value, int] = {}
        known, readers = self.rules.known, self.readers
        for value in node.inputs:
            if value in inputs:
                inputs[value] += 1
            elif known(value) is NOT_CONSTANT:
                inputs[value] = 1
                readers.setdefault(value, []).append(index)
        outputs = 0
        for value in node.outputs:
            outputs += self.outside[value] > 0
        return Group(self.domains.of(node), inputs, list(node.outputs), outputs)

    def group(self, index: int) -> Group:
        """The group that a fusible node is in."""
        group = self._groups[self.partition.find(index)]
        assert group is not None
        return group

    @cached_property
    def untouched(self) -> BlockPlan:
        """The same block before any merge, for questions; not to be merged."""
        return self.anew()

    def anew(self) -> BlockPlan:
        """A new plan of the same block, without merges."""
        return BlockPlan(self.ties, self.rules, self.domains, self.limits, self._readings)

    def nodes(self, *indexes: int) -> tuple[Node, ...]:
        """The nodes at these positions."""
        return tuple(self.block.nodes[index] for index in indexes)

    def producers(self, index: int) -> list[int]:
        """The fusible nodes of this block that a node reads from, in no particular order."""
        maker = self.maker
        return [maker[value] for value in self.block.nodes[index].inputs if value in maker]

    def reader(self, index: int, value: Value) -> int:
        """The first node that reads a value in the group of a node."""
        find = self.partition.find
        here = find(index)
        return next(reader for reader in self.readers[value] if find(reader) == here)

    def members(self, index: int) -> Iterator[Node]:
        """The nodes of the group of a node, in no particular order."""
        return (self.block.nodes[member] for member in self.partition.members(index))

    def leaving(self, members: Sequence[Node]) -> list[Value]:
        """The values that these nodes make and others read, in program order."""
        inside = Counter(value for node in members for value in node.inputs)
        readings = self._readings
        return [v for node in members for v in node.outputs if readings.get(v, 0) > inside.get(v, 0)]

    def kept_merges(self, min_size: int) -> list[Merge]:
        """The merges, in the order in which they were decided, that made groups of at least so many nodes."""
        return [merge for merge in self.merges if len(self.partition.members(self.index[merge.consumer])) >= min_size]

    def schedule_after(self, merges: int, min_size: int) -> list[list[int]]:
        """As `Partition.schedule`, with only the first few of the kept merges done.

        What had closed no cycle closes none when the small groups are taken apart: along a cycle there would have to
        be a group that is still one, and their union was in no cycle with it.
        """
        parts = Partition.behind(self.ties.before)
        for merge in self.kept_merges(min_size)[:merges]:
            parts.unite(self.index[merge.producer], self.index[merge.consumer])
        return parts.schedule()

    def try_merge(self, candidate: Candidate) -> Refusal | None:
        """Merge two groups; or say why not, and change nothing."""
        domain = candidate.verdict()
        if isinstance(domain, Refusal):
            return domain
        path = self.partition.merge(candidate.producer_index, candidate.consumer_index)
        if path:
            nodes = tuple(self.block.nodes[index] for index in path)
            return Refusal("cycle", "together they would wait for what waits for them", nodes)
        self._commit(candidate, domain)
        return None

    def shared(self, producer: int, consumer: int) -> list[Value]:
        """The values that the second node's group reads from the first's, found from the smaller side."""
        ours, theirs = self.group(producer), self.group(consumer)
        inputs = theirs.inputs
        if len(ours.values) <= len(inputs):
            return [value for value in ours.values if value in inputs]
        find, maker = self.partition.find, self.maker
        here = find(producer)
        return [value for value in inputs if value in maker and find(maker[value]) == here]

    def _commit(self, candidate: Candidate, domain: Domain) -> None:
        ours, theirs, shared = candidate.ours, candidate.theirs, candidate.shared
        saved, is_sibling = candidate.bytes_saved, candidate.is_sibling
        witness = shared[0] if shared else next(iter(candidate.common), next(iter(theirs.inputs)))
        outside, inputs = self.outside, theirs.inputs
        for value in shared:
            outside[value] -= inputs.pop(value)
            if not outside[value]:
                ours.outputs -= 1
        fewer, values, others = ours.inputs, theirs.values, ours.values
        if len(fewer) > len(inputs):
            inputs, fewer = fewer, inputs
        for value, times in fewer.items():
            inputs[value] = inputs.get(value, 0) + times
        if len(others) > len(values):
            values, others = others, values
        values.extend(others)
        merged = Group(domain, inputs, values, ours.outputs + theirs.outputs, ours.size + theirs.size)
        self._groups[self.partition.find(candidate.consumer_index)] = merged
        self.merges.append(Merge(candidate.producer, candidate.consumer, domain, saved, witness, is_sibling))


class Candidate:
    """Two groups of one block that might become one; a fusion policy may look at it, and must not change it.

    The first has something that the second reads, or they are siblings: both read something, and neither the other.
    Everything is as it is now, for groups that have grown since the candidate came up, too.
    """

    __slots__ = ("_plan", "consumer_index", "ours", "producer_index", "shared", "theirs")

    def __init__(self, plan: BlockPlan, producer: int, consumer: int) -> None:
        self._plan = plan
        self.producer_index = producer
        self.consumer_index = consumer
        self.ours = plan.group(producer)
        self.theirs = plan.group(consumer)
        self.shared: Sequence[Value] = plan.shared(producer, consumer)
        """What the second group reads of the first; empty for siblings."""

    @property
    def producer(self) -> Node:
        """The node of the first group that the question is about."""
        return self._plan.block.nodes[self.producer_index]

    @property
    def consumer(self) -> Node:
        """The node of the second group that the question is about."""
        return self._plan.block.nodes[self.consumer_index]

    @property
    def nodes(self) -> tuple[Node, Node]:
        """Both."""
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
        """What both groups read from outside."""
        a, b = self.ours.inputs, self.theirs.inputs
        if len(a) > len(b):
            a, b = b, a
        return [value for value in a if value in b]

    @property
    def bytes_saved(self) -> int:
        """Memory traffic that the merge avoids: what both read is read once, what only the second reads is not written
        either; 0 where sizes are not known."""
        size = self._plan.rules.size_in_bytes
        outside, times = self._plan.outside, self.theirs.inputs
        saved = 0
        for value in self.common:
            saved += size(value)
        for value in self.shared:
            saved += size(value) * (2 if outside[value] == times[value] else 1)
        return saved

    @property
    def transfers_saved(self) -> int:
        """How many tensors less are read or written after the merge, of known size or not."""
        return len(self.common) + len(self.shared) + self._inside()

    @property
    def arguments(self) -> int:
        """How many inputs and outputs the kernel would have."""
        ours, theirs = self.ours, self.theirs
        both = len(ours.inputs) + len(theirs.inputs) - len(self.common) + ours.outputs + theirs.outputs
        return both - len(self.shared) - self._inside()

    @property
    def size(self) -> int:
        """How many nodes the kernel would have."""
        return self.ours.size + self.theirs.size

    def leaves(self) -> bool:
        """Whether something of the first group is still read outside when the second has joined."""
        return self.ours.outputs > self._inside()

    def kept(self) -> Value | None:
        """A shared value that is still read outside when the two are one."""
        outside, times = self._plan.outside, self.theirs.inputs
        return next((value for value in self.shared if outside[value] > times[value]), None)

    def verdict(self) -> Domain | Refusal:
        """The domain of the merged group; or why there would be none, or one that is too large a kernel."""
        ours, theirs, limits = self.ours, self.theirs, self._plan.limits
        domain = self._plan.domains.join(ours.domain, theirs.domain, self)
        if isinstance(domain, Refusal):
            return domain
        if len(ours.inputs) + len(theirs.inputs) + ours.outputs + theirs.outputs > limits.arguments:
            count = self.arguments
            if count > limits.arguments:
                return self._too_many("argument-limit", count, "arguments", limits.arguments)
        if ours.size + theirs.size > limits.nodes:
            return self._too_many("size-limit", self.size, "nodes", limits.nodes)
        return domain

    def _inside(self) -> int:
        """How many of the shared values nobody else reads."""
        outside, times = self._plan.outside, self.theirs.inputs
        count = 0
        for value in self.shared:
            count += outside[value] == times[value]
        return count

    def _too_many(self, rule: str, number: int, what: str, limit: int) -> Refusal:
        return Refusal(rule, f"the kernel would have {number} {what}, the limit is {limit}", self.nodes)
