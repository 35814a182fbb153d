"""Plans the groups of one graph: the fusion policies, a user's wishes, and a plan for each block.

A policy decides which legal merges happen, and in which order; `BlockPlan` decides what is legal.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import chain, pairwise
from typing import Any, Final, TypeAlias

from irscope.analysis.dependence import dependences
from irscope.analysis.per_graph import alias_db_of, once
from irscope.errors import ArgumentError
from irscope.ir import CONTROL_FLOW, Block, Graph, Node, Value
from irscope.transforms.base import History, Remark
from irscope.transforms.functionalize import why_in_place
from irscope.transforms.fusion.block_plan import NOWHERE, BlockPlan, Candidate, Limits, PlacedWishes, Subject
from irscope.transforms.fusion.domains import Domain, NodeProfiles, profiles_of
from irscope.transforms.fusion.eligibility import Eligibility
from irscope.transforms.grouping import Refusal, apart_in_blocks, explain_path, pull_producers, with_place

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
# refused pairs are tried once more. A producer that its consumer would compute again (`Candidate.waste`) waits for the second try,
# so that it is judged with the producers that joined it, and they do not stay behind.

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
            pull_producers(plan.partition, consumer, plan.producers, partial(_is_merged, plan, waits=True))
    for _ in range(_ROUNDS):
        before = len(plan.merges)
        refused = [pair for pair, refusal in plan.refusals.items() if refusal.rule not in _FOR_GOOD]
        for producer, consumer in sorted(refused, key=lambda pair: (pair[1], pair[0]), reverse=True):
            if find(producer) != find(consumer):
                single = plan.group(producer).size == 1
                if _is_merged(plan, producer, consumer) and single:
                    pull_producers(plan.partition, producer, plan.producers, partial(_is_merged, plan))
        if len(plan.merges) == before:
            join_siblings(plan)
        if len(plan.merges) == before:
            break


def _is_merged(plan: BlockPlan, producer: int, reader: int, *, waits: bool = False) -> bool:
    candidate = Candidate(plan, producer, reader)
    if waits and candidate.times() > 1:
        refusal: Refusal | None = Refusal("recomputed", "", candidate.nodes)
    else:
        refusal = candidate.waste() or plan.try_merge(candidate)
    if refusal is not None:
        plan.refusals[producer, reader] = refusal
    return refusal is None


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
        reader = next(reader for reader in plan.readers[value] if find(reader) == find(consumer))
        refusal = _fuse(plan, Candidate(plan, producer, reader))
        if refusal is None:
            return True
        plan.refusals[producer, reader] = refusal
    return False


def _fuse(plan: BlockPlan, candidate: Candidate) -> Refusal | None:
    """Move the two groups together, which is not undone, and merge them."""
    path = plan.partition.bring(candidate.producer_index, candidate.consumer_index)
    if path:
        return Refusal("cycle", "fusing them would create a cycle", plan.nodes(*path))
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
    """Score a merge by the bytes saved, and by the number of transfers saved, each of which counts for less than a byte; what is computed
    again costs bytes, and of two equal merges the one that computes nothing again is better."""
    saved = candidate.bytes_saved + candidate.transfers_saved / (1 << 20)
    return saved if candidate.times() == 1 else saved - candidate.bytes_recomputed - 0.5 / (1 << 20)


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
        found = self._scored(producer, consumer)
        if found is not None:
            heappush(self._heap, (-found[1], -producer, -consumer))

    def run(self) -> None:
        """Merge until no candidate is left."""
        heap, plan = self._heap, self._plan
        while heap:
            waiting, producer, consumer = heappop(heap)
            found = self._scored(-producer, -consumer)
            if found is None:
                continue
            candidate, score = found
            if -score > waiting:
                heappush(heap, (-score, producer, consumer))
                continue
            sides = (candidate.ours.size, candidate.producer_index), (candidate.theirs.size, candidate.consumer_index)
            smaller = list(plan.partition.members(min(sides)[1]))
            refusal = plan.try_merge(candidate)
            if refusal is None:
                self._requeue(smaller)
            elif not candidate.is_sibling:
                plan.refusals[-producer, -consumer] = refusal

    def _scored(self, producer: int, consumer: int) -> tuple[Candidate, float] | None:
        """The candidate of two nodes' current groups and its score; None when it is declined, when they are one group already, or siblings
        too early. What would be computed again for more than it saves is a refusal."""
        plan, find = self._plan, self._plan.partition.find
        candidate = plan.candidate(producer, consumer) if find(producer) != find(consumer) else None
        if candidate is None or not (candidate.shared or self.takes_siblings):
            return None
        score = self._score(candidate)
        if score is None:
            return None
        if not hasattr(score, "__float__") or getattr(score, "shape", ()) != () or score != score:  # NaN
            name = getattr(self._score, "__name__", type(self._score).__name__)
            raise ArgumentError(f"the policy {name!r} scores a merge with {score!r}", hint="return a number; 0 declines it")
        if score <= 0 and self._score is score_by_bytes and (waste := candidate.waste()):
            plan.refusals[candidate.producer_index, candidate.consumer_index] = waste
        return (candidate, score) if score > 0 else None

    def _requeue(self, members: list[int]) -> None:
        """Queue the candidates of nodes whose group has grown: with the producers of their operands, the users of these directly before
        and after them, and the users of their results."""
        plan = self._plan
        for index in members:
            node = plan.block.nodes[index]
            for value in node.inputs:
                producer = plan.maker.get(value)
                if producer is not None:
                    self.put(producer, index)
                readers = plan.readers.get(value, [])
                if self.takes_siblings and len(readers) > 1:
                    place = bisect_left(readers, index)
                    for other in readers[max(0, place - 1) : place + 2]:
                        self.put(*sorted((other, index)))
            for value in node.outputs:
                for reader in plan.readers.get(value, ())[:_NEXT_READERS]:
                    self.put(index, reader)


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


# A user's wishes about the groups of a program, whatever the policy: ops apart, ops together, ops left to the library.
#
# Wishes choose among legal merges, and never make one legal. A node is identified by more than its id, because a pass may replace
# it, and because the passes before a plan run again when the assumptions about the inputs change.


def subject_of(graph: Graph, node: Node) -> Subject:
    return Subject(node, graph.names[node.outputs[0]] if node.outputs else "")


Sides: TypeAlias = tuple[tuple[Subject, ...], ...]
"""Sets of nodes, each to be kept apart from the others; two large groups are two sides, but very many pairs."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """All wishes about one program."""

    forbid: tuple[Sides, ...] = ()
    """In each entry, no node of one side may be in a kernel with a node of another."""
    force: tuple[tuple[Subject, ...], ...] = ()
    """The nodes of each entry are put into one kernel before the policy decides the rest."""
    opaque: tuple[Subject, ...] = ()
    """The nodes that stay with the library."""
    kept: tuple[tuple[Subject, Subject], ...] = ()
    """The merges that are done first, as another fusion did them."""

    def subjects(self) -> Iterator[Subject]:
        return chain(*chain.from_iterable(self.forbid), *self.force, *self.kept, self.opaque)


# Wishes are carried out before a policy begins, as far as they are legal: a merge that would be wrong is not done, and the refusal
# says why. Nothing here can do a merge that a policy could not have done.

Named = Node | Value | str
"""A node, a value that it produces, or the printed name of either."""


Meant = Callable[[Named], Sequence[Subject]]
"""Returns the nodes that a user means by a name; raises ArgumentError or UnknownName if there is none."""


def meant_in(graph: Graph) -> Meant:
    """What names mean in a graph to be fused."""

    def meant(named: Named) -> list[Subject]:
        if isinstance(named, Node) or (isinstance(named, str) and "::" in named):
            return [subject_of(graph, graph.node(named))]
        value = graph.value(named)
        if value not in graph.producer:
            what = f"%{graph.names[value]} is an input, or the parameter of a block: no op produces it"
            raise ArgumentError(what, hint="name a value that the program computes")
        return [subject_of(graph, graph.producer[value])]

    return meant


def read_wishes(meant: Meant, graphs: Iterable[Graph], forbid: Iterable[Any], force: Iterable[Any], opaque: Iterable[Named]) -> Wishes:
    """Returns the wishes as the user gave them; `graphs` have the nodes of an op that is named for all its nodes.

    Raises ArgumentError for fewer than two nodes to put together or apart.
    """
    for option, pairs in (("forbid", forbid), ("force", force)):
        if not isinstance(pairs, Iterable):
            raise ArgumentError(f"{pairs!r} is not a list of pairs", hint=_pairs(option))
    alone: dict[Subject, None] = {}
    for named in some(opaque):
        is_op = isinstance(named, str) and "::" in named and "#" not in named and not named.startswith("%")
        every = [node for graph in graphs for node in graph.nodes() if is_op and node.op == named]
        alone.update(dict.fromkeys(subject for each in every or [named] for subject in meant(each)))
    apart = (_sides(meant, _pair(several)) for several in forbid)
    together = (_together(meant, _pair(several, "force"), "force") for several in force)
    return Wishes(tuple(apart), tuple(together), tuple(alone))


def some(named: Any) -> list[Any]:
    """Returns the names as a list; a single name becomes a list of one."""
    if not isinstance(named, str | Node | Value | Iterable):
        raise ArgumentError(f"{named!r} names no nodes", hint='give a list of names: opaque=["a"]')
    return [named] if isinstance(named, str | Node | Value) else list(named)


def _pairs(option: str) -> str:
    return f'give a list of pairs: {option}=[("a", "b")]'


def _pair(several: Any, option: str = "forbid") -> list[Named]:
    """The names in one wish; a single group means its members."""
    if isinstance(several, str | Value) or not isinstance(several, Iterable | Node):
        raise ArgumentError(f"{several!r} is not a pair of nodes", hint=_pairs(option))
    return some(several)


def _together(meant: Meant, several: Sequence[Named], option: str = "forbid") -> tuple[Subject, ...]:
    found = tuple(dict.fromkeys(chain.from_iterable(map(meant, several))))
    if len(found) < 2:
        raise ArgumentError("a pair is two different nodes", hint=_pairs(option))
    return found


def _sides(meant: Meant, several: Sequence[Named]) -> Sides:
    """The sides to keep apart: single nodes, or for several groups the members of each."""
    sides = list(map(meant, several))
    if len(sides) < 2 or all(len(side) == 1 for side in sides):
        return tuple((each,) for each in _together(meant, several))
    taken: set[Subject] = set()
    found: list[tuple[Subject, ...]] = [()] * len(sides)
    for place, side in sorted(enumerate(sides), key=lambda side: len(side[1])):  # one member can be kept apart from the rest of its group
        found[place] = tuple(each for each in side if each not in taken)
        taken.update(side)
    return tuple(found)


def place_wishes(wishes: Wishes, history: History) -> PlacedWishes:
    """Returns the wishes for the last graph of a history; a node is found by id, by its first result's successor, or by name and op."""
    if wishes == Wishes():
        return NOWHERE
    last = history.final
    by_id = {node.id: node for node in last.nodes()}
    first = {value.id: value for value in history.initial.values()}
    by_name = {(last.names[node.outputs[0]], node.op): node for node in by_id.values() if node.outputs}
    where: dict[Subject, Node] = {}
    for subject in wishes.subjects():
        then = subject.node
        node = by_id.get(then.id)
        if node is None and then.outputs and then.outputs[0].id in first:
            kept = history.forward(first[then.outputs[0].id])
            node = last.producer.get(kept) if kept is not None else None
        node = node or by_name.get((subject.name, then.op))
        if node is not None:
            where[subject] = node

    def there(several: Iterable[Subject]) -> tuple[Node, ...]:
        return tuple(dict.fromkeys(where[each] for each in several if each in where))

    apart: dict[Node, dict[int, int]] = {}
    for mark, sides in enumerate(wishes.forbid):
        for side, several in enumerate(sides):
            for node in there(several):
                apart.setdefault(node, {})[mark] = side
    return PlacedWishes(
        apart=apart,
        together=tuple(found for several in wishes.force if len(found := there(several)) > 1),
        opaque=frozenset(there(wishes.opaque)),
        kept=tuple((where[a], where[b]) for a, b in wishes.kept if a in where and b in where),
        gone=tuple(each for several in wishes.force for each in several if each not in where),
    )


