"""What differs between layers that stand in one box: in plain and in fused programs, with scopes and without."""

import json
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import UnknownName
from irscope.ir import Graph
from irscope.report.pages import ProgramIndex
from irscope.report.view_models import RepeatView


def layers(count: int) -> Graph:
    weights = [np.full((4, 4), place, np.float32) for place in range(count)]

    def program(x: Any) -> Any:
        for place, weight in enumerate(weights):
            x = np.tanh(x @ weight) * (0.5 + place) + x
        return x

    graph = irs.load(program, np.ones((2, 4), np.float32))
    assert isinstance(graph, Graph) and not any(node.scope for node in graph.nodes())
    return graph


def views(graph: Graph) -> list[RepeatView]:
    index = ProgramIndex(graph)
    found = index.repeats()
    json.dumps(list(found.values()))
    for box, view in found.items():
        assert view == index.repeat(box)
        assert all(len(row["values"]) == len(view["places"]) for row in view["varying"])
        for place in view["places"]:
            assert index.tree.box(index.tree.number[place["box"]])["label"] == place["label"]
    return list(found.values())


@pytest.mark.parametrize("fused", [False, True])
def test_layers_without_scopes_are_one_box_with_what_differs(fused: bool) -> None:
    graph = layers(6)
    [view] = views(irs.fuse(graph).graph if fused else graph)
    assert len(view["places"]) == 6 and view["label"].endswith("×6")
    constants = [row for row in view["varying"] if row["kind"] == "constant"]
    assert [row["values"] for row in constants] == [["0.5", "1.5", "2.5", "3.5", "4.5", "5.5"]]
    assert [row["kind"] for row in view["varying"]].count("chain") == 1
    assert view["sentence"].startswith("6 places are the same but for one constant")
    assert view["sentence"].endswith("; each reads the result of the one before")


def test_weights_go_by_what_they_are_called_in_every_layer(torch: Any) -> None:
    class Layer(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, rate: float) -> None:
            super().__init__()
            self.dense, self.norm, self.rate = torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), rate

        def forward(self, x: Any) -> Any:
            return x + self.norm(torch.tanh(self.dense(x))) * self.rate

    graph = irs.load(torch.nn.Sequential(*(Layer(0.5 + k) for k in range(5))).eval(), torch.rand(2, 4))
    assert isinstance(graph, Graph)
    [view] = views(irs.fuse(graph).graph)
    assert [place["label"] for place in view["places"]] == ["0", "1", "2", "3", "4"]
    assert {row["name"] for row in view["varying"] if row["own"]} == {"dense.weight", "dense.bias", "norm.weight", "norm.bias"}
    marked = [(line["left"][k]["text"], line["right"][k]["text"]) for line in view["beside"]["lines"]
              for k, word in enumerate(line["left"]) if word["hole"] >= 0]  # fmt: skip
    assert ("0.5", "1.5") in marked and not any("weight" in word for pair in marked for word in pair)
    assert {"dense.weight", "dense.bias", "norm.weight", "norm.bias"} <= {row["name"] for row in view["varying"]}
    assert view["varying"][0]["values"] == ["0.5", "1.5", "2.5", "3.5", "4.5"]


def test_sizes_that_differ_are_types_and_places_that_vary_together_are_one_row() -> None:
    lines, width = "", 4
    for k in range(3):
        lines += f"  %k{k} : int[] = prim::Constant[value=[{width + 1}, 2]]()\n"
        lines += f"  %r{k} : Float({width + 1}, 2) = aten::reshape(%p{k}, %k{k})\n"
        lines += f"  %t{k} : Float({width + 1}, 2) = aten::tanh(%r{k})\n  %e{k} : Float({width + 1}, 2) = aten::exp(%t{k})\n"
        width += 1
    inputs = ", ".join(f"%p{k} : Float({2 * (5 + k)})" for k in range(3))
    [view] = views(irs.parse(f"graph({inputs}):\n{lines}  return (%e0, %e1, %e2)"))
    kinds = {row["kind"]: row for row in view["varying"]}
    assert kinds["constant"]["values"] == ["(5, 2)", "(6, 2)", "(7, 2)"]
    assert "and 2 more that vary with it" in kinds["type"]["where"]
    assert kinds["value"]["values"] == ["%p0", "%p1", "%p2"]


def test_without_repetition_there_is_no_box_and_other_boxes_have_no_table() -> None:
    graph = irs.parse("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)")
    assert views(graph) == []
    with pytest.raises(UnknownName, match="holds no modules that are alike"):
        ProgramIndex(graph).repeat(graph.node("y").id)
    with pytest.raises(UnknownName, match="there is no box"):
        ProgramIndex(graph).repeat(-77)


def test_a_long_flat_program_is_one_body_again_and_again() -> None:
    ops = ["tanh", "exp", "neg", "sigmoid", "abs"]
    lines = "".join(f"  %v{k} : Float(4) = aten::{ops[k % 5]}(%v{k - 1})\n" for k in range(1, 12_001))
    graph = irs.parse(f"graph(%v0 : Float(4)):\n{lines}  return (%v12000)")
    boxes = ProgramIndex(graph).first_graph()["boxes"]
    assert [box.get("copies") for box in boxes if box["kind"] == "repeat"] == [2399]
    assert all(len({node.op for node in nodes}) == 5 for nodes in ProgramIndex(graph).tree.modules[1].values() if len(nodes) == 5)
