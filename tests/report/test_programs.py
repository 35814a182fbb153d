"""Which programs a history goes through, and what passes took away."""

from __future__ import annotations

import pytest

import irscope as irs
from irscope.errors import UnknownName
from irscope.report.pages.details import Inspection
from irscope.report.pages.exploration import Exploration
from irscope.report.pages.parts import explorer_view
from irscope.report.timeline import program_stops

WRITES = """graph(%x : Float(4, 4), %y : Float(4, 4)):
  %a : Float(4, 4) = aten::relu(%x)
  %b : Float(4, 4) = aten::mul_(%a, %y)
  %c : Float(4, 4) = aten::tanh(%b)
  return (%c)"""


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
    assert detail["alias"] is not None
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
        assert answer is not None
        assert answer["holds"] == bool(irs.AliasDb(g).may_alias(first, second))
    (write,) = irs.AliasDb(g).writers("a")
    past = inspection([write.id, a.id])
    assert past["alias"] is not None  # type: ignore[typeddict-item]
    assert past["alias"]["holds"]  # type: ignore[typeddict-item]
