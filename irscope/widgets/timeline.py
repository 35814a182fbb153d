"""`irs.timeline`: the history of a program in one cell, scrubbed step by step in text, graph and alias view."""

from __future__ import annotations

from typing import Any

from irscope.ir.core import Node, Value
from irscope.transforms.history import History
from irscope.widgets.explorer import Explorer

__all__ = ["Timeline"]


class Timeline(Explorer):
    """The steps of a history. `step` is the state that is shown, in all views and in Python."""

    @classmethod
    def of_history(cls, history: History) -> Timeline:
        """The views of a history."""
        from irscope.display.html import static_html
        from irscope.report.history_view import HistoryInspection, history_view

        view = history_view(history)
        inspection = HistoryInspection(history)

        def resolve(record: Any) -> int:
            if isinstance(record, int):
                return record
            if isinstance(record, Value | Node):
                return record.id
            graph = history.final
            return graph.node(record).id if "::" in record else graph.value(record).id

        return cls(view, inspection, static_html(view), resolve=resolve)
