"""StableHLO modules against XLA, which runs the same text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.ir.module import inlined

jax = pytest.importorskip("jax")

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
def test_samples_equal_xla(name: str, tolerance: float) -> None:
    torch = pytest.importorskip("torch")
    path = SAMPLES / f"{name}.stablehlo.mlir"
    graph, rng = inlined(irs.load(path)), np.random.default_rng(0)
    arguments = [_argument(value.type, rng) for value in graph.inputs]
    (want,) = by_xla(path.read_text(), arguments)
    for program in (graph, irs.fuse(graph)):
        found = irs.compile(program)(*map(torch.from_numpy, arguments)).numpy()
        assert np.abs(found.astype(float) - want).max() <= tolerance * np.abs(want.astype(float)).max()


def test_extents_that_are_computed_and_known() -> None:
    graph = irs.load(BROADCASTS)
    assert not any(node.op.startswith(("chlo", "stablehlo")) for node in graph.nodes())
    x, y = np.ones((2, 1), np.float32), np.arange(3, dtype=np.float32)
    total, extent, turned = irs.compile(graph)(x, y)
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(turned, (x + y).reshape(3, 2))
    assert int(extent) == 3


def test_logical_shifts_of_signed_numbers_by_any_known_distance() -> None:
    distances = (0, 1, 5, 31, 32, 40, -1)
    lines = "".join(
        f"  %d{i} = stablehlo.constant dense<{by}> : tensor<4xi32>\n  %r{i} = stablehlo.shift_right_logical %x, %d{i} : tensor<4xi32>\n"
        for i, by in enumerate(distances)
    )
    types, names = ", ".join(["tensor<4xi32>"] * len(distances)), ", ".join(f"%r{i}" for i in range(len(distances)))
    text = f"func.func @main(%x: tensor<4xi32>) -> ({types}) {{\n{lines}  return {names} : {types}\n}}"
    graph, x = irs.load(text), np.array([-1, -(2**31), 2**31 - 1, 77], np.int32)
    assert not any(node.op.startswith("stablehlo") for node in graph.nodes())
    pytest.importorskip("torch")
    for found, want in zip(irs.compile(graph)(x), by_xla(text, [x]), strict=True):
        np.testing.assert_array_equal(found, want)


def test_what_speaks_with_the_outside_is_not_functional() -> None:
    graph = irs.load("""func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @print(%x) {has_side_effect = true} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.add %x, %y : tensor<2xf32>
  return %1 : tensor<2xf32>
}""")
    assert graph.functional == ""
    cleaned = irs.Pipeline("dce")(graph).graph
    assert "stablehlo::custom_call" in {node.op for node in cleaned.nodes()}
