"""Boxes for what a reader wants to see, none for the rest, and edges between the right ones."""

from __future__ import annotations

from irscope.report.exploration import Exploration
from irscope.report.graph_view import graph_view


def test_boxes_come_after_their_parents_and_ids_are_unique(exploration: Exploration) -> None:
    seen = {0}
    for box in graph_view(exploration.graph)["boxes"]:
        assert box["parent"] in seen
        assert box["id"] not in seen
        seen.add(box["id"])


def test_constants_and_number_work_have_no_box(exploration: Exploration) -> None:
    labels = [box["label"] for box in graph_view(exploration.graph)["boxes"]]
    assert "Constant" not in labels
    assert "ListConstruct" not in labels


def test_edges_go_through_a_list_with_one_reader(exploration: Exploration) -> None:
    graph = exploration.graph
    view = graph_view(graph)
    cat = graph.node("cat").id
    made_by = {edge["source"] for edge in view["edges"] if edge["target"] == cat}
    assert made_by == {graph.producer[graph.value("b")].id, graph.node("c").id}


def test_a_write_in_place_is_marked(exploration: Exploration) -> None:
    writing = [box["label"] for box in graph_view(exploration.graph)["boxes"] if box["writes"]]
    assert writing == ["relu_"]


def test_a_group_names_its_ops_and_its_class(exploration: Exploration) -> None:
    view = graph_view(exploration.graph, exploration.class_of)
    groups = [box for box in view["boxes"] if box["kind"] == "group"]
    assert [box["label"] for box in groups] == ["sigmoid · mul", "tanh · mul"]
    assert all(box["equivalence_class"] >= 0 for box in groups)


def test_a_module_with_one_thing_in_it_gets_no_box(exploration: Exploration) -> None:
    modules = {box["label"]: box for box in graph_view(exploration.graph)["boxes"] if box["kind"] == "module"}
    assert "net.gate" not in modules
    assert modules["net.head"]["size"] == 3


def test_every_edge_ends_at_a_box(exploration: Exploration) -> None:
    view = graph_view(exploration.graph)
    known = {box["id"] for box in view["boxes"]}
    assert all(edge["source"] in known and edge["target"] in known for edge in view["edges"])
