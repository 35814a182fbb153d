"""Modules: text that reads back, what inlining does, and what is refused."""

import random

import numpy as np
import pytest

import irscope as irs
from irscope._base.frozen import FrozenDict
from irscope.errors import ArgumentError, IrscopeError, ParseError, VerifyError
from irscope.ir import Symbol, TensorData
from irscope.ir.module import MAX_INLINED, entry, graph_of, graphs_of, inlined, verify_module
from irscope.ir.text import parse_module, print_module
from tests.programs import ir

RELU = "graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)"
CALLS = ir('a c:bool | r = If c {| b = func::call[callee="@relu"] a | b} {| d = func::call[callee="@twice"] a | d} | r')
TWICE = ir('a | b = func::call[callee="@relu"] a; c = func::call[callee="@relu"] b | c')


def _module() -> irs.Module:
    counts = irs.parse("graph():\n  %one : int = prim::Constant[value=1]()\n  return (%one)")
    inner = irs.Module(
        {"F": irs.parse(RELU)}, name="ex", symbols=(Symbol("F", "flow::executable.export", "public", FrozenDict(n=1), counts),)
    )
    graphs = {"relu": irs.parse(RELU), "twice": irs.parse(TWICE), "main": irs.parse(CALLS)}
    symbols = tuple(Symbol(name, "func::func", "public" if name == "main" else "private") for name in graphs)
    constants = {"w": TensorData.of(np.arange(6.0).reshape(2, 3)), "odd name": TensorData.of(np.array(3))}
    return irs.Module(graphs, constants, 'na"me', {"ex": inner}, symbols, FrozenDict(version=(1, "two")))


def test_a_module_reads_back_from_its_text() -> None:
    module = _module()
    again = parse_module(str(module))
    assert print_module(again) == str(module)
    assert again.constants == module.constants and again.attrs == module.attrs
    for (path, graph), (other, same) in zip(graphs_of(module), graphs_of(again), strict=True):
        assert path == other
        assert irs.same_structure(graph, same)
    export = again.modules["ex"].symbols[0]
    assert (export.visibility, export.attrs["n"], export.body is not None) == ("public", 1, True)
    assert irs.load(str(module)).name == module.name


def test_inlining_opens_every_call_with_values_of_its_own() -> None:
    module = _module()
    assert entry(module) == "main"
    graph = inlined(module)
    irs.verify(graph)
    assert [node.op for node in graph.nodes() if node.op == "aten::relu"] == ["aten::relu"] * 3
    assert [node.scope for node in graph.nodes() if node.op == "aten::relu"] == ["relu", "twice.relu", "twice.relu"]
    assert graph.inputs == module.graphs["main"].inputs


def test_calls_of_what_is_not_there_stay_and_those_that_fit_ill_or_grow_are_refused() -> None:
    caller = irs.parse('graph(%a : Tensor):\n  %b : Tensor = func::call[callee="@far"](%a)\n  return (%b)')
    assert inlined(irs.Module({"f": caller})).node("b").op == "func::call"
    caller = irs.parse('graph():\n  %b : Tensor = func::call[callee="@relu"]()\n  return (%b)')
    with pytest.raises(VerifyError, match="call-fits"):
        verify_module(irs.Module({"f": caller, "relu": irs.parse(RELU)}))
    graphs = {"f0": irs.parse(RELU)}
    for level in range(1, 40):
        graphs[f"f{level}"] = irs.parse(TWICE.replace("@relu", f"@f{level - 1}"))
    with pytest.raises(ArgumentError, match=str(MAX_INLINED)):
        inlined(irs.Module(graphs), "f39")


def test_several_public_graphs_must_be_named() -> None:
    with pytest.raises(ArgumentError, match="2 public graphs") as error:
        entry(irs.Module({"f": irs.parse(RELU), "g": irs.parse(RELU)}))
    assert "choose one of f, g: irs.load(source, graph=NAME)" in str(error.value)


@pytest.mark.parametrize(("text", "what"), [
    ("", "the text ends"),
    ('module "m" = module::attributes():\n', "the text ends"),
    ("graph():\n  return ()\n", "expected module"),
    ('module "m" = module::attributes():\nend\nend', "the end of the text"),
    ('module "m" = module::attributes():\ngraph "f":\ngraph(:\nend', "expected"),
    ('module "m" = module::attributes():\ngraph "f":\ngraph():\n  return ()\ngraph "f":\ngraph():\n  return ()\nend', "two parts"),
    ('module "m" = module::attributes([:\nend', "expected"),
])  # fmt: skip
def test_text_that_is_not_a_module_says_where(text: str, what: str) -> None:
    with pytest.raises(ParseError, match=what):
        parse_module(text)


def test_garbled_text_is_an_error_of_ours() -> None:
    text, rng = str(_module()), random.Random(0)
    for _ in range(300):
        place = rng.randrange(len(text))
        garbled = text[:place] + rng.choice(["", "\n", '"', "end\n", "(", "module ", "!<", "%"]) + text[place + rng.randrange(3) :]
        try:
            parse_module(garbled)
        except IrscopeError as error:
            assert str(error)


def test_every_verb_takes_a_module_with_one_public_graph_and_load_chooses_among_several():
    inner = irs.parse("graph(%x : Float(2)):\n  %y : Float(2) = aten::exp(%x)\n  return (%y)")
    outer = irs.parse('graph(%x : Float(2)):\n  %y : Float(2) = func::call[callee="@inner"](%x)\n  return (%y)')
    hidden = Symbol("inner", "func::func", "private")
    x = np.zeros(2, np.float32)
    one = irs.Module({"inner": inner, "outer": outer}, symbols=(hidden,))
    assert irs.compile(one)(x).tolist() == [1, 1]
    for verb in (irs.AliasDb, irs.ViewAliases, irs.memory_plan, irs.fuse, irs.Pipeline("cse"), irs.verify):
        verb(one)
    several = irs.Module({"inner": inner, "outer": outer, "ex": inner})
    for verb in (irs.AliasDb, irs.compile, irs.fuse, irs.explore):
        with pytest.raises(ArgumentError, match="3 public graphs") as refused:
            verb(several)
        assert "choose one of inner, outer, ex: irs.load(source, graph=NAME)" in str(refused.value)
    assert irs.compile(irs.load(several, graph="outer"))(x).tolist() == [1, 1]
    nested = irs.Module({}, modules={"ex_0": several})
    assert irs.load(nested, x, graph="ex_0::outer").node("y").op == "aten::exp"
    with pytest.raises(ArgumentError, match="has no graph 'outr'"):
        irs.load(several, graph="outr")
    with pytest.raises(ArgumentError, match="has one graph"):
        irs.load(str(inner), graph="outr")


def test_a_function_without_its_arguments_gets_a_hint_to_bring_them() -> None:
    for verb, hint in (("profile", r"irs\.profile\(seven, x\)"), ("fuse", r"irs\.load\(seven, x\)")):
        with pytest.raises(ArgumentError, match=hint):
            graph_of(seven, verb)


def seven() -> int:
    return 7
