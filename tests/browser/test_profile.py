"""Where the time goes, in the explorer: heat on boxes and lines, and the Time table, by mouse and by keyboard."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.runtime.profile import Profile
from tests.browser.conftest import ACTIVE, Lab, expect, holds, opened, prints


def program(x: Any) -> Any:
    hot = np.exp(x) * 2 + np.tanh(x)
    return np.sort(hot) @ x


def planted_profile() -> Profile:
    """Of a sort that takes three times as long as any other node, whatever this machine says."""
    x = np.linspace(-1, 1, 60 * 60, dtype=np.float32).reshape(60, 60)
    profile = irs.profile(program, x, seconds=0.05)
    for way in profile.ways.values():
        times = np.array([3e4 if node.op == "aten::sort" else 1e4 for node in way.nodes])
        way._busy, way._host, way._idle, way._entry, way._leave = [times] * 9, [], [], [], []
        way.whole = [float(times.sum())] * 9
    return profile


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with the profile of a small program."""
    return irs.write_report(planted_profile(), output=tmp_path_factory.mktemp("report") / "p.html").as_uri()


@pytest.fixture
def page(browser: Any, report: str) -> Iterator[Any]:
    with opened(browser, report, ".irs-slow.irs-item") as page:
        yield page


def test_a_slow_node_is_selected_by_mouse_and_its_box_is_hot(page: Any) -> None:
    page.locator(".irs-slow.irs-item", has_text="sort").click()
    page.locator(".irs-line.selected", has_text="aten::sort").wait_for()
    page.locator(".irs-graph select").select_option("time")
    colour = "e => getComputedStyle(e).getPropertyValue('--c')"
    page.locator(".irs-legend button", has_text="of the time").wait_for()
    cold = page.locator(".irs-kind-input").first.evaluate(colour)
    hot = page.locator(".irs-kind-op", has_text="sort").element_handle()
    holds(page, f"(box, cold) => ({colour})(box) !== cold", hot, cold)
    page.locator(".irs-graph select").select_option("roof")
    page.locator(".irs-legend button", has_text="at the roof").wait_for()
    expect(page.locator(".irs-time-head select").last).to_have_value("roof")


def test_lines_of_text_and_source_are_as_hot_as_what_they_take(page: Any) -> None:
    sort = page.locator(".irs-line", has_text="aten::sort").locator(".irs-heat")
    expect(sort).to_have_attribute("title", re.compile("of the time"))
    page.locator(".irs-text select").select_option(label=Path(__file__).name)
    line = page.locator(".irs-line", has_text="np.sort(hot) @ x").locator(".irs-heat")
    expect(line).to_have_attribute("title", re.compile("moved"))


def test_the_icicle_is_walked_with_arrow_keys_and_looked_into_with_enter(page: Any) -> None:
    page.get_by_role("tab", name="Slowest").focus()
    page.keyboard.press("ArrowRight")
    icicle = page.get_by_role("listbox", name="modules, lines and ops")
    icicle.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):  # the program, its first line, the first op there
        page.keyboard.press(key)
    chosen = page.locator(".irs-icicle-box.current")
    expect(chosen).to_have_text(re.compile("^(exp|mul|tanh|add)$"))
    page.locator(".irs-line.selected").first.wait_for()
    width = "document.querySelector('.irs-icicle-box.current')?.offsetWidth"
    narrow = page.evaluate(width)
    page.keyboard.press("Enter")
    holds(page, f"narrow => {width} > narrow", narrow)
    page.keyboard.press("Backspace")
    holds(page, f"narrow => {width} === narrow", narrow)
    expect(page.locator(".irs-said-below")).to_contain_text(re.compile("[µm]s"))


def test_one_run_and_its_memory_select_and_are_selected(page: Any) -> None:
    page.get_by_role("tab", name="One run").click()
    page.locator(".irs-span").first.click()
    page.locator(".irs-line.selected").first.wait_for()
    page.locator(".irs-line", has_text="aten::sort").locator("code").click(position={"x": 2, "y": 6})
    expect(page.locator(".irs-span.selected")).to_have_count(1)
    page.get_by_role("listbox", name="one run").focus()
    width = "document.querySelector('.irs-run-wide').offsetWidth"
    before = page.evaluate(width)
    page.keyboard.press("+")
    holds(page, f"before => {width} > before", before)
    expect(page.locator(".irs-run-curve path")).to_have_count(1)


def test_the_roofline_is_clicked_brushed_and_walked(page: Any) -> None:
    page.get_by_role("tab", name="Roofline").click()
    page.locator(".irs-time-panel > *").first.wait_for()
    marks = page.locator(".irs-mark")
    if not marks.count():
        pytest.skip("the limits of this machine are not known")
    page.locator(".irs-roofline").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".irs-mark.selected")).to_have_count(1)
    expect(page.locator(".irs-said-below")).to_contain_text("bound at")
    page.keyboard.press("Escape")
    expect(page.locator(".irs-mark.selected")).to_have_count(0)
    box = page.locator(".irs-roofline").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 2, steps=3)
    page.mouse.up()
    expect(page.locator(".irs-mark.selected")).to_have_count(marks.count())


def test_a_group_before_and_after_and_what_would_help(page: Any) -> None:
    page.get_by_role("tab", name="Before and after").click()
    page.locator(".irs-pair").first.click()
    page.locator(".irs-kind-group.selected, .irs-box.holding").first.wait_for()
    page.get_by_role("tab", name="What would help").click()
    page.locator(".irs-time-panel p, .irs-help").first.wait_for()


def test_a_profile_that_is_set_later_appears_in_a_notebook(lab: Lab) -> None:
    given = "from tests.browser.test_profile import program\nimport numpy as np, irscope as irs\nx = np.ones((32, 32), np.float32)"
    with lab.shown("profile.ipynb", given, "f = irs.fuse(irs.load(program, x))\ne = irs.explore(f)\ne", until=".irs .irs-box"):
        live = lab.page.locator(f"{ACTIVE} .irs")
        assert live.get_by_role("tab", name="Time", exact=True).count() == 0
        assert lab.python("p = irs.profile(f, x, seconds=0.05); e.profile = p") == ""
        live.locator(".irs-slow.irs-item", has_text="sort").click()
        prints(lab, "[n.op for n in e.selected]", "['aten::sort']")
