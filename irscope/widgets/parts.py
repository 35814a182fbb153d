"""What an explorer needs from one program: its view, and handlers for the requests of its page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from irscope._base.concurrency.restored import to_stay, without_collector
from irscope._base.progress import progress
from irscope.errors import UnknownName
from irscope.ir import Node, Value

if TYPE_CHECKING:
    from irscope.report.pages import Exploration
    from irscope.report.panes import SameViews
    from irscope.runtime.profile import Profile

__all__ = ["known_in", "parts_of"]


def parts_of(exploration: Exploration) -> dict[str, Any]:
    """The arguments of an `Explorer` for a program."""
    from irscope.display.html import static_html
    from irscope.report.pages import Inspection, Measurements, ProgramIndex
    from irscope.report.pages.explorer_view import explorer_view, is_sent_whole, later_part
    from irscope.report.panes import SameViews

    with progress(3, "drawing") as step:
        index, inspection = ProgramIndex(exploration.graph, exploration.queries), Inspection(exploration)
        whole = is_sent_whole(exploration.graph)
        step()
        view = (without_collector if whole else to_stay)(explorer_view, exploration, whole=whole, index=index)
        step()
        steps = without_collector(lambda: exploration.fusion.history.count)
        step()
    times = Measurements(exploration, index)

    @cache
    def same() -> SameViews:
        return SameViews(exploration.dedup, exploration.records)

    def measure(profile: Profile) -> Mapping[str, Any]:
        inspection.measured(profile)
        return times.part(profile, whole=whole)

    return {
        "view": view, "inspect": inspection, "static_html": cache(lambda: static_html(view)), "resolve": exploration.resolve,
        "kernel_in": inspection.kernel_text,
        "questions": {**index.answers(), "part": lambda ask: {"part": later_part(exploration, inspection, str(ask["name"]))},
                      "heat": times.answer, "same": lambda ask: same().answer(ask),
                      "layout": lambda ask: {"layout": inspection.layout(int(ask["id"]))},
                      "assumed": lambda ask: {"assumed": inspection.assumed(int(ask["id"]), str(ask["layout"]))},
                      "memory": lambda ask: {"memory": inspection.memory(int(ask["state"]))}},
        "records": exploration.records_of, "query": exploration.queries.in_any_state, "last_step": steps or None,
        "profile": exploration.profile, "measure": measure,
    }  # fmt: skip


def known_in(after: Exploration, before: Exploration, id: int) -> int | None:
    """The id of a record in another program: its own, or that of a record of the same name there; otherwise None."""
    if id in after.records or id in after.gone:
        return id
    record = next(iter(before.records_of([id])), None)
    value = record if isinstance(record, Value) else next(iter(record.outputs), None) if isinstance(record, Node) else None
    names = [graph.names[value] for graph in (before.graph, before.fusion.original) if value is not None and value in graph.names]
    for name in names:
        try:
            found = after.graph.value(name)
        except UnknownName:
            continue
        maker = after.graph.producer.get(found)
        return maker.id if isinstance(record, Node) and maker is not None else found.id
    return None
