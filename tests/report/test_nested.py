"""Boxes inside boxes: children stay inside, closed boxes hide, edges are lifted and counted."""

from __future__ import annotations

from irscope.report.layout import lay_out
from irscope.report.view_models import Box, BoxKind, Edge, GraphView


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
