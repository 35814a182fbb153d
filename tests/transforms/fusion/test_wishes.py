"""Wishes choose among legal merges: they hold under every policy, and what would be wrong is refused with its reason."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

import irscope as irs
from irscope.errors import ArgumentError, UnknownName
from irscope.ir.verify import verify
from irscope.runtime.reference import run_reference
from irscope.transforms.fusion.policies import POLICIES
from tests.random_programs.graphs import random_program
from tests.transforms.fusion.test_fuse_pass import assert_same

CHAIN = """graph(%x : Float(1000), %y : Float(1000)):
  %a : Float(1000) = aten::relu(%x)
  %b : Float(1000) = aten::tanh(%a)
  %c : Float(1000) = aten::exp(%b)
  %d : Float(1000) = aten::mul(%c, %y)
  return (%d)"""

WRITTEN = """graph(%x : Float(8), %y : Float(8)):
  %a : Float(8) = aten::relu(%x)
  %s : Float(8), %i : Long(8) = aten::sort(%a)
  %b : Float(8) = aten::tanh(%s)
  %c : Float(8) = aten::mul(%a, %b)
  return (%c)"""


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_forbidden_stays_apart_and_what_is_opaque_alone(policy: str) -> None:
    f = irs.fuse(irs.parse(CHAIN), policy=policy, forbid=[("a", "b")])
    assert f.group_of("a") is None and f.group_of("b") is f.group_of("d") is not None
    assert f.obstacle("a", "b").rule == "forbidden" and "which you forbade" in f.why_not("a", "c").because
    f = irs.fuse(irs.parse(CHAIN), policy=policy, opaque=["c"])
    assert f.group_of("c") is None and f.group_of("a") is f.group_of("b")
    assert f.why_alone("c").because == "you made aten::exp opaque: it stays with the library"


def test_what_is_forced_is_one_kernel_though_the_policy_declines() -> None:
    f = irs.fuse(irs.parse(CHAIN), policy=lambda candidate: None, force=[("a", "b")])
    assert [len(group.blocks[0].nodes) for group in f.groups] == [2] and not f.refused
    far = irs.fuse(irs.parse(CHAIN), policy=lambda candidate: None, force=[("a", "d")])
    assert far.group_of("a") is far.group_of("d") is far.group_of("b") is not None  # what lies between comes along


def test_what_would_be_wrong_is_refused_and_leaves_nothing_behind() -> None:
    f = irs.fuse(irs.parse(WRITTEN), policy=lambda candidate: None, force=[("a", "c"), ("s", "b")])
    assert not f.groups
    assert [remark.rule for remark in f.refused] == ["cycle", "not-pointwise"]
    assert "would create a cycle: aten::relu (%a) → aten::sort" in f.refused[0].because, f.refused[0].because
    assert set(f.refused) <= set(f.remarks)


def test_a_group_is_taken_apart_and_merges_up_to_a_step_are_kept() -> None:
    f = irs.fuse(irs.parse(CHAIN))
    assert not f.what_if(forbid=[f.groups[0]]).groups
    out = f.what_if(forbid=[(f.groups[0], "d")])  # of one group and another node, each member from that
    assert out.group_of("a") is out.group_of("c") is not None and out.group_of("d") is None
    none = f.what_if(step=2, policy=lambda candidate: None)
    kept = [step.nodes for step in f.history.steps[:2]]
    assert [step.nodes for step in none.history.steps] == kept
    assert not f.what_if(step=0, policy=lambda candidate: None).groups


def _two_groups(length: int) -> irs.Fusion:
    """A chain in two groups: a kernel has 512 nodes at most."""
    lines = [f"  %v{i} : Float(8) = aten::tanh(%v{i - 1})" for i in range(1, length + 1)]
    return irs.fuse(irs.parse("\n".join(["graph(%v0 : Float(8)):", *lines, f"  return (%v{length})"])))


def test_two_large_groups_are_kept_apart_without_a_word_about_each_pair() -> None:
    f = _two_groups(600)
    first, second = f.groups
    apart = f.what_if(forbid=[(first, second)])
    assert [len(sides) for sides in apart._plans.options.wishes.forbid] == [2]
    assert sum(len(side) for side in apart._plans.options.wishes.forbid[0]) == 600
    assert [len(group.blocks[0].nodes) for group in apart.groups] == [len(group.blocks[0].nodes) for group in f.groups]
    again = apart.what_if(force=[("v87", "v88"), ("v88", "v89")])  # wherever the two groups met, this takes the older wish back
    assert again.group_of("v87") is again.group_of("v88") is again.group_of("v89")
    assert not again._plans.options.wishes.forbid


def test_one_node_of_a_group_is_kept_apart_from_the_rest() -> None:
    f = irs.fuse(irs.parse(CHAIN))
    out = f.what_if(forbid=[(f.groups[0], "d")])
    assert out.group_of("a") is out.group_of("c") is not None and out.group_of("d") is None
    assert f.what_if(forbid=[(f.groups[0], "a")], force=[("b", "d")]).group_of("a") is None


def test_a_new_wish_takes_back_the_one_that_it_contradicts() -> None:
    apart = irs.fuse(irs.parse(CHAIN)).what_if(forbid=[("a", "b")])
    again = apart.what_if(force=[("a", "b")])
    assert not again.refused and again.group_of("a") is again.group_of("b")
    assert again.what_if(forbid=[("b", "c")], opaque="a").group_of("b") is None


def test_wishes_about_what_passes_replace_and_take_away() -> None:
    text = """graph(%x : Float(8)):
      %a : Float(8) = aten::neg(%x)
      %b : Float(8) = aten::relu_(%a)
      %unused : Float(8) = aten::exp(%b)
      %c : Float(8) = aten::tanh(%b)
      return (%c)"""
    f = irs.fuse(irs.parse(text), forbid=[("b", "c")], force=[("unused", "c")])
    assert f.group_of("b") is f.group_of("a") is not None and f.group_of("c") is None
    assert f.refused[0].rule == "no-node"
    assert f.what_if(distinct=True, force=[("b", "c")]).group_of("c") is not None


def test_cost_counts_what_is_not_in_kernels_too() -> None:
    f = irs.fuse(irs.parse(WRITTEN))
    assert f.cost()._replace(bytes=0) == (1, 2, 0)
    assert irs.fuse(irs.parse(CHAIN)).cost().microseconds("12 GB/s") == 1.0


@pytest.mark.parametrize(
    "wish", [{"forbid": [("a",)]}, {"forbid": ["ab"]}, {"force": [("x", "a")]}, {"opaque": ["aten::cosh"]}, {"forbid": [("a", "nope")]}]
)
def test_a_wish_about_nothing_is_an_error_that_says_so(wish: dict[str, object]) -> None:
    for ask in (lambda: irs.fuse(irs.parse(CHAIN), **wish), lambda: irs.fuse(irs.parse(CHAIN)).what_if(**wish)):
        with pytest.raises((ArgumentError, UnknownName)):
            ask()


@pytest.mark.parametrize("seed", range(12))
def test_random_wishes_change_no_result(seed: int) -> None:
    program = random_program(seed, size=20)
    graph = irs.parse(program.text)
    chance = random.Random(seed)
    names = [node.outputs[0] for node in graph.nodes() if node.outputs]
    pairs = [pair for pair in combinations(names, 2) if chance.random() < 6 / max(1, len(names))]
    some = chance.sample(names, min(2, len(names)))
    policy = chance.choice(list(POLICIES))
    f = irs.fuse(graph, policy=policy, forbid=pairs[::2], force=pairs[1::2], opaque=some)
    verify(f.graph)
    for a, b in pairs[::2]:
        assert f.group_of(a) is None or f.group_of(a) is not f.group_of(b)
    steps = f.history.count
    for fusion in (f, f.what_if(step=chance.randint(0, steps), policy="min-bytes", force=pairs[::2])):
        verify(fusion.graph)
        one, other = program.fresh(), program.fresh()
        wanted = run_reference(graph, *one)
        assert_same(run_reference(fusion.graph, *other), wanted, rtol=1e-5, atol=1e-6)
        assert_same(other, one, rtol=1e-5, atol=1e-6)
        for remark in fusion.refused:
            assert "as you wanted" in remark.because
