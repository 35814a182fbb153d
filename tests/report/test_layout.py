"""The layered drawing of random graphs; boxes inside boxes: children stay inside, closed boxes hide, edges are lifted and counted."""

import random
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from irscope.report.layout import FEW, GAP_X, GAP_Y, Point, lay_out, layered
from irscope.report.view_models import Box, BoxKind, Edge, GraphView


@st.composite
def drawings(draw: st.DrawFn) -> tuple[list[float], list[float], list[tuple[int, int]]]:
    count = draw(st.integers(1, 30))
    widths = draw(st.lists(st.integers(10, 200).map(float), min_size=count, max_size=count))
    box = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(box, box), max_size=60, unique=True))
    return widths, [30.0] * count, edges


@settings(max_examples=150, deadline=None)
@given(drawings())
def test_boxes_do_not_overlap(drawing: tuple[list[float], list[float], list[tuple[int, int]]]) -> None:
    widths, heights, edges = drawing
    placed = layered(widths, heights, edges)
    rows: dict[float, list[int]] = {}
    for box, y in enumerate(placed.y):
        rows.setdefault(y, []).append(box)
    for row in rows.values():
        row.sort(key=lambda box: placed.x[box])
        for left, right in pairwise(row):
            assert placed.x[left] + widths[left] + GAP_X <= placed.x[right] + 1e-6
    assert all(x >= -1e-6 and x + w <= placed.width + 1e-6 for x, w in zip(placed.x, widths, strict=True))


@settings(max_examples=150, deadline=None)
@given(drawings())
def test_every_edge_of_an_acyclic_graph_points_down(drawing: tuple[list[float], list[float], list[tuple[int, int]]]) -> None:
    widths, heights, edges = drawing
    edges = [(u, v) for u, v in edges if u < v]
    placed = layered(widths, heights, edges)
    for u, v in edges:
        assert placed.y[v] >= placed.y[u] + 30.0 + GAP_Y


def samples(path: tuple[Point, ...]) -> Iterator[Point]:
    """Points along a path: its corners, and nine between two of them on the curve that `svg` draws."""
    for (x, y), (to_x, to_y) in pairwise(path):
        for k in range(11):
            t = k / 10
            ease = t * t * (3 - 2 * t)  # the Bézier curve with handles at half the height
            across = t if x == to_x or y == to_y else ease
            yield x + (to_x - x) * across, y + (to_y - y) * (t if x == to_x or y == to_y else 1.5 * t - 1.5 * t * t + t**3)


@settings(max_examples=150, deadline=None)
@given(drawings(), st.booleans(), st.lists(st.sampled_from([26.0, 40.0, 300.0]), min_size=30, max_size=30))
def test_no_edge_crosses_a_box_that_it_does_not_belong_to(
    drawing: tuple[list[float], list[float], list[tuple[int, int]]], few: bool, tall: list[float]
) -> None:
    widths, _, edges = drawing
    heights = tall[: len(widths)]
    placed = layered(widths, heights, edges, few=few)
    for (u, v), path in zip(edges, placed.paths, strict=True):
        assert path is not None or u == v or not few
        for x, y in samples(path or ()):
            for box in {*range(len(widths))} - {u, v}:
                is_beside = not placed.x[box] < x < placed.x[box] + widths[box]
                assert is_beside or not placed.y[box] < y < placed.y[box] + heights[box]


def test_a_cycle_is_drawn_in_program_order() -> None:
    placed = layered([10.0] * 3, [10.0] * 3, [(0, 1), (1, 2), (2, 0)])
    assert placed.y == sorted(placed.y)


def test_a_long_chain_needs_no_deep_stack() -> None:
    count = 30_000
    placed = layered([10.0] * count, [10.0] * count, [(i, i + 1) for i in range(count - 1)])
    assert 0.5 < placed.width / placed.height < 3, "it continues in further columns"
    by_column: dict[float, list[float]] = {}
    for x, y in zip(placed.x, placed.y, strict=True):
        by_column.setdefault(x, []).append(y)
    assert all(tops == sorted(tops) for tops in by_column.values())
    assert sorted(by_column) == list(by_column)


def test_one_more_box_at_the_end_moves_nothing_else_in_its_rank_order() -> None:
    generator = random.Random(1)
    edges = [(generator.randrange(i), i) for i in range(1, 40)]
    before = layered([40.0] * 40, [30.0] * 40, edges)
    after = layered([40.0] * 41, [30.0] * 41, [*edges, (39, 40)])
    assert before.y == after.y[:40]


def test_boxes_that_nothing_joins_are_set_in_rows_of_the_shape_of_a_window() -> None:
    few = layered([100.0] * 6, [40.0] * 6, [])
    assert len(set(few.y)) == 1
    many = layered([100.0 + k for k in range(60)], [40.0] * 60, [])
    assert 1 < many.width / many.height < 3
    corners = sorted(zip(many.y, many.x, strict=True))
    assert all(b[0] > a[0] or b[1] >= a[1] + 100 for a, b in pairwise(corners))
    assert layered([5000.0, 10.0], [40.0, 40.0], []).width == 5000


def box(id: int, parent: int = 0, kind: BoxKind = "op") -> Box:
    return Box(
        id=id, parent=parent, kind=kind, label=f"box {id}", detail="", category="other", values=[], writes=False,
        equivalence_class=-1, size=1,
    )  # fmt: skip


def view(closed: list[int]) -> GraphView:
    boxes = [box(1), box(2, 0, "module"), box(3, 2), box(4, 2), box(5, 0, "module"), box(6, 5)]
    edges = [Edge(source=s, target=t, value=v) for s, t, v in [(1, 3, 10), (3, 4, 11), (3, 6, 11), (4, 6, 12), (2, 3, 13)]]
    return GraphView(boxes=boxes, edges=edges, closed=closed)


def test_children_lie_inside_their_parent() -> None:
    layout = lay_out(view([]))
    for child, parent in [(3, 2), (4, 2), (6, 5)]:
        inner, outer = layout.rects[child], layout.rects[parent]
        assert outer.x < inner.x
        assert inner.x + inner.width < outer.x + outer.width
        assert outer.y < inner.y
        assert inner.y + inner.height < outer.y + outer.height


def test_edges_are_lifted_to_the_lowest_common_box_and_merged() -> None:
    routes = {(route.source, route.target): route.values for route in lay_out(view([])).routes}
    assert routes == {(1, 2): (10,), (3, 4): (11,), (2, 5): (11, 12)}


def test_a_closed_box_hides_what_is_inside_and_what_is_inside_that() -> None:
    layout = lay_out(view([2, 5]))
    assert set(layout.rects) == {1, 2, 5}
    assert {(route.source, route.target) for route in layout.routes} == {(1, 2), (2, 5)}


def test_an_empty_program_has_an_empty_picture() -> None:
    layout = lay_out(GraphView(boxes=[], edges=[], closed=[]))
    assert layout.rects == {} and layout.routes == ()


def chain(count: int) -> GraphView:
    edges = [*((k, k + 1) for k in range(1, count)), (1, count)]
    return GraphView(boxes=[box(k) for k in range(1, count + 1)], edges=[Edge(source=u, target=v, value=u) for u, v in edges], closed=[])


def test_a_picture_of_few_boxes_is_one_column_with_all_its_edges() -> None:
    few, many = lay_out(chain(FEW - 1)), lay_out(chain(2 * FEW))
    assert few.height > 5 * few.width and all(route.points for route in few.routes)
    assert many.height < 3 * many.width
    assert [route.points for route in many.routes if route.source == 1 and route.target == 2 * FEW] == [None], "two stubs"
