"""The inspector's answers and the numbers of the whole view are those of the analyses, and what a view selects exists."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import UnknownName
from irscope.report.pages import Exploration, Inspection, ProgramPage
from irscope.report.pages.parts import PARTS, Cost, explorer_view
from irscope.session import exploration as exploration_of
from tests.programs import parsed


def test_the_alias_set_is_the_one_of_the_db(exploration: Exploration) -> None:
    value = exploration.graph.value("c")
    detail = Inspection(exploration).detail(value.id)
    asked = [other for other in exploration.graph.values() if exploration.db.may_alias(value, other)]
    assert sorted(detail["alias"]["alias_set"]) == sorted(other.id for other in asked)
    assert detail["alias"]["writers"] == [exploration.graph.node("w").id]
    assert "aten::relu_" in detail["alias"]["summary"]


def test_the_points_to_picture_is_about_the_asked_value(exploration: Exploration) -> None:
    value = exploration.graph.value("row")
    picture = Inspection(exploration).points_to([value.id])
    assert [box["label"] for box in picture["boxes"] if box["subject"]] == ["%row"]
    shared = {other.id for other in exploration.graph.values() if exploration.db.may_alias(value, other)}
    assert {box["record"] for box in picture["boxes"]} >= shared
    assert Inspection(exploration).points_to([])["width"] >= 700


def test_a_pair_that_may_share_memory_has_a_numbered_path_of_nodes(exploration: Exploration) -> None:
    inspection, graph = Inspection(exploration), exploration.graph
    a, b = next((a, b) for a in graph.values() for b in graph.values() if a is not b and exploration.db.path(a, b))
    steps = inspection.pair(a.id, b.id)["alias"]["steps"]
    assert [step["words"] for step in steps] == [step.words for step in exploration.db.path(a, b)]
    numbers = [number for line in inspection.points_to([a.id, b.id])["lines"] for number in line["steps"]]
    assert sorted(numbers) == list(range(1, len(steps) + 1))


def test_a_pair_gets_all_three_answers(exploration: Exploration) -> None:
    one, other = exploration.fusion.groups
    pair = Inspection(exploration).pair(one.id, other.id)
    assert [pair[kind]["holds"] for kind in ("alias", "fusion", "same")] == [False] * 3
    assert "sigmoid" in pair["same"]["because"]


def test_an_id_of_another_program_is_refused(exploration: Exploration) -> None:
    with pytest.raises(UnknownName, match="has the id"):
        Inspection(exploration).detail(-5)


def test_names_resolve_to_ids(exploration: Exploration) -> None:
    graph = exploration.graph
    assert exploration.resolve("%c") == graph.value("c").id
    assert exploration.resolve(graph.node("c")) == graph.node("c").id
    assert exploration.resolve("aten::cat#0") == graph.node("cat").id
    with pytest.raises(UnknownName):
        exploration.resolve("nothing")
    with pytest.raises(UnknownName, match="None names nothing"):
        exploration.resolve(None)
    assert exploration.resolve(np.int64(graph.value("c").id)) == graph.value("c").id


def test_a_group_is_shown_with_its_neighbours_and_why_they_are_not_in_it() -> None:
    g = parsed(
        "x | none = None; zero = 0; s = cumsum x zero none; a = tanh s; b = exp a; c = cumsum b zero none | c",
        "Float(8, 8, strides=[8, 1], device=cpu)",
    )
    f = irs.fuse(g)
    detail = Inspection(Exploration(f)).detail(f.groups[0].id)
    assert detail["fusion"].endswith("it moves 512 B where its nodes one by one move 1.02 kB")
    near = {near["id"]: near for near in detail["neighbours"]}
    assert {id: each["feeds"] for id, each in near.items()} == {f.graph.node("s").id: True, f.graph.node("c").id: False}
    assert all("aten::cumsum" in each["because"] for each in near.values())
    assert "neighbours" not in Inspection(Exploration(f)).detail(f.graph.node("s").id)


def test_a_stored_page_has_every_part_that_a_live_one_asks_for(exploration: Exploration) -> None:
    page, stored = ProgramPage(exploration, Cost.LITTLE), explorer_view(exploration, details=True)
    for name, (_, cost) in PARTS.items():
        if Cost.LITTLE < cost < Cost.EVERY_ANSWER:
            assert page.part(name).keys() <= stored.keys(), name
    assert page.view["later"] == ["search", "questions", "numbers", "remarks", "timeline", "copies"]


def test_a_page_without_a_profile_builds_its_boxes_once(exploration: Exploration) -> None:
    assert "tree" not in vars(ProgramPage(exploration).index)


def test_the_head_line_counts_what_there_is(exploration: Exploration) -> None:
    counts = {count["label"]: count for count in explorer_view(exploration)["headline"]}
    assert counts["nodes"]["value"] == str(len(exploration.fusion.original.position))
    assert counts["fusion groups"]["value"] == "2"
    assert counts["fusion groups"]["selects"] == [group.id for group in exploration.fusion.groups]
    assert counts["in-place write"]["selects"] == [exploration.graph.node("w").id]
    assert counts["equivalence classes"]["value"] == "2"


def test_everything_that_can_be_selected_is_a_record(exploration: Exploration) -> None:
    view = explorer_view(exploration)
    known = set(exploration.records) | {box["id"] for box in view["graph"]["boxes"]}
    for count in view["headline"]:
        assert set(count["selects"]) <= known
    for cls in view["classes"]:
        assert set(cls["members"]) <= known


def test_the_way_to_the_hottest_node_starts_open(torch: Any) -> None:
    """It is in one of many modules, which start closed without a profile."""
    from torch import nn

    def part(k: int) -> nn.Module:
        return nn.Sequential(nn.Linear(k, k + 1), nn.Softmax(-1), nn.Linear(k + 1, k + 1), nn.Sigmoid(), nn.Linear(k + 1, k + 1))

    parts = [part(k) for k in range(8, 48)]
    p = irs.profile(nn.Sequential(*parts).eval(), torch.rand(4, 8), seconds=0.05)
    shown = exploration_of(p, (), measure="never")
    view = explorer_view(shown)
    around = {box["id"]: box["parent"] for box in view["graph"]["boxes"]}
    closed, plain = set(view["graph"]["closed"]), set(explorer_view(replace(shown, profile=None))["graph"]["closed"])
    way, box = set(), shown.hottest
    while box := around.get(box, 0):
        way.add(box)
    assert way and plain & way and closed == plain - way
