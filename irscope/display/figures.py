"""Pictures of programs and results as SVG, PNG and Graphviz, for papers and any notebook, and the cells in which these show themselves."""

import re
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from struct import unpack
from typing import Any

from irscope._base.nested import grouped
from irscope._base.words import byte_count, in_dot, in_markup, shortened
from irscope.analysis.alias import AliasDb, LazyVerdict, MemoryOf
from irscope.analysis.memory_plan import MemoryPlan
from irscope.display.diff_page import diff_html as diff_html
from irscope.display.ipython import png_of_figure
from irscope.display.memory_pictures import buffer_svg, memory_svg, points_to_svg
from irscope.display.profile_page import nodes_svg
from irscope.display.profile_page import profile_cell as profile_cell
from irscope.display.svg import embedded_svg, graph_svg, in_text
from irscope.display.text import overview
from irscope.errors import ArgumentError, MissingExtra
from irscope.files import as_path, write_file
from irscope.ir import Graph, Value
from irscope.report.pages import Exploration, ProgramIndex
from irscope.report.pages.parts import explorer_view, is_sent_whole
from irscope.report.panes import MemoryPictures, buffer_view, buffers_with_views, classes_picture, memory_view, profile_view
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
    """DOT text with a cluster for every box that contains boxes; all boxes open."""
    children = grouped((inner["parent"], inner) for inner in view["boxes"])
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


_PAGE = 1100  # The width of a page, in pixels: what is wider is shrunk there until nobody can read it.
_MOST_BEFORE = 400  # How many allocations back the last one at an address is looked for.


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


def save(path: str | Path, made: str | bytes, ending: str) -> None:
    """Write a picture. Raises ArgumentError for the ending of another kind of file."""
    if as_path(path).suffix.lower() not in ("", ending):
        raise ArgumentError(f"a picture in {ending[1:].upper()} cannot be named {str(path)!r}", hint=f"let it end in {ending}")
    write_file(path, made)


def png_of(thing: Any, scale: float) -> bytes:
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise MissingExtra("resvg-py", extra="lab", purpose="to draw a PNG") from None
    if not hasattr(scale, "__float__") or not 0 < scale <= 100:
        raise ArgumentError(f"a picture cannot have {scale!r} pixels to a point", hint="scale=2 is usual")
    try:  # the fonts bundled with matplotlib: a headless machine may have none
        import matplotlib

        fonts = [f"{matplotlib.get_data_path()}/fonts/ttf"]
    except ImportError:
        fonts = []
    sans, mono = ("DejaVu Sans", "DejaVu Sans Mono") if fonts else (None, None)
    made = svg_to_bytes(
        svg_string=svg_of(thing), zoom=scale, background="#fff", font_dirs=fonts, sans_serif_family=sans, monospace_family=mono
    )
    return bytes(made)


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
    thing = getattr(thing, "fusion", thing)  # of what another compiler decided
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


# The cells of results in a notebook: a picture, and what is too long for it folded below.

_MOST_TEXT_LINES = 400
_MOST_TABLE_ROWS = 100
_MOST_IN_A_LINE = 2000


def graph_cell(graph: Any) -> str:
    picture = embedded_svg(graph_svg(ProgramIndex(graph).first_graph(), themed=True), repr(graph))
    lines = str(graph).splitlines()
    rest = len(lines) - _MOST_TEXT_LINES
    more = f"\n… {rest:,} more lines; print(graph) shows all, irs.explore(graph) too" if rest > 0 else ""
    text = in_markup("\n".join(shortened(line, _MOST_IN_A_LINE) for line in lines[:_MOST_TEXT_LINES]) + more)
    return f"{picture}<details><summary>{in_markup(repr(graph))}</summary><pre>{text}</pre></details>"


def fusion_cell(fusion: Any) -> str:
    view = explorer_view(Exploration(fusion), whole=False)
    return f"{embedded_svg(graph_svg(view['graph'], themed=True), 'fusion groups')}{in_text(overview(view))}"


