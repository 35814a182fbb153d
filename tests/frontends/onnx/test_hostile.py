"""Damaged and malicious models: an error that says what and where, soon, and never a crash."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import LoadError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto as T  # noqa: E402
from onnx import helper  # noqa: E402

value = helper.make_tensor_value_info


def model(nodes: list[Any], initializers: list[Any] = [], functions: list[Any] = [], shape: Any = (2, 3)) -> Any:  # noqa: B006
    graph = helper.make_graph(nodes, "g", [value("x", T.FLOAT, shape)], [value("y", T.FLOAT, None)], initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=8)


def function(name: str, *calls: str) -> Any:
    """A function of the model that calls others, one after the other."""
    names = ["a", *(f"t{index}" for index in range(len(calls) - 1)), "b"]
    nodes = [helper.make_node(call, [names[i]], [names[i + 1]], domain="mine") for i, call in enumerate(calls)]
    nodes = nodes or [helper.make_node("Relu", ["a"], ["b"])]
    return helper.make_function("mine", name, ["a"], ["b"], nodes, [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)])


def refused(made: Any, *words: str) -> LoadError:
    start = time.process_time()
    with pytest.raises(LoadError) as caught:
        irs.load(made)
    assert time.process_time() - start < 2
    for word in words:
        assert word in str(caught.value)
    return caught.value


def test_functions_that_expand_to_too_many_nodes() -> None:
    bomb = [function("f0"), *(function(f"f{i}", *[f"f{i - 1}"] * 2) for i in range(1, 60))]
    refused(model([helper.make_node("f59", ["x"], ["y"], domain="mine")], functions=bomb), "expand to")


def test_a_function_that_calls_itself() -> None:
    refused(model([helper.make_node("f", ["x"], ["y"], domain="mine")], functions=[function("f", "f")]), "calls itself")


def test_weights_that_claim_more_elements_than_the_file_has() -> None:
    huge = onnx.TensorProto(name="w", data_type=T.FLOAT, dims=[1 << 40], raw_data=b"1234")
    refused(model([helper.make_node("Add", ["x", "w"], ["y"])], [huge]), "'w'", "has fewer", "Add")
    negative = onnx.TensorProto(name="w", data_type=T.FLOAT, dims=[-1], raw_data=b"1234")
    refused(model([helper.make_node("Add", ["x", "w"], ["y"])], [negative]), "shape [-1]")
    unknown = onnx.TensorProto(name="w", data_type=99, dims=[1], raw_data=b"1234")
    refused(model([helper.make_node("Add", ["x", "w"], ["y"])], [unknown]), "type 99")


def test_a_sparse_weight_that_is_huge_or_has_elements_outside() -> None:
    for shape, place in ([1 << 40], 0), ([4], 9):
        values = onnx.TensorProto(name="w", data_type=T.FLOAT, dims=[1], raw_data=np.float32(1).tobytes())
        indices = onnx.TensorProto(data_type=T.INT64, dims=[1], raw_data=np.int64(place).tobytes())
        made = model([helper.make_node("Add", ["x", "w"], ["y"])])
        made.graph.sparse_initializer.add(values=values, indices=indices, dims=shape)
        refused(made, "sparse")


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "a/../../secret.bin", "link.bin", "", "c:\\x", "\0"])
def test_weights_are_read_only_from_the_folder_of_the_model(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    home = tmp_path / "model"
    home.mkdir()
    (home / "link.bin").symlink_to(tmp_path / "secret.bin")
    weight = onnx.TensorProto(name="w", data_type=T.FLOAT, dims=[2, 3], data_location=T.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], [weight])
    (home / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(LoadError, match=r"'w'"):
        irs.load(home / "m.onnx")
    refused(made, "of an unknown folder")


@pytest.mark.parametrize(("op", "attributes", "shape"), [
    ("EyeLike", {}, (1 << 20, 1 << 20)),
    ("Pad", {"mode": "reflect", "pads": [0, 1 << 40, 0, 0]}, (2, 1 << 41)),
    ("Upsample", {}, (1 << 40, 2)),
    ("Softmax", {"axis": 1 << 60}, (2, 3)),
    ("Transpose", {"perm": [0, 0, 9]}, (2, 3)),
    ("Squeeze", {"axes": ["a"]}, (2, 3)),
    ("Concat", {}, (2, 3)),
    ("LeakyRelu", {"alpha": "steep"}, (2, 3)),
    ("Split", {"split": [1 << 62, 1 << 62]}, (2, 3)),
    ("LRN", {"size": -(1 << 62)}, (2, 3)),
    ("SpaceToDepth", {"blocksize": 0}, (1, 2, 2, 2)),
])  # fmt: skip
def test_an_op_with_impossible_attributes_is_kept_or_refused(op: str, attributes: Any, shape: Any) -> None:
    made = model([helper.make_node(op, ["x"], ["y"], **attributes)], shape=shape)
    made.opset_import[0].version = 9
    start = time.process_time()
    try:
        graph = irs.load(made)
        assert any(node.op == f"onnx::{op}" for node in graph.nodes()) or op in ("Concat", "LRN")
    except irs.errors.IrscopeError:
        pass
    assert time.process_time() - start < 2


@pytest.mark.parametrize(("op", "attributes", "inputs", "outputs"), [
    ("GatherND", {"batch_dims": -9}, [(T.FLOAT, (2, 3, 4)), (T.INT64, (1, 3))], 1),
    ("LayerNormalization", {"axis": 2**31}, [(T.FLOAT, (2, 3)), (T.FLOAT, (3, 5))], 2),
    ("Split", {"num_outputs": 1, "axis": 1}, [(T.FLOAT, (2, 3))], 4),
    ("Expand", {}, [(T.STRING, (2,)), (T.INT64, (1 << 40,))], 1),
])  # fmt: skip
def test_a_node_that_crashes_the_shape_inference_of_onnx(op: str, attributes: Any, inputs: Any, outputs: int) -> None:
    infos = [value(f"x{index}", kind, shape) for index, (kind, shape) in enumerate(inputs)]
    made = helper.make_node(op, [info.name for info in infos], [f"y{index}" for index in range(outputs)], **attributes)
    graph = helper.make_graph([made], "g", infos, [value("y0", T.FLOAT, None)])
    loaded = irs.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    assert any(node.op == f"onnx::{op}" for node in loaded.nodes()) or op == "Split"


def test_errors_name_file_node_and_op(tmp_path: Path) -> None:
    made = model([helper.make_node("Relu", ["x"], ["t"]), helper.make_node("Add", ["t", "nowhere"], ["y"], name="adder")])
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(LoadError) as caught:
        irs.load(path)
    told = str(caught.value)
    assert "'nowhere' is used and not defined" in told
    assert "m.onnx" in told and "adder" in told and "Add" in told


def test_files_that_are_not_models(tmp_path: Path) -> None:
    for name, content in ("empty", b""), ("text", b"a model"), ("zeros", bytes(1000)):
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(content)
        with pytest.raises(LoadError):
            irs.load(path)


def test_names_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("MyOp", ["x"], ["y"], domain="mine", name="some_node", some_attribute=3)
    data = model([node]).SerializeToString()
    for name in (b"some_attribute", b"MyOp", b"mine"):
        assert name in data
        path = tmp_path / "model.onnx"
        path.write_bytes(data.replace(name, b"\xff" + name[1:]))
        with pytest.raises(LoadError):
            irs.load(path)
