"""MLIR files: what comes in as what, with names, places, attributes, symbols."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, CaptureError, LoadError, ParseError
from irscope.frontends.mlir.source import installed, new_context, required
from irscope.ir.module import entry, graphs_of, inlined, verify_module
from irscope.ir.text import parse_module, print_module

if not installed():
    pytest.skip("neither jaxlib nor iree-base-compiler is installed", allow_module_level=True)
from tests.oracles.damaged_files import LOOPS_AND_IFS

SAMPLES = Path(__file__).parent / "samples"
needs_iree = pytest.mark.skipif("iree" not in installed(), reason="the pretty form of IREE's dialects")


def load(text: str) -> Any:
    """The program, parsed here and not in a process of its own first, which takes longer."""
    return irs.load(parsed("// a comment\n" + text))


def parsed(text: str) -> Any:
    bindings = required()
    try:
        return bindings.ir.Module.parse(text, new_context(bindings))
    except bindings.ir.MLIRError as error:
        raise ParseError(str(error), line=1, column=1) from None


def test_one_function_is_a_graph_with_locations() -> None:
    graph = load("""func.func @f(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %a, %b : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}""")
    (node,) = (node for node in graph.nodes() if node.op != "prim::Constant")
    assert (node.op, str(node.location), graph.name) == ("aten::add", "<mlir>:3:8", "f")
    assert graph.functional == "StableHLO"


def test_locations_by_aliases_that_come_later() -> None:
    graph = load("""func.func @f(%a: tensor<f32> loc("x")) -> tensor<f32> {
  %0 = stablehlo.tanh %a : tensor<f32> loc(#where)
  return %0 : tensor<f32>
}
#file = loc("model.py":7:3)
#where = loc("jit(f)/layer/tanh"(callsite(#file at "main.py":1:1)))""")
    node = graph.node("tanh")
    assert (str(node.location), node.scope, graph.names[graph.inputs[0]]) == ("model.py:7:3", "layer", "x")


def test_several_functions_are_a_module_whose_calls_are_followed() -> None:
    module = load("""module @m {
  func.func private @twice(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %a, %a : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = func.call @twice(%a) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}""")
    assert (entry(module), sorted(module.graphs)) == ("main", ["main", "twice"])
    verify_module(module)
    main = module.graphs["main"]
    assert not irs.AliasDb(main, callees=module).may_alias(main.inputs[0], main.outputs[0])
    graph = inlined(module)
    assert [node.op for node in graph.nodes() if node.op != "prim::Constant"] == ["aten::add"]
    x = np.ones(2, np.float32)
    assert irs.compile(module)(x).tolist() == [2, 2]


def test_unknown_dialects_are_opaque_and_read_back() -> None:
    graph = load("""func.func @f(%a: !my.handle<4>, %b: tensor<?x3xi4>) -> i32 {
  %0:2 = "my.op"(%a, %b) ({
  ^bb0(%x: f32):
    "my.use"(%x) : (f32) -> ()
    "my.yield"(%x) : (f32) -> ()
  }) {word = "plain", odd = "@f", map = affine_map<(d0) -> (d0)>, n = 3 : i32, wide = 3 : i64,
      list = [1.5, true], flag, scale = 0xFFF0000000000000 : f64} : (!my.handle<4>, tensor<?x3xi4>) -> (i32, memref<2xf32>)
  return %0#0 : i32
}""")
    node = graph.node("my::op")
    assert dict(node.attrs) == {
        "word": "plain", "odd": '"@f"', "map": "affine_map<(d0) -> (d0)>", "n": "3 : i32", "wide": 3,
        "list": (1.5, True), "flag": "unit", "scale": "0xFFF0000000000000 : f64",
    }  # fmt: skip
    assert [str(value.type) for value in (*graph.inputs, *node.outputs)] == ["!my.handle<4>", "Int4(*, 3)", "Int()", "!memref<2xf32>"]
    assert irs.same_structure(irs.parse(str(graph)), graph) and graph.functional == ""
    db = irs.AliasDb(graph)
    assert db.may_alias(graph.inputs[0], node.outputs[1])


@pytest.mark.parametrize(("spelled", "bits"), [
    ("dense<[0xFF800000, 0x7FC00001]> : tensor<2xf32>", [0xFF800000, 0x7FC00001]),
    ("dense<[-0.0, 0x1p-149]> : tensor<2xf32>", None),
    ("dense<[0x7C01, 0xFC00]> : tensor<2xf16>", [0x7C01, 0xFC00]),
    ("dense<[0x7FC1, 0xFF80]> : tensor<2xbf16>", [0x7FC1, 0xFF80]),
    ("dense<[1.5, -2.0]> : tensor<2xbf16>", [0x3FC0, 0xC000]),
    ("dense<0x7FF8000000000001> : tensor<1xf64>", [0x7FF8000000000001]),
    ('dense<"0x000080FF0100C07F"> : tensor<2xf32>', [0xFF800000, 0x7FC00001]),
])  # fmt: skip
def test_constants_keep_every_bit(spelled: str, bits: list[int] | None) -> None:
    text = f"""func.func @f() -> {spelled.rpartition(" : ")[2]} {{
  %0 = stablehlo.constant {spelled}
  return %0 : {spelled.rpartition(" : ")[2]}
}}"""
    if bits is None:
        with pytest.raises(ParseError):
            load(text)
        return
    (node,) = load(text).nodes()
    array = node.attrs["value"].array
    assert array.view(f"u{array.itemsize}").tolist() == bits


def test_a_large_splat_constant_takes_no_memory() -> None:
    graph = load("""func.func @f() -> (tensor<99999x99999xf32>, tensor<300x300xbf16>, tensor<70000x!my.type>) {
  %0 = stablehlo.constant dense<0xFF800000> : tensor<99999x99999xf32>
  %1 = stablehlo.constant dense<0x7FC1> : tensor<300x300xbf16>
  %3 = arith.constant dense<7> : tensor<99999x99999xi32>
  %4 = arith.constant dense<true> : tensor<99999xi1>
  %5 = arith.constant dense<[1, 2]> : tensor<2xi4>
  %2 = "my.op"() {v = dense<2> : tensor<99999x99999xi64>} : () -> tensor<70000x!my.type>
  return %0, %1, %2 : tensor<99999x99999xf32>, tensor<300x300xbf16>, tensor<70000x!my.type>
}""")
    infinity, nan = (graph.producer[graph.producer[value].inputs[0]].attrs["value"] for value in graph.outputs[:2])
    assert (float(infinity.array), int(nan.array)) == (-np.inf, 0x7FC1)
    assert graph.node("my::op").attrs["v"] == "dense<2> : tensor<99999x99999xi64>"


def test_dialect_resources_are_read() -> None:
    graph = load("""func.func @f() -> (tensor<2xf32>, tensor<3xf32>) {
  %0 = stablehlo.constant dense_resource<weights> : tensor<2xf32>
  %1 = "my.op"() {v = dense_resource<missing> : tensor<3xf32>} : () -> tensor<3xf32>
  return %0, %1 : tensor<2xf32>, tensor<3xf32>
}
{-# dialect_resources: {builtin: {weights: "0x0400000000000080000080FF"}} #-}""")
    assert graph.producer[graph.outputs[0]].attrs["value"].array.view(np.uint32).tolist() == [0x80000000, 0xFF800000]
    assert graph.node("my::op").attrs["v"] == "dense_resource<missing> : tensor<3xf32>"


def test_complex_and_small_integer_constants() -> None:
    graph = load("""func.func @f() -> (tensor<2xcomplex<f32>>, tensor<2xi4>) {
  %0 = stablehlo.constant dense<[(1.0, -0.0), (0x7F800000, 2.0)]> : tensor<2xcomplex<f32>>
  %1 = stablehlo.constant dense<[1, -2]> : tensor<2xi4>
  return %0, %1 : tensor<2xcomplex<f32>>, tensor<2xi4>
}""")
    first, second = graph.nodes()
    assert first.attrs["value"].array.tolist() == [1 - 0j, complex(np.inf, 2)]
    assert (second.op, second.attrs["value"]) == ("stablehlo::constant", "dense<[1, -2]> : tensor<2xi4>")


BRANCHES = """func.func @f(%n: i32, %x: tensor<2xf32>) -> tensor<2xf32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  cf.br ^head(%c0, %x : i32, tensor<2xf32>)
^head(%i: i32, %a: tensor<2xf32>):
  %go = arith.cmpi slt, %i, %n : i32
  cf.cond_br %go, ^body, ^done
^body:
  %odd = arith.andi %i, %c1 : i32
  %is = arith.cmpi eq, %odd, %c1 : i32
  cf.cond_br %is, ^one(%a : tensor<2xf32>), ^two
^one(%p: tensor<2xf32>):
  %s = arith.addf %p, %p : tensor<2xf32>
  cf.br ^meet(%s : tensor<2xf32>)
^two:
  %t = arith.mulf %a, %a : tensor<2xf32>
  cf.br ^meet(%t : tensor<2xf32>)
^meet(%m: tensor<2xf32>):
  %j = arith.addi %i, %c1 : i32
  cf.br ^head(%j, %m : i32, tensor<2xf32>)
^done:
  %r = arith.negf %a : tensor<2xf32>
  return %r : tensor<2xf32>
}"""


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_structured_branches_become_loops_and_ifs(rounds: int) -> None:
    graph = load(BRANCHES)
    assert [node.op for node in graph.nodes() if node.blocks] == ["prim::Loop", "prim::If"]
    wanted = np.array([1.5, -2.0], np.float32)
    for i in range(rounds):
        wanted = wanted + wanted if i & 1 else wanted * wanted
    found = irs.compile(graph)(np.array(rounds, np.int32), np.array([1.5, -2.0], np.float32))
    np.testing.assert_array_equal(found, -wanted)


def test_branches_that_are_not_structured_name_the_block() -> None:
    with pytest.raises(CaptureError, match=r"block \^bb\d") as error:
        load("""func.func @f(%c: i1, %d: i1) {
  cf.cond_br %c, ^a, ^b
^a:
  cf.cond_br %d, ^b, ^c
^b:
  cf.cond_br %c, ^a, ^c
^c:
  return
}""")
    assert error.value.rule == "unstructured-branches"


SWITCH = """func.func @f(%n: i32, %x: f32) -> f32 {
  cf.switch %n : i32, [ default: ^d, 0: ^a, 5: ^a, -7: ^d, 9: ^e(%x : f32) ]
^a:
  %0 = arith.addf %x, %x : f32
  cf.br ^e(%0 : f32)
^d:
  %1 = arith.negf %x : f32
  cf.br ^e(%1 : f32)
^e(%r: f32):
  %2 = arith.mulf %r, %r : f32
  %3 = arith.addf %2, %r : f32
  return %3 : f32
}"""


def test_switches_are_chains_of_ifs() -> None:
    run, x = irs.compile(load(SWITCH)), np.float32(3)
    for number, r in ((0, 6), (5, 6), (-7, -3), (9, 3), (1, -3)):
        assert run(np.array(number, np.int32), x) == r * r + r


def test_a_switch_that_leads_to_one_block_with_several_values_is_refused() -> None:
    text = SWITCH.replace("^a:", "^a(%y: f32):").replace("0: ^a, 5: ^a", "0: ^a(%x : f32), 5: ^a(%z : f32)")
    text = text.replace("%x: f32)", "%x: f32, %z: f32)")
    with pytest.raises(CaptureError, match="leads to one block twice, with different arguments"):
        load(text)


def test_branches_of_llvm() -> None:
    graph = load("""llvm.func @f(%c: i1, %p: !llvm.ptr) -> i32 {
  %0 = llvm.load %p : !llvm.ptr -> i32
  llvm.cond_br %c, ^a(%0 : i32), ^b
^a(%x: i32):
  llvm.br ^b
^b:
  llvm.return %0 : i32
}""")
    assert "prim::If" in {node.op for node in graph.nodes()}
    assert graph.functional == "" and irs.AliasDb(graph).has_writers(graph.inputs[1])


def test_scf_loops_and_ifs() -> None:
    graph = load(LOOPS_AND_IFS)
    x = np.array([0.5, -1.0], np.float32)
    for n, wanted in ((0, x), (2, np.exp(x)), (6, np.exp(2 * np.exp(x)))):
        np.testing.assert_allclose(irs.compile(graph)(n, x), wanted, rtol=1e-5)


def test_a_module_reads_back_from_its_text() -> None:
    module = load("""module @m attributes {my.version = 3 : i64} {
  memref.global "private" constant @c : memref<2xf32> = dense<[1.0, 2.0]>
  func.func private @helper(tensor<2xf32>) -> tensor<2xf32>
  module @inner {
    func.func @g(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }
  }
  func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = func.call @helper(%a) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}""")
    text = print_module(module)
    again = parse_module(text)
    assert print_module(again) == text
    assert [path for path, _ in graphs_of(again)] == ["main", "inner::g"]
    assert again.constants["c"].array.tolist() == [1, 2]
    assert {symbol.name: symbol.visibility for symbol in again.symbols} == {
        "c": "private", "helper": "private", "inner": "public", "main": "public",
    }  # fmt: skip
    assert again.attrs["my.version"] == 3


def test_calls_in_a_circle_are_not_inlined() -> None:
    module = load("""module {
  func.func @f(%a: tensor<f32>) -> tensor<f32> {
    %0 = func.call @f(%a) : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @g() { return }
}""")
    with pytest.raises(ArgumentError, match="calls itself"):
        inlined(module)


def test_errors_name_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text("func.func @f() {\n  %0 = stablehlo.add %a, %a : tensor<f32>\n  return\n}\n")
    with pytest.raises(ParseError, match=r"bad\.mlir:2:\d+") as error:
        irs.load(path)
    assert error.value.line == 2 and "%a" in str(error.value)
    with pytest.raises(ParseError):
        irs.load(b"ML\xefR\x0dgarbage")


@pytest.mark.parametrize("where", [r'loc("a\FFb")', r'loc("f\FFg":1:2)', r'loc(callsite("x"("f\C3":1:2) at "y"))'])
def test_a_location_that_is_not_utf8_is_an_error(where: str) -> None:
    """Asked for such a name, MLIR's bindings end the process."""
    with pytest.raises(LoadError, match="not UTF-8"):
        load(f"func.func @f(%a: f32) -> f32 {{\n  %0 = arith.negf %a : f32 {where}\n  return %0 : f32\n}}")


def test_an_attribute_name_that_is_not_utf8_is_an_error() -> None:
    with pytest.raises(LoadError, match="not UTF-8"):
        load(r'"my.op"() {a = {"b\FFc" = 1 : i32}} : () -> ()')


def test_locations_may_have_any_unicode_letters() -> None:
    graph = load(r"""func.func @f(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.tanh %a : tensor<f32> loc("größe\\FF"("\C3\BC.py":1:2))
  return %0 : tensor<f32>
}""")
    (node,) = graph.nodes()
    assert node.location is not None and node.location.file == "ü.py"


def test_nesting_too_deep_for_the_parser_is_an_error() -> None:
    with pytest.raises((LoadError, ParseError)):
        irs.load("func.func @g()\nfunc.func @f() { %0 = arith.constant " + "[" * 200_000)


def test_bytecode(tmp_path: Path) -> None:
    import io

    bindings = required()
    module = bindings.ir.Module.parse(BRANCHES, new_context(bindings))
    held = io.BytesIO()
    module.operation.write_bytecode(held)
    (tmp_path / "f.mlirbc").write_bytes(held.getvalue())
    for source in (held.getvalue(), tmp_path / "f.mlirbc", module):
        assert [node.op for node in irs.load(source).nodes() if node.blocks] == ["prim::Loop", "prim::If"]


@pytest.mark.parametrize("name", ["quant24", "resnet18"])
def test_stablehlo_samples_load(name: str) -> None:
    module = irs.load(SAMPLES / f"{name}.stablehlo.mlir")
    graph = inlined(module)
    foreign = {node.op for node in graph.nodes() if node.op.partition("::")[0] not in ("aten", "prim", "prims")}
    assert not foreign
    assert graph.functional == "StableHLO"


@needs_iree
@pytest.mark.long
def test_exports_keep_their_functions_apart() -> None:
    module = irs.load(SAMPLES / "iree_dedup_swapped_exports.mlir")
    first, second = module.modules.values()
    assert [symbol.name for symbol in first.symbols if symbol.body is not None] == ["F", "G"]
    assert [symbol.name for symbol in second.symbols if symbol.body is not None] == ["G1", "F1"]
    assert not irs.same_structure(first.graphs["F"], first.graphs["G"])
    assert list(second.graphs) == ["F1", "G1"]
