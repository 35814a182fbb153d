"""Which pieces merge and which one difference keeps apart; fingerprints agree with the proof."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irscope as irs
from irscope.errors import ArgumentError, UnknownName
from irscope.ir.builder import GraphBuilder
from irscope.ir.core import Block, Graph, Module, Node, Value, new_id
from irscope.ir.types import BOOL, TensorType
from irscope.transforms.dedup import RELATIONS, Piece, dedup, fingerprint
from irscope.transforms.dedup.form import canonical_form
from irscope.transforms.dedup.matching import match

Line = tuple[str, int, int]
"""An op, and its operands counted over parameters, constants and earlier lines."""

FLOAT23 = TensorType("float32", (2, 3), (3, 1))
BINARY = {"aten::mul": np.multiply, "aten::sub": np.subtract, "aten::add": np.add, "aten::div": np.divide}
LINES = st.lists(st.tuples(st.sampled_from([*BINARY]), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=7)


def piece(lines: Sequence[Line], *, results: Sequence[int] = (-1,), names: str = "", params: int = 2, type: TensorType = FLOAT23) -> Graph:
    b = GraphBuilder()
    values = [b.input(f"{names}p{i}" if names else "", type) for i in range(params)]
    one = b.constant(1)
    for index, (op, x, y) in enumerate(lines):
        operands = [values[x % len(values)], values[y % len(values)]]
        extra = [one] if op in ("aten::add", "aten::sub") else []
        values.append(b.op(op, *operands, *extra, type=type, name=f"{names}v{index}" if names else ""))
    return b.finish([values[r] for r in results])


def run(graph: Graph, *arguments: np.ndarray[Any, Any]) -> list[bytes]:
    """A tiny interpreter of such pieces, to the bit."""
    env: dict[Any, Any] = dict(zip(graph.inputs, arguments, strict=True))
    with np.errstate(all="ignore"):
        for node in graph.nodes():
            if node.op != "prim::Constant":
                env[node.output] = BINARY[node.op](env[node.inputs[0]], env[node.inputs[1]])
    return [env[value].tobytes() for value in graph.outputs]


def as_piece(graph: Graph) -> Piece:
    return Piece("piece", graph.body, graph, {})


def same(a: Graph, b: Graph, relation: Any) -> bool:
    return len(dedup(Module({"a": a, "b": b}), relation=relation).classes) == 1


def reordered(lines: list[Line], rng: random.Random) -> tuple[list[Line], int]:
    """The same computation in another order, operands of commutative ops exchanged at random; where its result went."""
    absolute = [(op, x % (2 + i), y % (2 + i)) for i, (op, x, y) in enumerate(lines)]
    place: dict[int, int] = {0: 0, 1: 1}
    left, out = list(range(len(lines))), list[Line]()
    while left:
        ready = [i for i in left if {absolute[i][1], absolute[i][2]} <= place.keys()]
        chosen = rng.choice(ready)
        left.remove(chosen)
        op, x, y = absolute[chosen]
        if op in ("aten::mul", "aten::add") and rng.random() < 0.5:
            x, y = y, x
        place[2 + chosen] = 2 + len(out)
        out.append((op, place[x], place[y]))
    return out, place[1 + len(lines)]


@settings(max_examples=100, deadline=None)
@given(LINES)
def test_renamed_copies_always_merge(lines: list[Line]) -> None:
    ours, theirs = piece(lines), piece(lines, names="renamed_")
    for relation in ("alpha", "order", "extents"):
        assert same(ours, theirs, relation)
    assert not same(ours, theirs, "text")


@settings(max_examples=100, deadline=None)
@given(LINES, st.randoms(use_true_random=False))
def test_reordered_copies_always_merge_by_order(lines: list[Line], rng: random.Random) -> None:
    moved, last = reordered(lines, rng)
    ours, theirs = piece(lines), piece(moved, results=[last])
    assert same(ours, theirs, "order")
    assert same(ours, theirs, "extents")
    assert run(ours, *operands()) == run(theirs, *operands())


def operands() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((2, 3)).astype(np.float32) for _ in range(2)]


@settings(max_examples=100, deadline=None)
@given(st.lists(LINES, min_size=2, max_size=8))
def test_equal_fingerprints_agree_with_the_bijection_and_relations_are_nested(programs: list[list[Line]]) -> None:
    graphs = [piece(lines) for lines in programs]
    for a, b in combinations(map(as_piece, graphs), 2):
        held = []
        for relation in RELATIONS:
            equal = fingerprint(a, relation) == fingerprint(b, relation)
            assert equal == (match(a, b, relation) is not None)
            assert equal == (canonical_form(a, relation) == canonical_form(b, relation))
            held.append(equal)
        assert all(coarser or not finer for finer, coarser in pairwise(held))
        if held[2]:
            assert run(a.graph, *operands()) == run(b.graph, *operands())


@settings(max_examples=60, deadline=None)
@given(LINES, st.data())
def test_one_changed_op_or_operand_never_merges_by_alpha(lines: list[Line], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    op, x, y = lines[at]
    changed = data.draw(st.sampled_from([
        (next(other for other in BINARY if other != op), x, y),
        (op, (x + 1) % (2 + at), y) if (x + 1) % (2 + at) != x % (2 + at) else ("aten::neg", x, y),
    ]))  # fmt: skip
    assert not same(piece(lines), piece([*lines[:at], changed, *lines[at + 1 :]]), "alpha")


def scaled(constant: Any, type: TensorType = FLOAT23, result: TensorType | None = None) -> Graph:
    b = GraphBuilder()
    x = b.input("x", type)
    return b.finish([b.op("aten::mul", x, b.constant(constant), type=result or type)])


@pytest.mark.parametrize(("ours", "theirs"), [
    (scaled(0.5), scaled(0.25)),
    (scaled(0.0), scaled(-0.0)),
    (scaled(1.0), scaled(1)),
    (scaled(1), scaled(True)),
    (scaled(0.1234567890123), scaled(0.1234567890124)),
    (scaled(0.5), scaled(0.5, TensorType("float64", (2, 3), (3, 1)))),
    (scaled(0.5), scaled(0.5, TensorType("float32", (2, 4), (4, 1)))),
    (scaled(0.5), scaled(0.5, TensorType("float32", (2, 3), (1, 2)))),
    (scaled(0.5), scaled(0.5, TensorType("float32", (2, 3), (3, 1), device="cuda:0"))),
    (scaled(0.5), scaled(0.5, FLOAT23, TensorType("float32"))),
    (piece([("aten::mul", 0, 1)]), piece([("aten::mul", 0, 1)], params=3)),
    (piece([("aten::mul", 0, 1)]), piece([("aten::mul", 0, 1)], results=[-1, -1])),
    (piece([("aten::mul", 0, 1)]), piece([("aten::mul", 1, 0)])),
])  # fmt: skip
def test_one_difference_keeps_pieces_apart_by_alpha_and_is_named(ours: Graph, theirs: Graph) -> None:
    d = dedup(Module({"a": ours, "b": theirs}))
    assert len(d.classes) == 2
    verdict = d.difference("a", "b")
    assert not verdict
    assert verdict.witness


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

    assert not same(program(0), program(1), "alpha")
    assert not same(program(1), program(2), "alpha")


def test_groups_of_a_graph_are_its_pieces() -> None:
    graph = irs.parse("""graph(%x : Tensor, %y : Tensor):
  %a : Tensor = prim::FusionGroup[kind="pointwise"](%x)
    block0(%p : Tensor):
      %q : Tensor = aten::relu(%p)
      %r : Tensor = aten::exp(%q)
      -> (%r)
  %b : Tensor = prim::FusionGroup[kind="pointwise"](%y)
    block0(%s : Tensor):
      %t : Tensor = aten::relu(%s)
      %u : Tensor = aten::exp(%t)
      -> (%u)
  %c : Tensor = prim::FusionGroup[kind="pointwise"](%b)
    block0(%v : Tensor):
      %w : Tensor = aten::relu(%v)
      %z : Tensor = aten::tanh(%w)
      -> (%z)
  return (%a, %c)""")
    d = dedup(graph)
    assert [len(cls) for cls in d.classes] == [2, 1]
    assert d.class_of("a") is d.class_of("b") is d.class_of("r")
    assert d.difference("a", "b")
    assert "aten::exp" in d.difference("b", "c").because
    assert "aten::tanh" in str(d.difference("b", "c"))
    assert d.table()["members"].tolist() == [2, 1]
    assert d.ladder()["classes"].tolist() == [3, *[2] * 9]
    with pytest.raises(UnknownName):
        d.class_of("x")


def test_a_graph_without_groups_is_one_piece_and_says_so() -> None:
    d = dedup(irs.parse("graph(%x : Tensor):\n  return (%x)"))
    assert [cls.members for cls in d.classes] == [("graph",)]
    assert "no fusion groups" in d.note


def test_an_unknown_relation_is_an_error_with_the_choices() -> None:
    with pytest.raises(ArgumentError, match="choose one of text, alpha"):
        dedup(scaled(1.0), relation="bytes")  # type: ignore[arg-type]


def test_blocks_nested_five_thousand_deep_need_no_recursion() -> None:
    def program(op: str) -> Graph:
        x, c = Value(new_id(), FLOAT23), Value(new_id(), BOOL)
        inner = Value(new_id(), FLOAT23)
        block = Block(new_id(), (), (Node(new_id(), op, (x,), (inner,)),), (inner,))
        for _ in range(5000):
            result = Value(new_id(), FLOAT23)
            node = Node(new_id(), "prim::If", (c,), (result,), blocks=(block, Block(new_id(), (), (), (x,))))
            block = Block(new_id(), (), (node,), (result,))
        return Graph(Block(new_id(), (x, c), block.nodes, block.returns))

    for relation in ("alpha", "order", "extents"):
        assert same(program("aten::relu"), program("aten::relu"), relation)
        assert not same(program("aten::relu"), program("aten::exp"), relation)


def test_a_promise_of_the_caller_is_part_of_the_piece() -> None:
    graph = piece([("aten::mul", 0, 1)])
    assert not same(graph, replace(graph, distinct_inputs=True), "alpha")
