"""Comparisons: rows, counts, errors, and programs that write what they are given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError
from irscope.runtime.measure.benchmark import compare

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


def test_one_disturbed_run_does_not_squeeze_the_bars_of_a_chart() -> None:
    pytest.importorskip("matplotlib")
    x, w = given()
    comparison = compare(irs.load(TEXT, x, w), x, w, repeats=2)
    quick, slow = (replace(row, median=0.01, low=0.009, high=0.011) for row in comparison.rows[:2])
    (axes,) = replace(comparison, rows=(quick, replace(slow, high=5.0))).chart().axes
    assert "microseconds" in axes.get_xlabel()
    assert axes.get_xlim()[1] < 30
    assert any("10 µs (to 5 ms)" in text.get_text() for text in axes.texts)


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


def test_speed_is_told_against_the_machine():
    x, w = given((64, 64))
    comparison = compare(irs.load(TEXT, x, w), x, w, repeats=2)
    assert comparison.bytes == 3 * 4 * 64 * 64
    assert comparison.flops == 2 * (1 + 36) * 64 * 64 + 2 * 64**3
    assert comparison.copy_bandwidth > 0
    assert comparison.peak_gflops > 0
    for row in comparison.rows:
        assert row.bandwidth == pytest.approx(comparison.bytes / row.median / 1e6)
        assert row.copy_fraction == pytest.approx(row.bandwidth / comparison.copy_bandwidth)
        assert row.gflops == pytest.approx(comparison.flops / row.median / 1e6)
    op_by_op, fused, shared = comparison.rows
    assert op_by_op.peak_bytes == 2 * 4 * 64 * 64, "an op's operand and its result"
    assert op_by_op.warm_compile is None
    assert fused.warm_compile is not None
    assert shared.warm_compile > 0
    assert shared.compile > 0


def test_peers_take_part_and_one_that_fails_is_named():
    x, w = given()

    def broken(x: object, w: object) -> None:
        raise ValueError("no erf here\nand more")

    def twice(x, w):
        return 2 * np.tanh(np.maximum(np.tanh(np.maximum(x, 0)) @ w, 0))

    comparison = compare(irs.load(TEXT, x, w), x, w, peers={"broken": broken, "twice": twice}, repeats=1)
    assert [row.label for row in comparison.rows] == ["op by op", "fused", "fused + dedup", "twice"]
    assert comparison.missing == (("broken", "ValueError: no erf here"),)
    assert comparison.rows[-1].error > 0.5, "its results are looked at"
    assert "broken" in repr(comparison)


def test_copies_of_the_arguments_in_turn(monkeypatch: pytest.MonkeyPatch):
    x, w = given()
    seen = set()

    def peer(x, w):
        seen.add(x.ctypes.data)
        return x @ w

    compare(irs.load(TEXT, x, w), x, w, peers={"peer": peer}, repeats=1)
    assert seen == {x.ctypes.data}
    monkeypatch.setattr("irscope.runtime.measure.benchmark.cache_bytes", lambda: 4 * x.nbytes)
    comparison = compare(irs.load(TEXT, x, w), x, w, peers={"peer": peer}, repeats=1, rotate=True)
    assert len(seen) == 4, "eight arrays fill the cache twice"
    assert "4 sets of arguments" in comparison.caption


def test_the_caption_tells_the_allocators_state():
    x, w = given()
    graph = irs.load(TEXT, x, w)
    assert "may go back to the system" in compare(graph, x, w, repeats=1, keep_memory=False).caption
    assert "threads" in compare(graph, x, w, repeats=1).caption


def test_ways_are_chosen():
    x, w = given()
    graph = irs.load(TEXT, x, w)
    assert [row.label for row in compare(graph, x, w, repeats=1, ways=["fused"]).rows] == ["fused"]
    with pytest.raises(ArgumentError, match="no way 'melted'"):
        compare(graph, x, w, ways=["melted"])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_roofline_has_a_mark_for_each_competitor(theme):
    pytest.importorskip("matplotlib")
    x, w = given((64, 64))
    comparison = compare(irs.load(TEXT, x, w), x, w, repeats=1)
    (axes,) = comparison.roofline(theme=theme).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["op by op", "fused", "fused + dedup"]
    (line,) = axes.lines
    left, corner, right = line.get_xydata()
    assert left[1] / left[0] == pytest.approx(comparison.copy_bandwidth)
    assert corner[1] == right[1] == pytest.approx(comparison.peak_gflops)
    for marks, row in zip(axes.collections, comparison.rows, strict=True):
        assert marks.get_offsets().tolist() == [
            [pytest.approx(comparison.flops / comparison.bytes), pytest.approx(row.gflops)]
        ]
    assert comparison.chart("roofline", theme=theme).axes


def test_a_roofline_needs_arithmetic():
    pytest.importorskip("matplotlib")
    x, _ = given()
    text = "graph(%x : Tensor):\n  %y : Tensor = aten::t(%x)\n  return (%y)"
    comparison = compare(irs.load(text, x), x, repeats=1)
    with pytest.raises(ArgumentError, match="no roofline"):
        comparison.roofline()
    with pytest.raises(ArgumentError, match="no chart of kind"):
        comparison.chart("pie")


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
