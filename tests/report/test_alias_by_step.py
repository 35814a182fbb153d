"""What may share memory in each state of a history, against the alias db of that state's graph."""

from __future__ import annotations

import pytest

import irscope as irs
from irscope.analysis.alias import AliasDb
from irscope.report.pages.details import HistoryInspection
from irscope.report.pages.parts import history_view
from irscope.report.states import AliasSteps, stands_for
from tests.random_programs.graphs import random_program

PROGRAM = """graph(%x : Float(8, 4)):
  %zero : int = prim::Constant[value=0]()
  %a : Float(8, 4) = aten::relu(%x)
  %b : Float(8, 4) = aten::tanh(%a)
  %row : Float(4) = aten::select(%b, %zero, %zero)
  %c : Float(8, 4) = aten::neg(%b)
  %d : Float(8, 4) = aten::exp(%c)
  return (%d, %row)
"""


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
def test_merging_changes_no_alias_set_so_a_page_may_tell_them_from_the_last_state(seed: int) -> None:
    program = random_program(seed, size=18)
    history = irs.fuse(irs.load(program.text, *program.inputs)).history
    first = sum(step.pass_name != "fuse-groups" for step in history.steps)
    asked, last = AliasSteps(history), len(history.steps)
    meant = stands_for(history.final)
    for state in range(first, last):
        for value in history.final.values():
            now, then = asked.detail(value, state), asked.detail(value, last)
            if now is None or then is None:
                continue
            assert {meant.get(id, id) for id in now["alias_set"]} == {meant.get(id, id) for id in then["alias_set"]}


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
            assert stored is not None
            page = stored | {"alias_set": view["alias_sets"][stored["shared_set"]]}
            assert asked.visible(page) == asked.visible(live)


def test_a_value_is_asked_about_by_its_last_name_and_answered_in_the_state_s_own() -> None:
    history = irs.fuse(irs.parse(PROGRAM)).history
    inspection = HistoryInspection(history)
    graph = history.final
    inner = graph.value("b.1")
    for state in (0, len(history.steps)):
        alias = inspection.detail(inner.id, state)["alias"]
        assert alias is not None
        names = {record.id: f"%{name}" for record, name in graph.names.items()}
        assert "%row" in {names[id] for id in alias["alias_set"]}
    summary = inspection.detail(inner.id, 0)["alias"]
    assert summary is not None
    assert summary["summary"].startswith("%b may share memory with %row")


def test_a_page_has_an_answer_for_every_record_and_pairs_are_answered() -> None:
    history = irs.fuse(irs.parse(PROGRAM)).history
    view = history_view(history, details=True)
    inspection = HistoryInspection(history)
    assert set(view["details"]) == set(inspection.records)
    pair = inspection.pair(history.final.value("b").id, history.final.value("row").id)
    assert pair["alias"] is not None
    assert pair["alias"]["holds"]
    with pytest.raises(irs.IrscopeError, match="nothing in"):
        inspection.detail(10**9)
