"""What is known of parameters: two of other storages are no aliases, tied ones are, arguments are none of them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from irscope._base.storages import by_storage  # noqa: E402
from irscope.analysis.alias.query.alias_db import AliasDb  # noqa: E402
from irscope.ir.core import Graph  # noqa: E402
from irscope.ir.text.parser import parse  # noqa: E402
from tests.analysis.alias.eager import run  # noqa: E402
from tests.analysis.alias.test_execution import arguments, check_foreseen  # noqa: E402
from tests.random_programs.graphs import random_program  # noqa: E402

pytestmark = pytest.mark.torch


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.register_buffer("rows", self.first.weight.detach()[1:])
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: Any) -> Any:
        self.count.add_(x[0])
        return self.second(self.first(x)) + self.rows.sum() + self.count


def test_parameters_of_other_storages_are_no_aliases_and_a_slice_of_one_is() -> None:
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


def test_what_nobody_can_look_into_may_be_a_parameter() -> None:
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
