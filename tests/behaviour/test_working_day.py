"""A day of work in one process: no model outlives what was done with it."""

import gc
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope.ir import Node

torch = pytest.importorskip("torch")
pytest.importorskip("anywidget")
nn = torch.nn


class Mixing(nn.Module):
    """One head of attention with a residual, as many times as asked; its weights are of `width * width` elements."""

    def __init__(self, width: int, times: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(width, width) for _ in range(times))

    def forward(self, x):
        for part in self.parts:
            h = part(x)
            x = x + torch.softmax(h @ h.mT, -1) @ nn.functional.gelu(h)
        return x


KINDS: tuple[Callable[[int, int], tuple[Any, tuple[int, ...]]], ...] = (
    lambda w, n: (nn.Sequential(nn.Linear(w + n, w), nn.GELU(), nn.LayerNorm(w), nn.Linear(w, 4)), (2, w + n)),
    lambda w, n: (Mixing(w, 1 + n % 3), (2 + n % 5, w)),
    lambda w, n: (nn.Sequential(nn.Linear(w, w), nn.BatchNorm1d(w), nn.Sigmoid(), nn.Softmax(-1)), (2 + n, w)),
)


def cycle_of(number: int, width: int, page: Path) -> tuple[int, int]:
    """Works with another model each time; returns how many of its weights there were, and how many there still are."""
    model, shape = KINDS[number % 3](width, number // 3)
    weights = [weakref.ref(weight) for weight in model.parameters()]
    work(model.eval(), torch.rand(shape), page)
    del model
    gc.collect()
    return len(weights), sum(weight() is not None for weight in weights)


def work(model: Any, x: Any, page: Path) -> None:
    g = irs.load(model, x)
    f = irs.fuse(g)
    torch.testing.assert_close(irs.compile(f)(x), model(x))
    assert len(irs.dedup(f).ladder()) and len(irs.compare(f, x, repeats=1).table())
    e = irs.explore(f)
    e.edit(str(g))
    assert e.select("op:linear")
    e.close()
    irs.write_report(f, output=page)
    assert len(irs.profile(f, x, seconds=0.02).top(3))


def test_nothing_of_a_model_stays(tmp_path: Path) -> None:
    counts = []
    for number in range(3):
        made, left = cycle_of(number, 48, tmp_path / "page.html")
        assert made and not left
        counts.append(sum(type(each) is Node for each in gc.get_objects()))
    assert counts[2] <= counts[1]


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no count of pages there")
def test_two_hundred_cycles_take_no_more_memory_than_three(tmp_path: Path) -> None:
    """Each model has some 5 MB of weights, so that 197 of them are 1 GB."""
    held = []
    for number in range(200):
        made, left = cycle_of(number, 768, tmp_path / "page.html")
        assert made and not left
        held.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20)
    print("MiB after each tenth cycle:", held[2::10])
    assert held[-1] - held[2] < 200
