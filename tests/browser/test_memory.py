"""Layouts, byte maps, copies and the memory plan in the explorer, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import irscope as irs
from tests.browser.conftest import ACTIVE, Lab, opened
from tests.report.panes.test_tensor_layouts import PROGRAM


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    return irs.write_report(irs.fuse(irs.parse(PROGRAM)), output=tmp_path_factory.mktemp("report") / "m.html").as_uri()


@pytest.fixture
def page(browser: Any, report: str) -> Iterator[Any]:
    with opened(browser, report, ".irs-box") as page:
        yield page


def test_copies_stand_out_and_their_layout_says_why(page: Any) -> None:
    assert page.locator(".irs-box.moves").count() == 1 and page.locator(".irs-line.moves").count() == 1
    page.locator(".irs-legend button", has_text="copies").click()
    page.locator(".irs-line.moves.selected", has_text="%copied").wait_for()
    page.locator(".irs-inspector").get_by_role("tab", name="Layout").click()
    page.locator(".irs-copy-note", has_text="stride(0) = 1, 64 needed").wait_for()


def test_the_byte_map_of_a_buffer_is_clicked_and_walked(page: Any) -> None:
    page.locator(".irs-inspector").wait_for()
    page.locator(".irs-text [data-record]", has_text="%left").first.click()
    page.locator(".irs-inspector").get_by_role("tab", name="Layout").click()
    assert page.locator(".irs-axis").all_inner_texts()[0].startswith("axis 0: 8")
    page.locator(".irs-buffer-row", has_text="%t").click()
    page.locator(".irs-subject h3", has_text="%t").wait_for()
    page.get_by_role("listbox", name="bytes of the buffer of %x").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Home")
    page.locator(".irs-subject h3", has_text="%x").wait_for()


def test_the_memory_plan_is_linked_with_the_selection(page: Any) -> None:
    page.get_by_role("tab", name="Memory").click()
    bars = page.locator(".irs-memory-bar")
    assert bars.count() >= 3 and page.locator(".irs-memory-bar.peak").count() and page.locator(".irs-memory-peak").count() == 1
    page.get_by_role("listbox", name="memory plan").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".irs-line.selected", has_text="%copied").wait_for()
    page.keyboard.press("ArrowRight")
    assert page.locator(".irs-memory-bar.selected").count() == 1 and "made by" in page.locator(".irs-memory .irs-said-below").inner_text()


def test_a_notebook_plans_the_memory_of_the_step_that_is_shown(lab: Lab) -> None:
    given = "import irscope as irs\nfrom tests.report.panes.test_tensor_layouts import PROGRAM"
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
        live.get_by_label("assumed layout").select_option("columns")
        live.locator(".irs-sentence", has_text="with %x column by column, 1 node would copy 256 B (now 1 node copying 256 B)").wait_for()
        assert live.locator(".irs-neighbour").count() == 2
