"""Output formats of a story: one page, a notebook, and the static picture that a notebook keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from irscope._base.concurrency.restored import without_collector
from irscope._base.escaping import in_markup
from irscope.display.embedded import embedded_svg
from irscope.display.html import page_html
from irscope.display.svg import graph_svg
from irscope.ir.text import print_graph
from irscope.report.pages import ProgramIndex
from irscope.report.pages.explorer_view import explorer_view
from irscope.report.view_models import StoryView
from irscope.teaching.stories.steps import Step

if TYPE_CHECKING:
    from irscope.report.pages import Exploration

__all__ = ["notebook", "page", "picture_and_text"]

_MOST_LETTERS = 200_000
"""A longer program is not written into a notebook's cell."""


def page(exploration: Exploration, story: StoryView) -> str:
    """Returns the explorer's page with the story, which starts at the first step."""
    view = without_collector(lambda: explorer_view(exploration, details=True))
    view["story"] = StoryView(**story | {"at": 0 if story["steps"] else -1})
    return page_html(view)


def picture_and_text(exploration: Exploration, text: str) -> str:
    """Returns static HTML for a notebook without a kernel."""
    graph = ProgramIndex(exploration.graph).first_graph()
    picture = embedded_svg(graph_svg(graph, themed=True), f"the graph of {exploration.graph.name}")
    return f'<div class="irs-static">{picture}<pre>{in_markup(text)}</pre></div>'


def notebook(exploration: Exploration, title: str, steps: Sequence[Step]) -> dict[str, Any]:
    """Returns a notebook with, for each step, a cell of text and one that shows the view. The program is included as
    text if it is not too long, but without its parameters, which text cannot hold."""
    text = print_graph(exploration.fusion.original)
    given = (
        f"g = irs.parse(r'''{text}''')"
        if len(text) <= _MOST_LETTERS and "'''" not in text
        else "g = irs.load(...)  # the program of this story"
    )
    cells = [
        _cell(f"# {title}"),
        _cell(f"import irscope as irs\n\n{given}\ne = irs.explore(g, measure=False)\ne", code=True),
    ]
    for step in steps:
        state = "" if step.state is None else f"\ne.step = {step.state}"
        cells += [_cell(step.text), _cell(f"e.selection = {_selection(step)}{state}\ne.selected", code=True)]
    for number, cell in enumerate(cells):
        cell["id"] = f"step-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _selection(step: Step) -> str:
    """Formats the selection of a step as a Python list."""
    words = [
        f"g.node({name.removeprefix('node ')!r})" if name.startswith("node ") else repr(name.lstrip("%"))
        for name in step.selection
    ]
    return f"[{', '.join(words)}]"


def _cell(source: str, *, code: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {
        "cell_type": "code" if code else "markdown",
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }
    return made | {"outputs": [], "execution_count": None} if code else made
