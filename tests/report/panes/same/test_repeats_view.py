"""Repeated layers as a view: drawn once, with what differs; ids of the graph that is shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.report.panes import repeat_views

sys.path.insert(0, str(Path(__file__).parents[4] / "examples"))


def layers(count: int) -> Any:
    weights = [np.full((4, 4), place, np.float32) for place in range(count)]

    def program(x: Any) -> Any:
        for place, weight in enumerate(weights):
            x = np.tanh(x @ weight) * (0.5 + place) + x
        return x

    return irs.load(program, np.ones((2, 4), np.float32))


def test_layers_of_a_plain_and_of_a_fused_graph_are_one_view_with_what_differs() -> None:
    graph = layers(6)
    for shown in (graph, irs.fuse(graph).graph):
        view = max(repeat_views(shown, shown.names, min_nodes=2), key=lambda view: len(view["places"]))
        json.dumps(view)
        assert len(view["places"]) == 6
        assert ["0.5", "1.5", "2.5", "3.5", "4.5", "5.5"] in [row["values"] for row in view["varying"]]
        ids = {node.id for node in shown.nodes()}
        for place in view["places"]:
            assert set(place["nodes"]) <= ids
            assert len(place["nodes"]) == len(view["places"][0]["nodes"])
        assert all(len(row["values"]) == len(view["places"]) for row in view["varying"])


def test_constants_that_differ_are_named() -> None:
    graph = layers(6)
    [view] = repeat_views(graph, graph.names)
    assert view["label"].endswith("×6")
    assert "1 constant" in view["sentence"]
    [row] = [row for row in view["varying"] if row["kind"] == "constant"]
    assert row["values"] == ["0.5", "1.5", "2.5", "3.5", "4.5", "5.5"]


def test_parameters_go_by_what_they_are_called_in_every_layer() -> None:
    torch = pytest.importorskip("torch")

    class Layer(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.dense, self.norm = torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)

        def forward(self, x: Any) -> Any:
            return x + self.norm(torch.tanh(self.dense(x)))

    graph = irs.load(torch.nn.Sequential(*(Layer() for _ in range(5))).eval(), torch.rand(2, 4))
    [view] = repeat_views(graph, graph.names)
    assert len(view["places"]) == 5
    assert {"dense.weight", "dense.bias", "norm.weight", "norm.bias"} <= {row["name"] for row in view["varying"]}


def test_nothing_repeated_is_no_view() -> None:
    graph = irs.parse("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)")
    assert repeat_views(graph, graph.names) == []
