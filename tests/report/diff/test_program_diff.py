"""Differences of programs: judged by their text, and by what the passes recorded."""

from __future__ import annotations

import difflib
import random
from itertools import pairwise

import pytest

import irscope as irs
from irscope.display.diff_page import diff_html
from irscope.errors import ArgumentError

TEXT = """graph(%x : Float(4, 4), %y : Float(4, 4)):
  %a : Float(4, 4) = aten::relu(%x)
  %b : Float(4, 4) = aten::mul(%a, %y)
  %c : Float(4, 4) = aten::tanh(%b)
  %d : Float(4, 4) = aten::matmul(%c, %y)
  %e : Float(4, 4) = aten::relu(%d)
  %f : Float(4, 4) = aten::tanh(%e)
  return (%f)"""


def test_a_program_and_itself_read_again_are_equal() -> None:
    g = irs.parse(TEXT)
    for other, by in ((g, "ids"), (irs.parse(TEXT), "structure")):
        found = irs.diff(g, other)
        assert (found.is_empty, found.matched_by, found.counts["kept"]) == (True, by, 6)
        assert found.table().empty


def test_edits_of_the_text_are_told_line_by_line() -> None:
    """Judged by Python's own diff of the lines."""
    lines = TEXT.splitlines()
    for seed in range(20):
        rng = random.Random(seed)
        edited = list(lines)
        at = rng.randrange(1, 7)
        if seed % 2:
            edited.insert(at, f"  %new{seed} : Float(4, 4) = aten::neg(%x)")
        else:
            edited[at] = edited[at].replace("aten::relu", "aten::neg").replace("aten::tanh", "aten::exp").replace("aten::m", "aten::m")
        found = irs.diff(irs.parse("\n".join(lines)), irs.parse("\n".join(edited)))
        wanted = [line for line in difflib.ndiff(lines, edited) if line[0] in "+-"]
        told = [line for line in str(found).splitlines() if line[0] in "+−"]
        assert [line[2:].strip() for line in wanted] == [line[2:].split("    #")[0].strip() for line in told], seed


def test_fusing_moves_nodes_into_groups_and_two_policies_differ_in_them() -> None:
    g = irs.parse(TEXT)
    f = irs.fuse(g)
    found = irs.diff(g, f)
    assert found.matched_by == "ids"
    assert [change.after for change in found.of("new")] == list(f.groups)
    assert len(found.of("changed")) >= 5
    assert all("fusion group" in change.how or "reads" in change.how for change in found.of("changed"))
    same = irs.diff(f, irs.fuse(g))
    assert same.counts["new"] == same.counts["gone"] == 0  # groups are the same by their members
    few = irs.fuse(g, min_size=3)
    assert {change.before for change in irs.diff(f, few).of("gone")} == {f.groups[1]}


def test_steps_of_a_history_differ_by_what_they_did() -> None:
    history = irs.fuse(irs.parse(TEXT)).history
    graphs = [history.graph_after(state) for state in range(history.count + 1)]
    for before, after in pairwise(graphs):
        assert not irs.diff(before, after).is_empty
        assert irs.diff(before, before).is_empty


def test_the_cell_folds_what_is_equal_and_shows_strangers_text_as_text() -> None:
    chain = [f"  %v{i} : Float(8) = aten::relu(%v{i - 1})" for i in range(1, 3001)]
    text = "\n".join(["graph(%v0 : Float(8)):", *chain, "  return (%v3000)"])
    page = diff_html(irs.diff(irs.parse(text), irs.parse(text.replace("%v9 : Float(8) = aten::relu", "%v9 : Float(8) = aten::tanh"))))
    assert "equal lines" in page
    assert len(page) < 400_000
    assert page.count("<img") == 2
    assert "<img" not in diff_html(irs.diff(irs.parse(text), irs.parse(text)))
    hostile = 'graph(%x : Tensor):\n  %y : str = prim::Constant[value="<script>evil()</script>"]()\n  return (%y)'
    assert "<script" not in diff_html(irs.diff(irs.parse(TEXT), irs.parse(hostile)))


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(ArgumentError):
        irs.diff(irs.parse(TEXT), 3)
