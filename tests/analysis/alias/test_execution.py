"""What happens when random programs run in torch was foreseen: every sharing, every write, every order that matters.

Three hundred programs are in the suite. The long run, twenty thousand and more:

    python -m pytest tests/analysis/alias/test_execution.py -m long
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from irscope.analysis.alias.query.alias_db import AliasDb  # noqa: E402
from irscope.analysis.dependence import dependences_by  # noqa: E402
from irscope.ir.core import Block, Graph, Node, Value  # noqa: E402
from irscope.ir.text.parser import parse  # noqa: E402
from tests.analysis.alias.eager import Trace, run  # noqa: E402
from tests.random_programs.graphs import random_program  # noqa: E402

pytestmark = pytest.mark.torch


def as_torch(thing: Any) -> Any:
    if isinstance(thing, np.ndarray):
        return torch.from_numpy(thing)
    return [as_torch(item) for item in thing] if isinstance(thing, list) else thing


def arguments(program: Any) -> list[Any]:
    return [as_torch(thing) for thing in program.fresh()]


def check_foreseen(graph: Graph, db: AliasDb, trace: Trace) -> None:
    values = list(trace.reached)
    for index, a in enumerate(values):
        for b in values[index + 1 :]:
            if trace.memories[a] & trace.memories[b]:
                assert db.may_alias(a, b), f"{a!r} and {b!r} were the same memory in\n{graph}"
            if trace.reached[a] & trace.reached[b]:
                assert db.may_contain_alias(a, b), f"{a!r} and {b!r} shared memory in\n{graph}"
    for node, written in trace.writes.items():
        for value in values:
            if trace.memories[value] & written:
                assert db.has_writers(value), f"{node!r} wrote {value!r} in\n{graph}"
                assert node in db.writers(value), f"{node!r} wrote {value!r}, as a writer unknown, in\n{graph}"
                assert db.writes_to(node, value), f"{node!r} wrote {value!r} in\n{graph}"


def check_reasons(db: AliasDb, values: Sequence[Value], rng: random.Random) -> None:
    """Every answer can be explained, and names what was asked about."""
    for _ in range(5):
        a, b = rng.choice(values), rng.choice(values)
        verdict = db.may_contain_alias(a, b)
        assert verdict.because
        assert a is b or {a, b} & set(verdict.witness)


def outcome(graph: Graph, program: Any, order: dict[Block, Sequence[Node]] | None = None) -> list[Any]:
    given = arguments(program)
    results = run(graph, given, order=order or {}).results
    return flat([*results, *given])


def flat(thing: Any) -> list[Any]:
    if isinstance(thing, torch.Tensor):
        return [thing.tolist()]
    if isinstance(thing, list | tuple):
        return [part for item in thing for part in flat(item)]
    return [part for item in thing.values() for part in flat(item)] if isinstance(thing, dict) else [thing]


def reordered(block: Block, db: AliasDb, rng: random.Random) -> list[Node]:
    """The block's nodes in a random order that keeps all dependences."""
    ties = dependences_by(db, block)
    waiting = {node: len(ties.predecessors[node]) for node in block.nodes}
    ready = [node for node in block.nodes if not waiting[node]]
    order = []
    while ready:
        node = ready.pop(rng.randrange(len(ready)))
        order.append(node)
        for later in ties.successors[node]:
            waiting[later] -= 1
            if not waiting[later]:
                ready.append(later)
    assert len(order) == len(block.nodes)
    return order


def moved(block: Block, node: Node, point: Node, along: Sequence[Node], *, before: bool) -> list[Node]:
    """The block after a granted move: `node` next to `point`, its company on the other side of the point or of the
    node."""
    nodes = list(block.nodes)
    start, end = nodes.index(node), nodes.index(point)
    company = [other for other in nodes if other in along]
    rest = [other for other in nodes if other is not node and other not in along]
    at = rest.index(point)
    if start < end:  # the company followed the node, and stays behind it
        new = [node, point, *company] if before else [point, node, *company]
    else:
        new = [*company, node, point] if before else [*company, point, node]
    return [*rest[:at], *new, *rest[at + 1 :]]


def check_moves(graph: Graph, db: AliasDb, program: Any, rng: random.Random) -> None:
    expected = outcome(graph, program)
    blocks = [block for block in graph.blocks() if len(block.nodes) > 2]
    for _ in range(6):
        if not blocks:
            break
        block = rng.choice(blocks)
        node, point = rng.sample(block.nodes, 2)
        before = rng.random() < 0.5
        verdict = db.can_move_before(node, point) if before else db.can_move_after(node, point)
        assert verdict.because
        adjacent = abs(block.nodes.index(node) - block.nodes.index(point)) == 1
        if verdict and not (adjacent and verdict.witness == (node,) and "already" in verdict.because):
            order = moved(block, node, point, verdict.witness[1:], before=before)
            index = order.index(node)
            assert order[index + 1 if before else index - 1] is point
            assert outcome(graph, program, {block: order}) == expected, f"{node!r} to {point!r} in\n{graph}"


def check(seed: int, size: int) -> None:
    rng = random.Random(seed)
    program = random_program(seed, size=size)
    graph = parse(program.text)
    db = AliasDb(graph)
    trace = run(graph, arguments(program), trace=True)
    check_foreseen(graph, db, trace)
    check_reasons(db, list(trace.reached), rng)
    check_moves(graph, db, program, rng)
    order: dict[Block, Sequence[Node]] = {block: reordered(block, db, rng) for block in graph.blocks()}
    assert outcome(graph, program, order) == outcome(graph, program), f"another order of\n{graph}"


@pytest.mark.parametrize("first", range(0, 300, 25))
def test_what_happens_was_foreseen(first: int) -> None:
    for seed in range(first, first + 25):
        check(seed, size=4 + seed % 16)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 21000, 500))
def test_what_happens_was_foreseen_in_many_programs(first: int) -> None:
    for seed in range(first, first + 500):
        check(seed, size=4 + seed % 30)
