"""IREE's executables as kernels: a recorded output is read wherever MLIR is, and where IREE is installed, it compiles here.

`iree/layer.flow.mlir` is what iree-compile 3.13 made of `iree/layer.mlir`, with --compile-to=flow --mlir-print-debuginfo
--mlir-print-op-generic; `iree/loop.flow.mlir` of `iree/loop.mlir`, which has loops, a slice at a computed place, and a transpose.
"""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, LoadError, MissingExtra

FILES = Path(__file__).parent / "iree"
pytest.importorskip("jaxlib")
HAS_IREE = importlib.util.find_spec("iree") is not None and importlib.util.find_spec("iree.compiler") is not None
iree_only = pytest.mark.skipif(not HAS_IREE, reason="iree-base-compiler is not installed")


def _arguments(graph: irs.Graph) -> list[Any]:
    draw = np.random.default_rng(0)
    return [draw.standard_normal(value.type.shape, np.float32) for value in graph.free_inputs]


def _same(found: Any, want: Any) -> None:
    for mine, its in zip(found if isinstance(found, tuple) else (found,), want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(its), rtol=1e-4, atol=1e-5)


def _ops(kernel: Any) -> list[str]:
    return [node.op.partition("::")[2] for node in kernel.nodes]


def test_each_dispatch_is_a_kernel_with_its_ops_text_and_lines() -> None:
    d = irs.decisions(FILES / "layer.flow.mlir", compiler="iree")
    names = [kernel.name.rpartition("dispatch_")[2] for kernel in d.kernels]
    assert names == ["0_matmul_8x16x16_f32", "1_reduction_8x16_f32", "2_slow_memcpy"]
    assert [_ops(kernel) for kernel in d.kernels[:2]] == [["mm", "reshape", "add", "tanh"], ["sum"]]
    assert not any(kernel.is_library for kernel in d.kernels) and {kernel.certainty for kernel in d.kernels} == {"exact"}
    source = d.kernels[0].source
    assert source is not None and source.language == "mlir" and "linalg.matmul" in source.text
    assert {node.location.file for node in d.graph.nodes() if node.location is not None} == {"layer.mlir"}
    assert d.why_not(d.kernels[0].nodes[0], d.kernels[0].nodes[-1])
    assert "iree formed dispatches without a word on others" in d.why_not(d.kernels[0].nodes[-1], d.kernels[1].nodes[0]).because


@pytest.mark.parametrize("name", ["layer", "loop"])
def test_its_groups_have_the_results_of_the_program(name: str) -> None:
    """Executables write whole tensors, or parts of one that they are given. Each dispatch is a kernel once, that of a loop's test too."""
    path = FILES / f"{name}.flow.mlir"
    d, program = irs.decisions(path, compiler="iree"), irs.load(FILES / f"{name}.mlir")
    assert isinstance(program, irs.Graph)
    args = _arguments(program)
    want = irs.compile(program, device="reference")(*args)
    _same(irs.compile(d.fusion)(*args), want)
    _same(irs.compile(d.graph, device="reference")(*args), want)
    assert d.graph.functional and [note for note in d.program.notes if "runtime fills and copies" not in note] == []
    assert len(d.kernels) == path.read_text().count('"flow.dispatch"')


def test_bytes_are_those_that_an_executable_loads_and_stores() -> None:
    """Also where it only moves elements."""
    d = irs.decisions(FILES / "loop.flow.mlir", compiler="iree")
    moved = {kernel.name.rpartition("dispatch_")[2]: kernel.bytes for kernel in d.kernels}
    assert moved["6_transpose_5x8_f32"] == 2 * 5 * 8 * 4 and moved["4_elementwise_8_f32"] == 2 * 8 * 4
    assert moved["5_reduction_8_f32"] == 8 * 4 + 1 and d.fusion.cost().bytes == sum(moved.values())


