"""Two programs side by side in a cell: equal parts are folded, and changes have signs and words as well as colours."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from math import inf
from typing import Final, cast

from irscope._base.nested import grouped
from irscope._base.words import in_markup, shortened
from irscope.display.svg import embedded_svg, graph_svg
from irscope.ir import Graph, Node
from irscope.report.layout import lay_out
from irscope.report.pages import ProgramIndex
from irscope.report.pages.side_by_side import side_by_side
from irscope.report.panes import graph_view
from irscope.report.program_diff import ProgramDiff
from irscope.report.view_models import Box, BoxKind, Edge, GraphView
from irscope.transforms.fusion import Fusion

_AROUND = 3
_MOST_IN_BOTH: Final = 3_000  # Larger programs are drawn one by one, in which only what is open at first is made.
_MOST_OPENED: Final = 24
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
    both = _Both(diff) if max(len(diff.first.position), len(diff.second.position)) <= _MOST_IN_BOTH else None
    drawn = "".join(
        _figure(both.picture(side, nodes) if both is not None and both.is_complete else _picture(graph, nodes), words)
        for side, (words, graph, nodes) in enumerate(sides)
    )
    return f'<details><summary>as graphs</summary><div style="display:flex;flex-wrap:wrap;gap:16px">{drawn}</div></details>'


def _figure(svg: str, words: str) -> str:
    """A picture beside the other, or below it where both would be too small to read."""
    width = re.findall(r'width="(\d+)"', svg)[0]
    style = f"margin:0;flex:1 1 min(100%, {0.79 * int(width):.0f}px)"
    return f'<figure style="{style}"><figcaption>{in_markup(words)}</figcaption>{embedded_svg(svg, words, inf)}</figure>'


def _groupings(one: Fusion, other: Fusion) -> str:
    compared = side_by_side(one, other), side_by_side(other, one)
    drawn = []
    for fusion, found in zip((one, other), compared, strict=True):
        index = ProgramIndex(fusion.graph)
        drawn.append(_figure(graph_svg(index.first_graph(), themed=True, compared=found.view(index.tree)), found.here))
    told = f"<p>ops of {in_markup(compared[0].here)} in {in_markup(compared[0].there)}: {in_markup(str(compared[0].match))}</p>"
    sides = f'<div style="display:flex;flex-wrap:wrap;gap:16px">{"".join(drawn)}</div>'
    return f"<details open><summary>as graphs</summary>{told}{sides}</details>"


def _picture(graph: Graph, marked: Iterable[Node]) -> str:
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
    return graph_svg(view, selected=outlined, themed=True)


class _Both:
    """Two programs in one picture, where a box that both have is in one place; each side shows only the outline of what it lacks.

    An op that is in a fusion group on one side only is inside that group on both. `is_complete` is false if groups overlap: then there
    is no such picture.
    """

    def __init__(self, diff: ProgramDiff) -> None:
        views = graph_view(diff.first), graph_view(diff.second)
        same = {change.before.id: change.after.id for change in diff.changes if change.before is not None and change.after is not None}
        keys = _keys(views[0], same), _keys(views[1], None)
        number = {key: k for k, key in enumerate(dict.fromkeys([*keys[1].values(), *keys[0].values()]))}
        self._names = [{id: number[key] for id, key in each.items()} for each in keys]
        """The box of the picture for each box of a side; 0 for the top."""
        self._boxes = [{names[box["id"]]: box for box in view["boxes"]} for names, view in zip(self._names, views, strict=True)]
        self._parent = self._parents()
        order = self._order()
        self.is_complete = all(id in order for boxes in self._boxes for id, box in boxes.items() if box["kind"] == "group")
        shared = self._boxes[0].keys() & self._boxes[1].keys() - self._changed(diff)
        closed = [names[id] for names, view in zip(self._names, views, strict=True) for id in view["closed"] if names[id] in shared]
        edges = [
            [
                Edge(source=names[edge["source"]], target=names[edge["target"]], value=edge["value"])
                for edge in view["edges"] if names[edge["source"]] in order and names[edge["target"]] in order
            ]
            for names, view in zip(self._names, views, strict=True)
        ]  # fmt: skip
        whole = [self._box(id, self._widest(id)) for id in order]
        self._layout = lay_out(GraphView(boxes=whole, edges=[*edges[1], *edges[0]], closed=closed))
        self._sides = [
            GraphView(boxes=[self._box(box["id"], boxes.get(box["id"], box)) for box in whole], edges=edges[side], closed=closed)
            for side, boxes in enumerate(self._boxes)
        ]

    def _changed(self, diff: ProgramDiff) -> set[int]:
        """Short stretches of lines in which something changed."""
        found = set[int]()
        for change in diff.changes:
            for side, node in enumerate((change.before, change.after)):
                id = self._names[side].get(node.id, 0) if node is not None and change.kind != "kept" else 0
                while id := self._parent.get(id, 0):
                    found |= {id} if self._is(side, id, "stretch") and self._boxes[side][id]["size"] <= _MOST_OPENED else set()
        return found

    def picture(self, side: int, marked: Iterable[Node]) -> str:
        """One side, with the boxes of these nodes outlined, or the closed boxes around them."""
        view = self._sides[side]
        mine = lay_out(view)
        values = {(route.source, route.target): route.values for route in mine.routes}
        routes = [replace(route, values=values[ends]) for route in self._layout.routes if (ends := (route.source, route.target)) in values]
        outlined = set[int]()
        for node in marked:
            id = self._names[side].get(node.id, 0)  # a constant has no box
            while id and id not in self._layout.rects:
                id = self._parent[id]
            outlined.add(id)
        lacking = {box["id"] for box in view["boxes"]} - self._boxes[side].keys()
        layout = replace(mine, rects=self._layout.rects, routes=tuple(routes), width=self._layout.width, height=self._layout.height)
        return graph_svg(view, selected=outlined, themed=True, layout=layout, lacking=lacking)

    def _parents(self) -> dict[int, int]:
        """The parent of each box; stretches of lines that only one side has are left out."""
        before, after = self._boxes
        around = [{id: names[box["parent"]] for id, box in boxes.items()} for names, boxes in zip(self._names, self._boxes, strict=True)]
        found: dict[int, int] = {}
        for id in [*after, *before]:
            side = 1 if id in after else 0
            parents = [each.get(id, 0) for each in around]
            if self._is(0, parents[0], "group") and not self._is(1, parents[1], "group"):
                side = 0
            parent = parents[side]
            while self._is(side, parent, "stretch") and parent not in self._boxes[1 - side]:
                parent = around[side][parent]
            found[id] = parent
        return found

    def _is(self, side: int, id: int, kind: BoxKind) -> bool:
        box = self._boxes[side].get(id)
        return box is not None and box["kind"] == kind

    def _order(self) -> dict[int, None]:
        """The boxes, parents first: in the order of the second program, with those of the first after what was before them there. A box
        whose contents are all elsewhere is left out."""
        before, after = self._boxes
        following: dict[int, list[int]] = {}
        last = 0
        for id in before:
            last = id if id in after else last
            following.setdefault(last, []).extend([] if id in after else [id])
        in_order = chain(following.get(0, ()), *((each, *following.get(each, ())) for each in after))
        children = grouped((self._parent[id], id) for id in in_order)
        found: list[int] = []
        waiting = [0]
        while waiting:
            found.append(waiting.pop())
            waiting += reversed(children.get(found[-1], ()))
        held = {names[box["parent"]] for names, boxes in zip(self._names, self._boxes, strict=True) for box in boxes.values()}
        kept = dict[int, None]()
        for id in reversed(found[1:]):
            if id not in held or any(child in kept for child in children.get(id, ())):
                kept[id] = None
        return dict.fromkeys(reversed(kept))

    def _widest(self, id: int) -> Box:
        """A box with room for the texts of both sides."""
        one, other = self._boxes[1].get(id), self._boxes[0].get(id)
        if one is None or other is None:
            return cast("Box", one or other)
        label, detail = (max(one[text], other[text], key=len) for text in ("label", "detail"))
        return one | {"label": label, "detail": detail, "writes": one["writes"] or other["writes"]}

    def _box(self, id: int, box: Box) -> Box:
        return box | {"id": id, "parent": self._parent[id]}


def _keys(view: GraphView, same: Mapping[int, int] | None) -> dict[int, tuple[object, ...]]:
    """What tells a box of two programs, by its id in this one; `same` has the nodes of the other for those that it has, too."""
    found: dict[int, tuple[object, ...]] = {0: ()}
    counts: Counter[tuple[object, ...]] = Counter()
    for box in view["boxes"]:
        id, kind = box["id"], box["kind"]
        if kind in ("op", "group", "block"):
            found[id] = ("node", id) if same is None else ("node", same[id]) if id in same else ("gone", id)
            continue
        key = (kind, "" if kind in ("stretch", "output") else box["label"], found[box["parent"]])
        found[id] = (*key, counts[key])
        counts[key] += 1
    return found


_LAYOUT = re.compile(r", (?:strides=\[[^\]]*\]|requires_grad=\d|device=cpu)")  # What a type says besides its element type and its extents.


def _row(kind: str, before: str, after: str, how: str) -> str:
    tint = _TINTS.get(kind, "")
    if not (before and after) or _LAYOUT.findall(before) == _LAYOUT.findall(after):
        before, after = (_LAYOUT.sub("", text) for text in (before, after))
    # Both sides are in sight, however long the lines; one that wraps goes on further to the right.
    look = "white-space:pre-wrap;overflow-wrap:anywhere;text-align:left;vertical-align:top;padding:1px 10px 1px 34px;text-indent:-24px"
    sides = [f'<td style="{look};background:{tint if text else ""}">{in_markup(shortened(text, 240))}</td>' for text in (before, after)]
    why = f'<td style="text-align:left;vertical-align:top;overflow-wrap:anywhere"><i>{in_markup(how)}</i></td>'
    return f'<tr><td title="{kind}" style="text-align:center">{_SIGNS[kind]}</td>{"".join(sides)}{why}</tr>'


def _fold(count: int) -> list[str]:
    return [_wide(f"{count:,} equal line{'s' if count > 1 else ''}")] if count else []


def _wide(text: str) -> str:
    return f'<tr><td></td><td colspan="3" style="text-align:left;opacity:.65;padding:2px 10px">… {text} …</td></tr>'
