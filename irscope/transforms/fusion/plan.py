"""The groups of one block while they grow: what each reads, makes and lets out, and the step that makes two into one.

A merge is legal if the contraction stays acyclic (`partition`), if the two groups have a common domain (`domain`), and if
the kernel stays within the limits. Which of the legal merges happen, and in which order, is a policy's business
(`greedy`). A merge is decided before anything is changed: a refused one leaves nothing behind.

What decides (readings outside a group, inputs, outputs) is counted per group and updated from the smaller side of
each merge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from irscope.analysis.dependence import Dependences
from irscope.ir.core import Node, Value
from irscope.ir.payload import NOT_CONSTANT
from irscope.transforms.fusion.domain import Domain, Domains
from irscope.transforms.fusion.partition import Partition
from irscope.transforms.fusion.rules import Refusal, Rules

__all__ = ["BlockPlan", "Limits", "Merge", "Pair"]


@dataclass(frozen=True, slots=True)
class Merge:
    """One step of a plan: the groups of two nodes became one."""

    producer: Node
    consumer: Node
    domain: Domain
    """The domain of the merged group."""
    bytes_saved: int
    """Memory traffic that it avoids; 0 when sizes are not known."""


@dataclass(slots=True)
class _Group:
    """What decides about merging a group."""

    domain: Domain
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

    def __init__(self, ties: Dependences, rules: Rules, domains: Domains, limits: Limits) -> None:
        block = ties.block
        self.block = block
        self.ties = ties
        self.rules = rules
        self.domains = domains
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
        return _Group(self.domains.of(node), inputs, list(node.outputs), outputs)

    def producers(self, index: int) -> list[int]:
        """The fusible nodes of this block that a node reads from, in no particular order."""
        maker = self._maker
        return [maker[value] for value in self.block.nodes[index].inputs if value in maker]

    def members(self, index: int) -> Iterator[Node]:
        """The nodes of the group of a node, in no particular order."""
        return (self.block.nodes[member] for member in self.partition.members(index))

    def domain(self, index: int) -> Domain:
        """The domain of the group that a fusible node is in."""
        return self._groups[self.partition.find(index)].domain

    def leaving(self, members: Sequence[Node]) -> list[Value]:
        """The values that these nodes make and others read, in program order."""
        inside = Counter(value for node in members for value in node.inputs)
        users = self.rules.graph.users
        return [v for node in members for v in node.outputs if len(users.get(v, ())) > inside.get(v, 0)]

    def kept_merges(self, min_size: int) -> list[Merge]:
        """The merges, in the order in which they were decided, that made groups of at least so many nodes."""
        return [merge for merge in self.merges if len(self.partition.members(self.index[merge.consumer])) >= min_size]

    def schedule_after(self, merges: int, min_size: int) -> list[list[int]]:
        """As `Partition.schedule`, with only the first few of the kept merges done.

        What had closed no cycle closes none when the small groups are taken apart: along a cycle there would have to
        be a group that is still one, and their union was in no cycle with it.
        """
        parts = Partition(_successors(self.ties, self.index))
        for merge in self.kept_merges(min_size)[:merges]:
            parts.unite(self.index[merge.producer], self.index[merge.consumer])
        return parts.schedule()

    def try_merge(self, producer: int, consumer: int) -> Refusal | None:
        """Merge the groups of two fusible nodes, the second reading the first; or say why not, and change nothing."""
        pair = Pair(self, producer, consumer)
        domain = pair.domain()
        if isinstance(domain, Refusal):
            return domain
        path = self.partition.merge(producer, consumer)
        if path:
            nodes = tuple(self.block.nodes[index] for index in path)
            return Refusal("cycle", "together they would wait for what waits for them", nodes)
        self._commit(pair, domain)
        return None

    def refusal(self, producer: int, consumer: int) -> Refusal | None:
        """Why two groups would not be merged even if no cycle closed."""
        domain = Pair(self, producer, consumer).domain()
        return domain if isinstance(domain, Refusal) else None

    def reads_from(self, consumer: int, producer: int) -> bool:
        """Whether the group of one fusible node reads a value of another's."""
        return bool(Pair(self, producer, consumer).shared)

    def group(self, index: int) -> _Group:
        """The bookkeeping of the group that a fusible node is in."""
        return self._groups[self.partition.find(index)]

    def shared(self, producer: int, consumer: int) -> list[Value]:
        """The values that the second node's group reads from the first's, found from the smaller side."""
        ours, theirs = self.group(producer), self.group(consumer)
        if len(ours.values) <= len(theirs.inputs):
            return [value for value in ours.values if value in theirs.inputs]
        find, maker = self.partition.find, self._maker
        here = find(producer)
        return [value for value in theirs.inputs if value in maker and find(maker[value]) == here]

    def _commit(self, pair: Pair, domain: Domain) -> None:
        size = self.rules.size_in_bytes
        ours, theirs = pair.ours, pair.theirs
        saved = sum(map(size, _common(ours.inputs, theirs.inputs)))
        for value in pair.shared:
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
        merged = _Group(domain, inputs, values, ours.outputs + theirs.outputs)
        self._groups[self.partition.find(pair.consumer)] = merged
        self.merges.append(Merge(*pair.nodes, domain, saved))


