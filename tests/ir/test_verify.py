"""One broken graph for each invariant, and how the error shows the place."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

import irscope.ir.invariants
from irscope._base.frozen import FrozenDict
from irscope.errors import VerifyError
from irscope.ir import BOOL, FLOAT, INT, NONE, STR, TENSOR, Block, Graph, Node, OptionalType, Type, Value, new_id
from irscope.ir.invariants import verify
from irscope.ir.text import parse
from tests.programs import ir
from tests.random_programs.graphs import programs


def value(name: str, type: Type = TENSOR) -> Value:
    return Value(new_id(), type, name)


def node(op: str, inputs: tuple[Value, ...] = (), outputs: tuple[Value, ...] = (), **more: object) -> Node:
    return Node(new_id(), op, inputs, outputs, **more)  # type: ignore[arg-type]


def block(params: tuple[Value, ...] = (), nodes: tuple[Node, ...] = (), returns: tuple[Value, ...] = ()) -> Block:
    return Block(new_id(), params, nodes, returns)


X, Y, Z, C, N, S = value("x"), value("y"), value("z"), value("c", BOOL), value("n", INT), value("s", STR)
RELU = node("aten::relu", (X,), (Y,))
EMPTY_BLOCK = block()


def graph(*nodes: Node, returns: tuple[Value, ...] = ()) -> Graph:
    return Graph(block((X, C, N, S), nodes, returns))


def an_if(*blocks: Block, inputs: tuple[Value, ...] = (C,), outputs: tuple[Value, ...] = ()) -> Node:
    return node("prim::If", inputs, outputs, blocks=blocks)


def a_loop(body: Block, inputs: tuple[Value, ...], outputs: tuple[Value, ...] = ()) -> Node:
    return node("prim::Loop", inputs, outputs, blocks=(body,))


def a_group(*blocks: Block, outputs: tuple[Value, ...] = (Y,)) -> Node:
    return node("prim::FusionGroup", (X,), outputs, blocks=blocks)


P, Q, COUNT = value("p"), value("q"), value("i", INT)
NUMBER_OUT = value("f", FLOAT)

BROKEN = [
    ("op-name", graph(node("relu", (X,), (Y,)))),
    ("op-name", graph(node("aten::add.Tensor x", (X,), (Y,)))),
    ("attrs-are-frozen", graph(node("a::b", attrs=FrozenDict(axes=[1, 2])))),
    ("attrs-are-frozen", graph(node("a::b", attrs=FrozenDict(axes=(1, {2: 3}))))),
    ("constant-form", graph(node("prim::Constant", (), (Y,)))),
    ("constant-form", graph(node("prim::Constant", (), (COUNT,)))),
    ("constant-form", graph(node("prim::Constant", (X,), (Y,), attrs=FrozenDict(value=1)))),
    ("constant-form", graph(node("prim::Constant", (), (), attrs=FrozenDict(value=1)))),
    ("one-definition", graph(RELU, node("aten::neg", (X,), (Y,)))),
    ("one-definition", graph(node("prim::TupleUnpack", (X,), (Y, Y)))),
    ("one-definition", Graph(block((X, X)))),
    ("one-definition", graph(node("aten::print", (X,)), RELU, RELU)),
    ("one-definition", graph(shared := node("a::b", (X,)), shared)),
    ("one-definition", graph(an_if(EMPTY_BLOCK, EMPTY_BLOCK))),
    ("one-definition", graph(node("a::b", (), (replace(X, name="twin"),)))),
    ("one-definition", graph(node("a::c", blocks=(block((P,)), block((P,)))))),
    ("defs-dominate-uses", graph(node("aten::neg", (Y,), (Z,)), RELU)),
    ("defs-dominate-uses", graph(node("aten::neg", (Z,), (Y,)))),
    ("defs-dominate-uses", graph(node("aten::neg", (Y,), (Y,)))),
    ("defs-dominate-uses", graph(returns=(Y,))),
    ("defs-dominate-uses", graph(an_if(block((), (RELU,)), block()), returns=(Y,))),
    ("defs-dominate-uses", graph(an_if(block((), (RELU,)), block((), (node("aten::neg", (Y,), (Z,)),))))),
    ("defs-dominate-uses", graph(an_if(block((), (), (Y,)), block((), (), (X,)), outputs=(Y,)))),
    ("group-isolated", graph(a_group(block((P,), (node("aten::add", (P, X), (Q,)),), (Q,))))),
    ("group-isolated", graph(a_group(block((P,), (an_if(block((), (), (X,)), block((), (), (P,)), inputs=(P,), outputs=(Q,)),), (Q,))))),
    ("group-params", graph(a_group())),
    ("group-params", graph(a_group(block((), (), ())))),
    ("group-params", graph(a_group(block((P,), (), ())))),
    ("block-arity", graph(an_if(block()))),
    ("block-arity", graph(an_if(block((P,)), block()))),
    ("block-arity", graph(an_if(block(), block(), inputs=(C, X)))),
    ("block-arity", graph(an_if(block((), (), (X,)), block(), outputs=(Y,)))),
    ("block-arity", graph(a_loop(block((COUNT,), (), (C,)), (N,)))),
    ("block-arity", graph(a_loop(block((COUNT,), (), (C,)), (N, C, X)))),
    ("block-arity", graph(a_loop(block((COUNT, P), (), (C,)), (N, C, X), (Y,)))),
    ("block-arity", graph(a_loop(block((COUNT,), (), (C, X)), (N, C, X), (Y,)))),
    ("block-arity", graph(a_loop(block((), (), ()), (N, C)))),
    ("return-types", graph(an_if(block((), (), (X,)), block((), (), (S,)), outputs=(Y,)))),
    ("return-types", graph(a_loop(block((COUNT,), (), (C,)), (S, C)))),
    ("return-types", graph(a_loop(block((COUNT,), (), (C,)), (N, X)))),
    ("return-types", graph(a_loop(block((P,), (), (C,)), (N, C)))),
    ("return-types", graph(a_loop(block((COUNT,), (), (N,)), (N, C)))),
    ("return-types", graph(a_loop(block((COUNT, P), (), (C, P)), (N, C, S), (Y,)))),
    ("return-types", graph(a_loop(block((COUNT, P), (), (C, S)), (N, C, X), (Y,)))),
    ("return-types", graph(a_group(block((NUMBER_OUT,), (), (NUMBER_OUT,)), outputs=(Y,)))),
    ("bound-inputs", Graph(block((X,)), bound={Y: 1})),
]


@pytest.mark.parametrize(("rule", "broken"), BROKEN, ids=[f"{rule}-{i}" for i, (rule, _) in enumerate(BROKEN)])
def test_a_graph_that_breaks_a_rule_names_the_rule(rule, broken):
    with pytest.raises(VerifyError) as caught:
        verify(broken)
    assert caught.value.rule == rule
    assert f"[{rule}]" in str(caught.value)
    if rule != "bound-inputs":
        assert re.search(r"(?m)^>", caught.value.where)


def test_every_rule_of_the_docstring_has_a_broken_graph():
    rules = re.findall(r"(?m)^`([a-z-]+)`", irscope.ir.invariants.__doc__ or "")
    assert rules == list(dict.fromkeys(rules)) and sorted(rules) == sorted({rule for rule, _ in BROKEN})
    source = Path(irscope.ir.invariants.__file__).read_text(encoding="utf-8")
    assert all(source.count(f'"{rule}"') >= 1 for rule in rules)


def test_the_error_shows_both_places():
    late = node("aten::neg", (Y,), (Z,))
    with pytest.raises(VerifyError) as caught:
        verify(graph(late, RELU, returns=(Z,)))
    assert (
        str(caught.value)
        == """\
