"""Programs whose values have no names of their own are numbered again by every pass; what is said of them must not be."""

from __future__ import annotations

import re

import irscope as irs
from irscope.report.pages.details import Inspection
from irscope.report.pages.exploration import Exploration
from irscope.report.pages.parts import explorer_view
from irscope.report.panes.fusion_view import remarks_table
from irscope.report.words import names_in


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
    assert shown != fusion.history.records[-1].before.names[written] != fusion.original.names[written]
    table = remarks_table(fusion.history, names_in(fusion.history))
    rows = [row for row in table["rows"] if row[0] == "missed"]
    assert [row[2] for row in rows] == [f"add_ %{shown}"]
    inspection = Inspection(Exploration(fusion))
    sentence = inspection.detail(written.id)["fusion"]
    names = {f"%{name}" for name in fusion.graph.names.values()}
    assert set(re.findall(r"%[\w.]+", sentence)) <= names
    pair = inspection.pair(fusion.graph.producer[written].inputs[1].id, written.id)["fusion"]
    assert pair is not None
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
