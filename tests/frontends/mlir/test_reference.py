"""StableHLO modules against XLA, which runs the same text."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, RunError
from irscope.ir.module import inlined

jax = pytest.importorskip("jax")

from tests.frontends.jax.functions import FUNCTIONS  # noqa: E402

SAMPLES = Path(__file__).parent / "samples"
BROADCASTS = """func.func @f(%x: tensor<2x1xf32>, %y: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<i32>, tensor<3x2xf32>) {
  %0 = chlo.broadcast_add %x, %y : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.get_dimension_size %0, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
  %2 = stablehlo.constant dense<[3, 2]> : tensor<2xi32>
  %3 = stablehlo.dynamic_reshape %0, %2 : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<3x2xf32>
  return %0, %1, %3 : tensor<2x3xf32>, tensor<i32>, tensor<3x2xf32>
}"""


def by_xla(text: str, arguments: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """What XLA computes. Skips where this version of JAX has no such way in."""
    try:
        from jax._src.lib import xla_client

        devices = xla_client.DeviceList(tuple(jax.devices()[:1]))
        program = jax.devices()[0].client.compile_and_load(text, devices, xla_client.CompileOptions())
    except (ImportError, AttributeError):
        pytest.skip("this version of JAX compiles no text")
    return [np.asarray(result) for result in program.execute([jax.device_put(argument) for argument in arguments])]


def _argument(type: Any, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    if type.dtype == "float32":
        return (rng.normal(size=type.shape) / 10 + (len(type.shape) == 1)).astype(np.float32)
    return rng.integers(-100, 100, type.shape).astype(type.dtype)


@pytest.mark.long
@pytest.mark.parametrize(("name", "tolerance"), [("quant24", 0), ("resnet18", 2e-6)])
def test_samples_equal_xla(name: str, tolerance: float, torch: Any) -> None:
    path = SAMPLES / f"{name}.stablehlo.mlir"
    graph, rng = inlined(irs.load(path)), np.random.default_rng(0)
    arguments = [_argument(value.type, rng) for value in graph.inputs]
    (want,) = by_xla(path.read_text(), arguments)
    for program in (graph, irs.fuse(graph)):
        found = irs.compile(program)(*map(torch.from_numpy, arguments)).numpy()
        assert np.abs(found.astype(float) - want).max() <= tolerance * np.abs(want.astype(float)).max()


def test_computed_extents_that_are_constant() -> None:
    graph = irs.load(BROADCASTS)
    assert not any(node.op.startswith(("chlo", "stablehlo")) for node in graph.nodes())
    x, y = np.ones((2, 1), np.float32), np.arange(3, dtype=np.float32)
    total, extent, turned = irs.compile(graph)(x, y)
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(turned, (x + y).reshape(3, 2))
    assert int(extent) == 3


def test_a_custom_call_with_side_effects_is_not_functional() -> None:
    graph = irs.load("""func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @print(%x) {has_side_effect = true} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.add %x, %y : tensor<2xf32>
  return %1 : tensor<2xf32>
}""")
    assert graph.functional == ""
    cleaned = irs.Pipeline("dce")(graph).graph
    assert "stablehlo::custom_call" in {node.op for node in cleaned.nodes()}


OPEN = """func.func @f(%a: tensor<?x8x?xf32>, %w: tensor<2x?x?xf32>, %b: tensor<?xf32>) -> tensor<?x7x?xf32> {
  %0 = "stablehlo.convolution"(%a, %w) {batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
    feature_group_count = 1 : i64, padding = dense<0> : tensor<1x2xi64>, rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>}
    : (tensor<?x8x?xf32>, tensor<2x?x?xf32>) -> tensor<?x7x?xf32>
  %1 = shape.shape_of %0 : tensor<?x7x?xf32> -> tensor<3xindex>
  %2 = stablehlo.dynamic_broadcast_in_dim %b, %1, dims = [2] : (tensor<?xf32>, tensor<3xindex>) -> tensor<?x7x?xf32>
  %3 = stablehlo.add %0, %2 : tensor<?x7x?xf32>
  return %3 : tensor<?x7x?xf32>
}"""


def test_unknown_extents_follow_from_example_arguments(tmp_path: Path) -> None:
    path, rng = tmp_path / "open.mlir", np.random.default_rng(0)
    path.write_text(OPEN)
    a, w, b = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 8, 3), (2, 3, 4), (4,)))
    want = jax.lax.conv_general_dilated(a, w, (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")) + b
    with pytest.raises(RunError) as refused:
        irs.compile(irs.load(path))(a, w, b)
    assert "load the program with example arguments of known extents" in str(refused.value)  # which the next lines follow
    for source in (path, OPEN, OPEN.replace("@f", "@main")):
        graph = irs.load(source, a, w, b)
        assert not any(node.op.startswith(("stablehlo", "shape")) for node in graph.nodes())
        np.testing.assert_allclose(irs.compile(irs.fuse(graph))(a, w, b), want, rtol=1e-5, atol=1e-6)
    with pytest.raises(ArgumentError):
        irs.load(path, a, w)


def test_a_function_that_jax_exported_for_any_extent() -> None:
    from jax import export

    def function(x: Any, y: Any) -> Any:
        return (x @ y).sum(0) / x.shape[0] + jax.numpy.pad(x, ((0, 1), (0, 0)))[-2, :2]

    types = jax.ShapeDtypeStruct(export.symbolic_shape("b, 3"), np.float32), jax.ShapeDtypeStruct((3, 2), np.float32)
    exported = export.export(jax.jit(function))(*types)
    for rows in (1, 4):
        x, y = np.arange(3.0 * rows, dtype=np.float32).reshape(rows, 3), np.ones((3, 2), np.float32)
        np.testing.assert_allclose(irs.compile(irs.load(exported.mlir_module(), x, y))(x, y), function(x, y), rtol=1e-6)


def test_complex_numbers_are_compared_by_real_and_then_imaginary_parts() -> None:
    parts = (0.0, -1.0, 1.5, 2.5, np.inf, np.nan)
    a, b = (grid.reshape(-1).copy() for grid in np.meshgrid(*[np.array([complex(x, y) for x in parts for y in parts], np.complex64)] * 2))
    of, flags = (f"tensor<{len(a)}x{element}>" for element in ("complex<f32>", "i1"))
    sides = ("EQ", "NE", "LT", "LE", "GT", "GE")
    lines = [f"%0 = stablehlo.maximum %a, %b : {of}", f"%1 = stablehlo.minimum %a, %b : {of}"]
    lines += [f"%{2 + i} = stablehlo.compare {side}, %a, %b : ({of}, {of}) -> {flags}" for i, side in enumerate(sides)]
    types, names = ", ".join([of] * 2 + [flags] * 6), ", ".join(f"%{i}" for i in range(8))
    text = f"func.func @main(%a: {of}, %b: {of}) -> ({types}) {{\n" + "\n".join(lines) + f"\nreturn {names} : {types}\n}}"

    def pairs(name: str, left: Any, right: Any) -> Any:
        compare = getattr(np, name)
        return np.where(left.real == right.real, compare(left.imag, right.imag), compare(left.real, right.real))

    larger = np.where(pairs("greater", a, b), a, b)
    words = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    wanted = [larger, np.where(pairs("less", a, b), a, b), a == b, a != b, *(pairs(word, a, b) for word in words[2:])]
    for found, want in zip(irs.compile(irs.fuse(irs.load(text)))(a, b), wanted, strict=True):
        np.testing.assert_array_equal(found, want)


def test_comparisons_of_complex_numbers_are_not_run_by_xla() -> None:
    text = """func.func @main(%x: tensor<4xcomplex<f32>>, %z: tensor<complex<f32>>) -> tensor<complex<f32>> {
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [0]
    : (tensor<4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  return %0 : tensor<complex<f32>>
}"""
    clamp = "func.func @main(%x: T, %z: T) -> T {\n  %0 = stablehlo.clamp %z, %x, %z : T\n  return %0 : T\n}"
    clamp = clamp.replace("T", "tensor<4xcomplex<f32>>")
    for program, zeros in ((text, ()), (clamp, 4)):
        with pytest.raises(RunError, match="XLA compares the real parts"):
            irs.compile(irs.load(program))(np.ones(4, np.complex64), np.zeros(zeros, np.complex64))


def test_bfloat16_constants_are_rounded_to_the_nearest() -> None:
    numbers = np.random.default_rng(0).normal(size=60).astype(jax.numpy.bfloat16)
    listed = ", ".join(f"{float(number):.6e}" for number in numbers)  # with the six digits that MLIR writes
    text = f"""func.func @main() -> (tensor<60xbf16>, bf16) {{
  %0 = stablehlo.constant dense<[{listed}]> : tensor<60xbf16>
  %1 = arith.constant {float(numbers[0]):.6e} : bf16
  return %0, %1 : tensor<60xbf16>, bf16
}}"""
    several, one = irs.compile(irs.load(text))()
    np.testing.assert_array_equal(several, numbers)
    assert one == numbers[0]
    x = jax.numpy.ones(60, jax.numpy.bfloat16)
    np.testing.assert_array_equal(irs.compile(irs.load(lambda x: x * jax.numpy.asarray(numbers), x))(x), numbers)


# --- Functions of JAX as IREE's compiler writes them down first (`linalg`, `tensor`, `arith`, `math`, `scf`), against `jax.jit`.

COMPILER = shutil.which("iree-compile", path=str(Path(sys.executable).parent))
OWN = ("iree_linalg_ext",)
"""Dialects that are IREE's alone."""


def _lowered(function: Any, arguments: Any, path: Path) -> bool:
    """Write what IREE makes of a function; whether it takes it."""
    assert COMPILER is not None
    text = str(jax.jit(function).lower(*arguments).compiler_ir(dialect="stablehlo"))
    flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=vmvx", "--iree-input-type=stablehlo"]
    command = [COMPILER, *flags, "--compile-to=input", "-", "-o", str(path)]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False).returncode == 0


