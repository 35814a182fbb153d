"""`linalg` on tensors, against NumPy."""

from functools import reduce
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ParseError
from irscope.frontends.mlir.source import installed, new_context, required

if not installed():
    pytest.skip("neither jaxlib nor iree-base-compiler is installed", allow_module_level=True)

MAPS = {"ij": "d0, d1", "ji": "d1, d0", "j": "d1", "i": "d0", "i2": "d0 * 2"}
X, Y, V = (np.random.default_rng(i).normal(size=s).astype(np.float32) for i, s in enumerate(((3, 4), (4, 3), (4,))))


def _text(maps: list[str], kinds: str, operands: list[str], results: list[str], body: str) -> str:
    """A function of one `linalg.generic`, in generic form, which both bindings read; `body` names the elements `%e0`, `%e1`, … and
    ends in a yield."""
    iterators = ", ".join(f"#linalg.iterator_type<{'parallel' if k == 'p' else 'reduction'}>" for k in kinds)
    loops = ", ".join(f"d{i}" for i in range(len(kinds)))
    told = ", ".join(f"affine_map<({loops}) -> ({to})>" for to in maps)
    elements = ", ".join(f"%e{i}: {type[:-1].rpartition('x')[2].removeprefix('tensor<')}" for i, type in enumerate(operands))
    declared = ", ".join(f"%a{i}: {type}" for i, type in enumerate(operands))
    given, made = ", ".join(f"%a{i}" for i in range(len(operands))), ", ".join(results)
    names = ", ".join(f"%r#{i}" for i in range(len(results)))
    return f"""// generic
"builtin.module"() ({{
func.func @f({declared}) -> ({made}) {{
  %r:{len(results)} = "linalg.generic"({given}) <{{indexing_maps = [{told}], iterator_types = [{iterators}],
      operandSegmentSizes = array<i32: {len(operands) - len(results)}, {len(results)}>}}> ({{
  ^bb0({elements}):
    {body}
  }}) : ({", ".join(operands)}) -> ({made})
  return {names} : {made}
}}
}}) : () -> ()"""


def _generic(maps: list[str], kinds: str, operands: list[str], result: str, body: str) -> str:
    return _text([MAPS[name] for name in maps], kinds, operands, [result], body)


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


@pytest.mark.parametrize(("maps", "kinds", "body"), [
    (["i2", "i"], "pr", '"linalg.yield"(%e0) : (f32) -> ()'),
    (["ij", "i"], "pr", '%s = "my.op"(%e1, %e0) : (f32, f32) -> f32\n "linalg.yield"(%s) : (f32) -> ()'),
])  # fmt: skip
def test_a_loop_nest_without_a_counterpart_is_kept(maps: list[str], kinds: str, body: str) -> None:
    first = "tensor<5xf32>" if maps[0] == "i2" else T
    try:
        graph = _load(_generic(maps, kinds, [first, R], R, body))
    except irs.IrscopeError:
        assert maps[0] == "i2"  # the verifier of linalg, where it is registered, wants all loops in the maps
        return
    nodes = [node for node in graph.nodes() if node.op != "linalg::generic"]
    assert "linalg::generic" in {node.op for node in graph.nodes()}
    assert all(graph.owner.get(graph.block_of[node]) is not None for node in nodes)


def test_a_parallel_loop_missing_from_the_result_is_not_a_reduction() -> None:
    text = _generic(["ij", "i"], "pp", [T, R], R, '"linalg.yield"(%e0) : (f32) -> ()')
    try:
        graph = _load(text)
    except irs.IrscopeError:
        return  # the bindings' own verifier says so
    assert "linalg::generic" in {node.op for node in graph.nodes()}


def _nest(maps: list[str], kinds: str, operands: list[str], results: list[str], body: str) -> Any:
    """A function of one nest, compiled; every op must have become one of ours."""
    graph = _load(_text(maps, kinds, operands, results, body))
    assert {node.op.partition("::")[0] for node in graph.nodes()} <= {"aten", "prim", "prims"}
    return irs.compile(graph)


def _yield(value: str) -> str:
    return f'"linalg.yield"({value}) : (f32) -> ()'


WIDE = np.random.default_rng(7).normal(size=(3, 9)).astype(np.float32)


