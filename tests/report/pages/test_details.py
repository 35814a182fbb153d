"""The inspector's answers agree with the analyses, for every record and for pairs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import irscope as irs
from irscope.errors import UnknownName
from irscope.report.pages.details import Inspection
from irscope.report.pages.exploration import Exploration


def test_every_record_has_details_that_are_plain_json(exploration: Exploration) -> None:
    inspection = Inspection(exploration)
    for id in exploration.records:
        detail = inspection.detail(id)
        assert json.loads(json.dumps(detail))["id"] == id


def test_the_alias_set_is_the_one_of_the_db(exploration: Exploration) -> None:
    value = exploration.graph.value("c")
    detail = Inspection(exploration).detail(value.id)
    assert detail["alias"] is not None
    asked = [other for other in exploration.graph.values() if exploration.db.may_alias(value, other)]
    assert sorted(detail["alias"]["alias_set"]) == sorted(other.id for other in asked)
    assert detail["alias"]["writers"] == [exploration.graph.node("w").id]
    assert "aten::relu_" in detail["alias"]["summary"]


def test_the_points_to_picture_is_about_the_asked_value(exploration: Exploration) -> None:
    value = exploration.graph.value("row")
    alias = Inspection(exploration).detail(value.id)["alias"]
    assert alias is not None
    picture = alias["points_to"]
    assert picture["records"][0] == value.id
    assert len(picture["labels"]) == len(picture["kinds"]) == len(picture["records"])
    assert all(0 <= end < len(picture["labels"]) for edge in picture["edges"] for end in edge)


def test_a_number_has_no_alias_detail(exploration: Exploration) -> None:
    assert Inspection(exploration).detail(exploration.graph.value("flag").id)["alias"] is None


def test_a_group_shows_its_kernel_line_by_line(exploration: Exploration) -> None:
    group = exploration.fusion.groups[0]
    kernel = Inspection(exploration).detail(group.id)["kernel"]
    assert kernel is not None
    inside = {node.id for node in group.blocks[0].nodes}
    assert len(kernel["line_nodes"]) >= len(kernel["source"].splitlines())
    assert set(kernel["line_nodes"]) - {0} <= inside
    assert set(kernel["line_nodes"]) & inside


def test_a_pair_gets_all_three_answers(exploration: Exploration) -> None:
    one, other = exploration.fusion.groups
    pair = Inspection(exploration).pair(one.id, other.id)
    assert pair["alias"] is not None
    assert not pair["alias"]["holds"]
    assert pair["fusion"] is not None
    assert not pair["fusion"]["holds"]
    assert pair["same"] is not None
    assert not pair["same"]["holds"]
    assert "sigmoid" in pair["same"]["because"]


def test_an_id_of_another_program_is_refused(exploration: Exploration) -> None:
    with pytest.raises(UnknownName, match="has the id"):
        Inspection(exploration)([-5])


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
    g = irs.parse("""graph(%x : Float(8, 8, strides=[8, 1], device=cpu)):
  %none : NoneType = prim::Constant()
  %zero : int = prim::Constant[value=0]()
  %s : Float(8, 8, strides=[8, 1], device=cpu) = aten::cumsum(%x, %zero, %none)
  %a : Float(8, 8, strides=[8, 1], device=cpu) = aten::tanh(%s)
  %b : Float(8, 8, strides=[8, 1], device=cpu) = aten::exp(%a)
  %c : Float(8, 8, strides=[8, 1], device=cpu) = aten::cumsum(%b, %zero, %none)
  return (%c)""")
    f = irs.fuse(g)
    detail = Inspection(Exploration(f)).detail(f.groups[0].id)
    assert detail["fusion"].endswith("it moves 512 B where its nodes one by one move 1.02 kB")
    near = {near["id"]: near for near in detail["neighbours"]}
    assert {id: each["feeds"] for id, each in near.items()} == {f.graph.node("s").id: True, f.graph.node("c").id: False}
    assert all("aten::cumsum" in each["because"] for each in near.values())
    assert "neighbours" not in Inspection(Exploration(f)).detail(f.graph.node("s").id)
