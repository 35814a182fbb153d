"""What a story is stored as: names that outlast a process, steps as JSON, one page, a notebook, and the picture that a notebook keeps."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from irscope._base.running import without_collector
from irscope._base.words import in_markup
from irscope.display.html import page_html, saved_part
from irscope.display.svg import embedded_svg, graph_svg
from irscope.errors import LoadError, UnknownName
from irscope.files import parse_json
from irscope.ir import Graph, Node, Value
from irscope.ir.text import print_graph
from irscope.report.box_tree import BoxTree
from irscope.report.pages import Exploration, ProgramIndex
from irscope.report.pages.parts import explorer_view
from irscope.report.view_models import StoryView

# Names of records and boxes that outlast a process: each process has new ids, but a program keeps its printed names.

_NODE = "node "


class Names:
    """Maps ids of one graph to names, and back.

    `%p.1` is a value, `node %p.1` the node that produces it, `aten::copy_#0` the first node of that op;
    `box backbone/stage1` is a box without a record, with `#1` for the second of that path.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _by_id(self) -> Mapping[int, str]:
        found = {value.id: f"%{name}" for value, name in self._graph.names.items()}
        seen: Counter[str] = Counter()
        for node in self._graph.nodes():
            name = f"{_NODE}%{self._graph.names[node.outputs[0]]}" if node.outputs else f"{node.op}#{seen[node.op]}"
            found[node.id] = name
            seen[node.op] += 1
        tree = BoxTree(self._graph)
        paths: dict[int, str] = {}
        for number, (id, subject) in enumerate(zip(tree.ids, tree.subjects, strict=True)):  # boxes: their labels from the outside in
            if isinstance(subject, Value | Node):
                continue
            around = paths.get(int(tree.parent[number]), "")
            paths[number] = path = f"{around}/{tree.box(number)['label']}" if around else f"box {tree.box(number)['label']}"
            found[id] = f"{path}#{seen[path]}" if seen[path] else path
            seen[path] += 1
        return found

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        return {name: id for id, name in self._by_id.items()}

    def of(self, id: int) -> str:
        """Returns the name of a record or a box. Raises UnknownName for an id of another program."""
        if id not in self._by_id:
            raise UnknownName(f"nothing in {self._graph.name!r} has the id {id}", hint="ids belong to one program")
        return self._by_id[id]

    def id(self, name: str) -> int | None:
        """Returns the id of a name; None if the program has nothing of that name."""
        found = self._ids.get(name)
        if (found is None and name.startswith(_NODE)) or "::" in name:
            try:
                return self._graph.node(name.removeprefix(_NODE).lstrip("%")).id
            except UnknownName:
                return None
        return found


# One step of a story, and the JSON form of several.

_VERSION = 1
"""The version of the JSON format."""


@dataclass(frozen=True)
class Step:
    """One view and its sentence. Records are named by names that outlast the process (`Names`)."""

    text: str
    """In Markdown."""
    selection: tuple[str, ...] = ()
    state: int | None = None
    """The state of the program's history, numbered as in `explorer.step`; None leaves it unchanged."""
    open: tuple[str, ...] | None = None
    """The boxes that are open; None leaves them unchanged."""
    colour: str = "kind"
    pane: str = ""
    """The one pane to show; empty for all."""


def steps_text(title: str, program: str, steps: Sequence[Step]) -> str:
    """Returns the steps as JSON text, without the program."""
    record = {"irscope story": _VERSION, "title": title, "program": program, "steps": [asdict(step) for step in steps]}
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def steps_from(text: str) -> tuple[str, tuple[Step, ...]]:
    """Parses the title and the steps of a JSON text. Raises LoadError for a text that is not a story."""
    record = parse_json(text, "the text is not a story", hint="give what s.save('x.json') wrote")
    try:
        version, title, steps = record["irscope story"], str(record["title"]), tuple(map(_step, record["steps"]))
    except (ValueError, KeyError, TypeError) as error:
        raise LoadError(f"the text is not a story: {error!s}", hint="give what s.save('x.json') wrote") from None
    if version != _VERSION:
        what = f"the story has version {version}, and this irscope reads version {_VERSION}"
        raise LoadError(what, hint="save it with this version of irscope")
    return title, steps


def _step(record: Any) -> Step:
    known = {field.name for field in fields(Step)}
    if not isinstance(record, Mapping) or not record.keys() <= known or "text" not in record:
        raise KeyError("a step has fields that are not known")
    selection, opened, state = record.get("selection", ()), record.get("open"), record.get("state")
    words = (record["text"], record.get("colour", "kind"), record.get("pane", ""), *selection, *(opened or ()))
    if not all(isinstance(word, str) for word in words) or not (state is None or isinstance(state, int)):
        raise TypeError("a field of a step has another type")
    return Step(**{**record, "selection": tuple(selection), "open": None if opened is None else tuple(opened)})


# Output formats of a story: one page, a notebook, and the static picture that a notebook keeps.

_MOST_LETTERS = 200_000
"""A longer program is not written into a notebook's cell."""


def page(exploration: Exploration, story: StoryView) -> str:
    """Returns the explorer's page with the story, which starts at the first step."""
    with without_collector():
        view = explorer_view(exploration, details=True)
    view["story"] = StoryView(**story | {"at": 0 if story["steps"] else -1})
    return page_html(view)


def picture_and_text(exploration: Exploration, text: str) -> str:
    """Returns static HTML for a notebook without a kernel."""
    graph = ProgramIndex(exploration.graph).first_graph()
    picture = embedded_svg(graph_svg(graph, themed=True), f"the graph of {exploration.graph.name}")
    return saved_part(f"{picture}<pre>{in_markup(text)}</pre>")


def notebook(exploration: Exploration, title: str, steps: Sequence[Step]) -> dict[str, Any]:
    """Returns a notebook with, for each step, a cell of text and one that shows the view. The program is included as
    text if it is not too long, but without its parameters, which text cannot hold."""
    text, given = print_graph(exploration.fusion.original), "g = irs.load(...)  # the program of this story"
    if len(text) <= _MOST_LETTERS and "'''" not in text:
        given = f"g = irs.parse(r'''{text}''')"
    cells = [_cell(f"# {title}"), _cell(f"import irscope as irs\n\n{given}\ne = irs.explore(g, measure=False)\ne", code=True)]
    for step in steps:
        state = "" if step.state is None else f"\ne.step = {step.state}"
        words = [f"g.node({name.removeprefix(_NODE)!r})" if name.startswith(_NODE) else repr(name.lstrip("%")) for name in step.selection]
        cells += [_cell(step.text), _cell(f"e.selection = [{', '.join(words)}]{state}\ne.selected", code=True)]
    for number, cell in enumerate(cells):
        cell["id"] = f"step-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _cell(source: str, *, code: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {"cell_type": "code" if code else "markdown", "metadata": {}, "source": source.splitlines(keepends=True)}
    return made | {"outputs": [], "execution_count": None} if code else made