def test_windows_constant_indices_and_diagonals_are_indexed() -> None:
    run = _nest(["d0, d1 * 2 + d2", "d0, d1, d2"], "ppp", ["tensor<3x9xf32>", "tensor<3x4x3xf32>"], ["tensor<3x4x3xf32>"], _yield("%e0"))
    windows = np.stack([WIDE[:, 2 * i : 2 * i + 3] for i in range(4)], 1)
    np.testing.assert_array_equal(run(WIDE, np.zeros((3, 4, 3), np.float32)), windows)
    run = _nest(["d0 + 1, 4", "d0"], "p", ["tensor<3x9xf32>", "tensor<2xf32>"], ["tensor<2xf32>"], _yield("%e0"))
    np.testing.assert_array_equal(run(WIDE, np.zeros(2, np.float32)), WIDE[1:3, 4])
    run = _nest(["d0, d0 * 3 + 1", "d0"], "p", ["tensor<3x9xf32>", "tensor<3xf32>"], ["tensor<3xf32>"], _yield("%e0"))
    np.testing.assert_array_equal(run(WIDE, np.zeros(3, np.float32)), [WIDE[i, 3 * i + 1] for i in range(3)])


def test_the_index_of_a_loop_and_elements_of_another_tensor() -> None:
    body = """%i = "linalg.index"() <{dim = 0 : i64}> : () -> index
    %j = "linalg.index"() <{dim = 1 : i64}> : () -> index
    %s = "arith.addi"(%i, %j) <{overflowFlags = #arith.overflow<none>}> : (index, index) -> index
    %x = "tensor.extract"(%a0, %j, %s) : (tensor<3x9xf32>, index, index) -> f32
    %n = "arith.index_cast"(%s) : (index) -> i32
    %f = "arith.sitofp"(%n) : (i32) -> f32
    %t = "arith.addf"(%x, %f) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
    """ + _yield("%t")
    run = _nest(["0, 0", "d0, d1"], "pp", ["tensor<3x9xf32>", "tensor<3x3xf32>"], ["tensor<3x3xf32>"], body)
    wanted = np.array([[WIDE[j, i + j] + i + j for j in range(3)] for i in range(3)])
    np.testing.assert_allclose(run(WIDE, np.zeros((3, 3), np.float32)), wanted, rtol=1e-6)


