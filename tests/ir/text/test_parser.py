"""Text into programs: what is read, what is refused and how it is reported, and that nothing else than ParseError comes out."""

import numpy as np
import pytest

from irscope._base.frozen import FrozenDict
from irscope.errors import ParseError
from irscope.ir import TENSOR, Graph, ListType, Opaque, TensorData, constant_value
from irscope.ir.invariants import verify
from irscope.ir.structural import same_structure
from irscope.ir.text import parse
from tests.random_programs.graphs import FEATURES, random_program

EVERYTHING = """
# a comment before
graph(%self : __torch__.___torch_mangle_0.M,
      %x.1 : Float(2, *, strides=[3, 1], requires_grad=0, device=cpu), # and one here
      %12 : Tensor?[]):
  %k : int = prim::Constant[value=1]() # model.py:3:4
  %none : NoneType = prim::Constant()
  %w : Float(2, strides=[1], requires_grad=0, device=cpu) = prim::Constant[value= 1  2.5 [ CPUFloatType{2} ]]()
  %s : str = prim::Constant[value="a \\"#\\n\\0)+\\/.)"](), scope: __module.a/__module.b # model.py:3:4
  %p, %q : int[] = foo::bar[axes=[1, 2], mode="x", types=[int, Float(2)], to=int](%x.1, %k)
   = prim::Print(%s, %p)
  prim::Print(%s)
  %i : InterfaceType<I> = prim::GetAttr[name="i"](%self)
  %r : Tensor = prim::If(%k)
    block0():
      %inner : Tensor = ^Double[inplace=0](2, "a)(b")(%x.1)
      -> (%inner)
    block1():
      -> (%p)
  %n : Tensor = prim::Loop(%k, %k, %r)
    block0(%c : int, %inner : Tensor):
      -> (%k, %inner)
  return (%n, %r)
"""


def test_everything_that_a_line_may_hold():
    g = parse(EVERYTHING)
    assert [value.name for value in g.inputs] == ["self", "x.1", "12"]
    assert g.value("12").type == ListType(parse("graph(%a : Tensor?): return (%a)").inputs[0].type)
    assert str(g.node("k").location) == "model.py:3:4" and g.node("s").location is g.node("k").location
    assert g.node("s").scope == "__module.a/__module.b"
    assert constant_value(g.node("s")) == 'a "#\né'
    assert constant_value(g.node("w")) == TensorData.of(np.array([1, 2.5], np.float32))
    two = g.node("p")
    assert [value.type for value in two.outputs] == [TENSOR, g.value("q").type]
    assert (two.attrs["axes"], two.attrs["mode"], str(two.attrs["types"][1])) == ((1, 2), "x", "Float(2)")
    assert [len(node.inputs) for node in g.nodes() if node.op == "prim::Print"] == [2, 1]
    assert g.node("n").op == "prim::Loop"
    python = next(node for node in g.nodes() if node.op == "^Double")
    assert python.attrs == {"inplace": 0, "arguments": Opaque('2, "a)(b"')}
    assert len(g.outputs) == 2


def test_a_group_printed_after_its_graph_becomes_the_block_of_its_node():
    g = parse("""
graph(%a : Tensor, %b : Tensor):
  %c : Tensor = prim::DifferentiableGraph_0(%a, %b)
  %d : Tensor = prim::DifferentiableGraph_1(%c)
  return (%d)
with prim::DifferentiableGraph_0 = graph(%a : Tensor, %y : Tensor):
  %z : Tensor = prim::FusionGroup_0(%y, %a)
  return (%z)
with prim::FusionGroup_0 = graph(%p : Tensor, %q : Tensor):
  %r : Tensor = aten::mul(%p, %q)
  return (%r)
with prim::DifferentiableGraph_1 = graph(%x : Tensor):
  return (%x)
""")
    verify(g)
    assert [node.op for node in g.nodes()] == ["prim::DifferentiableGraph", "prim::FusionGroup", "aten::mul", "prim::DifferentiableGraph"]
    assert "prim::FusionGroup(%y, %a.1)\n        block0(%p : Tensor, %q : Tensor):" in str(g)


def test_a_name_may_be_used_again_in_a_sibling_block():
    g = parse("""graph(%c : bool, %x : Tensor):
  %y : Tensor = prim::If(%c)
    block0():
      %t : Tensor = aten::relu(%x)
      -> (%t)
    block1():
      %t : Tensor = aten::neg(%x)
      -> (%t)
  return (%y)""")
    verify(g)
    assert sorted(g.names.values()) == ["c", "t", "t.1", "x", "y"]


