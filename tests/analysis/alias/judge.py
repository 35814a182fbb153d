"""The judge of an alias db: runs of the program with all memory observed, runs in other orders, and torch's own db.

Where we say "may" and torch denies it, torch is wrong if our own analysis denies it too once it reads the program with torch's
omissions (`torch_holes`), or one of the two is a module: torch asks its class for the attributes, which a graph's text does not list.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

import torch

from irscope.analysis.alias.alias_db import AliasDb
from irscope.analysis.dependence import dependences_by
from irscope.ir import Block, ClassType, Graph, Node, Value
from irscope.ir.text.parser import parse
from tests.analysis.alias.eager import Trace, run
from tests.analysis.alias.torch_holes import as_torch_reads
from tests.analysis.ties import successors
from tests.transforms.fusion.judges import as_torch


def arguments(program: Any) -> list[Any]:
    """New arguments of a random program, as torch's tensors."""
    found: list[Any] = as_torch(program.fresh())
    return found


def flat(thing: Any) -> list[Any]:
    """All numbers in a thing, in order."""
    if isinstance(thing, torch.Tensor):
        return [thing.tolist()]
    if isinstance(thing, list | tuple):
        return [part for item in thing for part in flat(item)]
    return [part for item in thing.values() for part in flat(item)] if isinstance(thing, dict) else [thing]


# What happens in a run was foreseen.


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


# What may be in another order computes the same in that order.


def check_orders(graph: Graph, db: AliasDb, given: Callable[[], list[Any]], rng: random.Random, *, orders: int = 1) -> bool:
    """Run a program in random orders within all dependences, and after granted moves; returns whether any order was another."""
    expected, changed = _outcome(graph, given()), False
    for _ in range(orders):
        order = {block: _reordered(block, db, rng) for block in graph.blocks()}
        changed |= any(list(block.nodes) != nodes for block, nodes in order.items())
        assert _outcome(graph, given(), order) == expected, f"another order of\n{graph}"
    blocks = [block for block in graph.blocks() if len(block.nodes) > 2]
    for _ in range(8 if blocks else 0):
        block = rng.choice(blocks)
        node, point = rng.sample(block.nodes, 2)
        before = rng.random() < 0.5
        verdict = db.can_move_before(node, point) if before else db.can_move_after(node, point)
        assert verdict.because
        if verdict and "already" not in verdict.because:
            moved = _moved(block, node, point, verdict.witness[1:], before=before)
            assert moved[moved.index(node) + (1 if before else -1)] is point
            assert _outcome(graph, given(), {block: moved}) == expected, f"{node!r} to {point!r} in\n{graph}"
    return changed


def _outcome(graph: Graph, given: list[Any], order: dict[Block, Sequence[Node]] | None = None) -> str:
    results = run(graph, given, order=order or {}).results
    return repr(flat([*results, *given]))  # in which NaN equals NaN


def _reordered(block: Block, db: AliasDb, rng: random.Random) -> Sequence[Node]:
    """The block's nodes in a random order that keeps all dependences."""
    ties = dependences_by(db, block)
    after = successors(ties)
    waiting = {node: len(ties.predecessors[node]) for node in block.nodes}
    ready = [node for node in block.nodes if not waiting[node]]
    order = []
    while ready:
        node = ready.pop(rng.randrange(len(ready)))
        order.append(node)
        for later in after[node]:
            waiting[later] -= 1
            if not waiting[later]:
                ready.append(later)
    assert len(order) == len(block.nodes)
    return order


def _moved(block: Block, node: Node, point: Node, along: Sequence[Node], *, before: bool) -> Sequence[Node]:
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


# Torch's alias db never gives up less without a reason.


def values_of(block: Block) -> Iterator[Value]:
    """The values of a block and of those in it, in textual order."""
    yield from block.params
    for node in block.nodes:
        yield from node.outputs
        for inner in node.blocks:
            yield from values_of(inner)


def torch_values_of(block: Any) -> Iterator[Any]:
    yield from block.inputs()
    for node in block.nodes():
        yield from node.outputs()
        for inner in node.blocks():
            yield from torch_values_of(inner)


def same_in_torch(graph: Graph, torch_graph: Any) -> dict[Value, Any]:
    """Torch's value for each value of the graph that was read from its text."""
    return dict(zip(values_of(graph.body), torch_values_of(torch_graph), strict=True))


@dataclass
class Comparison:
    """How the answers about a program differ from torch's, and the questions where nothing explains it."""

    pairs: Counter[str] = field(default_factory=Counter)
    writers: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)


def compared(torch_graph: Any, pairs: int | None = None) -> Comparison:
    """Ask both about some random pairs of values, or all, and about all writers."""
    graph = parse(str(torch_graph))
    db, torch_db, with_holes = AliasDb(graph), torch_graph.alias_db(), AliasDb(as_torch_reads(graph))
    names = same_in_torch(graph, torch_graph)
    assert all(graph.names[ours] == theirs.debugName() for ours, theirs in names.items())
    memory, found, rng = [value for value in names if db.locations(value)], Comparison(), random.Random(0)
    asked = combinations_with_replacement(memory, 2) if pairs is None else ((rng.choice(memory), rng.choice(memory)) for _ in range(pairs))
    questions = [("may_contain_alias", pair, found.pairs) for pair in asked]
    for question, values, counts in [*questions, *(("has_writers", (value,), found.writers) for value in memory)]:
        ours, theirs = getattr(db, question)(*values), getattr(torch_db, question)(*map(names.__getitem__, values))
        if bool(ours) == theirs:
            kind = "the same"
        elif theirs:
            kind = "more precise"
        elif not getattr(with_holes, question)(*values):
            kind = "torch is wrong"
        elif any(isinstance(value.type, ClassType) for value in values):
            kind = "what modules hold"
        else:
            kind = "less precise"
            found.unexplained.append(f"{question} {values}: {ours}\n{graph}")
        counts[kind] += 1
    return found