def _ending(name: str, path: Path) -> str:
    function, arguments = FUNCTIONS[name]
    if not _lowered(function, arguments, path):
        return "refused by IREE"
    graph = irs.load(path)
    assert isinstance(graph, irs.Graph)
    wanted = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(jax.jit(function)(*arguments))]
    try:
        made = irs.compile(graph)(*(np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(arguments)))
    except ArgumentError:
        return "of unsigned arguments"  # MLIR's integers have no sign, and the program takes signed ones
    except RunError:
        kept = {node.op for node in graph.nodes() if node.op.partition("::")[0] not in ("aten", "prim", "prims")}
        assert kept, name
        return "with IREE's own ops" if any(op.startswith(OWN) for op in kept) else f"with {', '.join(sorted(kept))}"
    for found, want in zip(made if isinstance(made, list | tuple) else (made,), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), want, rtol=2e-3, atol=2e-4, err_msg=name)
    return "equal"


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="iree-base-compiler is not installed")
def test_functions_lowered_by_iree_equal_jit(tmp_path: Path) -> None:
    endings = {name: _ending(name, tmp_path / f"{name}.mlir") for name in FUNCTIONS}
    counts = Counter(endings.values())
    print(counts)
    others = {name: ending for name, ending in endings.items() if ending.startswith("with ") and "own" not in ending}
    assert counts["equal"] >= 75, others
