"""Comparisons: rows, counts, errors, and programs that write what they are given."""

from __future__ import annotations

import numpy as np
import pytest

import irscope as irs
from irscope.runtime.compare import compare

TEXT = """graph(%x : Tensor, %w : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::tanh(%a)
  %p : Tensor = aten::matmul(%b, %w)
  %c : Tensor = aten::relu(%p)
  %d : Tensor = aten::tanh(%c)
  return (%d)
"""


def given(shape: tuple[int, ...] = (8, 8)) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    numbers = np.random.default_rng(0)
    return [numbers.uniform(-1, 1, shape).astype(np.float32) for _ in range(2)]


def test_rows_count_kernels_and_launches():
    x, w = given()
    comparison = compare(irs.load(TEXT, x, w), x, w, repeats=2)
    rows = {row.label: row for row in comparison.rows}
    assert list(rows) == ["op by op", "fused", "fused + dedup"]
    assert [row.kernels for row in comparison.rows] == [0, 2, 1]
    assert [row.launched for row in comparison.rows] == [5, 3, 3]
    assert rows["op by op"].compile == 0
    assert rows["fused"].compile > 0
    assert rows["fused + dedup"].compile > 0
    for row in comparison.rows:
        assert 0 < row.low <= row.median <= row.high
        assert row.error is not None
        assert 0 < row.error < 1e-6, "float32 is not float64, and nearly"
    assert "median of" in comparison.caption.lower() or "turns" in comparison.caption


def test_a_fusion_is_taken_as_it_is():
    x, w = given()
    fusion = irs.fuse(irs.load(TEXT, x, w))
    assert compare(fusion, x, w, repeats=1).rows[1].kernels == len(fusion.groups)


def test_the_table_and_the_text():
    x, w = given()
    comparison = compare(irs.load(TEXT, x, w, name="net"), x, w, repeats=1)
    table = comparison.table()
    assert list(table.index) == ["op by op", "fused", "fused + dedup"]
    assert table.index.name == "net"
    assert table.loc["fused + dedup", "kernels"] == 1
    text = repr(comparison)
    assert text.splitlines()[0].startswith("net")
    assert "fused + dedup" in text
    assert "float64" in text


def test_the_chart_has_a_bar_a_row():
    pytest.importorskip("matplotlib")
    x, w = given()
    figure = compare(irs.load(TEXT, x, w), x, w, repeats=2).chart()
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["op by op", "fused", "fused + dedup"]
    assert len(axes.patches) == 3


@pytest.mark.torch
def test_eager_is_timed_too():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Sigmoid())
    x = torch.rand(2, 4)
    comparison = compare(irs.load(model, x), x, eager=model, repeats=2)
    eager = comparison.rows[-1]
    assert eager.label == "eager"
    assert eager.error is not None
    assert eager.error < 1e-6
    assert eager.launched is None


def test_written_arguments_are_restored():
    text = """graph(%x : Tensor):
      %k : int = prim::Constant[value=1]()
      %y : Tensor = aten::add_(%x, %k, %k)
      %z : Tensor = aten::relu(%y)
      %w : Tensor = aten::tanh(%z)
      return (%w)
    """
    x = np.array([-2.0, 0.5], np.float32)
    comparison = compare(irs.load(text, x), x, repeats=2)
    assert x.tolist() == [-2.0, 0.5]
    assert all(row.error is not None and row.error < 1e-6 for row in comparison.rows)


@pytest.mark.torch
def test_written_buffers_are_restored():
    torch = pytest.importorskip("torch")
    model = torch.nn.BatchNorm1d(3)
    x = torch.rand(4, 3)
    comparison = compare(irs.load(model, x), x, repeats=2)
    assert model.running_mean.tolist() == [0.0, 0.0, 0.0]
    assert int(model.num_batches_tracked) == 0
    assert all(row.error is not None and row.error < 1e-5 for row in comparison.rows)


def test_results_without_numbers_have_no_error():
    text = "graph(%x : Tensor):\n  %y : Tensor = aten::argmax(%x)\n  return (%y)"
    x, _ = given()
    assert all(row.error is None for row in compare(irs.load(text, x), x, repeats=1).rows)


@pytest.mark.parametrize(("load", "told"), [(0.5, False), (9.0, True)])
def test_a_busy_machine_is_told(load: float, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    g = irs.parse("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)")
    assert ("busy" in irs.compare(g, np.ones(3, np.float32), repeats=1).caption) is told