def unfit(rules: Eligibility, wishes: PlacedWishes, node: Node) -> Refusal | None:
    """Returns why a node cannot be in any kernel: it was made opaque, or is not eligible; None if it can."""
    if node in wishes.opaque:
        return Refusal("opaque", f"you made {node.op} opaque: it stays with the library", (node,))
    return rules.refusal(node)


def merge_first(plans: Mapping[Block, BlockPlan], graph: Graph, wishes: PlacedWishes) -> list[Remark]:
    """Do the requested merges; return a remark for each that would be wrong, with the reason."""
    refused: list[Remark] = []
    trials: dict[BlockPlan, BlockPlan] = {}
    for a, b in wishes.kept:
        refusal = _apart(plans, graph, a, b) or _merge(plans[graph.block_of[a]], a, b)
        if refusal is not None and refusal.rule not in ("forbidden", "opaque"):
            refused.append(_remark(graph, (a, b), refusal))
    for several in wishes.together:
        for a, b in pairwise(sorted(several, key=graph.position.__getitem__)):
            refusal = _apart(plans, graph, a, b) or _bring_together(plans[graph.block_of[a]], a, b, trials)
            if refusal is not None:
                refused.append(_remark(graph, (a, b), refusal))
    removed = Refusal("no-node", "it is gone: its result was known before the run, or unused")
    return [*refused, *(_remark(graph, (subject,), removed) for subject in wishes.gone)]


