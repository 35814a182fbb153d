"""Ops of StableHLO and CHLO that have no counterpart in `aten`, run by JAX, against `jax.jit` of the whole function."""

import itertools
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import RunError

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

_NUMBERS = np.random.default_rng(5)


def _floats(*shape: int) -> Any:
    return jnp.asarray(_NUMBERS.normal(size=shape), jnp.float32)


X, V = _floats(4, 6), _floats(7)
SQUARE = _floats(5, 5)
POSITIVE = SQUARE @ SQUARE.T + 5 * jnp.eye(5)

KEPT: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "cholesky": (jnp.linalg.cholesky, (POSITIVE,), "stablehlo::custom_call"),
    "solve": (jnp.linalg.solve, (POSITIVE, SQUARE), "stablehlo::custom_call"),
    "zeta": (lambda v: jax.scipy.special.zeta(jnp.abs(v) + 1.5, 1.5), (V,), "chlo::zeta"),
    "float8": (lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32), (X,), "stablehlo::convert"),
    "few_exponents": (lambda x: lax.reduce_precision(x * 1e-5, 5, 10), (X,), "stablehlo::reduce_precision"),
    "reduce_pairs": (lambda x: lax.reduce((x, x), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,)), (X,), "stablehlo::reduce"),
}
"""Name to function, arguments and the op that is kept; `tests/oracles/jax_programs.py` has every such op."""


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("name", KEPT)
def test_kept_ops_run(name: str, device: str) -> None:
    function, arguments, kept = KEPT[name]
    graph = irs.load(function, *arguments)
    assert kept in {node.op for node in graph.nodes()}
    wanted = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(jax.jit(function)(*arguments))]
    made = irs.compile(graph, device=device)(*map(np.asarray, arguments))
    for found, want in zip(made if isinstance(made, tuple) else (made,), wanted, strict=True):
        assert (found.shape, str(found.dtype)) == (want.shape, str(want.dtype))
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=2e-5)


def test_regions_of_kept_ops_stay_as_they_are_written() -> None:
    function, arguments, _ = KEPT["reduce_pairs"]
    (reduce,) = [node for node in irs.load(function, *arguments).nodes() if node.op == "stablehlo::reduce"]
    assert [node.op for node in reduce.blocks[0].nodes] == ["stablehlo::add", "stablehlo::multiply"]


def test_a_custom_call_registered_by_another_process_is_not_run() -> None:
    def calls_back(x: Any) -> Any:
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    run = irs.compile(irs.load(calls_back, V))
    with pytest.raises(RunError, match="only the program that registered the custom call"):
        run(np.asarray(V))


def test_collective_ops_are_not_run() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = "stablehlo.all_reduce"(%x) ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %c : tensor<f32>
      }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }"""
    with pytest.raises(RunError, match="communicates with other devices"):
        irs.compile(irs.load(text))(np.ones(4, np.float32))


@pytest.mark.parametrize("element", ["f16", "f32", "f64"])
def test_total_order_of_any_floats(element: str) -> None:
    dtype = np.dtype({"f16": "float16", "f32": "float32", "f64": "float64"}[element])
    bits = _NUMBERS.integers(0, 1 << 62, size=20).astype(f"uint{8 * dtype.itemsize}")
    some = np.concatenate([np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -np.nan, 1e-40, 3.5], dtype), bits.view(dtype)])
    left, right = (np.ascontiguousarray(part) for part in np.array(list(itertools.product(some, some)), dtype).T)
    # the order that IEEE 754 defines: by sign, then by the bits of what is left
    unsigned = {2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.itemsize]
    top = unsigned(1 << (8 * dtype.itemsize - 1))

    def key(array: Any) -> Any:
        raw = array.view(unsigned)
        return np.where(raw & top, ~raw, raw | top)

    numpys = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}
    tensor = f"tensor<{len(left)}x{element}>"
    for word, wanted in numpys.items():
        graph = irs.load(f"""
        func.func @main(%a: {tensor}, %b: {tensor}) -> tensor<{len(left)}xi1> {{
          %c = stablehlo.compare {word}, %a, %b, TOTALORDER : ({tensor}, {tensor}) -> tensor<{len(left)}xi1>
          return %c : tensor<{len(left)}xi1>
        }}""")
        assert {node.op.partition("::")[0] for node in graph.nodes()} <= {"aten", "prim", "prims"}
        np.testing.assert_array_equal(irs.compile(graph)(left, right), wanted(key(left), key(right)))
