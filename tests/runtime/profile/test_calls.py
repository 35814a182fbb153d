"""What of an op's time is the call from Python: parts that add up, for ops that are short, and errors where nobody can tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError
from irscope.runtime.profile import calls

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_the_call_and_the_op_add_up() -> None:
    def f(x: Any, y: Any) -> Any:
        parts = torch.add(x, y).view(4, 2, 8).chunk(2, 1)
        return torch.sigmoid(parts[0]) + parts[1], torch.mm(y, y.t()), x.unsqueeze(0).expand(3, 8, 8).clone()

    p = irs.profile(f, torch.randn(8, 8), torch.randn(8, 8), seconds=0.05)
    table = p.calls().set_index("op")
    short = table[table["call ms"].notna()]
    assert {"aten::add", "aten::sigmoid", "aten::mm", "aten::view"} <= set(short.index)
    np.testing.assert_allclose(short["call ms"] + short["own ms"], short["ms"], rtol=1e-6)
    assert (short["call ms"] >= 0).all() and (short["own ms"] >= 0).all() and (short["call ms"] > 0).any()
    assert (table["low ms"] <= table["own ms"]).all() and (table["own ms"] <= table["high ms"]).all()


def test_of_long_ops_and_of_those_that_write_the_call_is_not_told() -> None:
    def f(x: Any) -> Any:
        y = torch.mm(x, x)
        y.add_(1.0)
        return torch.relu(y[:1, :1])

    p = irs.profile(f, torch.randn(700, 700), seconds=0.05)
    table = p.calls().set_index("op")
    assert table["call ms"].isna()["aten::mm"] and table.loc["aten::mm", "own ms"] == table.loc["aten::mm", "ms"]
    assert table["call ms"].isna()["aten::add_"]


def test_a_program_of_numpy_has_no_calls_to_tell() -> None:
    p = irs.profile(lambda x: np.exp(x) + 1, np.zeros(8, np.float32), seconds=0.02)
    with pytest.raises(ArgumentError, match="only where torch runs the program"):
        p.calls()


def test_what_is_run_in_a_row_leaves_its_memory_to_the_next() -> None:
    """With all results alive, those of a large op take new memory each, and the call looked as if it took a third of a layer norm."""
    graph = irs.load(lambda x: torch.relu(x), torch.randn(8))
    (node,) = [node for node in graph.nodes() if node.op == "aten::relu"]
    repeated = calls._repeated(graph, node, [torch.randn(8)], 40)
    assert len(repeated.outputs) == 1 and sum(each.op == "aten::relu" for each in repeated.nodes()) == 40
