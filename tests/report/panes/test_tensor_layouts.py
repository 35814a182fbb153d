"""Layouts, byte maps, copies and the memory plan as a page shows them, stored ahead or asked for."""

from __future__ import annotations

import json

import pytest

import irscope as irs
from irscope.errors import ArgumentError, UnknownName
from irscope.report.pages import Exploration, Inspection
from irscope.report.pages.parts import ProgramPage, explorer_view
from irscope.report.panes import LayoutViews

PROGRAM = """graph(%x : Float(8, 8, strides=[8, 1], device=cpu), %i : int):
  %none : NoneType = prim::Constant()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %four : int = prim::Constant[value=4]()
  %flat : int[] = prim::Constant[value=[64]]()
  %left : Float(8, 4, strides=[8, 1], device=cpu) = aten::slice(%x, %one, %zero, %four, %one)
  %t : Float(8, 8, strides=[1, 8], device=cpu) = aten::t(%x)
  %copied : Float(64, strides=[1], device=cpu) = aten::reshape(%t, %flat)
  %free : Float(64, strides=[1], device=cpu) = aten::reshape(%x, %flat)
  %a : Float(64, strides=[1], device=cpu) = aten::cumsum(%copied, %zero, %none)
  %b : Float(64, strides=[1], device=cpu) = aten::cumsum(%free, %zero, %none)
  %c : Float(64, strides=[1], device=cpu) = aten::add(%a, %b, %one)
  %d : Float(64, strides=[1], device=cpu) = aten::tanh(%c)
  return (%d, %left)
"""


@pytest.fixture(scope="module")
def exploration() -> Exploration:
    return Exploration(irs.fuse(irs.parse(PROGRAM)))


def test_a_copy_is_shown_with_the_step_that_failed(exploration: Exploration) -> None:
    (copy,) = exploration.layouts.copies()
    assert (copy["label"], copy["bytes"]) == ("%copied = reshape", 256) and "stride(0) = 1, 64 needed" in copy["because"]
    found = exploration.layouts.layout(exploration.graph.value("copied"))
    assert (found["kind"], found["decided"], found["root"], found["buffer"]) == ("copy", True, exploration.graph.value("copied").id, None)


def test_a_view_has_its_axes_in_memory_order_and_the_map_of_its_buffer(exploration: Exploration) -> None:
    found = exploration.layouts.layout(exploration.graph.value("t"))
    assert found["kind"] == "view" and [(axis["axis"], axis["stride"]) for axis in found["axes"]] == [(1, "8"), (0, "1")]
    assert found["buffer"] is not None and found["buffer"]["bytes"] == 256
    assert {row["name"] for row in found["buffer"]["rows"]} == {"%x", "%left", "%t", "%free"}


def test_an_argument_may_be_asked_what_if_it_lay_otherwise() -> None:
    g = irs.parse("""graph(%x : Float(2, 8, 4, 4, strides=[128, 16, 4, 1], device=cpu)):
      %a : Float(2, 8, 4, 4, strides=[128, 16, 4, 1], device=cpu) = aten::exp(%x)
      %nhwc : int[] = prim::Constant[value=[0, 2, 3, 1]]()
      %b : Float(2, 4, 4, 8, strides=[128, 4, 1, 16], device=cpu) = aten::permute(%a, %nhwc)
      %rows : int[] = prim::Constant[value=[32, 8]]()
      %c : Float(32, 8, strides=[8, 1], device=cpu) = aten::reshape(%b, %rows)
      %flat : int[] = prim::Constant[value=[256]]()
      %d : Float(256, strides=[1], device=cpu) = aten::reshape(%a, %flat)
      return (%c, %d)""")
    layouts, x = LayoutViews(g), g.value("x")
    assert (layouts.layout(x)["others"], layouts.layout(g.value("a"))["others"]) == (["channels_last"], [])
    found = layouts.assumed(x, "channels_last")
    assert [[copy["label"] for copy in found[side]] for side in ("views", "copies")] == [["%c = reshape"], ["%d = reshape"]]
    assert "with %x channels last, 1 node would copy 1.02 kB (now 1 node copying 1.02 kB)" in found["told"]
    with pytest.raises(ArgumentError, match="not a layout"):
        layouts.assumed(x, "sideways")
    with pytest.raises(ArgumentError, match="not an input"):
        layouts.assumed(g.value("a"), "channels_last")


def test_what_is_not_a_tensor_has_no_layout(exploration: Exploration) -> None:
    with pytest.raises(UnknownName, match="%i is not a tensor"):
        Inspection(exploration).layout(exploration.graph.value("i").id)


def test_a_page_without_python_holds_layouts_buffers_copies_and_the_plan(exploration: Exploration) -> None:
    view = json.loads(json.dumps(explorer_view(exploration, details=True)))
    x = exploration.graph.value("x").id
    assert view["layouts"][str(exploration.graph.value("left").id)]["root"] == x and len(view["buffers"][str(x)]["rows"]) == 4
    assert [copy["value"] for copy in view["copies"]] == [exploration.graph.value("copied").id]
    assert view["memory"]["peak"] > 0 and all(bar["id"] in exploration.records for bar in view["memory"]["bars"])


def test_a_live_page_asks_for_them(exploration: Exploration) -> None:
    page = ProgramPage(exploration)
    assert "copies" in explorer_view(exploration)["later"] and "layouts" not in explorer_view(exploration)
    assert page.part("copies") == {"copies": exploration.layouts.copies()}
    final = page.part("memory")["memory"]
    first = page.inspection.memory(0)
    assert final["peak"] < first["peak"] or len(first["bars"]) > len(final["bars"])  # before fusion %c has memory
    names = {bar["label"]: bar["id"] for bar in first["bars"]}
    assert names["%a"] in exploration.records


def test_copies_inside_of_kernels_are_not_shown() -> None:
    fused = irs.fuse(irs.parse(PROGRAM.replace("aten::cumsum(%copied, %zero, %none)", "aten::tanh(%copied)")))
    inside = [node.op for group in fused.groups for node in group.blocks[0].nodes]
    told = {copy["label"] for copy in LayoutViews(fused.graph).copies()}
    assert told == (set() if "aten::reshape" in inside else {"%copied = reshape"})
