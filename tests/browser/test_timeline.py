"""The timeline: keys, pointer and Python move one step, every pane follows it, and nothing moves that needs not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from tests.browser.conftest import ACTIVE, Lab, expect, prints, settled, window
from tests.programs import ir

STEPS = 20
"""Of a long history, as many as two of its groups have."""
PROGRAM = ir(
    "x y | one = 1; two:int = add one one; a = relu x; b = add a y two; c = tanh b; m = matmul c x; e = neg m; f = exp e | f",
    "Float(64, 64)",
)


def chain(groups: int, size: int) -> str:
    """Pointwise ops with a product after every few: each stretch becomes a group."""
    lines, last = ["graph(%x : Float(8, 8)):"], "x"
    for group in range(groups):
        for k in range(size):
            lines.append(f"  %v{group}_{k} : Float(8, 8) = aten::{('relu', 'tanh', 'neg')[k % 3]}(%{last})")
            last = f"v{group}_{k}"
        lines.append(f"  %m{group} : Float(8, 8) = aten::matmul(%{last}, %x)")
        last = f"m{group}"
    return "\n".join([*lines, f"  return (%{last})"])


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with window(browser, 860) as page:
        yield page


def opened(page: Any, tmp_path: Path, source: Any) -> Any:
    """The step bar's slider of a report."""
    page.goto(irs.write_report(source, output=tmp_path / "page.html").as_uri())
    page.locator(".irs-box").first.wait_for()
    slider = page.get_by_role("slider", name="step of the history")
    slider.focus()
    return slider


def now(page: Any, what: str) -> list[str]:
    settled(page)
    found: list[str] = page.locator(f"{what}.t-now").all_inner_texts()
    return found


def test_keys_move_the_step_and_every_pane_follows(page: Any, tmp_path: Path) -> None:
    slider = opened(page, tmp_path, irs.fuse(irs.parse(PROGRAM)).history)
    assert page.locator(".irs-line.t-now, .irs-box.t-now, .t-joined").count() == 0  # nobody travels yet
    last = int(slider.get_attribute("aria-valuemax"))
    for key, state in (
        ("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("PageUp", last), ("PageDown", 0), ("End", last)
    ):  # fmt: skip
        page.keyboard.press(key)
        expect(slider).to_have_attribute("aria-valuenow", str(state))
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")  # fold-constants
    assert "%two : int = aten::add(%one, %one)" in " ".join(now(page, ".irs-line")).replace("%two =", "%two : int =")
    page.keyboard.press("ArrowRight")
    lines = [line.split("\n")[-1].strip() for line in now(page, ".irs-line")]
    assert lines == ["%e = aten::neg(%m.1)", "%f.1 = aten::exp(%e)"]
    expect(page.locator(".irs-box.t-now")).to_have_count(2)
    expect(slider).to_have_attribute("aria-valuetext", f"step 2 of {last}: merged %e and %f into group 1, saves 32.8 kB")
    page.locator("[role=status]", has_text="merged %e and %f").wait_for(state="attached")


def test_a_line_reads_as_before_until_its_node_is_joined(page: Any, tmp_path: Path) -> None:
    opened(page, tmp_path, irs.fuse(irs.parse(PROGRAM)).history)
    page.keyboard.press("Home")
    settled(page)
    line = page.locator(".irs-line.t-loose", has_text="aten::add")
    expect(line.locator("code")).to_have_text("%b = aten::add(%a, %y, %two)")
    page.keyboard.press("End")
    expect(page.locator(".irs-line.t-joined", has_text="aten::add").locator("code")).to_have_text("%b = aten::add(%a, %y.1, %two)")
    expect(page.locator(".irs-line .t-kept", has_text="%b")).to_have_count(2)


@pytest.mark.parametrize("removed", ["shown", "as they are"])
def test_nothing_moves_between_merges_nor_at_all_with_removed_lines_shown(removed: str, page: Any, tmp_path: Path) -> None:
    slider = opened(page, tmp_path, irs.fuse(irs.parse(PROGRAM)).history)
    page.keyboard.press("Home")
    if removed == "shown":
        page.get_by_role("button", name="removed").click()
        slider.focus()
    else:
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
    settled(page)
    places = """() => JSON.stringify([...document.querySelectorAll('.irs-box, .irs-line')].map(e =>
        [e.dataset.box ?? e.dataset.line, e.getAttribute('transform') ?? e.style.top]))"""
    before = page.evaluate(places)
    seen = set()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
        settled(page)
        seen.add(page.evaluate(places))
    expect(slider).to_have_attribute("aria-valuenow", slider.get_attribute("aria-valuemax"))
    assert seen == {before}


REWRITTEN = ir("x w | a = matmul x w; b = relu_ a; s1 = sigmoid b; s2 = sigmoid b; m = mul s1 s2 | m", "Float(64, 64)")


def test_a_pipeline_is_read_backwards_line_by_line(page: Any, tmp_path: Path) -> None:
    opened(page, tmp_path, irs.Pipeline("functionalize,cse,fuse")(irs.parse(REWRITTEN)).history)
    page.keyboard.press("Home")
    settled(page)
    lines = [line.split("\n")[-1].strip() for line in page.locator(".irs-line:not(.t-unmade):not(.t-frame)").all_inner_texts()]
    assert [line for line in lines if "aten::" in line] == [
        "%a = aten::matmul(%x, %w)", "%b = aten::relu_(%a)", "%s2 = aten::sigmoid(%b)", "%s1 = aten::sigmoid(%b)",
        "%m = aten::mul(%s1, %s2)",
    ]  # fmt: skip
    assert page.locator(".irs-box.t-unmade", has_text="relu").count() == 1
    page.locator(".irs-line", has_text="aten::sigmoid(%b)").last.locator("[data-record]").last.click()
    page.locator(".irs-panel .irs-sentence", has_text="%b may share memory with %a").wait_for()
    page.get_by_role("button", name="next step").click()
    page.locator(".irs-panel .irs-sentence", has_text="%b shares memory with no other value").wait_for()
    assert any("relu_" in line for line in now(page, ".irs-line.t-gone"))


def test_buttons_play_pointer_and_list_move_the_step(page: Any, tmp_path: Path) -> None:
    history = irs.fuse(irs.parse(PROGRAM)).history
    slider = opened(page, tmp_path, history)

    def at(step: int) -> None:
        expect(slider).to_have_attribute("aria-valuenow", str(step))

    page.get_by_role("button", name="step back").click()
    at(len(history.steps) - 1)
    page.locator(".irs-step").first.click()
    at(1)
    box = slider.bounding_box()
    page.mouse.click(box["x"] + 1, box["y"] + 8)
    at(0)
    expect(page.get_by_role("button", name="step back")).to_be_disabled()
    page.keyboard.press(".")
    at(1)
    slider.focus()
    page.keyboard.press(" ")
    page.locator(f".irs-track[aria-valuenow='{len(history.steps)}']").wait_for()
    expect(page.get_by_role("button", name="play")).to_have_attribute("aria-pressed", "false")


def test_names_in_the_sentence_select_and_the_alias_tab_follows(page: Any, tmp_path: Path) -> None:
    opened(page, tmp_path, irs.fuse(irs.parse(PROGRAM)).history)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    settled(page)
    page.locator(".irs-said .irs-name", has_text="%e").first.click()
    page.locator(".irs-subject h3", has_text="%e").wait_for()
    page.locator(".irs-panel", has_text="at step 2: only its group uses it now").wait_for()
    page.get_by_role("button", name="step back").click()
    page.locator(".irs-panel", has_text="at step 1").wait_for()
    expect(page.locator(".irs-panel")).not_to_contain_text("only its group")


def test_a_program_without_a_history_has_no_step_bar(page: Any, tmp_path: Path) -> None:
    graph = irs.parse("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)")
    page.goto(irs.write_report(graph, output=tmp_path / "page.html").as_uri())
    page.locator(".irs-box").first.wait_for()
    assert page.locator(".irs-steps").count() == 0
    assert page.get_by_role("tab", name="Steps").count() == 0


def test_a_step_of_a_long_history_touches_only_what_changed(page: Any, tmp_path: Path) -> None:
    """Growth is counted in changes of the document, not in seconds: see tests/benchmarks for those."""
    touched = {}
    for groups in (20, 200):
        slider = opened(page, tmp_path, irs.fuse(irs.parse(chain(groups, 11))).history)
        assert slider.get_attribute("aria-valuemax") == str(10 * groups)
        page.keyboard.press("Home")
        settled(page)
        page.evaluate(
            """() => { window.changes = 0; new MutationObserver(found => { window.changes += found.length; })
            .observe(document.querySelector('.irs'), {subtree: true, childList: true, attributes: true}); }"""
        )
        for _ in range(STEPS):
            page.keyboard.press("ArrowRight")
            settled(page)
        expect(slider).to_have_attribute("aria-valuenow", str(STEPS))
        touched[groups] = page.evaluate("window.changes") / STEPS
        assert page.locator("*").count() < 3000
    assert touched[200] < 1.2 * touched[20] + 5, touched
    assert touched[200] < 150, touched


TIMELINE = """
import irscope as irs
f = irs.fuse(irs.parse('''{program}'''))
t = irs.timeline(f)
t
"""


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Lab]:
    with lab.shown("timeline.ipynb", TIMELINE.format(program=PROGRAM), until=".irs-history .irs-box"):
        yield lab


