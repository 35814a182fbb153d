"""`fuse` written out as a pipeline gives the same graph, and its alias db follows or is built again with the same plan."""

from typing import Any

import pytest

import irscope as irs
from irscope.analysis.alias import AliasDb
from irscope.errors import ArgumentError
from irscope.ir import Graph
from irscope.ir.structural import same_structure
from irscope.transforms.functionalize import functionalize_pass
from irscope.transforms.fusion import Fusion, fuse, fuse_rebuilding
from tests.programs import ir
from tests.random_programs.graphs import random_program
from tests.transforms.fusion.judges import check_following
from tests.transforms.fusion.test_fuse_pass import LATTICE

WRITES = ir(
    "x:Float(4, strides=[1]) | one = 1; two = 2; zero = 0; end = 4; a:Float(4, strides=[1]) = neg x; low = slice a zero zero two one; "
    "e = exp low; w = copy_ low e zero; high = slice a zero two end one; f = tanh high; v = copy_ high f zero; "
    "r:Float(4, strides=[1]) = relu a | r",
    "Float(2, strides=[1])",
)


def written_out(graph: Graph, text: str) -> Graph:
    return irs.Pipeline(text)(graph, verify_each=True).graph


def test_written_out_it_gives_the_same_graph() -> None:
    for seed in range(12):
        text = random_program(seed, size=30).text
        parts = "prepare-fusion,fuse-groups,group-turns"
        assert same_structure(written_out(irs.parse(text), "fuse"), written_out(irs.parse(text), parts)), text


@pytest.mark.parametrize("text", [WRITES, *(random_program(seed, size=25).text for seed in range(12))])
def test_where_each_part_is_made_whole_the_preparation_can_be_written_out_too(text: str) -> None:
    fusion = irs.fuse(irs.parse(text))
    names = [record.name for record in fusion.history.records]
    assert names[-1] in ("fuse-groups", "group-turns") and set(names) <= set(irs.Pipeline.passes())
    if any(remark.rule == "writes-a-part" for remark in fusion.remarks):
        return
    parts = written_out(irs.parse(text), "fold-constants,functionalize,dce,fold-tensors,fuse-groups,group-turns")
    assert same_structure(fusion.graph, parts)
    assert same_structure(fusion.graph, written_out(irs.parse(text), ",".join(names)))


def test_views_are_grouped_by_a_pass_of_their_own() -> None:
    text = ir("x | a = relu x; b = tanh a; c:Float(3, 2) = t b; d:Float(3, 2) = detach c | d", "Float(2, 3)")
    whole = irs.fuse(irs.parse(text), view_groups=True)
    assert [group.attrs["kind"] for group in whole.groups] == ["pointwise", "view"]
    assert same_structure(whole.graph, written_out(irs.parse(text), "fuse,group-views"))


def test_parts_are_written_whole_by_one_analysis_of_the_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts stay copies here, so the trial is the result; what is pure already is not looked at again."""
    runs = []
    families = functionalize_pass.Families

    def counted(*args: Any, **kwargs: Any) -> Any:
        runs.append(args)
        return families(*args, **kwargs)

    monkeypatch.setattr(functionalize_pass, "Families", counted)
    fused = irs.fuse(irs.parse(WRITES))
    assert len(runs) == 1 and len(fused.groups) == 1
    runs.clear()
    done = irs.Pipeline("functionalize,cse,fuse")(irs.parse(WRITES))
    assert len(runs) == 1
    assert [record.name for record in done.records] == ["functionalize", "cse", "fold-constants", "fuse-groups"]


def test_a_policy_that_tears_a_chain_leaves_its_parts_in_place() -> None:
    whole = irs.fuse(irs.parse(WRITES))
    torn = irs.fuse(irs.parse(WRITES), policy=lambda candidate: None)
    assert not any("scatter" in node.op for node in torn.graph.nodes())
    assert any(node.op == "aten::slice_scatter" for node in whole.graph.nodes())
    assert sum(node.op == "aten::copy_" for node in torn.graph.nodes()) == 2


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
    check_following(fuse(irs.parse(random_program(seed, size=25).text)).history)


def test_the_db_of_the_fused_graph_follows_and_is_not_rebuilt() -> None:
    fusion = fuse(irs.parse(LATTICE))
    assert fusion.alias_db is fusion.alias_db and fusion.alias_db.graph is fusion.graph
    assert not fusion.alias_db.was_rebuilt and fusion.alias_db.may_alias("d", "f").because


def test_a_db_of_another_program_is_found_out() -> None:
    text = ir("x y | n = 1; a = relu x; b = tanh a; v = alias x; w = add_ v b n | b", "Float(2)")
    fusion = fuse(irs.parse(text))
    wrong = AliasDb(fusion.history.graph(-2))
    wrong.sealed.is_written[:] = bytes(len(wrong.sealed.is_written))  # type: ignore[index]
    with pytest.raises(AssertionError, match="disagree"):
        check_following(fusion.history, wrong)


def test_an_unknown_way_is_an_error_with_the_choices() -> None:
    with pytest.raises(ArgumentError, match="'sometimes'") as caught:
        fuse_rebuilding(irs.parse(LATTICE), "sometimes")  # type: ignore[arg-type]
    assert '"block" or "merge"' in str(caught.value)
