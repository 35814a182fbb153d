"""Files of models: their weights in other files, which may be missing, and nodes of very many results."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, LoadError

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402


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
