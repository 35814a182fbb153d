"""The view model of the whole explorer."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

from irscope._base.escaping import shortened
from irscope._base.loaded_code import lines_below, loaded_lines
from irscope._base.progress import counted
from irscope.analysis.memory import memory_plan
from irscope.errors import UnknownName
from irscope.ir import Graph, Node
from irscope.report.history import program_stops
from irscope.report.history.timeline_view import timeline_view
from irscope.report.pages.details import Inspection
from irscope.report.pages.exploration import Exploration
from irscope.report.pages.headline import headline, quick_headline
from irscope.report.pages.measurements import measured_part
from irscope.report.pages.precomputed import store_details
from irscope.report.pages.program_index import ProgramIndex
from irscope.report.panes import (
    Heat,
    SameViews,
    class_views,
    memory_view,
    no_remarks,
    remarks_table,
    with_coarser_steps,
)
from irscope.report.panes.graph_view import graph_view
from irscope.report.panes.text_view import text_view
from irscope.report.panes.timing_view import timing_view
from irscope.report.view_models import VIEW_VERSION, Count, Detail, ExplorerView, KernelDetail, KernelText

__all__ = ["explorer_view", "is_sent_whole", "later_part"]


def explorer_view(
    exploration: Exploration, *, details: bool = False, answers: bool | None = None, whole: bool = True,
    index: ProgramIndex | None = None,
) -> ExplorerView:  # fmt: skip
    """The view of an exploration. `details` precomputes every answer, for a page without a kernel.

    With `answers=False` such a page has text, graph, tables and steps, but nothing about single values and nodes; by default that is
    so above a size, and the page says it. A view that is not `whole` holds what is shown first, and leaves out what needs a look at
    every group of a large program; `index` answers for the rest.
    """
    if not whole:
        return _first_view(exploration, index or ProgramIndex(exploration.graph))
    graph = exploration.graph
    inspection = Inspection(exploration)
    text = text_view(graph)
    timeline = timeline_view(exploration.fusion.history, text)
    view = ExplorerView(
        version=VIEW_VERSION,
        title=shortened(graph.name, 200),
        headline=headline(exploration, inspection),
        text=text,
        source=_sources(exploration),
        graph=graph_view(graph, exploration.class_of, exploration.hottest),
        remarks=remarks_table(exploration.fusion.history, exploration.names),
        classes=class_views(exploration.dedup, graph.names),
        timing=timing_view(exploration.comparison) if exploration.comparison is not None else None,
        kernels={},
        details={},
    )
    if timeline is not None:
        view["timeline"] = timeline
        view["programs"] = program_stops(exploration.fusion.history)
    if exploration.profile is not None:
        boxes = [(box["id"], box["parent"]) for box in view["graph"]["boxes"]]
        part = measured_part(exploration, Heat(exploration.profile, boxes, exploration.way), whole=True)
        view["profile"], view["opens"] = part["profile"], part["opens"]
    view["later"] = ["copies", *(["timing"] if exploration.can_measure else [])]
    if exploration.same is not None:
        view["opens"] = "Classes"
    if details:
        if len(exploration.dedup.classes) > 1 or exploration.same is not None:
            view["same"] = SameViews(exploration.dedup, exploration.records).stored()
            view["coarser"] = with_coarser_steps(view["classes"], exploration.dedup)
        view["repeats"] = (index or ProgramIndex(graph)).repeats()
        view["memory"], view["copies"] = memory_view(memory_plan(graph), exploration.records), exploration.layouts.copies()
        if answers is None:
            answers = len(graph.position) <= _MOST_ANSWERED
        if answers:
            view["layouts"], view["buffers"] = exploration.layouts.stored()
            told, view["kernels"] = _answered_ahead(exploration, inspection)
            view["kernel_texts"] = _machine_code(exploration, inspection)
            store_details(view, told, exploration.fusion.history)
        else:
            view["headline"].insert(0, _UNANSWERED)
    return view


_MOST_ANSWERED = 50_000
"""The largest program, in nodes, for which a page without a kernel has every answer: about 250 bytes of file and 3 KB of JSON each."""
_UNANSWERED = Count(
    label="answers about single values", value="no", selects=[],
    hint="left out of this file: explore, or write_report(…, answers=True), has them",
)  # fmt: skip
_SENT_WHOLE = 2500
"""The largest program, in nodes, that is sent to a page at once; for larger ones the page asks for what it shows."""
_FEW_GROUPS = 300
_MOST_REMARKS = 2000
"""The most rows in the table; queries find the rest."""


def is_sent_whole(graph: Graph) -> bool:
    """Whether the whole program is sent to a live page at once."""
    names = sum(len(node.outputs) for node in islice(graph.nodes(), _SENT_WHOLE + 1))
    return len(graph.position) <= _SENT_WHOLE and names <= 4 * _SENT_WHOLE


def _first_view(exploration: Exploration, index: ProgramIndex) -> ExplorerView:
    graph = exploration.graph
    few = len(exploration.fusion.groups) <= _FEW_GROUPS
    view = ExplorerView(
        version=VIEW_VERSION,
        title=shortened(graph.name, 200),
        headline=headline(exploration, Inspection(exploration)) if few else quick_headline(exploration),
        text=index.first_text(),
        source=_sources(exploration),
        graph=index.first_graph(exploration.hottest),
        remarks=remarks_table(exploration.fusion.history, exploration.names, _MOST_REMARKS) if few else no_remarks(),
        classes=class_views(exploration.dedup, graph.names) if few else [],
        timing=timing_view(exploration.comparison) if exploration.comparison is not None else None,
        later=[  # in the order in which the page asks for them
            "search", *(() if few else ("numbers", "remarks")), "questions", "copies", "timeline",
            *(["timing"] if exploration.can_measure else []),
        ],
        programs=program_stops(exploration.fusion.history),
        kernels={},
        details={},
    )
    if exploration.profile is not None:
        part = measured_part(exploration, Heat(exploration.profile, (), exploration.way), whole=False)
        view["profile"], view["opens"] = part["profile"], part["opens"]
    if exploration.same is not None:
        view["opens"] = "Classes"
    return view


def later_part(exploration: Exploration, inspection: Inspection, name: str) -> dict[str, Any]:
    """The part of a view that the first view left out, as fields. Raises UnknownName."""
    history, graph = exploration.fusion.history, exploration.graph
    if name == "search":  # no data: warms up what the first query and the first selection need
        exploration.queries.prepare()
        return {}
    if name == "questions":
        inspection.prepare()
        return {}
    if name == "numbers":
        return {"headline": headline(exploration, inspection), "classes": class_views(exploration.dedup, graph.names)}
    if name == "remarks":
        return {"remarks": remarks_table(history, exploration.names, _MOST_REMARKS)}
    if name == "timing" and exploration.can_measure:
        return {"timing": timing_view(exploration.measured)}
    if name == "memory":
        return {"memory": memory_view(memory_plan(graph), exploration.records)}
    if name == "copies":
        return {"copies": exploration.layouts.copies()}
    if name == "timeline":
        timeline = timeline_view(history, text_view(graph))
        return {} if timeline is None else {"timeline": timeline}
    hint = "the parts that come later are search, numbers, remarks, questions, copies, memory, timeline and timing"
    raise UnknownName(f"a view has no part {name!r}", hint=hint)


def _answered_ahead(exploration: Exploration, inspection: Inspection) -> tuple[list[Detail], dict[str, str]]:
    """The details of every record and the kernel sources, each stored once. Only the detail of a group itself has a kernel."""
    made = exploration.fusion.groups
    if not is_sent_whole(exploration.graph):  # in a large program, the kernel of one group per class
        made = tuple(alike[0] for alike in exploration.alike())
        inspection.only_kernels_of(made)
    groups = {node.id for node in made}
    details = [inspection.detail(id) for id in counted(exploration.records, "answers for the page")]
    sources: dict[str, str] = {}
    for detail in details:
        kernel = detail["kernel"]
        if kernel is None or detail["id"] not in groups:
            detail["kernel"] = None
        else:
            sources[kernel["name"]] = kernel["source"]
            detail["kernel"] = KernelDetail(**kernel | {"source": ""})
    return details, sources


_MOST_MACHINE_CODE = 12


def _machine_code(exploration: Exploration, inspection: Inspection) -> dict[str, list[KernelText]]:
    """Facts and assembly of the kernels that most groups run. Each costs a compilation and about 30 KB of the page."""
    first: dict[str, Node] = {}
    runs: Counter[str] = Counter()
    for alike in exploration.alike():
        if specs := inspection.kernels.specs(alike[0]):
            first.setdefault(specs[0].name, alike[0])
            runs[specs[0].name] += len(alike)
    return {
        name: [inspection.kernel_text(first[name].id, language) for language in ("llvm", "assembly")]
        for name, _ in counted(runs.most_common(_MOST_MACHINE_CODE), "kernels for the page")
    }


_MOST_SOURCE_FILES = 8
_MOST_SOURCE_LINES = 4000


def _sources(exploration: Exploration) -> dict[str, list[str]]:
    """The user's source files that most nodes came from: those of code loaded in this process, and those in the folder named for it.

    A file that IR text merely names is never opened: pages are made to be shared.
    """
    places = [node.location for node in exploration.graph.nodes() if node.location is not None]
    live = {place.file for place in places if place.live}
    files = Counter(place.file for place in places if place.live or exploration.sources is not None)
    found = {}
    for file, _ in files.most_common(_MOST_SOURCE_FILES):
        lines = lines_below(exploration.sources, file) if exploration.sources is not None else []
        if not lines and file in live:
            lines = loaded_lines(file)
        if 0 < len(lines) <= _MOST_SOURCE_LINES:
            found[file] = lines
    return found
