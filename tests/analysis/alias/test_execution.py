"""What random programs do in torch was foreseen, and nowhere is more given up than by torch's own alias db where that is right."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.programs import ir, parsed

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from irscope._base.nested import by_storage  # noqa: E402
from irscope.analysis.alias.alias_db import AliasDb  # noqa: E402
from irscope.ir import Graph  # noqa: E402
from irscope.ir.invariants import verify  # noqa: E402
from irscope.ir.text.parser import parse  # noqa: E402
from tests.analysis.alias.eager import run  # noqa: E402
from tests.analysis.alias.judge import arguments, check_foreseen, check_orders, compared  # noqa: E402
from tests.random_programs.graphs import FEATURES, random_program  # noqa: E402
from tests.random_programs.odd_graphs import odd_program  # noqa: E402
from tests.work import blocks, long, some  # noqa: E402


def check(seed: int, size: int) -> None:
    rng = random.Random(seed)
    program = random_program(seed, size=size)
    graph = parse(program.text)
    db = AliasDb(graph)
    trace = run(graph, arguments(program), trace=True)
    check_foreseen(graph, db, trace)
    for _ in range(5):  # every answer can be explained, and names what was asked about
        a, b = rng.choice(list(trace.reached)), rng.choice(list(trace.reached))
        verdict = db.may_contain_alias(a, b)
        assert verdict.because and (a is b or {a, b} & set(verdict.witness))
    check_orders(graph, db, lambda: arguments(program), rng)


@pytest.mark.parametrize("seeds", [*some(blocks(0, 12, 25), 4), *long(blocks(1000, 40, 500))], ids=str)
def test_what_happens_was_foreseen(seeds: range) -> None:
    for seed in seeds:
        check(seed, size=4 + seed % (16 if seed < 1000 else 30))


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


def check_odd(seed: int, size: int) -> str:
    """How far the program got: "stopped", "ran" or "ran in another order"."""
    graph = parse(odd_program(seed, size))
    verify(graph)
    db = AliasDb(graph)
    trace = run(graph, odd_arguments(seed), trace=True, stops=True)
    check_foreseen(graph, db, trace)
    if trace.error is not None:
        return "stopped"
    return "ran in another order" if check_orders(graph, db, lambda: odd_arguments(seed), random.Random(seed)) else "ran"


@pytest.mark.parametrize("seeds", [*some(blocks(0, 3, 20), 1), *long(blocks(1000, 20, 500))], ids=str)
def test_what_odd_programs_do_was_foreseen(seeds: range) -> None:
    found = Counter(check_odd(seed, size=4 + seed % (14 if seed < 1000 else 26)) for seed in seeds)
    assert found["ran in another order"] > 8


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_no_answer_is_less_precise_than_torchs_without_a_reason(first: int, loops: bool) -> None:
    """The only reason in random programs is that torch takes a loop to run just once."""
    found: Counter[str] = Counter()
    for seed in range(first, first + 20):
        program = random_program(seed, size=5 + seed % 15, features=FEATURES if loops else FEATURES - {"loop"})
        answers = compared(torch._C.parse_ir(program.text))
        assert not answers.unexplained
        found += answers.pairs
        found["torch is wrong"] += answers.writers["torch is wrong"]
    assert found["more precise"] > 100
    assert found["torch is wrong"] > 10 if loops else not found["torch is wrong"]


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
    assert tied and "are tied: both lie in one storage" in tied.because
    apart = db.may_alias(bound["first.weight"], "x")
    assert not apart
    assert apart.because == "they are different memory: %first.weight is a parameter, %x is an argument"
    assert db.may_alias_wildcard(bound["first.weight"])  # the caller has the model
    assert db.has_writers(bound["count"]) and not db.has_writers("x")


def test_without_the_assumption_an_argument_may_be_any_parameter() -> None:
    graph = replace(irs.load(Tied(), torch.ones(4, 4)), storages={})
    db = irs.AliasDb(graph)
    assert db.has_writers("x") and all(db.may_alias("x", value) for value in graph.bound)


def test_what_cannot_be_inspected_may_be_a_parameter() -> None:
    text = ir("w x xs:Tensor[] any:Any task:Future[Tensor] | y = wait task; p = Unseen x; r = relu_ w | y p r")
    graph = parse(text)
    w = torch.ones(3)
    bound = replace(graph, bound={graph.value("w"): w}, storages={graph.value("w"): 0})
    db = AliasDb(bound)
    for outside in ("any", "y", "p"):
        assert db.may_contain_alias("w", outside), outside
    assert not db.may_alias("w", "x") and db.may_contain_alias("x", "xs") and db.may_contain_alias("x", "any")


def test_lists_of_arguments_hold_no_parameters() -> None:
    graph = parsed("w x xs:(Tensor, Dict(str, Tensor[])) | r = relu_ w | r")
    db = AliasDb(replace(graph, bound={graph.value("w"): torch.ones(3)}, storages={graph.value("w"): 0}))
    assert not db.may_contain_alias("w", "xs") and db.may_contain_alias("x", "xs")


def apart(thing: Any, held: set[int]) -> Any:
    """The thing with copies of what lies in some storages."""
    if isinstance(thing, list):
        return [apart(item, held) for item in thing]
    is_held = isinstance(thing, torch.Tensor) and thing.untyped_storage().data_ptr() in held
    return thing.clone() if is_held else thing


@pytest.mark.parametrize("seed", some(range(30), 12))
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
