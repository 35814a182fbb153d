"""Branches of an explorer: Python and page see the same, what is selected stays, and errors leave everything as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

import irscope as irs
from irscope.errors import ArgumentError, ParseError

pytest.importorskip("anywidget")

TEXT = """graph(%x : Float(1000), %y : Float(1000)):
  %a : Float(1000) = aten::relu(%x)
  %b : Float(1000) = aten::tanh(%a)
  %c : Float(1000) = aten::mul(%b, %y)
  return (%c)"""


def asked(e: Any, **message: Any) -> dict[str, Any]:
    """What Python replies to a message of the page."""
    replies: list[dict[str, Any]] = []
    e.send = replies.append
    e._answer(None, {"token": "1", **message}, None)
    return replies[0]


def shown(e: Any) -> list[str]:
    return json.loads(e.view)["text"]["lines"]


def test_a_branch_is_shown_and_gone_back_from() -> None:
    e = irs.explore(irs.parse(TEXT))
    first, e.selection = shown(e), "b"
    branch = e.what_if(forbid=[("a", "b")])
    assert e.branch == 1 and shown(e) != first and e.selected[0].name == "b"
    assert e.step == branch.fusion.history.count == 1
    assert [each["name"] for each in json.loads(e.branches_view)["branches"]] == ["greedy", "a | b apart"]
    assert irs.diff(*e.branches).counts["changed"] + irs.diff(*e.branches).counts["new"] > 0
    e.branch = e.branches[0]
    assert e.branch == 0 and shown(e) == first
    with pytest.raises(ArgumentError):
        e.branch = 5
    assert e.branch == 0


def test_the_page_asks_by_ids_and_learns_why_not() -> None:
    e = irs.explore(irs.parse(TEXT))
    g = e.branches[0].fusion.original
    ids = [g.value(name).id for name in "ab"]
    assert asked(e, kind="what_if", change={"forbid": [ids], "step": 0})["refused"] == []
    assert json.loads(e.branches_view)["branches"][1]["code"] == 'f = irs.fuse(g)\nf1 = f.what_if(step=0, forbid=[("a", "b")])'
    assert asked(e, kind="branch_diff", first=0, second=1)["diff"]["lines"]
    assert asked(e, kind="what_if", change={"policy": "nonsense"})["kind"] == "error"
    assert asked(e, kind="branch", index=0)["kind"] == "branch" and e.branch == 0
    assert "no arguments are known" in asked(e, kind="measure_branches")["message"]


def test_an_edit_follows_and_a_wrong_text_changes_nothing() -> None:
    e = irs.explore(irs.parse(TEXT))
    e.selection = "b"
    seen: list[Any] = []
    e._bound_to = seen.append
    text = asked(e, kind="written")["text"]
    assert asked(e, kind="edit", text=text.replace("relu", "exp"))["trouble"] is None
    assert e.branch == 1 and e.selected[0].name == "b" and seen[-1].node("aten::exp#0")
    before = bytes(e.view)
    trouble = asked(e, kind="edit", text=text.replace("%a)", "%nope)"))["trouble"]
    line, column = next((k, line.index("%a)") + 1) for k, line in enumerate(text.splitlines(), 1) if "%a)" in line)
    assert (trouble["line"], trouble["column"]) == (line, column) and trouble["hint"]
    assert e.view == before
    with pytest.raises(ParseError):
        e.edit("graph(")
    assert len(e.branches) == 2
