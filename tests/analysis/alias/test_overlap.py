"""Parts of one buffer: which bytes two values cover decides whether they may overlap, and in which order writes must stay."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from irscope.analysis.alias.alias_db import AliasDb  # noqa: E402
from irscope.analysis.dependence import dependences  # noqa: E402
from irscope.ir.core import Graph, Value  # noqa: E402
from irscope.ir.types import TensorType  # noqa: E402
from tests.analysis.alias.eager import run  # noqa: E402
from tests.analysis.alias.test_execution import arguments, flat, moved, reordered  # noqa: E402
from tests.random_programs.graphs import random_program  # noqa: E402

pytestmark = pytest.mark.torch

SLICES = """graph(%x : Float(4, 8, strides=[8, 1])):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %4 : int = prim::Constant[value=4]()
  %8 : int = prim::Constant[value=8]()
  %z : Float(4, 8, strides=[8, 1]) = aten::exp(%x)
  %left : Float(4, 2, strides=[8, 1]) = aten::slice(%z, %1, %0, %2, %1)
  %a : Tensor = aten::sigmoid_(%left)
  %middle : Float(4, 2, strides=[8, 1]) = aten::slice(%z, %1, %2, %4, %1)
  %b : Tensor = aten::exp_(%middle)
  %right : Float(4, 4, strides=[8, 1]) = aten::slice(%z, %1, %4, %8, %1)
  %c : Tensor = aten::neg_(%right)
  %sum : Float(4, 8, strides=[8, 1]) = aten::add(%z, %x, %1)
  return (%sum)"""


def test_three_heads_that_write_their_own_columns_are_in_no_order() -> None:
    graph = irs.parse(SLICES)
    db = AliasDb(graph)
    assert db.may_alias("left", "middle")
    verdict = db.may_overlap("left", "middle")
    assert not verdict
    assert verdict.witness[:2] == (graph.value("left"), graph.value("middle"))
    assert [str(part) for part in verdict.witness[2:]] == [
        "8 bytes every 32, 4 times, from byte 0",
        "8 bytes every 32, 4 times, from byte 8",
    ]
    assert db.may_overlap("left", "z")
    ties = dependences(graph, graph.body)
    a, b, c, total = (graph.node(name) for name in ("a", "b", "c", "sum"))
    assert not ties.reason(a, b)
    assert not ties.reason(b, c)
    assert {tie.node for tie in ties.predecessors[total]} >= {a, b, c}
    assert db.can_move_before(c, a)
    assert not db.can_move_before(total, c)


def test_columns_that_meet_stay_in_order() -> None:
    graph = irs.parse(SLICES.replace("aten::slice(%z, %1, %2, %4, %1)", "aten::slice(%z, %1, %1, %4, %1)").replace(
        "%middle : Float(4, 2,", "%middle : Float(4, 3,"
    ))  # fmt: skip
    db = AliasDb(graph)
    assert db.may_overlap("left", "middle")
    ties = dependences(graph, graph.body)
    assert ties.reason(graph.node("a"), graph.node("b"))
    assert not ties.reason(graph.node("b"), graph.node("c"))


def writes_into_slices(seed: int) -> Graph:
    """A program of views of one buffer, of ops that write through them, and of ops that read through them."""
    draw = random.Random(seed)
    numbers = {number: f"%n{number}" for number in range(9)}
    lines = [f"  {name} : int = prim::Constant[value={number}]()" for number, name in numbers.items()]
    lines.append("  %z : Float(6, 8, strides=[8, 1]) = aten::tanh(%x)")
    views = [("%z", (6, 8))]
    if draw.random() < 0.3:
        views.append(("%x", (6, 8)))
    results = []
    for made in range(14):
        name, shape = draw.choice(views)
        dim = draw.randrange(len(shape)) if shape else 0
        kind = draw.random()
        if kind < 0.45 and shape:
            start = draw.randrange(shape[dim])
            end, step = draw.randrange(start, shape[dim]) + 1, draw.choice((1, 1, 2))
            lines.append(f"  %v{made} : Tensor = aten::slice({name}, {numbers[dim]}, {numbers[start]}, {numbers[end]}, {numbers[step]})")
            views.append((f"%v{made}", (*shape[:dim], -(-(end - start) // step), *shape[dim + 1 :])))
        elif kind < 0.55 and shape:
            lines.append(f"  %v{made} : Tensor = aten::select({name}, {numbers[dim]}, {numbers[draw.randrange(shape[dim])]})")
            views.append((f"%v{made}", (*shape[:dim], *shape[dim + 1 :])))
        elif kind < 0.85:
            other = draw.choice([view for view, sizes in views if sizes == shape])
            lines.append(f"  %c{made} : Tensor = aten::cos({other})")  # torch refuses operands that overlap in part
            op = draw.choice((f"mul_({name}, %c{made})", f"add_({name}, %c{made}, {numbers[2]})", f"neg_({name})"))
            lines.append(f"  %v{made} : Tensor = aten::{op}")
        else:
            lines.append(f"  %v{made} : Tensor = aten::neg({name})")
            results.append(f"%v{made}")
    text = "graph(%x : Tensor):\n" + "\n".join(lines) + f"\n  return ({', '.join(['%z', *results])})"
    return irs.load(text, torch.zeros(6, 8))


def check_orders(graph: Graph, given: Any, draw: random.Random) -> None:
    db = AliasDb(graph)
    expected = repr(outcome(graph, given()))
    for _ in range(3):
        order = {block: reordered(block, db, draw) for block in graph.blocks()}
        assert repr(outcome(graph, given(), order)) == expected, f"another order of\n{graph}"
    for _ in range(8):
        block = draw.choice([block for block in graph.blocks() if len(block.nodes) > 2] or [graph.body])
        if len(block.nodes) < 3:
            return
        node, point = draw.sample(block.nodes, 2)
        before = draw.random() < 0.5
        verdict = db.can_move_before(node, point) if before else db.can_move_after(node, point)
        if verdict and "already" not in verdict.because:
            changed = moved(block, node, point, verdict.witness[1:], before=before)
            assert repr(outcome(graph, given(), {block: changed})) == expected, f"{node!r} to {point!r} in\n{graph}"


def outcome(graph: Graph, given: list[Any], order: Any = None) -> list[Any]:
    results = run(graph, given, order=order or {}).results
    return flat([*results, *given])


def check_slices(seed: int) -> int:
    graph = writes_into_slices(seed)
    torch.manual_seed(seed)
    x = torch.rand(6, 8)
    check_orders(graph, lambda: [x.clone()], random.Random(seed))
    db = AliasDb(graph)
    return sum(
        1
        for a in graph.values()
        for b in graph.values()
        if a.id < b.id and is_tensor(a) and is_tensor(b) and db.may_alias(a, b) and not db.may_overlap(a, b)
    )


def is_tensor(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def test_any_order_within_the_dependences_computes_the_same() -> None:
    apart = sum(check_slices(seed) for seed in range(60))
    assert apart > 200  # or nothing was told apart


def test_random_programs_of_known_shapes_in_other_orders() -> None:
    for seed in range(40):
        program = random_program(seed, size=16)
        graph = irs.load(program.text, *arguments(program))
        check_orders(graph, lambda program=program: arguments(program), random.Random(seed))


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 6000, 250))
def test_any_order_within_the_dependences_computes_the_same_in_many_programs(first: int) -> None:
    for seed in range(first, first + 250):
        check_slices(seed)
        program = random_program(seed, size=20)
        graph = irs.load(program.text, *arguments(program))
        check_orders(graph, lambda program=program: arguments(program), random.Random(seed))
