"""Places the boxes of one level: a layered drawing, top to bottom, in near-linear time.

1. Cycles are broken by a depth-first walk in the given order, so program order decides what points up.
2. Ranks are longest paths; sources sink to just above their first user.
3. Edges that span up to `MAX_SPAN` ranks get dummy boxes; longer ones are ignored when ordering.
4. Four rounds of barycentre sweeps order each rank; ties keep the given order, so small changes move little.
5. Six rounds of mean alignment set x, keeping boxes apart from both sides.
6. A drawing much taller than wide is broken into columns.

The widgets lay out in the page, in `layered.ts`, by the same steps.
Method: Sugiyama, Tagawa and Toda 1981, with the simplifications of Mozilla's iongraph.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from irscope.report.view_models import Box, GraphView

GAP_X = 16.0
GAP_Y = 28.0
MAX_SPAN = 6
_SWEEPS = 4
_ALIGNMENTS = 6
_DUMMY_WIDTH = 4.0
GAP_COLUMN = 36.0
_LEAST_CUT = 560.0
"""Drawings less tall than this, in pixels, stay in one column."""
_WIDE = 640.0
"""Unconnected boxes stay in one row if it is less wide than this, in pixels."""
_SHAPE = 1.25
"""The target aspect ratio, width to height, of a drawing cut into columns."""


@dataclass(frozen=True)
class Layered:
    """Top left corners of the boxes, and the size of the whole drawing."""

    x: list[float]
    y: list[float]
    width: float
    height: float


def layered(widths: Sequence[float], heights: Sequence[float], edges: Sequence[tuple[int, int]]) -> Layered:
    """Place boxes of the given sizes; an edge `(u, v)` wants `v` below `u`.

    >>> drawing = layered([10, 10], [10, 10], [(0, 1)])
    >>> drawing.y
    [0.0, 38.0]
    """
    if not widths:
        return Layered([], [], 0.0, 0.0)
    if not edges and sum(widths) > _WIDE:
        return _on_shelves(widths, heights)
    edges = _without_cycles(len(widths), edges)
    rank, order = _ranks(len(widths), edges)
    ranks = _Ranks(widths, edges, rank, order)
    for _ in range(_SWEEPS):
        ranks.sweep(down=True)
        ranks.sweep(down=False)
    ranks.spread()
    for turn in range(_ALIGNMENTS):
        ranks.align(down=turn % 2 == 0)
    return ranks.placed(heights)


def _on_shelves(widths: Sequence[float], heights: Sequence[float]) -> Layered:
    """Unconnected boxes in rows, with about the aspect ratio of a window."""
    area = sum((width + GAP_X) * (height + GAP_Y) for width, height in zip(widths, heights, strict=True))
    wide = max(_WIDE, *widths, (2 * area) ** 0.5)
    x, y = list[float](), list[float]()
    left = top = tall = 0.0
    for width, height in zip(widths, heights, strict=True):
        if left and left + width > wide:
            left, top, tall = 0.0, top + tall + GAP_Y, 0.0
        x.append(left)
        y.append(top)
        left, tall = left + width + GAP_X, max(tall, height)
    return Layered(x, y, max(at + width for at, width in zip(x, widths, strict=True)), top + tall)


def _without_cycles(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The edges, with back edges of a depth-first walk reversed and self loops removed."""
    out: list[list[int]] = [[] for _ in range(count)]
    for u, v in edges:
        out[u].append(v)
    state = bytearray(count)  # 0 not seen, 1 on the path, 2 done
    back: set[tuple[int, int]] = set()
    for root in range(count):
        if state[root]:
            continue
        state[root] = 1
        path = [(root, iter(out[root]))]
        while path:
            u, successors = path[-1]
            for v in successors:
                if state[v] == 0:
                    state[v] = 1
                    path.append((v, iter(out[v])))
                    break
                if state[v] == 1:
                    back.add((u, v))
            else:
                state[u] = 2
                path.pop()
    return [(v, u) if (u, v) in back else (u, v) for u, v in edges if u != v]


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """The rank of each box by longest path, and a topological order."""
    out: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for u, v in edges:
        out[u].append(v)
        waiting[v] += 1
    is_source = [not n for n in waiting]
    rank = [0] * count
    order = [box for box in range(count) if is_source[box]]
    for u in order:
        for v in out[u]:
            rank[v] = max(rank[v], rank[u] + 1)
            waiting[v] -= 1
            if not waiting[v]:
                order.append(v)
    for u in reversed(order):
        if is_source[u] and out[u]:
            rank[u] = min(rank[v] for v in out[u]) - 1
    return rank, order


