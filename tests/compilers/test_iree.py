"""IREE's executables as kernels: a recorded output is read wherever MLIR is, and where IREE is installed, it compiles here.

`iree/layer.flow.mlir` is what iree-compile 3.13 made of `iree/layer.mlir`, with --compile-to=flow --mlir-print-debuginfo
--mlir-print-op-generic; `iree/loop.flow.mlir` of `iree/loop.mlir`, which has loops, a slice at a computed place, and a transpose;
`iree/ops.flow.mlir`, without places, of `iree/ops.mlir`: an update at a computed place, sorts, scans, a scatter, a top_k, an FFT.
"""

import importlib.util
import sys
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import irscope as irs
from irscope.compilers import iree_beside
from irscope.compilers.iree_beside import Output, vanished
from irscope.errors import ArgumentError, LoadError, MissingExtra
from irscope.frontends.mlir.source import installed, parse_module
from irscope.frontends.mlir.types import read_place
from irscope.ir.module import inlined

FILES = Path(__file__).parent / "iree"
pytest.importorskip("jaxlib")
HAS_IREE = importlib.util.find_spec("iree") is not None and importlib.util.find_spec("iree.compiler") is not None
iree_only = pytest.mark.skipif("iree" not in installed(), reason="iree-base-compiler is not installed, or too old")


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


@pytest.mark.parametrize("name", ["layer", "loop", "ops"])
def test_its_groups_have_the_results_of_the_program(name: str) -> None:
    """Executables write whole tensors, or parts of one that they are given. Each dispatch is a kernel once, that of a loop's test too."""
    path = FILES / f"{name}.flow.mlir"
    d, program = irs.decisions(path, compiler="iree"), irs.load(FILES / f"{name}.mlir")
    program = inlined(program) if isinstance(program, irs.Module) else program
    args = _arguments(program)
    want = irs.compile(program, device="reference")(*args)
    _same(irs.compile(d.fusion)(*args), want)
    _same(irs.compile(d.graph, device="reference")(*args), want)
    assert d.graph.functional and not any("has no meaning" in note for note in d.program.notes)
    once = int(name == "ops")  # one of constants
    assert len(d.kernels) + once == path.read_text().count('"flow.dispatch"')


def test_bytes_are_those_that_an_executable_loads_and_stores() -> None:
    """Also where it only moves elements."""
    d = irs.decisions(FILES / "loop.flow.mlir", compiler="iree")
    moved = {kernel.name.rpartition("dispatch_")[2]: kernel.bytes for kernel in d.kernels}
    assert moved["6_transpose_5x8_f32"] == 2 * 5 * 8 * 4 and moved["4_elementwise_8_f32"] == 2 * 8 * 4
    assert moved["5_reduction_8_f32"] == 8 * 4 + 1 and d.fusion.cost().bytes == sum(moved.values())


def test_an_op_whose_place_is_not_in_the_output_vanished_for_a_reason() -> None:
    """Ops that are added here to the program that was recorded stand in lines of others, so that these keep their places."""
    text = (FILES / "layer.mlir").read_text()
    line = "  %3 = stablehlo.tanh %2 : tensor<8x16xf32>"
    added = """ %dead = stablehlo.sine %3 : tensor<8x16xf32> %again = stablehlo.tanh %2 : tensor<8x16xf32>
    %c = stablehlo.constant dense<1.0> : tensor<8x16xf32>""".replace("\n", " ")
    more = " %n = stablehlo.negate %c : tensor<8x16xf32> %kept = stablehlo.multiply %again, %c : tensor<8x16xf32>"
    last = " %lost = stablehlo.add %kept, %n : tensor<8x16xf32>"
    text = text.replace(line, line + added + more + last).replace("pad %3,", "pad %lost,")
    d = irs.decisions(FILES / "layer.flow.mlir", compiler="iree")
    root, bindings = parse_module(text.encode(), "layer.mlir")
    after, _ = parse_module((FILES / "layer.flow.mlir").read_bytes(), "")
    places = partial(read_place, bindings.ir, "layer.mlir")
    output = Output(after.operation)
    found = list(vanished(root.operation, output, "main", d.graph, bindings, places, "layer.mlir"))
    assert [each.op for each in found] == ["sine", "tanh", "negate", "multiply", "add"]
    assert [each.because for each in found] == [
        "nothing reads its result", "the same as tanh (layer.mlir:5:8), which is computed once", "its result is a constant",
        "its result is its operand, unchanged", "",
    ]  # fmt: skip
    assert found[1].nodes[-1].op == "aten::tanh" and {each.certainty for each in found} == {"matched"}
    with pytest.raises(LoadError, match="none of its places"):
        list(vanished(root.operation, output, "main", d.graph, bindings, places, "other.mlir"))


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
    for odd in (text.replace("static_sizes = array<i64: 8, 16>", "static_sizes = array<i64: 80, 160>"), text.replace("@main", "@\ud800")):
        with pytest.raises(LoadError, match=r"another form|not UTF-8"):
            irs.decisions(odd, compiler="iree")
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
def test_loops_complex_numbers_and_constants_that_are_computed_once_are_read() -> None:
    """A softmax takes its ops with it; a dispatch with a reduction that is a loop in irscope is one group with what is around it."""
    jax = pytest.importorskip("jax")
    jnp, lax = jax.numpy, jax.lax

    def function(x: Any) -> Any:
        divided = lax.reduce(x * 2, np.float32(1), lambda a, b: a / (b + 2), (1,)) + 1
        less = jax.grad(lambda x: (jax.nn.log_softmax(jnp.tanh(x)) * x).mean())(x)
        return divided, less, jnp.conj(lax.complex(jnp.sin(x), x)), jax.nn.softmax(x)

    x = np.random.default_rng(0).standard_normal((6, 10), np.float32)
    d = irs.decisions(jax.jit(function), x, compiler="iree")
    assert all(kernel.group is not None for kernel in d.kernels)
    for made in (irs.compile(d.fusion)(x), d.call(x)):  # type: ignore[misc]
        _same(made, jax.jit(function)(x))
    assert sum(str(because).startswith("part of the softmax that IREE made at div") for because in d.vanished()["because"]) >= 4

    d = irs.decisions(lambda x: jnp.take_along_axis(x, jnp.argsort(x, -1), -1), x, compiler="iree")
    assert not [node for node in d.graph.nodes() if node.op.startswith("util::")] and "run once" in d.program.notes[0]


