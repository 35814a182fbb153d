"""Memory as a page shows it: layouts, maps of bytes, copies, and the plan as a picture, stored ahead or asked for."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

import irscope as irs
from irscope.analysis.memory_plan import Allocation, OwnMemory
from irscope.compilers.record import program_of
from irscope.display.memory_pictures import buffer_svg, memory_svg
from irscope.errors import ArgumentError, UnknownName
from irscope.report.pages import Exploration, Inspection, ProgramPage
from irscope.report.pages.parts import explorer_view
from irscope.report.panes import LayoutViews, buffer_view, buffers_with_views, memory_view, own_memory_view
from irscope.session import exploration as explored
from tests.programs import ir, parsed

PROGRAM = ir(
    "x:Float(8, 8, strides=[8, 1], device=cpu) i:int | none = None; zero = 0; one = 1; four = 4; flat = [64]; "
    "left:Float(8, 4, strides=[8, 1], device=cpu) = slice x one zero four one; t:Float(8, 8, strides=[1, 8], device=cpu) = t x; "
    "copied = reshape t flat; free = reshape x flat; a = cumsum copied zero none; b = cumsum free zero none; c = add a b one; d = tanh c | "
    "d left",
    "Float(64, strides=[1], device=cpu)",
)


@pytest.fixture(scope="module")
def exploration() -> Exploration:
    return Exploration(irs.fuse(irs.parse(PROGRAM)))


def test_a_copy_is_shown_with_the_step_that_failed(exploration: Exploration) -> None:
    (copy,) = exploration.layouts.copies()
    assert (copy["label"], copy["bytes"]) == ("%copied = reshape", 256) and "stride(0) is 1 and would have to be 64" in copy["because"]
    found = exploration.layouts.layout(exploration.graph.value("copied"))
    assert (found["kind"], found["decided"], found["root"], found["buffer"]) == ("copy", True, exploration.graph.value("copied").id, None)


def test_an_argument_may_be_asked_what_if_it_lay_otherwise() -> None:
    g = parsed(
        "x | a = exp x; nhwc = [0, 2, 3, 1]; b:Float(2, 4, 4, 8, strides=[128, 4, 1, 16], device=cpu) = permute a nhwc; rows = [32, 8]; "
        "c:Float(32, 8, strides=[8, 1], device=cpu) = reshape b rows; flat = [256]; "
        "d:Float(256, strides=[1], device=cpu) = reshape a flat | c d",
        "Float(2, 8, 4, 4, strides=[128, 16, 4, 1], device=cpu)",
    )
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
    assert len(first["bars"]) > len(final["bars"])  # before fusion %c has memory
    names = {bar["label"]: bar["id"] for bar in first["bars"]}
    assert names["%a"] in exploration.records


def test_copies_inside_of_kernels_are_not_shown() -> None:
    fused = irs.fuse(irs.parse(PROGRAM.replace("aten::cumsum(%copied, %zero, %none)", "aten::tanh(%copied)")))
    inside = [node.op for group in fused.groups for node in group.blocks[0].nodes]
    told = {copy["label"] for copy in LayoutViews(fused.graph).copies()}
    assert told == (set() if "aten::reshape" in inside else {"%copied = reshape"})


SLICED = ir(
    "x:Float(4, 8, strides=[8, 1]) | c0 = 0; c1 = 1; c4 = 4; c8 = 8; left = slice x c1 c0 c4 c1; right = slice x c1 c4 c8 c1; "
    "top = select x c0 c0; all = slice x c0 c0 c4 c1 | left right top all"
)


def test_bytes_are_drawn_to_scale_and_meetings_are_marked() -> None:
    va = irs.ViewAliases(irs.parse(SLICED))
    assert [va.graph.names[root] for root in buffers_with_views(va)] == ["x"]
    view = buffer_view(va, "x")
    rows = {row["name"]: row for row in view["rows"]}
    assert view["bytes"] == 128
    assert rows["%x"]["runs"] == [[0, 1]]
    assert rows["%left"]["runs"] == [[0, 1 / 8], [2 / 8, 3 / 8], [4 / 8, 5 / 8], [6 / 8, 7 / 8]]
    assert rows["%right"]["shared"] == [[1 / 8, 2 / 8]]  # with %top, and not with %left
    assert rows["%x"]["shared"] == rows["%all"]["shared"] == []
    assert buffer_svg(view).count("<g ") == 5


def test_a_view_stands_below_what_it_is_a_view_of() -> None:
    graph = parsed(
        "x:Float(8, 4, strides=[4, 1]) | 0 = 0; 1 = 1; a:Float(4) = select x 0 0; b:Float(4) = select x 0 1; "
        "c:Float(1, 4) = unsqueeze a 0; d:Float(1, 4) = unsqueeze b 0 | c d"
    )
    assert [(row["name"], row["depth"]) for row in buffer_view(irs.ViewAliases(graph), "x")["rows"]] == [
        ("%x", 0), ("%a", 1), ("%c", 2), ("%b", 1), ("%d", 2),
    ]  # fmt: skip


def test_what_repeats_too_often_to_be_seen_is_drawn_once() -> None:
    """Channels of an image, channels last: 8 of 48 bytes, then 8 of which the last 4 are those of a third value."""
    graph = parsed(
        "x:Float(32, 64, 12, strides=[768, 12, 1]) | axis = 2; 0 = 0; 2 = 2; 3 = 3; 4 = 4; 8 = 8; 1 = 1; a = slice x axis 0 2 1; "
        "b = slice x axis 2 4 1; c = slice x axis 3 8 1 | a b c"
    )
    view = buffer_view(irs.ViewAliases(graph), "x")
    assert (view["bytes"], view["window"]) == (98304, 48)
    whole, a, b, c = view["rows"]
    assert whole["runs"] == [[0.0, 1.0]]
    assert [[round(48 * at) for at in run] for row in (a, b, c) for run in row["runs"]] == [[0, 8], [8, 16], [12, 32]]
    assert not a["shared"] and not whole["shared"]
    assert [[round(48 * at) for at in run] for row in (b, c) for run in row["shared"]] == [[12, 16]] * 2
    assert "2,048 such parts" in buffer_svg(view)


PLANNED = ir("x | a = neg x; b = exp a; c:Float(512) = foo::strange b; d = tanh b; e = mul d x | e", "Float(256)")


def test_rectangles_are_the_plans_and_meet_nowhere() -> None:
    plan = irs.memory_plan(irs.parse(PLANNED))
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


def test_a_copy_in_a_plan_has_the_colour_of_copies() -> None:
    graph = parsed(
        "x:Float(8, 4, strides=[4, 1]) | 0 = 0; 1 = 1; t:Float(4, 8, strides=[1, 4]) = transpose x 0 1; "
        "c:Float(4, 8, strides=[8, 1]) = contiguous t 0; d:Float(4, 8, strides=[8, 1]) = exp c | d"
    )
    assert {bar["label"]: bar["category"] for bar in memory_view(irs.memory_plan(graph))["bars"]} == {"%c": "memory", "%d": "pointwise"}


def test_the_picture_is_well_formed_and_marks_the_peak() -> None:
    view = memory_view(irs.memory_plan(irs.parse(PLANNED)))
    view["bars"][0]["title"] = '</title><script>"&'
    view["bars"][0]["label"] = "<&"
    picture = memory_svg(view)
    root = ElementTree.fromstring(picture)
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert '</title><script>"&' in titles
    assert [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")].count("peak") == 1
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


def test_the_caption_names_the_line_of_the_peak_without_the_folders_of_this_machine() -> None:
    text = """graph(%x : Float(256)):
  %a : Float(256) = aten::exp(%x) # /home/somebody/models/net.py:12:3
  %b : Float(256) = aten::neg(%a) # /home/somebody/models/net.py:13:3
  return (%a, %b)"""
    caption = memory_view(irs.memory_plan(irs.parse(text)))["caption"]
    assert "…/net.py:1" in caption and "somebody" not in caption


def test_a_compiler_s_own_allocation_is_a_second_curve_with_where_it_is_read_from() -> None:
    graph = irs.parse(PLANNED)
    held = (Allocation("a", 64, 0, 1, block=1), Allocation("b", None, 1, 1, "by the library", 2))
    memory = OwnMemory("its log", ("k0", "k1", "k2"), held, total=128)
    program = replace(program_of(graph, [], compiler="other"), memory=memory)
    assert "own_memory" in ProgramPage(explored(program, (), measure="never")).part("memory")
    own = own_memory_view(program, memory, irs.memory_plan(graph))
    assert (own["curve"], own["peak"], own["peak_moment"]) == ([[0, 64], [2, 0]], 64, 0)
    assert own["told"].startswith("other's own program holds at least 64 B at its peak (by plan: ")
    assert own["told"].endswith("Read from its log.")
    assert "128 B for a whole run; 1 allocation without a known size" in own["told"]
    assert own["allocations"]["rows"][1] == ["b", None, "1: k1", "1: k1", "by the library"]
