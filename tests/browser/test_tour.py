"""The tour, as a reader runs it: every cell, then a click in the graph, then the selection read back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import ACTIVE, ROOT, Lab

pytest.importorskip("torch", reason="torch is not installed: pip install 'irscope[tour]'")

LIVE = f"{ACTIVE} .irs:not(.irs-asking)"
TOUR_SECONDS = 240
VISIBLE_BOX = """live => {
  const spot = box => { const {left, top, height} = box.getBoundingClientRect(); return {x: left + 4, y: top + height / 2}; };
  const hit = box => { const {x, y} = spot(box); return box.parentElement.contains(document.elementFromPoint(x, y)); };
  const box = [...document.querySelectorAll(`${live} .irs-face`)].find(hit);
  return box && spot(box);
}"""
"""Where a reader could click on a box now: Lab lays out long notebooks late, and a pane shows a part of its graph."""


@pytest.fixture(scope="module")
def tour(lab: Lab) -> Iterator[Lab]:
    """The tour notebook, run to its end."""
    (lab.root / "notebooks").mkdir(exist_ok=True)
    shutil.copy(ROOT / "notebooks" / "00_tour.ipynb", lab.root / "notebooks")
    if not (lab.root / "examples").exists():
        shutil.copytree(ROOT / "examples", lab.root / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    lab.reopen("notebooks/00_tour.ipynb")
    lab.run_to_the_end(TOUR_SECONDS)
    yield lab
    lab.close()


def test_a_click_on_a_node_of_yolov3_arrives_in_python(tour: Lab, tmp_path: Path) -> None:
    page = tour.page
    page.locator(LIVE).first.evaluate("explorer => explorer.scrollIntoView({block: 'center'})")
    place = page.wait_for_function(VISIBLE_BOX, arg=LIVE, polling=200, timeout=30_000).json_value()
    page.mouse.click(place["x"], place["y"])
    page.locator(f"{LIVE} .irs-box.selected").first.wait_for()
    chosen = page.locator(f"{LIVE} .irs-box.selected").first.get_attribute("data-id")
    assert tour.python(f"print({chosen} in e.selection)") == "True"
    tour.python("e.selection = [g.node('aten::view#0')]")
    page.locator(f"{LIVE} .irs-line.selected", has_text="aten::view").wait_for()
    page.locator(f"{LIVE} .irs-points-to").wait_for()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        tour.theme(theme)
        page.screenshot(path=tmp_path / f"{theme}.png")


def test_nothing_went_wrong_and_nothing_left_the_machine(tour: Lab) -> None:
    assert tour.errors == []
    assert tour.outside == []
