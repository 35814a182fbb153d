"""Answers about a selection: everything about one record, or how two records relate."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final

from irscope._base.results import Verdict
from irscope._base.words import listed, shortened
from irscope.analysis.alias import AliasDb, LazyVerdict
from irscope.analysis.memory_plan import memory_plan
from irscope.errors import UnknownName
from irscope.ir import Graph, Node, Value
from irscope.ir.text import print_node
from irscope.report import panes
from irscope.report import view_models as vm
from irscope.report.matching import is_group
from irscope.report.pages.exploration import Exploration
from irscope.report.states import AliasSteps, Gone, lifetimes
from irscope.report.timeline import program_name
from irscope.report.words import Renaming, records_of, short_type, value_of
from irscope.transforms.base import History

_MOST_SAMPLES: Final = 50


class HistoryInspection:
    """Answers the inspector's questions about a history: the text of one record, and what may share memory in each state."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.graph = history.final  # The program shown.
        self._lines: dict[Node, str] = {}

    @property
    def records(self) -> Mapping[int, Value | Node]:
        """Every value and node of the last graph by id."""
        return records_of(self.graph)

    @cached_property
    def db(self) -> AliasDb:
        """What may share memory in the last graph."""
        return AliasDb(self.graph)

    @cached_property
    def _alias(self) -> panes.AliasViews:
        return panes.AliasViews(self.db)

    @cached_property
    def _alias_steps(self) -> AliasSteps:
        return AliasSteps(self.history)

    def answer(self, ask: Mapping[str, Any]) -> Mapping[str, Any]:
        """The details of one id, or what is said of a pair, in the last state of the history or in another: the answer to a page.
        Raises UnknownName for an id of another program."""
        ids, state = [int(record) for record in ask["ids"]], None if ask.get("state") is None else int(ask["state"])
        if len(ids) == 2:
            return {"kind": "pair", "pair": self.pair(ids[0], ids[1], state)}
        return {"kind": "detail", "detail": self.detail(ids[0], state)}

    def detail(self, id: int, state: int | None = None) -> vm.Detail:
        """Everything about one value or node; a node is described by its first result."""
        record = self._record(id)
        return self._described(self.graph, record, self._shared(value_of(record), state))

    def pair(self, a: int, b: int, state: int | None = None) -> vm.PairDetail:
        """Whether two records may share memory in the last state."""
        alias = self._pair_now(self._record(a), self._record(b))
        return vm.PairDetail(ids=[a, b], alias=alias_verdict(alias), fusion=None, same=None)

    def points_to(self, ids: Sequence[int], state: int | None = None) -> vm.PointsToView:
        """The picture of the memory of the whole program, or of one or two records, in the last state or another."""
        values = [value for value in map(value_of, map(self._record, ids)) if value is not None]
        if ids and not values:
            raise UnknownName(f"{title_of(self.graph, self._record(ids[0]))} has no result", hint="values have memory")
        if state is not None:
            return self._alias_steps.picture(values, state)
        return panes.MemoryPictures(self.db).of([value for value in values if value in self.graph.names])

    def _record(self, id: int) -> Value | Node:
        record = self.records.get(id)
        if record is None:
            raise UnknownName(f"nothing in {self.graph.name!r} has the id {id}", hint="ids belong to one program")
        return record

    def _described(self, graph: Graph, record: Value | Node, alias: vm.AliasDetail | None) -> vm.Detail:
        """What needs no plan: the text of a record of a graph, where it is from, and its aliases."""
        node = _node(graph, record)
        if node is not None:
            if node not in self._lines:  # one string for all its results: it may have a hundred thousand
                self._lines[node] = shortened(print_node(node, graph.names))
            text = self._lines[node]
        else:
            assert isinstance(record, Value), "a node prints itself"
            what = "an input" if record in graph.inputs else "a parameter of a block"
            if record in graph.bound:
                also = listed(graph.tied.get(record.name or "", ()), lambda other: f"%{other}")
                what = f"a parameter or buffer of the model{f'; {also} is tied to it' if also else ''}"
            text = f"%{graph.names[record]} : {record.type}   ({what})"
        return vm.Detail(
            id=record.id, kind="value" if isinstance(record, Value) else "node", title=title_of(graph, record), text=text,
            location=shortened(str(node.location)) if node is not None and node.location is not None else "",
            scope=shortened(node.scope) if node is not None else "", alias=alias, fusion="", same="", kernel=None, time="",
        )  # fmt: skip

    def _shared(self, value: Value | None, state: int | None) -> vm.AliasDetail | None:
        if value is None:
            return None
        return self._alias.detail(value) if state is None else self._alias_steps.detail(value, state)

    def _pair_now(self, first: Value | Node, second: Value | Node) -> Verdict | None:
        left, right = value_of(first), value_of(second)
        return self.db.explain(left, right) if left is not None and right is not None else None


