"""The kernel of a group: facts, text in each language, and lines that select nodes and follow what is selected, in a page
and in a notebook.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from tests.browser.conftest import ACTIVE, Lab, expect, holds, opened, prints

pytest.importorskip("llvmlite", reason="llvmlite is not installed: pip install 'irscope[cpu]'")

PROGRAM = """
import numpy as np
import irscope as irs
from tests.browser.test_kernel import model
f = irs.fuse(irs.load(model, *[np.ones((64, 256), np.float32)] * 2))
e = irs.explore(f)
e
"""
LIVE = f"{ACTIVE} .irs"
CODE = ".irs-kernel-code .irs-line"


def model(x: Any, w: Any) -> Any:
    e = np.exp(x * w)
    return np.sqrt(e + 1) / np.tanh(x)


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    fusion = irs.fuse(irs.load(model, *[np.ones((64, 256), np.float32)] * 2))
    path = irs.write_report(fusion, output=tmp_path_factory.mktemp("page") / "report.html")
    with opened(browser, path.as_uri(), ".irs-text .irs-line") as page:
        page.locator(".irs-text .irs-line", has_text="prim::FusionGroup").locator("[data-record]").first.click()
        page.get_by_role("tab", name="Kernel").click()
        yield page


def test_a_page_tells_facts_and_pace(page: Any) -> None:
    facts = page.locator(".irs-kernel-facts")
    facts.locator("summary").wait_for()
    expect(facts.locator("table")).to_be_hidden()  # the text of the kernel has the room
    facts.locator("summary").click()
    facts.get_by_text("8 B read, 4 B written").wait_for()
    expect(facts).to_contain_text("copying as many bytes takes")
    facts.locator("tr").nth(5).wait_for()
    page.get_by_role("tab", name="assembly").click()
    facts.get_by_text("8 B read, 4 B written").wait_for()  # stays unfolded
    facts.locator("summary").click()
    page.get_by_role("tab", name="LLVM").click()
    facts.locator("table").wait_for(state="hidden")


def test_a_line_of_assembly_selects_its_node_and_its_lines_are_marked(page: Any) -> None:
    page.get_by_role("tab", name="assembly").click()
    line = page.locator(f"{CODE}.linked", has_text="sqrt").first
    line.click()
    page.locator(".irs-text .irs-line.selected", has_text="aten::sqrt").wait_for()
    page.locator(".irs-box.selected").first.wait_for()
    marked = page.locator(f"{CODE}.selected")
    marked.first.wait_for()
    assert all("sqrt" in text for text in marked.all_inner_texts() if text.split()[-2:-1] != ["movabsq"])
    expect(page.get_by_role("tab", name="assembly")).to_have_attribute("aria-selected", "true")  # the language stays


def test_a_node_selected_elsewhere_marks_its_lines_in_sight(page: Any) -> None:
    page.get_by_role("tab", name="assembly").click()
    page.locator(".irs-text .irs-line", has_text="aten::exp").first.locator("[data-record]").first.click()
    marked = page.locator(f"{CODE}.selected").first
    expect(marked).to_be_in_viewport()
    expect(page.locator(f"{CODE}.selected", has_text="sqrt")).to_have_count(0)


def test_a_line_under_the_pointer_lights_its_node_in_text_and_graph(page: Any) -> None:
    page.get_by_role("tab", name="LLVM").click()
    page.locator(f"{CODE}.linked", has_text="@llvm.sqrt").first.hover()
    page.locator(".irs-text .irs-line.lit", has_text="aten::sqrt").wait_for()
    page.locator(".irs-box.lit").first.wait_for()


def test_hot_loops_stand_alone_until_all_is_asked_for(page: Any) -> None:
    page.get_by_role("tab", name="assembly").click()
    page.locator(CODE, has_text="sqrt").first.wait_for()
    few = page.locator(CODE).count()
    switch = page.get_by_role("button", name="hot loops only")
    switch.click()
    page.locator(CODE).nth(few).wait_for()
    expect(page.locator(f"{CODE}.hot")).to_have_count(few)
    switch.click()
    expect(page.locator(CODE)).to_have_count(few)


def test_what_a_page_does_not_hold_is_said(page: Any) -> None:
    page.get_by_role("tab", name="PTX").click()
    page.get_by_text("a notebook generates the rest").wait_for()
    expect(page.locator(CODE)).to_have_count(0)


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Lab]:
    with lab.shown("kernel.ipynb", PROGRAM, until=".irs .irs-box"):
        yield lab


def test_machine_code_comes_from_python_and_its_lines_select_there(notebook: Lab, tmp_path: Path) -> None:
    page = notebook.page
    notebook.python("e.selection = [f.groups[0]]")
    page.locator(f"{LIVE} [role=tab]", has_text="Kernel").click()
    page.locator(f"{LIVE} .irs-kernel-facts", has_text="8 B read, 4 B written").wait_for()
    page.locator(f"{LIVE} .irs-languages button", has_text="assembly").click()
    line = page.locator(f"{LIVE} {CODE}.linked", has_text="sqrt").first
    line.click()
    page.locator(f"{LIVE} .irs-text .irs-line.selected", has_text="aten::sqrt").wait_for()
    prints(notebook, "[node.op for node in f.graph.nodes() if node.id in e.selection]", "['aten::sqrt']")
    notebook.python("e.selection = [node for node in f.groups[0].blocks[0].nodes if node.op == 'aten::exp']")
    page.locator(f"{LIVE} {CODE}.selected").first.wait_for()
    expect(page.locator(f"{LIVE} {CODE}.selected", has_text="sqrt")).to_have_count(0)
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        page.screenshot(path=tmp_path / f"{theme}.png")


def test_source_ir_and_kernel_stand_side_by_side_and_mark_the_same_lines(page: Any) -> None:
    """By a key; another widens a pane, and none of them goes."""
    page.locator("body").press("c")
    columns = [page.locator(f".irs-main > .{name}") for name in ("irs-source-pane", "irs-text:not(.irs-source-pane)", "irs-kernel-pane")]
    for pane in columns:
        pane.locator(".irs-line").first.wait_for()
    source, ir, kernel = columns
    expect(page.locator(".irs-graph")).to_be_hidden()
    expect(page.locator(".irs-dock")).to_be_visible()
    ir.locator(".irs-line", has_text="aten::tanh").locator("[data-record]").first.click()
    kernel.locator(".irs-line.selected").first.wait_for()
    source.locator(".irs-line.selected", has_text="np.tanh").wait_for()
    kernel.locator(".irs-line.linked:not(.selected)").last.click()
    source.locator(".irs-line.selected", has_text="return").wait_for()
    expect(ir.locator(".irs-line.selected").first).not_to_contain_text("np.tanh")
    width = source.bounding_box()["width"]
    source.locator(".irs-scroller").press("z")
    holds(page, "(pane, width) => pane.getBoundingClientRect().width > 1.5 * width", source.element_handle(), width)
    assert all(pane.is_visible() for pane in columns)
    page.get_by_role("separator", name="resize panes").locator("visible=true").first.press("ArrowLeft")
    assert all(pane.bounding_box()["width"] > 100 for pane in columns)
    page.get_by_role("button", name="columns", exact=True).click()
    expect(page.locator(".irs-graph")).to_be_visible()
    expect(kernel).to_be_hidden()
