"""Rich display in notebooks, registered here so that the layers below need no HTML.

A picture is an `<img>` with the SVG as a data URL, which survives a notebook's sanitizer. Nothing here raises into a cell:
an object that cannot be drawn shows its plain text.
"""

import re
from collections.abc import Iterable
from functools import partial
from importlib import import_module
from io import BytesIO
from typing import Any, get_args

from irscope._base.results import Numbered


def register(shell: Any) -> None:
    """Register formatters for irscope's objects with an IPython shell; imports nothing until one is shown."""
    html, svg = (shell.display_formatter.formatters[kind] for kind in ("text/html", "image/svg+xml"))
    for home, name, draw in (
        ("irscope.ir.core", "Graph", "graph_cell"),
        ("irscope.transforms.fusion.fusion_result", "Fusion", "fusion_cell"),
        ("irscope.transforms.dedup.result", "Dedup", "dedup_cell"),
        ("irscope.transforms.base", "PassRecord", "pass_record_cell"),
        ("irscope.transforms.pipeline", "Pipelined", "table_cell"),
        ("irscope.transforms.autodiff", "AutodiffSubgraphs", "table_cell"),
        ("irscope.analysis.alias.alias_db", "AliasDb", "alias_db_cell"),
        ("irscope.analysis.alias.alias_db", "MemoryOf", "picture_cell"),
        ("irscope.analysis.alias.explainer", "LazyVerdict", "picture_cell"),
        ("irscope.runtime.program.executable", "Executable", "executable_cell"),
        ("irscope.analysis.memory_plan", "MemoryPlan", "memory_plan_cell"),
        ("irscope.analysis.views.view_aliases", "ViewAliases", "view_aliases_cell"),
        ("irscope.runtime.measure.comparison", "Comparison", "comparison_cell"),
        ("irscope.runtime.profile.profile_result", "Profile", "profile_cell"),
        ("irscope.report.program_diff", "ProgramDiff", "diff_html"),
    ):
        html.for_type_by_name(home, name, partial(_drawn, draw))
        svg.for_type_by_name(home, name, lambda _thing: None)  # the HTML contains the picture: a saved notebook should hold it once
    # charts are figures made without pyplot, which would register a formatter; if it has, its formatter is kept
    png = shell.display_formatter.formatters["image/png"]
    png.for_type_by_name("matplotlib.figure", "Figure", png_of_figure)


def _drawn(name: str, thing: Any) -> str | None:
    """The cell of a result, by the function of this name."""
    try:
        markup: str = getattr(import_module("irscope.display.figures"), name)(thing)
        return markup
    except Exception:
        return None  # IPython shows an empty cell if a formatter raises; it falls back to plain text now


def png_of_figure(figure: Any) -> bytes:
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
_FIRST = re.compile(r"\(\s*" + _OBJECT + r"\s*,[^()]*$")  # The first argument of an unfinished call.
_ITEM = re.compile(_OBJECT + r"\[(-?\d+)\]\.(?P<sign>)(?P<word>\w*)$")
"""An item of what is counted from 0, of which IPython looks into plain tuples and lists only."""
_MOST = 200


def register_completion(shell: Any) -> None:
    """Register the completer with an IPython shell, once. Where it has names, those of magics and files are left out."""
    matchers = getattr(getattr(shell, "Completer", None), "custom_matchers", None)
    if matchers is None or any(getattr(matcher, "is_of_irscope", False) for matcher in matchers):
        return
    from IPython.core.completer import SimpleCompletion, context_matcher

    @context_matcher(priority=10_000)  # type: ignore[untyped-decorator]
    def matcher(context: Any) -> dict[str, Any]:
        line = context.text_until_cursor
        typed = _ITEM.search(line) or _CHOSEN.search(line) or _ASKED.search(line)
        found = names_for(line, shell.user_ns) if typed is not None else []
        begun = typed["sign"] + typed["word"] if typed is not None else ""
        made = [SimpleCompletion(text=name, type="name") for name in found]
        return {"completions": made, "suppress": bool(found), "matched_fragment": begun}

    matcher.is_of_irscope = True
    matchers.append(matcher)


def names_for(line: str, namespace: dict[str, Any]) -> list[str]:
    """The completions of a line that ends inside a string: names in the program of the object before it."""
    if (item := _ITEM.search(line)) is not None:
        held, place = _looked_up(item[1], namespace), int(item[2])
        is_there = isinstance(held, Numbered) and place in range(-len(held), len(held))
        return [name for name in dir(held[place]) if name[0] != "_" and name.startswith(item["word"])] if is_there else []
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
    return [f"{typed['sign']}{name}" for name in sorted({name for name in names if name.startswith(typed["word"])})[:_MOST]]


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
    if isinstance(programs := getattr(thing, "programs", None), tuple):  # another compiler's decisions
        return [name for program in programs for name in _names(program)]
    further = [*getattr(thing, "buffers", ()), *(kernel.name for kernel in getattr(thing, "kernels", ()) if hasattr(kernel, "part_of"))]
    for holder in (thing, getattr(thing, "graph", None), getattr(thing, "source", None), getattr(thing, "_graph", None)):
        names = getattr(holder, "names", None)
        if names is not None and type(holder).__name__ == "Graph":
            return [*map(str, names.values()), *dict.fromkeys(further)]
    return ()