class _Ranks:
    """Boxes and dummies by rank, with their neighbours one rank up and down."""

    def __init__(self, widths: Sequence[float], edges: Sequence[tuple[int, int]], rank: list[int], order: list[int]) -> None:
        self.count = len(widths)
        self.width = list(widths)
        self.rows: list[list[int]] = [[] for _ in range(max(rank) + 1)]
        self.up: list[list[int]] = [[] for _ in widths]
        self.down: list[list[int]] = [[] for _ in widths]
        for box in order:
            self.rows[rank[box]].append(box)
        for u, v in edges:
            if rank[v] - rank[u] <= MAX_SPAN:
                self._connect(u, v, rank)
        self.position = [0.0] * len(self.width)
        for row in self.rows:
            self._renumber(row)
        self.x = [0.0] * len(self.width)

    def _connect(self, u: int, v: int, rank: list[int]) -> None:
        here = u
        for row in range(rank[u] + 1, rank[v]):
            dummy = len(self.width)
            self.width.append(_DUMMY_WIDTH)
            self.up.append([here])
            self.down.append([])
            self.down[here].append(dummy)
            self.rows[row].append(dummy)
            here = dummy
        self.down[here].append(v)
        self.up[v].append(here)

    def _renumber(self, row: list[int]) -> None:
        for index, box in enumerate(row):
            self.position[box] = float(index)

    def sweep(self, *, down: bool) -> None:
        """Sort each rank by the mean position of its neighbours in the rank before."""
        neighbours = self.up if down else self.down
        position = self.position
        for row in self.rows if down else reversed(self.rows):
            if len(row) > 1:
                key = {box: _mean(position, neighbours[box], position[box]) for box in row}
                row.sort(key=lambda box: (key[box], position[box]))
                self._renumber(row)

    def spread(self) -> None:
        """Place the boxes of each rank side by side."""
        for row in self.rows:
            left = 0.0
            for box in row:
                self.x[box] = left + self.width[box] / 2
                left += self.width[box] + GAP_X

    def align(self, *, down: bool) -> None:
        """Move each box towards the mean of its neighbours, as far as the boxes beside it allow."""
        neighbours = self.up if down else self.down
        for row in self.rows if down else reversed(self.rows):
            wanted = [_mean(self.x, neighbours[box], self.x[box]) for box in row]
            low, high = wanted[:], wanted
            half = [self.width[box] / 2 for box in row]
            for i in range(1, len(row)):
                low[i] = max(low[i], low[i - 1] + half[i - 1] + half[i] + GAP_X)
            for i in range(len(row) - 2, -1, -1):
                high[i] = min(high[i], high[i + 1] - half[i] - half[i + 1] - GAP_X)
            for i, box in enumerate(row):
                self.x[box] = (low[i] + high[i]) / 2

    def placed(self, heights: Sequence[float]) -> Layered:
        """The finished drawing without dummies, broken into columns if long."""
        tall = [max((heights[box] for box in row if box < self.count), default=0.0) for row in self.rows]
        left = [min(self.x[box] - self.width[box] / 2 for box in row) for row in self.rows]
        right = [max(self.x[box] + self.width[box] / 2 for box in row) for row in self.rows]
        x, y = [0.0] * self.count, [0.0] * self.count
        edge = lowest = 0.0
        for first, last in columns(tall, max(right) - min(left)):
            start = min(left[first:last])
            top = 0.0
            for row in range(first, last):
                for box in self.rows[row]:
                    if box < self.count:
                        x[box] = edge + self.x[box] - self.width[box] / 2 - start
                        y[box] = top + (tall[row] - heights[box]) / 2
                top += tall[row] + GAP_Y
            lowest = max(lowest, top - GAP_Y)
            edge += max(right[first:last]) - start + GAP_COLUMN
        return Layered(x, y, edge - GAP_COLUMN, max(0.0, lowest))


def columns(tall: Sequence[float], width: float) -> list[tuple[int, int]]:
    """The ranges of rows, with these heights, that form the columns: a drawing much taller than wide is cut to about the
    aspect ratio of a window.

    >>> columns([40.0] * 4, 100.0), columns([40.0] * 40, 100.0)
    ([(0, 4)], [(0, 8), (8, 16), (16, 24), (24, 32), (32, 40)])
    """
    whole = sum(tall) + GAP_Y * (len(tall) - 1)
    if whole < _LEAST_CUT or whole < 2 * width:
        return [(0, len(tall))]
    wanted = whole / max(1, round((_SHAPE * whole / (width + GAP_COLUMN)) ** 0.5))
    found: list[tuple[int, int]] = []
    first, height = 0, 0.0
    for row, high in enumerate(tall):
        if height and height + high > wanted + GAP_Y:
            found.append((first, row))
            first, height = row, 0.0
        height += high + GAP_Y
    return [*found, (first, len(tall))]


def _mean(position: list[float], neighbours: list[int], otherwise: float) -> float:
    return sum([position[box] for box in neighbours]) / len(neighbours) if neighbours else otherwise


# Lays out nested boxes level by level, from the inside out.
#
# A closed box hides what is inside it and keeps a fixed size. Each edge is lifted to the lowest box that holds both ends
# and drawn between that box's children; edges with the same lifted ends are merged and counted. So opening a box moves its
# surroundings apart and changes nothing inside them.


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
            rects[box["id"]] = Rect(x + (around.x if around else 0.0), y + (around.y if around else 0.0), *size[box["id"]])
    routes = [Route(u, v, tuple(dict.fromkeys(values))) for level in lifted.values() for (u, v), values in level.items()]
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


def _lift(view: GraphView, boxes: Mapping[int, Box], shown: Mapping[int, int]) -> dict[int, dict[tuple[int, int], list[int]]]:
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
    drawing = layered([size[box][0] for box in inside], [size[box][1] for box in inside], [(index[u], index[v]) for u, v in edges])
    for box, i in index.items():
        place[box] = (drawing.x[i] + PAD, drawing.y[i] + PAD + HEAD)
    return drawing.width + 2 * PAD, drawing.height + 2 * PAD + HEAD