%y is used before it is defined, or outside of the block that defines it   [defs-dominate-uses]

      graph(%x : Tensor, %c : bool, %n : int, %s : str):
  >     %z : Tensor = aten::neg(%y)    used here
  >     %y : Tensor = aten::relu(%x)    defined here
        return (%z)

  hint: move its producer up, or return it from its block"""
    )


def test_what_is_allowed():
    maybe = value("maybe", OptionalType(TENSOR))
    nothing = value("nothing", NONE)
    none = node("prim::Constant", (), (nothing,))
    verify(graph(none, an_if(block((), (), (nothing,)), block((), (), (X,)), outputs=(maybe,)), returns=(maybe,)))
    verify(graph(node("scf::for", (X,), (), blocks=(block((P, Q)), block(), block()))))
    verify(graph(node("prim::fork", (X,), (Y,), blocks=(block((P,), (), (P, P)),))))
    verify(graph(node("^Python", (X,), (Y,))))


@given(programs())
@settings(max_examples=60, deadline=None)
def test_random_programs_verify_and_their_mutilations_do_not(program):
    g = parse(program.text)
    verify(g)
    used = [n for n in g.body.nodes if any(v in g.users for v in n.outputs)]
    if used:
        rest = tuple(n for n in g.body.nodes if n is not used[0])
        with pytest.raises(VerifyError, match="defs-dominate-uses"):
            verify(Graph(Block(new_id(), g.body.params, rest, g.body.returns)))


def test_torchs_none_of_an_optional_type_reads_in_both():
    torch = pytest.importorskip("torch")
    text = ir("x | none:Tensor? = None; same:bool = __is__ none none | same")
    graph = parse(text)
    verify(graph)
    assert str(graph).strip() == text.strip()
    assert torch._C._create_function_from_graph("f", torch._C.parse_ir(str(graph)))(torch.zeros(2)) is True
