"""Lays out nested boxes level by level, from the inside out.

A closed box hides what is inside it and keeps a fixed size. Each edge is lifted to the lowest box that holds both ends
and drawn between that box's children; edges with the same lifted ends are merged and counted. So opening a box moves its
surroundings apart and changes nothing inside them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from irscope.report.layout.sugiyama import layered
from irscope.report.view_models import Box, GraphView

__all__ = ["Layout", "Rect", "Route", "lay_out"]

PAD = 10.0
HEAD = 20.0
CLOSED_HEIGHT = 40.0
OP_HEIGHT = 36.0
_CHAR = 6.6
_MIN_WIDTH = 56.0
_MAX_WIDTH = 220.0


@dataclass(frozen=True, slots=True)
class Rect:
    """A box on the page: top left corner and size, in pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Route:
    """One drawn edge, for the `values` that go from inside `source` to inside `target`."""

    source: int
    target: int
    values: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """The positions of all visible boxes and edges."""

    rects: Mapping[int, Rect]
    """Rectangles by box id; hidden boxes are missing."""
    routes: tuple[Route, ...]
    width: float
    height: float


def lay_out(view: GraphView, closed: Collection[int] | None = None) -> Layout:
    """Lay out a graph view with these boxes closed (default: those of the view)."""
    shut = frozenset(view["closed"] if closed is None else closed)
    boxes = {box["id"]: box for box in view["boxes"]}
    shown = _shown(view, shut)
    children: dict[int, list[int]] = {}
    for box in view["boxes"]:
        if shown[box["id"]] == box["id"]:
            children.setdefault(box["parent"], []).append(box["id"])
    lifted = _lift(view, boxes, shown)
    size: dict[int, tuple[float, float]] = {}
    place: dict[int, tuple[float, float]] = {}
    for box in reversed(view["boxes"]):  # boxes come after their parents, so this is inside out
        if shown[box["id"]] == box["id"]:
            inside = [] if box["id"] in shut else children.get(box["id"], [])
            size[box["id"]] = _inner(inside, lifted.get(box["id"], {}), size, place) if inside else _own_size(box)
    width, height = _inner(children.get(0, []), lifted.get(0, {}), size, place)
    rects: dict[int, Rect] = {}
    for box in view["boxes"]:
        if shown[box["id"]] == box["id"]:
            around = rects.get(box["parent"])
            x, y = place[box["id"]]
            rects[box["id"]] = Rect(
                x + (around.x if around else 0.0), y + (around.y if around else 0.0), *size[box["id"]]
            )
    routes = [
        Route(u, v, tuple(dict.fromkeys(values))) for level in lifted.values() for (u, v), values in level.items()
    ]
    return Layout(rects, tuple(routes), width, height)


def _own_size(box: Box) -> tuple[float, float]:
    longest = max(len(box["label"]), len(box["detail"]) * 0.85)
    return min(_MAX_WIDTH, max(_MIN_WIDTH, longest * _CHAR + 16)), OP_HEIGHT if box["kind"] == "op" else CLOSED_HEIGHT


def _shown(view: GraphView, shut: frozenset[int]) -> dict[int, int]:
    """The box drawn for each box: itself, or the outermost closed box around it."""
    shown: dict[int, int] = {0: 0}
    for box in view["boxes"]:
        parent = box["parent"]
        hidden = parent in shut or shown[parent] != parent
        shown[box["id"]] = shown[parent] if hidden else box["id"]
    return shown


def _lift(
    view: GraphView, boxes: Mapping[int, Box], shown: Mapping[int, int]
) -> dict[int, dict[tuple[int, int], list[int]]]:
    """The edges of each level, between boxes of that level. Takes time linear in the nesting depth per edge, which is small."""
    depth: dict[int, int] = {0: 0}
    for box in view["boxes"]:
        depth[box["id"]] = depth[box["parent"]] + 1
    levels: dict[int, dict[tuple[int, int], list[int]]] = {}
    for edge in view["edges"]:
        u, v = shown[edge["source"]], shown[edge["target"]]
        while depth[u] > depth[v] and boxes[u]["parent"] != v:
            u = boxes[u]["parent"]
        while depth[v] > depth[u] and boxes[v]["parent"] != u:
            v = boxes[v]["parent"]
        if depth[u] != depth[v]:
            continue  # one end is inside the other: a block reading its own parameter
        while boxes[u]["parent"] != boxes[v]["parent"]:
            u, v = boxes[u]["parent"], boxes[v]["parent"]
        if u != v:
            levels.setdefault(boxes[u]["parent"], {}).setdefault((u, v), []).append(edge["value"])
    return levels


def _inner(
    inside: list[int], edges: Mapping[tuple[int, int], list[int]], size: Mapping[int, tuple[float, float]],
    place: dict[int, tuple[float, float]],
) -> tuple[float, float]:  # fmt: skip
    """Lay out the children of one box, record their positions, and return the box's size."""
    index = {box: i for i, box in enumerate(inside)}
    drawing = layered(
        [size[box][0] for box in inside],
        [size[box][1] for box in inside],
        [(index[u], index[v]) for u, v in edges],
    )
    for box, i in index.items():
        place[box] = (drawing.x[i] + PAD, drawing.y[i] + PAD + HEAD)
    return drawing.width + 2 * PAD, drawing.height + 2 * PAD + HEAD
