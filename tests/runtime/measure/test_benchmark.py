"""Comparisons: rows, counts, errors, and programs that write what they are given."""

import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError
from irscope.runtime.measure import Comparison, compare
from irscope.runtime.measure.accuracy import cancelled, distance, float64_results
from tests.programs import ir

TEXT = ir("x w | a = relu x; b = tanh a; p = matmul b w; c = relu p; d = tanh c | d")


def given() -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    numbers = np.random.default_rng(0)
    return [numbers.uniform(-1, 1, (8, 8)).astype(np.float32) for _ in range(2)]


@pytest.fixture(scope="module")
def compared() -> Comparison:
    x, w = given()
    return compare(irs.fuse(irs.load(TEXT, x, w, name="net")), x, w, repeats=2)


def test_rows_count_kernels_and_launches(compared: Comparison) -> None:
    rows = {row.label: row for row in compared.rows}
    assert list(rows) == ["op by op", "fused", "fused + dedup"]
    assert [row.kernels for row in compared.rows] == [0, 2, 1]
    assert [row.launched for row in compared.rows] == [5, 3, 3]
    assert rows["op by op"].compile == 0 and rows["fused"].compile > 0 and rows["fused + dedup"].compile > 0
    for row in compared.rows:
        assert 0 < row.low <= row.median <= row.high and row.error is not None
        assert 0 < row.error < 1e-6, "float32 is not float64, and nearly"
    assert "turns" in compared.caption and "thread" in compared.caption


def test_the_table_and_the_text(compared: Comparison) -> None:
    table = compared.table()
    assert list(table.index) == ["op by op", "fused", "fused + dedup"] and table.index.name == "net"
    assert table.loc["fused + dedup", "kernels"] == 1
    text = repr(compared)
    assert text.splitlines()[len(compared.warnings)].startswith("net")
    assert table.attrs["warnings"] == list(compared.warnings)
    assert "fused + dedup" in text and "float64" in text


def test_a_chart_has_a_bar_a_row_which_one_disturbed_run_does_not_squeeze(compared: Comparison) -> None:
    pytest.importorskip("matplotlib")
    (axes,) = compared.chart().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["op by op", "fused", "fused + dedup"]
    assert len(axes.patches) == 3
    quick, slow = (replace(row, median=0.01, low=0.009, high=0.011) for row in compared.rows[:2])
    (axes,) = replace(compared, rows=(quick, replace(slow, high=5.0))).chart().axes
    assert "microseconds" in axes.get_xlabel() and axes.get_xlim()[1] < 30
    assert any("10 µs (to 5 ms)" in text.get_text() for text in axes.texts)


def test_eager_is_timed_too():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Sigmoid())
    x = torch.rand(2, 4)
    comparison = compare(irs.load(model, x), x, eager=model, repeats=2)
    eager = comparison.rows[-1]
    assert eager.label == "eager" and eager.error is not None and eager.error < 1e-6
    assert eager.launched is None


def test_speed_is_compared_with_the_machine(compared: Comparison) -> None:
    assert compared.bytes == 3 * 4 * 8 * 8 and compared.flops == 2 * (1 + 36) * 8 * 8 + 2 * 8**3
    assert compared.copy_bandwidth > 0 and compared.peak_gflops > 0
    for row in compared.rows:
        assert row.bandwidth == pytest.approx(compared.bytes / row.median / 1e6)
        assert row.copy_fraction == pytest.approx(row.bandwidth / compared.copy_bandwidth)
        assert row.gflops == pytest.approx(compared.flops / row.median / 1e6)
    op_by_op, fused, shared = compared.rows
    assert op_by_op.peak_bytes == 2 * 4 * 8 * 8, "an op's operand and its result"
    assert op_by_op.warm_compile is None
    assert fused.warm_compile is not None
    assert shared.warm_compile > 0 and shared.compile > 0


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
    assert "may go back to the system" in compare(irs.load(TEXT, x, w), x, w, repeats=1, keep_memory=False).caption


