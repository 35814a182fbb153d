"""The explorer among other widgets: tabs, sliders, outputs and observers; each pane alone; a kernel that was restarted; nbconvert."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import ACTIVE, PATIENCE_MS, Lab, expect, holds, opened, prints

LIVE = f"{ACTIVE} .irs"
CELLS = (
    """
import ipywidgets as W
import irscope as irs
from IPython.display import display
from tests.browser.pages import program
f = irs.fuse(program())
e = irs.explore(f)
last = f.history.count
slider = W.IntSlider(min=0, max=last, description="step")
W.link((e, "step"), (slider, "value"))
in_page = W.IntSlider(min=0, max=last, description="in the page")
beside = W.jslink((e.hub, "step"), (in_page, "value"))  # without Python
heard = []
e.observe(lambda change: heard.append(change["new"]), "selection")
W.VBox([slider, W.interactive_output(lambda k: print("state", k, "has", len(f.history.graph_after(k).position), "nodes"), {"k": slider})])
""",
    'W.Tab([e, e.pane("memory"), W.HBox([e.pane("text"), e.pane("inspector")])], titles=["all", "memory", "two"])',
    "in_page",
    'W.VBox([e.pane(name) for name in ("graph", "tables", "timeline", "classes", "time")])',
)
ALONE = {
    "graph": ".irs-box", "tables": "[role=tab]", "timeline": "[role=slider]", "classes": ".irs-rung", "time": ".irs-quiet",
}  # fmt: skip


@pytest.fixture(scope="module")
def manners(lab: Lab) -> Iterator[Lab]:
    with lab.shown("manners.ipynb", *CELLS, until=".irs.irs-only-classes .irs-rung", seconds=120):
        yield lab


def test_a_slider_linked_with_the_step_moves_and_is_moved(manners: Lab) -> None:
    page = manners.page
    handle = page.locator(f"{ACTIVE} .widget-slider .noUi-handle").first
    handle.focus()
    page.keyboard.press("Home")
    prints(manners, "e.step", "0")
    page.locator(f"{ACTIVE} .jp-OutputArea-output", has_text="state 0 has").first.wait_for()
    page.locator(f"{LIVE} .irs-line", has_text="aten::mul").first.wait_for()
    manners.python("e.step = last")
    last = manners.python("print(last)")
    both = "wanted => [...document.querySelectorAll('.widget-readout')].every((readout) => readout.textContent === wanted)"
    page.wait_for_function(both, arg=last)
    page.locator(f"{ACTIVE} .widget-slider .noUi-handle").nth(1).focus()
    page.keyboard.press("Home")
    page.wait_for_function(both, arg="0")
    prints(manners, "e.step", "0")


def test_what_is_picked_is_heard_by_observers_and_seen_in_every_tab(manners: Lab) -> None:
    page = manners.page
    page.locator(f"{LIVE}:not(.irs-only) .irs-line", has_text="%turned").locator("[data-record]").first.click()
    prints(manners, "heard[-1] == [f.graph.value('turned').id] == e.selection", "True")
    expect(page.locator(f"{ACTIVE} .irs-static").last).to_be_hidden()  # the picture for a saved notebook, beside live tabs
    assert manners.python("print(e.static().data.count('<img'))") == "1"
    for tab in ("memory", "two", "all"):
        page.locator(f"{ACTIVE} .jupyter-widget-TabPanel-tabContents, {ACTIVE} .widget-tab").first.wait_for()
        page.locator(f"{ACTIVE} .lm-TabBar-tab", has_text=tab).first.click()
        if tab == "memory":
            page.locator(f"{LIVE}.irs-only-memory .irs-memory-bar").first.wait_for()
        if tab == "two":
            page.locator(f"{LIVE}.irs-only-text .irs-line.selected", has_text="%turned").wait_for()
            for name in ("text", "inspector"):
                holds(page, "pane => document.querySelector(pane).getBoundingClientRect().width > 200", f"{LIVE}.irs-only-{name}")


def test_each_pane_stands_alone(manners: Lab, tmp_path: Path) -> None:
    for name, part in ALONE.items():
        pane = manners.page.locator(f"{LIVE}.irs-only-{name}")
        pane.scroll_into_view_if_needed()
        pane.locator(part).first.wait_for()
        pane.screenshot(path=tmp_path / f"{name}.png")


def test_a_slow_cell_shows_how_far_it_is_and_may_be_interrupted(manners: Lab) -> None:
    page = manners.page
    slow = 'for _ in counted(range(600), "counting"):\n    time.sleep(0.1)'
    manners.add_cell(f"import time\nfrom irscope._base.running import counted\n{slow}", wait=False)
    page.locator(f"{ACTIVE} .jp-RenderedText", has_text="counting: ").first.wait_for(timeout=2 * PATIENCE_MS)
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()")
    page.locator(f"{ACTIVE} .jp-RenderedText", has_text="KeyboardInterrupt").first.wait_for(timeout=2 * PATIENCE_MS)
    prints(manners, "bool(f.why_not('scaled0', 'bent0')), e.select('op:select') == [f.graph.node('row')]", "True True")


def test_a_saved_notebook_is_converted_with_its_picture(manners: Lab, browser: Any, tmp_path: Path) -> None:
    nbconvert = pytest.importorskip("nbconvert")
    manners.add_cell("e")
    manners.page.locator(f"{LIVE}:not(.irs-only)").nth(1).wait_for()
    manners.save()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it has no words for widgets whose state is not saved
        text, _ = nbconvert.HTMLExporter().from_filename(str(manners.root / "manners.ipynb"))
    (tmp_path / "manners.html").write_text(text, encoding="utf-8")
    with opened(browser, (tmp_path / "manners.html").as_uri(), ".irs-static img >> nth=0", ours=False) as page:
        expect(page.locator(".irs-static img")).to_have_count(2)  # in the tabs, and alone in its cell
        holds(page, "() => [...document.querySelectorAll('.irs-static img')].every(image => image.complete && image.naturalWidth > 100)")


def test_a_restarted_kernel_is_reported_and_the_views_stay(manners: Lab) -> None:
    page = manners.page
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.locator(f"{LIVE}:not(.irs-only) .irs-line", has_text="%copied").locator("[data-record]").first.click()
    page.locator(f"{LIVE}:not(.irs-only) .irs-inspector", has_text="Run the cell again to reconnect").first.wait_for(
        timeout=2 * PATIENCE_MS
    )
    page.locator(f"{LIVE}:not(.irs-only) .irs-line.selected", has_text="%copied").first.wait_for()
