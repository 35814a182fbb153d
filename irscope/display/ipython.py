"""Rich display in notebooks, registered here so that the layers below need no HTML.

A picture is an `<img>` with the SVG as a data URL, which survives a notebook's sanitizer. Nothing here raises into a cell:
an object that cannot be drawn shows its plain text.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from io import BytesIO
from struct import unpack
from typing import Any, get_args

from irscope._base.words import in_markup

_MOST_TEXT_LINES = 400
_MOST_TABLE_ROWS = 100
_MOST_IN_A_LINE = 2000


def register(shell: Any) -> None:
    """Register formatters for irscope's objects with an IPython shell; imports nothing until one is shown."""
    html, svg = (shell.display_formatter.formatters[kind] for kind in ("text/html", "image/svg+xml"))
    for home, name, draw in (
        ("irscope.ir.core", "Graph", _graph),
        ("irscope.transforms.fusion.fusion_result", "Fusion", _fusion),
        ("irscope.transforms.dedup.result", "Dedup", _dedup),
        ("irscope.transforms.pipeline", "Pipelined", _table),
        ("irscope.transforms.autodiff", "AutodiffSubgraphs", _table),
        ("irscope.analysis.alias.alias_db", "AliasDb", _alias_db),
        ("irscope.analysis.alias.alias_db", "MemoryOf", _picture),
        ("irscope.analysis.alias.explainer", "LazyVerdict", _picture),
        ("irscope.runtime.program.executable", "Executable", _executable),
        ("irscope.analysis.memory_plan", "MemoryPlan", _memory_plan),
        ("irscope.analysis.views.view_aliases", "ViewAliases", _view_aliases),
        ("irscope.runtime.measure.comparison", "Comparison", _comparison),
        ("irscope.runtime.profile.profile_result", "Profile", _profile),
        ("irscope.report.program_diff", "ProgramDiff", _diff),
    ):
        html.for_type_by_name(home, name, _never_raising(draw))
        svg.for_type_by_name(home, name, lambda _thing: None)  # the HTML contains the picture: a saved notebook should hold it once
    # charts are figures made without pyplot, which would register a formatter; if it has, its formatter is kept
    png = shell.display_formatter.formatters["image/png"]
    png.for_type_by_name("matplotlib.figure", "Figure", _png)


def _never_raising(draw: Callable[[Any], str]) -> Callable[[Any], str | None]:
    def drawn(thing: Any) -> str | None:
        try:
            return draw(thing)
        except Exception:
            # IPython shows an empty cell if a formatter raises; None falls back to plain text
            return None

    return drawn


def _graph(graph: Any) -> str:
    from irscope.display.svg import embedded_svg, graph_svg
    from irscope.report.pages import ProgramIndex

    picture = embedded_svg(graph_svg(ProgramIndex(graph).first_graph(), themed=True), repr(graph))
    lines = str(graph).splitlines()
    rest = len(lines) - _MOST_TEXT_LINES
    more = f"\n… {rest:,} more lines; print(graph) shows all, irs.explore(graph) too" if rest > 0 else ""
    text = in_markup("\n".join(map(_cut, lines[:_MOST_TEXT_LINES])) + more)
    return f"{picture}<details><summary>{in_markup(repr(graph))}</summary><pre>{text}</pre></details>"


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_IN_A_LINE else f"{line[:_MOST_IN_A_LINE]}… {len(line) - _MOST_IN_A_LINE:,} more characters"


def _fusion(fusion: Any) -> str:
    from irscope.display.svg import embedded_svg, graph_svg
    from irscope.display.text import overview
    from irscope.report.pages import Exploration
    from irscope.report.pages.parts import explorer_view

    view = explorer_view(Exploration(fusion), whole=False)
    return f"{embedded_svg(graph_svg(view['graph'], themed=True), 'fusion groups')}<pre>{in_markup(overview(view))}</pre>"


def _table(thing: Any) -> str:
    return f"<pre>{in_markup(repr(thing))}</pre>{thing.table()._repr_html_()}"


def _picture(thing: Any) -> str:
    from irscope.display.figures import svg_of
    from irscope.display.svg import embedded_svg

    told = str(thing)
    return f"{embedded_svg(svg_of(thing, themed=True), told)}<pre>{in_markup(told)}</pre>"


