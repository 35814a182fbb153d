"""Graphs as torch.fx modules: the same numbers as the model, compiled or not, and a reason where there is no such form."""

from typing import Any

import numpy as np
import pytest

from tests.programs import ir

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from irscope.errors import ArgumentError  # noqa: E402
from irscope.runtime.measure.benchmark import compare  # noqa: E402
from irscope.runtime.measure.fx_export import torch_function, torch_peer  # noqa: E402
from tests.random_programs.graphs import random_program  # noqa: E402


class Model(torch.nn.Module):  # type: ignore[misc]
    """Parameters, a buffer, views, lists, named element types and a reduction with several results."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Linear(6, 6)
        self.register_buffer("shift", torch.rand(6))

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.tanh(self.inner(x)) + self.shift
        a, b, c = torch.chunk(y, 3, 1)
        z = torch.cat([c, a.to(torch.float64).to(torch.float32), b * 2], 1)
        values, places = z.max(1)
        return z.contiguous().sum(0, dtype=torch.float64), values, places


@pytest.mark.parametrize("fused", [False, True])
def test_a_graph_gives_the_results_of_its_model(fused: bool) -> None:
    model, x = Model().eval(), torch.rand(4, 6)
    graph = irs.load(model, x)
    made = torch_function(irs.fuse(graph).graph if fused else graph)
    with torch.no_grad():
        for found, wanted in zip(made(x), model(x), strict=True):
            torch.testing.assert_close(found, wanted)


def test_random_programs_have_the_same_results_or_a_reason() -> None:
    ran = 0
    for seed in range(60):
        program = random_program(seed, size=12, features={"views", "in-place", "reductions", "matmul", "select", "norms"})
        graph = irs.parse(program.text)
        run = torch_peer("torch", graph, None)
        try:
            found = run(*program.fresh())
        except ArgumentError as error:
            assert "cannot be expressed in torch.fx" in error.what
            continue
        wanted = irs.compile(graph)(*program.fresh())
        ran += 1
        found, wanted = (value if isinstance(value, tuple) else (value,) for value in (found, wanted))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-4)
    assert ran > 30


def test_what_has_no_form_is_named() -> None:
    text = ir("x c:bool | y = If c {| z = relu x | z} {| | x} | y")
    with pytest.raises(ArgumentError, match="prim::If") as caught:
        torch_function(irs.parse(text))
    assert "eager=model" in caught.value.hint
    with pytest.raises(ArgumentError, match="'jax' is not the name of a competitor"):
        torch_peer("jax", irs.parse(text), None)


def test_competitors_are_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []

    def compiling(model: Any, *, dynamic: bool) -> Any:
        compiled.append(model)
        return model

    monkeypatch.setattr(torch, "compile", compiling)
    model, x = Model().eval(), torch.rand(4, 6)
    graph = irs.load(model, x)
    found = compare(graph, x, peers=["torch", "torch.compile"], repeats=1)
    assert [row.label for row in found.rows] == ["op by op", "fused", "fused + dedup", "eager", "torch", "torch.compile"]
    assert all(row.error is not None and row.error < 1e-5 for row in found.rows)
    assert [isinstance(each, torch.fx.GraphModule) for each in compiled] == [True]
    compare(graph, x, eager=model, peers="torch.compile", repeats=1)
    assert compiled[-1] is model
