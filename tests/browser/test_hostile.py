"""Names that would be markup, script, or nothing at all, in pages and in the live views of JupyterLab."""

from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope._base.words import printable
from irscope.ir.builder import GraphBuilder
from tests.browser.conftest import ACTIVE, expect, opened
from tests.browser.pages import EXPLORERS, pages, states
from tests.oracles.hostile import BRIEF, HOSTILE, SHORT, X, program, told

PROGRAM = r"""
import irscope as irs
from tests.oracles.hostile import program
TEXTS = ["</script><img src=x onerror=window.pwned=1>", "<!--<script>", "a\udc80b", "nul\0 \x1b[31m", "\u202e\u2028"]
"""
CELLS = (
    PROGRAM, *(f"irs.explore(program(TEXTS[{k}]))" for k in range(4)), "%load_ext irscope\nprogram(TEXTS[0])",
    "irs.fuse(program(TEXTS[2]))", "irs.AliasDb(program(TEXTS[3]))", "irs.timeline(irs.fuse(program(TEXTS[4])))",
    "irs.quiz.alias(program(TEXTS[0]), count=1)", "irs.diff(program(TEXTS[0]), irs.fuse(program(TEXTS[0])))",
    "irs.ViewAliases(program(TEXTS[0]))", "irs.memory_plan(program(TEXTS[0]))",
)  # fmt: skip


def test_every_view_of_a_notebook_is_alive(lab: Any) -> None:
    with lab.shown("hostile.ipynb", *CELLS, until=".irs .irs-head h2 >> nth=4"):
        page = lab.page
        assert page.evaluate("window.pwned") is None
        heads, views = page.locator(f"{ACTIVE} .irs-head h2"), page.locator(f"{ACTIVE} .irs")
        for index in range(4):
            view = views.nth(index)
            view.locator(".irs-line", has_text="aten::tanh").first.click(position={"x": 60, "y": 9})  # a line is longer than its pane
            view.locator(".irs-line.selected", has_text="aten::tanh").first.wait_for()
            view.locator(".irs-sentence").first.wait_for()
        assert page.locator(f"{ACTIVE} [data-mime-type*=stderr], .jp-RenderedText[data-mime-type*=error]").count() == 0
        for index, title in enumerate(("</script><img src=x onerror=window.pwned=1>", "<!--<script>", r"a\udc80b", r"nul\x00 \x1b[31m")):
            expect(heads.nth(index)).to_have_text(title)


@pytest.mark.parametrize("texts", [BRIEF, pytest.param(HOSTILE, marks=pytest.mark.long)], ids=["some", "all"])
def test_chromium_shows_it_as_text(browser: Any, texts: list[str], tmp_path: Path) -> None:
    """A page is alive if a click in the text selects in the graph."""
    for text in texts:
        path = irs.write_report(program(text), output=tmp_path / "r.html")
        with opened(browser, path.as_uri(), ".irs-line") as page:
            page.locator(".irs-line", has_text="aten::add_").first.click()
            page.locator(".irs-line.selected", has_text="aten::add_").first.wait_for()
            assert page.evaluate("window.pwned") is None
            assert page.locator(".irs-head h2").text_content().startswith(printable(text)[:100]), told(text)


@pytest.mark.parametrize(
    "text", ["</script><img src=x onerror=window.pwned=1>", *(pytest.param(text, marks=pytest.mark.long) for text in SHORT[:9])]
)
def test_every_page_and_every_pane_shows_it_as_text(browser: Any, tmp_path: Path, text: str) -> None:
    """Memory, classes, profile, story, survey and diff included."""
    written = pages(tmp_path, text)
    assert len(written) == 7
    for name, address in written.items():
        with opened(browser, address, ".irs-head" if name in EXPLORERS else "h1") as page:
            for state in states(page):
                assert page.evaluate("window.pwned") is None, (name, state)
                assert page.locator("[onerror], img[src=x]").count() == 0, (name, state)
            assert printable(text) in page.locator("body").inner_text(), name


@pytest.mark.parametrize("letter", ["a", *(pytest.param(letter, marks=pytest.mark.long) for letter in ("<", "\\", '"', "\U0001f600"))])
def test_chromium_with_constants_of_megabytes(browser: Any, tmp_path: Path, letter: str) -> None:
    build = GraphBuilder("huge")
    x = build.input("x", X)
    (y,) = build.node("aten::relu", (x,), (X,), names=("y",))
    (z,) = build.node("aten::add_", (y,), (X,), names=("z",))
    (w,) = build.node("foreign::op", (z, build.constant(letter * 5_000_000)), (X,), attrs={"code": letter * 5_000_000})
    path = irs.write_report(build.finish([w]), output=tmp_path / "r.html")
    assert path.stat().st_size < 2_000_000
    with opened(browser, path.as_uri(), ".irs-line") as page:
        page.locator(".irs-line", has_text="more letters").first.click()
        page.locator(".irs-line.selected").first.wait_for()