def with_cause(graph: Graph, node: Node, refusal: Refusal) -> Refusal:
    """The refusal, for a write that stays in place with what keeps it there."""
    cause = once(graph, why_in_place, lambda: why_in_place(graph)).get(node) if refusal.rule == "in-place" else None
    return refusal if cause is None else Refusal(refusal.rule, f"{refusal.because}: {cause}", refusal.evidence)


def _remark(graph: Graph, wished: Sequence[Node | Subject], refusal: Refusal) -> Remark:
    names = " and ".join(str(each) if isinstance(each, Subject) else f"%{graph.names[each.outputs[0]]}" for each in wished)
    nodes = [each.node if isinstance(each, Subject) else each for each in wished]
    if refusal.evidence and isinstance(refusal.evidence[0], Node):
        refusal = with_cause(graph, refusal.evidence[0], refusal)
    what = f"{names} cannot be in one kernel, as you wanted: {with_place(alias_db_of(graph).node_words, refusal)}"
    return Remark("missed", refusal.rule, nodes[-1], what, tuple(dict.fromkeys((*nodes, *refusal.evidence))))


def _apart(plans: Mapping[Block, BlockPlan], graph: Graph, a: Node, b: Node) -> Refusal | None:
    """Returns why two nodes can never be in one kernel; None if they might."""
    for node in (a, b):
        plan = plans.get(graph.block_of[node])
        if plan is None:
            return Refusal("given-group", f"{node.op} is in a group that the program had already", (node,))
        refusal = unfit(plan.rules, plan.wishes, node)
        if refusal is not None:
            return refusal
    return apart_in_blocks(graph, alias_db_of(graph).node_words, a, b)


