"""What an ONNX model becomes: names, types, weights, bodies, functions, opaque ops, and what the alias db knows of them."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, LoadError, RunError
from irscope.ir import TensorData
from tests.frontends.onnx.hostile import rich_model

onnx = pytest.importorskip("onnx")

from onnx import TensorProto as T  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

value = helper.make_tensor_value_info
node = helper.make_node


def model(nodes: Any, inputs: Any, outputs: Any = ("y",), weights: dict[str, Any] | None = None, opset: int = 20, **named: Any) -> Any:
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    infos = [value(name, kind, shape) for name, (kind, shape) in inputs.items()]
    graph = helper.make_graph(nodes, "g", infos, [value(name, T.FLOAT, None) for name in outputs], held)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **named)


def same_as_reference(made: Any, *args: Any) -> irs.Graph:
    """Compares a run on each device with ONNX's own; gives the graph."""
    return same(made, lambda feeds: ReferenceEvaluator(made).run(None, feeds), args)


def same_as_runtime(made: Any, *args: Any) -> irs.Graph:
    """Compares with onnxruntime: ONNX's reference joins a loop's rows end to end, and knows fewer directions."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return same(made, lambda feeds: session.run(None, feeds), args)


def same(made: Any, oracle: Any, args: Any) -> irs.Graph:
    graph = irs.load(made)
    names = [info.name for info in made.graph.input]
    wanted = oracle(dict(zip(names, args, strict=True)))
    for device in ("cpu", "reference"):
        found = irs.compile(irs.fuse(graph), device=device)(*args)
        for ours, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    return graph


def ops(graph: irs.Graph) -> list[str]:
    return [n.op for n in graph.nodes() if n.op != "prim::Constant"]


X = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)


def test_weights_are_bound_under_their_names_and_unused_ones_left_out() -> None:
    made = model([node("MatMul", ["x", "w"], ["y"])], {"x": (T.FLOAT, ["n", 4])}, weights={"w": np.eye(4, dtype=np.float32),
                 "unused": np.zeros(99, np.float32)})  # fmt: skip
    graph = same_as_reference(made, X)
    assert [v.name for v in graph.inputs] == ["x", "w"] and [v.name for v in graph.free_inputs] == ["x"]
    assert str(graph.value("y").type) == "Float(n, 4)"


def test_inputs_are_distinct_and_results_are_new_memory() -> None:
    made = model([node("Odd", ["x"], ["t"], domain="mine"), node("Add", ["t", "z"], ["y"])],
                 {"x": (T.FLOAT, [2, 4]), "z": (T.FLOAT, [2, 4])})  # fmt: skip
    db = irs.AliasDb(irs.load(made))
    assert "ONNX" in db.may_alias("x", "z").because and not db.may_alias("x", "z")
    assert not db.may_alias("t", "x") and not db.has_writers("x")


def test_functions_bodies_and_shapes_of_one_model() -> None:
    made = rich_model()
    del made.graph.node[-1]
    made.graph.output[0].name = "r"
    graph = same_as_runtime(made, X)
    assert {"prim::If", "prim::Loop", "aten::reshape"} <= set(ops(graph))
    assert not any(op.startswith("onnx::") for op in ops(graph))
    assert graph.node("b").scope == "Double"


def test_a_loop_without_iterations_returns_an_empty_tensor() -> None:
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Neg", ["s"], ["t"]), node("Relu", ["s"], ["r"])], "b",
        [value("i", T.INT64, []), value("c", T.BOOL, []), value("s", T.FLOAT, [2, 4])],
        [value("d", T.BOOL, []), value("t", T.FLOAT, [2, 4]), value("r", T.FLOAT, [2, 4])],
    )  # fmt: skip
    made = model([node("Loop", ["m", "", "x"], ["y", "rows"], body=body)], {"m": (T.INT64, []), "x": (T.FLOAT, [2, 4])}, ["y", "rows"])
    for rounds in (0, 3):
        same_as_runtime(made, np.array(rounds), X)


def test_a_loop_stops_by_its_condition_and_sees_names_outside() -> None:
    body = helper.make_graph(
        [node("Add", ["s", "step"], ["t"]), node("ReduceMax", ["t"], ["top"], keepdims=0), node("Less", ["top", "five"], ["d"])],
        "b", [value("i", T.INT64, []), value("c", T.BOOL, []), value("s", T.FLOAT, [2, 4])],
        [value("d", T.BOOL, []), value("t", T.FLOAT, [2, 4])],
    )  # fmt: skip
    weights = {"step": np.float32(1), "five": np.float32(5), "go": np.array(True)}
    same_as_reference(model([node("Loop", ["", "go", "x"], ["y"], body=body)], {"x": (T.FLOAT, [2, 4])}, weights=weights), X)


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_loop_keeps_the_extents_of_what_its_body_declares_nothing_of(grows: bool, depth: int) -> None:
    """Unless a turn returns others."""
    body = [node("Concat", ["k1", "k1"], ["w"], axis=0) if grows else node("Mul", ["k1", "k1"], ["w"])]
    body += [node("ReduceMax", ["w"], ["r"], keepdims=1), node("Div", ["w", "r"], ["m1"])]
    for level in range(1, depth + 1):
        given = [value(f"i{level}", T.INT64, []), value(f"c{level}", T.BOOL, []), value(f"k{level}", T.FLOAT, None)]
        body.insert(0, node("Identity", [f"c{level}"], [f"d{level}"]))
        block = helper.make_graph(body, "b", given, [value(f"d{level}", T.BOOL, []), value(f"m{level}", T.FLOAT, None)])
        body = [node("Loop", ["two", "", f"k{level + 1}"], [f"m{level + 1}"], body=block)]
    made = model(body, {f"k{depth + 1}": (T.FLOAT, [2, 4])}, [f"m{depth + 1}"], {"two": np.array(2 if depth < 5 else 1)})
    graph = same_as_runtime(made, X)
    assert ("onnx::ReduceMax" in ops(graph)) == (grows or depth > 4)


SCANNED = helper.make_graph(
    [node("Add", ["s", "e"], ["t"]), node("Mul", ["t", "t"], ["r"])], "b",
    [value("s", T.FLOAT, [2]), value("e", T.FLOAT, [2])], [value("t", T.FLOAT, [2]), value("r", T.FLOAT, [2])],
)  # fmt: skip


def test_scan_backwards_along_another_axis() -> None:
    scan = node("Scan", ["s0", "x"], ["last", "y"], body=SCANNED, num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1],
                scan_output_axes=[1], scan_output_directions=[1])  # fmt: skip
    made = model([scan], {"s0": (T.FLOAT, [2]), "x": (T.FLOAT, [2, 4])}, ["last", "y"])
    same_as_runtime(made, np.zeros(2, np.float32), X)


@pytest.mark.parametrize("back", [0, 1])
def test_scan_of_opset_8_scans_each_element_of_a_batch(back: int) -> None:
    scan = node("Scan", ["", "s0", "x"], ["last", "y"], body=SCANNED, num_scan_inputs=1, directions=[back])
    made = model([scan], {"s0": (T.FLOAT, [3, 2]), "x": (T.FLOAT, [3, 5, 2])}, ["last", "y"], opset=8)
    x = np.random.default_rng(0).random((3, 5, 2), np.float32)
    assert not any(op.startswith("onnx::") for op in ops(same_as_runtime(made, np.ones((3, 2), np.float32), x)))


@pytest.mark.parametrize(
    ("kind", "word"), [(T.FLOAT8E4M3FN, "Float8_e4m3fn"), (T.INT4, "Int4"), (T.UINT16, "UInt16"), (T.STRING, "String")]
)
def test_element_types_without_a_counterpart_are_kept(kind: int, word: str) -> None:
    made = model([node("Reshape", ["x", "to"], ["y"])], {"x": (kind, [2, 3])}, weights={"to": np.array([3, 2])}, opset=21)
    graph = irs.load(made)
    assert str(graph.value("y").type) == f"{word}(3, 2)"
    assert str(irs.parse(str(graph)).value("x").type) == f"{word}(2, 3)"


def test_ops_without_a_meaning_keep_attributes_and_types_and_run_if_a_library_has_them() -> None:
    graph = same_as_runtime(model([node("Det", ["x"], ["t"]), node("Unique", ["x"], ["y"], axis=0)], {"x": (T.FLOAT, [3, 3])},
                                  opset=11), np.eye(3, dtype=np.float32))  # fmt: skip
    assert graph.node("y").op == "onnx::Unique" and dict(graph.node("y").attrs) == {"axis": 0, "opset": 11}
    run = irs.compile(irs.load(model([node("Odd", ["x"], ["y"], domain="mine", depth=3)], {"x": (T.FLOAT, [2, 4])})))
    with pytest.raises(RunError, match=r"mine\.Odd"):
        run(X)
    made = model([node("StringNormalizer", ["x"], ["y"])], {"x": (T.STRING, [2])})
    words = np.array(["b", "a"], object)
    assert irs.compile(irs.load(made))(words).tolist() == ["b", "a"]
    with pytest.raises(ArgumentError):
        irs.compile(irs.load(made))(X)


def test_nan_payloads_are_kept() -> None:
    bits = np.array([0x7FC00001, 0xFF800000, 0x80000000, 0x7F800001], np.uint32)
    constant = numpy_helper.from_array(bits.view(np.float32), "c")
    made = model([node("Constant", [], ["c"], value=constant), node("Where", ["m", "c", "x"], ["y"])],
                 {"m": (T.BOOL, [4]), "x": (T.FLOAT, [4])})  # fmt: skip
    graph = irs.load(made)
    held = [n.attrs["value"].array for n in graph.nodes() if isinstance(n.attrs.get("value"), TensorData)]
    assert held[0].view(np.uint32).tolist() == bits.tolist()
    found = irs.compile(graph)(np.ones(4, bool), np.zeros(4, np.float32))
    assert found.view(np.uint32).tolist() == bits.tolist()


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    weight = np.arange(400, dtype=np.float32).reshape(4, 100)
    made = model([node("MatMul", ["x", "w"], ["y"])], {"x": (T.FLOAT, [2, 4])}, weights={"w": weight})
    path = tmp_path / "m.onnx"
    onnx.save_model(made, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    np.testing.assert_allclose(irs.compile(irs.load(path))(X), X @ weight, rtol=1e-6)
    (tmp_path / "weights.bin").write_bytes(b"short")
    with pytest.raises(irs.errors.LoadError, match=r"weights.bin"):
        irs.load(path)


def test_stack_traces_and_scopes_of_the_exporter_are_read() -> None:
    relu = node("Relu", ["x"], ["y"], name="/encoder/layer.0/Relu")
    relu.metadata_props.add(key="pkg.torch.onnx.stack_trace", value='File "/home/me/net.py", line 12, in forward\n  return relu(x)')
    made = irs.load(model([relu], {"x": (T.FLOAT, [2, 4])})).node("y")
    assert str(made.location) == "/home/me/net.py:12:0" and made.scope == "encoder.layer.0"


def branches_of_different_rank(axis: int, extent: int) -> Any:
    """What torch's exporter makes of `squeeze(dim)`: an If by the extent, then ops on a tensor of either rank."""
    inner = {name: helper.make_graph([made], name, [], [onnx.ValueInfoProto(name=name)])
             for name, made in (("t", node("Squeeze", ["c", "one"], ["t"])), ("e", node("Identity", ["c"], ["e"])))}  # fmt: skip
    ends = {name: helper.make_graph([node(op, ["v"], [name])], name, [], [onnx.ValueInfoProto(name=name)])
            for name, op in (("a", "Exp"), ("b", "Neg"))}  # fmt: skip
    nodes = [
        node("Abs", ["x"], ["c"]), node("Shape", ["c"], ["s"]), node("Gather", ["s", "axis"], ["g"]), node("Equal", ["g", "extent"], ["q"]),
        node("If", ["q"], ["r"], then_branch=inner["t"], else_branch=inner["e"]), node("ReduceMean", ["r"], ["m"], axes=[-1], keepdims=0),
        node("Sqrt", ["m"], ["v"]), node("ReduceSum", ["v"], ["all"], keepdims=0), node("Greater", ["all", "zero"], ["big"]),
        node("If", ["big"], ["y"], then_branch=ends["a"], else_branch=ends["b"]),
    ]  # fmt: skip
    weights = {"one": np.array([1]), "axis": np.array(axis), "extent": np.array(extent), "zero": np.float32(0)}
    return model(nodes, {"x": (T.FLOAT, ["n", 1, "m"])}, weights=weights, opset=16)


