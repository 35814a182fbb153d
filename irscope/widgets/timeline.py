"""`irs.timeline`: the history of a program in one cell, scrubbed step by step in text, graph and alias view."""

from __future__ import annotations

from typing import Any

from irscope.ir import Node, Value
from irscope.transforms.history import History
from irscope.widgets.explorer import Explorer

__all__ = ["Timeline"]


class Timeline(Explorer):
    """The steps of a history. `step` is the state that is shown, in all views and in Python.

    The step determines the text (merged lines have the bar of their part; lines keep the names they had before grouping;
    lines that passes removed are struck out once they are gone; values that no longer need memory are dotted), the graph
    (the colour of each part; groups are frames until they are complete), and the alias set of the selected value. With a
    kernel the alias set comes from the alias db of that state's graph; a page without one has it for the last state and
    for those before passes that changed it (merges change no alias set). The boxes of the graph are always those of the
    last state, faint before they are created; removed nodes have no box. Kernels, classes and remarks are about the last
    state.
    """

    _overview = ""

    @classmethod
    def of_history(cls, history: History) -> Timeline:
        """The views of a history."""
        from irscope.display.html import static_html
        from irscope.display.text import overview
        from irscope.report.pages import HistoryInspection
        from irscope.report.pages.history_view import history_view

        view = history_view(history)
        inspection = HistoryInspection(history)

        def resolve(record: Any) -> int:
            if isinstance(record, int):
                return record
            if isinstance(record, Value | Node):
                return record.id
            graph = history.final
            return graph.node(record).id if "::" in record else graph.value(record).id

        made = cls(view, inspection, static_html(view), resolve=resolve)
        made._overview = overview(view)
        return made

    def _text(self) -> str:
        return self._overview

    def __repr__(self) -> str:
        return f"Timeline({self._summary})"