def _merge(plan: BlockPlan, a: Node, b: Node) -> Refusal | None:
    """Merge the groups of two nodes, or return why not."""
    x, y = sorted((plan.index[a], plan.index[b]))
    is_one = plan.partition.find(x) == plan.partition.find(y)
    return None if is_one else plan.obstacle(x, y) or plan.try_merge(plan.candidate(x, y))


def _bring_together(plan: BlockPlan, a: Node, b: Node, trials: dict[BlockPlan, BlockPlan]) -> Refusal | None:
    """Merge the groups of two nodes, and those between them if these keep them apart; or return why not.

    The merges are tried on a copy first, so that a refusal leaves no trace. `trials` holds the copy of each plan, which the next
    wish reuses; another one is made only after a refusal in the middle.
    """
    refusal = _merge(plan, a, b)
    if refusal is None or refusal.rule not in ("cycle", "blocked-by-write", "side-effect-between", "random-order"):
        return refusal
    trial = trials.pop(plan, None) or plan.anew()
    for merge in plan.merges[len(trial.merges) :]:
        trial.try_merge(Candidate(trial, merge.producer, merge.consumer))
    refusal = _join_through_others(trial, plan.index[a], plan.index[b])
    if refusal is None:
        for merge in trial.merges[len(plan.merges) :]:
            plan.try_merge(Candidate(plan, merge.producer, merge.consumer))
    if len(trial.merges) == len(plan.merges):
        trials[plan] = trial
    return refusal


