"""The panes of tables, by mouse and by keyboard: layouts, byte maps, copies and the memory plan; equal pieces, with the ladder, cards,
holes and pieces side by side; panes that fill the explorer.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from tests.browser.conftest import ACTIVE, Lab, expect, holds, opened
from tests.report.panes.test_memory_view import PROGRAM
from tests.report.panes.test_same_view import HAND


@pytest.fixture
def laid_out(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """A page of a program with views and a copy."""
    report = irs.write_report(irs.fuse(irs.parse(PROGRAM)), output=tmp_path / "m.html").as_uri()
    with opened(browser, report, ".irs-box") as page:
        yield page


def test_copies_stand_out_and_their_layout_says_why(laid_out: Any) -> None:
    page = laid_out
    expect(page.locator(".irs-box.moves")).to_have_count(1)
    expect(page.locator(".irs-line.moves")).to_have_count(1)
    page.locator(".irs-legend button", has_text="copies").click()
    page.locator(".irs-line.moves.selected", has_text="%copied").wait_for()
    page.locator(".irs-inspector").get_by_role("tab", name="Layout").click()
    page.locator(".irs-copy-note", has_text="stride(0) is 1 and would have to be 64").wait_for()


def test_docked_memory_has_more_height_while_it_is_in_sight_until_a_user_moves_its_border(laid_out: Any) -> None:
    page = laid_out
    high = "document.querySelector('{}').getBoundingClientRect().height"
    share = f"({high.format('.irs-dock')} / {high.format('.irs')})"
    tab = page.locator(".irs-dock [role=tab]", has_text="Points-to")
    first = page.evaluate(share)
    tab.click()
    holds(page, f"() => {share} > 0.45")
    tab.click()  # closes it
    holds(page, f"() => {share} < 0.1")
    page.locator(".irs-dock [role=tab]", has_text="Remarks").click()
    holds(page, f"first => Math.abs({share} - first) < 0.01", first)
    tab.click()
    page.get_by_role("separator", name="resize panes").and_(page.locator(".flat")).press("ArrowDown")
    holds(page, f"() => {share} > 0.42 && {share} < 0.45")


def test_the_byte_map_of_a_buffer_is_clicked_and_walked(laid_out: Any) -> None:
    page = laid_out
    page.locator(".irs-inspector").wait_for()
    page.locator(".irs-text [data-record]", has_text="%left").first.click()
    page.locator(".irs-inspector").get_by_role("tab", name="Layout").click()
    expect(page.locator(".irs-axis").first).to_have_text(re.compile("^axis 0: 8"))
    page.locator(".irs-buffer-row", has_text="%t").click()
    page.locator(".irs-subject h3", has_text="%t").wait_for()
    page.get_by_role("listbox", name="bytes of the buffer of %x").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Home")
    page.locator(".irs-subject h3", has_text="%x").wait_for()


def test_the_memory_plan_is_linked_with_the_selection(laid_out: Any) -> None:
    page = laid_out
    page.get_by_role("tab", name="Memory").click()
    bars = page.locator(".irs-memory-bar")
    bars.nth(2).wait_for()
    page.locator(".irs-memory-bar.peak").first.wait_for()
    expect(page.locator(".irs-memory-peak")).to_have_count(1)
    page.get_by_role("listbox", name="memory plan").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".irs-line.selected", has_text="%copied").wait_for()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".irs-memory-bar.selected")).to_have_count(1)
    expect(page.locator(".irs-memory .irs-said-below")).to_contain_text("made by")


def test_a_notebook_plans_the_memory_of_the_step_that_is_shown(lab: Lab) -> None:
    given = "import irscope as irs\nfrom tests.report.panes.test_memory_view import PROGRAM"
    with lab.shown("memory.ipynb", given, "e = irs.explore(irs.fuse(irs.parse(PROGRAM)))\ne", until=".irs .irs-box.moves"):
        live = lab.page.locator(f"{ACTIVE} .irs")
        live.get_by_role("tab", name="Memory").click()
        live.locator(".irs-memory-bar").first.wait_for()
        lab.python("e.step = 0")
        live.locator(".irs-memory", has_text="at step 0:").wait_for()
        live.locator(".irs-text [data-record]", has_text="%left").first.click()
        live.locator(".irs-inspector").get_by_role("tab", name="Layout").click()
        live.locator(".irs-buffer-row").first.wait_for()
        lab.python("e.selection = ['x']")
        live.locator(".irs-subject h3", has_text="%x").wait_for()
        live.get_by_label("assumed layout").select_option("columns")
        live.locator(".irs-sentence", has_text="with %x column by column, 1 node would copy 256 B (now 1 node copying 256 B)").wait_for()
        expect(live.locator(".irs-neighbour")).to_have_count(2)


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    report = irs.write_report(irs.dedup(irs.fuse(irs.parse(HAND))), output=tmp_path / "d.html").as_uri()
    with opened(browser, report, ".irs-rung.chosen") as page:
        page.locator(".irs-rung.chosen").wait_for()  # the only one
        yield page


def test_a_step_shows_its_cards_and_a_card_its_holes_side_by_side(page: Any) -> None:
    expect(page.locator(".irs-rung.chosen")).to_contain_text("alpha")
    expect(page.locator(".irs-card")).to_have_count(2)
    page.locator(".irs-rung", has_text="constants").click()
    page.locator(".irs-card", has_text="×2").click()
    page.locator(".irs-same-detail", has_text='d.apply("constants") applies it').wait_for()
    expect(page.locator(".irs-kind-group.selected")).to_have_count(2)
    expect(page.locator(".irs-holes td.other")).to_have_text("0.25")
    expect(page.locator(".irs-beside .irs-hole")).to_have_text(["0.5", "0.25"])
    page.locator(".irs-beside .irs-hole").first.hover()
    page.locator(".irs-holes th.lit", has_text="'other' of aten::mul").wait_for()
    page.locator(".irs-beside td", has_text="aten::tanh").last.click(position={"x": 4, "y": 6})
    page.locator(".irs-line.selected", has_text="aten::tanh(%d)").wait_for()


def test_a_box_of_equal_parts_says_what_differs_between_them_and_opens_each(browser: Any, tmp_path: Path) -> None:
    lines = "".join(
        f"  %t{k} : Float(4) = aten::tanh(%x{k})\n  %k{k} : float = prim::Constant[value=0.{k + 1}]()\n"
        f"  %e{k} : Float(4) = aten::mul(%t{k}, %k{k})\n  %x{k + 1} : Float(4) = foreign::op(%e{k})\n" for k in range(3)
    )  # fmt: skip
    text = f"graph(%x0 : Float(4)):\n{lines}  return (%x3)"
    report = irs.write_report(irs.parse(text), output=tmp_path / "r.html").as_uri()
    with opened(browser, report, ".irs-graph") as page:
        page.locator(".irs-graph").get_by_text("×3").click()
        table = page.locator(".irs-inspector .irs-holes")
        table.wait_for()
        expect(page.locator(".irs-repeat .irs-sentence").first).to_contain_text("each reads the result of the one before")
        expect(table.locator("thead th")).to_have_text(["", "'other' of aten::mul", "from the previous one"])
        expect(table.locator("tbody td:nth-of-type(1)")).to_have_text(["0.1", "0.2", "0.3"])
        expect(page.locator(".irs-repeat .irs-beside .irs-hole")).to_have_text(["%x0", "%x1", "0.1", "0.2"])
        table.get_by_role("button", name="region0.1", exact=True).click()
        page.locator(".irs-subject h3", has_text="region0.1").wait_for()


def test_the_ladder_and_the_cards_are_walked_with_arrow_keys(page: Any) -> None:
    page.get_by_role("listbox", name="steps of the ladder").focus()
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    expect(page.locator(".irs-rung.chosen")).to_contain_text("constants")
    page.get_by_role("listbox", name="classes at step constants").focus()
    page.keyboard.press("Home")
    page.locator(".irs-same-detail", has_text="2 pieces that are equal at step 'constants'").wait_for()
    page.get_by_role("combobox", name="piece on the right").select_option("0")
    page.locator(".irs-sides", has_text="a notebook with a kernel").wait_for()


def test_a_pane_fills_the_explorer_and_gives_the_others_their_place_again(page: Any) -> None:
    def shown(*names: str) -> None:
        for name in ("text", "graph", "inspector", "dock"):
            expect(page.locator(f".irs-{name}")).to_be_visible(visible=name in names)

    width = "document.querySelector('.irs-graph').getBoundingClientRect().width"
    wide = page.evaluate(width)
    assert wide < 1300
    page.locator(".irs-graph .irs-whole").click()
    shown("graph")
    holds(page, f"() => {width} > 1300")
    page.locator(".irs-graph .irs-whole").focus()
    page.keyboard.press("Enter")
    shown("text", "graph", "inspector", "dock")
    holds(page, f"wide => {width} === wide", wide)
    page.locator(".irs-dock .irs-whole").click()
    shown("dock")
    page.get_by_role("button", name="tables", exact=True).click()
    for name in ("text", "inspector"):
        page.get_by_role("button", name=name, exact=True).click()
    shown("graph", "dock")
    holds(page, f"() => {width} > 1300")


def test_a_notebook_shows_any_two_pieces_side_by_side(lab: Lab) -> None:
    given = "import irscope as irs\nfrom tests.report.panes.test_same_view import HAND\nf = irs.fuse(irs.parse(HAND))"
    with lab.shown("same.ipynb", given, "e = irs.explore(irs.dedup(f))\ne", until=".irs .irs-card"):
        live = lab.page.locator(f"{ACTIVE} .irs")
        live.locator(".irs-card").first.click()
        lab.python("e.selection = [g.id for g in f.groups]")
        live.get_by_role("button", name="show them side by side").click()
        expect(live.locator(".irs-verdict .irs-beside .irs-hole")).to_have_text(["0.5", "0.25"])
