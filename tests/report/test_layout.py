"""The layered drawing of random graphs; boxes inside boxes: children stay inside, closed boxes hide, edges are lifted and counted."""

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from irscope.report.layout import GAP_X, GAP_Y, lay_out, layered
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
    assert layout.rects == {}
    assert layout.routes == ()
