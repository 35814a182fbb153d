"""What one could lose without noticing: each is a pair of programs that differ in one thing, or that thing as it came in."""

import numpy as np
import pytest

import irscope as irs
from irscope.errors import CaptureError
from irscope.frontends.mlir.source import installed

if not installed():
    pytest.skip("neither jaxlib nor iree-base-compiler is installed", allow_module_level=True)
from tests.frontends.mlir.test_modules import load

PROPERTIES = """"my.top"() <{kind = 1 : i32}> ({
^bb0(%q: i32):
  %0:2 = "my.op"(%q, %q) <{p = 3 : i64, q = "s>}", "odd \\C3\\BC \\22name" = [1, {a = 2}], u, f = (i32) -> i32,
      set = affine_set<(d0) : (d0 - 1 >= 0)>, many = dense<[1, 2, 3, 4, 5, 6, 7, 8]> : tensor<8xi32>}> ({
    "my.inner"() <{k}> : () -> ()
  }, {}) {r = 1.5 : f32} : (i32, i32) -> (i32, i32)
  "my.plain"() : () -> ()
  "my.return"() <{how = "far"}> : () -> ()
}) : () -> ()"""


def test_properties_of_unregistered_ops_are_read() -> None:
    graph = load(PROPERTIES)
    top, op, inner, plain, end = (graph.node(f"my::{name}") for name in ("top", "op", "inner", "plain", "return"))
    assert dict(top.attrs) == {"kind": "1 : i32"}
    assert {name: value for name, value in op.attrs.items() if name != "many"} == {
        "p": 3, "q": '"s>}"', 'odd ü "name': (1, {"a": 2}), "u": "unit", "f": "(i32) -> i32",
        "set": "affine_set<(d0) : (d0 - 1 >= 0)>", "r": "1.500000e+00 : f32",
    }  # fmt: skip
    assert op.attrs["many"].array.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert (dict(inner.attrs), dict(plain.attrs), dict(end.attrs)) == ({"k": "unit"}, {}, {"how": "far"})
    assert irs.same_structure(irs.parse(str(graph)), graph)


def _classes(first: str, second: str) -> int:
    """Of two functions, which their own relation finds equal or not."""
    return len(irs.dedup(load(f"{first.replace('@f', '@f0')}\n{second.replace('@f', '@f1')}"), relation="alpha"))


OP = 'func.func @f(%x: i32) -> i32 {\n  %0 = "my.if"(%x) <{p = 3}> ({ "my.yield"(%x) : (i32) -> () }) : (i32) -> i32\n  return %0 : i32\n}'


@pytest.mark.parametrize(("change", "classes"), [
    (("%x", "%other"), 1), (("p = 3", "p = 4"), 2), (("my.yield", "my.return"), 2), (('"my.if"', '"my.other"'), 2),
])  # fmt: skip
def test_functions_with_one_difference_are_not_equal(change: tuple[str, str], classes: int) -> None:
    assert _classes(OP, OP.replace(*change)) == classes


def test_a_region_that_ends_in_two_ways_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"they differ: my\.return, my\.yield"):
        load("""func.func @f(%c: i1, %x: i32) -> i32 {
  %0 = "my.if"(%x) ({
    cf.cond_br %c, ^a, ^b
  ^a:
    "my.return"(%x) : (i32) -> ()
  ^b:
    "my.yield"(%x) : (i32) -> ()
  }) : (i32) -> i32
  return %0 : i32
}""")


def test_a_loop_that_compares_without_signs_is_kept() -> None:
    text = """func.func @f(%n: i32, %x: tensor<2xf32>) -> tensor<2xf32> {
  %c1 = arith.constant 1 : i32
  %r = scf.for KIND%i = %c1 to %n step %c1 iter_args(%a = %x) -> tensor<2xf32> : i32 {
    scf.yield %a : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}"""
    plain, unsigned = (load(text.replace("KIND", kind)) for kind in ("", "unsigned "))
    assert [[n.op for n in g.nodes() if n.blocks] for g in (plain, unsigned)] == [["prim::Loop"], ["scf::for"]]


def test_a_conversion_that_rounds_otherwise_is_kept() -> None:
    for word, is_kept in (("", False), ("to_nearest_even ", False), ("downward ", True)):
        graph = load(f"func.func @f(%a: f32) -> f16 {{\n  %0 = arith.truncf %a {word}: f32 to f16\n  return %0 : f16\n}}")
        assert graph.producer[graph.outputs[0]].op == ("arith::truncf" if is_kept else "prims::convert_element_type")


def test_sums_are_computed_in_the_element_type_of_the_result() -> None:
    graph = load("""func.func @f(%x: tensor<2x300xi8>) -> (tensor<2xi32>, tensor<2x300xi32>) {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %m = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %m : tensor<i32>
  }) : (tensor<2x300xi8>, tensor<i32>) -> tensor<2xi32>
  %1 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 2, 1>, padding = dense<[[1, 0], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %m = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %m : tensor<i32>
  }) : (tensor<2x300xi8>, tensor<i32>) -> tensor<2x300xi32>
  return %0, %1 : tensor<2xi32>, tensor<2x300xi32>
}""")
    x = np.full((2, 300), 100, np.int8)
    sums, pairs = irs.compile(graph, device="reference")(x)
    assert (sums.tolist(), pairs.dtype, pairs[:, 0].tolist()) == ([30000, 30000], np.int32, [100, 200])


def test_the_type_of_a_function_reads_back() -> None:
    module = load("""func.func @g(%x: f32) -> f32 { return %x : f32 }
func.func @main(%x: f32) -> f32 {
  %f = constant @g : (f32) -> f32
  %0 = call_indirect %f(%x) : (f32) -> f32
  return %0 : f32
}""")
    graph = module.graphs["main"]
    assert irs.same_structure(irs.parse(str(graph)), graph)
    assert str(graph.node("func::constant").output.type) == "!function<(f32) -> f32>"
