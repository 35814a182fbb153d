"""Loaded programs mean what the model does: NumPy's references and torch's operators, node by node, against eager."""

import copy
from typing import Any

import numpy as np
import pytest

from irscope.frontends import load
from irscope.runtime.program.executable import compile_graph
from irscope.runtime.reference import run_reference

torch = pytest.importorskip("torch")
nn = torch.nn


def flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, list | tuple):
        return [item for part in value for item in flat(part)]
    return [value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)]


def check(model: Any, source: Any, *args: Any) -> None:
    """Results and arguments afterwards, by torch's operators and by NumPy's references."""
    expected_args = copy.deepcopy(args)
    with torch.no_grad():
        expected = flat(model(*expected_args)) + flat(list(expected_args))
    graph = load(source, *args) if isinstance(source, nn.Module) and not hasattr(source, "_c") else load(source)
    for run in (compile_graph(graph), lambda *given: run_reference(graph, *given)):
        given = copy.deepcopy(args)
        found = flat(run(*given)) + flat(list(given))
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_branch_of_torch_export():
    class Chooses(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))

    for sign in (1, -1):
        check(Chooses(), torch.export.export(Chooses(), (torch.rand(3),), strict=False), sign * torch.rand(3))


def test_dynamic_shapes_run_at_other_sizes():
    class Flat(nn.Module):
        def forward(self, x):
            return torch.tanh(x.reshape(x.shape[0] * 3)), x.shape[0]

    program = torch.export.export(Flat(), (torch.rand(4, 3),), dynamic_shapes={"x": {0: torch.export.Dim("n")}}, strict=False)
    for rows in (2, 7):
        check(Flat(), program, torch.rand(rows, 3))


def test_state_is_the_models_own():
    class Counts(nn.Module):
        count: int

        def __init__(self):
            super().__init__()
            self.count = 0
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x):
            self.count = self.count + 1
            self.seen += x
            return x * self.count

    scripted = torch.jit.script(Counts())
    run = compile_graph(load(scripted))
    assert [run(torch.ones(2)).tolist() for _ in range(3)] == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    assert scripted.count == 3 and scripted.seen.tolist() == [3.0, 3.0]


@pytest.mark.filterwarnings("ignore")
def test_updates_of_buffers():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x):
            self.seen.add_(x)
            return self.seen * 2

    model = Counts()
    program = torch.export.export(model, (torch.ones(2),), strict=False)
    for graph in (load(program), load(program.run_decompositions())):
        assert [compile_graph(graph)(torch.ones(2)).tolist() for _ in range(2)] == [[2.0, 2.0], [4.0, 4.0]]
        model.seen.zero_()
    assert "aten::add_" not in {node.op for node in graph.nodes()}, "a functional program copies back into its buffers"


def test_a_module_chosen_at_run_time_runs():
    class Picks(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

        def forward(self, x, k: int):
            for i, part in enumerate(self.parts):
                if i == k:
                    x = part(x)
            return x

    model = Picks()
    for k in (0, 1):
        check(model, torch.jit.script(model), torch.rand(3, 2), k)
