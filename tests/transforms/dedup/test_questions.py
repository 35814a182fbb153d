"""The questions of a `Dedup`, and errors for invalid ones; several models together; small programs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import irscope as irs
from irscope.errors import ArgumentError, UnknownName, UnknownNumber
from irscope.ir import BOOL, Block, Graph, GraphBuilder, Module, Node, TensorType, Value, new_id
from irscope.transforms.dedup import Dedup, dedup
from tests.programs import ir, parsed

LINES = "".join(
    f"  %k{i} : float = prim::Constant[value={0.5 + i}]()\n  %a{i} : Float(4) = aten::mul(%x{i}, %k{i})\n"
    f"  %b{i} : Float(4) = aten::tanh(%a{i})\n" for i in range(3)
)  # fmt: skip
FOUR = irs.parse(f"graph({', '.join(f'%x{i} : Float(4)' for i in range(3))}):\n{LINES}  return (%b0, %b1, %b2)")


def groups(relation: Any = "constants") -> Dedup:
    return irs.dedup(irs.fuse(FOUR), relation=relation)


def test_a_class_is_a_sequence_of_its_members_and_found_by_any_of_them() -> None:
    d = groups()
    (cls,) = d
    assert list(cls) == list(cls.members) and len(cls) == 3 and cls[0] is cls.representative in cls
    assert d.class_of("b1") is cls and "b1" not in cls
    assert d.holes("b1").equals(d.holes(0)) and d.holes(cls).equals(d.holes(cls[2]))


@pytest.mark.parametrize(("ask", "error", "told"), [
    (lambda d: d.holes(9), UnknownNumber, "there is 1, number 0: %b0 ×3"),
    (lambda d: d.holes("nope"), UnknownName, "nope"),
    (lambda d: d.holes(None), ArgumentError, "not by NoneType"),
    (lambda d: d.holes(irs.dedup(irs.fuse(FOUR)).classes[0]), UnknownName, "of another program"),
    (lambda d: d.apply(3), ArgumentError, "there is no relation 3"),
    (lambda d: d.recommend(budget=-1), ArgumentError, "not a budget of slowdown"),
    (lambda d: d.recommend(budget=float("nan")), ArgumentError, "not a budget of slowdown"),
    (lambda d: d.recommend(budget="5 %"), ArgumentError, "not a budget of slowdown"),
    (lambda d: d.ladder(3), ArgumentError, "not of int"),
    (lambda d: d.recommend(executable="cpu"), ArgumentError, "not of str"),
])  # fmt: skip
def test_invalid_questions_are_errors_with_hints(ask: Callable[[Dedup], Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        ask(groups())


def test_groups_of_several_models_are_sorted_together() -> None:
    module = irs.Module({"one": irs.fuse(FOUR).graph, "two": irs.fuse(FOUR).graph})
    d = irs.dedup(module, unit="groups")
    assert sorted(map(len, d)) == [2, 2, 2] and d.class_of("one/%b0").members == ("one/%b0", "two/%b0")
    assert "0.5 against 1.5" in d.why_not("one/%b0", "two/%b1").because
    assert d.ladder()["classes"]["constants"] == 1
    assert [choice.step for choice in d.recommend().choices] == ["constants"]
    assert len(irs.dedup(module)) == 1, "the graphs themselves"


@pytest.mark.parametrize(
    ("count", "said"), [(0, "no fusion groups"), (1, "the one fusion group of"), (3, "each of the 3 fusion groups of")]
)
def test_the_note_counts_pieces_in_a_sentence(count: int, said: str) -> None:
    lines = LINES.split("  %k")[1 : count + 1]
    results = ", ".join(f"%b{i}" for i in range(count)) or "%x0"
    text = f"graph(%x0 : Float(4), %x1 : Float(4), %x2 : Float(4)):\n{''.join('  %k' + line for line in lines)}  return ({results})"
    assert said in irs.dedup(irs.fuse(irs.parse(text))).note


@pytest.mark.parametrize("unit", ["auto", "groups", "regions", "scopes"])
@pytest.mark.parametrize("text", [
    "graph():\n  return ()", "graph(%x : Tensor):\n  return (%x)",
    "graph(%x : Float(*)):\n  %y : Float(*) = aten::neg(%x)\n  return (%y)",
])  # fmt: skip
def test_a_program_without_pieces_answers_all_questions(unit: Any, text: str) -> None:
    d = irs.dedup(irs.parse(text), unit=unit)
    assert all(d.ladder()["classes"] == len(d)) and len(d.table()) == len(d) and d.recommend().choices == ()
    made = d.apply(d.recommend())
    assert str(made if isinstance(made, irs.Graph) else made.graphs["graph"]) == str(irs.parse(text))
    assert all(len(d.holes(cls)) == 0 for cls in d)


# --- Which pieces merge and which one difference keeps apart.

FLOAT23 = TensorType("float32", (2, 3), (3, 1))


def same(a: Graph, b: Graph, relation: Any) -> bool:
    return len(dedup(Module({"a": a, "b": b}), relation=relation).classes) == 1


SCALED = ir("x y | k = 0.5; a = mul x k; b = mul a y | b", "Float(2, 3, strides=[3, 1])")


@pytest.mark.parametrize(("ours", "theirs"), [
    ("0.5", "0.25"), ("0.5", "0.5000000000001"), ("Float", "Double"), ("3, strides=[3, 1]", "4, strides=[4, 1]"), ("[3, 1]", "[1, 2]"),
    ("1])", "1], device=cuda:0)"), (", strides=[3, 1]", ""), ("%x :", "%more : Tensor, %x :"), ("(%b)", "(%b, %b)"), ("%a, %y", "%y, %a"),
])  # fmt: skip
def test_one_difference_keeps_pieces_apart_by_alpha_and_is_named(ours: str, theirs: str) -> None:
    d = dedup(Module({"a": irs.parse(SCALED), "b": irs.parse(SCALED.replace(ours, theirs))}))
    assert len(d.classes) == 2
    verdict = d.difference("a", "b")
    assert not verdict and verdict.witness


@pytest.mark.parametrize(("last", "told"), [
    ("f = pow e k @ net.1", "the same by relation 'dtype'"),
    ("f = pow e l @ net.1", "built differently: 'exponent' of aten::pow: 0.5 against 1.5"),
    ("g = pow e k @ net.1; f = mul g k @ net.1", "only the right one goes on, with aten::mul"),
])  # fmt: skip
def test_modules_are_compared_by_what_is_in_them_alone(last: str, told: str) -> None:
    """Ops of the model between two modules are in neither; a number that decides what is computed is named, hole or not."""
    ops = "k = 0.5; l = 1.5; a = tanh x @ net.0; b = pow a k @ net.0; c = relu b; d = exp c; e = tanh d @ net.1"
    d = dedup(irs.parse(ir(f"x | {ops}; {last} | f", "Float(4)")), unit="scopes", relation="dtype")
    assert told in str(d.why_not("net.0", "net.1"))


def test_a_value_moved_to_another_block_of_the_same_size_is_a_difference() -> None:
    def program(first: int) -> Graph:
        b = GraphBuilder()
        x, c = b.input("x"), b.input("c")
        with b.block() as one:
            values = [b.op("aten::relu", x) for _ in range(first)]
            one.returns(values[-1:] or [x])
        with b.block() as two:
            values = [b.op("aten::relu", x) for _ in range(2 - first)]
            two.returns(values[-1:] or [x])
        return b.finish(b.node("prim::If", (c,), (x.type,), (one, two)))

    assert not same(program(0), program(1), "alpha") and not same(program(1), program(2), "alpha")


def test_groups_of_a_graph_are_its_pieces() -> None:
    graph = parsed(
        'x y | a = FusionGroup[kind="pointwise"] x {p | q = relu p; r = exp q | r}; b = FusionGroup[kind="pointwise"] y {s | t = relu s; '
        'u = exp t | u}; c = FusionGroup[kind="pointwise"] b {v | w = relu v; z = tanh w | z} | a c'
    )
    d = dedup(graph)
    assert [len(cls) for cls in d.classes] == [2, 1]
    assert d.class_of("a") is d.class_of("b") is d.class_of("r") and d.difference("a", "b")
    assert "aten::exp" in d.difference("b", "c").because and "aten::tanh" in str(d.difference("b", "c"))
    assert d.table()["members"].tolist() == [2, 1] and d.ladder()["classes"].tolist() == [3, *[2] * 9]
    with pytest.raises(UnknownName):
        d.class_of("x")


def test_deeply_nested_blocks_need_no_recursion() -> None:
    def program(op: str) -> Graph:
        x, c = Value(new_id(), FLOAT23), Value(new_id(), BOOL)
        inner = Value(new_id(), FLOAT23)
        block = Block(new_id(), (), (Node(new_id(), op, (x,), (inner,)),), (inner,))
        for _ in range(1500):
            result = Value(new_id(), FLOAT23)
            node = Node(new_id(), "prim::If", (c,), (result,), blocks=(block, Block(new_id(), (), (), (x,))))
            block = Block(new_id(), (), (node,), (result,))
        return Graph(Block(new_id(), (x, c), block.nodes, block.returns))

    for relation in ("alpha", "order", "extents"):
        assert same(program("aten::relu"), program("aten::relu"), relation)
        assert not same(program("aten::relu"), program("aten::exp"), relation)


def test_a_promise_of_the_caller_is_part_of_the_piece() -> None:
    graph = irs.parse(SCALED)
    assert not same(graph, replace(graph, distinct_inputs=True), "alpha")
