"""Carries out a user's wishes about groups: finds their nodes in the current graph, and does their merges before a policy begins.

A wish is followed as far as it is legal. A merge that would be wrong is not done, and the refusal says why; nothing here can
do a merge that a policy could not have done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from irscope.errors import ArgumentError
from irscope.ir import Block, Graph, Node, Value
from irscope.transforms.base import Remark
from irscope.transforms.fusion.legality import Eligibility
from irscope.transforms.fusion.policy import (
    NOWHERE,
    BlockPlan,
    Candidate,
    PlacedWishes,
    Subject,
    Wishes,
    candidate_of,
    explain_path,
    obstacle,
    subject_of,
)
from irscope.transforms.grouping import Refusal
from irscope.transforms.history import History

__all__ = ["Named", "merge_first", "place_wishes", "some", "subjects", "unfit", "wishes_of"]

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
    return PlacedWishes.of(wishes, where)


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
