"""Ops without an `aten::` meaning: which library runs them, in which forms, and what is said of it."""

import sys
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import RunError

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402

R = np.random.default_rng(0)


def array(*shape: int) -> Any:
    return R.normal(size=shape).astype(np.float32)


def model(op: str, inputs: dict[str, Any], outputs: int = 1, opset: int = 17, **attributes: Any) -> Any:
    """A model of one op whose first operand is an input and whose other operands are weights; `""` is one that is left out."""
    first = next(iter(inputs))
    names = [name if value is not None else "" for name, value in inputs.items()]
    results = [f"y{index}" for index in range(outputs)]
    weights = [numpy_helper.from_array(value, name) for name, value in inputs.items() if name != first and value is not None]
    kind = helper.np_dtype_to_tensor_dtype(inputs[first].dtype)
    info = helper.make_tensor_value_info(first, kind, inputs[first].shape)
    node = helper.make_node(op, names, results, **attributes)
    graph = helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name=name) for name in results], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(made: Any, x: Any) -> tuple[Any, ...]:
    found = irs.compile(irs.fuse(irs.load(made)))(x)
    return found if isinstance(found, tuple) else (found,)


def same_as_runtime(made: Any, x: Any) -> None:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(run(made, x), session.run(None, {made.graph.input[0].name: x}), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


FORMS: dict[str, dict[str, Any]] = {
    "lengths": {"n": np.array([5, 3], np.int32)}, "clip": {"clip": 0.1}, "coupled": {"input_forget": 1},
    "activations": {"activations": ["Relu", "Tanh", "Sigmoid"]},
}  # fmt: skip


def lstm(n: Any = None, **attributes: Any) -> Any:
    inputs = {"x": array(5, 2, 4), "w": array(1, 12, 4), "r": array(1, 12, 3), "b": None, "n": n}
    return model("LSTM", inputs, 3, 14, hidden_size=3, **attributes)


@pytest.mark.parametrize("form", FORMS)
def test_attributes_that_the_onnx_reference_ignores_need_onnxruntime(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, x = lstm(**FORMS[form]), array(5, 2, 4)
    same_as_runtime(made, x)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(RunError, match=r"reference implementation ignores .*onnxruntime.*not installed"):
        run(made, x)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_gru_that_resets_before_its_product_is_a_loop_and_not_kept(direction: str, has_bias: bool) -> None:
    sides = 1 + (direction == "bidirectional")
    weights = {"w": array(sides, 9, 4), "r": array(sides, 9, 3), "b": array(sides, 18) if has_bias else None}
    made = model("GRU", {"x": array(6, 2, 4), **weights, "n": None, "h": array(sides, 2, 3)}, 2, 14, hidden_size=3, direction=direction)
    assert not [node.op for node in irs.load(made).nodes() if node.op.startswith("onnx::")]
    same_as_runtime(made, array(6, 2, 4))


def test_distinct_elements_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([3, 1, 3, 2], np.float32)
    made = model("Unique", {"x": x}, sorted=0, opset=11)
    pytest.importorskip("onnxruntime")
    assert run(made, x)[0].tolist() == [3, 1, 2]
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(RunError, match="ignores sorted = 0"):
        run(made, x)
    assert run(model("Unique", {"x": x}, opset=11), x)[0].tolist() == [1, 2, 3]


def test_an_op_whose_meaning_changed_with_an_opset(monkeypatch: pytest.MonkeyPatch) -> None:
    x = array(1, 1, 6, 6)
    inputs = {"x": x, "rois": np.array([[0, 0, 4, 4]], np.float32), "batch": np.array([0])}
    older, newer = (model("RoiAlign", inputs, opset=opset, output_height=2, output_width=2) for opset in (10, 16))
    same_as_runtime(older, x)
    same_as_runtime(newer, x)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(RunError, match="ignores what it meant before opset 16"):
        run(older, x)
    assert run(newer, x)[0].shape == (1, 1, 2, 2)


def test_the_library_that_ran_an_op_is_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = pytest.importorskip("onnxruntime")
    x = array(4)
    made = irs.load(model("Unique", {"x": x}, opset=11))
    (remark,) = irs.compile(made).remarks
    assert str(remark) == f"analysis [kept-op] %y0: onnx::Unique runs in onnxruntime {runtime.__version__}"
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    (remark,) = irs.compile(made).remarks
    assert "onnx::Unique runs in ONNX's reference implementation" in str(remark)


def test_a_run_in_float64_gives_kept_ops_their_declared_types() -> None:
    x = array(2, 3)
    made = model("Unique", {"x": x}, opset=11)
    comparison = irs.compare(irs.load(made), x, repeats=1)
    assert comparison.table()["absolute error"].max() == 0
    assert "a float64 run, in which onnx::Unique keeps the types of the program" in str(comparison)
    torch = pytest.importorskip("torch")
    assert irs.compare(irs.load(made), torch.from_numpy(x), repeats=1).table()["absolute error"].max() == 0


def test_numbers_out_of_range_never_reach_onnxruntime() -> None:
    """Some of them end the process there, without an exception."""
    node = helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=-2)
    inputs = [helper.make_tensor_value_info("x", 1, [2, 2]), helper.make_tensor_value_info("i", 7, [2, 1])]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    program = irs.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    run = irs.compile(irs.fuse(program))
    (kept,) = [remark for remark in run.remarks if remark.rule == "kept-op"]
    assert "out of range" in kept.because
