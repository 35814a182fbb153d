"""The alias db of the fused graph: it follows, or is rebuilt, and the plan is the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import irscope as irs
from irscope.analysis.alias.query.alias_db import AliasDb
from irscope.errors import ArgumentError
from irscope.ir import Graph
from irscope.transforms.fusion import Fusion, fuse
from irscope.transforms.fusion.fuse_pass import fuse_rebuilding
from tests.random_programs.graphs import random_program
from tests.transforms.fusion.following import check_following
from tests.transforms.fusion.test_steps import LATTICE
from tests.work import calls_made


def plan_of(fusion: Fusion) -> list[tuple[str, int]]:
    return [(step.because, step.bytes_saved) for step in fusion.history.steps]


@pytest.mark.parametrize("seed", range(30))
def test_the_plan_is_the_same_however_the_db_keeps_up(seed: int) -> None:
    graph = irs.parse(random_program(seed, size=30).text)
    fusions = fuse(graph), fuse_rebuilding(graph, "block"), fuse_rebuilding(graph, "merge")
    assert plan_of(fusions[0]) == plan_of(fusions[1]) == plan_of(fusions[2])
    assert str(fusions[0].graph) == str(fusions[1].graph) == str(fusions[2].graph)


@pytest.mark.parametrize("seed", range(30))
def test_the_followed_db_answers_as_a_new_one_after_every_merge(seed: int) -> None:
    fusion = fuse(irs.parse(random_program(seed, size=25).text))
    check_following(fusion.history)
    found, wanted = fusion.alias_db, AliasDb(fusion.graph)
    for value in fusion.graph.values():
        assert found.writers(value) == wanted.writers(value)
        assert found.is_written(value) == wanted.is_written(value)


def test_the_db_of_the_fused_graph_follows_and_is_not_rebuilt() -> None:
    fusion = fuse(irs.parse(LATTICE))
    assert fusion.alias_db is fusion.alias_db
    assert fusion.alias_db.graph is fusion.graph
    assert not fusion.alias_db.was_rebuilt
    assert fusion.alias_db.may_alias("d", "f").because


def test_a_db_of_another_program_is_found_out() -> None:
    text = """graph(%x : Float(2), %y : Float(2)):
  %n : int = prim::Constant[value=1]()
  %a : Float(2) = aten::relu(%x)
  %b : Float(2) = aten::tanh(%a)
  %v : Float(2) = aten::alias(%x)
  %w : Float(2) = aten::add_(%v, %b, %n)
  return (%b)"""
    fusion = fuse(irs.parse(text))
    wrong = AliasDb(fusion.history.graph(-2))
    wrong._points_to.is_written[:] = bytes(len(wrong._points_to.is_written))  # type: ignore[index]
    with pytest.raises(AssertionError, match="disagree"):
        check_following(fusion.history, wrong)


def test_an_unknown_way_is_an_error_with_the_choices() -> None:
    with pytest.raises(ArgumentError, match="'sometimes'") as caught:
        fuse_rebuilding(irs.parse(LATTICE), "sometimes")  # type: ignore[arg-type]
    assert '"block" or "merge"' in str(caught.value)


def test_following_grows_with_the_program_and_rebuilding_with_its_square() -> None:
    def work(count: int, fused: Callable[[Graph], Fusion]) -> int:
        lines = [f"  %v{i + 1} : Float(8) = aten::tanh(%v{i})" for i in range(count)]
        graph = irs.parse("\n".join(["graph(%v0 : Float(8)):", *lines, f"  return (%v{count})"]))
        return calls_made(lambda: fused(graph).alias_db)

    def rebuilding(graph: Graph) -> Fusion:
        return fuse_rebuilding(graph, "merge")

    work(10, fuse)
    assert work(160, fuse) < 6 * work(40, fuse)
    assert work(160, rebuilding) > 9 * work(40, rebuilding)
