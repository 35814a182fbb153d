"""A story made by clicking in a real Lab, saved, and opened from disk without network: the same pictures and texts at each step."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from tests.browser.conftest import ACTIVE, Lab, expect, opened, prints, settled
from tests.browser.pages import network

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

INNER = "root => ({top: root.clientTop, left: root.clientLeft, width: root.clientWidth, height: root.clientHeight})"
"""An explorer in a notebook has a frame and is as large as its cell; the page is made as large as what is inside."""
MOST_DIFFERENT = 0.002
"""Of all blocks of pixels: the mark of the corner by which a cell is resized, a line between panes that lies a pixel lower."""


def _add(lab: Lab, name: str, text: str) -> None:
    page = lab.page
    page.locator(f"{TOLD} .irs-line .irs-t-value", has_text=name).first.click()
    page.locator(f"{TOLD} .irs-story button", has_text="add this view").click()
    page.locator(f"{TOLD} .irs-story textarea").fill(text)
    page.keyboard.press("Enter")
    page.locator(f"{TOLD} .irs-story-text", has_text=text.replace("*", "").split()[-1]).wait_for()


def _blocks(picture: Path, frame: dict[str, int]) -> Any:
    """The colours of what is inside the frame, each the mean of 4 × 4 pixels: in a notebook everything may stand a part of a pixel
    lower, and letters have other edges."""
    from matplotlib.image import imread

    inside = imread(picture)[frame["top"] :, frame["left"] :, :3]
    height, width = frame["height"] // 4, frame["width"] // 4
    return inside[: 4 * height, : 4 * width].reshape(height, 4, width, 4, 3).mean(axis=(1, 3))


RESTS = """() => new Promise(done => {
  let rests = setTimeout(done, 300);
  const seen = new MutationObserver(() => { clearTimeout(rests); rests = setTimeout(() => { seen.disconnect(); done(); }, 300); });
  seen.observe(document.querySelector('.irs-told'), {subtree: true, childList: true, attributes: true, characterData: true}); })"""


def _played(page: Any, root: Any, picture: Path) -> list[Any]:
    """What is seen at each step, from the first on, by the key; each with its picture, without the buttons, which a page has less of."""
    frame = root.evaluate(INNER)
    page.mouse.move(0, 0)  # nothing is pointed at
    root.locator(".irs-story-controls").evaluate("controls => (controls.style.visibility = 'hidden')")
    # a page has stored the memory of all values, Python draws that of the selected ones
    page.add_style_tag(content=".irs-points-holder { display: none }")
    root.locator(".irs-story").focus()
    for _ in range(3):
        page.keyboard.press("p")
    found = []
    for step in range(2):
        page.wait_for_function(
            "at => [...document.querySelectorAll('.irs-story-at')].some(e => e.textContent === at)", arg=f"{step + 1} / 2"
        )
        name = ("%x", "%c")[step]
        root.locator(".irs-panel .irs-sentence", has_text=name).first.wait_for(state="attached")  # the answer has come
        root.locator(".irs-line.selected", has_text=name).wait_for()
        page.evaluate(RESTS)
        found.append(root.evaluate(SEEN))
        taken = picture.with_name(f"{picture.name} {step + 1}.png")
        root.screenshot(path=taken)
        found[-1]["picture"] = _blocks(taken, frame)
        page.keyboard.press("n")
    return found


def test_a_story_made_in_lab_plays_from_disk(lab: Lab, browser: Any, tmp_path: Path) -> None:
    with lab.shown("story.ipynb", CELL, until=".irs-told .irs-line"):
        _add(lab, "%x", "It **begins** here.")
        lab.page.locator(f"{TOLD} .irs-text .irs-whole").click()
        _add(lab, "%c", "A product of *matrices* ends the kernel.")
        prints(lab, "[step.selection for step in s.steps]", "[('%x',), ('%c',)]")
        live = _played(lab.page, lab.page.locator(TOLD), tmp_path / "live")
        lab.python("s.save('story.html')")
        frame = lab.page.locator(TOLD).evaluate(INNER)
    asked: list[str] = []
    with opened(browser, (lab.root / "story.html").as_uri(), ".irs-told .irs-line") as page:
        page.on("request", lambda request: asked.append(request.url))
        page.context.set_offline(True)
        page.set_viewport_size({"width": frame["width"], "height": frame["height"]})
        page.reload()
        page.locator(".irs-told .irs-line").first.wait_for()
        played = _played(page, page.locator(".irs-told"), tmp_path / "page")
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert [step["text"] for step in played] == ["It begins here.", "A product of matrices ends the kernel."]
    for one, other in zip(live, played, strict=True):
        differs = np.abs(one.pop("picture") - other.pop("picture")).max(axis=-1) > 0.2
        assert differs.mean() < MOST_DIFFERENT
        assert one == other


IN_SIGHT = """() => { const around = document.querySelector('.irs-stage').getBoundingClientRect();
  const box = document.querySelector('.irs-box.selected > .irs-face').getBoundingClientRect();
  return box.left >= around.left && box.right <= around.right && box.top >= around.top && box.bottom <= around.bottom; }"""


def test_what_a_step_selects_is_in_sight_whatever_fills_the_explorer(browser: Any, tmp_path: Path) -> None:
    s = irs.story(irs.parse("graph(%x : Float(4)):\n  %a : Float(4) = aten::relu(%x)\n  %b : Float(4) = foreign::op(%a)\n  return (%b)"))
    steps = (
        ("All panes.", "a", ""), ("The graph alone.", "b", "graph"), ("All of them.", "a", ""), ("The text alone.", "b", "text"),
        ("Memory.", "a", "points-to"),
    )  # fmt: skip
    for text, selection, pane in steps:
        s.add(text, selection=selection, pane=pane)
    saved = s.save(tmp_path / "story.html")
    with opened(browser, Path(saved).as_uri(), ".irs-told .irs-box") as page:
        page.locator(".irs-story").focus()
        for key, step in (("n", 2), ("n", 3), ("n", 4), ("n", 5), ("p", 4), ("p", 3), ("p", 2), ("p", 1)):
            page.keyboard.press(key)
            page.locator(".irs-story-at", has_text=f"{step} / 5").wait_for()
            settled(page)
            expect(page.locator(".irs-other .irs-points-to")).to_have_count(int(step == 5))
            if step < 4:
                page.wait_for_function(IN_SIGHT)
            if step == 2:  # in the middle of all the room that there is
                page.get_by_title("show the whole graph (f)").click()
                page.locator(".irs-story").focus()


def test_a_step_opens_what_it_selects_though_the_step_before_hid_the_graph(browser: Any, tmp_path: Path) -> None:
    s = irs.story(irs.parse(network(40)))
    s.add("The inspector alone.", selection="n3", pane="inspector")
    s.add("All panes.", selection="n33")
    with opened(browser, Path(s.save(tmp_path / "story.html")).as_uri(), ".irs-story") as page:
        page.locator(".irs-story").focus()
        page.keyboard.press("n")
        page.locator(".irs-story-at", has_text="2 / 2").wait_for()
        page.locator(".irs-box.selected").first.wait_for()
        page.wait_for_function(IN_SIGHT)


def test_the_stories_of_the_project_play(browser: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each page from its first step to its last, by the key."""
    pytest.importorskip("transformers")
    importlib.import_module("stories").main(str(tmp_path))
    assert {path.stem for path in tmp_path.glob("*.html")} == {"decoder", "blocks", "steps"}
    assert "gone" not in capsys.readouterr().out
    for saved in sorted(tmp_path.glob("*.html")):
        with opened(browser, saved.as_uri(), ".irs-told .irs-box") as page:
            page.locator(".irs-story").focus()
            texts = []
            count = int(page.locator(".irs-story-at").inner_text().split("/")[1])
            for step in range(count):
                page.locator(".irs-story-at", has_text=f"{step + 1} / {count}").wait_for()
                texts.append(page.locator(".irs-story-text").inner_text())
                settled(page)
                page.screenshot(path=saved.with_name(f"{saved.stem} {step + 1}.png"))
                page.keyboard.press("n")
            assert len(set(texts)) == count >= 3
            expect(page.locator(".irs-problem")).to_have_count(0)
