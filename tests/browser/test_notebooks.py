"""Notebooks as readers run them in a real Lab: every cell, the questions drawn; in the tour a click in the graph, read back in Python."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import ACTIVE, PATIENCE_MS, ROOT, Lab, expect, prints

pytest.importorskip("torch", reason="torch is not installed: pip install 'irscope[tour]'")

SECONDS = 240


def run(lab: Lab, name: str) -> None:
    (lab.root / "notebooks").mkdir(exist_ok=True)
    shutil.copy(ROOT / "notebooks" / f"{name}.ipynb", lab.root / "notebooks")
    lab.reopen(f"notebooks/{name}.ipynb")
    lab.run_to_the_end(SECONDS)


@pytest.mark.parametrize(("name", "questions"), [("06_reading_an_ir", 3), ("01_alias", 3)])
def test_a_notebook_runs_in_a_real_lab(lab: Lab, tmp_path: Path, name: str, questions: int) -> None:
    """Each quiz is shown by the explorer's views, and no cell fails."""
    run(lab, name)
    asking = lab.page.locator(f"{ACTIVE} .irs-asking")
    expect(asking).to_have_count(questions)
    for number in range(questions):
        asking.nth(number).scroll_into_view_if_needed()
        asking.nth(number).locator(".irs-box").first.wait_for()
        asking.nth(number).screenshot(path=tmp_path / f"{name} {number}.png")
    assert not lab.errors and not lab.outside
    lab.close()


LIVE = f"{ACTIVE} .irs:not(.irs-asking)"
VISIBLE_BOX = """live => {
  const spot = box => { const {left, top, height} = box.getBoundingClientRect(); return {x: left + 4, y: top + height / 2}; };
  const hit = box => { const {x, y} = spot(box); return box.parentElement.contains(document.elementFromPoint(x, y)); };
  const box = [...document.querySelectorAll(`${live} .irs-face`)].find(hit);
  const [before, now] = [window.irsPlace, box && JSON.stringify(spot(box))];
  window.irsPlace = now;
  return now === before && box && spot(box);
}"""
"""Where a reader could click on a box now, when it rests: Lab lays out long notebooks late, and a pane shows a part of its graph."""


@pytest.fixture(scope="module")
def tour(lab: Lab) -> Iterator[Lab]:
    shutil.copytree(ROOT / "examples", lab.root / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    run(lab, "00_tour")
    yield lab
    lab.close()


def test_a_click_on_a_node_of_yolov3_arrives_in_python(tour: Lab, tmp_path: Path) -> None:
    page = tour.page
    page.locator(LIVE).first.evaluate("explorer => explorer.scrollIntoView({block: 'center'})")
    place = page.wait_for_function(VISIBLE_BOX, arg=LIVE, polling=200, timeout=PATIENCE_MS).json_value()
    page.mouse.click(place["x"], place["y"])
    page.locator(f"{LIVE} .irs-box.selected").first.wait_for()
    chosen = page.locator(f"{LIVE} .irs-box.selected").first.get_attribute("data-id")
    prints(tour, f"{chosen} in e.selection", "True")
    tour.python("e.selection = [g.node('aten::view#0')]")
    page.locator(f"{LIVE} .irs-line.selected", has_text="aten::view").wait_for()
    page.locator(f"{LIVE} .irs-points-to").wait_for()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        tour.theme(theme)
        page.screenshot(path=tmp_path / f"{theme}.png")
    assert not tour.errors and not tour.outside
