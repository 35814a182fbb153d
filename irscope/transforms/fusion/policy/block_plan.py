"""The groups of one block while they grow: their inputs, values and outputs, and the step that merges two.

A merge is legal if the contraction stays acyclic (`partition`), if the two groups have a common domain (`group_domain`), and if
the kernel stays within the limits. A policy decides which of the legal merges happen, and in which order (`registry`). A merge
is decided before anything is changed: a refused one leaves no trace.

Nodes are identified by their position in the block, groups by the position of one of their nodes. The counts that decide
(uses outside a group, inputs, outputs) are kept per group and updated from the smaller side of each merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from irscope.analysis.dependence import Dependences
from irscope.ir import Node, Value
from irscope.ops.view_steps import Num
from irscope.transforms.fusion.legality import Domain, NodeProfiles
from irscope.transforms.fusion.policy.candidate import Candidate
from irscope.transforms.fusion.policy.group_state import Group, Limits
from irscope.transforms.fusion.policy.wishes import NOWHERE, PlacedWishes
from irscope.transforms.grouping import Partition, Refusal, leaving_values

__all__ = ["BlockPlan", "Merge"]


class Merge(NamedTuple):
    """One step of a plan: the groups of two nodes, at these positions of the block, became one."""

    producer: int
    consumer: int
    domain: Domain
    """The domain of the merged group."""
    bytes_saved: Num
    """The memory traffic that it avoids, a formula where extents are unknown."""
    shared: Value | None
    """A value that the second group read from the first, or that both read; None if there was none."""
    is_sibling: bool
    """Whether neither group read from the other."""


_NO_GROUP: Final = Group(Domain(None), {}, [], 0, 0)
"""The placeholder group of nodes that are not eligible."""


class BlockPlan:
    """The groups of one block, while they grow and for later queries."""

    def __init__(self, ties: Dependences, profiles: NodeProfiles, limits: Limits, wishes: PlacedWishes = NOWHERE) -> None:
        self.block = ties.block
        self.ties = ties
        self.profiles = profiles
        self.rules = profiles.rules
        self.limits = limits
        self.wishes = wishes
        nodes = self.block.nodes
        self.on_merge: Callable[[BlockPlan], None] | None = None
        """Called after each merge."""
        self.partition = Partition.behind(ties.before)
        self.merges: list[Merge] = []
        self.refusals: dict[tuple[int, int], Refusal] = {}
        """Why a producer (first) did not join the group of its user (second), as of the last attempt."""
        self.fusible = [False] * len(nodes)
        self.outside: dict[Value, int] = {}
        """For each value that fusible nodes produce, the number of its uses outside its group."""
        self.maker: dict[Value, int] = {}
        """The fusible producer of each value."""
        self.readers: dict[Value, list[int]] = {}
        """For each value that is not a known number, its fusible users in program order."""
        self.groups: list[Group] = [_NO_GROUP] * len(nodes)
        """The group of a fusible node, at the position that `partition.find` returns for it."""
        self._start(nodes)

    def _start(self, nodes: Sequence[Node]) -> None:
        """Make each fusible node a group of its own."""
        opaque, apart = self.wishes.opaque, self.wishes.apart
        profiles, readers = self.profiles, self.readers
        readings, sizes = profiles.readings, profiles.sizes
        for index, node in enumerate(nodes):
            profile = profiles.of(node)
            if profile is None or node in opaque:
                continue
            self.fusible[index] = True
            sizes[node.outputs[0]] = profile.size
            outputs = 0
            for value in node.outputs:
                self.outside[value] = count = readings.get(value, 0)
                self.maker[value] = index
                outputs += count > 0
            inputs: dict[Value, int] = {}
            for place in profile.arguments:
                value = node.inputs[place]
                if value in inputs:
                    inputs[value] += 1
                    continue
                inputs[value] = 1
                reading = readers.get(value)
                if reading is None:
                    readers[value] = [index]
                else:
                    reading.append(index)
            views = int(profile.domain.kind == "view")
            group = self.groups[index] = Group(profile.domain, inputs, list(node.outputs), outputs, views=views)
            if node in apart:
                group.marks = {mark: (side, node) for mark, side in apart[node].items()}

    @cached_property
    def index(self) -> dict[Node, int]:
        """The positions of the nodes."""
        return {node: index for index, node in enumerate(self.block.nodes)}

    def group(self, index: int) -> Group:
        """The group of a fusible node."""
        return self.groups[self.partition.find(index)]

    @cached_property
    def untouched(self) -> BlockPlan:
        """A plan of the same block before any merge, for queries only."""
        return self.anew()

    @cached_property
    def by_policy(self) -> dict[str, BlockPlan]:
        """Plans of the same block by other policies, for queries only."""
        return {}

    @cached_property
    def refused_groups(self) -> dict[frozenset[int], Refusal]:
        """The refusals by the two groups that they are about, now that these grow no more."""
        find = self.partition.find
        return {frozenset((find(a), find(b))): refusal for (a, b), refusal in self.refusals.items()}

    def merged_at(self, a: int, b: int) -> int:
        """The index of the merge that put two nodes into one group; -1 for a node and itself."""
        above, since = self._merged_since
        found = -1
        while a != b:
            if since[a] > since[b]:
                a, b = b, a
            found, a = since[a], above[a]
        return found

    @cached_property
    def _merged_since(self) -> tuple[list[int], list[int]]:
        """Each node's superior and the merge that gave it one; chains of superiors are short, and their merges ascend."""
        size = len(self.block.nodes)
        above, since, count = list(range(size)), [len(self.merges)] * size, [1] * size

        def top(node: int) -> int:
            while above[node] != node:
                node = above[node]
            return node

        for index, merge in enumerate(self.merges):
            small, large = sorted((top(merge.producer), top(merge.consumer)), key=count.__getitem__)
            above[small], since[small] = large, index
            count[large] += count[small]
        return above, since

    def anew(self) -> BlockPlan:
        """A new plan of the same block, without merges."""
        return BlockPlan(self.ties, self.profiles, self.limits, self.wishes)

    def nodes(self, *indexes: int) -> tuple[Node, ...]:
        """The nodes at these positions."""
        return tuple(self.block.nodes[index] for index in indexes)

    def producers(self, index: int) -> list[int]:
        """The fusible nodes of this block that a node reads from, in no particular order."""
        maker = self.maker
        return [maker[value] for value in self.block.nodes[index].inputs if value in maker]

    def reader(self, index: int, value: Value) -> int:
        """The first user of a value in the group of a node."""
        find = self.partition.find
        here = find(index)
        return next(reader for reader in self.readers[value] if find(reader) == here)

    def members(self, index: int) -> Iterator[Node]:
        """The nodes of the group of a node, in no particular order."""
        return (self.block.nodes[member] for member in self.partition.members(index))

    def leaving(self, members: Sequence[Node]) -> list[Value]:
        """The values that these nodes produce and other nodes read, in program order."""
        return leaving_values(members, self.profiles.readings)

    def kept_merges(self, min_size: int) -> list[Merge]:
        """The merges of the final groups with at least so many nodes, not counting views, in the order of their decisions."""
        groups = [(merge, self.group(merge.consumer)) for merge in self.merges]
        return [merge for merge, group in groups if group.size - group.views >= min_size]

    def schedule_after(self, merges: int, min_size: int) -> list[list[int]]:
        """As `Partition.schedule`, with only the first `merges` of the kept merges done.

        Leaving out the merges of small groups, which were legal, cannot close a cycle: a cycle would have to pass through
        a group that is still merged, and it would have been a cycle with the small groups merged, too.
        """
        parts = Partition.behind(self.ties.before)
        for merge in self.kept_merges(min_size)[:merges]:
            parts.unite(merge.producer, merge.consumer)
        return parts.schedule()

    def try_merge(self, candidate: Candidate) -> Refusal | None:
        """Merge two groups, or return why not and change nothing."""
        domain = candidate.verdict()
        if isinstance(domain, Refusal):
            return domain
        path = self.partition.merge(candidate.producer_index, candidate.consumer_index)
        if path:
            nodes = tuple(self.block.nodes[index] for index in path)
            return Refusal("cycle", "fusing them would create a cycle", nodes)
        self._commit(candidate, domain)
        return None

    def shared(self, producer: int, consumer: int) -> list[Value]:
        """The values that the second node's group reads from the first's, found from the smaller side."""
        values, inputs = self.group(producer).values, self.group(consumer).inputs
        if len(values) <= len(inputs):
            return [value for value in values if value in inputs]
        find, maker = self.partition.find, self.maker
        here = find(producer)
        return [value for value in inputs if value in maker and find(maker[value]) == here]

    def _commit(self, candidate: Candidate, domain: Domain) -> None:
        """Combine the counts of the two groups, and record the saving: a value that both read is read once, and one that
        only the second reads from the first is not written either."""
        ours, theirs, shared, sizes = candidate.ours, candidate.theirs, candidate.shared, self.profiles.sizes
        outside, inputs, fewer = self.outside, theirs.inputs, ours.inputs
        saved: Num = 0
        witness = shared[0] if shared else None
        for value in shared:
            left = outside[value] = outside[value] - inputs.pop(value)
            saved += sizes[value]
            if not left:
                saved += sizes[value]
                ours.outputs -= 1
        if len(fewer) > len(inputs):
            inputs, fewer = fewer, inputs
        for value, times in fewer.items():
            before = inputs.get(value)
            if before is None:
                inputs[value] = times
            else:
                inputs[value] = before + times
                saved += sizes[value]
                witness = witness or value
        values, others = theirs.values, ours.values
        if len(others) > len(values):
            values, others = others, values
        values += others
        theirs.domain, theirs.inputs, theirs.values = domain, inputs, values
        theirs.outputs += ours.outputs
        theirs.size += ours.size
        theirs.views += ours.views
        if ours.marks:
            theirs.marks = {**ours.marks, **(theirs.marks or {})}
        self.groups[self.partition.find(candidate.consumer_index)] = theirs
        producer, consumer = candidate.producer_index, candidate.consumer_index
        self.merges.append(Merge(producer, consumer, domain, saved, witness, not shared))
        if self.on_merge is not None:
            self.on_merge(self)
