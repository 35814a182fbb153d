"""The fusion policies by name, and policies from a user's scoring function.

A policy decides which legal merges happen, and in which order; `BlockPlan` decides what is legal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Final

from irscope.analysis.alias import AliasDb
from irscope.analysis.dependence import Dependence
from irscope.errors import ArgumentError
from irscope.ir import Node, Value
from irscope.transforms.fusion.block_plan import BlockPlan, Candidate, Group
from irscope.transforms.fusion.domains import Domain
from irscope.transforms.grouping import Refusal

# Explains what forbids the merge of two groups, with witnesses: the write, the effect or the path between them.


def explain_path(plan: BlockPlan, path: tuple[Node, ...]) -> Refusal:
    """Describes a path between two groups through a third one: blocked by a write, an effect, or by data alone.

    `path` holds one node of each group along it.
    """
    ties = ties_along(plan, path)
    nodes = tuple(dict.fromkeys(node for tie in ties for node in (tie.node, tie.obstacle.later)))
    for kind, rule in (("memory", "blocked-by-write"), ("effect", "side-effect-between"), ("random", "random-order")):
        found = next((tie for tie in ties if tie.kind == kind), None)
        if found is not None:
            named = (found.node, found.obstacle.later)
            return Refusal(rule, found.because + _between(plan.rules.db, nodes, named), (*named, *nodes))
    names = " → ".join(plan.rules.db.node_words(node) for node in nodes)
    return Refusal("cycle", f"fusing them would create a cycle: {names}", nodes)


def _between(db: AliasDb, nodes: tuple[Node, ...], named: tuple[Node, Node]) -> str:
    """Returns text that names the ends of the path, where the sentence does not name them already."""
    first, last = nodes[0], nodes[-1]
    if first in named and last in named:
        return ""
    return f"; that lies between {db.node_words(first)} and {db.node_words(last)}"


def ties_along(plan: BlockPlan, path: tuple[Node, ...]) -> list[Dependence]:
    """Returns a dependence of each group of a path on the group before it."""
    return [_tie(plan, a, b) for a, b in pairwise(path)]


def _tie(plan: BlockPlan, a: Node, b: Node) -> Dependence:
    """Returns a dependence of a node of the group of `b` on one of the group of `a`."""
    find, nodes = plan.partition.find, plan.block.nodes
    here = find(plan.index[a])
    for index in sorted(plan.partition.members(plan.index[b])):
        for tie in plan.ties.predecessors[nodes[index]]:
            if find(plan.index[tie.node]) == here:
                return tie
    raise AssertionError(f"no dependence leads from {a!r} to {b!r}")


def obstacle(plan: BlockPlan, x: int, y: int) -> Refusal | None:
    """Returns what forbids a merge of the groups of two nodes in the plan's current state, whatever the policy."""
    path = plan.partition.obstacle(x, y)
    if path:
        return explain_path(plan, plan.nodes(*path))
    verdict = candidate_of(plan, x, y).verdict()
    return verdict if isinstance(verdict, Refusal) else None


def candidate_of(plan: BlockPlan, x: int, y: int) -> Candidate:
    """Returns the candidate of the two nodes' groups, with the producer first."""
    return Candidate(plan, y, x) if plan.shared(y, x) else Candidate(plan, x, y)


# Sibling fusion: merges groups that read the same value and not each other, so that one kernel reads it once.
#
# Each value is visited once, user by user in program order, and each user is tried with the last few groups before it that
# have the same domain. This misses pairs that are further apart, and keeps the pass linear in the number of uses: a value
# with a thousand users would otherwise yield half a million pairs. The merge must certainly save bytes, so values of
# unknown size join no groups.

_LAST: Final = 4
"""The number of earlier groups that a user is tried with."""


def join_siblings(plan: BlockPlan) -> None:
    """Merge users of a value that have the same domain and do not read each other."""
    find = plan.partition.find
    for value, readers in plan.readers.items():
        if len(readers) == 1 or not plan.profiles.sizes[value]:
            continue
        latest: dict[Domain, list[int]] = {}
        for reader in dict.fromkeys(map(find, readers)):
            group = plan.group(reader)
            if value in group.inputs:
                before = latest.setdefault(group.domain, [])
                if not any(_joined(plan, other, reader) for other in reversed(before)):
                    latest[group.domain] = [*before[1 - _LAST :], reader]


