"""Results displayed as widgets when a cell ends with them. Importing this module imports no widget."""

from __future__ import annotations

from typing import Any

__all__ = ["register"]


def register(shell: Any) -> None:
    """Register the timeline as the display of a History in an IPython shell."""
    shell.display_formatter.ipython_display_formatter.for_type_by_name(
        "irscope.transforms.history", "History", _history
    )


def _history(history: Any) -> None:
    """Display the timeline of a history, or its picture and text without widgets."""
    from IPython.display import display

    from irscope.errors import MissingExtra

    try:
        from irscope.widgets.timeline import Timeline
    except MissingExtra:
        from irscope.display.html import static_html
        from irscope.display.text import overview
        from irscope.report.pages.history_view import history_view

        view = history_view(history)
        display({"text/html": static_html(view), "text/plain": overview(view)}, raw=True)
    else:
        display(Timeline(history))
