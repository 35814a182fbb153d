"""A whole program as boxes and edges; large programs start with their outer boxes closed."""

from __future__ import annotations

from collections.abc import Mapping

from irscope.ir import Graph, Node
from irscope.report.boxes import BoxTree
from irscope.report.view_models import Edge, GraphView

__all__ = ["closed_at_first", "graph_view", "opened_at_first"]

_MOST_OPEN = 48
"""The most boxes to show initially."""
_SMALL = 150
"""The largest program, in boxes, that starts fully open. In a larger one modules start open and, if no layers repeat, other
boxes up to `_MOST_OPEN`."""
_FEW_OPEN = 20


def graph_view(graph: Graph, classes: Mapping[Node, int] | None = None, hottest: int = 0) -> GraphView:
    """The graph view of a program; `classes` gives the number of a node's equivalence class. The boxes around the `hottest`
    node start open."""
    tree = BoxTree(graph, classes)
    ids = tree.ids
    edges = [
        Edge(source=ids[source], target=ids[target], value=value)
        for source, target, value in zip(tree.sources.tolist(), tree.targets.tolist(), tree.values.tolist(), strict=True)
    ]
    return GraphView(boxes=[tree.box(k) for k in range(len(tree))], edges=edges, closed=closed_at_first(tree, hottest))


def opened_at_first(tree: BoxTree, hottest: int = 0) -> list[int]:
    """The boxes that start open, from the outside in while the picture stays small; modules that hold modules come first.
    Repeated layers stay closed, as one box describes them all, and so do stretches of lines, which exist to be short; but those
    around the hottest node, if one is named, are open."""
    opened: list[int] = []
    visible = sum(1 for _ in tree.children(-1))
    is_small = len(tree) <= _SMALL
    more = _MOST_OPEN if is_small else 0 if "repeat" in tree.kinds else _FEW_OPEN
    for is_wanted, most in ((_holds_modules, _MOST_OPEN), (_holds_anything, more)):
        waiting = list(tree.children(-1))
        known = set(opened)
        for box in waiting:
            if tree.kinds[box] in ("repeat", "stretch") or not tree.is_holder(box):
                continue
            inside = list(tree.children(box))
            if box not in known:
                if not is_wanted(tree, inside) or visible + len(inside) > most:
                    continue
                visible += len(inside)
                opened.append(box)
            waiting += inside
    box = tree.number.get(hottest, -1)
    while box >= 0 and (box := int(tree.parent[box])) >= 0:
        if box not in opened:
            opened.append(box)
    return opened


def _holds_modules(tree: BoxTree, inside: list[int]) -> bool:
    return any(tree.kinds[box] in ("module", "repeat") for box in inside)


def _holds_anything(_tree: BoxTree, inside: list[int]) -> bool:
    return bool(inside)


def closed_at_first(tree: BoxTree, hottest: int = 0) -> list[int]:
    """Ids of the non-empty boxes that start closed."""
    opened = set(opened_at_first(tree, hottest))
    return [tree.ids[box] for box in range(len(tree)) if tree.is_holder(box) and box not in opened]
