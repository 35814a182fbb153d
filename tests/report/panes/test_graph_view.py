"""Boxes for what a reader wants to see, none for the rest, and edges between the right ones."""

from __future__ import annotations

import pytest

import irscope as irs
from irscope.report.pages.exploration import Exploration
from irscope.report.panes.program_view import graph_view


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


RECURRENT = """graph(%x : Tensor, %h : Tensor):
  %a1 : Tensor = aten::matmul(%x, %x), scope: net.of_input
  %b1 : Tensor = aten::matmul(%h, %h), scope: net.of_state
  %c1 : Tensor = aten::relu(%b1), scope: net.of_state
  %h1 : Tensor = aten::matmul(%a1, %c1), scope: net
  %a2 : Tensor = aten::matmul(%x, %x), scope: net.of_input
  %b2 : Tensor = aten::matmul(%h1, %h1), scope: net.of_state
  %c2 : Tensor = aten::relu(%b2), scope: net.of_state
  %h2 : Tensor = aten::matmul(%a2, %c2), scope: net
  return (%h2)"""


def test_a_module_called_again_on_its_own_result_gets_a_box_for_each_call() -> None:
    view = graph_view(irs.parse(RECURRENT))
    parts = [box for box in view["boxes"] if box["kind"] == "module"]
    assert [box["label"] for box in parts] == ["net", "net.of_input", "net.of_state", "net.of_state"]
    assert [box["size"] for box in parts] == [8, 2, 2, 2]


@pytest.mark.parametrize(("training", "writes"), [(0, []), (1, ["batch_norm"])])
def test_a_batch_norm_writes_only_when_it_trains(training: int, writes: list[str]) -> None:
    graph = irs.parse(f"""graph(%x : Tensor, %w : Tensor, %b : Tensor, %mean : Tensor, %var : Tensor):
  %training : bool = prim::Constant[value={training}]()
  %rate : float = prim::Constant[value=0.1]()
  %y : Tensor = aten::batch_norm(%x, %w, %b, %mean, %var, %training, %rate, %rate, %training)
  return (%y)""")
    assert [box["label"] for box in graph_view(graph)["boxes"] if box["writes"]] == writes
