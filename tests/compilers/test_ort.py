"""ONNX Runtime's decisions: which of a model's nodes each of its kernels computes. Its own runs judge what the groups compute."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, LoadError, MissingExtra

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def _model(nodes: list[Any], inputs: dict[str, list[int]], outputs: list[str], **weights: Any) -> Any:
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    return helper.make_model(helper.make_graph(nodes, "g", given, made, held), opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), name=f"my_{output}", **attributes)


def _convolution() -> Any:
    nodes = [
        _node("Conv", "x w b", "c", pads=[1, 1, 1, 1]), _node("Relu", "c", "r"),
        _node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]), _node("Sigmoid", "p", "y"),
    ]  # fmt: skip
    draw = np.random.default_rng(0)
    return _model(
        nodes, {"x": [1, 16, 8, 8]}, ["y"], w=draw.standard_normal((16, 16, 3, 3), np.float32), b=draw.standard_normal(16, np.float32)
    )


def _names(kernel: Any) -> list[str]:
    return [node.op.partition("::")[2] for node in kernel.nodes]


def _check(d: irs.Decisions, *args: Any) -> None:
    """The program with the groups that were read has the results of onnxruntime."""
    want = d.call(*args)  # type: ignore[misc]
    found = irs.compile(d.fusion)(*args)
    pairs = zip(want, found, strict=True) if isinstance(want, tuple) else [(want, found)]
    for its, mine in pairs:
        np.testing.assert_allclose(np.asarray(mine), its, rtol=1e-4, atol=1e-5)
    irs.verify(d.fusion.graph)


def test_a_rewrite_makes_one_kernel_of_several_nodes_and_each_has_a_time() -> None:
    x = np.random.default_rng(1).standard_normal((1, 16, 8, 8), np.float32)
    d = irs.decisions(_convolution(), x, compiler="onnxruntime", level="extended")
    assert d.compiler == "onnxruntime" and [_names(kernel) for kernel in d.kernels] == [["conv2d", "relu"], ["max_pool2d"], ["sigmoid"]]
    assert [kernel.function for kernel in d.kernels] == ["com.microsoft.FusedConv", "MaxPool", "Sigmoid"]
    assert [kernel.certainty for kernel in d.kernels] == ["matched", "exact", "exact"]
    assert all(kernel.is_library and kernel.ms is not None and kernel.ms >= 0 for kernel in d.kernels)
    assert d.why_not("c", "r") and not d.why_not("r", "p")
    memory = d.program.memory  # of versions whose profile says so
    assert memory is None or (len(memory.moments) == 3 and memory.peak >= 16 * 8 * 8 * 4 and (memory.total or 0) >= memory.peak)
    _check(d, x)


def test_where_values_are_renamed_the_kernels_and_nodes_between_named_ones_are_a_region() -> None:
    """At the level "all" a processor with a blocked layout has kernels for it, which rename what is inside, and one that restores it."""
    d = irs.decisions(_convolution(), compiler="onnxruntime")
    assert all(kernel.ms is None for kernel in d.kernels)
    computed = [node for kernel in d.kernels for node in kernel.nodes]
    assert sorted(node.op for node in computed) == ["aten::conv2d", "aten::max_pool2d", "aten::relu", "aten::sigmoid"]
    if d.program.regions:
        (region,) = d.program.regions
        assert len(region.nodes) >= 3 and all(kernel.certainty == "guessed" and kernel.because for kernel in region.kernels)
        assert ["conv2d", "relu"] in map(_names, d.kernels)
    _check(d, np.ones((1, 16, 8, 8), np.float32))


def test_what_was_computed_at_load_vanishes() -> None:
    nodes = [_node("Add", "k k", "twice"), _node("Mul", "x twice", "m"), _node("Identity", "m", "i"), _node("Relu", "i", "y")]
    d = irs.decisions(_model(nodes, {"x": [2, 2]}, ["y"], k=np.ones((2, 2), np.float32)))
    assert [(change.kind, change.op) for change in d.program.changes] == [("vanished", "Add")]
    assert d.program.vanished()["because"][0] == "its result was computed once, when the model was loaded"
    assert [_names(kernel)[:1] for kernel in d.kernels] == [["mul"], ["relu"]]
    _check(d, np.ones((2, 2), np.float32))


def test_a_node_that_another_makes_needless_vanishes_into_that() -> None:
    nodes = [_node("Exp", "x", "a"), _node("Exp", "x", "b"), _node("Tanh", "b", "c"), _node("Add", "a c", "y")]
    d = irs.decisions(_model(nodes, {"x": [2, 2]}, ["y"]))
    ((op, became, because),) = d.program.vanished()[["op", "became", "because"]].itertuples(index=False, name=None)
    assert (op, became[:3], because) == ("Exp", "exp", "another node computes the same of the same operands")
    _check(d, np.ones((2, 2), np.float32))


def test_constants_that_two_kernels_need_are_in_neither() -> None:
    """A constant of one kernel leads, over another constant, to what a second kernel gives the first: as nodes they would be a circle."""
    nodes = [
        _node("Cast", "k", "one", to=TensorProto.FLOAT), _node("Sub", "u one", "zero"), _node("Mul", "x one", "a"), _node("Exp", "x", "e"),
        _node("Mul", "e zero", "b"), _node("Add", "a b", "y"),
    ]  # fmt: skip
    d = irs.decisions(_model(nodes, {"x": [2]}, ["y"], k=np.ones(2, np.int64), u=np.full(2, 3, np.float32)))
    assert not d.program.notes and {change.op for change in d.program.changes} >= {"Cast", "Sub"}
    _check(d, np.ones(2, np.float32))


def test_a_product_whose_operands_are_only_reshaped_is_matched() -> None:
    nodes = [_node("MatMul", "x w", "m"), _node("Add", "m b", "y")]
    d = irs.decisions(_model(nodes, {"x": [2, 3, 4]}, ["y"], w=np.ones((4, 5), np.float32), b=np.ones(5, np.float32)))
    assert [kernel.certainty for kernel in d.kernels] == ["matched"] * len(d.kernels)
    assert [_names(kernel) for kernel in d.kernels if kernel.nodes] == [["matmul", "add"]]
    assert {change.op for change in d.program.changes} == {"Reshape"}
    _check(d, np.ones((2, 3, 4), np.float32))


def test_nodes_with_one_name_and_without_a_name_have_their_own_times() -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"], name="n"),
        helper.make_node("Exp", ["b"], ["y"], name="n"),
    ]
    x = np.ones((8, 8), np.float32)
    d = irs.decisions(_model(nodes, {"x": [8, 8]}, ["y"]), x)
    assert len({kernel.name for kernel in d.kernels}) == 3 and all(kernel.ms is not None for kernel in d.kernels)


def test_kernels_of_inlined_functions_have_nodes_and_times() -> None:
    """Of the model's own functions, one in another, each node; of one by which ONNX defines an op (Mish), that op."""
    swish = helper.make_function(
        "my", "Swish", ["a"], ["b"], [helper.make_node("Sigmoid", ["a"], ["s"]), helper.make_node("Mul", ["a", "s"], ["b"])],
        [helper.make_opsetid("", 20)],
    )  # fmt: skip
    inside = [helper.make_node("MatMul", ["a", "w"], ["m"]), helper.make_node("Swish", ["m"], ["q"], domain="my")]
    versions = [helper.make_opsetid("", 20), helper.make_opsetid("my", 1)]
    block = helper.make_function("my", "Block", ["a", "w"], ["o"], [*inside, helper.make_node("Add", ["q", "a"], ["o"])], versions)
    nodes = [
        _node("Block", "x w", "z", domain="my"), _node("Block", "z w", "u", domain="my"), helper.make_node("Mish", ["u"], ["y"]),
    ]  # fmt: skip
    model = _model(nodes, {"x": [8, 8], "w": [8, 8]}, ["y"])
    model.opset_import.append(versions[1])
    model.functions.extend([swish, block])
    before, x, w = model.SerializeToString(), *np.random.default_rng(3).standard_normal((2, 8, 8), np.float32)
    d = irs.decisions(model, x, w, compiler="onnxruntime", level="basic")
    whole = [["matmul"], ["sigmoid"], ["mul"], ["add"]]
    assert [_names(kernel) for kernel in d.kernels] == [*whole, *whole, [], [], ["mish"]]
    assert [kernel.certainty for kernel in d.kernels] == ["exact"] * 8 + ["matched"] * 3 and "by 3 kernels" in d.kernels[-1].because
    assert all(kernel.ms is not None and kernel.name.startswith(kernel.function) for kernel in d.kernels)
    assert model.SerializeToString() == before and "my_z" in d.kernels[0].nodes[0].scope
    _check(d, x, w)


