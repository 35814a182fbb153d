"""The whole view: its numbers are those of the analyses, and what it selects exists."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import irscope as irs
from irscope.report.pages.exploration import Exploration
from irscope.report.pages.parts import PARTS, Cost, ProgramPage, explorer_view
from irscope.session import exploration as exploration_of


def test_the_view_is_plain_json(exploration: Exploration) -> None:
    view = explorer_view(exploration, details=True)
    assert json.loads(json.dumps(view))["title"] == exploration.graph.name


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


def test_text_lines_print_their_nodes(exploration: Exploration) -> None:
    text = explorer_view(exploration)["text"]
    assert len(text["lines"]) == len(text["nodes"])
    printed = [node for node in text["nodes"] if node]
    assert printed == [node.id for node in exploration.graph.nodes()]
    for line, id in zip(text["lines"], text["nodes"], strict=True):
        if id:
            assert exploration.records[id].op in line  # type: ignore[union-attr]


def test_only_groups_carry_kernels_in_a_page(exploration: Exploration) -> None:
    view = explorer_view(exploration, details=True)
    kernels = {id: detail["kernel"] for id, detail in view["details"].items() if detail["kernel"] is not None}
    assert set(kernels) == {group.id for group in exploration.fusion.groups}
    assert {kernel["name"] for kernel in kernels.values()} == set(view["kernels"])
    assert all(view["kernels"].values())


def test_the_way_to_the_hottest_node_starts_open() -> None:
    """It is in one of many modules, which start closed without a profile."""
    torch = pytest.importorskip("torch")
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
