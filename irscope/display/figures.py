"""Pictures of programs and results as SVG, PNG and Graphviz, for papers and any notebook."""

import re
import shutil
from collections.abc import Callable, Sequence
from typing import Any

from irscope._base.words import byte_count, in_dot
from irscope.analysis.alias import AliasDb, LazyVerdict, MemoryOf
from irscope.analysis.memory_plan import MemoryPlan
from irscope.display.memory_pictures import memory_svg, points_to_svg
from irscope.display.profile_page import nodes_svg
from irscope.display.svg import graph_svg
from irscope.errors import MissingExtra
from irscope.files import write_file as write_file  # `Drawn` asks this module for it, which may not import files itself
from irscope.ir import Graph, Value
from irscope.report.pages import Exploration, ProgramIndex
from irscope.report.pages.parts import is_sent_whole
from irscope.report.panes import MemoryPictures, classes_picture, memory_view, profile_view
from irscope.report.panes.program_view import graph_view
from irscope.report.view_models import Box, GraphView, MemoryView
from irscope.report.words import PALETTE, WRITES, duration
from irscope.runtime.profile import Profile
from irscope.transforms.dedup import Dedup
from irscope.transforms.fusion import Fusion

# The graph view in Graphviz's language, for figures of up to a few hundred boxes.
#
# `graph_dot` returns the text and needs no dependency. Drawing it needs the `dot` program; `irscope.display.svg` draws the
# same view without it.


def graph_dot(view: GraphView) -> str:
    """DOT text with a cluster for every box that contains boxes; all boxes open.

    >>> print(graph_dot(GraphView(boxes=[], edges=[], closed=[])))
    digraph {
      node [shape=box style=rounded fontname="Helvetica" fontsize=10]
      compound=true
    }
    """
    children: dict[int, list[Box]] = {}
    for inner in view["boxes"]:
        children.setdefault(inner["parent"], []).append(inner)
    lines = ["digraph {", '  node [shape=box style=rounded fontname="Helvetica" fontsize=10]', "  compound=true"]
    pending: list[Box | None] = list(reversed(children.get(0, [])))
    depth = 1
    while pending:
        box = pending.pop()
        if box is None:  # all boxes of a cluster are written
            depth -= 1
            lines.append(f"{'  ' * depth}}}")
            continue
        indent = "  " * depth
        colour = WRITES if box["writes"] else PALETTE.get(box["category"], PALETTE["other"])
        inside = children.get(box["id"])
        if inside is None:
            label = box["label"] + (f"\n{box['detail']}" if box["detail"] else "")
            lines.append(f'{indent}n{_key(box["id"])} [label={in_dot(label)} color="{colour}"]')
            continue
        lines.append(f'{indent}subgraph cluster_{_key(box["id"])} {{ label={in_dot(box["label"])} color="{colour}"')
        lines.append(f"{indent}  n{_key(box['id'])} [shape=point style=invis]")  # lets edges end at the box itself
        depth += 1
        pending.append(None)
        pending.extend(reversed(inside))
    lines += [f"  n{_key(edge['source'])} -> n{_key(edge['target'])}{'' if edge['value'] else _EFFECT}" for edge in view["edges"]]
    return "\n".join([*lines, "}"])


_EFFECT = f' [style=dashed color="{WRITES}" constraint=false]'


_PAGE = 1100
"""The width of a page, in pixels: what is wider is shrunk there until nobody can read it."""
_MOST_BEFORE = 400
"""How many allocations back the last one at an address is looked for."""


def _key(id: int) -> str:
    return str(id) if id >= 0 else f"m{-id}"


def svg_of(thing: Any, *, themed: bool = False) -> str:
    """The picture of a result; a `themed` one follows the reader's colour scheme."""
    if isinstance(thing, AliasDb | LazyVerdict | MemoryOf):
        db, values = _memory_of(thing)
        return _for_paper(points_to_svg(MemoryPictures(db).of(values, _PAGE)), themed)
    if isinstance(thing, MemoryPlan):
        return _for_paper(memory_svg(memory_view(thing)), themed)
    if isinstance(thing, Profile):
        return _for_paper(nodes_svg(profile_view(thing)["ways"][-1]), themed)
    return graph_svg(_view(thing), themed=themed)


def _memory_of(thing: AliasDb | LazyVerdict | MemoryOf) -> tuple[AliasDb, Sequence[Value]]:
    """The values whose memory is drawn, none for the whole program."""
    if isinstance(thing, AliasDb):
        return thing, ()
    return (thing.db, thing.values) if isinstance(thing, MemoryOf) else thing.about


_DARK = re.compile(r"@media\(prefers-color-scheme:dark\)\{(?:[^{}]*\{[^{}]*\})*\}")