@iree_only
@pytest.mark.parametrize("typed", [False, True])
def test_unsigned_numbers_and_typed_keys_are_given_and_returned_as_jax_has_them(typed: bool) -> None:
    """IREE's types have no signs, and it does not read the dialect in which JAX says where keys are."""
    jax = pytest.importorskip("jax")
    key, x = (jax.random.key if typed else jax.random.PRNGKey)(3), np.ones((6, 10), np.float32)
    function = lambda key, x: (x + jax.random.uniform(key, x.shape), jax.random.bits(key, (4,)), key)  # noqa: E731
    d, (_, bits, _) = irs.decisions(function, key, x, compiler="iree"), function(key, x)
    table = irs.compare(d, key, x).table()
    assert table["relative error"].max() < 1e-5 and not table["wrong"].any() and {"eager", "iree"} < set(table.index)
    assert d.call is not None and (d.call(key, x)[1] == np.asarray(bits)).all() and (np.asarray(bits) >= 2**31).any()


@iree_only
def test_its_program_runs_beside_others_and_each_dispatch_has_a_time() -> None:
    """Equal layers share an executable; the ops of each have the lines of their own, and none of them vanished."""
    jax = pytest.importorskip("jax")
    pytest.importorskip("iree.runtime")

    def layers(weights: Any, x: Any, unread: Any, number: Any) -> Any:
        x = jax.numpy.tanh(x @ weights["a"])
        x = jax.numpy.tanh(x @ weights["b"]) + 1.0 * jax.numpy.sin(x * 0) * 0
        return x * number, x.sum()

    draw = np.random.default_rng(0).standard_normal
    args = [{key: draw((8, 8), np.float32) for key in "ab"}, draw((8, 8), np.float32), np.zeros(3, np.float32), 2]
    d = irs.decisions(layers, *args, compiler="iree", measure=True)
    products = [kernel for kernel in d.kernels if "mm" in _ops(kernel)]
    assert len({node.location.line for kernel in products for node in kernel.nodes if node.op == "aten::tanh"}) == 2
    assert not set(d.vanished()["op"]) & {"tanh", "dot_general"}
    assert all(kernel.ms is not None and 0 < kernel.ms < 1000 for kernel in d.kernels)
    assert d.notes == ("IREE's own program runs on its device local-task, with a thread for each core",)
    want = jax.jit(layers)(*args)
    assert d.call is not None
    _same(d.call(*args), want)
    table = irs.compare(d, *args).table()
    assert set(table.index) == {"fused", "eager", "iree", "iree's groups"} and table["relative error"].max() < 1e-5
    with pytest.raises(ArgumentError, match=r"does not run with float32\[3\]"):
        d.program.run(np.zeros(3, np.float32))  # type: ignore[misc]
    with pytest.raises(ArgumentError, match="0 arguments to measure a program that takes 3"):
        irs.decisions(FILES / "layer.mlir", compiler="iree", measure=True)


def test_what_is_compiled_for_a_gpu_is_not_measured_and_a_tool_that_hangs_is_left() -> None:
    with pytest.raises(ArgumentError, match="with these flags no dispatch has a time"):
        irs.decisions(FILES / "layer.mlir", compiler="iree", measure=True, flags=("--iree-hal-target-backends=cuda",))
    with mock.patch.object(iree_beside, "_SECONDS", 0.1), pytest.raises(LoadError, match=r"it does not run: it takes over 0\.1 s"):
        iree_beside.ran([sys.executable, "-c", "while True: pass"], "it does not run", "")


@iree_only
def test_several_functions_and_extents_that_are_known_at_run_time_are_read() -> None:
    text = """
    func.func @first(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
      %0 = stablehlo.tanh %x : tensor<?x8xf32>
      return %0 : tensor<?x8xf32>
    }
    func.func @second(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = stablehlo.add %x, %x : tensor<8xf32>
      %1 = stablehlo.add %x, %x : tensor<8xf32>
      %2 = stablehlo.multiply %0, %1 : tensor<8xf32>
      return %2 : tensor<8xf32>
    }"""
    d = irs.decisions(text, compiler="iree")
    assert [program.name for program in d.programs] == ["first", "second"]
    assert "linalg::generic is kept as it is, and has no meaning in irscope" in d.programs[0].notes
    (row,) = d.programs[1].vanished().to_dict("records")
    assert row["because"].startswith("the same as add (<mlir>:7:")
    with pytest.raises(ArgumentError, match="IREE compiled 2 functions, and one is measured"):
        irs.decisions(text, compiler="iree", measure=True)


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