def test_bodies_of_branches_read_what_is_outside() -> None:
    bodies = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["a"], [f"{name}_y"])], name, [], [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [2])]
        )
        for name, op in (("then", "Exp"), ("else", "Tanh"))
    }
    nodes = [
        _node("Relu", "x", "a"), _node("ReduceSum", "a", "s", keepdims=0), _node("Cast", "s", "c", to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], name="branch", **bodies),
    ]  # fmt: skip
    d = irs.decisions(_model(nodes, {"x": [2]}, ["y"]))
    assert "relu" in _names(d.kernels[0]) and d.kernels[-1].part_of[-1].op == "prim::If"
    _check(d, np.ones(2, np.float32))


def test_what_does_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model([_node("Relu", "x", "y")], {"x": [2]}, ["y"])
    with pytest.raises(ArgumentError, match="level is one of"):
        irs.decisions(model, level="most")
    with pytest.raises(ArgumentError):
        irs.decisions(model, np.ones(2, np.float32), np.ones(2, np.float32))
    with pytest.raises(ArgumentError, match="cannot run"):
        irs.decisions(model, np.ones(3, np.float32))
    silent = _model([_node("Relu", "x", "y")], {"x": [2]}, [])
    assert len(irs.decisions(silent, compiler="onnxruntime").kernels) == 1
    with pytest.raises(ArgumentError, match=r"without outputs(.|\n)*hint: leave out"):
        irs.decisions(silent, np.ones(2, np.float32), compiler="onnxruntime")
    unknown = _model([helper.make_node("Strange", ["x"], ["y"], domain="my.ops")], {"x": [2]}, ["y"])
    with pytest.raises(LoadError, match=r"onnxruntime .* does not take this model"):
        irs.decisions(unknown)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString()[:-20])
    with pytest.raises(LoadError):
        irs.decisions(path)
    monkeypatch.setattr("irscope.compilers.ort.import_module", Mock(side_effect=ImportError()))  # as 1.18 says it beside NumPy 2
    with pytest.raises(MissingExtra, match="another NumPy"):
        irs.decisions(model)


