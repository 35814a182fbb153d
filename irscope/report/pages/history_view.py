"""The view of a history alone: the program with its steps, and what may share memory in each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from irscope._base.escaping import shortened
from irscope.analysis.alias import AliasDb
from irscope.errors import UnknownName
from irscope.ir import Node, Value
from irscope.ir.text import print_node
from irscope.report.history import AliasSteps, program_stops
from irscope.report.history.timeline import timeline_view
from irscope.report.pages.details import declared, stored_details, title_of, verdict_view
from irscope.report.pages.parts import Page
from irscope.report.panes import AliasViews, remarks_table
from irscope.report.panes.program_view import graph_view, text_view
from irscope.report.view_models import VIEW_VERSION, AliasDetail, Count, Detail, ExplorerView, PairDetail, TimelineView
from irscope.report.words import amount, byte_count, names_in
from irscope.transforms.history import History

__all__ = ["HistoryInspection", "history_page", "history_view"]


def history_page(history: History) -> Page:
    """The page of `irs.timeline`."""

    def resolve(record: Any) -> int:
        if isinstance(record, int):
            return record
        if isinstance(record, Value | Node):
            return record.id
        graph = history.final
        return graph.node(record).id if "::" in record else graph.value(record).id

    return Page(history_view(history), HistoryInspection(history), resolve)


def history_view(history: History, *, details: bool = False) -> ExplorerView:
    """The view of a history. `details` precomputes the answers about single records, for a page without a kernel.

    >>> import irscope as irs
    >>> f = irs.fuse(irs.parse('''graph(%x : Float(8)):
    ...   %a : Float(8) = aten::relu(%x)
    ...   %b : Float(8) = aten::tanh(%a)
    ...   return (%b)'''))
    >>> [f"{count['value']} {count['label']}" for count in history_view(f.history)["headline"]][:2]
    ['2 → 3 nodes', '1 step']
    """
    graph = history.final
    text = text_view(graph)
    timeline = timeline_view(history, text)
    inspection = HistoryInspection(history)
    view = ExplorerView(
        version=VIEW_VERSION,
        title=shortened(graph.name, 200),
        headline=_headline(history, timeline),
        text=text,
        graph=graph_view(graph),
        remarks=remarks_table(history, names_in(history)),
        classes=[],
        timing=None,
        only_history=True,
        details={},
    )
    if timeline is not None:
        view["timeline"] = timeline
        view["programs"] = program_stops(history)
    if details:
        stored = stored_details(text, timeline, map(inspection.detail, inspection.records), history)
        view["details"], view["alias_sets"] = stored
    return view


def _headline(history: History, timeline: TimelineView | None) -> list[Count]:
    before, after = len(history.initial.position), len(history.final.position)
    passes = timeline["passes"] if timeline is not None else []
    steps = timeline["steps"] if timeline is not None else []
    groups = [group["id"] for group in timeline["groups"]] if timeline is not None else []
    saved = sum(step["saved"] for step in steps)
    nodes = amount(before) if before == after else f"{amount(before)} → {amount(after)}"
    counts = [
        Count(label="node" if nodes == "1" else "nodes", value=nodes, selects=[], hint="as loaded, and after the passes"),
        _count(len(steps), "step", [], "what the passes did, one by one"),
        *(
            Count(
                label=f"by {stretch['name']}", value=amount(stretch["steps"]), selects=[], hint="steps of the pass",
            )
            for stretch in passes
            if stretch["steps"]
        ),
    ]  # fmt: skip
    if groups:
        counts.append(_count(len(groups), "fusion group", groups, "groups that the steps made"))
    if saved:
        counts.append(
            Count(label="saved", value=byte_count(saved), selects=[], hint="memory traffic that the steps avoid")
        )
    return counts


def _count(number: int, noun: str, selects: list[int], hint: str) -> Count:
    return Count(label=noun if number == 1 else f"{noun}s", value=amount(number), selects=selects, hint=hint)


class HistoryInspection:
    """Answers the questions of a history view: what may share memory, in each state."""

    def __init__(self, history: History) -> None:
        self._graph = history.final
        self._steps = AliasSteps(history)

    @cached_property
    def records(self) -> Mapping[int, Value | Node]:
        """Every value and node of the last graph by id."""
        found: dict[int, Value | Node] = {value.id: value for value in self._graph.values()}
        found.update((node.id, node) for node in self._graph.nodes())
        return found

    @cached_property
    def _db(self) -> AliasDb:
        return AliasDb(self._graph)

    @cached_property
    def _alias(self) -> AliasViews:
        return AliasViews(self._db)

    def __call__(self, ids: Sequence[int], state: int | None = None) -> Detail | PairDetail:
        """Return the details of one id, or the answers about a pair. Raises UnknownName for an id of another program."""
        return self.pair(*ids) if len(ids) == 2 else self.detail(ids[0], state)

    def _record(self, id: int) -> Value | Node:
        record = self.records.get(id)
        if record is None:
            raise UnknownName(f"nothing in {self._graph.name!r} has the id {id}", hint="ids belong to one program")
        return record

    def detail(self, id: int, state: int | None = None) -> Detail:
        """The details of a value or node that need no execution plan: its text and its aliases."""
        record = self._record(id)
        value = record if isinstance(record, Value) else next(iter(record.outputs), None)
        node = record if isinstance(record, Node) else self._graph.producer.get(record)
        return Detail(
            id=id,
            kind="value" if isinstance(record, Value) else "node",
            title=title_of(self._graph, record),
            text=shortened(print_node(node, self._graph.names)) if node is not None else declared(self._graph, record),
            location=shortened(str(node.location)) if node is not None and node.location is not None else "",
            scope=shortened(node.scope) if node is not None else "",
            alias=self._shared(value, state) if value is not None else None,
            fusion="",
            same="",
            kernel=None,
            time="",
        )

    def _shared(self, value: Value, state: int | None) -> AliasDetail | None:
        return self._alias.detail(value) if state is None else self._steps.detail(value, state)

    def pair(self, a: int, b: int) -> PairDetail:
        """Whether two records may share memory in the last state."""
        left, right = (
            record if isinstance(record, Value) else next(iter(record.outputs), None)
            for record in (self._record(a), self._record(b))
        )
        alias = self._db.explain(left, right) if left is not None and right is not None else None
        return PairDetail(ids=[a, b], alias=verdict_view(alias), fusion=None, same=None)
