"""The view of a history alone: the program with its steps, and what may share memory in each state."""

from __future__ import annotations

from typing import Any

from irscope._base.escaping import shortened
from irscope.ir import Node, Value
from irscope.report.history import program_stops
from irscope.report.history.timeline import timeline_view
from irscope.report.pages.details import HistoryInspection, stored_details
from irscope.report.pages.parts import Page
from irscope.report.panes import remarks_table
from irscope.report.panes.program_view import graph_view, text_view
from irscope.report.view_models import VIEW_VERSION, Count, ExplorerView, TimelineView
from irscope.report.words import amount, byte_count, names_in
from irscope.transforms.history import History

__all__ = ["history_page", "history_view"]


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
