"""Several compilers over one program: what is matched, what is not, and which pairs of ops only one has in one kernel."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import irscope as irs
from irscope.compilers.record import Decisions, Kernel, program_of
from irscope.display.diff_page import diff_html
from irscope.display.svg import graph_svg
from irscope.ir import Graph, Location, Node
from irscope.report.pages import Branches, ProgramPage
from irscope.report.pages.branches import branch_diff
from irscope.report.pages.parts import explorer_view
from irscope.report.pages.side_by_side import Correspondence, side_by_side
from irscope.report.words import COMPARED
from irscope.session import exploration
from tests.programs import ir

WHOLE = ir('x | n = "none"; g = gelu x n; r = relu g; t = tanh r | t', "Float(4, 8)")
APART = ir("x | h = 0.5; e = erf x; m = mul x e; g2 = mul m h; r2 = relu g2; t2 = tanh r2 | t2", "Float(4, 8)")


def at_lines(text: str, lines: Sequence[int]) -> Graph:
    """A program whose ops come from these lines of a model."""
    graph = irs.parse(text)
    ops = iter(lines)

    def placed(node: Node) -> Node:
        return node if node.op.startswith("prim::") else replace(node, location=Location("model.py", next(ops)), scope="layer")

    return replace(graph, body=replace(graph.body, nodes=tuple(map(placed, graph.body.nodes))))


@pytest.fixture
def two() -> tuple[Decisions, Decisions]:
    """One compiler that keeps the gelu and fuses it with the relu; one that takes it apart and fuses the relu with the tanh."""
    one, other = at_lines(WHOLE, (3, 4, 5)), at_lines(APART, (3, 3, 3, 4, 5))
    g, r, t = (node for node in one.nodes() if "aten" in node.op)
    e, m, h, r2, t2 = (node for node in other.nodes() if "aten" in node.op)
    first = program_of(one, [Kernel("k0", (g, r)), Kernel("k1", (t,), True)], compiler="one")
    second = program_of(other, [Kernel("a", (e, m, h)), Kernel("b", (r2, t2))], compiler="other")
    return Decisions("one", (first,)), Decisions("other", (second,))


def test_ops_are_matched_by_line_and_op_then_by_line_and_what_is_left_is_named(two: tuple[Decisions, Decisions]) -> None:
    one, other = (each.graph for each in two)
    found = Correspondence(one, other)
    images = {node.op: [each.op for each in several] for node, several in found.images.items()}
    assert images == {"aten::gelu": ["aten::erf", "aten::mul", "aten::mul"], "aten::relu": ["aten::relu"], "aten::tanh": ["aten::tanh"]}
    assert str(found) == "3 of 3 ops matched (2 by line and op, 1 by line)"
    strange = Correspondence(one, at_lines(APART, (3, 3, 3, 9, 5)))
    assert "relu %r" not in str(strange), "the same op of matched operands, by structure"
    assert "1 by structure" in str(strange)
    nothing = Correspondence(irs.parse(WHOLE), irs.parse("graph(%y : Float(2)):\n  %z : Float(2) = aten::neg(%y)\n  return (%z)"))
    assert str(nothing) == "0 of 3 ops matched; not matched here: gelu %g, relu %r, tanh %t; not matched there: neg %z"


def test_a_line_that_runs_several_times_is_split_into_its_rounds() -> None:
    rounds = "".join(f"  %a{k} : Float(8) = aten::silu(%b{k - 1})\n  %b{k} : Float(8) = aten::neg(%a{k})\n" for k in range(1, 4))
    apart = "".join(
        f"  %s{k} : Float(8) = aten::sigmoid(%c{k - 1})\n  %m{k} : Float(8) = aten::mul(%s{k}, %c{k - 1})\n"
        f"  %c{k} : Float(8) = aten::neg(%m{k})\n"
        for k in range(1, 4)
    )
    one = at_lines(f"graph(%b0 : Float(8)):\n{rounds}  return (%b3)", (7,) * 6)
    other = at_lines(f"graph(%c0 : Float(8)):\n{apart}  return (%c3)", (7,) * 9)
    found = Correspondence(one, other)
    images = [[other.names[each.output] for each in found.images[one.node(f"a{k}")]] for k in (1, 2, 3)]
    assert images == [["s1", "m1"], ["s2", "m2"], ["s3", "m3"]]


def test_a_pair_is_in_one_kernel_here_or_there_or_the_same(two: tuple[Decisions, Decisions]) -> None:
    one, other = (each.fusion for each in two)
    kinds = [(pair.producer.op, pair.consumer.op, pair.kind) for pair in side_by_side(one, other).pairs]
    assert kinds == [("aten::gelu", "aten::relu", "here"), ("aten::relu", "aten::tanh", "there")]
    back = side_by_side(other, one)
    assert dict(back.counts) == {"same": 2, "there": 1, "here": 1}, "what the other has as one op is in one kernel there"
    view = ProgramPage(exploration(two[0], (), measure="never")).view["compared"]
    group = one.groups[0]
    assert (view["here"], view["there"], view["kinds"][group.id]) == ("one", "irscope greedy", "there")


def test_other_compilers_are_branches_of_the_same_columns_that_say_what_is_matched(two: tuple[Decisions, Decisions]) -> None:
    branches = Branches(exploration(two[0], (two[1],), measure="never"))
    assert [branch.name for branch in branches] == ["one", "irscope greedy", "irscope min-bytes", "other"]
    shown = branches.view(0)["branches"]
    assert [(each["kernels"], each["calls"]) for each in shown] == [(1, 1), (1, 0), (1, 0), (2, 0)]
    assert [each["matched"] for each in shown] == ["", "", "", "3 of 3 ops"] and "1 by line" in shown[3]["matching"]
    match = branches.match(0, 3)
    gelu, erf = two[0].graph.node("g"), two[1].graph.node("e")
    assert branches.match(0, 1) is None and match is not None
    assert branches[3].exploration.known_as(gelu.id, branches[0].exploration, match)[0] == erf.id
    assert exploration(two, (), measure="never").beside == (two[1],)
    assert list(branches.table()["ops matched"]) == ["", "", "", "3 of 3 ops"]


def test_a_saved_page_has_the_strip_and_how_each_other_compiler_differs_as_a_live_one_answers(two: tuple[Decisions, Decisions]) -> None:
    explored = exploration(two[0], (two[1],), measure="never")
    live = Branches(explored)
    stored = json.loads(json.dumps(explorer_view(explored, details=True)))["branches"]
    assert stored["branches"] == live.view(0)["branches"]
    asked = {str(k): json.loads(json.dumps(branch_diff(live[k], live[0]))) for k in (1, 2, 3)}
    assert stored["diffs"] == asked and asked["3"]["compared"]["counts"]["there"] == 1
    assert "branches" not in explorer_view(explored), "a live page asks"
    assert "branches" not in explorer_view(exploration(two[0].graph, (), measure="never"), details=True)


def test_the_branches_are_measured_with_what_their_compilers_compiled(two: tuple[Decisions, Decisions]) -> None:
    x = np.ones((4, 8), np.float32)
    calls = [replace(two[0], call=np.tanh), replace(two[1], call=lambda: None)]
    branches = Branches(exploration(calls[0], (calls[1],), measure="never"))
    branches.measure(x, seconds=0.01)
    assert branches[0].own is not None and branches[3].own is None
    assert all(branch.measured is not None for branch in branches[:3])
    assert "other does not take these arguments" in branches[3].problem
    assert branches[3].problem in branches.view(0)["branches"][3]["refused"]


def test_a_difference_of_groupings_is_drawn_with_its_colours_and_a_legend(two: tuple[Decisions, Decisions]) -> None:
    page = diff_html(irs.diff(*two))
    assert page.count("<figure") == 2 and "ops of one in other: 3 of 3 ops matched" in page
    view = ProgramPage(exploration(two[0], (), measure="never")).view
    picture = graph_svg(view["graph"], compared=view["compared"])
    assert "one kernel only in irscope greedy: 1 pair of ops" in picture and "as in the other: 1 pair of ops" in picture
    (group,) = two[0].fusion.groups
    assert f'data-from="{group.id}"' in picture and f"stroke:{COMPARED['there']}" in picture, "the edge that leaves the group is that pair"
