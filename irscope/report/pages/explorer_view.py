"""The whole of the explorer as one view model."""

from __future__ import annotations

from collections import Counter

from irscope._base.escaping import shortened
from irscope._base.loaded_code import lines_below, loaded_lines
from irscope.ir import GROUPS, Graph, Node
from irscope.report.history.timeline_view import timeline_view
from irscope.report.pages.details import Inspection
from irscope.report.pages.exploration import Exploration
from irscope.report.pages.precomputed import store_details
from irscope.report.panes import class_views, remarks_table
from irscope.report.panes.graph_view import graph_view
from irscope.report.panes.text_view import text_view
from irscope.report.panes.timing_view import timing_view
from irscope.report.view_models import VIEW_VERSION, Count, Detail, ExplorerView, KernelDetail, KernelText
from irscope.report.words import amount, byte_count, duration, plural

__all__ = ["explorer_view"]


def explorer_view(exploration: Exploration, *, details: bool = False) -> ExplorerView:
    """The view of an exploration; `details` answers every question ahead, for a page without a kernel."""
    graph = exploration.graph
    inspection = Inspection(exploration)
    picture = graph_view(graph, exploration.class_of)
    writes = [box["id"] for box in picture["boxes"] if box["writes"]]
    text = text_view(graph)
    timeline = timeline_view(exploration.fusion.history, text)
    view = ExplorerView(
        version=VIEW_VERSION,
        title=shortened(graph.name, 200),
        headline=_headline(exploration, inspection, writes),
        text=text,
        source=_sources(exploration),
        graph=picture,
        remarks=remarks_table(exploration.fusion.history),
        classes=class_views(exploration.dedup, graph.names),
        timing=timing_view(exploration.comparison) if exploration.comparison is not None else None,
        kernels={},
        details={},
    )
    if timeline is not None:
        view["timeline"] = timeline
    if details:
        answers, view["kernels"] = _answered_ahead(exploration, inspection)
        view["kernel_texts"] = _machine_code(exploration, inspection)
        store_details(view, answers, exploration.fusion.history)
    return view


def _answered_ahead(exploration: Exploration, inspection: Inspection) -> tuple[list[Detail], dict[str, str]]:
    """The details of every record, and the kernel sources, each stored once. Only a group's own detail has a kernel."""
    groups = {node.id for node in exploration.fusion.groups}
    details = [inspection.detail(id) for id in exploration.records]
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
    """Facts and assembly of the kernels that most groups run: each takes a compile and some 30 KB of the page."""
    first: dict[str, Node] = {}
    runs: Counter[str] = Counter()
    for group in exploration.fusion.groups:
        if specs := inspection.kernels.specs.get(group):
            first.setdefault(specs[0].name, group)
            runs[specs[0].name] += 1
    return {
        name: [inspection.kernel_text(first[name].id, language) for language in ("llvm", "assembly")]
        for name, _ in runs.most_common(_MOST_MACHINE_CODE)
    }


def _headline(exploration: Exploration, inspection: Inspection, writes: list[int]) -> list[Count]:
    """The first answers: how big, what fuses, what repeats, what it costs."""
    fusion, graph = exploration.fusion, exploration.graph
    groups = [node.id for node in fusion.groups]
    counts = [
        _count(len(fusion.original.position), "node", [], "nodes of the program as it was loaded"),
        _count(len(groups), "fusion group", groups, "each runs as one kernel"),
    ]
    given = [node.id for node in fusion.graph.nodes() if node.op in GROUPS and not fusion.made(node)]
    if given:
        counts.append(_count(len(given), "given group", given, "the program had them already, and they stay as they are"))
    specs = inspection.kernels.specs
    if specs:
        distinct = len({spec for kernels in specs.values() for spec in kernels})
        counts.append(_count(distinct, "kernel", groups, "different kernels to compile: sizes are given at run time"))
    if groups:
        largest = exploration.dedup.classes[0]
        members = [member.id for member in largest.members if isinstance(member, Node)]
        hint = f"groups that are equal down to their sizes; the largest has {plural(len(members), 'member')}"
        counts.append(_count(len(exploration.dedup), "equivalence class", members, hint, "equivalence classes"))
    table = fusion.table()
    before, after = int(table["bytes before"].sum()), int(table["bytes after"].sum())
    if after:
        hint = "memory traffic of the fused ops, one by one and as groups"
        counts.append(
            Count(label="moved by them", value=f"{byte_count(before)} → {byte_count(after)}", selects=groups, hint=hint)
        )
    if graph.storages:
        counts.append(_storages(graph))
    counts.append(_count(len(writes), "in-place write", writes, "nodes that write memory which others may see"))
    missed = [remark.subject.id for remark in fusion.remarks if remark.kind == "missed"]
    counts.append(
        _count(len(missed), "missed", missed, "opportunities that were declined, each with its reason", "missed")
    )
    if exploration.comparison is not None:
        best = min(exploration.comparison.rows, key=lambda row: row.median)
        counts.append(Count(label=best.label, value=duration(best.median), selects=[], hint="the fastest median run"))
    return counts


def _storages(graph: Graph) -> Count:
    """What is assumed of the memory of parameters."""
    members = Counter(graph.storages.values())
    tied = [value for value, number in graph.storages.items() if members[number] > 1]
    names = ", ".join(f"%{graph.names[value]}" for value in tied[:4]) + (", …" if len(tied) > 4 else "")
    hint = (
        f"{plural(len(graph.storages), 'parameter')} and buffers lie in them{f' ({names} are tied)' if tied else ''}; that no "
        "argument does is assumed, and checked at each call where it matters"
    )
    return _count(len(members), "parameter storage", [value.id for value in tied], hint)


def _count(number: int, noun: str, selects: list[int], hint: str, many: str = "") -> Count:
    return Count(label=noun if number == 1 else many or f"{noun}s", value=amount(number), selects=selects, hint=hint)


_MOST_SOURCE_FILES = 8
_MOST_SOURCE_LINES = 4000


def _sources(exploration: Exploration) -> dict[str, list[str]]:
    """The user's source files that most nodes came from: those that Python told of, and those in the folder named for it.

    A text that names a file is no reason to open it: pages are made to be shown to others.
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
