"""Places the boxes of a picture and routes its edges: layered drawings inside each other, in near-linear time.

A level is the boxes directly inside one box. Levels are drawn from the inside out, each top to bottom:

1. Cycles are broken by a depth-first walk in the given order, so program order decides what points up.
2. Rows are longest paths; what reads little sinks to just above its first user; rows of many boxes are split.
3. An edge bends through a free place in every row that it passes. Those that pass more than `MAX_SPAN` rows in drawings of many boxes do
   not, nor those that pass any from a box with `MANY` users: they are drawn as two stubs.
4. Four rounds of barycentre sweeps order each row; ties keep the given order, so small changes move little.
5. Six rounds of mean alignment set x, keeping boxes apart from both sides. Boxes come first, so that a chain of them is straight and the
   edges that pass it go around.
6. A drawing of many boxes that is much taller than wide continues in further columns.

**No edge crosses a box that it does not belong to.** Its path is vertical within the rows: at its ends inside the width of its own
box, between them in the place of its bend, and places of one row do not overlap. It is a curve only in the gap between two rows, where no
boxes are. To another column it goes below all rows, up between the two columns, and above all rows.

The two passes of a joint graph stand side by side, and what one keeps for the other goes straight across.

The explorer lays out in the page, in `layered.ts`, by the same steps. Method: Sugiyama, Tagawa and Toda 1981, with the simplifications
of Mozilla's iongraph.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil, inf
from typing import Final

from irscope._base.nested import grouped
from irscope.report.view_models import Box, GraphView

GAP_X: Final = 18.0
GAP_Y: Final = 24.0
MAX_SPAN: Final = 6
MANY: Final = 8  # A value with this many users is available everywhere: its users need not be near it.
FEW: Final = 40  # A picture of fewer boxes stays in one column, and all its edges are routed.
_MOST_IN_ROW = 12
_SWEEPS = 4
_ALIGNMENTS = 6
_BEND_WIDTH = -4.0  # Two edges on their way through a row are GAP_X and this apart.
_GAP_COLUMN = 40.0
_LEAST_CUT = 560.0  # Drawings less tall than this, in pixels, stay in one column.
_LOW = 80.0  # A last column less tall than this, in pixels, is none: a result alone.
_WIDE = 640.0  # Unconnected boxes stay in one row if it is less wide than this, in pixels.
_SHAPE = 1.25  # The target aspect ratio, width to height, of a drawing cut into columns.
_PORTS = 14.0  # The distance in pixels between edges that leave or enter one box, where it has room.
_LANES = (5.0, 8.0, 11.0)  # The distances from the rows, in pixels, of edges on their way to another column.

Point = tuple[float, float]


@dataclass(frozen=True)
class Layered:
    """Top left corners of the boxes, the path of each edge (None for one without a route), and the size of the whole drawing."""

    x: list[float]
    y: list[float]
    paths: list[tuple[Point, ...] | None]
    width: float
    height: float


def layered(
    widths: Sequence[float], heights: Sequence[float], edges: Sequence[tuple[int, int]], *, anchored: Collection[int] = (),
    few: bool = False,
) -> Layered:  # fmt: skip
    """Place boxes of the given sizes; an edge `(u, v)` wants `v` below `u`.

    `anchored` boxes read something from outside the drawing, and so do not sink; a drawing of `few` boxes is not cut into columns.
    """
    if not widths:
        return Layered([], [], [], 0.0, 0.0)
    if not edges and sum(widths) > _WIDE:
        return _on_shelves(widths, heights)
    turned = _without_cycles(len(widths), edges)
    users = Counter(u for u, _ in edges)
    farthest = [1 if users[u] >= MANY else inf if few else MAX_SPAN for u, _ in edges]
    rows = _Rows(widths, turned, _split(_ranks(len(widths), turned, anchored)), farthest)
    for _ in range(_SWEEPS):
        rows.sweep(down=True)
        rows.sweep(down=False)
    rows.spread()
    for turn in range(_ALIGNMENTS):
        rows.align(down=turn % 2 == 0)
    placed = rows.placed(heights, cut=not few)
    paths = [path if path is None or turned[k] == edges[k] else path[::-1] for k, path in enumerate(placed.paths)]
    return Layered(placed.x, placed.y, paths, placed.width, placed.height)


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
    return Layered(x, y, [], max(at + width for at, width in zip(x, widths, strict=True)), top + tall)


def _without_cycles(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The edges, with back edges of a depth-first walk reversed."""
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
    return [(v, u) if (u, v) in back else (u, v) for u, v in edges]


