"""Branches of a timeline: each costs what its fusion costs, its code makes it again, and an edit is one that can be gone back from."""

from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, IrscopeError, ParseError
from irscope.ir.structural import same_structure
from irscope.report.pages import Branches, Exploration
from irscope.report.pages.branches import branch_diff, changes_of
from tests.programs import ir

TEXT = ir("x y | a = relu x; b = tanh a; s i:Long(4, 3, 8, 8) = sort b; c = exp_ s; d = mul c y | d", "Float(4, 3, 8, 8)")


def grown(**arguments: Any) -> Branches:
    return Branches(Exploration(irs.fuse(irs.parse(TEXT)), **arguments))


CHANGES: list[dict[str, Any]] = [
    {"forbid": [("a", "b")]}, {"force": [("a", "d")], "step": 1}, {"policy": "min-bytes", "opaque": ["aten::tanh", "c"]},
    {"distinct": ["x"], "channels_last": ["x", "y"]}, {"distinct": False},
]  # fmt: skip


@pytest.mark.parametrize("changes", CHANGES)
def test_the_code_of_a_branch_makes_it_again(changes: dict[str, Any]) -> None:
    tried = grown()
    tried.what_if(0, **changes)
    tried.what_if(1, forbid=[tried[1].fusion.groups[0]] if tried[1].fusion.groups else [("c", "d")])
    names: dict[str, Any] = {"irs": irs, "g": tried[0].fusion.original}
    exec(tried.code(2), names)
    for k in (1, 2):
        assert same_structure(names[f"f{k}"].graph, tried[k].graph)
        assert names[f"f{k}"].cost() == tried[k].fusion.cost()


def test_what_a_page_asks_by_ids_is_answered_by_names() -> None:
    tried = grown()
    exploration = tried[0].exploration
    group = tried[0].fusion.groups[0]
    inside = group.blocks[0].nodes[0]
    second = exploration.graph.value("d").id
    changes = changes_of({"forbid": [[inside.id, second]], "opaque": [inside.id], "policy": None, "distinct": True}, exploration.records_of)
    made = tried.what_if(0, **changes)
    assert tried.code(1).endswith('f1 = f.what_if(forbid=[("a", "d")], opaque=["a"], distinct=True)'), tried.code(1)
    assert made.fusion.original.distinct_inputs


def test_refusals_are_reported_and_sums_are_of_the_whole_program() -> None:
    tried = grown()
    made = tried.what_if(0, force=[("a", "d")])
    assert "cannot be in one kernel" in made.refused[0] and tried.view(1)["branches"][1]["refused"] == list(made.refused)
    table = tried.table()
    assert table["bytes"].tolist() == [branch.fusion.cost().bytes for branch in tried] and table["refused"].tolist() == [0, 1]
    with pytest.raises(ArgumentError, match="no change is given"):
        tried.what_if(0)
    with pytest.raises(ArgumentError, match="no branch"):
        tried.what_if(7, policy="greedy")


def test_branches_are_measured_in_turn_and_images_lie_as_each_takes_them() -> None:
    x = np.random.default_rng(0).random((4, 3, 8, 8), dtype=np.float32)
    tried = grown(arguments=(x, x.copy()))
    tried.what_if(0, channels_last=["x"])
    assert tried.view(0)["inputs"] == ["x", "y"] and tried.view(0)["can_measure"]
    tried.measure(seconds=0.01)
    assert all(branch.measured is not None and branch.measured > 0 for branch in tried)
    with pytest.raises(ArgumentError, match="no arguments are known"):
        grown().measure()


def test_an_edit_is_one_branch_that_further_edits_change() -> None:
    tried = grown()
    edited = tried.edited(0, TEXT.replace("tanh", "neg"))
    again = tried.edited(1, TEXT.replace("tanh", "exp"))
    assert again is edited and len(tried) == 2 and again.graph.node("aten::exp#0")
    names: dict[str, Any] = {"irs": irs, "g": tried[0].fusion.original}
    exec(tried.code(1), names)
    assert same_structure(names["f1"].graph, edited.graph)
    with pytest.raises(ParseError) as wrong:
        tried.edited(1, TEXT.replace("aten::relu(%x)", "aten::relu(%nope)"))
    assert wrong.value.line == 2 and tried[1].graph.node("aten::exp#0")
    with pytest.raises(IrscopeError):
        tried.edited(0, "")
    found = branch_diff(tried[0], tried[1])
    assert found["counts"]["kept"] > 0 and {line["kind"] for line in found["lines"]} <= {"new", "gone", "changed"} and found["lines"]
