"""Chooses the differentiable subgraphs of one block: which nodes are merged, and which leave their group again.

*Merging.* Users bottom-up, and for each its producers from the latest to the earliest, as PyTorch's slicer does. A merge
is legal if it closes no cycle (`partition`). In addition, groups are cut at nodes with side effects, so that what runs
before a print or a raise still does; effects inside an if or a loop count.

*Leaving.* An output that is the memory of an input, or of an earlier output, would be differentiated wrongly, so its
producer leaves the group, with every member that depends on it; other members may become outputs then, and are checked
again.

*Why the rest is still legal.* Let L be the nodes that left group G, including all their dependents in G, and K the rest.
A cycle through K would leave K and come back to it. If its way back led through L, it would have to get from L to K: not
inside G, as L contains its dependents; and through a node outside G it would be a cycle of G, which had none. So K
contracts, and L stays as single nodes. K is merged again in program order, where each step is legal for the same reason:
the nodes still to be merged come after all that are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from irscope.analysis.dependence import Dependences
from irscope.ir import Node, Value
from irscope.ops.registry import effect_of
from irscope.transforms.autodiff.eligibility import GradientRules
from irscope.transforms.grouping import Partition, Refusal, pull_producers

_SWEEPS = 8


class BlockSlices:
    """The decisions about one block."""

    def __init__(self, ties: Dependences, rules: GradientRules, threshold: int) -> None:
        self.ties = ties
        self.block = ties.block
        self.rules = rules
        self.threshold = threshold
        nodes = ties.block.nodes
        self.index: Mapping[Node, int] = {node: index for index, node in enumerate(nodes)}
        self.fit = [rules.refusal(node) is None for node in nodes]
        self.segment = self._segments()
        """For each node, the number of nodes with effects before it; a group stays within one number."""
        self._fit_in: dict[int, int] = {}
        for segment, is_fit in zip(self.segment, self.fit, strict=True):
            self._fit_in[segment] = self._fit_in.get(segment, 0) + is_fit
        self._maker = {value: index for index, node in enumerate(nodes) if self.fit[index] for value in node.outputs}
        self._settled: Partition | None = None
        self.merges: list[tuple[int, int]] = []
        """Producer and user of each merge, in the order in which they were decided."""
        self.grouped: set[int] = set()
        """The nodes that have been merged with another."""
        self.paths: dict[tuple[int, int], list[int]] = {}
        """For a producer and a user that were not merged, the path that forbids it."""
        self.left: dict[int, Refusal] = {}
        """For each node that left its group, the reason."""

    @cached_property
    def partition(self) -> Partition:
        """The groups as merged, before any node leaves."""
        return Partition(self.ties.before)

    @property
    def settled(self) -> Partition:
        """The final groups, after nodes have left."""
        return self._settled or self.partition

    def _segments(self) -> list[int]:
        found, passed, db = [], 0, self.rules.db
        for node in self.block.nodes:
            found.append(passed)
            if node.blocks or effect_of(node) != "pure":
                passed += db.accesses(node).side_effect is not None
        return found

    def is_thin(self, index: int) -> bool:
        """Whether a node's segment has fewer fit nodes than the smallest group."""
        return self._fit_in[self.segment[index]] < self.threshold

    def producers(self, index: int) -> list[int]:
        """The fit producers of a node's inputs in the same segment."""
        here, maker = self.segment[index], self._maker
        found = [maker[value] for value in self.block.nodes[index].inputs if value in maker]
        return [producer for producer in found if self.segment[producer] == here]

    @cached_property
    def decided(self) -> tuple[tuple[int, ...], ...]:
        """The nodes of each merge that is carried out, in the order in which they were decided.

        A group that nodes had to leave is one merge of all remaining nodes, at the end; so is a group of one node.
        """
        if not self.merges and self.threshold > 1:
            return ()
        groups = self._settled_groups()
        whole = {group[0] for group in groups if 1 < len(group) == len(self.partition.members(group[0]))}
        first = {index: group[0] for group in groups for index in group}
        rest = [tuple(group) for group in groups if group[0] not in whole]
        return (*(merge for merge in self.merges if first.get(merge[1]) in whole), *rest)

    def _settled_groups(self) -> list[list[int]]:
        roots = {self.settled.find(index) for index in range(len(self.fit)) if self.fit[index]}
        found = [sorted(self.settled.members(root)) for root in roots]
        return sorted(group for group in found if len(group) >= self.threshold)

    def after(self, count: int) -> Partition:
        """The groups after only the first `count` merges: nodes not merged yet are single, so no cycle can close."""
        if count >= len(self.decided):
            return self.settled
        made = Partition(self.ties.before)
        for nodes in self.decided[:count]:
            for index in nodes[1:]:
                path = made.merge(nodes[0], index)
                assert not path, "fewer merges close no cycle"
        return made

    def grow(self, reader: int) -> None:
        """Merge producers into the group of a node, the latest first, until no candidate is left."""
        if self.producers(reader):  # else the partition may never be needed
            pull_producers(self.partition, reader, self.producers, self._merge)

    def _merge(self, producer: int, reader: int) -> bool:
        path = self.partition.merge(producer, reader)
        if path:
            self.paths[producer, reader] = path
        else:
            self.merges.append((producer, reader))
            self.grouped.update((producer, reader))
        return not path

    def settle(self) -> None:
        """Remove members that may not be in a group, and drop groups that are too small."""
        if not self.merges and self.threshold > 1:
            return
        roots = {self.partition.find(index) for index in range(len(self.fit)) if self.fit[index]}
        kept, is_changed = [], False
        for members in sorted(sorted(self.partition.members(root)) for root in roots):
            staying = self._without_aliases(members) if len(members) >= self.threshold else []
            if len(staying) >= self.threshold:
                kept.append(staying)
            is_changed |= len(members) > 1 and (len(staying) < len(members) or len(staying) < self.threshold)
        if not is_changed:
            return
        self._settled = settled = Partition(self.ties.before)
        for group in kept:
            for index in group[1:]:
                path = settled.merge(group[0], index)
                assert not path, "the rest of a group can still be a group"

    def _without_aliases(self, members: list[int]) -> list[int]:
        """The members that can stay so that no output may be the memory of an input or of an earlier output."""
        staying = members
        while True:
            leaving = self._sharing(staying)
            if not leaving:
                return staying
            removed = set(leaving)
            for index in staying:
                if index not in removed and not removed.isdisjoint(self.ties.before[index]):
                    removed.add(index)
                    self.left.setdefault(index, leaving[max(leaving)])
            self.left.update(leaving)
            staying = [index for index in staying if index not in removed]

    def _sharing(self, members: Sequence[int]) -> dict[int, Refusal]:
        """The members with an output that may be the memory of an input or of an earlier output, and why.

        Only results of ops that may pass memory on are compared, and only with values of their region; no op with a
        formula passes on the elements of a list.
        """
        nodes, rules = self.block.nodes, self.rules
        suspects = {index for index in members if rules.may_share(nodes[index])}
        if not suspects:
            return {}
        inside = {nodes[index] for index in members}
        made = {value for node in inside for value in node.outputs}
        known: dict[int | None, list[Value]] = {}
        for value in dict.fromkeys(v for index in members for v in nodes[index].inputs if v not in made):
            known.setdefault(self._region(value), []).append(value)
        users, found = rules.graph.users, {}
        for index in members:
            for value in nodes[index].outputs:
                if all(use.user in inside for use in users.get(value, ())):
                    continue
                region = self._region(value)
                others = known.setdefault(region, [])
                refusal = self._shared(value, others) if index in suspects and region is not None else None
                if refusal is None:
                    others.append(value)
                else:
                    found[index] = refusal
        return found

    def _shared(self, value: Value, others: Sequence[Value]) -> Refusal | None:
        for other in others:
            verdict = self.rules.db.may_contain_alias(value, other)
            if verdict:
                names = self.rules.name(value), self.rules.name(other)
                what = f"{names[0]} would leave the subgraph, and may be the memory of {names[1]}: {verdict.because}"
                return Refusal("aliases", what, (value, other))
        return None

    def _region(self, value: Value) -> int | None:
        """The region of a value, or None for one that is its own memory; values of two regions never share memory."""
        sealed = self.rules.db.sealed
        element = sealed.element_of.get(value)
        return None if element is None else self.rules.db.region(sealed.class_of[element])


def slice_block(ties: Dependences, rules: GradientRules, threshold: int) -> BlockSlices:
    """Decide the differentiable subgraphs of the block that the dependences describe.

    Segments with fewer fit nodes than the threshold are skipped.
    """
    slices = BlockSlices(ties, rules, threshold)
    readers = [i for i in reversed(range(len(slices.fit))) if slices.fit[i] and not slices.is_thin(i)]
    for sweep in range(_SWEEPS):
        before = len(slices.merges)
        slices.paths.clear()
        for reader in readers:
            if sweep or reader not in slices.grouped:
                slices.grow(reader)
        if len(slices.merges) == before:
            break
    slices.settle()
    return slices