def _join_through_others(trial: BlockPlan, x: int, y: int) -> Refusal | None:
    """Merge two groups after all groups on paths between them; or return the obstacle, with some of these merged."""
    while trial.partition.find(x) != trial.partition.find(y):
        p, q = x, y
        way = trial.partition.obstacle(*sorted((x, y)))
        while path := trial.partition.obstacle(*sorted((p, q))):
            p, q = path[0], path[1]
        if not (trial.fusible[p] and trial.fusible[q]) or trial.try_merge(trial.candidate(*sorted((p, q)))) is not None:
            return explain_path(trial.ties, trial.partition, way) if way else trial.obstacle(*sorted((x, y)))
    return None


@dataclass(frozen=True, slots=True)
class FusionOptions:
    """The options of `fuse`, checked; without arguments, those that the passes alone work with."""

    policy: Policy = POLICIES["greedy"]
    min_size: int = 2
    limits: Limits = Limits()  # noqa: RUF009 it is frozen
    exact: bool = False
    wishes: Wishes = Wishes()


@dataclass(frozen=True, eq=False, slots=True)
class Plans:
    """The decisions about each block of a graph."""

    profiles: NodeProfiles
    by_block: dict[Block, BlockPlan]
    options: FusionOptions
    wishes: PlacedWishes
    refused: Sequence[Remark]
    """The merges that were requested and are not legal, each with the reason."""

    @property
    def rules(self) -> Eligibility:
        return self.profiles.rules

    def refusal(self, node: Node) -> Refusal | None:
        """Returns why a node cannot be in any group, by its properties or by a wish; None if it can."""
        return unfit(self.rules, self.wishes, node)


def plans_of(history: History, options: FusionOptions) -> Plans:
    """Returns the plans of the last graph of a history; they are cached for registered policies without wishes, and computed each
    time for a user's function."""
    if POLICIES.get(options.policy.name) is options.policy and options.wishes == Wishes():
        return once(history.final, options, lambda: _plan(history, options))
    return _plan(history, options)


def _plan(history: History, options: FusionOptions) -> Plans:
    graph, wishes = history.final, place_wishes(options.wishes, history)
    profiles = profiles_of(graph, exact=options.exact)
    plans: dict[Block, BlockPlan] = {}
    for block in fusible_blocks(graph):
        plans[block] = BlockPlan(dependences(graph, block), profiles, options.limits, wishes)
    refused = merge_first(plans, graph, wishes)
    for plan in plans.values():
        options.policy.grow(plan)
    return Plans(profiles, plans, options, wishes, refused)


def fusible_blocks(graph: Graph) -> Iterator[Block]:
    """Yields each block that is reached through ifs and loops only, and so not inside a group or an unknown op, in textual order."""
    stack = [graph.body]
    while stack:
        block = stack.pop()
        yield block
        inside = [inner for node in block.nodes if node.op in CONTROL_FLOW for inner in node.blocks]
        stack.extend(reversed(inside))