def _for_paper(svg: str, themed: bool) -> str:
    return svg if themed else _DARK.sub("", svg)


def png_of(thing: Any, scale: float) -> bytes:
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise MissingExtra("resvg-py", extra="lab", purpose="to draw a PNG") from None
    fonts = _fonts()
    sans, mono = ("DejaVu Sans", "DejaVu Sans Mono") if fonts else (None, None)
    return bytes(svg_to_bytes(svg_string=svg_of(thing), zoom=scale, font_dirs=fonts, sans_serif_family=sans, monospace_family=mono))


def _fonts() -> list[str]:
    """The folder of the fonts bundled with matplotlib: a headless machine may have none."""
    try:
        import matplotlib
    except ImportError:
        return []
    return [f"{matplotlib.get_data_path()}/fonts/ttf"]


def graphviz_of(thing: Any) -> Any:
    """A `graphviz.Source` with all boxes open; for a large program, with the boxes of its picture."""
    return _source(dot_of(thing), lambda: svg_of(thing))


def dot_of(thing: Any) -> str:
    if isinstance(thing, AliasDb | LazyVerdict | MemoryOf):
        db, values = _memory_of(thing)
        return db.dot(values or None)
    if isinstance(thing, MemoryPlan):
        return _plan_dot(memory_view(thing))
    return graph_dot(_view(thing, opened=True))


def _plan_dot(view: MemoryView) -> str:
    """The allocations of a plan, each with an edge from the last ones that had its addresses."""
    lines = ["digraph {", '  node [shape=box style=rounded fontname="Helvetica" fontsize=10]']
    bars = sorted(view["bars"], key=lambda bar: bar["start"])
    for k, bar in enumerate(bars):
        label = f"{bar['label']}\n{byte_count(bar['bytes'])} at {bar['low']:,}\nmoments {bar['start']} to {bar['end']}"
        lines.append(f"  b{k} [label={in_dot(label)}{' penwidth=2' if bar['at_peak'] else ''}]")
        low, high = bar["low"], bar["low"] + bar["bytes"]
        for before in range(k - 1, max(-1, k - _MOST_BEFORE), -1):
            other = bars[before]
            if other["end"] < bar["start"] and other["low"] < high and low < other["low"] + other["bytes"]:
                lines.append(f"  b{before} -> b{k}")
                break
    return "\n".join([*lines, "}"])


def points_to_graphviz(db: AliasDb, values: Any) -> Any:
    """A `graphviz.Source` of the memory of some values, or of all."""
    given = [values] if isinstance(values, str | Value) else values or ()
    found = [db.graph.value(value) if isinstance(value, str) else value for value in given]
    return _source(db.dot(values), lambda: svg_of(MemoryOf(db, tuple(found))))


def _source(text: str, own: Callable[[], str]) -> Any:
    """DOT text as a `graphviz.Source`, which a notebook shows by our `own` picture where the program `dot` is not installed."""
    try:
        import graphviz
    except ImportError:
        raise MissingExtra("graphviz", extra="lab", purpose="to draw with Graphviz") from None

    class Source(graphviz.Source):  # type: ignore[misc]
        """Shows itself in a notebook with or without `dot`."""

        def _repr_mimebundle_(self, *args: Any, **options: Any) -> Any:
            if shutil.which("dot") is None:
                return {"image/svg+xml": own(), "text/plain": "drawn by irscope: Graphviz' dot is not installed"}
            return super()._repr_mimebundle_(*args, **options)

    return Source(text)


def _view(thing: Any, *, opened: bool = False) -> GraphView:
    if isinstance(thing, Dedup):
        return classes_picture(thing)
    if isinstance(thing, Profile):
        return _timed(thing, opened)
    graph: Graph = thing if isinstance(thing, Graph) else thing.graph
    if not is_sent_whole(graph):
        return ProgramIndex(graph).first_graph()
    classes = Exploration(thing).class_of if isinstance(thing, Fusion) and len(thing.groups) else None
    view = graph_view(graph, classes)
    return GraphView(boxes=view["boxes"], edges=view["edges"], closed=[]) if opened else view


def _timed(profile: Profile, opened: bool) -> GraphView:
    """The program that was measured, its boxes with their times."""
    way = profile_view(profile)["ways"][-1]
    told = {node["id"]: f"{duration(node['ms'])} · {node['share']:.0%}" for node in way["nodes"]}
    view = _view(profile.graph(), opened=opened)
    for box in view["boxes"]:
        box["detail"] = told.get(box["id"], box["detail"])
    return view


def select(graph: Graph, query: str) -> list[Any]:
    """The results of a query on a program."""
    from irscope.report.queries import Queries

    return Queries(graph)(query)