def _dedup(dedup: Any) -> str:
    return f"{_picture(dedup)}{_folded('the classes as a table', dedup.table()._repr_html_())}"


def _executable(run: Any) -> str:
    kernels = "\n".join(map(repr, run.kernels[:_MOST_TABLE_ROWS]))
    return f"{_picture(run)}{_folded('kernels', f'<pre>{in_markup(kernels)}</pre>')}"


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>{body}</details>"


def _alias_db(db: Any) -> str:
    shown = [value for value, _ in zip(db.graph.values(), range(_MOST_TABLE_ROWS), strict=False)]
    more = len(db.graph.names) - len(shown)
    note = f"<p>and {more} more values; db.table() has all</p>" if more else ""
    return f"{_picture(db)}{_folded('all values', f'{db.table(shown)._repr_html_()}{note}')}"


def _memory_plan(plan: Any) -> str:
    from irscope.display.memory_pictures import memory_svg
    from irscope.display.svg import embedded_svg
    from irscope.report.panes import memory_view

    view = memory_view(plan)
    rows = plan.peak_table().head(12)._repr_html_()
    told = f"<details><summary>what makes the peak</summary>{rows}</details>"
    return f"{embedded_svg(memory_svg(view), view['title'])}<p>{in_markup(view['caption'])}</p>{told}"


def _view_aliases(views: Any) -> str:
    from irscope.display.memory_pictures import buffer_svg
    from irscope.display.svg import embedded_svg
    from irscope.report.panes import buffer_view, buffers_with_views

    pictures = [embedded_svg(buffer_svg(buffer_view(views, root)), repr(root)) for root in buffers_with_views(views)]
    shown = [value for value, _ in zip(views.tensors(), range(_MOST_TABLE_ROWS), strict=False)]
    more = sum(1 for _ in views.tensors()) - len(shown)
    note = f"<p>and {more} more values; va.table() has all</p>" if more else ""
    table = f"<details><summary>all values</summary>{views.table(shown)._repr_html_()}{note}</details>"
    return f"<pre>{in_markup(repr(views))}</pre>{''.join(pictures)}{table}"


def _comparison(comparison: Any) -> str:
    from irscope._base.tables import words_html
    from irscope.display.svg import embedded_svg

    cells = comparison.cells()
    titles = list(cells)
    titles.insert(3, titles.pop())  # which is faster stands beside the times, in sight of a narrow window
    rows = words_html({title: cells[title] for title in titles}, ("",))
    missing = "".join(f"<p>{in_markup(label)} did not run: {in_markup(why)}</p>" for label, why in comparison.missing)
    table = f'<div style="overflow-x:auto" tabindex="0" role="region" aria-label="run times">{rows}{missing}</div>'
    first = "".join(f'<p style="max-width:60em"><b>{in_markup(warning)}</b></p>' for warning in comparison.warnings)
    table = f"{first}{table}"
    caption = f'<p style="max-width:60em">{in_markup(comparison.caption)}</p>'
    try:
        light, dark = (_png(comparison.chart(theme=theme)) for theme in ("light", "dark"))
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


def _diff(diff: Any) -> str:
    from irscope.display.diff_page import diff_html

    return diff_html(diff)


def _profile(profile: Any) -> str:
    from irscope.display.profile_page import profile_cell

    return profile_cell(profile)


def _png(figure: Any) -> bytes:
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=90, bbox_inches="tight")
    return picture.getvalue()


# Tab completion of value names inside strings: `f.why_not("co` offers values of the program of `f`.

_OBJECT = r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
_ASKED = re.compile(
    _OBJECT + r"""\.(?:\w+\((?:[^()]*,\s*)?(?:\w+\s*=\s*)?\[?|selection\s*=\s*\[?(?:[^\]]*,\s*)?)["'](?P<sign>%?)(?P<word>[\w.]*)$"""
)
"""An object, a method of it or its selection, and an unfinished string."""
_CHOSEN = re.compile(
    _OBJECT + r"""\((?:[^()]|\([^()]*\))*\b(policy|relation|compiler|device|pane)\s*=\s*"""
    r"""(?:[\[(](?:[^\])]*,\s*)?)?["'](?P<sign>)(?P<word>[\w-]*)$"""
)
"""A function or method, and an unfinished string for an option of it that takes one of a few words."""
_FIRST = re.compile(r"\(\s*" + _OBJECT + r"\s*,[^()]*$")
"""The first argument of an unfinished call."""
_MOST = 200