def test_branches_of_different_rank_keep_their_element_type_and_fold_where_shapes_are_known() -> None:
    made = branches_of_different_rank(2, 4)
    for extent in (4, 6):
        graph = same_as_runtime(made, np.ones((2, 1, extent), np.float32))
    assert str(graph.value("r").type) == "FloatTensor" and str(graph.value("all").type) == "FloatTensor"
    assert [op for op in ops(graph) if op.startswith("onnx::")] == ["onnx::ReduceSum"]
    x = np.ones((2, 1, 6), np.float32)
    assert ops(irs.load(branches_of_different_rank(1, 1))).count("prim::If") == 1
    made = branches_of_different_rank(2, 4)
    graph = irs.load(made, x)
    assert ops(graph).count("prim::If") == 1 and not any(op.startswith("onnx::") for op in ops(graph))
    np.testing.assert_allclose(irs.compile(irs.fuse(graph))(x), irs.compile(irs.load(made))(x), rtol=1e-6)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "MaxPool", "AveragePool"])
@pytest.mark.parametrize("way", ["SAME_UPPER", "SAME_LOWER"])
def test_same_padding_of_unknown_extents(op: str, way: str) -> None:
    weight = {"w": np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4)} if op.startswith("Conv") else {}
    made = model([node(op, ["x", *weight], ["y"], kernel_shape=[2, 4], auto_pad=way)], {"x": (T.FLOAT, [1, 1, "h", "w"])}, weights=weight)
    graph = same_as_runtime(made, np.random.default_rng(0).random((1, 1, 5, 6), np.float32))
    assert not any(op.startswith("onnx::") for op in ops(graph))


