"""Nodes that act only while a model learns are dead when it is known not to."""

from __future__ import annotations

import pytest

import irscope as irs
from irscope.transforms.cleanup.dce import remove_dead_nodes

NORM = "aten::batch_norm(%x, %w, %w, %w, %w, %flag, %half, %half, %flag)"
DROPOUT = "aten::dropout(%x, %half, %flag)"


@pytest.mark.parametrize("op", [NORM, DROPOUT])
@pytest.mark.parametrize("learns", ["constant off", "constant on", "argument"])
def test_a_flag_that_is_known_to_be_off(op: str, learns: str) -> None:
    flag = f"  %flag : bool = prim::Constant[value={int(learns == 'constant on')}]()\n"
    head = "graph(%x : Float(2, 3), %w : Float(3)" + (", %flag : bool):\n" if learns == "argument" else f"):\n{flag}")
    half = "  %half : float = prim::Constant[value=0.5]()\n"
    graph = irs.parse(f"{head}{half}  %y : Float(2, 3) = {op}\n  return (%x)")
    left = [node.op for node in remove_dead_nodes(graph).after.nodes() if node.op != "prim::Constant"]
    assert bool(left) == (learns != "constant off")
