"""Steps marked on the last graph: every earlier state can be read off it, line by line."""

import re
from collections import Counter
from itertools import pairwise

import pytest

import irscope as irs
from irscope.ir.core import Graph, Node
from irscope.ir.text.printer import print_node
from irscope.report.panes.program_view import text_view
from irscope.report.states import lifetimes
from irscope.report.timeline import timeline_view
from irscope.report.view_models import TextView, TimelineView
from irscope.report.words import names_in
from irscope.transforms.base import History
from tests.programs import ir
from tests.random_programs.graphs import random_program

PROGRAM = ir(
    "x y | one = 1; two:int = add one one; a = relu x; b = add a y two; c = tanh b; d:Float(4, 8) = t c; m:Float(8, 8) = matmul c d; "
    "e:Float(8, 8) = neg m; f:Float(8, 8) = exp e | f a",
    "Float(8, 4)",
)


def viewed(history: History) -> tuple[TextView, TimelineView]:
    text = text_view(history.final)
    view = timeline_view(history, text)
    return text, view


def at(view: TimelineView, state: int) -> dict[int, int]:
    """For each node the smallest node that it is joined with in a state; nodes by themselves are missing."""
    top: dict[int, int] = {}

    def find(node: int) -> int:
        while top.get(node, node) != node:
            node = top[node]
        return node

    for step in view["steps"][:state]:
        if step["group"]:
            ends = sorted(find(node) for node in step["nodes"])
            top.update(dict.fromkeys(ends, ends[0]))
    return {node: find(node) for node in top}


def shown(history: History, text: TextView, view: TimelineView, state: int) -> Counter[str]:
    """The node lines that a state shows, with the names that it shows: what the text pane does."""
    names = {id: name for name, id in text["names"].items()} | view["names"]
    groups = {group["id"] for group in view["groups"]}
    joined = at(view, state)
    meant = {
        f"%{names[inner]}": f"%{names[outer]}"
        for group in view["groups"]
        for inner, outer in zip(group["inside"], group["outside"], strict=True)
    }
    home = {node: group["id"] for group in view["groups"] for node in group["nodes"]}
    lines: Counter[str] = Counter()
    for line, node in zip(text["lines"], text["nodes"], strict=True):
        if not node or node in groups or view["since"].get(node, 0) > state:
            continue
        assert node not in joined, "this test asks about states before the first merge"
        said = line.strip()
        earlier = [old["text"].strip() for old in view["earlier"] if old["node"] == node and state < old["until"]]
        if earlier:
            said = earlier[0]
        elif node in home:
            for inner in sorted(meant, key=len, reverse=True):
                said = _renamed(said, inner, meant[inner])
        lines[said] += 1
    for line in view["gone"]:
        if line["since"] <= state < line["until"]:
            earlier = [old["text"] for old in view["earlier"] if old["node"] == line["node"] and state < old["until"]]
            lines[(earlier or [line["text"]])[0].strip()] += 1
    return lines


def _renamed(line: str, old: str, new: str) -> str:
    return re.sub(re.escape(old) + r"(?![\w.])", new, line)


def printed(graph: Graph, history: History) -> Counter[str]:
    names = names_in(history)
    return Counter(print_node(node, names) for node in graph.nodes())


def first_merge(view: TimelineView) -> int:
    return next((k for k, step in enumerate(view["steps"]) if step["group"]), len(view["steps"]))


def test_a_step_says_what_it_did_and_saved() -> None:
    _, view = viewed(irs.fuse(irs.parse(PROGRAM)).history)
    told = {step["did"]: step["saved"] for step in view["steps"] if step["group"]}
    assert told == {
        "merged %e and %f into group 1": 2 * 8 * 8 * 4,
        "merged %b and %c into group 0": 2 * 8 * 4 * 4,
        "merged %a and %b into group 0": 8 * 4 * 4,
    }
    (fold, *_, fuse) = view["passes"]
    assert (fold["name"], fold["first"], fuse["name"], fuse["first"]) == ("fold-constants", 0, "fuse-groups", fold["steps"])
    assert sum(stretch["steps"] for stretch in view["passes"]) == len(view["steps"])


def test_a_removed_line_stands_above_the_one_that_took_its_place() -> None:
    _, view = viewed(irs.fuse(irs.parse(PROGRAM)).history)
    lines = [line["text"].strip() for line in view["gone"]]
    assert lines == [
        "%one : int = prim::Constant[value=1]()",
        "%two : int = aten::add(%one, %one)",
        "%two : int = prim::Constant[value=2]()",
    ]
    assert [a["until"] <= b["until"] for a, b in pairwise(view["gone"][1:])] == [True]