def test_weights_may_be_beside_the_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = _convolution()
    onnx.save_model(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    d = irs.decisions(path, np.ones((1, 16, 8, 8), np.float32), level="extended")
    assert [_names(kernel) for kernel in d.kernels] == [["conv2d", "relu"], ["max_pool2d"], ["sigmoid"]]
    assert all(kernel.ms is not None for kernel in d.kernels)


@pytest.mark.long
def test_a_torch_model_and_its_graph_are_exported_first(torch: Any) -> None:
    pytest.importorskip("onnxscript")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
    x = torch.randn(2, 8)
    d, of_graph = irs.decisions(model, x, compiler="onnxruntime"), irs.decisions(irs.load(model, x), compiler="onnxruntime")
    assert [_names(kernel) for kernel in d.kernels] == [_names(kernel) for kernel in of_graph.kernels]
    np.testing.assert_allclose(np.asarray(irs.compile(d.fusion)(x.numpy())), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert all(kernel.ms is not None for kernel in d.kernels) and all(kernel.ms is None for kernel in of_graph.kernels)
    for given in (x, x.numpy()):
        found = irs.compare(d, given, repeats=1)
        assert [row.label for row in found.rows] == ["fused", "eager", "onnxruntime", "onnxruntime's groups"]
        assert all(row.error is not None and row.error < 1e-5 for row in found.rows)
    with pytest.raises(LoadError, match="torch cannot export"):
        irs.decisions(model, torch.randn(2, 9), compiler="onnxruntime")
