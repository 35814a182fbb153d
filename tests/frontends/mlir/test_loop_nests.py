"""`linalg` on tensors, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ParseError
from irscope.frontends.mlir.parse.bindings import installed, new_context, required

if not installed():
    pytest.skip("neither jaxlib nor iree-base-compiler is installed", allow_module_level=True)

MAPS = {
    "ij": "affine_map<(d0, d1) -> (d0, d1)>", "ji": "affine_map<(d0, d1) -> (d1, d0)>", "j": "affine_map<(d0, d1) -> (d1)>",
    "i": "affine_map<(d0, d1) -> (d0)>", "i2": "affine_map<(d0, d1) -> (d0 * 2)>",
}  # fmt: skip
X, Y, V = (np.random.default_rng(i).normal(size=s).astype(np.float32) for i, s in enumerate(((3, 4), (4, 3), (4,))))


def _generic(maps: list[str], kinds: str, operands: list[str], result: str, body: str) -> str:
    """A function of one `linalg.generic`, in generic form, which both bindings read."""
    told = ", ".join(MAPS[name] for name in maps)
    iterators = ", ".join(f"#linalg.iterator_type<{'parallel' if k == 'p' else 'reduction'}>" for k in kinds)
    names = [f"%a{i}" for i in range(len(operands))]
    declared = ", ".join(f"{name}: {type}" for name, type in zip(names, operands, strict=True))
    return f"""// generic
"builtin.module"() ({{
func.func @f({declared}) -> {result} {{
  %r = "linalg.generic"({", ".join(names)}) <{{indexing_maps = [{told}], iterator_types = [{iterators}],
      operandSegmentSizes = array<i32: {len(operands) - 1}, 1>}}> ({{
  ^bb0({", ".join(f"%e{i}: f32" for i in range(len(operands)))}):
    {body}
  }}) : ({", ".join(operands)}) -> {result}
  return %r : {result}
}}
}}) : () -> ()"""


def _load(text: str) -> Any:
    """The program, parsed here and not in a process of its own first, which takes longer."""
    bindings = required()
    try:
        return irs.load(bindings.ir.Module.parse(text, new_context(bindings)))
    except bindings.ir.MLIRError as error:
        raise ParseError(str(error), line=1, column=1) from None


T, U, R, C = "tensor<3x4xf32>", "tensor<4x3xf32>", "tensor<3xf32>", "tensor<4xf32>"


def test_a_parallel_nest_is_ops_on_tensors() -> None:
    body = """%s = "arith.addf"(%e0, %e1) : (f32, f32) -> f32
    %t = "math.tanh"(%s) : (f32) -> f32
    %u = "arith.mulf"(%t, %e2) : (f32, f32) -> f32
    "linalg.yield"(%u) : (f32) -> ()"""
    graph = _load(_generic(["ij", "ji", "j", "ij"], "pp", [T, U, C, T], T, body))
    assert not any(node.op.startswith("linalg") for node in graph.nodes())
    np.testing.assert_allclose(irs.compile(graph)(X, Y, V, X), np.tanh(X + Y.T) * V, rtol=1e-5)


def test_a_reduction_is_joined_to_the_result_so_far() -> None:
    body = """%s = "arith.mulf"(%e0, %e0) : (f32, f32) -> f32
    %t = "arith.addf"(%e1, %s) : (f32, f32) -> f32
    "linalg.yield"(%t) : (f32) -> ()"""
    graph = _load(_generic(["ij", "i"], "pr", [T, R], R, body))
    so_far = np.arange(3, dtype=np.float32)
    assert {node.op for node in graph.nodes()} >= {"aten::sum", "aten::mul"}
    np.testing.assert_allclose(irs.compile(graph)(X, so_far), so_far + (X * X).sum(1), rtol=1e-5)


def test_a_sum_of_products_is_a_product_of_matrices() -> None:
    body = """%s = "arith.mulf"(%e0, %e1) : (f32, f32) -> f32
    %t = "arith.addf"(%s, %e2) : (f32, f32) -> f32
    "linalg.yield"(%t) : (f32) -> ()"""
    graph = _load(_generic(["ij", "j", "i"], "pr", [T, C, R], R, body))
    assert "aten::mv" in {node.op for node in graph.nodes()}
    np.testing.assert_allclose(irs.compile(graph)(X, V, np.zeros(3, np.float32)), X @ V, rtol=1e-5)


@pytest.mark.parametrize(
    ("maps", "kinds", "body"),
    [
        (["i2", "i"], "pr", '"linalg.yield"(%e0) : (f32) -> ()'),
        (["ij", "i"], "pr", '%s = "arith.subf"(%e1, %e0) : (f32, f32) -> f32\n "linalg.yield"(%s) : (f32) -> ()'),
        (["ij", "i"], "pr", '%s = "my.op"(%e1, %e0) : (f32, f32) -> f32\n "linalg.yield"(%s) : (f32) -> ()'),
    ],
)
def test_what_has_no_counterpart_stays_a_loop_nest(maps: list[str], kinds: str, body: str) -> None:
    first = "tensor<5xf32>" if maps[0] == "i2" else T
    try:
        graph = _load(_generic(maps, kinds, [first, R], R, body))
    except irs.IrscopeError:
        assert maps[0] == "i2"  # the verifier of linalg, where it is registered, wants all loops in the maps
        return
    nodes = [node for node in graph.nodes() if node.op != "linalg::generic"]
    assert "linalg::generic" in {node.op for node in graph.nodes()}
    assert all(graph.owner.get(graph.block_of[node]) is not None for node in nodes)
