"""Views beside each other in the boxes of ipywidgets, in tabs of their own, of a survey; which program they show, and what is alight."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import ACTIVE, PATIENCE_MS, Lab, expect, holds, prints, settled

PROGRAM = """
import irscope as irs
import ipywidgets as W
ops = ["aten::relu(%v{})" if i % 4 else "aten::matmul(%v{}, %y)" for i in range(1, 120)]
lines = [f"  %v{i} : Float(64, 64) = {op.format(i - 1)}" for i, op in enumerate(ops, 1)]
g = irs.parse("\\n".join([
    "graph(%x : Float(64, 64), %y : Float(64, 64)):", "  %a : Float(64, 64) = aten::relu(%x)", "  %v0 : Float(64, 64) = aten::mul_(%a, %y)",
    *lines, "  return (%v119)"]))
f = irs.fuse(g)
e = irs.explore(f)
e.layout.height = "560px"
W.HBox([e.pane("text"), e.pane("graph"), e.pane("inspector")], layout=W.Layout(height="400px"))
"""
LIVE = f"{ACTIVE} .irs"


@pytest.fixture(scope="module")
def panes(lab: Lab) -> Iterator[Lab]:
    """Three panes in a row, and below them the explorer."""
    with lab.shown("panes.ipynb", PROGRAM, "e", until=".irs .irs-counts"):
        lab.page.locator(f"{LIVE}.irs-only .irs-box").first.wait_for()
        for name in ("text", "inspector"):
            lab.page.locator(f"{LIVE}.irs-only-{name} .irs-bar").first.wait_for()
        settled(lab.page)
        yield lab


def size(lab: Lab, selector: str) -> tuple[float, float]:
    box = lab.page.locator(selector).first.bounding_box()
    assert box is not None
    return box["width"], box["height"]


def test_panes_share_the_width_of_a_row_and_take_the_heights_that_layouts_name(panes: Lab) -> None:
    for name in ("text", "graph", "inspector"):
        width, height = size(panes, f"{LIVE}.irs-only-{name}")
        assert width > 240, name
        assert 300 < height <= 480, name
        top = panes.page.locator(f"{LIVE}.irs-only-{name}").first.bounding_box()["y"]
        assert panes.page.locator(f"{LIVE}.irs-only-{name} .irs-bar").first.bounding_box()["y"] - top < 3, f"nothing is above the {name}"
    assert abs(size(panes, f"{LIVE}:not(.irs-only)")[1] - 560) < 4


def comes_in_sight(lab: Lab, selector: str, stage: str) -> None:
    holds(
        lab.page,
        """(selector, stage) => { const box = document.querySelector(selector)?.getBoundingClientRect();
        const around = document.querySelector(stage).getBoundingClientRect();
        return !!box && box.left < around.right && box.right > around.left && box.top < around.bottom && box.bottom > around.top; }""",
        selector, stage,
    )  # fmt: skip


def test_what_is_selected_elsewhere_comes_into_sight_in_text_and_graph(panes: Lab) -> None:
    whole = f"{LIVE}:not(.irs-only)"
    for name in ("v117", "v3", "v84"):
        panes.python(f"e.selection = '%{name}'")
        panes.page.locator(f"{whole} .irs-line.selected", has_text=f"%{name} ").first.wait_for()
        panes.page.locator(f"{whole} .irs-stage :is(.selected, .holding)").first.wait_for()
        comes_in_sight(panes, f"{whole} .irs-stage :is(.selected, .holding) > .irs-face", f"{whole} .irs-stage")
        comes_in_sight(panes, f"{LIVE}.irs-only .irs-line.selected", f"{LIVE}.irs-only-text .irs-scroller")


def test_the_switch_shows_the_program_as_written_and_what_a_pass_took_away(panes: Lab) -> None:
    page = panes.page
    whole = f"{LIVE}:not(.irs-only)"
    said = panes.python("w = irs.AliasDb(g).writers('a'); e.selection = w; print(e.selected == list(w))")
    assert said == "True"
    page.locator(f"{whole} .irs-sentence", has_text="functionalize took it away").wait_for()
    page.locator(f"{whole} button", has_text="show that program").click()
    page.locator(f"{whole} .irs-programs [aria-pressed=true]", has_text="as written").wait_for()
    line = page.locator(f"{whole} .irs-line.selected", has_text="aten::mul_")
    line.wait_for()
    prints(panes, "e.step", "0")
    page.locator(f"{whole} .irs-programs button", has_text="fused").click()
    line.wait_for(state="detached")
    expect(page.locator(f"{whole} .irs-line.t-joined")).to_have_count(0)  # out of the steps


def test_a_view_in_a_tab_of_its_own_fills_it(panes: Lab) -> None:
    page = panes.page
    page.evaluate(
        """() => { const panel = window.jupyterapp.shell.currentWidget; panel.content.activeCellIndex = 1;
        return window.jupyterapp.commands.execute('notebook:create-output-view'); }"""
    )
    page.locator(".jp-LinkedOutputView .irs .irs-box").first.wait_for()
    height = "document.querySelector('.jp-LinkedOutputView{}').getBoundingClientRect().height"
    holds(page, f"() => {height.format(' .irs')} > 0.9 * {height.format('')}")
    page.evaluate("() => window.jupyterapp.shell.currentWidget.close()")


LOOPED = '''
import irscope as irs
e = irs.explore("""graph(%x : Float(4, 8), %m : Float(8), %n : int):
  %true : bool = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %a : Float(4, 8) = aten::relu(%x)
  %b : Float(4, 8) = aten::neg(%x)
  %row : Float(8) = aten::select(%a, %zero, %one)
  %p : Float(4, 8), %q : Float(4, 8) = prim::Loop(%n, %true, %a, %b)
    block0(%i : int, %p0 : Float(4, 8), %q0 : Float(4, 8)):
      -> (%true, %q0, %p0)
  %w : Float(4, 8) = aten::add_(%q, %m, %one)
  %c : Float(4, 8) = aten::mul(%a, %a)
  return (%c, %row)""")
e
'''


LIT = """names => { const word = each => each.textContent.split(' ')[0].replace(/,$/, '');
  const found = new Set([...document.querySelectorAll(names)].map(word));
  return """


def test_a_value_lights_its_alias_set_and_two_the_way_on_which_they_meet(lab: Lab, tmp_path: Path) -> None:
    with lab.shown("alias.ipynb", LOOPED, until=".irs .irs-box"):
        page = lab.page
        row, written = (page.locator(f"{LIVE} .irs-line", has_text=f"%{name} =").locator("[data-record]").first for name in ("row", "w"))
        row.click()
        page.locator(f"{LIVE} .irs-t-value.lit").first.wait_for()
        page.screenshot(path=str(tmp_path / "value.png"))
        values = f"{LIVE} .irs-t-value.lit"
        holds(page, f"{LIT} ['%a', '%p0', '%q'].every(name => found.has(name)) && !found.has('%b'); }}", values)
        page.locator(f"{LIVE} .irs-box.lit").nth(1).wait_for()
        written.click(modifiers=["Shift"])
        page.locator(f"{LIVE} .irs-verdict", has_text="is a view of %a").wait_for()
        page.screenshot(path=str(tmp_path / "pair.png"))
        on_the_way = f"{LIT} found.has('%q0') && (found.has('%q') || found.has('%p0')); }}"
        holds(page, on_the_way, f"{values}, {LIVE} .irs-line.lit")


def test_the_model_of_a_member_opens_with_its_group_selected(lab: Lab, tmp_path: Path) -> None:
    """In a survey: choose a class and a member."""
    pytest.importorskip("pyarrow")
    survey = f"s = irs.corpus.survey(MODELS, out={str(tmp_path)!r}, processes=1)\nirs.explore(s)"
    given = "import irscope as irs\nfrom tests.corpus.test_survey import MODELS"
    with lab.shown("survey.ipynb", given, survey, until=".jp-OutputArea-output .widget-vbox button"):
        box = lab.page.locator(f"{ACTIVE} .jp-OutputArea-output .widget-vbox").first
        lists = box.locator("select")
        for row, count in ((1, 1), (0, 2)):
            lists.first.select_option(index=row)
            lab.page.wait_for_function("([e, count]) => e.options.length === count", arg=[lists.nth(1).element_handle(), count])
        lists.nth(1).select_option(index=1)
        box.get_by_role("button", name="Open the model").click()
        lab.page.locator(f"{ACTIVE} .irs-box").first.wait_for(timeout=2 * PATIENCE_MS)
        lab.page.locator(f"{ACTIVE} .irs-line.selected").first.wait_for()