def why_not_siblings(candidate: Candidate) -> str:
    """Says why `join_siblings` left two groups apart that read the same value of known size and could be one kernel."""
    first, second = candidate.ours.domain, candidate.theirs.domain
    if first is not second:
        alike = "joins such groups only if they go over the same points in the same way"
        return f"{alike}, and these go over {first} and {second}" if str(first) != str(second) else alike
    return f"tries a group only with the last {_LAST} such groups before it"


def _joined(plan: BlockPlan, first: int, second: int) -> bool:
    """Merge the groups of two nodes if they are siblings, and return whether they are in one group now."""
    if plan.partition.find(first) == plan.partition.find(second):
        return True
    candidate = Candidate(plan, first, second)
    return candidate.is_sibling and not plan.shared(second, first) and plan.try_merge(candidate) is None


# The greedy policy on one block: consumers bottom-up, and for each the producers from the latest to the earliest.
#
# The latest producer first lets `f(a, a + b)` see `a + b` before `a` (the order of PyTorch's GraphFuser). A producer
# that was refused because of a path through a third group stays refused while its group grows: nodes that join later come
# before it in the program, and the nodes on the path were tried before it. So a group tries each candidate once. Pairs
# refused for another reason are tried again after other merges; siblings join when nothing else can, and then the
# refused pairs are tried once more.

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


# The order in which PyTorch's GraphFuser merges (the fuser of `prim::FusionGroup`), decision by decision.
#
# It visits the nodes from the last to the first. A node or group tries its producers, the latest first; the first that can
# be moved directly in front of it joins it, and the new group starts again. When none joins, the node in front is next; the
# whole is repeated until nothing changes. A successful move stays even if the kernel would then have too many arguments,
# and moves change which producer is the latest, so they are done here as well.
#
# Arguments are counted as in PyTorch: inputs and outputs of both sides added up, regardless of what they share, those of a
# single node with its constants. Groups never join siblings.


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


# The best-first policy: merges the candidate with the best score first.
#
# Candidates are a group and its producer, and groups that read the same value one after the other. They wait in a heap with the
# score that they had when they were queued. A candidate that is popped is scored again, as its groups may have grown: if the
# score fell, it is queued again; otherwise the two groups are merged, or refused as they are now. After a merge, the candidates
# of the smaller side are queued again, scored with the merged group; so each node queues its candidates only O(log n) times,
# and a pass is near-linear as long as the score is. Siblings are queued when no group can join a user of it any more, so
# that they do not block such merges.
#
# For a value with very many users, only those next to the group are queued: all pairs would be quadratic.

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


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to decide the groups of a block."""

    name: str
    grow: Callable[[BlockPlan], None]
    siblings: Callable[[Candidate], str] | None
    """Says why it leaves two groups apart that read the same, although neither reads from the other and it could join them; None for
    a policy that never joins such groups."""
    score: Score | None = None
    """The function that ranks candidates, if the policy ranks them."""


POLICIES: Final[Mapping[str, Policy]] = {
    policy.name: policy
    for policy in (
        Policy("greedy", grow_greedily, why_not_siblings),
        Policy("torch-legacy", grow_like_torch, None),
        Policy("min-bytes", partial(grow_best_first, score=score_by_bytes), why_not_neighbours, score=score_by_bytes),
    )
}


def policy_of(choice: str | Score) -> Policy:
    """Returns the policy of a name, or one that ranks candidates by a function.

    >>> policy_of("greedy").score, policy_of(lambda candidate: candidate.bytes_saved).name
    (None, '<lambda>')
    """
    if isinstance(choice, str) and choice in POLICIES:
        return POLICIES[choice]
    if callable(choice):
        name = getattr(choice, "__name__", type(choice).__name__)
        return Policy(name, partial(grow_best_first, score=choice), why_not_neighbours, score=choice)
    names = ", ".join(map(repr, POLICIES))
    raise ArgumentError(f"there is no fusion policy {choice!r}", hint=f"the policy is {names}, or a function that scores a candidate merge")