def test_the_step_is_python_s_both_ways(notebook: Lab) -> None:
    page, live = notebook.page, f"{ACTIVE} .irs"
    assert notebook.python("print(t.step == len(f.history.steps))") == "True"
    notebook.python("t.step = 3")
    page.locator(f"{live} .irs-track[aria-valuenow='3']").wait_for()
    expect(page.locator(f"{live} .irs-box.t-now")).to_have_count(2)
    page.locator(f"{live} .irs-track").press("ArrowRight")
    prints(notebook, "t.step", "4")
    assert "there is no step 99" in notebook.python("t.step = 99")
    assert notebook.python("t.step = -1\nprint(t.step == len(f.history.steps))") == "True"


def test_with_a_kernel_aliases_are_those_of_the_state_s_own_graph(notebook: Lab) -> None:
    page, live = notebook.page, f"{ACTIVE} .irs"
    notebook.python("t.step = 0\nt.selection = '%c.1'")
    page.locator(f"{live} .irs-panel", has_text="at step 0").wait_for()
    page.locator(f"{live} .irs-panel .irs-sentence", has_text="%c shares memory with no other value").wait_for()
    notebook.python("t.step = -1\nt.selection = []")


def test_a_history_shows_itself_and_a_saved_notebook_shows_its_steps(notebook: Lab) -> None:
    page = notebook.page
    notebook.add_cell("f.history")
    page.locator(f"{ACTIVE} .irs-history").nth(1).locator(".irs-box").first.wait_for()
    notebook.save()
    (first, second) = json.loads((notebook.root / "timeline.ipynb").read_text())["cells"]
    for cell in (first, second):
        html = "".join("".join(output.get("data", {}).get("text/html", "")) for output in cell["outputs"])
        assert "merged %e and %f into group 1" in html
        assert "<img" in html
