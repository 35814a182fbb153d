"""Execution judges the classes of the examples: at every step each group computes with its class's body what it computed with its own,
in float64 by the reference, and in its own types through compiled kernels."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import irscope as irs
from irscope.ir import Graph, Node, TensorType, Value
from irscope.runtime.program.groups import group_alone, operand_like
from irscope.runtime.reference import run_reference
from irscope.transforms.dedup import RANK, RELATIONS, Relation

EXAMPLES = Path(__file__).parents[3] / "examples"
STEPS = RELATIONS[RANK["order"] :]


def _bert() -> tuple[Any, ...]:
    from bert import bert, tokens

    return bert(layers=2, hidden=64), tokens(2, 16)


def _lstm() -> tuple[Any, ...]:
    from lstm import lstm

    return lstm(inputs=8, hidden=16), torch.randn(5, 4, 8)


def _momentum() -> tuple[Any, ...]:
    from momentum import momentum

    return momentum, np.ones((4, 8), np.float32), np.ones((4, 8), np.float32)


def _softmax() -> tuple[Any, ...]:
    from softmax import softmax

    return softmax, np.ones((4, 8), np.float32)


def _yolov3() -> tuple[Any, ...]:
    from yolov3 import yolov3

    return yolov3(width=4, classes=2), torch.rand(1, 3, 64, 64)


def arguments(values: tuple[Value, ...], seed: int, *, wide: bool) -> list[Any]:
    """Random operands of a group; floats in float64 where it is to be the judge."""
    found = []
    for place, value in enumerate(values):
        assert isinstance(value.type, TensorType) and value.type.dtype is not None
        is_float = value.type.dtype.startswith("float")
        found.append(operand_like(value.type, seed + place, "float64" if wide and is_float else ""))
        assert found[-1] is not None
    return found


def run(graph: Graph, group: Node, operands: list[Any]) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(each) for each in run_reference(group_alone(graph, group), *operands)]


def check(graph: Graph, step: Relation, *, kernels: bool) -> int:
    """Every member of every class; gives how many were compared."""
    d = irs.dedup(graph, relation=step)
    after = d.apply()
    assert isinstance(after, Graph)
    count = 0
    for group in (member for cls in d.classes if len(cls) > 1 for member in cls.members):
        assert isinstance(group, Node)
        operands = arguments(group.inputs, count, wide=True)
        for ours, theirs in zip(run(after, group, operands), run(graph, group, operands), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-13)
        if kernels:
            narrow = arguments(group.inputs, count, wide=False)
            made, own = (irs.compile(group_alone(each, group))(*narrow) for each in (after, graph))
            pairs = zip(made, own, strict=True) if isinstance(made, tuple) else [(made, own)]
            for ours, theirs in pairs:
                np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-6)
        count += 1
    return count


@pytest.mark.long
@pytest.mark.parametrize(("program", "least"), [(_bert, 4), (_lstm, 4), (_momentum, 0), (_softmax, 0), (_yolov3, 10)])
def test_members_compute_the_same_with_the_body_of_their_class(
    program: Callable[[], tuple[Any, ...]], least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    assert str(EXAMPLES) in sys.path
    source, *args = program()
    graph = irs.fuse(irs.load(source.eval() if hasattr(source, "eval") else source, *args)).graph
    seen = [check(graph, step, kernels=step in ("constants", "free")) for step in STEPS]
    assert max(seen) >= least
