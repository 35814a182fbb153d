"""The states of a history: its programs, what passes took away, what may share memory in each, and what values are called."""

import re

import pytest

import irscope as irs
from irscope.analysis.alias import AliasDb
from irscope.errors import UnknownName
from irscope.report.pages.details import HistoryInspection, Inspection
from irscope.report.pages.exploration import Exploration
from irscope.report.pages.parts import explorer_view, history_view
from irscope.report.panes.fusion_view import remarks_table
from irscope.report.states import AliasSteps, stands_for
from irscope.report.timeline import program_stops
from irscope.report.words import names_in
from tests.programs import ir
from tests.random_programs.graphs import random_program

WRITES = ir("x y | a = relu x; b = mul_ a y; c = tanh b | c", "Float(4, 4)")


def test_the_stops_are_the_passes_that_changed_something() -> None:
    f = irs.fuse(irs.parse(WRITES))
    stops = [(stop["label"], stop["state"]) for stop in program_stops(f.history)]
    assert stops == [("as written", 0), ("pure", 1), ("fused", f.history.count)]
    unchanged = irs.fuse(irs.parse("graph(%x : Tensor):\n  return (%x)"))
    assert program_stops(unchanged.history) == []
    for whole in (True, False):
        assert explorer_view(Exploration(f), whole=whole)["programs"] == program_stops(f.history)


def test_what_passes_removed_is_shown_with_its_memory_as_it_was() -> None:
    g = irs.parse(WRITES)
    f = irs.fuse(g)
    db, exploration = irs.AliasDb(g), Exploration(f)
    (write,) = db.writers("a")
    last = {record.id for record in (*f.graph.values(), *f.graph.nodes())}
    before = {record.id for graph in (g, f.history.graph(2)) for record in (*graph.values(), *graph.nodes())}
    assert set(exploration.gone) == before - last
    assert exploration.resolve(write) == exploration.resolve("aten::mul_#0") == write.id
    assert exploration.records_of([write.id, -3]) == [write]
    inspection = Inspection(exploration)
    detail = inspection.detail(write.id)
    assert (detail["gone_after"], detail["text"]) == (0, "%b : Float(4, 4) = aten::mul_(%a, %y)")
    assert "functionalize took it away" in detail["fusion"]
    assert g.value("a").id in detail["alias"]["alias_set"]
    stranger = irs.parse(WRITES)
    with pytest.raises(UnknownName, match="not in the program"):
        exploration.resolve(stranger.value("a"))
    with pytest.raises(UnknownName):
        exploration.resolve("%nothing")


def test_a_pair_is_asked_of_the_state_that_is_shown() -> None:
    g = irs.parse(WRITES)
    f = irs.fuse(g)
    inspection = Inspection(Exploration(f))
    a, b, c = (g.value(name) for name in "abc")
    for first, second in ((a, b), (a, c), (b, c)):
        answer = inspection.pair(first.id, second.id, 0)["alias"]
        assert answer["holds"] == bool(irs.AliasDb(g).may_alias(first, second))
    (write,) = irs.AliasDb(g).writers("a")
    past = inspection.pair(write.id, a.id)
    assert past["alias"]["holds"]  # type: ignore[typeddict-item]


PROGRAM = ir("x | zero = 0; a = relu x; b = tanh a; row:Float(4) = select b zero zero; c = neg b; d = exp c | d row", "Float(8, 4)")


@pytest.mark.parametrize("seed", range(25))
def test_sets_of_every_state_are_those_of_its_graph(seed: int) -> None:
    program = random_program(seed, size=18)
    history = irs.fuse(irs.load(program.text, *program.inputs)).history
    asked = AliasSteps(history)
    meant = stands_for(history.final)
    for state in range(len(history.steps) + 1):
        graph = history.graph_after(state)
        db, here = AliasDb(graph), stands_for(graph)
        for value in graph.values():
            if value not in history.final.names:
                continue
            detail = asked.detail(value, state)
            expected = {here.get(other.id, other.id) for other in db.alias_set(value)} if db.locations(value) else None
            got = {meant.get(id, id) for id in detail["alias_set"]} if detail is not None else None
            assert got == expected


