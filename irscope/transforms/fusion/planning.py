"""Plans the groups of one graph: the options of fusion with a user's wishes, and a plan for each block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, TypeAlias

from irscope.analysis.dependence import dependences
from irscope.analysis.per_graph import once
from irscope.errors import ArgumentError
from irscope.ir import CONTROL_FLOW, Block, Graph, Module, Node, Value
from irscope.ir.module import inlined
from irscope.transforms.base import History, Remark
from irscope.transforms.fusion.block_plan import NOWHERE, BlockPlan, Candidate, Limits, PlacedWishes, Subject
from irscope.transforms.fusion.domains import NodeProfiles, profiles_of
from irscope.transforms.fusion.eligibility import Eligibility
from irscope.transforms.fusion.policies import POLICIES, Policy, candidate_of, explain_path, obstacle
from irscope.transforms.grouping import Refusal

# A user's wishes about the groups of a program, whatever the policy: ops apart, ops together, ops left to the library.
#
# Wishes choose among legal merges, and never make one legal. A node is identified by more than its id, because a pass may replace
# it, and because the passes before a plan run again when the assumptions about the inputs change.


def subject_of(graph: Graph, node: Node) -> Subject:
    """Returns the subject for a node of a graph."""
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

    def __bool__(self) -> bool:
        return bool(self.forbid or self.force or self.opaque or self.kept)

    def subjects(self) -> Iterator[Subject]:
        """All nodes that the wishes name."""
        for several in (*chain.from_iterable(self.forbid), *self.force, *self.kept, self.opaque):
            yield from several


# Wishes are carried out before a policy begins, as far as they are legal: a merge that would be wrong is not done, and the refusal
# says why. Nothing here can do a merge that a policy could not have done.

Named = Node | Value | str
"""A node, a value that it produces, or the printed name of either."""


def wishes_of(graph: Graph, forbid: Iterable[Any] = (), force: Iterable[Any] = (), opaque: Iterable[Named] = ()) -> Wishes:
    """Returns the wishes for a graph. Raises ArgumentError or UnknownName for a name without a node."""
    alone = [node for each in some(opaque) for node in (_every(graph, each) if isinstance(each, str) else [_node(graph, each)])]
    return Wishes(
        forbid=tuple(tuple((each,) for each in subjects(graph, several)) for several in forbid),
        force=tuple(subjects(graph, several) for several in force),
        opaque=tuple(dict.fromkeys(subject_of(graph, node) for node in alone)),
    )


def some(named: Iterable[Any]) -> list[Any]:
    """Returns the names as a list; a single name becomes a list of one."""
    return [named] if isinstance(named, str | Node | Value) else list(named)


def subjects(graph: Graph, several: Any) -> tuple[Subject, ...]:
    """Returns the nodes of one wish. Raises ArgumentError for fewer than two."""
    if isinstance(several, str | Node | Value) or not isinstance(several, Iterable):
        raise ArgumentError(f"{several!r} is not a pair of nodes", hint='give a list of pairs: forbid=[("a", "b")]')
    found = tuple(dict.fromkeys(subject_of(graph, _node(graph, each)) for each in several))
    if len(found) < 2:
        raise ArgumentError("a pair is two different nodes", hint='give a list of pairs: forbid=[("a", "b")]')
    return found


def _every(graph: Graph, name: str) -> list[Node]:
    """Returns all nodes of an op, or the one node of a name."""
    if "::" not in name or "#" in name:
        return [_node(graph, name)]
    found = [node for node in graph.nodes() if node.op == name]
    return found or [_node(graph, name)]


def _node(graph: Graph, named: Named) -> Node:
    if isinstance(named, Node) or (isinstance(named, str) and "::" in named):
        return graph.node(named)
    value = graph.value(named)
    producer = graph.producer.get(value)
    if producer is None:
        what = f"%{graph.names[value]} is an input, or the parameter of a block: no op produces it"
        raise ArgumentError(what, hint="name a value that the program computes")
    return producer


def place_wishes(wishes: Wishes, history: History) -> PlacedWishes:
    """Returns the wishes for the last graph of a history; a node is found by id, by its first result's successor, or by name and op."""
    if not wishes:
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


def _remark(graph: Graph, wished: Sequence[Node | Subject], refusal: Refusal) -> Remark:
    names = " and ".join(str(each) if isinstance(each, Subject) else f"%{graph.names[each.outputs[0]]}" for each in wished)
    nodes = [each.node if isinstance(each, Subject) else each for each in wished]
    what = f"{names} cannot be in one kernel, as you wanted: {refusal.because}"
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
    if graph.block_of[a] is not graph.block_of[b]:
        return Refusal("different-blocks", "they are in different blocks", (a, b))
    return None


def _merge(plan: BlockPlan, a: Node, b: Node) -> Refusal | None:
    """Merge the groups of two nodes, or return why not."""
    x, y = sorted((plan.index[a], plan.index[b]))
    if plan.partition.find(x) == plan.partition.find(y):
        return None
    refusal = obstacle(plan, x, y)
    return refusal if refusal is not None else plan.try_merge(candidate_of(plan, x, y))


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
        if not (trial.fusible[p] and trial.fusible[q]) or trial.try_merge(candidate_of(trial, *sorted((p, q)))) is not None:
            return explain_path(trial, trial.nodes(*way)) if way else obstacle(trial, *sorted((x, y)))
    return None


@dataclass(frozen=True, slots=True)
class FusionOptions:
    """The options of `fuse`, checked; without arguments, those that the passes alone work with."""

    policy: Policy = POLICIES["greedy"]
    min_size: int = 2
    limits: Limits = Limits()  # noqa: RUF009 it is frozen
    exact: bool = False
    wishes: Wishes = Wishes()


def as_graph(program: object, caller: str) -> Graph:
    """Returns the argument of a pass as a graph; the calls of a module, which must have one entry, are inlined."""
    if isinstance(program, Module):
        return inlined(program)
    if isinstance(program, Graph):
        return program
    raise ArgumentError(
        f"{caller} works on a Graph, not on {type(program).__name__}",
        hint="irs.load(program, *example_arguments) makes a Graph of a model or a file",
    )


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
        """The properties of the nodes."""
        return self.profiles.rules

    def refusal(self, node: Node) -> Refusal | None:
        """Returns why a node cannot be in any group, by its properties or by a wish; None if it can."""
        return unfit(self.rules, self.wishes, node)


def plans_of(history: History, options: FusionOptions) -> Plans:
    """Returns the plans of the last graph of a history; they are cached for registered policies without wishes, and computed each
    time for a user's function."""
    if POLICIES.get(options.policy.name) is options.policy and not options.wishes:
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
