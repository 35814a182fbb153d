"""The states of a history: how long each node lives, what passes removed, and what may share memory in each state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from irscope._base.results import Verdict
from irscope.analysis.alias import AliasDb
from irscope.ir import Graph, Node, Value
from irscope.report.panes import AliasViews, MemoryPictures
from irscope.report.view_models import AliasDetail, PointsToView
from irscope.report.words import Renaming, names_in, records_of, value_of
from irscope.transforms.base import History, PassRecord, Step

# The states of a history in which each node exists, in terms of the nodes of its last graph.
#
# State k is the program after k steps. A pass records steps and produces a graph. A node missing from the next graph was
# removed by the step that names it, or else by the last step of the pass. A new node was created by the step that names
# it, or by the step that removed the node whose value it produces; a copy inside a fusion group was created by the first
# merge into that group.


@dataclass(frozen=True, slots=True)
class Stretch:
    """The steps of one pass and its record."""

    record: PassRecord
    first: int  # The number of steps before it.
    steps: tuple[Step, ...]

    @property
    def last(self) -> int:
        """The state after the pass."""
        return self.first + len(self.steps)


@dataclass(frozen=True)
class Lives:
    """When nodes are created and removed, and which groups they were merged into."""

    since: dict[int, int] = field(default_factory=dict)  # The first state of each node created by a step.
    until: dict[int, int] = field(default_factory=dict)  # The first state without each node removed by a step.
    groups: dict[Node, list[Node]] = field(default_factory=dict)
    """The fusion groups of the last graph that steps created, with the nodes merged into them; copies are left out."""
    merges: dict[int, Node] = field(default_factory=dict)  # The group that each merging step merged into, by state.
    copies: set[int] = field(default_factory=set)  # Nodes created together with their group: copies of constants.
    loose: dict[int, Node] = field(default_factory=dict)  # Nodes merged into groups, by id, as they were before.


def lifetimes(history: History) -> list[Stretch]:
    """The steps of a history by pass."""
    ends = pairwise(history.ends)
    return [Stretch(record, first, history.steps[first:last]) for record, (first, last) in zip(history.records, ends, strict=True)]


def lives(history: History, passes: Sequence[Stretch]) -> Lives:
    """When each node is created and removed. Walks each graph once."""
    found = Lives()
    final = history.final
    initial = {node.id for node in history.initial.nodes()}
    group_of = {
        inner.id: group
        for group in final.nodes()
        if group.id not in initial and group.op.endswith("Group")
        for inner in group.blocks[0].nodes
    }
    for stretch in passes:
        _note(stretch, found, group_of)
    for group in dict.fromkeys(group_of.values()):
        found.groups[group] = [node for node in group.blocks[0].nodes if node.id not in found.copies]
    return found


def _note(stretch: Stretch, found: Lives, group_of: Mapping[int, Node]) -> None:
    """Record what one pass created, removed and merged."""
    before, after = _by_id(stretch.record.before), _by_id(stretch.record.after)
    named: dict[int, int] = {}
    for state, step in enumerate(stretch.steps, stretch.first + 1):
        for node in step.nodes:
            named.setdefault(node.id, state)
        around = {group_of.get(node.id) for node in step.nodes}
        group = around.pop() if len(around) == 1 else None
        if group is not None and group.id in after and group.id not in before:
            found.merges[state] = group
            found.loose.update((node.id, before[node.id]) for node in step.nodes if node.id in before)
            found.since.setdefault(group.id, state)
    maker: dict[Value, int] = {}
    for id, node in before.items():
        if id not in after:
            found.until[id] = named.get(id, stretch.last)
            maker.update((value, found.until[id]) for value in node.outputs)
    for id, node in after.items():
        if id not in before and id not in found.since:
            group = group_of.get(id)
            if group is not None and group.id in after and group.id not in before and group.id in found.since:
                found.since[id] = found.since[group.id]
                found.copies.add(id)
                continue
            instead = next((maker[value] for value in node.outputs if value in maker), stretch.last)
            found.since[id] = named.get(id, instead)


def _by_id(graph: Graph) -> dict[int, Node]:
    return {node.id: node for node in graph.nodes()}


# The values and nodes that passes removed, each with the last state that contains it.


class Gone(NamedTuple):
    """A record that is not in the last graph."""

    record: Value | Node
    graph: Graph  # The last graph between passes that contains it.
    state: int  # The state of that graph.
    by: str  # The pass that removed it.
    became: Value | None  # The value that replaced it, or its first result.


def gone_records(history: History) -> Mapping[int, Gone]:
    """The removed records of a history, by id. Walks each graph once."""
    last = records_of(history.final)
    found: dict[int, Gone] = {}
    for at, stretch in reversed(list(enumerate(lifetimes(history)))):
        graph = stretch.record.before
        if graph is stretch.record.after:
            continue
        records: list[Value | Node] = [*graph.values(), *graph.nodes()]
        for record in records:
            if record.id not in last and record.id not in found:
                value = value_of(record)
                became = history.forward(value, at) if value is not None else None
                found[record.id] = Gone(record, graph, stretch.first, stretch.record.name, became)
    return found


# What may share memory in any state of a history, in terms of its last graph.

_MOST_STATES = 8  # The number of alias dbs to keep: stepping back and forth asks about the same few states.


_State = tuple[AliasViews, Mapping[int, int], Mapping[int, Value], Renaming, dict[int, tuple[list[int], list[int]]]]
"""The views of a state; ids mapped to the ids they stand for; values by id; names; alias sets in ids of the last graph, by identity."""


class AliasSteps:
    """Alias details of the values of a history, state by state.

    Each state has its own graph and alias db. A value inside a fusion group may stand for an input or a result of the
    group; in a state where the group does not exist, or is smaller, the value it stands for is used.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._at = lru_cache(maxsize=_MOST_STATES)(self._made)
        self._seen_of: dict[int, tuple[list[int], frozenset[int]]] = {}  # Keyed by the `id` of a list, which is kept alive in the entry.

    def detail(self, value: Value, state: int) -> AliasDetail | None:
        """The alias detail, in a state, of a value of the last graph; None if it does not exist there or has no memory."""
        views, meant, by_id, rename, renamed = self._at(state)
        here = self._in(by_id, value)
        found = views.detail(here) if here is not None else None
        if found is None:
            return None
        ids = found["alias_set"]
        if id(ids) not in renamed:  # all values that share memory have one list, and usually all of them are asked about
            renamed[id(ids)] = ids, list(dict.fromkeys(meant.get(other, other) for other in ids))
        return AliasDetail(summary=rename(found["summary"]), alias_set=renamed[id(ids)][1], writers=found["writers"])

    def picture(self, values: Sequence[Value], state: int) -> PointsToView:
        """The memory of some values in a state, or of the whole program; values that do not exist there are left out."""
        views, meant, by_id, rename, _ = self._at(state)
        here = (self._in(by_id, value) for value in values)
        view = MemoryPictures(views.db, rename).of([value for value in here if value is not None])
        for box in view["boxes"]:
            box["record"] = meant.get(box["record"], box["record"])
        return view

    def pair(self, a: Value | None, b: Value | None, state: int) -> Verdict | None:
        """Whether two values may share memory in a state; None if one of them does not exist there or has no memory."""
        views, _, by_id, rename, _ = self._at(state)
        first, second = (self._in(by_id, value) if value else None for value in (a, b))
        if first is None or second is None:
            return None
        verdict = views.db.explain(first, second)
        return Verdict(verdict.holds, rename(verdict.because), verdict.witness)

    def _in(self, by_id: Mapping[int, Value], value: Value) -> Value | None:
        return by_id.get(value.id) or by_id.get(self._outside.get(value.id, 0))

    def visible(self, alias: AliasDetail) -> tuple[frozenset[int], frozenset[int]]:
        """The values and writers of a detail that exist in the last graph and so can be shown there, one id each."""
        return self._seen(alias["alias_set"], self._outside), self._seen(alias["writers"], {})

    def _seen(self, ids: list[int], outside: Mapping[int, int]) -> frozenset[int]:
        known = self._seen_of.get(id(ids))
        if known is None:
            known = ids, frozenset(outside.get(other, other) for other in ids if other in records_of(self._history.final))
            self._seen_of[id(ids)] = known
        return known[1]

    def _made(self, state: int) -> _State:
        graph = self._history.graph_after(state)
        kept = {value.id for value in self._history.final.values()}
        meant = {id: other for id, other in stands_for(graph).items() if id not in kept}
        by_id = {value.id: value for value in graph.values()}
        called = {id: self._names.get(meant.get(id, id), "") or graph.names[value] for id, value in by_id.items()}
        return AliasViews(AliasDb(graph)), meant, by_id, Renaming(graph, called), {}

    @cached_property
    def _names(self) -> Mapping[int, str]:
        return {value.id: name for value, name in names_in(self._history).items()}

    @cached_property
    def _outside(self) -> Mapping[int, int]:
        return stands_for(self._history.final)


def stands_for(graph: Graph) -> dict[int, int]:
    """Maps each value inside a fusion group that is an input or result of the group to that input or result."""
    found: dict[int, int] = {}
    for node in graph.nodes():
        if node.op.endswith("Group") and len(node.blocks) == 1:
            (block,) = node.blocks
            found.update((a.id, b.id) for a, b in zip(block.params, node.inputs, strict=True) if a is not b)
            found.update((a.id, b.id) for a, b in zip(block.returns, node.outputs, strict=True) if a is not b)
    return found
