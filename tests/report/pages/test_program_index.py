"""Pages of a large program say what the whole would say, and each answer is small."""

import json
import random

import pytest

import irscope as irs
from irscope.errors import ArgumentError, UnknownName
from irscope.report.box_tree import BoxTree
from irscope.report.pages import Exploration, ProgramIndex
from irscope.report.pages.parts import ProgramPage, explorer_view, is_sent_whole
from irscope.report.panes.program_view import text_view

T = "Float(16, 16)"


def long_program(count: int) -> irs.Graph:
    lines, last = [], "x"
    for i in range(count):
        text = f"aten::matmul(%{last}, %w)" if i % 7 == 5 else f"aten::add_(%{last}, %w, %k)" if i % 11 == 3 else f"aten::relu(%{last})"
        lines.append(f"  %v{i} : {T} = {text}\n")
        last = f"v{i}"
    return irs.parse(f"graph(%x : {T}, %w : {T}, %k : int):\n{''.join(lines)}  return (%{last})")


@pytest.fixture(scope="module")
def exploration() -> Exploration:
    return Exploration(irs.fuse(long_program(4000)))


@pytest.fixture(scope="module")
def index(exploration: Exploration) -> ProgramIndex:
    return ProgramIndex(exploration.graph, exploration.queries)


def test_pages_of_lines_put_together_are_the_text(exploration: Exploration, index: ProgramIndex) -> None:
    whole = text_view(exploration.graph)
    lines: list[str] = []
    nodes: list[int] = []
    names: dict[str, int] = {}
    for first in range(0, len(whole["lines"]) + 500, 500):
        page = index.lines(first, 500)
        assert (page["first"], page["total"]) == (first, len(whole["lines"]))
        lines += page["lines"]
        nodes += page["nodes"]
        names |= page["names"]
    assert (lines, nodes, names) == (whole["lines"], whole["nodes"], whole["names"])


def test_levels_put_together_are_all_boxes(exploration: Exploration, index: ProgramIndex) -> None:
    tree = BoxTree(exploration.graph)
    found, waiting = [], [0]
    for around in waiting:
        level = index.level(around)
        assert all(box["parent"] == around for box in level["boxes"])
        inside = {box["id"] for box in level["boxes"]}
        assert all({edge["source"], edge["target"]} <= inside for edge in level["edges"])
        found += [box["id"] for box in level["boxes"]]
        waiting += [box["id"] for box in level["boxes"] if box.get("holds")]
    assert sorted(found) == sorted(tree.ids)


def test_places_are_where_records_are(exploration: Exploration, index: ProgramIndex) -> None:
    graph, text = exploration.graph, text_view(exploration.graph)
    pick = random.Random(3)
    nodes = pick.sample(list(graph.nodes()), 60)
    for node, place in zip(nodes, index.places(node.id for node in nodes), strict=True):
        assert text["nodes"][place["line"]] == node.id
        assert place["path"][-1] == node.id and place["values"] == [value.id for value in node.outputs]
    values = pick.sample(list(graph.values()), 60)
    for value, place in zip(values, index.places(value.id for value in values), strict=True):
        name = graph.names[value]
        assert place["title"] == f"%{name}"
        assert f"%{name}" in text["lines"][place["line"]], (name, text["lines"][place["line"]])
    assert index.places([10**9]) == []


def test_a_page_of_text_says_where_its_nodes_and_what_they_make_stand(index: ProgramIndex) -> None:
    page = index.lines(5, 400)
    here = page["paths"]
    for place in index.places(here):
        assert here[place["id"]] == place["path"]
        for value in index.places(place["values"]):
            assert value["path"] == place["path"]
    assert set(here) == {node for node in page["nodes"] if node}


def test_a_first_view_is_small_and_its_later_parts_are_those_of_the_whole(exploration: Exploration) -> None:
    assert not is_sent_whole(exploration.graph)
    page, whole = ProgramPage(exploration), explorer_view(exploration)
    first = page.view
    assert len(json.dumps(first)) < 120_000 < len(json.dumps(whole))
    assert first["headline"] == whole["headline"][: len(first["headline"])]
    for name in set(first["later"]) - set(whole["later"]):
        for field, value in page.part(name).items():
            assert whole[field] == value, field  # type: ignore[literal-required]
    with pytest.raises(UnknownName, match="dessert"):
        page.part("dessert")


def test_a_box_that_is_not_there_is_named(index: ProgramIndex) -> None:
    with pytest.raises(UnknownName, match="77777"):
        index.level(77777777)


def test_a_query_that_means_nothing_is_an_answer(index: ProgramIndex) -> None:
    found = index.find("fruit:apple")
    assert "there is no field 'fruit'" in found["trouble"] and found["ids"] == []
    good = index.find("op:matmul")
    assert len(good["ids"]) == sum(node.op == "aten::matmul" for node in index.tree.graph.nodes())
    assert (len(good["shown"]), good["trouble"]) == (40, "")
    assert all("matmul" in line for line in good["lines"])
    assert index.find("is:input")["lines"][0].startswith("%")


def test_what_a_pass_took_away_is_found_as_it_was_written(exploration: Exploration, index: ProgramIndex) -> None:
    written = exploration.fusion.history.initial
    writes = [node.id for node in written.nodes() if node.op == "aten::add_"]
    taken = index.find("op:add_", all=True)
    assert writes and taken["ids"] == writes and not {*writes} & {node.id for node in exploration.graph.nodes()}
    names = exploration.names
    assert f"%{names[written.node('aten::add_#0').outputs[0]]}, " in taken["titles"][0], "by the name that it has in every state"
    assert taken["titles"][0].startswith("add_ ") and taken["titles"][0].endswith(", as written"), "the reader is told where it stands"
    assert [record.id for record in exploration.records_of(taken["ids"])] == writes, "and may select it"
    assert [record.id for record in exploration.queries.in_any_state("op:add_")] == writes, "in Python as in the search box"
    with pytest.raises(ArgumentError, match="there is no field 'fruit'"):
        exploration.queries.in_any_state("fruit:apple")
    with pytest.raises(UnknownName, match="nowhere"):
        exploration.queries.in_any_state("writes %nowhere")
    assert exploration.queries.in_any_state("op:sort") == []
    assert index.find("op:sort") == {"count": 0, "ids": [], "shown": [], "titles": [], "lines": [], "trouble": ""}
    assert not any(title.endswith("as written") for title in index.find("op:relu")["titles"])
    (place,) = index.places(writes[:1])
    assert (place["line"], place["path"]) == (-1, []) and place["title"].startswith("add_ "), "and is called by its name elsewhere too"
