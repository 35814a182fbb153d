"""Execution judges the classes of real models: at every step each group computes with its class's body what it computed with its own,
in float64 by the reference, and in its own types through compiled kernels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.ir import Graph, Node, TensorType, Value
from irscope.runtime.program.groups import group_alone, operand_like
from irscope.runtime.reference import run_reference
from irscope.transforms.dedup import RANK, RELATIONS, Relation

pytest.importorskip("torch")

from tests.benchmarks import models

STEPS = RELATIONS[RANK["order"] :]


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
@pytest.mark.parametrize(("program", "least"), [
    (lambda: models.bert(2, 64, (2, 16)), 4), (lambda: models.lstm(5, 8, 16), 4), (lambda: models.yolov3(4, 2, 64), 10),
], ids=["bert", "lstm", "yolov3"])  # fmt: skip
def test_members_compute_the_same_with_the_body_of_their_class(program: Callable[[], models.Model], least: int) -> None:
    model, arguments = models.seeded(program)
    graph = irs.fuse(irs.load(model, *arguments)).graph
    seen = [check(graph, step, kernels=step in ("constants", "free")) for step in STEPS]
    assert max(seen) >= least
