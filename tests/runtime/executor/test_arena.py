"""A planned program computes what an unplanned one does, bit for bit, and needs what its plan says."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402
from irscope.errors import ArgumentError  # noqa: E402
from tests.analysis.alias.test_execution import arguments, flat  # noqa: E402
from tests.strategies import random_program  # noqa: E402

pytestmark = pytest.mark.torch


def check(seed: int, size: int) -> int:
    """Four runs each, so that the stretches of a program are written out too; gives the places that kernels filled."""
    program = random_program(seed, size=size)
    fusion = irs.fuse(irs.load(program.text, *arguments(program)))
    plain, planned = irs.compile(fusion), irs.compile(fusion, memory="planned")
    for _ in range(4):
        one, other = arguments(program), arguments(program)
        expected, found = plain(*one), planned(*other)
        assert repr(flat([found, other])) == repr(flat([expected, one])), f"another result of\n{fusion.graph}"
    plan = planned.memory_plan
    assert plan is not None
    return len(plan.places)


def test_random_programs_compute_the_same() -> None:
    assert sum(check(seed, 24) for seed in range(30)) > 20


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 5000, 250))
def test_many_random_programs_compute_the_same(first: int) -> None:
    for seed in range(first, first + 250):
        check(seed, 30)


class Blocks(torch.nn.Module):
    """Elementwise chains between matrix products, with a sum that lives long, and a result that hosts others."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.tanh(x) * 2.0 + torch.sigmoid(layer(torch.cos(x) + 1.0))
        return torch.exp(-x.abs()), x.sum(0)


@torch.no_grad()
def test_the_measured_peak_is_the_planned_one_and_no_more_than_without_a_plan() -> None:
    model, x = Blocks(), torch.randn(32, 64)
    fusion = irs.fuse(irs.load(model, x))
    plain, planned = irs.compile(fusion), irs.compile(fusion, memory="planned")
    plan = planned.memory_plan
    assert plan is not None
    assert planned.peak_bytes(x) == plan.peak
    assert plan.peak <= plain.peak_bytes(x)
    assert plain.memory_plan is None
    for expected, found in zip(plain(x), planned(x), strict=True):
        assert torch.equal(expected, found)


@torch.no_grad()
def test_results_lie_apart_and_stay_as_they_are() -> None:
    model, x = Blocks(), torch.randn(32, 64)
    planned = irs.compile(irs.fuse(irs.load(model, x)), memory="planned")
    first = planned(x)
    storages = [result.untyped_storage() for result in first]
    assert len({storage.data_ptr() for storage in storages}) == 2
    assert [storage.nbytes() for storage in storages] == [32 * 64 * 4, 64 * 4]  # nothing else is kept with them
    kept = [result.clone() for result in first]
    planned(torch.randn(32, 64))
    assert all(torch.equal(a, b) for a, b in zip(first, kept, strict=True))


@torch.no_grad()
def test_threads_have_arenas_of_their_own() -> None:
    model, x = Blocks(), torch.randn(32, 64)
    planned = irs.compile(irs.fuse(irs.load(model, x)), memory="planned")
    inputs = [torch.randn(32, 64) for _ in range(4)]
    expected = [planned(x)[0] for x in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        same = [torch.equal(planned(inputs[number])[0], expected[number]) for _ in range(50)]
        wrong.extend([number] * same.count(False))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arrays_of_numpy_lie_in_an_arena_too() -> None:
    x = np.linspace(-1, 1, 4096, dtype=np.float32)
    text = """graph(%x : Float(4096)):
      %a : Float(4096) = aten::tanh(%x)
      %s : Float(4096) = aten::cumsum(%a, %dim, %none)
      %b : Float(4096) = aten::exp(%s)
      %t : Float(4096) = aten::cumsum(%b, %dim, %none)
      %c : Float(4096) = aten::neg(%t)
      return (%c)""".replace(
        "      %a", "      %dim : int = prim::Constant[value=0]()\n      %none : NoneType = prim::Constant()\n      %a", 1
    )
    fusion = irs.fuse(irs.load(text, x))
    plain, planned = irs.compile(fusion), irs.compile(fusion, memory="planned")
    for _ in range(4):
        assert np.array_equal(plain(x), planned(x))


def test_what_cannot_be_planned_is_said() -> None:
    graph = irs.parse("graph(%x : Float(4)):\n  %y : Float(4) = aten::neg(%x)\n  return (%y)")
    with pytest.raises(ArgumentError, match="planned for the device 'cpu'"):
        irs.compile(graph, device="reference", memory="planned")
    with pytest.raises(ArgumentError, match="memory is None or 'planned'"):
        irs.compile(graph, memory="small")  # type: ignore[arg-type]
