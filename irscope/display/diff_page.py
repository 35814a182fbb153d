"""Two programs side by side in a cell: equal parts are folded, and changes have signs and words as well as colours."""

from collections.abc import Iterable

from irscope._base.words import in_markup, shortened
from irscope.display.svg import embedded_svg, graph_svg
from irscope.ir import Graph, Node
from irscope.report.pages import ProgramIndex
from irscope.report.pages.side_by_side import side_by_side
from irscope.report.program_diff import ProgramDiff
from irscope.transforms.fusion import Fusion

_AROUND = 3
_MOST_ROWS = 600
_SIGNS = {"kept": "", "changed": "~", "new": "+", "gone": "−"}
_TINTS = {"changed": "rgba(217,142,4,.17)", "new": "rgba(46,125,50,.17)", "gone": "rgba(214,39,40,.17)"}


def diff_html(diff: ProgramDiff) -> str:
    """A table of two columns that only counts equal lines far from a change, and both graphs: these first where the programs are those of
    two compilers, which have few lines in common."""
    rows = list(diff.lines())
    near = [False] * len(rows)
    for k, (kind, *_) in enumerate(rows):
        if kind != "kept":
            for place in range(max(0, k - _AROUND), min(len(rows), k + _AROUND + 1)):
                near[place] = True
    drawn: list[str] = []
    folded = 0
    for (kind, before, after, how), is_near in zip(rows, near, strict=True):
        if not is_near:
            folded += 1
            continue
        drawn += _fold(folded)
        folded = 0
        if len(drawn) >= _MOST_ROWS:
            drawn.append(_wide("more changes than are shown: .table() has all"))
            break
        drawn.append(_row(kind, before, after, how))
    else:
        drawn += _fold(folded)
    pictures = _pictures(diff)
    is_other = diff.fusions is not None and diff.fusions[0].original is not diff.fusions[1].original
    counts = " · ".join(f"{count:,} {kind}" for kind, count in diff.counts.items())
    lines = (
        f'<p>{counts} <span style="opacity:.7">(matched by {diff.matched_by})</span></p>'
        '<div style="overflow-x:auto" tabindex="0" role="region" aria-label="both programs">'
        '<table style="border-collapse:collapse;font-family:monospace;font-size:12px;text-align:left;'
        'table-layout:fixed;width:100%;min-width:640px">'
        '<colgroup><col style="width:26px"><col><col><col style="width:20%"></colgroup>'
        f"{''.join(drawn)}</table></div>"
    )
    return f"{pictures}<details><summary>line by line</summary>{lines}</details>" if is_other else lines + pictures


def _pictures(diff: ProgramDiff) -> str:
    """Both programs as graphs, with changed nodes outlined; two groupings with the pairs of ops that only one has in one kernel."""
    if diff.fusions is not None:
        return _groupings(*diff.fusions)
    changes = [change for change in diff.changes if change.kind != "kept"]
    if not changes:
        return ""
    sides = (
        ("before: gone and changed outlined", diff.first, [change.before for change in changes if change.before is not None]),
        ("after: new and changed outlined", diff.second, [change.after for change in changes if change.after is not None]),
    )
    drawn = "".join(
        f'<figure style="margin:0;flex:1 1 320px"><figcaption>{words}</figcaption>{_picture(graph, nodes, words)}</figure>'
        for words, graph, nodes in sides
    )
    return f'<details><summary>as graphs</summary><div style="display:flex;flex-wrap:wrap;gap:16px">{drawn}</div></details>'


def _groupings(one: Fusion, other: Fusion) -> str:
    compared = side_by_side(one, other), side_by_side(other, one)
    drawn = []
    for fusion, found in zip((one, other), compared, strict=True):
        index = ProgramIndex(fusion.graph)
        picture = embedded_svg(graph_svg(index.first_graph(), themed=True, compared=found.view(index.tree)), f"kernels of {found.here}")
        drawn.append(f'<figure style="margin:0;flex:1 1 320px"><figcaption>{in_markup(found.here)}</figcaption>{picture}</figure>')
    told = f"<p>ops of {in_markup(compared[0].here)} in {in_markup(compared[0].there)}: {in_markup(str(compared[0].match))}</p>"
    sides = f'<div style="display:flex;flex-wrap:wrap;gap:16px">{"".join(drawn)}</div>'
    return f"<details open><summary>as graphs</summary>{told}{sides}</details>"


def _picture(graph: Graph, marked: Iterable[Node], words: str) -> str:
    """The boxes that start open; a closed box is outlined if it contains changes."""
    index = ProgramIndex(graph)
    view, tree = index.first_graph(), index.tree
    shown = {box["id"] for box in view["boxes"]}
    outlined: set[int] = set()
    for node in marked:
        number = tree.number.get(node.id, -1)  # a constant has no box
        while number >= 0 and tree.ids[number] not in shown:
            number = int(tree.parent[number])
        if number >= 0:
            outlined.add(tree.ids[number])
    return embedded_svg(graph_svg(view, selected=outlined, themed=True), words)


def _row(kind: str, before: str, after: str, how: str) -> str:
    tint = _TINTS.get(kind, "")
    # Both sides are in sight, however long the lines.
    look = "white-space:pre-wrap;overflow-wrap:anywhere;text-align:left;vertical-align:top;padding:1px 10px"
    sides = [f'<td style="{look};background:{tint if text else ""}">{in_markup(shortened(text, 240))}</td>' for text in (before, after)]
    why = f'<td style="text-align:left;vertical-align:top;overflow-wrap:anywhere"><i>{in_markup(how)}</i></td>'
    return f'<tr><td title="{kind}" style="text-align:center">{_SIGNS[kind]}</td>{"".join(sides)}{why}</tr>'


def _fold(count: int) -> list[str]:
    return [_wide(f"{count:,} equal line{'s' if count > 1 else ''}")] if count else []


def _wide(text: str) -> str:
    return f'<tr><td></td><td colspan="3" style="text-align:left;opacity:.65;padding:2px 10px">… {text} …</td></tr>'
