"""Pages for everybody: axe finds nothing serious in any of them, keys reach everything, and what the reader's system asks for is done.

axe-core is a development dependency of `widgets/`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import expect, holds, opened, settled
from tests.browser.pages import EXPLORERS, pages, states

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "widgets" / "node_modules" / "axe-core" / "axe.min.js"

ASK = """async ([where, only]) => (await axe.run(where ?? document, {resultTypes: ['violations'], ...only})).violations
  .filter(found => ['serious', 'critical'].includes(found.impact))
  .map(found => `${found.id}: ${found.nodes.slice(0, 3).map(node => node.html.slice(0, 200)).join('  ')}`)"""
OF_COLOURS = ["color-contrast", "link-in-text-block"]
"""The rules that ask for colours; what others find is the same in both schemes."""
PANE_OF = {".irs-main": ".irs-main", ".irs-inspector": ".irs-inspector", ".irs-dock-bar": ".irs-dock", ".irs-dock-panel": ".irs-dock"}
FOCUSED = """() => { const at = document.activeElement;
  const pane = at.closest('.irs-head, .irs-text, .irs-graph, .irs-inspector, .irs-steps, .irs-dock');
  return [pane ? [...pane.classList].at(-1) : '', at.getAttribute('role') ?? at.tagName.toLowerCase()]; }"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture
def page(browser: Any, written: dict[str, str]) -> Iterator[Any]:
    with opened(browser, written["report"], ".irs-box") as page:
        yield page


def complaints(page: Any, where: str | None = None, rules: list[str] | None = None) -> list[str]:
    """What axe finds serious in a page as it is now, or in a part of it, by all rules or by these."""
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[str] = page.evaluate(ASK, [where, {"runOnly": rules} if rules else {}])
    return found


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: npm ci in widgets/")
@pytest.mark.parametrize("name", [*EXPLORERS, "survey", "diff"])
def test_axe_finds_nothing_serious(browser: Any, written: dict[str, str], name: str) -> None:
    with opened(browser, written[name], ".irs-head" if name in EXPLORERS else "h1") as page:
        found = {}
        for number, state in enumerate(states(page)):
            # as it opens, and with something selected; another tab changes its own pane
            where = None if number < 2 else PANE_OF[state.split()[0]]
            for scheme, rules in (("dark", None), ("light", OF_COLOURS)):
                page.emulate_media(color_scheme=scheme)
                if said := complaints(page, where, rules):
                    found[f"{state}, {scheme}"] = said
        assert not found, found


def test_keys_alone_take_the_tour(page: Any) -> None:
    """What fuses, what a value shares its memory with, why two ops are apart, the kernel, the steps and the tables; no mouse."""
    keys = page.keyboard
    page.locator("body").focus()
    visited = []
    for _ in range(60):
        keys.press("Tab")
        visited.append(tuple(page.evaluate(FOCUSED)))
        if visited[-1] == ("irs-dock", "tab"):
            break
    panes = list(dict.fromkeys(pane for pane, _ in visited if pane))
    assert panes == ["irs-head", "irs-text", "irs-graph", "irs-inspector", "irs-steps", "irs-dock"], visited
    page.locator(".irs-fact", has_text="fusion groups").focus()
    keys.press("Enter")
    page.locator(".irs-verdict", has_text="The same? no").wait_for()
    page.get_by_role("tree", name="graph").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown"):
        keys.press(key)
    page.locator(".irs-box.selected").first.wait_for()
    keys.press("/")
    keys.type("op:select")
    page.locator(".irs-found", has_text="a notebook with a kernel answers questions").wait_for()
    keys.press("ControlOrMeta+a")
    keys.type("aten::select")
    page.locator(".irs-found [role=option]").first.wait_for()
    keys.press("Enter")
    page.locator(".irs-line.selected", has_text="aten::select").wait_for()
    keys.press("Escape")
    page.get_by_role("listbox", name="IR text").focus()
    keys.press("Shift+ArrowDown")
    page.locator(".irs-verdict", has_text="May they alias?").wait_for()
    keys.press("ArrowDown")
    page.locator(".irs-inspector [role=tab][tabindex='0']").focus()
    for _ in range(4):
        keys.press("ArrowRight")
    expect(page.locator(".irs-inspector").get_by_role("tab", name="Kernel")).to_be_focused()
    page.get_by_role("slider", name="step of the history").focus()
    keys.press("Home")
    page.locator("[role=slider][aria-valuenow='0']").wait_for()
    page.locator(".irs-dock-bar [role=tab][tabindex='0']").focus()
    keys.press("ArrowRight")
    page.locator(".irs-dock-bar [role=tab][aria-selected=true]", has_text="Classes").wait_for()
    page.locator(".irs-dock .irs-whole").focus()
    keys.press("Enter")
    expect(page.locator(".irs-graph")).to_be_hidden()
    keys.press("Enter")
    expect(page.locator(".irs-graph")).to_be_visible()


