"""Which pieces merge and which one difference keeps apart."""

from dataclasses import replace
from typing import Any

import pytest

import irscope as irs
from irscope.errors import UnknownName
from irscope.ir import BOOL, Block, Graph, GraphBuilder, Module, Node, TensorType, Value, new_id
from irscope.transforms.dedup import dedup
from tests.programs import ir, parsed

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
        return b.finish(b.structured("prim::If", (c,), (x.type,), (one, two)))

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