def test_other_sources_are_refused(tmp_path: Path) -> None:
    graph = irs.parse("graph(%x : Float(3)):\n  %y : Float(3) = aten::relu(%x)\n  return (%y)")
    with pytest.raises(LoadError, match=r"a graph of irscope cannot be written as MLIR"):
        irs.decisions(graph, compiler="iree")
    with pytest.raises(LoadError, match="not MLIR"):
        irs.decisions("one line\nand another", compiler="iree")
    with pytest.raises(ArgumentError, match="takes no arguments"):
        irs.decisions(FILES / "layer.mlir", np.zeros(3), compiler="iree")
    text = (FILES / "layer.flow.mlir").read_text()
    (tmp_path / "cut.mlir").write_text(text[: len(text) // 2])
    with pytest.raises(irs.errors.IrscopeError):
        irs.decisions(tmp_path / "cut.mlir", compiler="iree")
    (tmp_path / "strange.mlir").write_text(text.replace("tied_operands", "tied"))
    with pytest.raises(LoadError, match="another form"):
        irs.decisions(tmp_path / "strange.mlir", compiler="iree")
    (tmp_path / "other.mlir").write_text(text.replace("@main_dispatch_1::", "@main_dispatch_9::"))
    with pytest.raises(irs.errors.IrscopeError, match="no executable"):
        irs.decisions(tmp_path / "other.mlir", compiler="iree")


@pytest.mark.skipif(HAS_IREE, reason="it is installed")
def test_without_the_package_an_error_says_what_to_install() -> None:
    with pytest.raises(MissingExtra, match="iree-base-compiler"):
        irs.decisions(FILES / "layer.mlir", compiler="iree")


@iree_only
def test_a_program_is_compiled_as_the_recorded_one() -> None:
    d, recorded = (irs.decisions(FILES / name, compiler="iree") for name in ("layer.mlir", "layer.flow.mlir"))
    assert [_ops(kernel) for kernel in d.kernels] == [_ops(kernel) for kernel in recorded.kernels] and d.version
    with pytest.raises(LoadError, match="iree-compile does not take this program"):
        irs.decisions("func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %y : tensor<2xf32>\n}", compiler="iree")


@iree_only
def test_a_jax_function_keeps_its_results_and_lines() -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def function(x: Any, w: Any) -> Any:
        y = jax.nn.softmax(jax.nn.gelu(x @ w), -1)
        return (y * x).sum(0), jnp.concatenate([y, x], 1)[:, 3:20]

    args = [np.random.default_rng(0).standard_normal((8, 8), np.float32) for _ in range(2)]
    plain = irs.decisions(function, *args, compiler="iree")
    for d in (plain, irs.decisions(jax.jit(function).lower(*args), compiler="iree")):
        assert len(d.kernels) > 1 and __file__ in {node.location.file for node in d.graph.nodes() if node.location is not None}
        _same(irs.compile(d.fusion)(*args), jax.jit(function)(*args))


@iree_only
def test_an_onnx_model_is_imported_by_iree(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    weights = [onnx.numpy_helper.from_array(np.ones((4, 5), np.float32), "w")]
    values = [[helper.make_tensor_value_info(name, kind, shape)] for name, shape in (("x", [3, 4]), ("y", [3, 5]))]
    model = helper.make_model(helper.make_graph(nodes, "g", *values, weights), opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "m.onnx")
    d = irs.decisions(tmp_path / "m.onnx", compiler="iree")
    x = np.ones((3, 4), np.float32)
    _same(irs.compile(d.fusion)(x), irs.compile(irs.load(tmp_path / "m.onnx"))(x))


@iree_only
@pytest.mark.long
def test_a_torch_model_is_exported_first(torch: Any) -> None:
    pytest.importorskip("onnxscript")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval()
    x = torch.randn(2, 8)
    for d in (irs.decisions(model, x, compiler="iree"), irs.decisions(irs.load(model, x), compiler="iree")):
        _same(irs.compile(d.fusion)(x.numpy()), model(x).detach().numpy())