def register_completion(shell: Any) -> None:
    """Register the completer with an IPython shell, once."""
    completer = getattr(shell, "Completer", None)
    matchers = getattr(completer, "custom_matchers", None)
    if matchers is None or any(getattr(matcher, "is_of_irscope", False) for matcher in matchers):
        return

    def matcher(text: str) -> list[str]:
        line = completer.line_buffer if completer is not None else ""
        found = names_for(line, shell.user_ns)
        typed = _CHOSEN.search(line) or _ASKED.search(line)
        if typed is None:
            return []
        # the word that the completer passes may begin anywhere in the string
        begun = typed["sign"] + typed["word"]
        extra = len(begun) - len(text)
        return [name[extra:] for name in found] if extra >= 0 else [text[: len(text) - len(begun)] + name for name in found]

    matcher.is_of_irscope = True  # type: ignore[attr-defined]
    matchers.append(matcher)


def names_for(line: str, namespace: dict[str, Any]) -> list[str]:
    """The completions of a line that ends inside a string: names in the program of the object before it.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Tensor):\\n  %cost : Tensor = aten::relu(%x)\\n  return (%cost)")
    >>> names_for('f.why_not("x", "%c', {"f": irs.fuse(g)}), names_for('open("c', {"open": open})
    (['%cost'], [])
    >>> names_for('irs.fuse(g, policy="m', {"irs": irs}), names_for('e.selection = ["%x", "c', {"e": g})
    (['min-bytes'], ['cost'])
    """
    chosen = _CHOSEN.search(line)
    if chosen is not None:
        asked = namespace.get(chosen[1].partition(".")[0])
        homes = (getattr(asked, "__name__", ""), getattr(asked, "__module__", ""), type(asked).__module__)
        is_ours = any(str(home).partition(".")[0] == "irscope" for home in homes)
        return [word for word in _choices(chosen[2]) if word.startswith(chosen["word"])] if is_ours else []
    typed = _ASKED.search(line)
    if typed is None:
        return []
    names = _names(_looked_up(typed[1], namespace))
    if not names and (first := _FIRST.search(line)) is not None:  # irs.quiz.fusion(f, subject="
        names = _names(_looked_up(first[1], namespace))
    return [f"{typed['sign']}{name}" for name in sorted(name for name in names if name.startswith(typed["word"]))[:_MOST]]


def _choices(option: str) -> Iterable[str]:
    """The words that an option takes."""
    from irscope.compilers import READERS
    from irscope.report.view_models import PaneName
    from irscope.transforms.dedup import RELATIONS
    from irscope.transforms.fusion import POLICIES

    words: dict[str, Iterable[str]] = {
        "policy": POLICIES, "relation": RELATIONS, "pane": get_args(PaneName), "device": ("cpu", "cuda", "reference"),
        "compiler": dict.fromkeys(READERS.values()),
    }  # fmt: skip
    return words[option]


def _looked_up(path: str, namespace: dict[str, Any]) -> Any:
    """The irscope object that a dotted name refers to; evaluates nothing but properties of such objects."""
    first, *rest = path.split(".")
    found = namespace.get(first)
    for name in rest:
        if not _is_ours(found):
            return None
        found = getattr(found, name, None)
    return found


def _is_ours(thing: Any) -> bool:
    return type(thing).__module__.startswith("irscope.")


def _names(thing: Any) -> Iterable[str]:
    if not _is_ours(thing):
        return ()
    for holder in (thing, getattr(thing, "graph", None), getattr(thing, "source", None), getattr(thing, "_graph", None)):
        names = getattr(holder, "names", None)
        if names is not None and type(holder).__name__ == "Graph":
            return [str(name) for name in names.values()]
    return ()
