"""The explorer in JupyterLab: what a reader clicks arrives in Python, and what Python selects is marked."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import ACTIVE, PATIENCE_MS, Lab, expect, holds, prints, settled

EXPLORE = """
import irscope as irs, torch
from tests.browser.pages import network
f = irs.fuse(irs.parse(network(50)), forbid=[("n49", "a49")])
e = irs.explore(f, torch.ones(1, 8, 8, 8), torch.ones(8, 8, 3, 3))
e
"""
LIVE = f"{ACTIVE} .irs"


@pytest.fixture(scope="module")
def explorer(lab: Lab) -> Iterator[Lab]:
    """A notebook that shows a network of 50 blocks, 216 boxes; the first stage, which is too tall for a first look, is opened."""
    with lab.shown("explorer.ipynb", EXPLORE, until=".irs .irs-box"):
        lab.page.locator(f"{LIVE} .irs-kind-module[aria-expanded=false] .irs-toggle").first.click()
        lab.page.locator(f"{LIVE} .irs-kind-op", has_text="conv2d").first.wait_for()
        yield lab


@pytest.fixture(autouse=True)
def _nothing_selected(explorer: Lab) -> Iterator[None]:
    explorer.python("if 'e' in globals(): e.selection = []")
    yield
    assert explorer.errors == []
    assert explorer.outside == []


def wait_marked(lab: Lab, selector: str) -> Any:
    found = lab.page.locator(f"{LIVE} {selector}").first
    found.wait_for()
    return found


def test_a_click_on_a_box_arrives_in_python_and_marks_its_line(explorer: Lab) -> None:
    explorer.page.locator(f"{LIVE} .irs-kind-op", has_text="conv2d").first.click()
    expect(explorer.page.locator(f"{LIVE} .irs-line.selected").first).to_contain_text("aten::conv2d")
    prints(explorer, "e.selected == [f.graph.node('c0')]", "True")


def test_a_click_on_a_name_selects_the_value_everywhere(explorer: Lab) -> None:
    explorer.page.locator(f"{LIVE} .irs-line", has_text="%c1 =").locator("[data-record]").first.click()
    wait_marked(explorer, ".irs-box.selected")
    prints(explorer, "e.selected == [f.graph.value('c1')]", "True")
    explorer.page.locator(f"{LIVE} .irs-sentence", has_text="may share memory").wait_for()
    explorer.page.locator(f"{LIVE} .irs-points-to .subject").wait_for()  # the only one


def test_python_selects_by_name_and_the_views_follow(explorer: Lab) -> None:
    explorer.python("e.selection = '%a1'")
    wait_marked(explorer, ".irs-box.selected")
    explorer.page.locator(f"{LIVE} .irs-subject h3", has_text="%a1 : f32").wait_for()


def test_two_records_ask_about_the_pair_and_light_the_evidence(explorer: Lab) -> None:
    lines = explorer.page.locator(f"{LIVE} .irs-line")
    lines.filter(has_text="%c0 =").locator("[data-record]").first.click()
    lines.filter(has_text="%n0 =").locator("[data-record]").first.click(modifiers=["Shift"])
    explorer.page.locator(f"{LIVE} .irs-verdict", has_text="May they alias? no").wait_for()
    explorer.python("e.selection = ['a49', 'row']")
    explorer.page.locator(f"{LIVE} .irs-verdict", has_text="%row is a view of %a49").wait_for()
    expect(explorer.page.locator(f"{LIVE} .irs-verdict .irs-yes")).to_have_count(1)
    wait_marked(explorer, ".irs-t-value.lit, .irs-line.lit, .irs-line.selected")


def test_a_failing_question_is_reported_and_the_view_lives_on(explorer: Lab) -> None:
    explorer.python("asked = e._page.answers.pop('inspect'); e.selection = '%x'")
    explorer.page.locator(f"{LIVE} .irs-problem", has_text="answers no 'inspect'").wait_for()
    explorer.python("e._page.answers['inspect'] = asked")
    explorer.python("e.selection = '%c0'")
    explorer.page.locator(f"{LIVE} .irs-sentence", has_text="may share memory").wait_for()


def test_a_click_on_the_background_clears(explorer: Lab) -> None:
    explorer.python("e.selection = '%c0'")
    wait_marked(explorer, ".irs-box.selected")
    explorer.page.locator(f"{LIVE} .irs-svg").click(position={"x": 8, "y": 8})
    explorer.page.locator(f"{LIVE} .irs-hints").wait_for()
    prints(explorer, "e.selection", "[]")


def test_a_number_of_the_head_line_selects_what_it_counts(explorer: Lab) -> None:
    explorer.page.locator(f"{LIVE} button.irs-fact", has_text="fusion groups").click()
    explorer.page.locator(f"{LIVE} .irs-subject", has_text="49 selected").wait_for()
    prints(explorer, "len(e.selection)", "49")


def test_the_keyboard_walks_opens_searches_and_clears(explorer: Lab) -> None:
    page = explorer.page
    page.locator(f"{LIVE} .irs-svg").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    prints(explorer, "e.selection", "[-1]")
    for key, open_ in (("ArrowLeft", "false"), ("ArrowRight", "true")):
        page.keyboard.press(key)
        page.locator(f"{LIVE} [data-id='-1'][aria-expanded={open_}]").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("select")
    page.locator(f"{LIVE} .irs-found [role=option]").first.wait_for()
    page.keyboard.press("Enter")
    expect(page.locator(f"{LIVE} .irs-line.selected").first).to_contain_text("aten::select")
    page.locator(f"{LIVE} .irs-text .irs-scroller").focus()
    page.keyboard.press("Escape")
    page.locator(f"{LIVE} .irs-hints").wait_for()


def test_keys_in_the_explorer_are_not_commands_of_the_notebook(explorer: Lab) -> None:
    page = explorer.page
    page.locator(f"{LIVE} .irs-svg").focus()
    for key in ("d", "d", "x", "a", "Escape", "d", "d"):
        page.keyboard.press(key)
    assert page.locator(f"{ACTIVE} .jp-Cell").count() == 1
    assert page.locator(LIVE).count() == 1


def test_opening_a_group_shows_its_ops_and_keeps_its_place(explorer: Lab) -> None:
    page = explorer.page
    explorer.python("e.selection = '%a0'")
    page.locator(f"{LIVE} .irs-subject", has_text="%a0").get_by_role("button", name="show in graph").click()
    group = wait_marked(explorer, ".irs-kind-group.selected")
    settled(page)
    top = "box => box.getBoundingClientRect().y"
    before = group.evaluate(top)
    identity = group.get_attribute("data-id")
    group.locator(".irs-toggle").click()
    opened = page.locator(f"{LIVE} [data-id='{identity}'][aria-expanded=true]")
    opened.wait_for()
    holds(page, f"(box, before) => Math.abs(({top})(box) - before) < 3", opened.element_handle(), before)
    page.locator(f"{LIVE} .irs-kind-op", has_text="add").first.wait_for()
    opened.locator(".irs-toggle").click()


def test_a_selection_marks_what_is_drawn_and_draws_nothing_again(explorer: Lab) -> None:
    page = explorer.page
    box = page.locator(f"{LIVE} .irs-kind-op", has_text="conv2d").first
    line = page.locator(f"{LIVE} .irs-line", has_text="%c0 =")
    held = [box.element_handle(), line.element_handle()]
    line.locator("[data-record]").first.click()
    page.locator(f"{LIVE} .irs-sentence", has_text="may share memory").wait_for()  # evidence has come, too
    wait_marked(explorer, ".irs-box.selected")
    expect(line).to_have_class(re.compile("selected"))
    assert [element.evaluate("element => element.isConnected") for element in held] == [True, True]


def test_a_double_click_opens_and_closes_and_leaves_selected_what_it_is_about(explorer: Lab) -> None:
    page = explorer.page
    explorer.python("e.selection = '%a0'")
    page.locator(f"{LIVE} .irs-subject", has_text="%a0").get_by_role("button", name="show in graph").click()
    identity = wait_marked(explorer, ".irs-kind-group.selected").get_attribute("data-id")
    for open_ in ("true", "false"):
        page.locator(f"{LIVE} .irs-kind-group[data-id='{identity}'] .irs-label").dblclick()
        page.locator(f"{LIVE} .irs-kind-group.selected[data-id='{identity}'][aria-expanded={open_}]").wait_for()


def test_the_tables_sort_filter_and_select(explorer: Lab) -> None:
    page = explorer.page
    page.locator(f"{LIVE} .irs-dock [role=tab]", has_text="Remarks").click()
    page.locator(f"{LIVE} .irs-filter input").fill("missed")
    expect(page.locator(f"{LIVE} .irs-dock .irs-row.passed")).to_have_count(0)
    row = page.locator(f"{LIVE} .irs-dock .irs-row.missed").first
    row.click()
    page.locator(f"{LIVE} .irs-verdict").first.wait_for()
    page.locator(f"{LIVE} .irs-dock [role=tab]", has_text="Classes").click()
    page.locator(f"{LIVE} .irs-card").first.click()
    prints(explorer, "len(e.selection)", explorer.python("print(max(map(len, irs.dedup(f).members('alpha'))))"))
    page.locator(f"{LIVE} .irs-dock [role=tab]", has_text="Timing").click()
    page.locator(f"{LIVE} .irs-timing button", has_text="measure").click()
    page.locator(f"{LIVE} .irs-time-bar").nth(2).wait_for(timeout=2 * PATIENCE_MS)


def test_both_themes_are_legible(explorer: Lab, tmp_path: Path) -> None:
    explorer.python("e.selection = '%c1'")
    wait_marked(explorer, ".irs-box.selected")
    brightness = {}
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        explorer.theme(theme)
        styles = "e => { const s = getComputedStyle(e); return [s.backgroundColor, s.color]; }"
        colours = explorer.page.locator(LIVE).evaluate(styles)
        brightness[theme] = [sum(map(float, colour[colour.index("(") + 1 : -1].split(",")[:3])) for colour in colours]
        explorer.page.screenshot(path=tmp_path / f"{theme}.png")
        explorer.python("e.selection = '%a30'")  # scrolls while the theme still settles
    assert wait_marked(explorer, ".irs-line.selected").is_visible()
    assert brightness["JupyterLab Dark"][0] < 200 < brightness["JupyterLab Dark"][1] + 200
    assert brightness["JupyterLab Light"][0] > 600 > brightness["JupyterLab Light"][1]


def test_a_second_output_of_the_same_explorer_is_linked_and_a_reloaded_page_finds_it_again(explorer: Lab) -> None:
    page = explorer.page
    explorer.python("e.selection = '%c1'")
    explorer.add_cell("e")
    second = page.locator(LIVE).nth(1)
    second.locator(".irs-box.holding").first.wait_for()
    second.locator(".irs-line", has_text="%c0 =").locator("[data-record]").first.click()
    page.locator(LIVE).nth(0).locator(".irs-subject h3", has_text="%c0").wait_for()
    expect(page.locator(LIVE)).to_have_count(2)
    assert page.evaluate("() => Object.keys(globalThis.irscopeBundles).length") == 1
    explorer.save()
    explorer.reload()
    page.locator(f"{LIVE} .irs-box.holding").first.wait_for(timeout=2 * PATIENCE_MS)
    expect(page.locator(f"{LIVE} .irs-subject h3").first).to_have_text(re.compile("^%c0"))


def test_a_pane_in_another_cell_is_linked(explorer: Lab) -> None:
    page = explorer.page
    explorer.add_cell("e.pane('graph')")
    pane = page.locator(f"{LIVE}.irs-only")
    pane.locator(".irs-box").first.wait_for()
    assert pane.locator(".irs-line").count() == 0
    pane.locator(".irs-kind-module[aria-expanded=false] .irs-toggle").first.click()
    pane.locator(".irs-kind-op", has_text="conv2d").nth(1).click()
    page.locator(LIVE).first.locator(".irs-sentence", has_text="may share memory").wait_for()
    prints(explorer, "e.selected == [f.graph.node('c1')]", "True")


def assert_picture(lab: Lab) -> None:
    lab.page.locator(f"{ACTIVE} .irs-static img").first.wait_for()
    holds(
        lab.page,
        "where => { const image = document.querySelector(where); return image?.complete && image.naturalWidth > 99; }",
        f"{ACTIVE} .irs-static img",
    )


def test_a_saved_notebook_shows_the_picture_without_its_kernel(explorer: Lab) -> None:
    explorer.save()
    explorer.close()
    explorer.reopen("explorer.ipynb")
    assert_picture(explorer)


def test_a_notebook_that_is_not_trusted_shows_the_picture_too(explorer: Lab) -> None:
    saved = (explorer.root / "explorer.ipynb").read_text(encoding="utf-8")
    explorer.close()
    (explorer.root / "stranger.ipynb").write_text(saved.replace("network(50)", "network(51)"), encoding="utf-8")
    explorer.reopen("stranger.ipynb")
    assert_picture(explorer)
    assert explorer.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets[0].model.trusted") is False


LARGE = """
import irscope as irs
text = ["graph(%x : Float(8, 8), %w : Float(8, 8)):"]
last = "x"
for i in range(6000):
    op = f"aten::matmul(%{last}, %w)" if i * i % 6007 % 6 == 5 else f"aten::relu(%{last})"  # nothing repeats itself
    text.append(f"  %v{i} : Float(8, 8) = {op}")
    last = f"v{i}"