class Inspection(HistoryInspection):
    """Answers the inspector's questions about one exploration."""

    def __init__(self, exploration: Exploration) -> None:
        super().__init__(exploration.fusion.history)
        self.graph = exploration.graph
        self._of = exploration
        self.kernels_of: Collection[Node] | None = None  # The groups whose kernels are shown; all, if None.

    @cached_property
    def db(self) -> AliasDb:
        """What may share memory in the program shown."""
        return self._of.db

    @cached_property
    def _rename(self) -> Renaming:
        return panes.planner_renaming(self._of.fusion, self._of.names)

    @cached_property
    def kernels(self) -> panes.KernelViews:
        """The kernels of the groups, for this processor."""
        program = self._of.decided
        return panes.KernelViews(self._of.fusion, self._of.alike, None if program is None else panes.compiler_kernels(program))

    def prepare(self) -> None:
        """Warm up the analyses behind the first questions, by asking about one node of each op."""
        for nodes in islice(self._of.queries.of_op.values(), _MOST_SAMPLES):
            self.detail(nodes[len(nodes) // 2].id)

    def show(self, exploration: Exploration) -> None:
        """Answer with the times of this exploration of the same program from now on."""
        self._of = exploration

    def _record(self, id: int) -> Value | Node:
        gone = self._of.gone.get(id) if id not in self.records else None
        return super()._record(id) if gone is None else gone.record

    def detail(self, id: int, state: int | None = None) -> vm.Detail:
        """Everything about one value or node; a node is described by its first result."""
        if id not in self.records and id in self._of.gone:
            return self._gone(self._of.gone[id], state)
        detail, node = super().detail(id, state), _node(self.graph, self._record(id))
        if node is not None:
            detail["fusion"] = panes.fusion_sentence(self._of.fusion, node, self._rename)
            group = self._group(node)
            if group is not None and group in self._of.class_of:
                detail["same"] = panes.class_sentence(self._of.dedup, self._of.class_of[group])
            if group is not None and (self.kernels_of is None or group in self.kernels_of):
                detail["kernel"] = self.kernels.detail(group)
            detail["time"] = panes.time_sentence(self._of.profile, node.id, self._of.way)
            if self._of.fusion.made(node):
                detail["neighbours"] = panes.neighbour_views(self._of.fusion, node, self._rename)
        return detail

    def _gone(self, gone: Gone, state: int | None) -> vm.Detail:
        """Details of a record that a pass removed: its text, and what may have shared its memory."""
        last = self.graph
        maker = last.producer.get(gone.became) if gone.became is not None else None
        became = f", and {maker.op} (%{last.names[gone.became]}) stands for it" if maker is not None and gone.became is not None else ""
        alias = self._shared(value_of(gone.record), gone.state if state is None else min(state, gone.state))
        detail = self._described(gone.graph, gone.record, alias)
        detail["fusion"] = f"in {program_name(self.history, gone.state)}; {gone.by} took it away{became}"
        detail["gone_after"] = gone.state
        return detail

    def kernel_text(self, id: int, language: str) -> vm.KernelText:
        """The kernel of the group that a node is, or belongs to, as `llvm`, `assembly`, `cuda`, `ptx` or `sass`.

        Raises UnknownName for a node without a kernel, and for another language.
        """
        record = self._record(id)
        group = self._group(_node(self.graph, record))
        if group is None or self.kernels.plan(group) is None:
            raise UnknownName(f"{title_of(self.graph, record)} has no kernel", hint="fusion groups have")
        return self.kernels.text(group, language)

    def layout(self, id: int) -> vm.LayoutView:
        """The memory layout of a value or of a node's first result. Raises UnknownName if it is not a tensor."""
        record = self._record(id)
        value = value_of(record)
        if value is None:
            raise UnknownName(f"{title_of(self.graph, record)} has no result", hint="tensors have layouts")
        return self._of.layouts.layout(value)

    def assumed(self, id: int, layout: str) -> vm.AssumedLayout:
        """The effect of another memory layout for an argument. Raises ArgumentError if it is not an argument."""
        record = self._record(id)
        if not isinstance(record, Value):
            raise UnknownName(f"{title_of(self.graph, record)} is not an argument", hint="arguments may lie otherwise")
        return self._of.layouts.assumed(record, layout)

    def memory(self, state: int) -> vm.MemoryView:
        return panes.memory_view(memory_plan(self._of.fusion.history.graph_after(state)), self.records)

    def _group(self, node: Node | None) -> Node | None:
        """The fusion group that a node is, or belongs to."""
        if node is None or is_group(node):
            return node
        around = self.graph.owner.get(self.graph.block_of[node])
        return around if around is not None and is_group(around) else None

    def pair(self, a: int, b: int, state: int | None = None) -> vm.PairDetail:
        """Compare two records: may they share memory (in the given state), why are they not in one group, are they the same."""
        first, second = self._record(a), self._record(b)
        past = [self._of.gone[id].state for id in (a, b) if id not in self.records]
        if past or state is not None:
            states = [*past, *([] if state is None else [state])]
            alias = self._alias_steps.pair(value_of(first), value_of(second), min(states))
            if past:
                return vm.PairDetail(ids=[a, b], alias=alias_verdict(alias), fusion=None, same=None)
        else:
            alias = self._pair_now(first, second)
        one, other = _node(self.graph, first), _node(self.graph, second)
        fusion = verdict_view(self._of.fusion.why_not(one, other) if one is not None and other is not None else None)
        if fusion is not None and not fusion["holds"]:
            fusion["because"] = self._rename(fusion["because"])
        groups = self._group(one), self._group(other)
        same = None
        if groups[0] is not None and groups[1] is not None and groups[0] is not groups[1]:
            same = self._of.dedup.difference(groups[0], groups[1])
        return vm.PairDetail(ids=[a, b], alias=alias_verdict(alias), fusion=fusion, same=verdict_view(same))


def _node(graph: Graph, record: Value | Node) -> Node | None:
    """A node itself, or the producer of a value."""
    return record if isinstance(record, Node) else graph.producer.get(record)


def title_of(graph: Graph, record: Value | Node) -> str:
    """A value with its type, a node with its results."""
    if isinstance(record, Value):
        return f"%{graph.names[record]} : {short_type(record.type)}"
    results = listed(record.outputs, lambda value: f"%{graph.names[value]}")
    return f"{record.op} → {results}" if results else record.op


def verdict_view(verdict: Verdict | None) -> vm.VerdictView | None:
    if verdict is None:
        return None
    witness = [record.id for record in verdict.witness if isinstance(record, Value | Node)]
    return vm.VerdictView(holds=verdict.holds, because=verdict.because, witness=witness)


def alias_verdict(verdict: Verdict | None) -> vm.VerdictView | None:
    """The same with the numbered path of a yes about two values of the last state."""
    view = verdict_view(verdict)
    if view is not None and view["holds"] and isinstance(verdict, LazyVerdict):
        db, values = verdict.about
        view["steps"] = [panes.path_step(step) for step in db.path(*values)]
    return view


# Precomputed answers for a page without a kernel; what many answers share is stored once.

_FEW = 60  # The most writers that a detail holds inline.


def stored_details(
    text: vm.TextView, timeline: vm.TimelineView | None, details: Iterable[vm.Detail], history: History
) -> tuple[dict[int, vm.Detail], list[list[int]]]:
    """The `details` and `alias_sets` of a view: the answers about every record. Those of earlier states go into its timeline."""
    sets, found = AliasSets(), dict[int, vm.Detail]()
    printed = {line.strip() for line in text["lines"]}
    for detail in details:
        if detail["text"] in printed:
            detail["text"] = ""
        if detail["alias"] is not None:
            detail["alias"] = sets.shared(detail["alias"])
        found[detail["id"]] = detail
    if timeline is not None:
        timeline["earlier_aliases"] = [
            vm.EarlierAlias(value=value, alias=sets.shared(alias), until=until) for value, alias, until in _earlier_aliases(history)
        ]
    return found, sets.sets


def _earlier_aliases(history: History) -> Iterator[tuple[int, vm.AliasDetail, int]]:
    """The alias details of earlier states, for values whose details a later pass changed."""
    steps = AliasSteps(history)
    ends = [stretch for stretch in lifetimes(history) if stretch.steps and stretch.record.after_merges is None]
    for stretch in ends:
        for value in stretch.record.before.values():
            if value in history.final.names:
                before, after = (steps.detail(value, state) for state in (stretch.first, stretch.last))
                if before is not None and (after is None or steps.visible(before) != steps.visible(after)):
                    yield value.id, before, stretch.last


class AliasSets:
    """Stores alias sets, and sets of writers, once each, by number.

    Any two inputs may be the same tensor unless known otherwise: 300 parameters have one alias set of 300.
    """

    def __init__(self) -> None:
        self.sets: list[list[int]] = []
        self._number: dict[tuple[int, ...], int] = {}
        self._known: dict[int, tuple[list[int], int]] = {}
        """The number of a list by its `id`; the list is kept alive so that the `id` is not reused."""

    def shared(self, alias: vm.AliasDetail) -> vm.AliasDetail:
        """An alias detail whose set and writers are replaced by numbers of shared ones."""
        writers = alias["writers"]
        stored = vm.AliasDetail(summary=alias["summary"], alias_set=[], shared_set=self._number_of(alias["alias_set"]), writers=writers)
        if len(writers) > _FEW:
            stored |= {"writers": [], "shared_writers": self._number_of(writers)}
        return stored

    def _number_of(self, ids: list[int]) -> int:
        known = self._known.get(id(ids))
        if known is not None:
            return known[1]
        number = self._number.setdefault(tuple(sorted(ids)), len(self.sets))
        if number == len(self.sets):
            self.sets.append(ids)
        self._known[id(ids)] = ids, number
        return number
