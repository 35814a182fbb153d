"""A memory plan as a picture: rectangles that meet nowhere, of the plan's own numbers, well-formed and safe to show."""

from __future__ import annotations

from xml.etree import ElementTree

import irscope as irs
from irscope.display.ipython import _memory_plan
from irscope.display.memory_pictures import memory_svg
from irscope.report.panes.memory_view import memory_view

PROGRAM = """graph(%x : Float(256)):
  %a : Float(256) = aten::neg(%x)
  %b : Float(256) = aten::exp(%a)
  %c : Float(512) = foo::"<b>&"(%b)
  %d : Float(256) = aten::tanh(%b)
  %e : Float(256) = aten::mul(%d, %x)
  return (%e)""".replace('foo::"<b>&"', "foo::strange")


def test_rectangles_are_the_plans_and_meet_nowhere() -> None:
    plan = irs.memory_plan(irs.parse(PROGRAM))
    view = memory_view(plan)
    assert {bar["label"] for bar in view["bars"]} == {"%a", "%b", "%d", "%e"}  # %c may be anything
    assert sum(bar["bytes"] for bar in view["bars"] if bar["at_peak"]) == plan.lower_bound == view["lower_bound"]
    assert (view["peak"], view["peak_moment"]) == (plan.peak, plan.peak_moment)
    assert max(value for _, value in view["needed"]) == plan.lower_bound
    assert max(value for _, value in view["allocated"]) == plan.peak
    for one in view["bars"]:
        (section,) = (s for s in view["sections"] if s["low"] <= one["low"] < s["low"] + s["bytes"])
        assert one["low"] + one["bytes"] <= section["low"] + section["bytes"]
        for other in view["bars"]:
            apart = one["end"] < other["start"] or other["end"] < one["start"]
            beside = one["low"] + one["bytes"] <= other["low"] or other["low"] + other["bytes"] <= one["low"]
            assert one is other or apart or beside


def test_the_picture_is_well_formed_and_marks_the_peak() -> None:
    view = memory_view(irs.memory_plan(irs.parse(PROGRAM)))
    view["bars"][0]["title"] = '</title><script>"&'
    view["bars"][0]["label"] = "<&"
    picture = memory_svg(view)
    root = ElementTree.fromstring(picture)
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert '</title><script>"&' in titles
    assert [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")].count("peak") == 1
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


def test_an_empty_plan_and_one_of_unknown_sizes_show_themselves() -> None:
    empty = irs.memory_plan(irs.parse("graph(%x : Float(4)):\n  return (%x)"))
    ElementTree.fromstring(memory_svg(memory_view(empty)))
    unknown = irs.memory_plan(irs.parse("graph(%x : Tensor):\n  %a : Tensor = aten::neg(%x)\n  return (%a)"))
    assert "Not counted: 1 value of unknown size" in memory_view(unknown)["caption"]
    assert "<img" in _memory_plan(unknown)


def test_the_caption_names_the_line_of_the_peak_without_the_folders_of_this_machine() -> None:
    text = """graph(%x : Float(256)):
  %a : Float(256) = aten::exp(%x) # /home/somebody/models/net.py:12:3
  %b : Float(256) = aten::neg(%a) # /home/somebody/models/net.py:13:3
  return (%a, %b)"""
    caption = memory_view(irs.memory_plan(irs.parse(text)))["caption"]
    assert "…/net.py:1" in caption and "somebody" not in caption
