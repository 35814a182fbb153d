"""Aliasing in the explorer of a real program: what a value shares memory with, and the way on which two values meet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import ACTIVE, Lab

PROGRAM = '''
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
LIVE = f"{ACTIVE} .irs"


@pytest.fixture(scope="module")
def explorer(lab: Lab) -> Iterator[Lab]:
    with lab.shown("alias.ipynb", PROGRAM, until=".irs .irs-box"):
        yield lab


def name(lab: Lab, line: str) -> object:
    return lab.page.locator(f"{LIVE} .irs-line").filter(has_text=line).locator("[data-record]").first


def marked(lab: Lab, selector: str) -> set[str]:
    return {text.split(" ")[0].rstrip(",") for text in lab.page.locator(f"{LIVE} {selector}").all_inner_texts()}


def test_a_value_lights_its_alias_set_in_text_and_graph(explorer: Lab, tmp_path: Path) -> None:
    name(explorer, "%row =").click()  # type: ignore[attr-defined]
    explorer.page.locator(f"{LIVE} .irs-t-value.lit").first.wait_for()
    explorer.page.screenshot(path=str(tmp_path / "value.png"))
    assert {"%a", "%p0", "%q"} <= marked(explorer, ".irs-t-value.lit")
    assert "%b" not in marked(explorer, ".irs-t-value.lit")
    assert explorer.page.locator(f"{LIVE} .irs-box.lit").count() >= 2


def test_two_values_light_the_way_on_which_they_meet(explorer: Lab, tmp_path: Path) -> None:
    name(explorer, "%row =").click()  # type: ignore[attr-defined]
    name(explorer, "%w =").click(modifiers=["Shift"])  # type: ignore[attr-defined]
    explorer.page.locator(f"{LIVE} .irs-verdict", has_text="is a view of %a").wait_for()
    explorer.page.screenshot(path=str(tmp_path / "pair.png"))
    lit = marked(explorer, ".irs-t-value.lit") | marked(explorer, ".irs-line.lit")
    assert {"%q", "%q0"} <= lit or {"%p0", "%q0"} <= lit