def test_indices_are_taken_apart_by_known_numbers() -> None:
    """As IREE flattens loops: indices that cannot overflow, quotients by known numbers."""
    body = """%i = "linalg.index"() <{dim = 0 : i64}> : () -> index
    %nine = "arith.constant"() <{value = 9 : index}> : () -> index
    %q = "arith.divsi"(%i, %nine) : (index, index) -> index
    %r = "arith.remsi"(%i, %nine) : (index, index) -> index
    %d = "arith.muli"(%q, %nine) <{overflowFlags = #arith.overflow<nsw>}> : (index, index) -> index
    %k = "arith.subi"(%d, %r) <{overflowFlags = #arith.overflow<none>}> : (index, index) -> index
    %n = "arith.index_cast"(%k) : (index) -> i32
    %f = "arith.sitofp"(%n) : (i32) -> f32
    %x = "tensor.extract"(%a0, %q, %r) : (tensor<3x9xf32>, index, index) -> f32
    %t = "arith.addf"(%x, %f) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
    """ + _yield("%t")
    run = _nest(["0, 0", "d0"], "p", ["tensor<3x9xf32>", "tensor<27xf32>"], ["tensor<27xf32>"], body)
    np.testing.assert_allclose(
        run(WIDE, np.zeros(27, np.float32)), [WIDE[i // 9, i % 9] + i // 9 * 9 - i % 9 for i in range(27)], rtol=1e-6
    )
    assert not [node.op for node in run.graph.nodes() if node.op == "aten::where"]


def test_other_reductions_become_loops() -> None:
    x = np.random.default_rng(1).uniform(1, 2, size=(2, 3, 4)).astype(np.float32)
    for op, combine in (
        ('"arith.divf"(%e1, %e0)', np.divide), ('"arith.subf"(%e0, %e1)', lambda so_far, part: part - so_far),
        ('"arith.subf"(%e1, %e0)', np.subtract),
    ):  # fmt: skip
        body = f"%s = {op} <{{fastmath = #arith.fastmath<none>}}> : (f32, f32) -> f32\n" + _yield("%s")
        run = _nest(["d0, d1, d2", "d1"], "rpr", ["tensor<2x3x4xf32>", "tensor<3xf32>"], ["tensor<3xf32>"], body)
        np.testing.assert_allclose(run(x, V[:3]), reduce(combine, x.transpose(0, 2, 1).reshape(8, 3), V[:3]), rtol=1e-4)
        assert ("prim::Loop" in {node.op for node in run.graph.nodes()}) == (combine is not np.subtract)
    body = """%i = "linalg.index"() <{dim = 1 : i64}> : () -> index
    %n = "arith.index_cast"(%i) : (index) -> i64
    %w = "arith.cmpf"(%e0, %e1) <{predicate = 2 : i64, fastmath = #arith.fastmath<none>}> : (f32, f32) -> i1
    %a = "arith.select"(%w, %e0, %e1) : (i1, f32, f32) -> f32
    %b = "arith.select"(%w, %n, %e2) : (i1, i64, i64) -> i64
    "linalg.yield"(%a, %b) : (f32, i64) -> ()"""
    types = ["tensor<3x9xf32>", "tensor<3xf32>", "tensor<3xi64>"]
    largest, place = _nest(["d0, d1", "d0", "d0"], "pr", types, types[1:], body)(WIDE, np.full(3, -9, np.float32), np.zeros(3, np.int64))
    np.testing.assert_array_equal(largest, WIDE.max(1))
    np.testing.assert_array_equal(place, WIDE.argmax(1))


PRODUCT = """%p = "arith.mulf"(%e0, %e1) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
    %s = "arith.addf"(%e2, %p) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
    """ + _yield("%s")


def test_convolutions_of_any_order_of_dimensions_are_torchs(torch: Any) -> None:
    numbers = np.random.default_rng(2)
    image, kernel = (numbers.normal(size=size).astype(np.float32) for size in ((2, 9, 8, 3), (3, 2, 3, 5)))
    # batch, rows, columns, features; kernel's rows and columns, channels: rows two apart, the kernel's columns three apart
    maps = ["d0, d1 * 2 + d4, d2 + d5 * 3, d6", "d4, d5, d6, d3", "d0, d1, d2, d3"]
    types = ["tensor<2x9x8x3xf32>", "tensor<3x2x3x5xf32>", "tensor<2x4x5x5xf32>"]
    run = _nest(maps, "pppprrr", types, types[2:], PRODUCT)
    assert "aten::convolution" in {node.op for node in run.graph.nodes()}
    wanted = torch.nn.functional.conv2d(
        torch.from_numpy(image).permute(0, 3, 1, 2), torch.from_numpy(kernel).permute(3, 2, 0, 1), stride=(2, 1), dilation=(1, 3)
    )
    zeros = np.zeros((2, 4, 5, 5), np.float32)
    np.testing.assert_allclose(run(image, kernel, zeros), wanted.permute(0, 2, 3, 1).numpy(), rtol=1e-4, atol=1e-5)
    # a kernel for each channel
    deep = numbers.normal(size=(3, 2, 3)).astype(np.float32)
    maps = ["d0, d1 + d4, d2 + d5, d3", "d4, d5, d3", "d0, d1, d2, d3"]
    types = ["tensor<2x9x8x3xf32>", "tensor<3x2x3xf32>", "tensor<2x7x7x3xf32>"]
    wanted = torch.nn.functional.conv2d(
        torch.from_numpy(image).permute(0, 3, 1, 2), torch.from_numpy(deep).permute(2, 0, 1).unsqueeze(1), groups=3
    )
    found = _nest(maps, "pppprr", types, types[2:], PRODUCT)(image, deep, np.ones((2, 7, 7, 3), np.float32))
    np.testing.assert_allclose(found, wanted.permute(0, 2, 3, 1).numpy() + 1, rtol=1e-4, atol=1e-5)


def test_a_product_over_windows_that_is_not_a_convolution_is_an_einsum() -> None:
    # the same loop in both operands' windows: an autocorrelation
    run = _nest(["d0 + d1", "d1", "d0"], "pr", ["tensor<8xf32>", "tensor<4xf32>", "tensor<5xf32>"], ["tensor<5xf32>"], PRODUCT)
    x = WIDE[0, :8]
    np.testing.assert_allclose(run(x, V, np.zeros(5, np.float32)), np.correlate(x, V), rtol=1e-4, atol=1e-5)


def test_pooling_is_a_reduction_of_windows() -> None:
    body = '%s = "arith.maximumf"(%e2, %e0) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32\n' + _yield("%s")
    types = ["tensor<3x9xf32>", "tensor<2xf32>", "tensor<3x4xf32>"]
    run = _nest(["d0, d1 * 2 + d2", "d2", "d0, d1"], "ppr", types, types[2:], body)
    found = run(WIDE, np.zeros(2, np.float32), np.full((3, 4), -np.inf, np.float32))
    np.testing.assert_array_equal(found, np.stack([WIDE[:, 2 * i : 2 * i + 2].max(1) for i in range(4)], 1))