@pytest.mark.parametrize("seed", range(25))
def test_a_page_tells_the_alias_sets_of_every_state(seed: int) -> None:
    program = random_program(seed, size=18)
    history = irs.Pipeline("functionalize,cse,fuse,dce")(irs.load(program.text, *program.inputs)).history
    view = history_view(history, details=True)
    earlier = view["timeline"]["earlier_aliases"]
    asked, meant = AliasSteps(history), stands_for(history.final)
    for state in range(len(history.steps) + 1):
        for value in history.final.values():
            live = asked.detail(value, state)
            if live is None or value.id in meant:
                continue
            told = [old["alias"] for old in earlier if old["value"] == value.id and state < old["until"]]
            stored = told[0] if told else view["details"][value.id]["alias"]
            page = stored | {"alias_set": view["alias_sets"][stored["shared_set"]]}
            assert asked.visible(page) == asked.visible(live)


def test_a_value_is_asked_about_by_its_last_name_and_answered_in_the_state_s_own() -> None:
    history = irs.fuse(irs.parse(PROGRAM)).history
    inspection = HistoryInspection(history)
    graph = history.final
    inner = graph.value("b.1")
    for state in (0, len(history.steps)):
        alias = inspection.detail(inner.id, state)["alias"]
        names = {record.id: f"%{name}" for record, name in graph.names.items()}
        assert "%row" in {names[id] for id in alias["alias_set"]}
    summary = inspection.detail(inner.id, 0)["alias"]
    assert summary["summary"].startswith("%b may share memory with %row")


def numbered() -> tuple[irs.Fusion, irs.Value]:
    """A program without names: its constants and a sum of them go, so that every later number changes. Its in-place result."""
    b = irs.GraphBuilder()
    type = irs.parse("graph(%x : Float(8)):\n  return (%x)").inputs[0].type
    x, y = b.input("x", type), b.input("y", type)
    one, more = b.constant(1), b.constant(2)
    (two,) = b.node("aten::add", [one, more], [one.type])
    (r,) = b.node("aten::relu", [x], [type])
    (r,) = b.node("aten::tanh", [r], [type])
    (written,) = b.node("aten::add_", [y, r, two], [type])
    (e,) = b.node("aten::neg", [written], [type])
    (f,) = b.node("aten::exp", [e], [type])
    return irs.fuse(b.finish([f])), written


def test_remarks_and_reasons_name_what_the_text_shows() -> None:
    fusion, written = numbered()
    shown = fusion.graph.names[written]
    assert shown == fusion.history.records[-1].before.names[written] == fusion.original.names[written]
    table = remarks_table(fusion.history, names_in(fusion.history))
    rows = [row for row in table["rows"] if row[0] == "missed"]
    assert [row[2] for row in rows] == [f"add_ %{shown}"]
    inspection = Inspection(Exploration(fusion))
    sentence = inspection.detail(written.id)["fusion"]
    names = {f"%{name}" for name in fusion.graph.names.values()}
    assert set(re.findall(r"%[\w.]+", sentence)) <= names
    pair = inspection.pair(fusion.graph.producer[written].inputs[1].id, written.id)["fusion"]
    assert set(re.findall(r"%[\w.]+", pair["because"])) <= names


def test_what_many_answers_share_is_stored_once() -> None:
    inputs = ", ".join(f"%p{k} : Tensor" for k in range(30))
    graph = irs.parse(f"graph({inputs}):\n  %a : Tensor = aten::add_(%p0, %p1, %p2)\n  return (%a)")
    view = explorer_view(Exploration(irs.fuse(graph)), details=True)
    told = [detail["alias"] for detail in view["details"].values() if detail["alias"] is not None]
    assert len(told) >= 30
    assert len(view["alias_sets"]) < 4
    live = Inspection(Exploration(irs.fuse(graph)))
    for detail in view["details"].values():
        whole = live.detail(detail["id"])
        if detail["alias"] is not None and whole["alias"] is not None:
            assert sorted(view["alias_sets"][detail["alias"]["shared_set"]]) == sorted(whole["alias"]["alias_set"])
        assert detail["text"] in ("", whole["text"])