@pytest.mark.parametrize("attributes", [{"output_shape": [16]}, {"strides": [4], "auto_pad": "SAME_UPPER"}, {"pads": [2, -1]}])
def test_what_a_transposed_convolution_adds_at_its_ends_is_the_bias(attributes: dict[str, Any]) -> None:
    weights = {"w": np.arange(3, dtype=np.float32).reshape(1, 1, 3), "b": np.array([9], np.float32)}
    made = model(
        [node("ConvTranspose", ["x", *weights], ["y"], **({"strides": [2]} | attributes))], {"x": (T.FLOAT, [1, 1, 7])}, weights=weights
    )
    same_as_reference(made, np.arange(7, dtype=np.float32).reshape(1, 1, 7))


@pytest.mark.parametrize(("extent", "size"), [(14, 46), (2, 82)])
def test_the_nearest_neighbour_is_not_the_one_before_by_a_rounding(extent: int, size: int) -> None:
    words = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    made = model(
        [node("Resize", ["x", "", "", "s"], ["y"], **words)], {"x": (T.FLOAT, [1, 1, extent])}, weights={"s": np.array([1, 1, size])}
    )
    same_as_reference(made, np.arange(extent, dtype=np.float32).reshape(1, 1, extent))


@pytest.mark.parametrize(("made", "shape"), [
    (node("Slice", ["x", "first", "end", "axes", "back"], ["y"]), (3, 4)),
    (node("Pad", ["x", "pads"], ["y"], mode="wrap"), (3, 4)),
    (node("GridSample", ["x", "grid"], ["y"], mode="nearest", padding_mode="reflection"), (1, 1, 2, 4)),
])  # fmt: skip
def test_what_torch_and_python_do_otherwise(made: Any, shape: tuple[int, ...]) -> None:
    """A slice that begins before the first element, a padding that wraps and takes away, a point between two elements that is reflected."""
    one = {"first": [-9], "end": [-(2**31)], "axes": [1], "back": [-1], "pads": [0, 2, 0, -1], "grid": [[[[-1.0, -2.0]]]]}
    weights = {name: np.array(one[name], np.float32 if name == "grid" else np.int64) for name in made.input[1:]}
    same_as_runtime(model([made], {"x": (T.FLOAT, shape)}, weights=weights), np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


@pytest.mark.parametrize("bounds", [{}, {"low": np.array(-1, np.float32)}, {"high": np.array(1, np.float32)}])
def test_an_omitted_bound_of_clip_is_the_largest_finite_number(bounds: dict[str, Any]) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 2], np.float32)
    names = [name if name in bounds else "" for name in ("low", "high")]
    for given in (bounds, {}):  # as weights, and at run time
        inputs = {"x": (T.FLOAT, [4]), **({name: (T.FLOAT, []) for name in bounds} if not given else {})}
        same_as_runtime(model([node("Clip", ["x", *names], ["y"])], inputs, weights=given), x, *([] if given else bounds.values()))


