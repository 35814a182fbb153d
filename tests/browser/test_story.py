"""A story made by clicking in a real Lab, saved, and opened from disk without network: the same views and texts at each step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser.conftest import ACTIVE, Lab

TOLD = f"{ACTIVE} .irs-told"
CELL = """
import irscope as irs
g = irs.parse('''graph(%x : Float(64, 64, strides=[64, 1])):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::tanh(%a)
  %c : Tensor = aten::mm(%b, %b)
  %d : Tensor = aten::sigmoid(%c)
  %e : Tensor = aten::neg(%d)
  return (%e)''')
s = irs.story(g, title="Two kernels")
s
"""
SEEN = """root => {
  const all = name => [...root.querySelectorAll(name)];
  const marked = box => box.textContent + (box.classList.contains('selected') ? ' selected' : '');
  const words = name => root.querySelector(name).textContent;
  return {
    selected: all('.irs-line.selected').map(line => line.textContent), boxes: all('.irs-box').map(marked).sort(),
    text: words('.irs-story-text'), at: words('.irs-story-at'), alone: all('.irs-whole[aria-pressed=true]').length,
  };
}"""


def _add(lab: Lab, name: str, text: str) -> None:
    page = lab.page
    page.locator(f"{TOLD} .irs-line .irs-t-value", has_text=name).first.click()
    page.locator(f"{TOLD} .irs-story button", has_text="add this view").click()
    page.locator(f"{TOLD} .irs-story textarea").fill(text)
    page.keyboard.press("Enter")
    page.locator(f"{TOLD} .irs-story-text", has_text=text.replace("*", "").split()[-1]).wait_for()


def _played(page: Any, root: Any, picture: Path) -> list[Any]:
    """What is seen at each step, from the first on, by the key."""
    root.locator(".irs-story").focus()
    for _ in range(3):
        page.keyboard.press("p")
    found = []
    for step in range(2):
        page.wait_for_function(
            "at => [...document.querySelectorAll('.irs-story-at')].some(e => e.textContent === at)",
            arg=f"{step + 1} / 2",
        )
        page.wait_for_timeout(300)
        found.append(root.evaluate(SEEN))
        root.screenshot(path=picture.with_name(f"{picture.name} {step + 1}.png"))
        page.keyboard.press("n")
    return found


def test_a_story_made_in_lab_plays_from_disk(lab: Lab, browser: Any, tmp_path: Path) -> None:
    lab.open("story.ipynb", CELL)
    lab.run_all()
    lab.page.locator(f"{TOLD} .irs-line").first.wait_for(timeout=60_000)
    _add(lab, "%x", "It **begins** here.")
    lab.page.locator(f"{TOLD} .irs-text .irs-whole").click()
    _add(lab, "%c", "A product of *matrices* ends the kernel.")
    assert lab.python("print([step.selection for step in s.steps])") == "[('%x',), ('%c',)]"
    live = _played(lab.page, lab.page.locator(TOLD), tmp_path / "live")
    saved = lab.root / "story.html"
    lab.python("s.save('story.html')")
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, offline=True)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(saved.as_uri())
    page.locator(".irs-told .irs-line").first.wait_for()
    played = _played(page, page.locator(".irs-told"), tmp_path / "page")
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert [step["text"] for step in played] == ["It begins here.", "A product of matrices ends the kernel."]
    for one, other in zip(live, played, strict=True):
        assert set(one.pop("boxes")) <= set(other.pop("boxes")), "the page is larger and has more in sight"
        assert one == other
    context.close()
    lab.close()