def test_bytes_of_sizes_that_are_not_known_are_not_counted_as_none() -> None:
    half = "a:Float({0}, 4) = relu x; b:Float({0}, 4) = tanh a; c = relu y; d = tanh c | b d"
    for rows, is_partial in (("8", False), ("*", True)):
        fusion = irs.fuse(irs.parse(ir(f"x:Float({rows}, 4) y | {half.format(rows)}", "Float(8, 4)")))
        view = viewed(fusion.history)[1]
        assert view.get("at_least", False) is is_partial
        assert [step["saved"] > 0 for step in view["steps"]].count(False) == is_partial


@pytest.mark.parametrize("seed", range(40))
def test_states_before_the_first_merge_are_the_programs_between_the_passes(seed: int) -> None:
    fusion = irs.fuse(irs.load(*random_program(seed, size=24)[:1], *random_program(seed, size=24).inputs))
    history = fusion.history
    text = text_view(history.final)
    view = timeline_view(history, text)
    if view is None:
        assert all(not record.edits for record in history.records)
        return
    for stretch in lifetimes(history):
        if stretch.first <= first_merge(view):
            assert shown(history, text, view, stretch.first) == printed(stretch.record.before, history)


@pytest.mark.parametrize("seed", range(30))
def test_so_are_those_of_a_pipeline_that_rewrites_nodes(seed: int) -> None:
    program = random_program(seed, size=24)
    history = irs.Pipeline("functionalize,cse,fuse,dce")(irs.load(program.text, *program.inputs)).history
    text = text_view(history.final)
    view = timeline_view(history, text)
    for stretch in lifetimes(history):
        if stretch.first <= first_merge(view):
            assert shown(history, text, view, stretch.first) == printed(stretch.record.before, history)
    names = {id: name for name, id in text["names"].items()} | view["names"]
    for line in (*view["gone"], *view["earlier"]):
        said = re.findall(r"%([\w.$-]*\w)", line["text"])
        assert len(said) == len(line["values"])
        for name, value in zip(said, line["values"], strict=True):
            assert names.get(value, name) == name


@pytest.mark.parametrize("seed", range(40))
def test_merges_end_with_the_groups_and_kept_values_with_their_readers(seed: int) -> None:
    fusion = irs.fuse(irs.load(*random_program(seed, size=24)[:1], *random_program(seed, size=24).inputs))
    view = timeline_view(fusion.history, text_view(fusion.graph))
    if view is None:
        return
    final = at(view, len(view["steps"]))
    assert {frozenset(group["nodes"]) for group in view["groups"]} == {
        frozenset(node for node in final if final[node] == top) for top in set(final.values())
    }
    graph = fusion.graph
    for value in graph.values():
        maker = graph.producer.get(value)
        readers = [use.user for use in graph.users.get(value, ())]
        if maker is None or maker.id not in final:
            continue
        inside = bool(readers) and all(isinstance(user, Node) and final.get(user.id) == final[maker.id] for user in readers)
        assert (value.id in view["kept"]) == inside
        if inside:  # brute force: the first state in which all of them are joined
            ends = [maker.id, *(user.id for user in readers)]
            states = (k for k in range(len(view["steps"]) + 1) if len({at(view, k).get(end, end) for end in ends}) == 1)
            assert view["kept"][value.id] == next(states)


def test_a_program_that_no_pass_changed_has_no_timeline() -> None:
    graph = irs.parse("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)")
    assert timeline_view(irs.fuse(graph).history, text_view(graph)) is None


@pytest.mark.parametrize("seed", range(20))
def test_two_values_share_a_name_only_where_one_is_the_other_s_copy_in_a_group(seed: int) -> None:
    program = random_program(seed, size=24)
    history = irs.fuse(irs.load(program.text, *program.inputs)).history
    _, view = text_view(history.final), timeline_view(history, text_view(history.final))
    copies = [pair for group in (view or {"groups": []})["groups"] for pair in zip(group["inside"], group["outside"], strict=True)]
    by_name: dict[str, list[int]] = {}
    for value, name in names_in(history).items():
        by_name.setdefault(name, []).append(value.id)
    for sharing in by_name.values():
        assert len(sharing) == 1 or (len(sharing) == 2 and (tuple(sharing) in copies or tuple(sharing[::-1]) in copies))