f = irs.fuse(irs.parse("\\n".join([*text, f"  return (%{last})"])))
e = irs.explore(f)
e
"""


def test_a_large_program_is_asked_for_page_by_page(lab: Lab) -> None:
    with lab.shown("large.ipynb", LARGE, until=".irs .irs-kind-stretch"):
        page = lab.page
        stretch = page.locator(f"{LIVE} .irs-kind-stretch")
        assert page.locator(f"{LIVE} .irs-box").count() < 60
        page.locator(f"{LIVE} .irs-fact", has_text="equivalence class").wait_for()  # comes once the first picture stands
        lab.python("found = e.select('name:/^v5890$/')")
        page.locator(f"{LIVE} .irs-line.selected", has_text="%v5890").wait_for()  # a line that was not sent at first
        page.locator(f"{LIVE} .irs-stage .holding").wait_for()
        page.locator(f"{LIVE} button", has_text="show in graph").click()
        page.locator(f"{LIVE} .irs-stage .irs-box.selected").wait_for()
        page.locator(f"{LIVE} .irs-search input").fill("writes %x | op:matmul & line:1-40")
        page.locator(f"{LIVE} .irs-found [role=option]").first.wait_for()
        page.keyboard.press("Escape")
        page.locator(f"{LIVE} .irs-search input").fill("")
        page.locator(f"{LIVE} .irs-search-help").click()
        examples = page.locator(f"{LIVE} .irs-examples [role=option]")
        expect(examples).to_have_count(6)
        query = examples.nth(1).locator("strong").text_content()
        examples.nth(1).click()  # fills the box, and asks
        page.locator(f"{LIVE} .irs-found:not(.irs-examples) [role=option] code").first.wait_for()
        expect(page.locator(f"{LIVE} .irs-search input")).to_have_value(query)
        page.locator(f"{LIVE} .irs-search input").fill("op:matmul and bytes>1")
        page.locator(f"{LIVE} .irs-found", has_text="op:matmul & bytes>1").wait_for()  # the hint is a query
        page.locator(f"{LIVE} .irs-search input").fill("op:relu")
        page.locator(f"{LIVE} .irs-found [role=option]", has_text="select all").dispatch_event("pointerdown")
        prints(lab, "len(e.selection)", lab.python("print(len(f.graph.select('op:relu')))"))  # more than were sent
        lab.python("asked, where = [], e._page.answers['places']; e._page.answers['places'] = lambda ask: asked.append(ask) or where(ask)")
        line = page.locator(f"{LIVE} .irs-line", has_text="aten::").nth(12).get_attribute("id")
        page.locator(f"[id='{line}'] .irs-number").click()
        page.locator(f"[id='{line}'].selected").wait_for()
        page.locator(f"{LIVE} .irs-stage :is(.selected, .holding)").first.wait_for()  # its page of text said where it stands
        page.wait_for_timeout(200)
        assert lab.python("print(len(asked))") == "0"
        expect(page.locator(f"{LIVE} .irs-dock-panel")).to_be_hidden()  # text and graph have its place until somebody asks
        page.locator(f"{LIVE} .irs-dock [role=tab]", has_text="Remarks").click()
        page.locator(f"{LIVE} .irs-filter input").click()  # nothing covers it
        page.locator(f"{LIVE} .irs-text button", has_text="edit").wait_for()
        page.locator(f"{LIVE} .irs-graph button", has_text="open all").click()
        page.locator(f"{LIVE} .irs-graph [role=status]", has_text="stay closed").wait_for(timeout=2 * PATIENCE_MS)
        for name in ("close all", "fit"):
            page.locator(f"{LIVE} .irs-graph button", has_text=name).click()
        stretch.first.click()
        page.locator(f"{LIVE} .irs-inspector h3", has_text="lines").wait_for()
        stretch.nth(1).click(modifiers=["Shift"])
        page.locator(f"{LIVE} .irs-inspector h3", has_text="2 selected").wait_for()
        stretch.nth(1).locator(".irs-toggle").click()
        page.locator(f"{LIVE} .irs-kind-stretch[aria-expanded=true]").wait_for()
        page.locator(f"{LIVE} .irs-step-offer button", has_text="step by step").click()
        page.locator(f"{LIVE} [role=slider]").wait_for(timeout=2 * PATIENCE_MS)
        page.locator(f"{LIVE} .irs-kind-stretch[aria-expanded=true]").wait_for()  # drawn anew, and open as it was
        page.locator(f"{LIVE} .irs-filter input").wait_for()  # its table too
        lab.python("e.step = 3")
        page.locator(f"{LIVE} [role=slider][aria-valuenow='3']").wait_for()
        lab.save()
        assert (lab.root / "large.ipynb").stat().st_size < 300_000


CLOSED = """
import irscope as irs, ipywidgets
text = ["graph(%x0 : Float(8)):"] + [f"  %x{i + 1} : Float(8) = aten::relu(%x{i})" for i in range(900)]
f = irs.fuse(irs.parse("\\n".join([*text, "  return (%x900)"])))
holder = ipywidgets.VBox()
holder
"""


def test_a_closed_explorer_leaves_its_view_nowhere_in_the_page(lab: Lab) -> None:
    lab.open("closed.ipynb", CLOSED)
    lab.run_to_the_end(60)
    devtools = lab.page.context.new_cdp_session(lab.page)
    held, size = [], 0
    for _ in range(5):
        size = int(lab.python("e = irs.explore(f); holder.children = [e]; print(len(e.view))"))
        lab.page.locator(f"{ACTIVE} .irs-live .irs-box").first.wait_for()
        lab.python("holder.children = []; e.close(); del e")
        lab.page.locator(f"{ACTIVE} .irs-live").wait_for(state="detached")
        devtools.send("HeapProfiler.collectGarbage")
        held.append(devtools.send("Runtime.getHeapUsage")["backingStorageSize"])
    assert held[-1] - held[1] < size, (held, size)
    lab.close()