@pytest.mark.parametrize(("type", "text", "payload"), [
    ("float", "3.", 3.0),
    ("float", "10000000000000000", 1e16),
    ("float", "-inf", float("-inf")),
    ("bool", "1", True),
    ("int", "-9223372036854775808", -(2**63)),
    ("complex", "0.+1.j", 1j),
    ("complex", "-1.5-2.j", -1.5 - 2j),
    ("int?", "None", None),
    ("int[]", "annotate(List[int], [])", ()),
    ("float[]", "[1, 2.5]", (1.0, 2.5)),
    ("bool[]", "[True, False]", (True, False)),
    ("(int, float)", "(1, 2)", (1, 2.0)),
    ("Dict(str, float)", '{"a": 1}', FrozenDict(a=1.0)),
    ("Device", '"cuda:0"', "cuda:0"),
    ("Enum<__torch__.Color>", "__torch__.Color.RED", Opaque("__torch__.Color.RED")),
    ("__torch__.M", "<__torch__.M object at 0x7f>", Opaque("<__torch__.M object at 0x7f>")),
    ("Long(requires_grad=0)", "{3}", TensorData.of(np.array(3))),
    ("ComplexFloat(1)", "{(1,2)}", TensorData.of(np.array([1 + 2j], np.complex64))),
    ("Tensor", "{3}", Opaque("{3}")),
    ("Float(2)", " 1e-05 *\n 1  2 [ CPUFloatType{2} ]", TensorData.of(np.array([1, 2], np.float32) * np.float32(1e-5))),
    ("Bool(2)", " 1  0 [ CPUBoolType{2} ]", TensorData.of(np.array([True, False]))),
    ("Tensor[]", "[<Tensors>]", Opaque("[<Tensors>]")),
    ("(Tensor, int[])", "( 1  1 [ CPUFloatType{2} ], [1])", (TensorData.of(np.ones(2, np.float32)), (1,))),
])  # fmt: skip
def test_constants(type, text, payload):
    read = parse(f"graph():\n  %c : {type} = prim::Constant[value={text}]()\n  return (%c)").node("c").attrs["value"]
    assert read == payload and read.__class__ is payload.__class__


def test_a_tensor_too_large_to_print_keeps_its_size():
    value = parse("graph():\n  %c : Float(20, 5) = prim::Constant[value=<Tensor>]()\n  return (%c)").node("c").attrs["value"]
    assert (value.dtype, value.shape, value.array) == ("float32", (20, 5), None)


def test_a_caret_stays_in_sight_on_a_long_line():
    names = ", ".join(f"%x{i} : Tensor" for i in range(1000))
    with pytest.raises(ParseError) as caught:
        parse(f"graph({names}, !):\n  return ()")
    source, caret = caught.value.where.splitlines()
    assert len(source) <= 160 and source[caret.index("^")] == "!"
    assert caught.value.column > 10_000


def test_the_file_is_named():
    with pytest.raises(ParseError, match=r"^model\.ir:1:1: expected"):
        parse("nonsense", file="model.ir")


WHOLE = [EVERYTHING, *(random_program(seed, features=FEATURES).with_types().text for seed in range(4))]


@pytest.mark.parametrize("text", WHOLE, ids=["everything", *map(str, range(4))])
def test_a_truncated_text_is_a_parse_error_that_says_where(text):
    assert parse(text).outputs
    for end in range(1, text.rindex(")"), 7 if text is EVERYTHING else 20):
        with pytest.raises(ParseError) as caught:
            parse(text[:end])
        error = caught.value
        assert 1 <= error.line <= text[:end].count("\n") + 2
        assert f"line {error.line}, column {error.column}" in error.what


@pytest.mark.parametrize("constant", [
    "9" * 5000, "[" * 10_000, "{" * 10_000, "(" * 10_000, "annotate(" * 5000, "1e999999", "{9" + "9" * 400 + "}", '"\\', '"\\u1"',
    " 1 [ CPUFloatType{99999999999999999999} ]", " 300 [ CPUByteType{1} ]", " 1 [ CPUFloatType{,} ]", "{1: {2: {3: 4}}}", "{[]: 1}",
    "{None: 1}", " " * 20_000 + "x", "1 " * 5_000, '"\ud800"', "<" * 5000, "[" + "1, " * 20_000 + "!",
])  # fmt: skip
def test_strange_constants(constant):
    for type in ("int", "float", "Float(1)", "Byte(1)", "Dict(int, int)"):
        _only_parse_errors(f"graph():\n  %c : {type} = prim::Constant[value={constant}]()\n  return (%c)")


@pytest.mark.parametrize("type", ["int" + "[]" * 5000, "List[" * 5000, "(" * 5000, "Float(" + "1, " * 5000, "Float(99999999999999999999)"])
def test_strange_types(type):
    _only_parse_errors(f"graph(%x : {type}):\n  return (%x)")


def _only_parse_errors(text: str) -> None:
    """Reads the text; a ParseError must name its place, and a program must print and read back."""
    told: ParseError | None = None
    try:
        graph = parse(text)
    except ParseError as error:
        told = error
    if told is None:
        assert isinstance(parse(str(graph)), Graph)
    else:
        assert told.line >= 1 and told.column >= 1 and str(told)


def test_an_attribute_of_any_name_reads_back() -> None:
    graph = parse('graph():\n  %y : int = my::op[plain.name=1, "ü \\"x\\"\\n=]"=2, ""=3]()\n  return (%y)')
    assert dict(graph.node("y").attrs) == {"plain.name": 1, 'ü "x"\n=]': 2, "": 3}
    assert same_structure(parse(str(graph)), graph)
