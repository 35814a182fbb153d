"""What if, in a real Lab: branches by mouse and by keyboard, refusals with their reason, and a program whose text is edited."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from tests.browser.conftest import ACTIVE, Lab, expect, holds, opened, prints, settled

PROGRAM = '''
import irscope as irs, numpy as np
g = irs.parse("""graph(%x : Float(64, 64), %y : Float(64, 64)):
  %a : Float(64, 64) = aten::relu(%x)
  %b : Float(64, 64) = aten::tanh(%a)
  %s : Float(64, 64), %i : Long(64, 64) = aten::sort(%b)
  %c : Float(64, 64) = aten::exp(%s)
  %d : Float(64, 64) = aten::mul(%c, %y)
  return (%d)""")
x = np.random.default_rng(0).random((64, 64), dtype=np.float32)
e = irs.explore(g, x, x.copy())
e
'''
CELL = """%%ir --edit h
graph(%x : Float(8)):
  %a : Float(8) = aten::relu(%x)
  %b : Float(8) = aten::tanh(%a)
  return (%b)"""
LIVE = f"{ACTIVE} .irs"
ROWS = f"{LIVE} .irs-branch"


@pytest.fixture(scope="module")
def views(lab: Lab) -> Iterator[Lab]:
    """An explorer, alone in its notebook."""
    with lab.shown("branches.ipynb", PROGRAM, until=".irs .irs-branches", seconds=90):
        yield lab


def line(name: str) -> str:
    return f'{LIVE} .irs-line:has-text("%{name} :"), {LIVE} .irs-line:has-text("%{name} =")'


def test_the_menu_forbids_a_merge_by_mouse_and_the_branch_is_shown_beside_the_old_one(views: Lab) -> None:
    page = views.page
    views.python("e.selection = ['a', 'b']")
    page.locator(f"{LIVE} .irs-line.selected").first.click(button="right", position={"x": 90, "y": 8})
    page.get_by_role("menuitem", name="in different kernels").click()
    page.locator(f"{ROWS}.shown", has_text="a | b apart").wait_for()
    expect(page.locator(ROWS)).to_have_count(2)
    expect(page.locator(LIVE).get_by_role("tab", name="Timing")).to_be_visible()  # a branch can be timed op by op and fused as well
    prints(views, "(e.branch, [b.name for b in e.branches])", "(1, ['greedy', 'a | b apart'])")
    copy = page.locator(f"{ROWS}.shown").get_by_role("button", name="copy the Python")
    expect(copy).to_have_attribute("title", re.compile(r"f\.what_if\(forbid=\[\("))
    page.locator(ROWS).first.locator(".irs-branch-name").focus()
    page.keyboard.press("Enter")
    page.locator(f"{ROWS}.shown", has_text="greedy").wait_for()
    expect(page.locator(f"{ROWS}.shown .irs-branch-name")).to_be_focused()  # though all rows were drawn anew
    prints(views, "e.branch", "0")


def test_an_edge_asks_about_both_its_ends_and_the_key_for_menus_about_what_is_selected(views: Lab) -> None:
    page = views.page
    boxes = "g = e.branches[0].fusion.graph; print(*[(g.owner.get(g.block_of[g.node(name)]) or g.node(name)).id for name in ('s', 'c')])"
    maker, reader = views.python(boxes).split()
    page.locator(f"{LIVE} .irs-graph button", has_text="fit").click()
    page.locator(f"{LIVE} .irs-stage").scroll_into_view_if_needed()
    settled(page)
    path = page.locator(f'{LIVE} path[data-from="{maker}"][data-to="{reader}"]')
    x, y = path.evaluate("""path => { const at = path.getPointAtLength(path.getTotalLength() / 2).matrixTransform(path.getScreenCTM());
      return [at.x, at.y]; }""")
    page.mouse.click(x, y, button="right")
    page.locator("[role=menu] [role=menuitem]", has_text="in one kernel").first.wait_for()
    expect(page.locator("[role=menu] [role=menuitem]").first).to_contain_text("%s")
    page.keyboard.press("Escape")
    views.python("e.selection = ['a', 'd']")
    page.locator(f"{LIVE} .irs-line.selected").first.wait_for()
    page.locator(f"{LIVE} .irs-text .irs-scroller").focus()
    page.keyboard.press("ContextMenu")
    page.get_by_role("menuitem", name="in different kernels").wait_for()
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_have_count(0)


def test_the_keyboard_opens_the_menu_and_a_wrong_wish_is_refused_with_its_reason(views: Lab) -> None:
    page = views.page
    views.python("e.selection = ['a', 'd']")
    expect(page.locator(f"{LIVE} .irs-line.selected")).to_have_count(2)
    page.locator(f"{LIVE} .irs-text .irs-scroller").focus()
    wish = page.get_by_role("menuitem", name="in one kernel").first
    page.keyboard.press("w")
    expect(wish).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_have_count(0)
    page.keyboard.press("w")
    expect(wish).to_be_focused()
    page.keyboard.press("Enter")
    refused = page.locator(f"{LIVE} .irs-branch-below", has_text="would create a cycle")
    expect(refused).to_contain_text("%a and %d cannot be in one kernel")


def test_branches_are_measured_and_compared_line_by_line(views: Lab) -> None:
    page = views.page
    page.locator(f"{LIVE} .irs-branch-bar").get_by_role("button", name="measure", exact=True).click()
    holds(page, "rows => [...document.querySelectorAll(rows)].every(row => /call [0-9.]+ [µm]?s/.test(row.textContent))", ROWS)
    page.locator(ROWS).nth(1).get_by_role("button", name="compare").click()
    page.locator(f"{LIVE} .irs-branch-diff tr").nth(1).wait_for()
    page.locator(f"{LIVE} .irs-diff-new, {LIVE} .irs-diff-changed").first.wait_for()


def test_the_pair_panel_offers_the_other_way_round(views: Lab) -> None:
    views.python("e.branch = 0; e.selection = ['a', 'b']")
    views.page.locator(f"{LIVE} .irs-inspector").get_by_role("button", name="what if they were apart?").click()
    prints(views, "e.branches[-1].name.count('apart')", "1")


SAME_PLACE = """(where, before) => { const numbers = told => (told ?? '').match(/[-\\d.]+/g)?.map(Number) ?? [];
const [now, then] = [numbers(document.querySelector(where)?.getAttribute('transform')), numbers(before)];
return now.length === then.length && now.every((number, at) => Math.abs(number - then[at]) < 0.01); }"""
DRAWN_AGAIN = """async live => { let drawn = 0;
const seen = new MutationObserver(() => drawn++);
seen.observe(document.querySelector(live).parentElement, {childList: true, subtree: false});
await new Promise(after => setTimeout(after, 1200)); seen.disconnect(); return drawn; }"""


def test_all_panes_follow_what_is_written_and_an_error_is_marked_in_its_place(views: Lab) -> None:
    page = views.page
    views.python("e.branch = 0; e.selection = ['b']")
    page.locator(f"{ROWS}.shown", has_text="greedy").wait_for()
    page.locator(f"{LIVE} .irs-text").get_by_role("button", name="edit").click()
    area = page.locator(f"{LIVE} .irs-editor-area")
    area.wait_for()
    graph = page.locator(f"{LIVE} .irs-graph")
    for name in ("close all", "zoom in", "zoom in"):
        graph.get_by_role("button", name=name).click()
    graph.locator(".irs-kind-group[aria-expanded=false]").first.wait_for()
    settled(page)
    window = graph.locator(".irs-svg > g[transform]").first  # a new picture has none until its first frame
    before = window.get_attribute("transform")
    text = area.input_value()
    place = text.index("relu")
    area.evaluate("(area, at) => { area.focus(); area.setSelectionRange(at, at + 4); }", place)
    page.keyboard.type("neg")
    page.locator(f"{LIVE} .irs-svg", has_text="neg").wait_for()
    expect(graph.locator(".irs-kind-group[aria-expanded=true]")).to_have_count(0)  # another program, and what was closed and seen stays so
    holds(page, SAME_PLACE, f"{LIVE} .irs-graph .irs-svg > g[transform]", before)
    now = "e.branches[e.branch].name, e.branches[e.branch].fusion.original.node('a').op, [v.name for v in e.selected]"
    prints(views, now, "edited aten::neg ['b']")
    expect(area).to_be_focused()  # another program, and the writer goes on
    said = page.locator(f"{LIVE} .irs-editor-said.wrong")
    area.evaluate("area => { const at = area.value.indexOf('%a)') + 1; area.setSelectionRange(at, at + 1); }")
    page.keyboard.type("nope")
    said.filter(has_text="%nope is not defined here").wait_for()
    expect(said).to_contain_text("line 4")
    page.locator(f"{LIVE} .irs-editor-line.wrong", has_text="%nope").wait_for()
    prints(views, "e.branches[e.branch].fusion.original.node('a').op", "aten::neg")
    views.python("e.selection = ['c']")
    page.locator(f"{LIVE} .irs-box.selected, {LIVE} .irs-box.holding").first.wait_for()
    expect(area).to_have_value(re.compile("%nope"))
    for _ in range(4):
        page.keyboard.press("Backspace")
    page.keyboard.type("a")  # what it was: the program is the one that is shown
    page.locator(f"{LIVE} .irs-editor-said:not(.wrong)").wait_for()
    expect(page.locator(f"{LIVE} .irs-editor-line.wrong")).to_have_count(0)
    assert page.evaluate(DRAWN_AGAIN, LIVE) == 0  # what was answered is not asked again
    page.keyboard.press("Backspace")
    page.keyboard.type("nope")
    said.filter(has_text="%nope is not defined here").wait_for()
    while "aten::relu(" not in area.input_value():  # letters in quick succession are undone together: how many is the machine's business
        page.keyboard.press("Control+z")
    prints(views, "e.branches[e.branch].fusion.original.node('a').op", "aten::relu")
    while "aten::neg(" not in area.input_value():
        page.keyboard.press("Control+Shift+z")
    prints(views, "e.branches[e.branch].fusion.original.node('a').op", "aten::neg")
    page.keyboard.press("Escape")
    expect(page.locator(f"{LIVE} .irs-editor-area")).to_have_count(0)
    edit = page.locator(f"{LIVE} .irs-text").get_by_role("button", name="edit")
    expect(edit).to_be_focused()
    views.python("e.branch = 0")
    page.locator(f"{LIVE} .irs-svg", has_text="relu").wait_for()
    expect(edit).to_be_focused()  # also after another program was drawn


def test_a_cell_of_text_can_be_written_on_and_its_variable_follows(lab: Lab) -> None:
    with lab.shown("cell.ipynb", "%load_ext irscope", CELL, until=".irs .irs-editor-area"):
        area = lab.page.locator(f"{LIVE} .irs-editor-area")
        area.evaluate("area => { const at = area.value.indexOf('tanh'); area.focus(); area.setSelectionRange(at, at + 4); }")
        lab.page.keyboard.type("exp")
        prints(lab, "h.node('b').op", "aten::exp")


def test_a_page_from_disk_is_read_only_and_says_so(browser: Any, tmp_path: Path) -> None:
    report = irs.write_report(irs.parse(CELL.partition("\n")[2]), output=tmp_path / "page.html")
    with opened(browser, report.as_uri(), ".irs-line") as page:
        page.locator(".irs-text .irs-bar", has_text="read-only").wait_for()
        page.locator(".irs-line").nth(1).click(button="right")
        settled(page)
        assert page.locator(".irs-branches, .irs-menu, .irs-editor").count() == 0