def pass_record_cell(record: Any) -> str:
    told = _folded("remarks", record.remarks._repr_html_()) if record.remarks else ""
    picture = embedded_svg(graph_svg(ProgramIndex(record.after).first_graph(), themed=True), "the program after the pass")
    return f"{picture}{in_text(repr(record))}{told}"


def table_cell(thing: Any) -> str:
    return f"{in_text(repr(thing))}{thing.table()._repr_html_()}"


def picture_cell(thing: Any) -> str:
    told = str(thing)
    return f"{embedded_svg(svg_of(thing, themed=True), told)}{in_text(told)}"


def dedup_cell(dedup: Any) -> str:
    return f"{picture_cell(dedup)}{_folded('the classes as a table', dedup.table()._repr_html_())}"


def executable_cell(run: Any) -> str:
    kernels = "\n".join(map(repr, run.kernels[:_MOST_TABLE_ROWS]))
    return f"{picture_cell(run)}{_folded('kernels', f'<pre>{in_markup(kernels)}</pre>')}"


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>{body}</details>"


def alias_db_cell(db: Any) -> str:
    return f"{picture_cell(db)}{_first_values(db, db.graph.values(), 'db')}"


def memory_plan_cell(plan: Any) -> str:
    view = memory_view(plan)
    rows = plan.peak_table().head(12)._repr_html_()
    return f"{embedded_svg(memory_svg(view), view['title'])}<p>{in_markup(view['caption'])}</p>{_folded('what makes the peak', rows)}"


def view_aliases_cell(views: Any) -> str:
    pictures = [embedded_svg(buffer_svg(buffer_view(views, root)), repr(root)) for root in buffers_with_views(views)]
    return f"{in_text(repr(views))}{''.join(pictures)}{_first_values(views, views.tensors(), 'va')}"


def _first_values(result: Any, values: Iterable[Value], name: str) -> str:
    """The rows of the first values, and how many there are more."""
    shown = list(values)
    more = len(shown) - _MOST_TABLE_ROWS
    note = f"<p>and {more} more values; {name}.table() has all</p>" if more > 0 else ""
    return _folded("all values", f"{result.table(shown[:_MOST_TABLE_ROWS])._repr_html_()}{note}")


def comparison_cell(comparison: Any) -> str:
    from irscope._base.tables import words_html  # needs pandas

    cells = comparison.cells()
    titles = list(cells)
    titles.insert(3, titles.pop())  # which is faster stands beside the times, in sight of a narrow window
    rows = words_html({title: cells[title] for title in titles}, (titles[0], ""))
    missing = "".join(f"<p>{in_markup(label)} did not run: {in_markup(why)}</p>" for label, why in comparison.missing)
    table = f'<div style="overflow-x:auto" tabindex="0" role="region" aria-label="run times">{rows}{missing}</div>'
    first = "".join(f'<p style="max-width:60em"><b>{in_markup(warning)}</b></p>' for warning in comparison.warnings)
    table = f"{first}{table}"
    caption = f'<p style="max-width:60em">{in_markup(comparison.caption)}</p>'
    try:
        light, dark = (png_of_figure(comparison.chart(theme=theme)) for theme in ("light", "dark"))
    except ImportError:
        return table + caption
    return f"{table}{caption}{embedded_svg(_in_both_themes(light, dark), 'run times')}"


def _in_both_themes(light: bytes, dark: bytes) -> str:
    """An SVG with two PNGs of one size, which shows the one for the reader's colours."""
    width, height = unpack(">II", light[16:24])
    size = f'width="{width}" height="{height}"'
    images = (
        f'<image class="{name}" {size} href="data:image/png;base64,{b64encode(png).decode()}"/>'
        for name, png in (("l", light), ("d", dark))
    )
    style = "<style>.d{display:none}@media(prefers-color-scheme:dark){.d{display:inline}.l{display:none}}</style>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{style}{"".join(images)}</svg>'