def test_ways_are_chosen():
    x, w = given()
    graph = irs.load(TEXT, x, w)
    assert [row.label for row in compare(graph, x, w, repeats=1, ways=["fused"]).rows] == ["fused"]
    with pytest.raises(ArgumentError, match="no way 'melted'"):
        compare(graph, x, w, ways=["melted"])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_roofline_has_a_mark_for_each_competitor(theme: str, compared: Comparison) -> None:
    pytest.importorskip("matplotlib")
    (axes,) = compared.roofline(theme=theme).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["op by op", "fused", "fused + dedup"]
    (line,) = axes.lines
    left, corner, right = line.get_xydata()
    assert left[1] / left[0] == pytest.approx(compared.copy_bandwidth)
    assert corner[1] == right[1] == pytest.approx(compared.peak_gflops)
    for marks, row in zip(axes.collections, compared.rows, strict=True):
        assert marks.get_offsets().tolist() == [[pytest.approx(compared.flops / compared.bytes), pytest.approx(row.gflops)]]
    assert compared.chart("roofline", theme=theme).axes


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
    """Also where a result is the argument itself, which has its first elements again when errors are computed."""
    text = ir("x | k = 1; y = add_ x k k; z = relu y; w = tanh z | y w")
    x = np.array([-2.0, 0.5], np.float32)
    comparison = compare(irs.load(text, x), x, repeats=2)
    assert x.tolist() == [-2.0, 0.5]
    assert all(row.error is not None and row.error < 1e-6 for row in comparison.rows)


def test_weights_of_arrays_and_arguments_of_torch_have_errors(torch: Any) -> None:
    g = irs.load(ir("x w | a = mm x w; b = relu a | b"), torch.ones(3, 3), torch.ones(3, 3))
    weights = np.full((3, 3), 0.1, np.float32)
    weights.flags.writeable = False  # as a file's are
    held = replace(g, bound={g.inputs[1]: weights})
    assert all(row.error is not None and row.error < 1e-6 for row in compare(held, torch.ones(3, 3), repeats=1).rows)


def test_written_buffers_are_restored():
    torch = pytest.importorskip("torch")
    model = torch.nn.BatchNorm1d(3)
    x = torch.rand(4, 3)
    comparison = compare(irs.load(model, x), x, repeats=2)
    assert model.running_mean.tolist() == [0.0, 0.0, 0.0] and int(model.num_batches_tracked) == 0
    assert all(row.error is not None and row.error < 1e-5 for row in comparison.rows)


