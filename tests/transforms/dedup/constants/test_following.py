"""Constants that follow from another are computed from it: the same bits, laid out alike, in graphs and across functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError
from irscope.ir import GraphBuilder, TensorData, TensorType, Value
from irscope.ir.module import verify_module
from irscope.ir.verify import verify
from irscope.transforms.dedup.constants import merge_constants

torch = pytest.importorskip("torch")

rng = np.random.default_rng(3)
W = rng.standard_normal((64, 96)).astype(np.float32)
MANY = {
    "w": W, "half": W.astype(np.float16), "turned": np.ascontiguousarray(W.T), "columns": np.asfortranarray(W.T.copy()),
    "rows": W[2:40].copy(), "row": W[3].copy(), "middle": W.reshape(-1)[100:160].reshape(5, 12).copy(), "copy": W.copy(),
}  # fmt: skip
X = torch.tensor([1.5])
STEPS = ("tied", "equal", "transposed", "cast", "part")


def typed(array: np.ndarray[Any, Any]) -> TensorType:
    return TensorType(str(array.dtype), array.shape, tuple(step // array.itemsize for step in array.strides))


def literals(arrays: dict[str, np.ndarray[Any, Any]], order: Sequence[str] = (), op: str = "aten::mul", write: str = "") -> irs.Graph:
    """A program with each array as a literal, and a result for each."""
    b = GraphBuilder("program")
    held = {name: b.constant(TensorData.of(arrays[name]), typed(arrays[name]), name) for name in order or arrays}
    x = b.input("x")
    if write:
        b.op("aten::relu_", held[write], type=held[write].type)
    return b.finish([b.op(op, value, x) for value in held.values()])


def bits(program: irs.Graph, device: str, *args: Any) -> list[tuple[Any, ...]]:
    found = irs.compile(program, device=device)(*args)
    arrays = [np.asarray(each) for each in (found if isinstance(found, tuple) else (found,))]
    return [(a.tobytes(), a.dtype, a.shape, None if device == "reference" else a.strides) for a in arrays]


def stored(program: irs.Graph) -> int:
    return irs.dedup(program, unit="constants").found.bytes


@pytest.mark.parametrize("seed", range(4))
def test_what_is_computed_has_the_bits_and_the_strides_of_what_was_stored(seed: int) -> None:
    before = literals(MANY, list(np.random.default_rng(seed).permutation(list(MANY))))
    sizes = [stored(before)]
    for step in STEPS:
        after = irs.dedup(before, unit="constants", relation=step).apply()  # type: ignore[call-overload]  # a str
        verify(after)
        for device in ("reference", "cpu"):
            assert bits(before, device, X) == bits(after, device, X)
        assert merge_constants(after, step=step).after is after  # type: ignore[arg-type]  # a str
        sizes.append(stored(after))
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] <= 2 * W.nbytes  # one in rows, and one in columns at most


NAN = W.copy()
NAN[0, 0] = np.nan
DOUBLE = W.astype(np.float64) + 1e-9 * rng.standard_normal(W.shape)
WHOLE = rng.integers(-99, 99, W.shape).astype(np.float64)


@pytest.mark.parametrize(
    ("held", "rule"),
    [
        ({"a": W, "b": W.astype(np.float16)}, ""),  # the next narrower float: everybody rounds alike
        ({"a": DOUBLE, "b": DOUBLE.astype(np.float16)}, "inexact-cast"),  # torch rounds twice
        ({"a": WHOLE, "b": WHOLE.astype(np.float16)}, ""),  # nothing is rounded
        ({"a": WHOLE, "b": WHOLE.astype(np.int32)}, ""),
        ({"a": W, "b": W.astype(np.int32)}, "inexact-cast"),
        ({"a": NAN, "b": NAN.astype(np.float16)}, "inexact-cast"),
        ({"a": W[:4, :8].copy(), "b": W[:4, :8].astype(np.float16)}, "not-worth"),
        ({"a": W[:4, :8].copy(), "b": W[:4, :8].T.copy()}, "not-worth"),
        ({"a": W[:4, :8].copy(), "b": W[1, :8].copy(), "c": np.asfortranarray(W[:4, :8].T)}, ""),  # views are worth anything
        ({"a": np.zeros((64, 96), np.float32), "b": -np.zeros((64, 96), np.float32)}, None),
    ],
)
def test_casts_are_exact_and_copies_are_worth_it(held: dict[str, Any], rule: str | None) -> None:
    before = literals(held)
    record = merge_constants(before, step="part")
    assert {remark.rule if remark.kind == "missed" else "" for remark in record.remarks} == ({rule} if rule is not None else set())
    assert bits(before, "cpu", X) == bits(record.after, "cpu", X)


def test_a_part_that_begins_oddly_is_copied_where_a_library_multiplies() -> None:
    held = {"w": W, "odd": W.reshape(-1)[1 : 1 + 40 * 96].reshape(40, 96).copy(), "even": W[:40].copy()}
    by_rows = torch.from_numpy(rng.standard_normal((96, 7)).astype(np.float32))
    before = literals(held, op="aten::mm")
    record = merge_constants(before, step="part")
    assert [node.op for node in record.after.nodes()].count("aten::clone") == 1
    assert bits(before, "cpu", by_rows) == bits(record.after, "cpu", by_rows)
    few = {"w": W, "odd": W.reshape(-1)[1:97].reshape(1, 96).copy()}
    assert [remark.rule for remark in merge_constants(literals(few, op="aten::mm"), step="part").remarks] == ["not-worth"]


def test_what_is_written_trained_or_may_change_stays() -> None:
    assert {remark.rule for remark in merge_constants(literals(MANY, write="w"), step="part").remarks} >= {"written-memory"}

    class Holds(torch.nn.Module):  # type: ignore[misc,name-defined]  # of torch
        def __init__(self, trained: bool) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.from_numpy(W), requires_grad=trained)
            self.register_buffer("turned", torch.from_numpy(W.T.copy()))
            self.register_buffer("rows", torch.from_numpy(W[2:40].copy()))

        def forward(self, x: Any) -> Any:
            return (x @ self.w.t()) @ self.turned.t(), self.rows * x[:1]

    x = torch.rand(5, 96)
    fixed, trained = (irs.load(Holds(each).eval(), x) for each in (False, True))
    assert {remark.rule for remark in merge_constants(fixed, step="part").remarks} == {"may-change"}
    assert {remark.rule for remark in merge_constants(trained, step="part", frozen=True).remarks} == {"trained"}
    d = irs.dedup(fixed, unit="constants", relation="part")
    after = d.apply(frozen=True)
    assert isinstance(after, irs.Graph) and [value.name for value in after.bound] == ["w"]
    assert bits(fixed, "cpu", x) == bits(after, "cpu", x)
    assert all(line.startswith("passed") for line in d.applied(frozen=True).remarks)


def test_functions_of_a_module_share_one_array_and_compute_the_rest_of_it() -> None:
    b = GraphBuilder("gives")
    held = b.constant(TensorData.of(W.copy()), typed(W), "v")
    b.input("x")
    seen = b.finish([held])
    graphs = {
        "f": literals({"w": W}), "g": literals({name: array.copy() for name, array in MANY.items() if name != "columns"}),
        "gives": seen, "writes": literals({"v": W.copy()}, write="v"),
    }  # fmt: skip
    data = {"rodata": W.copy(), "part": W[3:5].copy(), "half": W.astype(np.float16)}
    inside = irs.Module({"f": literals({"again": W.copy()})}, name="inside")
    module = irs.Module(graphs, constants=data, modules={"inside": inside})
    applied = irs.dedup(module, unit="constants", relation="part").applied()
    after = applied.program
    assert isinstance(after, irs.Module)
    verify_module(after)
    for name, graph in graphs.items():
        assert bits(graph, "cpu", X) == bits(after.graphs[name], "cpu", X)
    missed = [line for line in applied.remarks if line.startswith("missed")]
    assert [line.split("]")[0] for line in missed] == ["missed [seen-memory", "missed [written-memory", "missed [no-code"]
    left = irs.dedup(after, unit="constants", relation="tied").found
    assert left.bytes == 3 * W.nbytes + W.nbytes // 2  # of all functions, of `gives`, of `writes`, and the halves of the module
    assert isinstance(after.constants["part"], TensorData)
    assert np.array_equal(after.constants["part"].array, W[3:5])
    assert not [line for line in irs.dedup(after, unit="constants", relation="part").applied().remarks if line.startswith("passed")]


def test_tied_inputs_that_become_one_are_known_by_both_names() -> None:
    w = torch.rand(4, 4)
    b = GraphBuilder()
    x, first, second = (b.input(name, TensorType("float32", (4, 4), (4, 1))) for name in ("x", "first", "second"))
    bound: dict[Value, Any] = {first: w, second: w}
    after = merge_constants(b.finish([b.op("aten::mm", b.op("aten::mm", x, first), second)], bound=bound)).after
    assert after.tied == {"first": ("second",)}
    assert [str(found) for found in irs.dedup(after, unit="constants").found.shared] == ["%second is tied to %first"]


def test_a_step_that_there_is_not() -> None:
    with pytest.raises(ArgumentError, match="choose one of tied"):
        merge_constants(literals({"w": W}), step="alpha")  # type: ignore[arg-type]  # of other pieces


@pytest.mark.parametrize("passes", ["dedup-constants", "dedup-constants{step=part}", "pool-constants", "cse"])
def test_what_a_caller_writes_into_a_constant_that_he_got_reaches_no_other(passes: str) -> None:
    """The program's constants are one memory for all calls."""
    b = GraphBuilder()
    x = b.input("x", typed(W))
    given, own = (b.constant(TensorData.of(W.copy()), typed(W), name) for name in ("given", "own"))
    program = irs.Pipeline(passes)(b.finish([given, b.op("aten::mul", x, own, type=typed(W))])).graph
    run, ones = irs.compile(program), torch.ones(W.shape)
    mine, _ = run(ones)
    mine.fill_(7.0)
    assert np.array_equal(np.asarray(run(ones)[1]), W)