def test_the_wrong_number_of_example_arguments() -> None:
    with pytest.raises(ArgumentError, match="2 example arguments for 1 input"):
        irs.load(model([node("Relu", ["x"], ["y"])], {"x": (T.FLOAT, [2, 4])}), X, X)


def test_every_text_reads_back_and_the_command_line_takes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from irscope.cli import main

    path = tmp_path / "rich.onnx"
    path.write_bytes(rich_model().SerializeToString())
    text = str(irs.load(path))
    assert str(irs.parse(text)) == text
    for command in (["show", str(path)], ["opt", str(path), "-p", "dce"]):
        main(command)
        assert "onnx::mine.Odd" in capsys.readouterr().out


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module("onnx_model").main(16)
    assert "largest difference" in capsys.readouterr().out


# --- Files of models: their weights in other files, which may be missing, and nodes of very many results.


def without_its_weights(folder: Path) -> Path:
    """A file whose weights, a matrix and the numbers of a reshape, are in a file that is not there."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Reshape", ["h", "to"], ["y"])]
    weights = {"w": np.arange(12, dtype=np.float32).reshape(4, 3), "to": np.array([3, 2])}
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    infos = [[helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)] for name in "xy"]
    infos[0] = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 4])]
    made = helper.make_model(helper.make_graph(nodes, "g", *infos, held), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "m.onnx"
    onnx.save_model(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (folder / "w.bin").unlink()
    return path


def test_a_model_without_its_weights_loads_with_missing_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from irscope.cli import main

    path = without_its_weights(tmp_path)
    with pytest.raises(LoadError, match=r"no file 'w.bin'") as error:
        irs.load(path)
    assert 'missing_weights="inputs"' in error.value.hint and "--missing-weights inputs" in error.value.hint
    graph = irs.load(path, missing_weights="inputs")
    assert [f"{value.name} {value.type}" for value in graph.free_inputs] == ["x Float(2, 4)", "w Float(4, 3)", "to Long(2)"]
    x, w = np.ones((2, 4), np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(irs.compile(irs.fuse(graph))(x, w, np.array([3, 2])), (x @ w).reshape(3, 2))
    assert main(["show", str(path), "--missing-weights", "inputs"]) == 0
    assert "%w : Float(4, 3)" in capsys.readouterr().out
    loaded = irs.load(onnx.load(path, load_external_data=False), missing_weights="inputs")
    assert [value.name for value in loaded.free_inputs] == ["x", "w", "to"]


def test_existing_weights_are_read_and_other_formats_refuse_the_option(tmp_path: Path) -> None:
    path = without_its_weights(tmp_path)
    (tmp_path / "w.bin").write_bytes(bytes(100_000))
    assert [value.name for value in irs.load(path, missing_weights="inputs").free_inputs] == ["x"]
    with pytest.raises(ArgumentError, match="for ONNX models"):
        irs.load("graph(%x : Tensor):\n  return (%x)", missing_weights="inputs")
    with pytest.raises(ArgumentError, match="None or 'inputs'"):
        irs.load(path, missing_weights="zeros")  # type: ignore[arg-type]


def test_a_git_lfs_pointer_in_place_of_weights(tmp_path: Path) -> None:
    path = without_its_weights(tmp_path)
    (tmp_path / "w.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(LoadError, match=r"w.bin' is not the file itself but Git LFS's note") as error:
        irs.load(path)
    assert "git lfs pull" in error.value.hint


def test_weights_larger_than_memory_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    huge = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[1 << 21, 1 << 20], data_location=onnx.TensorProto.EXTERNAL)
    huge.external_data.add(key="location", value="w.bin")
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", infos[:1], infos[1:], [huge])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(LoadError, match=r"'w' of shape \[2097152, 1048576\] takes .*more than there is memory for"):
        irs.load(path)
    (tmp_path / "w.bin").rename(tmp_path / "elsewhere")
    assert len(irs.load(path, missing_weights="inputs").free_inputs) == 2


def test_a_node_with_many_results_takes_linear_time() -> None:
    names = [f"y{index}" for index in range(30_000)]
    split = helper.make_node("Split", ["x"], names, axis=0, num_outputs=len(names))
    infos = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph([split], "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [len(names), 2])], infos)
    loaded = irs.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    assert len(loaded.outputs) == 30_000  # half a second; a minute where each name is told with all others


def test_the_coverage_may_be_piped_to_head(tmp_path: Path) -> None:
    pages = Path(__file__).parents[3] / "docs" / "site" / "coverage_pages.py"
    command = f"{sys.executable} {pages} onnx | head -1; {sys.executable} -m irscope.cli show {tmp_path}/a.ir | head -1"
    ops = "".join(f"  %a{index} : Tensor = aten::relu(%x)\n" for index in range(3000))
    (tmp_path / "a.ir").write_text(f"graph(%x : Tensor):\n{ops}  return (%x)")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "# ONNX ops" in done.stdout and done.stderr == ""


def test_a_gru_of_no_steps_returns_its_first_state(tmp_path: Path) -> None:
    """As ONNX says; onnxruntime 1.x ends the process."""
    helper, arrays = onnx.helper, {"w": np.ones((1, 9, 4), np.float32), "r": np.ones((1, 9, 3), np.float32)}
    node = helper.make_node("GRU", ["x", *arrays], ["y", "h"], hidden_size=3, linear_before_reset=1)
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    made = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", 1, [0, 2, 4])], [onnx.ValueInfoProto(name=k) for k in "yh"], weights
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), tmp_path / "gru.onnx")
    y, h = irs.compile(irs.load(str(tmp_path / "gru.onnx")))(np.zeros((0, 2, 4), np.float32))
    assert y.shape == (0, 1, 2, 3) and h.shape == (1, 2, 3) and not h.any()