class Pair:
    """Two groups that might become one: how they meet, and what the merged kernel would be."""

    __slots__ = ("consumer", "ours", "plan", "producer", "shared", "theirs")

    def __init__(self, plan: BlockPlan, producer: int, consumer: int) -> None:
        self.plan = plan
        self.producer = producer
        self.consumer = consumer
        self.ours = plan.group(producer)
        self.theirs = plan.group(consumer)
        self.shared: Sequence[Value] = plan.shared(producer, consumer)

    @property
    def nodes(self) -> tuple[Node, Node]:
        """The two nodes, one of each group, that the question is about."""
        return self.plan.block.nodes[self.producer], self.plan.block.nodes[self.consumer]

    @property
    def first(self) -> Iterator[Node]:
        """The nodes of the producer's group."""
        return self.plan.members(self.producer)

    @property
    def second(self) -> Iterator[Node]:
        """The nodes of the consumer's group."""
        return self.plan.members(self.consumer)

    def leaves(self) -> bool:
        """Whether something of the first group is still read outside when the second has joined."""
        return self.ours.outputs > self._inside()

    def kept(self) -> Value | None:
        """A shared value that is still read outside when the two are one."""
        outside, times = self.plan.outside, self.theirs.inputs
        return next((value for value in self.shared if outside[value] > times[value]), None)

    def domain(self) -> Domain | Refusal:
        """The domain of the merged group; or why there would be none, or one that is too large a kernel."""
        domain = self.plan.domains.join(self.ours.domain, self.theirs.domain, self)
        return (self._count_refusal() or domain) if isinstance(domain, Domain) else domain

    def _inside(self) -> int:
        """How many of the shared values nobody else reads."""
        outside, times = self.plan.outside, self.theirs.inputs
        return sum(outside[value] == times[value] for value in self.shared)

    def _count_refusal(self) -> Refusal | None:
        ours, theirs, limits = self.ours, self.theirs, self.plan.limits
        count = len(ours.inputs) + len(theirs.inputs) - len(self.shared) + ours.outputs + theirs.outputs
        if count > limits.arguments:
            count -= len(_common(ours.inputs, theirs.inputs)) + self._inside()
        size = len(ours.values) + len(theirs.values)
        for rule, number, what, limit in (
            ("argument-limit", count, "arguments", limits.arguments),
            ("size-limit", size, "nodes", limits.nodes),
        ):
            if number > limit:
                return Refusal(rule, f"the kernel would have {number} {what}, the limit is {limit}", self.nodes)
        return None


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