@pytest.mark.parametrize(("taken", "threads", "told"), [(0.3, 2, ""), (2.0, 1, "measured on one thread, in place of 2")])
def test_a_busy_machine_is_reported_first(taken: float, threads: int, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irscope.runtime.measure.conditions.others", lambda: taken)
    monkeypatch.setattr("irscope.runtime.measure.conditions.CpuDevice.threads", 2)
    monkeypatch.setattr("irscope.runtime.measure.conditions._processors", lambda: {0, 1})
    g = irs.parse("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)")
    found = irs.compare(g, np.ones(3, np.float32), repeats=1)
    assert told in "".join(found.warnings) and bool(found.warnings) is bool(told)
    assert found.table().attrs["warnings"] == list(found.warnings)
    assert f"{threads} thread" in found.caption
    if told:
        assert told in repr(found).splitlines()[0]


def test_threads_are_chosen_and_given_back(torch: Any) -> None:
    seen, before = [], torch.get_num_threads()
    x = torch.rand(8)
    irs.compare(irs.load(torch.tanh, x), x, peers={"peer": lambda x: seen.append(torch.get_num_threads()) or x}, repeats=1, threads=3)
    assert set(seen) == {3} and torch.get_num_threads() == before
    code = "from irscope.runtime.measure import with_threads as w; print(w(1, lambda: __import__('torch').get_num_threads()))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"1\n", "also if imported only then"
    with pytest.raises(ArgumentError, match="there cannot be 0 threads"):
        irs.compare(irs.load(torch.tanh, x), x, threads=0)


# -- errors against the truth: the oracle is float64, computed by hand ----------------------------------------------------


def test_a_nan_in_place_of_a_number_is_an_infinite_error(torch: Any) -> None:
    x = torch.full((16,), -0.25) / 0.75
    fusion = irs.fuse(irs.load(lambda x: torch.sqrt(x * 0.75 + 0.25), x))
    assert bool(irs.compile(fusion)(x).isnan().all()) and not bool(torch.sqrt(x * 0.75 + 0.25).isnan().any())
    found = irs.compare(fusion, x, repeats=1)
    rows = {row.label: row for row in found.rows}
    truth = torch.sqrt(x.double() * 0.75 + 0.25)
    assert truth.isnan().all(), "the exact result: the argument is a hair below zero"
    assert rows["op by op"].error == float("inf") and rows["op by op"].wrong == "a number for NaN in 16 of 16"
    assert rows["fused"].error == 0 and rows["fused"].wrong == ""
    assert 'NaN in 16 of 16; rounding between ops is the cause: with exact="torch" they agree.' in " ".join(found.warnings)


def test_a_comparison_that_flips_is_a_difference(torch: Any) -> None:
    x = torch.full((3,), -0.25) / 0.75
    found = irs.compare(irs.fuse(irs.load(lambda x: (x * 0.75 + 0.25) < 0, x)), x, repeats=1)
    rows = {row.label: row for row in found.rows}
    assert rows["fused"].wrong == "" and rows["fused"].error == 0
    assert rows["op by op"].wrong == rows["eager"].wrong == "3 of 3 differ"
    assert "3 of 3 differ" in repr(found) and "3 of 3 differ" in found.table().loc["eager", "wrong"]


F = np.array
NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(("results", "truth", "relative", "words"), [
    ([F([NAN, 2.0], "f")], [F([NAN, 4.0])], 0.5, ""),
    ([F([NAN, 2.0], "f")], [F([1.0, 2.0])], INF, "NaN in 1 of 2"),
    ([F([1.0, 2.0], "f")], [F([NAN, 2.0])], INF, "a number for NaN in 1 of 2"),
    ([F([INF, 2.0], "f")], [F([INF, 2.0])], 0.0, ""),
    ([F([INF, 2.0], "f")], [F([-INF, 2.0])], INF, "the other infinity in 1 of 2"),
    ([F([INF, 2.0], "f")], [F([1.0, 2.0])], INF, "infinite in 1 of 2"),
    ([F([1.0, 2.0], "f")], [F([INF, 2.0])], INF, "finite for infinite in 1 of 2"),
    ([F([INF], "f")], [F([NAN])], INF, "a number for NaN in 1 of 1"),
    ([F([1 + 1j], "F")], [F([1 + 3j])], 2 / np.sqrt(10), ""),
    ([F([1 + 1j], "F")], [F([1.0])], 1.0, ""),
    ([F([NAN + 1j], "F")], [F([1 + 3j])], INF, "NaN in 1 of 1"),
    ([F([True, False])], [F([True, True])], 1.0, "1 of 2 differ"),
    ([F([2**62 + 1, 5])], [F([2**62, 5])], 2.0**-62, "1 of 2 differ"),
    ([F([1, 2]), F([1.0])], [F([1, 3]), F([2.0])], 0.5, "result 0: 1 of 2 differ"),
    ([F([[1.0], [2.0]])], [F([1.0, 2.0])], INF, "shape (2, 1) instead of (2,)"),
    ([F([1.0])], [F([1.0]), F([2.0])], INF, "1 result instead of 2"),
    ([np.zeros((0, 3))], [np.zeros((0, 3))], 0.0, ""),
    ([np.zeros((0, 3))], [np.zeros((0, 2))], INF, "shape (0, 3) instead of (0, 2)"),
])  # fmt: skip
def test_distances(results, truth, relative, words) -> None:
    found = distance(results, truth)
    assert found is not None and found.words == words and found.relative == pytest.approx(relative)


CANCELS = ir(
    "x | last = -1; none = None; keep = True; one = 1; axes = [-1]; p = softmax x last none; s = sum p axes keep none; r = rsub s one one; "
    "g = mul p r | g p"
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_an_error_of_what_is_zero_but_for_rounding_is_relative_to_what_cancels(library: str, dtype: str, torch: Any) -> None:
    """The gradient of the sum of a softmax is zero: its float64 run is rounding as well, and no measure of a difference."""
    x = np.random.default_rng(1).normal(size=(8, 16)).astype(dtype)
    args = (torch.from_numpy(x),) if library == "torch" else (x,)
    found = compare(irs.load(CANCELS, *args), *args, repeats=1)
    for row in found.rows:
        assert row.error is not None and row.error <= 16 * np.finfo(dtype).eps, row.error
    if dtype == "float32":
        assert "(result 0)" in found.caption and "(result 1)" not in found.caption


def test_a_wrong_side_of_a_jump_is_an_error_beside_a_mask_too(torch: Any) -> None:
    def right(x):
        return torch.heaviside(x - 1.0, torch.tensor(1.0)) - 1.0, x * 0 + torch.finfo(torch.float32).min

    def wrong(x):
        return x * 0 + 1.0, x * 0 + torch.finfo(torch.float32).min

    x = torch.ones(4)
    rows = {row.label: row for row in irs.compare(right, x, repeats=1, peers={"wrong": wrong}).rows}
    assert rows["wrong"].error > 0.5


def test_without_torch_arrays_are_disturbed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).normal(size=(8, 16)).astype(np.float32)
    graph = irs.load(CANCELS, x)
    truth = float64_results(graph, [x])
    assert not isinstance(truth, str)
    monkeypatch.setattr("irscope.runtime.measure.accuracy.as_torch", None)
    assert cancelled(graph, [x], truth)[0] > 0.01


def test_what_a_competitor_alone_writes_through_shared_memory_is_restored(torch: Any) -> None:
    """As a compiled program does whose graph writes the whole buffer, an input of its own, where the call writes one view of it."""
    buffer = torch.zeros(6)
    x, y = buffer[:4], buffer[2:]
    made = irs.compare(irs.load(lambda x, y: y * 2 + x, x, y), x, y, peers={"writes": lambda x, y: y * 2 + x.add_(1)}, repeats=3)
    assert buffer.count_nonzero() == 0 and "writes" in [row.label for row in made.rows]


def test_arguments_that_share_memory_are_restored_and_have_no_float64_run(torch: Any) -> None:
    def f(x, y):
        x.add_(1)
        return x * y + y

    whole = torch.arange(12.0)
    overlapping = torch.arange(12.0).as_strided((3, 4), (2, 1))
    pairs = [(whole[:8], whole[4:]), (whole, whole), (whole[:6], whole[:1].expand(6)), (overlapping, torch.ones(3, 4))]
    for x, y in pairs:
        before = x.clone()
        found = irs.compare(irs.load(f, x, y), x, y, repeats=1)
        assert all(row.error is None for row in found.rows) and "share" in found.caption
        assert torch.equal(x, before)
        irs.profile(irs.load(f, x, y), x, y, seconds=0.01)
        assert torch.equal(x, before)
    x, y = torch.ones(3, 4), torch.ones(4).expand(3, 4)
    rows = irs.compare(irs.load(lambda x, y: x * y + y, x, y), x, y, repeats=1).rows
    assert all(row.error == 0.0 for row in rows)  # nothing is written


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_small_numbers_and_jumps_are_not_taken_for_rounding(library: str, torch: Any) -> None:
    names = {"small": "aten::mul(%x, %tiny)", "jump": "aten::eq(%x, %x0)", "zero": "aten::sub(%x, %x, %one)"}
    held = {"tiny": "float = prim::Constant[value=1e-20]", "x0": "float = prim::Constant[value=1.0]"}
    held["one"] = "int = prim::Constant[value=1]"
    numbers = "".join(f"  %{name} : {text}()\n" for name, text in held.items())
    for name, op in names.items():
        graph = irs.load(f"graph(%x : Tensor):\n{numbers}  %y : Tensor = {op}\n  %r : Tensor = aten::mul(%y, %x0)\n  return (%r)")
        for shape in ((), (4,)):
            x = np.ones(shape, np.float32)
            args = [torch.from_numpy(x) if library == "torch" else x]
            truth = float64_results(graph, args)
            assert not isinstance(truth, str)
            (scale,) = cancelled(graph, args, truth)
            assert scale <= 1.001, name  # no larger than a number in the program
            wrong = distance([truth[0] + 1], truth, [scale])
            assert wrong is not None and wrong.relative >= 0.99, name


def test_a_truth_of_complex_numbers_is_more_exact_than_they_are(torch: Any) -> None:
    x = torch.tensor([1 / 3 + 1j], dtype=torch.complex64)
    rows = irs.compare(irs.load(lambda x: x * x * 0.1, x), x, repeats=1).rows
    assert all(0 < row.error < 1e-6 for row in rows)


@pytest.mark.parametrize(("function", "reason"), [
    (lambda torch: lambda x: torch.nn.functional.dropout(x, 0.5, True), "draws other random numbers"),
    (lambda torch: lambda x: x.view(torch.int32) + 1, "reads the bits of floats"),
    (lambda torch: lambda x: torch.nan_to_num(x / 0), "depend on the element type"),
    (lambda torch: lambda x: torch.nextafter(x, x + 1) - x, "depend on the element type"),
])  # fmt: skip
def test_without_a_truth_the_rest_stands(function, reason: str, torch: Any) -> None:
    x = torch.rand(4, 4)
    found = irs.compare(irs.load(function(torch), x), x, repeats=1)
    assert reason in found.no_errors and found.rows[0].median > 0
    assert all(row.error is None for row in found.rows)
    assert reason in found.table()["wrong"].iloc[0] and reason in found.caption and "unknown" in repr(found)


# -- the user's own function ---------------------------------------------------------------------------------------------


def test_a_numpy_function_is_compared_with_itself() -> None:
    x = np.linspace(0, 1, 10_000)

    def length(x):
        return np.sqrt(x * x + 1).sum()

    found = irs.compare(irs.fuse(irs.trace(length, x)), x)
    rows = {row.label: row for row in found.rows}
    assert list(rows) == ["op by op", "fused", "fused + dedup", "NumPy"]
    assert rows["NumPy"].note == "" and rows["NumPy"].error < 1e-12
    notes = [rows[label].note for label in ("op by op", "fused")]
    assert all("NumPy" in note or "noisy" in note for note in notes), "compared with it, but for times of a busy machine"
    assert "irscope's interpreter" in found.caption


def test_a_function_that_its_program_has_left_is_not_compared() -> None:
    x = np.ones(4)
    graph = irs.trace(lambda x: (np.exp(x), np.sin(x)), x)
    changed = replace(graph, body=replace(graph.body, returns=graph.body.returns[:1]))
    found = irs.compare(changed, x, repeats=1)
    assert "NumPy" not in [row.label for row in found.rows] and not found.missing


def test_nested_arguments_reach_the_function_as_they_were_given() -> None:
    given = {"a": np.ones(4), "b": [np.ones(4), np.full(4, 2.0)]}
    graph = irs.trace(lambda d: d["a"] + d["b"][0] * d["b"][1], given)
    assert [row.label for row in irs.compare(graph, given, repeats=1).rows][-1] == "NumPy"


def test_a_jax_function_is_compared_with_jit() -> None:
    jnp = pytest.importorskip("jax.numpy")
    x = jnp.linspace(0, 1, 64)
    found = irs.compare(irs.load(lambda x: jnp.tanh(x) * 2, x), x, repeats=1)
    assert [row.label for row in found.rows][-1] == "jax.jit"
    assert found.rows[-1].error < 1e-6


def test_a_copy_of_a_program_is_without_its_function() -> None:
    graph = irs.trace(lambda x: x + 1, (4,))
    assert graph.origin is not None and pickle.loads(pickle.dumps(graph)).origin is None


@pytest.mark.long
def test_parameters_are_not_copied() -> None:
    """The most memory while 128 MiB of parameters are compared. Their copies would take 384; here one layer is in float64."""
    pytest.importorskip("torch")
    code = """
import resource, torch, irscope as irs
from irscope.runtime.machine import cache_bytes
model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.GELU()) for _ in range(8)]).eval()
x = torch.rand(1, 2048)
program = irs.load(model, x)
irs.compile(irs.fuse(program))(x)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
irs.compare(program, x, repeats=1)
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
print((grown - min(4 * cache_bytes(), 128 << 20)) >> 20)
"""
    grown = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    assert grown < 100, "besides the copy that the machine's bandwidth is measured by"


def test_launches_are_the_kernels_and_calls_of_the_fusion(torch: Any) -> None:
    """A view that copies is a call, and remarks about convolutions and products count no group."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64)).eval()
    x = torch.ones(4, 8, 64)
    with torch.no_grad():
        f = irs.fuse(irs.load(lambda t: model(t).transpose(1, 2).reshape(4, -1).relu().tanh(), x))
        found = irs.compare(f, x, repeats=1, ways=["fused"])
    [fused] = [row for row in found.rows if row.label == "fused"]
    assert fused.launched == f.cost().kernels + f.cost().calls and f.cost().kernels == fused.kernels == 1
    assert "without a kernel" not in fused.note and any(node.op == "aten::reshape" for node in f.graph.nodes())


def test_a_profile_and_a_comparison_count_the_same_launches(torch: Any) -> None:
    """Both run what was written, and a model is captured as it runs: with gradients on, a learned mask takes attention to a kernel
    whose result has other strides, and `contiguous` would copy."""
    attention = torch.nn.functional.scaled_dot_product_attention
    bias = torch.nn.Parameter(torch.zeros(1, 4, 16, 16))

    def biased(x: Any) -> Any:
        q = x.to(torch.float32).view(2, 16, 4, 16).transpose(1, 2)
        return attention(q, q, q, attn_mask=bias * 2).transpose(1, 2).contiguous().view(2, 16, 64).tanh() + torch.arange(64)

    f = irs.fuse(irs.load(biased, x := torch.ones(2, 16, 64)))
    rows = {row.label: row.launched for row in irs.compare(f, x, repeats=1, ways=["op by op", "fused"]).rows if row.launched}
    profile = irs.profile(f, x, seconds=0.5)
    assert rows == {way: profile.table(way=way)["launches"].sum() for way in rows} and len(rows) == 2  # type: ignore[arg-type]
    with torch.no_grad():
        q = x.view(2, 16, 4, 16).transpose(1, 2)
        strides = attention(q, q, q, attn_mask=bias * 2).stride()
    assert f.original.node("aten::scaled_dot_product_attention").output.type.strides == strides
