"""`irs.timeline`: the history of a program in one cell, scrubbed step by step in text, graph and alias view."""

from __future__ import annotations

from irscope.display.text import overview
from irscope.report.pages import history_page
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

    def __init__(self, history: History) -> None:
        super().__init__(history_page(history))

    def _text(self) -> str:
        return overview(self._page.view)
