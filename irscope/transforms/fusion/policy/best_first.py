"""The best-first policy: merges the candidate with the best score first.

Candidates are a group and its producer, and groups that read the same value one after the other. They wait in a heap with the
score that they had when they were queued. A candidate that is popped is scored again, as its groups may have grown: if the
score fell, it is queued again; otherwise the two groups are merged, or refused as they are now. After a merge, the candidates
of the smaller side are queued again, scored with the merged group; so each node queues its candidates only O(log n) times,
and a pass is near-linear as long as the score is. Siblings are queued when no group can join a user of it any more, so
that they do not block such merges.

For a value with very many users, only those next to the group are queued: all pairs would be quadratic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import pairwise

from irscope.ir import Value
from irscope.transforms.fusion.policy.block_plan import BlockPlan
from irscope.transforms.fusion.policy.candidate import Candidate
from irscope.transforms.fusion.policy.group_state import Group

__all__ = ["Score", "grow_best_first", "score_by_bytes", "why_not_neighbours"]

Score = Callable[[Candidate], float | None]
"""Scores a candidate merge; None and numbers up to 0 decline it."""

_NEXT_READERS = 8


def score_by_bytes(candidate: Candidate) -> float:
    """Score a merge by the bytes saved, and by the number of transfers saved, each of which counts for less than a byte."""
    return candidate.bytes_saved + candidate.transfers_saved / (1 << 20)


def why_not_neighbours(candidate: Candidate) -> str:
    """Says why a policy that ranks candidates left two groups apart that read the same value and that it would join."""
    return "tries only readers of one value that follow each other in the program"


def grow_best_first(plan: BlockPlan, score: Score) -> None:
    """Decide the groups of a block."""
    queue = _Queue(plan, score)
    plan.refusals.clear()
    for index, fits in enumerate(plan.fusible):
        if fits:
            for producer in set(plan.producers(index)):
                queue.put(producer, index)
    queue.run()
    queue.takes_siblings = True
    for readers in plan.readers.values():
        for before, after in pairwise(readers):
            queue.put(before, after)
    queue.run()


class _Queue:
    """The queue of candidates of one block."""

    def __init__(self, plan: BlockPlan, score: Score) -> None:
        self._plan = plan
        self._score = score
        self._heap: list[tuple[float, int, int]] = []
        self.takes_siblings = False

    def put(self, producer: int, consumer: int) -> None:
        """Queue a candidate, if its score is positive."""
        candidate = self._candidate(producer, consumer)
        if candidate is not None:
            score = self._score(candidate)
            if score is not None and score > 0:
                heappush(self._heap, (-score, -producer, -consumer))

    def run(self) -> None:
        """Merge until no candidate is left."""
        heap, plan = self._heap, self._plan
        while heap:
            waiting, producer, consumer = heappop(heap)
            candidate = self._candidate(-producer, -consumer)
            if candidate is None:
                continue
            score = self._score(candidate)
            if score is None or score <= 0:
                continue
            if -score > waiting:
                heappush(heap, (-score, producer, consumer))
                continue
            sides = [(group.size, index) for group, index in self._sides(candidate)]
            smaller = list(plan.partition.members(min(sides)[1]))
            refusal = plan.try_merge(candidate)
            if refusal is None:
                self._requeue(smaller)
            elif not candidate.is_sibling:
                plan.refusals[-producer, -consumer] = refusal

    @staticmethod
    def _sides(candidate: Candidate) -> Iterator[tuple[Group, int]]:
        yield candidate.ours, candidate.producer_index
        yield candidate.theirs, candidate.consumer_index

    def _candidate(self, producer: int, consumer: int) -> Candidate | None:
        """The candidate of two nodes' current groups, with the producer first; None when they are one already, or siblings too
        early."""
        plan = self._plan
        if plan.partition.find(producer) == plan.partition.find(consumer):
            return None
        if plan.shared(consumer, producer):
            producer, consumer = consumer, producer
        candidate = Candidate(plan, producer, consumer)
        return candidate if candidate.shared or self.takes_siblings else None

    def _requeue(self, members: list[int]) -> None:
        """Queue the candidates of nodes whose group has grown."""
        plan = self._plan
        for index in members:
            node = plan.block.nodes[index]
            for value in node.inputs:
                self._neighbours(value, index)
            for value in node.outputs:
                for reader in plan.readers.get(value, ())[:_NEXT_READERS]:
                    self.put(index, reader)

    def _neighbours(self, value: Value, index: int) -> None:
        """Queue a node with the producer of a value, and with the users of it directly before and after the node."""
        plan = self._plan
        producer = plan.maker.get(value)
        if producer is not None:
            self.put(producer, index)
        readers = plan.readers.get(value, [])
        if self.takes_siblings and len(readers) > 1:
            place = bisect_left(readers, index)
            for other in readers[max(0, place - 1) : place + 2]:
                self.put(*sorted((other, index)))
