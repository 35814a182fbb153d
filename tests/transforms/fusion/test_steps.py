"""The graphs between two merges: each is a program that means the same, and shares with its neighbours what did not change."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

import irscope as irs
from irscope.errors import ArgumentError
from irscope.ir.core import Graph, Node
from irscope.ir.rewriter import Merged
from irscope.ir.verify import verify
from irscope.runtime.reference import run_reference
from irscope.transforms.fusion.fuse_pass import fuse
from tests.random_programs.graphs import Program, programs
from tests.transforms.fusion.test_fuse_pass import assert_same

LATTICE = """graph(%x : Float(2, 3), %y : Float(2, 3)):
  %n : int = aten::dim(%x)
  %a : Float(2, 3) = aten::add(%x, %y, %n)
  %b : Float(2, 3) = aten::tanh(%a)
  %m : Float(2, 3) = aten::mul(%a, %y)
  %c : Float(2, 2) = aten::matmul(%m, %x)
  %d : Float(2, 3) = aten::sub(%b, %a, %n)
  %e : Float(2, 2) = aten::relu(%c)
  %f : Float(2, 2) = aten::neg(%e)
  return (%d, %f)"""


def groups(graph: Graph) -> set[Node]:
    return {node for node in graph.nodes() if node.op == "prim::FusionGroup"}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_the_program_means_the_same_after_every_step(program: Program) -> None:
    history = fuse(irs.parse(program.text)).history
    wanted = run_reference(history.initial, *program.fresh())
    for step in range(len(history.steps) + 1):
        graph = history.graph_after(step)
        verify(graph)
        assert_same(run_reference(graph, *program.fresh()), wanted)


def test_the_first_is_the_initial_graph_and_the_last_the_final_one() -> None:
    history = fuse(irs.parse(LATTICE)).history
    assert history.graph_after(0) is history.initial
    assert history.graph_after(-1) is history.graph_after(len(history.steps)) is history.final
    assert history.graph_after(1) is history.graph(1)  # folding is one step
    assert [step.pass_name for step in history.steps] == ["fold-constants", *["fuse-groups"] * 4]


def test_a_step_says_which_rule_joined_what_and_what_it_saved() -> None:
    history = fuse(irs.parse(LATTICE)).history
    merges = [edit for edit in history.records[-1].edits if isinstance(edit, Merged)]
    for step, merge in zip(history.steps[1:], merges, strict=True):
        assert (step.rule, step.because) == ("producer-consumer", merge.reason)
        assert (step.nodes, step.bytes_saved) == (merge.nodes, merge.bytes_saved)
        assert step.bytes_saved > 0
    assert history.steps[0].because == "1 node created, 1 node erased"


def test_neighbouring_graphs_share_all_but_the_group_that_grew() -> None:
    history = fuse(irs.parse(LATTICE)).history
    for step in range(1, len(history.steps)):
        before, after = (groups(history.graph_after(place)) for place in (step, step + 1))
        assert len(after - before) == 1
        (grown,) = after - before
        kept = [group for group in before - after if group.id == grown.id]
        assert len(kept) <= 1  # a group keeps its id while it grows
        assert {node.id for node in grown.blocks[0].nodes} >= {node.id for old in kept for node in old.blocks[0].nodes}


def test_a_graph_that_is_held_is_given_again() -> None:
    history = fuse(irs.parse(LATTICE)).history
    held = history.graph_after(2)
    assert history.graph_after(2) is held
    assert str(held) == str(fuse(irs.parse(LATTICE)).history.graph_after(2))


def test_merges_of_groups_that_stay_too_small_are_no_steps() -> None:
    fusion = fuse(irs.parse(LATTICE), min_size=3)
    assert [len(group.blocks[0].nodes) for group in fusion.groups] == [5]
    assert len(fusion.history.steps) == 4
    assert len(groups(fusion.history.graph_after(2))) == 1


@pytest.mark.parametrize("step", [100, -100])
def test_a_step_that_there_is_not_is_an_error_with_the_last_one(step: int) -> None:
    history = fuse(irs.parse(LATTICE)).history
    with pytest.raises(ArgumentError, match=f"no step {step}") as caught:
        history.graph_after(step)
    assert str(len(history.steps)) in str(caught.value)
