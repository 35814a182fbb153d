"""What random programs do in torch was foreseen, and nowhere is more given up than by torch's own alias db where that is right."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from irscope._base.nested import by_storage  # noqa: E402
from irscope.analysis.alias.alias_db import AliasDb  # noqa: E402
from irscope.analysis.dependence import dependences_by  # noqa: E402
from irscope.ir.core import Block, Graph, Node, Value  # noqa: E402
from irscope.ir.invariants import verify  # noqa: E402
from irscope.ir.text.parser import parse  # noqa: E402
from tests.analysis.alias.eager import Trace, parts, run  # noqa: E402
from tests.analysis.alias.torch_holes import as_torch_reads  # noqa: E402
from tests.random_programs.graphs import FEATURES, random_program  # noqa: E402
from tests.random_programs.odd_graphs import odd_program  # noqa: E402

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


def odd_arguments(seed: int) -> list[Any]:
    """Arguments for `INPUTS`, some of them the same memory."""
    rng = random.Random(seed)
    values = torch.rand(5, 2, 2, generator=torch.Generator().manual_seed(seed))
    tensors = [value.clone() for value in values]
    if rng.random() < 0.5:
        tensors[1] = tensors[0].t()
    if rng.random() < 0.5:
        tensors[2] = tensors[rng.randrange(2)]
    some = [tensors[2], tensors[3], tensors[3]]
    named = {"k": tensors[rng.randrange(5)], "o": tensors[4]}
    nested = [some if rng.random() < 0.5 else [tensors[4], tensors[0]], [tensors[1]] * 3]
    pair = (tensors[rng.randrange(5)], tensors[rng.randrange(5)])
    return [tensors[0], tensors[1], some, named, nested, pair, rng.random() < 0.5, rng.randrange(4)]


def odd_outcome(results: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """All numbers that can be reached from the results and the arguments, in order."""
    found = [part for thing in (*results, *given) for part in parts(thing)]
    return [part.tolist() if isinstance(part, torch.Tensor) else part for part in found if not isinstance(part, list | tuple | dict)]


def check_odd(seed: int, size: int) -> str:
    """How far the program got: "stopped", "ran" or "ran in another order"."""
    rng = random.Random(seed)
    graph = parse(odd_program(seed, size))
    verify(graph)
    db = AliasDb(graph)
    trace = run(graph, odd_arguments(seed), trace=True, stops=True)
    check_foreseen(graph, db, trace)
    if trace.error is not None:
        return "stopped"
    given = odd_arguments(seed)
    wanted = repr(odd_outcome(run(graph, given).results, given))
    order: dict[Block, Sequence[Node]] = {block: reordered(block, db, rng) for block in graph.blocks()}
    given = odd_arguments(seed)
    found = repr(odd_outcome(run(graph, given, order=order).results, given))
    assert found == wanted, f"another order of\n{graph}"
    return "ran" if all(list(block.nodes) == order[block] for block in graph.blocks()) else "ran in another order"


def test_what_odd_programs_do_was_foreseen() -> None:
    found = Counter(check_odd(seed, size=4 + seed % 14) for seed in range(60))
    assert found["ran in another order"] > 25


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 11000, 500))
def test_what_many_odd_programs_do_was_foreseen(first: int) -> None:
    for seed in range(first, first + 500):
        check_odd(seed, size=4 + seed % 26)


def ours(block: Block) -> Iterator[Value]:
    yield from block.params
    for node in block.nodes:
        yield from node.outputs
        for inner in node.blocks:
            yield from ours(inner)


def theirs(block: Any) -> Iterator[Any]:
    yield from block.inputs()
    for node in block.nodes():
        yield from node.outputs()
        for inner in node.blocks():
            yield from theirs(inner)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_no_answer_is_less_precise_than_torchs(first: int) -> None:
    sharper = 0
    for seed in range(first, first + 20):
        text = random_program(seed, size=5 + seed % 15, features=FEATURES - {"loop"}).text
        graph, torch_graph = parse(text), torch._C.parse_ir(text)
        db, torch_db = AliasDb(graph), torch_graph.alias_db()
        pairs = list(zip(ours(graph.body), theirs(torch_graph), strict=True))
        for index, (a, torch_a) in enumerate(pairs):
            assert not db.has_writers(a) or torch_db.has_writers(torch_a), f"writers of {a!r} in\n{text}"
            for b, torch_b in pairs[index:]:
                if not (db.locations(a) and db.locations(b)):
                    continue  # numbers
                may = torch_db.may_contain_alias(torch_a, torch_b)
                assert not db.may_contain_alias(a, b) or may, f"{a!r} and {b!r} in\n{text}"
                sharper += may and not db.may_contain_alias(a, b)
    assert sharper > 100


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_with_loops_no_answer_is_less_precise_without_a_reason(first: int) -> None:
    wrong = 0
    for seed in range(first, first + 20):
        text = random_program(seed, size=5 + seed % 15, features=FEATURES).text
        graph, torch_graph = parse(text), torch._C.parse_ir(text)
        db, with_holes, torch_db = AliasDb(graph), AliasDb(as_torch_reads(graph)), torch_graph.alias_db()
        pairs = list(zip(ours(graph.body), theirs(torch_graph), strict=True))
        memory = [(a, torch_a) for a, torch_a in pairs if db.locations(a)]
        for index, (a, torch_a) in enumerate(memory):
            if db.has_writers(a) and not torch_db.has_writers(torch_a):
                assert not with_holes.has_writers(a), f"writers of {a!r} in\n{text}"
            for b, torch_b in memory[index:]:
                if db.may_contain_alias(a, b) and not torch_db.may_contain_alias(torch_a, torch_b):
                    assert not with_holes.may_contain_alias(a, b), f"{a!r} and {b!r} in\n{text}"
                    wrong += 1
    assert wrong > 10


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.register_buffer("rows", self.first.weight.detach()[1:])
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: Any) -> Any:
        self.count.add_(x[0])
        return self.second(self.first(x)) + self.rows.sum() + self.count


def test_parameters_of_other_storages_are_not_aliases_and_a_slice_of_one_is() -> None:
    graph = irs.load(Tied(), torch.ones(4, 4))
    db = irs.AliasDb(graph)
    bound = {str(value.name): value for value in graph.bound}
    assert db.alias_set(bound["count"])[0] is bound["count"]
    assert bound["first.bias"] not in db.alias_set(bound["count"])
    tied = db.may_alias(bound["first.weight"], bound["rows"])
    assert tied
    assert "are tied: both lie in one storage" in tied.because
    apart = db.may_alias(bound["first.weight"], "x")
    assert not apart
    assert apart.because == "they are different memory: %first.weight is a parameter, %x is an argument"
    assert db.may_alias_wildcard(bound["first.weight"])  # the caller has the model
    assert db.has_writers(bound["count"])
    assert not db.has_writers("x")


def test_without_the_assumption_an_argument_may_be_any_parameter() -> None:
    graph = replace(irs.load(Tied(), torch.ones(4, 4)), storages={})
    db = irs.AliasDb(graph)
    assert db.has_writers("x")
    assert all(db.may_alias("x", value) for value in graph.bound)


def test_what_cannot_be_inspected_may_be_a_parameter() -> None:
    text = """graph(%w : Tensor, %x : Tensor, %xs : Tensor[], %any : Any, %task : Future[Tensor]):
      %y : Tensor = aten::wait(%task)
      %p : Tensor = prim::Unseen(%x)
      %r : Tensor = aten::relu_(%w)
      return (%y, %p, %r)"""
    graph = parse(text)
    w = torch.ones(3)
    bound = replace(graph, bound={graph.value("w"): w}, storages={graph.value("w"): 0})
    db = AliasDb(bound)
    for outside in ("any", "y", "p"):
        assert db.may_contain_alias("w", outside), outside
    assert not db.may_alias("w", "x")
    assert db.may_contain_alias("x", "xs")
    assert db.may_contain_alias("x", "any")


def test_lists_of_arguments_hold_no_parameters() -> None:
    graph = parse("""graph(%w : Tensor, %x : Tensor, %xs : (Tensor, Dict(str, Tensor[]))):
      %r : Tensor = aten::relu_(%w)
      return (%r)""")
    db = AliasDb(replace(graph, bound={graph.value("w"): torch.ones(3)}, storages={graph.value("w"): 0}))
    assert not db.may_contain_alias("w", "xs")
    assert db.may_contain_alias("x", "xs")


def apart(thing: Any, held: set[int]) -> Any:
    """The thing with copies of what lies in some storages."""
    if isinstance(thing, list):
        return [apart(item, held) for item in thing]
    is_held = isinstance(thing, torch.Tensor) and thing.untyped_storage().data_ptr() in held
    return thing.clone() if is_held else thing


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_over_parameters(seed: int) -> None:
    """Some of the tensors of a program are parameters, some of these tied: whatever is shared and written was foreseen."""
    draw = random.Random(seed)
    program = random_program(seed, size=12)
    graph, given = parse(program.text), arguments(program)
    tensors = [place for place, thing in enumerate(given) if isinstance(thing, torch.Tensor)]
    held = draw.sample(tensors, draw.randrange(len(tensors) + 1))
    for place in held:
        same = [other for other in held if given[other].shape == given[place].shape]
        if draw.random() < 0.4:
            given[place] = given[draw.choice(same)]
    memory = {given[place].untyped_storage().data_ptr() for place in held}
    given = [thing if place in held else apart(thing, memory) for place, thing in enumerate(given)]
    bound = {graph.inputs[place]: given[place] for place in held}
    known: Graph = replace(graph, bound=bound, storages=by_storage(bound))
    check_foreseen(known, AliasDb(known), run(known, given, trace=True))