def test_names_are_one_stop_that_arrows_walk_and_a_click_draws_no_ring(page: Any) -> None:
    keys = page.keyboard
    keys.press("Shift")  # what a script focuses next shows a ring, unless a pointer has done it
    page.locator(".irs-svg").click(position={"x": 5, "y": 5})
    assert page.evaluate("document.activeElement.matches('.irs-svg:not(:focus-visible)')")
    page.locator(".irs-text [data-record]", has_text="%written").first.click()
    names = page.locator(".irs-inspector .irs-chips button")
    names.nth(2).wait_for()
    for k, group in enumerate(page.locator(".irs-inspector [data-stop]:has(button)").all()):
        assert group.locator("button[tabindex='0']").count() == 1, k
    names.nth(0).focus()
    keys.press("ArrowRight")
    expect(names.nth(1)).to_be_focused()
    keys.press("Enter")
    expect(page.locator(".irs-inspector")).to_be_focused()  # and not the page, where keys mean other things


def test_reduced_motion_stills_what_moves(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.get_by_role("slider", name="step of the history").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.locator(".irs-box.t-now").first.wait_for(state="attached")
    settled(page)
    assert page.evaluate("document.getAnimations().length") == 0
    page.evaluate("() => document.addEventListener('animationstart', () => (window.moved = true))")  # it may be over when one looks
    page.emulate_media(reduced_motion="no-preference")
    page.keyboard.press("ArrowRight")
    holds(page, "() => window.moved")


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_high_contrast_keeps_words_apart_from_their_ground_and_shows_what_is_selected(page: Any, scheme: str) -> None:
    page.emulate_media(forced_colors="active", color_scheme=scheme)
    page.get_by_role("button", name="open all").click()
    page.locator(".irs-text [data-record]", has_text="%bent0").first.click()
    page.locator(".irs-line.selected").first.wait_for()
    page.locator(".irs-box.selected").first.wait_for()
    settled(page)
    style = "(element, name) => getComputedStyle(element)[name]"
    words, face = page.locator(".irs-kind-op .irs-label").first, page.locator(".irs-kind-op .irs-face").first
    canvas = page.locator(".irs").evaluate(style, "backgroundColor")
    assert face.evaluate("e => getComputedStyle(e).fill") != words.evaluate("e => getComputedStyle(e).fill")
    assert words.evaluate("e => getComputedStyle(e).fill") != canvas

    def looks(what: str, name: str) -> list[str]:
        """Of what is selected, and of what is not."""
        shown = [page.locator(what.replace("*", kind)).first for kind in (".selected", ":not(.selected)")]
        return [each.evaluate("(element, name) => getComputedStyle(element)[name]", name) for each in shown]

    assert looks(".irs-line*", "outlineStyle") == ["solid", "none"]
    edges = looks(".irs-box* > .irs-face", "strokeWidth")
    assert edges[0] == "5px" != edges[1]