def _ranks(count: int, edges: Sequence[tuple[int, int]], anchored: Collection[int]) -> list[int]:
    """The row of each box: below all its producers, and as low as its users allow where that shortens its edges."""
    out: list[list[int]] = [[] for _ in range(count)]
    reads = [0] * count
    for u, v in edges:
        if u != v:
            out[u].append(v)
            reads[v] += 1
    fewest = [MANY] * count  # the fewest users that any of its producers has
    for u, v in edges:
        fewest[v] = min(fewest[v], len(out[u]))
    rank, waiting = [0] * count, reads[:]
    order = [box for box in range(count) if not reads[box]]
    for u in order:
        for v in out[u]:
            rank[v] = max(rank[v], rank[u] + 1)
            waiting[v] -= 1
            if not waiting[v]:
                order.append(v)
    for u in reversed(order):
        if out[u] and u not in anchored and (reads[u] == 0 or reads[u] < len(out[u]) or fewest[u] >= MANY):
            rank[u] = min(rank[v] for v in out[u]) - 1
    return rank


def _split(rank: Sequence[int]) -> list[int]:
    """The rows with those of many boxes split, in program order, and without empty ones."""
    held, taken, split = Counter(rank), Counter[int](), []
    parts = [ceil(held[row] / _MOST_IN_ROW) for row in range(max(rank) + 1)]
    starts = [0, *accumulate(parts)]
    for row in rank:
        split.append(starts[row] + taken[row] // ceil(held[row] / parts[row]))
        taken[row] += 1
    return split


class _Rows:
    """Boxes and the bends of edges by row, with their neighbours one row up and down; edges over more rows than `farthest` have none."""

    def __init__(self, widths: Sequence[float], edges: Sequence[tuple[int, int]], rank: Sequence[int], farthest: Sequence[float]) -> None:
        self.count = len(widths)
        self.width = list(widths)
        self.rank = rank
        self.rows: list[list[int]] = [[] for _ in range(max(rank) + 1)]
        self.up: list[list[int]] = [[] for _ in widths]
        self.down: list[list[int]] = [[] for _ in widths]
        for box, row in enumerate(rank):
            self.rows[row].append(box)
        ends = zip(edges, farthest, strict=True)
        self.chains = [self._connect(u, v) if u != v and rank[v] - rank[u] <= most else None for (u, v), most in ends]
        self.position = [0.0] * len(self.width)
        for each in self.rows:
            self._renumber(each)
        self.x = [0.0] * len(self.width)

    def _connect(self, u: int, v: int) -> list[int]:
        """Make the bends of an edge; returns what it passes, with its ends."""
        chain = [u]
        for row in range(self.rank[u] + 1, self.rank[v]):
            chain.append(len(self.width))
            self.width.append(_BEND_WIDTH)
            self.up.append([])
            self.down.append([])
            self.rows[row].append(chain[-1])
        chain.append(v)
        for above, below in pairwise(chain):
            self.down[above].append(below)
            self.up[below].append(above)
        return chain

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
        """Move each box towards the mean of its neighbours, as far as the boxes beside it allow, and then the bends between boxes."""
        neighbours = self.up if down else self.down
        for row in self.rows if down else reversed(self.rows):
            wanted = [_mean(self.x, self._boxes(neighbours[box]), self.x[box]) for box in row]
            apart = [0.0, *((self.width[a] + self.width[b]) / 2 + GAP_X for a, b in pairwise(row))]
            least = list(accumulate(apart))  # from the first to each: they are apart if what is beyond does not fall
            beyond = [want - at for want, at in zip(wanted, least, strict=True)]
            own = [-inf, *_rising([by for by, box in zip(beyond, row, strict=True) if box < self.count]), inf]
            met, between = 0, list[float]()
            for by, box in zip(beyond, row, strict=True):
                met += box < self.count
                between.append(own[met] if box < self.count else min(max(by, own[met]), own[met + 1]))
            for box, by, at in zip(row, _rising(between), least, strict=True):
                self.x[box] = by + at

    def _boxes(self, neighbours: list[int]) -> list[int]:
        """Those that are boxes, if one is: what is next to each other is straight, and edges that pass rows go around."""
        return [each for each in neighbours if each < self.count] or neighbours

    def placed(self, heights: Sequence[float], *, cut: bool) -> Layered:
        """The finished drawing, broken into columns if that is wanted and it is long."""
        tall = [max((heights[box] for box in row if box < self.count), default=0.0) for row in self.rows]
        left = [min(self.x[each] - self.width[each] / 2 for each in row) for row in self.rows]
        right = [max(self.x[each] + self.width[each] / 2 for each in row) for row in self.rows]
        parts = columns(tall, max(right) - min(left)) if cut else [(0, len(tall))]
        column, edge_of, tops = list[int](), list[float](), list[float]()
        edge = lowest = 0.0
        for first, last in parts:
            start, top = min(left[first:last]), 0.0
            edge_of.append(edge)
            for row in range(first, last):
                column.append(len(edge_of) - 1)
                tops.append(top)
                for each in self.rows[row]:
                    self.x[each] += edge - start
                top += tall[row] + GAP_Y
            lowest = max(lowest, top - GAP_Y)
            edge += max(right[first:last]) - start + _GAP_COLUMN
        x = [self.x[box] - self.width[box] / 2 for box in range(self.count)]
        # a small box beside a large open one stays near the top, where its edges come in
        y = [tops[row] + min((tall[row] - heights[box]) / 2, GAP_Y) for box, row in enumerate(self.rank)]
        bottom = [y[box] + heights[box] for box in range(self.count)]
        ways = _Ways(column, edge_of, tops, [top + high for top, high in zip(tops, tall, strict=True)])
        ports = zip(self.chains, self._ports(), strict=True)
        paths = [None if chain is None else self._path(chain, ends, y, bottom, ways) for chain, ends in ports]
        return Layered(x, y, paths, edge - _GAP_COLUMN, max(0.0, lowest))

    def _ports(self) -> list[tuple[float, float]]:
        """Where each edge leaves its source and enters its target: edges side by side do not cross at a box, and the one that goes
        straight down is in the middle, if the others have room beside it."""
        leaving: list[list[tuple[float, int]]] = [[] for _ in range(self.count)]
        entering: list[list[tuple[float, int]]] = [[] for _ in range(self.count)]
        for edge, chain in enumerate(self.chains):
            if chain:
                leaving[chain[0]].append((self.x[chain[1]], edge))
                entering[chain[-1]].append((self.x[chain[-2]], edge))
        ports = [[0.0, 0.0] for _ in self.chains]
        for side, by_box in enumerate((leaving, entering)):
            for box, goals in enumerate(by_box):
                step = min(0.7 * self.width[box] / (len(goals) - 1), _PORTS) if len(goals) > 1 else 0.0
                middle = (len(goals) - 1) / 2
                straight = [k for k, (goal, _) in enumerate(sorted(goals)) if abs(goal - self.x[box]) < _PORTS / 2]
                if len(straight) == 1 and (abs(straight[0] - middle) + middle) * step < 0.45 * self.width[box]:
                    middle = straight[0]
                for k, (_, edge) in enumerate(sorted(goals)):
                    ports[edge][side] = self.x[box] + (k - middle) * step
        return [(first, last) for first, last in ports]

    def _path(self, chain: list[int], ports: tuple[float, float], y: list[float], bottom: list[float], ways: "_Ways") -> tuple[Point, ...]:
        source, target = chain[0], chain[-1]
        at = [(ports[0], bottom[source])]
        for k, each in enumerate(chain):
            row = self.rank[source] + k
            here = ports[0] if k == 0 else ports[1] if each == target else self.x[each]
            if k:
                at += [*ways.between(row - 1, at[-1][0], here), (here, ways.top[row])]
            if each != target:
                at.append((here, ways.bottom[row]))
        at.append((ports[1], y[target]))
        return tuple(point for k, point in enumerate(at) if k == 0 or point != at[k - 1])


@dataclass(frozen=True)
class _Ways:
    """The free space of a drawing: the gaps between rows, and the way from each column to the next."""

    column: list[int]
    left: list[float]  # The left edge of each column.
    top: list[float]
    bottom: list[float]

    def between(self, row: int, x: float, after: float) -> list[Point]:
        """The corners of an edge on its way from a row to the next, where that begins another column."""
        column = self.column[row + 1]
        if column == self.column[row]:
            return []
        lane = _LANES[int(after) % len(_LANES)]
        foot, side = self.bottom[row] + lane, self.left[column] - _GAP_COLUMN / 2 + 3 * (lane - _LANES[1])
        return [(x, foot), (side, foot), (side, -lane), (after, -lane)]


def columns(tall: Sequence[float], width: float) -> list[tuple[int, int]]:
    """The ranges of rows, with these heights, that form the columns: a drawing much taller than wide is cut to about the
    aspect ratio of a window, into columns the highest of which is as low as can be.

    >>> columns([40.0] * 4, 100.0), columns([40.0] * 40, 100.0), columns([40.0, 900.0, 40.0], 100.0)
    ([(0, 4)], [(0, 8), (8, 16), (16, 24), (24, 32), (32, 40)], [(0, 1), (1, 3)])
    """
    whole = sum(tall) + GAP_Y * (len(tall) - 1)
    if whole < _LEAST_CUT or whole < 2 * width:
        return [(0, len(tall))]
    parts = max(1, round((_SHAPE * whole / (width + _GAP_COLUMN)) ** 0.5))
    most = whole / parts - GAP_Y
    while len(found := _below(tall, most)) > parts:
        most += GAP_Y
    if len(found) > 1 and sum(tall[slice(*found[-1])]) < _LOW:
        found[-2:] = [(found[-2][0], len(tall))]
    return found


def _below(tall: Sequence[float], most: float) -> list[tuple[int, int]]:
    """Ranges of rows that are not much higher than that, unless a row is."""
    found: list[tuple[int, int]] = []
    first, height = 0, 0.0
    for row, high in enumerate(tall):
        if height and height + high > most + GAP_Y:
            found.append((first, row))
            first, height = row, 0.0
        height += high + GAP_Y
    return [*found, (first, len(tall))]


def _rising(wanted: list[float]) -> list[float]:
    """Numbers that do not fall, halfway between what pushing from left and from right gives."""
    low, high = accumulate(wanted, max), reversed(list(accumulate(reversed(wanted), min)))
    return [(a + b) / 2 for a, b in zip(low, high, strict=True)]


def _mean(position: list[float], neighbours: list[int], otherwise: float) -> float:
    return sum([position[box] for box in neighbours]) / len(neighbours) if neighbours else otherwise


# Boxes inside boxes.
#
# A closed box hides what is inside it and keeps a fixed size. Each edge is lifted to the lowest box that holds both ends
# and drawn between that box's children; edges with the same lifted ends are merged and counted. So opening a box moves its
# surroundings apart and changes nothing inside them.

PAD: Final = 12.0
HEAD: Final = 26.0  # The height of the title of an open box.
_MOST_LABEL = 32
MOST_DETAIL: Final = 38  # Longer lines are cut.
_LABEL_CHAR, _DETAIL_CHAR = 7.9, 6.3
_OP_HEIGHT, _TALL_HEIGHT = 26.0, 40.0
_MIN_WIDTH = 56.0


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
    points: tuple[Point, ...] | None
    """The corners of its path: between two of one x or one y it is straight, otherwise a curve. None for an edge without a route."""


@dataclass(frozen=True)
class Layout:
    """The positions of all visible boxes and edges."""

    rects: Mapping[int, Rect]  # Rectangles by box id; hidden boxes are missing.
    routes: tuple[Route, ...]
    reads: Collection[int]  # Boxes that read something from outside the box around them.
    feeds: Collection[int]  # Boxes that produce something used outside the box around them.
    copies: Mapping[int, int]  # The number of equal parts that a box stands for or is one of, where that is more than one.
    labels: Mapping[int, str]  # What is written on each box: its label, without the middle if it is long.
    width: float
    height: float


def lay_out(view: GraphView, closed: Collection[int] | None = None) -> Layout:
    """Lay out a graph view with these boxes closed (default: those of the view)."""
    shut = frozenset(view["closed"] if closed is None else closed)
    shown = _shown(view, shut)
    visible = [box for box in view["boxes"] if shown[box["id"]] == box["id"]]
    children = grouped((box["parent"], box["id"]) for box in visible)
    crossing = _Crossings(view)
    levels = _lift(view, shown, crossing)
    copies, labels = _copies(view), _labels(visible)
    few = len(visible) < FEW
    lanes = {box["id"] for box in visible if box["kind"] == "lane"}
    size: dict[int, tuple[float, float]] = {}
    inside: dict[int, Layered] = {}

    def place(around: int, within: list[int]) -> Layered:
        index = {box: k for k, box in enumerate(within)}
        sizes = [size[box] for box in within]
        edges = [(index[u], index[v]) for u, v in levels.get(around, ()) if not {u, v} <= lanes]
        anchored = {index[box] for box in crossing.anchored & index.keys()}
        return layered([w for w, _ in sizes], [h for _, h in sizes], edges, anchored=anchored, few=few)

    for box in reversed(visible):  # boxes come after their parents, so this is inside out
        within = children.get(box["id"])
        size[box["id"]] = _own_size(box, labels[box["id"]], copies.get(box["id"], 0))
        if within:
            drawing = inside[box["id"]] = place(box["id"], within)
            size[box["id"]] = max(drawing.width + 2 * PAD, size[box["id"]][0]), drawing.height + 2 * PAD + HEAD
    whole = inside[0] = place(0, children.get(0, []))
    rects: dict[int, Rect] = {0: Rect(-PAD, -PAD - HEAD, whole.width + 2 * PAD, 0.0)}
    routes: list[Route] = []
    for around in [0, *(box["id"] for box in visible)]:
        if around not in inside:
            continue
        drawing, outer = inside[around], rects[around]
        left, top = outer.x + (outer.width - drawing.width) / 2, outer.y + PAD + HEAD
        for box_id, x, y in zip(children.get(around, ()), drawing.x, drawing.y, strict=True):
            rects[box_id] = Rect(left + x, top + y, *size[box_id])
        paths = iter(drawing.paths)
        for (u, v), values in levels.get(around, {}).items():
            path = None if {u, v} <= lanes else next(paths)
            points = None if path is None else tuple((left + x, top + y) for x, y in path)
            if {u, v} <= lanes and len(lanes) == 2:
                points = _across(rects[u], rects[v])
            routes.append(Route(u, v, tuple(dict.fromkeys(values)), points))
    del rects[0]
    return Layout(rects, tuple(routes), crossing.reads, crossing.feeds, copies, labels, whole.width, whole.height)


def _across(source: Rect, target: Rect) -> tuple[Point, ...]:
    """The way from one of two boxes side by side to the other, at the height of their titles."""
    y = max(source.y, target.y) + HEAD / 2
    return ((source.x + source.width, y), (target.x, y)) if source.x < target.x else ((source.x, y), (target.x + target.width, y))


def _own_size(box: Box, label: str, copies: int) -> tuple[float, float]:
    extras = (18 + 8 * len(str(copies)) if copies else 0) + (14 if box["writes"] else 0)
    detail = _letters(box["detail"][:MOST_DETAIL]) * _DETAIL_CHAR
    return max(_MIN_WIDTH, ceil(max(_letters(label) * _LABEL_CHAR + extras, detail) + 22)), _TALL_HEIGHT if box["detail"] else _OP_HEIGHT


def _letters(text: str) -> int:
    """The length of a text, where an ideograph takes the room of two letters."""
    return len(text) + sum(letter >= "\u2e80" for letter in text)


def _labels(boxes: Sequence[Box]) -> dict[int, str]:
    """The labels, without the middle if they are long: paths of modules differ at their ends. Those that would be alike stay whole."""
    half = (_MOST_LABEL - 1) // 2
    whole = {box["label"] for box in boxes}
    cut = {label: label if len(label) <= _MOST_LABEL else f"{label[: _MOST_LABEL - 1 - half]}…{label[-half:]}" for label in whole}
    alike = Counter(cut.values())
    return {box["id"]: box["label"] if alike[cut[box["label"]]] > 1 else cut[box["label"]] for box in boxes}


def _copies(view: GraphView) -> dict[int, int]:
    """The number of equal parts of each box: what it stands for, or the boxes of its equivalence class."""
    members = Counter(box["equivalence_class"] for box in view["boxes"])
    members[-1] = 0  # of no class
    found = {box["id"]: box.get("copies") or members[box["equivalence_class"]] for box in view["boxes"]}
    return {box: count for box, count in found.items() if count > 1}


def _shown(view: GraphView, shut: frozenset[int]) -> dict[int, int]:
    """The box drawn for each box: itself, or the outermost closed box around it."""
    shown: dict[int, int] = {0: 0}
    for box in view["boxes"]:
        parent = box["parent"]
        hidden = parent in shut or shown[parent] != parent
        shown[box["id"]] = shown[parent] if hidden else box["id"]
    return shown


class _Crossings:
    """Boxes with edges across the border of the box around them; such an edge itself is drawn further out."""

    def __init__(self, view: GraphView) -> None:
        self.reads = {box["id"] for box in view["boxes"] if box.get("crosses", 0) & 1}
        self.feeds = {box["id"] for box in view["boxes"] if box.get("crosses", 0) & 2}
        self.anchored = set(self.reads)
        """Boxes that read something from outside with fewer than `MANY` users: they belong near the top of their box."""
        self._users = Counter(edge["source"] for edge in view["edges"])

    def enter(self, box: int, source: int) -> None:
        """Note that a box reads something, made by `source`, from outside the box around it."""
        self.reads.add(box)
        if self._users[source] < MANY:
            self.anchored.add(box)


def _lift(view: GraphView, shown: Mapping[int, int], crossing: _Crossings) -> dict[int, dict[tuple[int, int], list[int]]]:
    """The edges of each level, between boxes of that level. Takes time linear in the nesting depth per edge, which is small."""
    parent = {box["id"]: box["parent"] for box in view["boxes"]}
    depth: dict[int, int] = {0: 0}
    for box in view["boxes"]:
        depth[box["id"]] = depth[box["parent"]] + 1
    levels: dict[int, dict[tuple[int, int], list[int]]] = {}
    for edge in view["edges"]:
        u, v = shown[edge["source"]], shown[edge["target"]]
        while depth[u] > depth[v]:
            crossing.feeds.add(u)
            u = parent[u]
        while depth[v] > depth[u]:
            crossing.enter(v, edge["source"])
            v = parent[v]
        while parent[u] != parent[v]:
            crossing.feeds.add(u)
            crossing.enter(v, edge["source"])
            u, v = parent[u], parent[v]
        if u != v:  # else one end is inside the other: a block reading its own parameter
            levels.setdefault(parent[u], {}).setdefault((u, v), []).append(edge["value"])
    return levels
