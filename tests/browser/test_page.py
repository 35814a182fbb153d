"""The standalone page: the same views from a file on disk, with no server, no kernel and no request."""

import importlib.util
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.compilers.record import Decisions, Kernel, program_of
from irscope.display.diff_page import diff_html
from irscope.report.pages import Exploration, Inspection
from tests.browser import pages
from tests.browser.conftest import expect, holds, opened, settled, window
from tests.browser.pages import network
from tests.programs import ir

PROGRAM = ir("x | a = relu x; b = tanh a | b", "Float(8)")


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that counts its requests and fails on errors."""
    asked: list[str] = []
    with window(browser, 860) as page:
        page.on("request", lambda request: asked.append(request.url))
        yield page
    assert [url for url in asked if not url.startswith("file:")] == []
    assert len(asked) == 1, asked


def written(tmp_path: Path, program: Any, **options: Any) -> str:
    """The address of a report of a program, or of this many blocks of a network."""
    source = irs.parse(network(program) if isinstance(program, int) else program) if isinstance(program, int | str) else program
    return irs.write_report(source, output=tmp_path / "page.html", **options).as_uri()


def test_the_page_draws_itself_and_answers_from_its_details(page: Any, tmp_path: Path) -> None:
    page.goto(written(tmp_path, 8))
    page.get_by_role("button", name="open all").click()
    page.locator(".irs-kind-op", has_text="conv2d").first.click()
    page.locator(".irs-line.selected", has_text="aten::conv2d").wait_for()
    page.locator(".irs-sentence", has_text="may share memory").wait_for()
    page.get_by_role("tab", name="Kernel").click()
    expect(page.locator(".irs-source")).to_have_count(0)
    page.locator(".irs-kind-group .irs-label").first.click()
    page.locator(".irs-source .irs-line.linked").first.click()
    page.locator(".irs-line.selected", has_text="aten::").wait_for()


def test_the_page_follows_the_reader_s_colour_scheme(page: Any, tmp_path: Path) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(written(tmp_path, 3))
    expect(page.locator(".irs")).to_have_css("background-color", "rgb(22, 24, 29)")
    page.emulate_media(color_scheme="light")
    expect(page.locator(".irs")).to_have_css("background-color", "rgb(255, 255, 255)")


def test_twenty_thousand_boxes_open_and_close_with_few_elements_drawn(page: Any, tmp_path: Path) -> None:
    page.goto(written(tmp_path, 3400, answers=False))
    page.locator(".irs-box").first.wait_for()
    drawn = page.evaluate(
        """async () => {
        const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
        const counts = {};
        for (const name of ['open all', 'fit', '+', 'close all']) {
          [...document.querySelectorAll('.irs-graph button')].find(b => b.textContent === name).click();
          await frame();
          counts[name] = document.querySelectorAll('*').length;
        }
        return counts; }"""
    )
    assert max(drawn.values()) < 9000, drawn


def test_the_page_of_two_compilers_has_the_strip_and_compares_them_as_lines_and_colours(page: Any, tmp_path: Path) -> None:
    def decided(compiler: str, *groups: tuple[str, ...]) -> Decisions:
        g = irs.parse(PROGRAM)
        kernels = [Kernel(names[0], tuple(map(g.node, names[1:]))) for names in groups]
        return Decisions(compiler, (program_of(g, kernels, compiler=compiler),))

    one, other = decided("one", ("relu_tanh", "a", "b")), decided("other", ("first", "a"), ("second", "b"))
    page.goto(irs.write_report(one, other, output=tmp_path / "page.html").as_uri())
    names = page.locator(".irs-branch .irs-branch-name")
    expect(names).to_have_text(["0 one", "1 irscope greedy", "2 irscope min-bytes", "3 other"])
    expect(page.locator(".irs-branch").nth(3)).to_contain_text("2 of 2 ops")
    expect(page.get_by_role("button", name="what if…")).to_have_count(0)
    page.get_by_role("button", name="compare branch 3 with the branch shown").click()
    expect(page.locator(".irs-branch-diff")).to_contain_text("2 of 2 ops matched")
    expect(page.locator(".irs-legend")).to_contain_text("one kernel only in one: 1 pair")
    expect(page.locator("option[value=compared]")).to_have_text("colour: beside other")


def test_the_search_key_needs_no_click_first(page: Any, tmp_path: Path) -> None:
    page.goto(written(tmp_path, 20))
    page.locator(".irs-box").first.wait_for()
    page.keyboard.press("/")
    expect(page.locator(".irs-search input")).to_be_focused()


def test_a_large_page_holds_its_data_compressed_and_answers_all_the_same(page: Any, tmp_path: Path) -> None:
    lines = [f"  %v{i + 1} : Float(8) = aten::{('relu', 'tanh')[i % 2]}(%v{i})" for i in range(700)]
    graph = irs.parse("\n".join(["graph(%v0 : Float(8)):", *lines, "  return (%v700)"]))
    path = irs.write_report(graph, output=tmp_path / "page.html")
    assert 'data-packed="gzip"' in path.read_text(encoding="utf-8")
    assert path.stat().st_size < 1_000_000
    page.goto(path.as_uri())
    page.locator(".irs-text .irs-line", has_text="%v1 : Float(8)").or_(page.locator(".irs-text .irs-line", has_text="%v1 =")).first.click()
    page.locator(".irs-inspector", has_text="shares memory with no other value").wait_for()


def test_a_page_without_answers_says_so_and_shows_the_rest(page: Any, tmp_path: Path) -> None:
    page.goto(written(tmp_path, PROGRAM, answers=False))
    page.locator(".irs-counts", has_text="no answers about single values").wait_for()
    page.locator(".irs-text .irs-line", has_text="aten::relu").first.click()
    page.locator(".irs-inspector", has_text="this page includes no answers about it").wait_for()
    page.get_by_role("tab", name="Memory").click()
    page.locator(".irs-memory svg").first.wait_for()


def test_closed_tables_give_their_place_to_the_rest(page: Any, tmp_path: Path) -> None:
    page.goto(written(tmp_path, PROGRAM))
    tab = page.get_by_role("tab", name="Remarks")
    tab.wait_for()
    height = "document.querySelector('.irs-main').getBoundingClientRect().height"
    page.locator(".irs-box").first.wait_for()
    settled(page)
    before = page.evaluate(height)
    tab.click()
    holds(page, f"before => {height} > before + 80", before)
    tab.click()
    holds(page, f"before => {height} === before", before)


def test_escape_leaves_the_steps(page: Any, tmp_path: Path) -> None:
    page.goto(written(tmp_path, PROGRAM))
    page.locator(".irs-line", has_text="aten::tanh").first.click()
    for key in ",.":
        page.keyboard.press(key)
    page.locator(".irs-line.t-joined").first.wait_for()
    page.keyboard.press("Escape")  # the selection first
    expect(page.locator(".irs-line.selected")).to_have_count(0)
    settled(page)
    assert page.locator(".irs-line.t-joined").count()
    page.keyboard.press("Escape")
    page.locator(".irs-line.t-joined").first.wait_for(state="detached")


@pytest.mark.parametrize("width", [1280, 1000, 860, 700])
def test_bars_keep_what_is_in_them_in_sight(page: Any, tmp_path: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(written(tmp_path, PROGRAM))
    page.locator(".irs-svg .irs-box").first.wait_for()
    settled(page)
    for bar in page.locator(".irs-head, .irs-graph > .irs-bar, .irs-text > .irs-bar").all():
        around = bar.bounding_box()
        for inside in bar.locator("input, select, button").all():
            if inside.is_visible():
                box = inside.bounding_box()
                assert box["width"] >= 12
                assert around["x"] <= box["x"] and box["x"] + box["width"] <= around["x"] + around["width"] + 1
    assert page.locator(".irs-graph select").first.bounding_box()["width"] > 110  # "colour: kind", whole
    if width == 1280:
        page.locator(".irs-graph select").first.focus()
        page.keyboard.press("/")
        expect(page.locator(".irs-search input")).to_be_focused()


def test_a_group_marks_the_lines_of_source_that_its_nodes_came_from(page: Any, tmp_path: Path) -> None:
    lines = ["import numpy as np", "", "def act(x):", "    a = np.tanh(x)", "    b = np.exp(a)", "    return a * b"]
    file = tmp_path / "act.py"
    file.write_text("\n".join(lines), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("act", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    graph = irs.load(module.act, np.zeros((4, 8), np.float32))
    page.goto(written(tmp_path, graph, sources=tmp_path))
    page.locator(".irs-text select").select_option(label="act.py")
    page.locator(".irs-text > .irs-bar", has_text="6 lines").wait_for()
    page.locator(".irs-kind-group").first.click(position={"x": 60, "y": 8})
    expect(page.locator(".irs-line.selected code, .irs-line.inside code")).to_have_text(lines[3:])


@pytest.mark.parametrize("width", [1280, 700])
def test_both_sides_of_a_diff_are_in_sight_however_long_their_lines(page: Any, tmp_path: Path, width: int) -> None:
    name = "layers.attention.weight_" * 12
    lines = [f"graph(%x : Float(8), %{name} : Float(8)):", "  %a : Float(8) = aten::relu(%x)", f"  %b : Float(8) = aten::mul(%a, %{name})"]
    long = "\n".join([*lines, "  return (%b)"])
    told = diff_html(irs.diff(irs.parse(long), irs.parse(long.replace("relu", "tanh"))))
    (tmp_path / "diff.html").write_text(f"<!doctype html><meta charset=utf-8>{told}", encoding="utf-8")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto((tmp_path / "diff.html").as_uri())
    sides = page.locator("tr", has_text="aten::mul").first.locator("td")
    assert sides.count() == 4
    assert [side for side in (cell.bounding_box() for cell in sides.all()) if side["x"] + side["width"] > width] == []


LETTERS = """() => [...document.querySelectorAll('.irs-stage .irs-label')].map(text =>
  parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)"""
SCALE = "() => document.querySelector('.irs-stage .irs-box').getScreenCTM().a"


def deep(layers: int) -> str:
    """An embedding, equal layers of two modules each, a norm and a head, as a language model has them."""
    T = "Float(4, 8)"
    lines, last = [f"graph(%x : {T}, %w : {T}):", f"  %e : {T} = aten::mul(%x, %w), scope: model.embedding"], "e"
    for k in range(layers):
        for part, op in (("attention", "softplus"), ("mlp", "tanh")):
            lines += [f"  %{part}{k} : {T} = foreign::{op}(%{last}), scope: model.layers.{k}.{part}"]
            lines += [f"  %{part}_sum{k} : {T} = aten::add(%{part}{k}, %{last}, %{part}{k}), scope: model.layers.{k}.{part}"]
            last = f"{part}_sum{k}"
    lines += [f"  %n : {T} = aten::tanh(%{last}), scope: model.norm", f"  %h : {T} = foreign::head(%n), scope: head"]
    return "\n".join([*lines, "  return (%h)"])


def test_a_deep_model_is_one_screen_with_letters_that_can_be_read(page: Any, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(written(tmp_path, deep(24)))
    page.locator(".irs-kind-repeat", has_text="×24").wait_for()
    settled(page)
    for name in ("%x", "×24", "head", "result"):  # from first to last, without a move
        box, stage = page.locator(".irs-box", has_text=name).last.bounding_box(), page.locator(".irs-stage").bounding_box()
        assert stage["y"] <= box["y"] and box["y"] + box["height"] <= stage["y"] + stage["height"], name
    assert min(page.evaluate(LETTERS)) >= 9
    before = page.evaluate(SCALE)
    page.locator(".irs-graph .irs-whole").click()
    page.wait_for_function(f"before => ({SCALE})() > before || ({SCALE})() === 1", arg=before)  # a whole in sight grows with the pane
    page.locator(".irs-graph .irs-whole").click()
    page.wait_for_function(f"before => Math.abs(({SCALE})() - before) < 0.01", arg=before)


def test_a_larger_window_shows_more_of_a_picture_that_was_not_moved(page: Any, tmp_path: Path) -> None:
    ops = ("relu", "tanh", "sigmoid", "exp", "neg", "abs", "relu", "tanh", "sigmoid", "exp", "sin")
    lines = [f"  %v{k + 1} : Float(8) = aten::{op}(%v{k})" for k, op in enumerate(ops)]
    page.set_viewport_size({"width": 1280, "height": 700})
    page.goto(written(tmp_path, "\n".join(["graph(%v0 : Float(8)):", *lines, "  return (%v11)"])))
    page.locator(".irs-box", has_text="relu").first.wait_for()
    settled(page)
    seen = """() => { const stage = document.querySelector(".irs-stage").getBoundingClientRect();
        return [...document.querySelectorAll(".irs-box:not(.open) > .irs-face")].map(box => box.getBoundingClientRect())
        .filter(({top, bottom, left, right}) =>
            top >= stage.top && bottom <= stage.bottom && left >= stage.left && right <= stage.right).length; }"""
    few = page.evaluate(seen)
    page.set_viewport_size({"width": 1600, "height": 1100})
    page.wait_for_function(f"few => ({seen})() > few", arg=few)


def test_of_a_long_program_the_first_look_shows_what_can_be_read(page: Any, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 700, "height": 800})
    chain = [f"  %v{k + 1} : Float(8) = foreign::op{k % 9}(%v{k})" for k in range(400)]
    page.goto(written(tmp_path, "\n".join(["graph(%v0 : Float(8)):", *chain, "  return (%v400)"])))
    page.locator(".irs-stage .irs-label").first.wait_for()
    settled(page)
    assert min(page.evaluate(LETTERS)) >= 10
    map, stage = page.locator(".irs-map").bounding_box(), page.locator(".irs-stage").bounding_box()
    assert map is None or (stage["y"] <= map["y"] and map["y"] + map["height"] <= stage["y"] + stage["height"])


KINDS = (("alias", "May they alias?"), ("fusion", "Fused together?"), ("same", "The same?"))
NAMES = ["x", "scaled0", "bent0", "product0", "scaled1", "bent1", "row", "written", "turned", "copied"]
NOT_ANSWERED = "not stored in this page"


@pytest.fixture(scope="module")
def asked(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any, Inspection]]:
    """A report, the graph that it shows, and what answers for it in Python: of any two things the page has to say the same."""
    fusion = irs.fuse(pages.program())
    report = irs.write_report(fusion, output=tmp_path_factory.mktemp("report") / "pairs.html")
    with opened(browser, Path(report).as_uri(), ".irs-box") as page:
        yield page, fusion.graph, Inspection(Exploration(fusion))


def said(page: Any, record: int) -> dict[str, bool | None]:
    """What the page says of the pair; None where it says that the question does not apply."""
    page.locator(f".irs-chips [data-record='{record}'], .irs-verdict").first.wait_for()
    found: dict[str, bool | None] = {}
    for kind, question in KINDS:
        verdict = page.locator(".irs-verdict", has_text=question)
        words = verdict.inner_text()
        assert NOT_ANSWERED not in words, words
        found[kind] = True if f"{question} yes" in words else False if f"{question} no" in words else None
    return found


def test_every_pair_is_answered_as_in_python(asked: tuple[Any, Any, Inspection]) -> None:
    page, graph, inspection = asked
    ids = {name: graph.value(name).id for name in NAMES if name in graph.names.values()}
    assert len(ids) >= 9
    wrong = {}
    for one, other in combinations(ids, 2):
        page.locator(f".irs-text [data-record='{ids[one]}']").first.click()
        page.locator(f".irs-text [data-record='{ids[other]}']").first.click(modifiers=["Shift"])
        page.locator(".irs-subject h3", has_text=f"%{other}").wait_for()
        pair = inspection.pair(ids[one], ids[other])
        expected = {kind: None if pair[kind] is None else pair[kind]["holds"] for kind, _ in KINDS}  # type: ignore[literal-required]
        if (told := said(page, ids[other])) != expected:
            wrong[one, other] = told, expected
    assert not wrong, wrong


def test_two_nodes_are_compared_by_their_memory(asked: tuple[Any, Any, Inspection]) -> None:
    """A node stands for its first result."""
    page, _graph, _ = asked
    line = ".irs-text .irs-line"
    page.locator(line, has_text="aten::select").locator("code").click(position={"x": 2, "y": 6})
    page.locator(line, has_text="aten::relu_").locator("code").click(position={"x": 2, "y": 6}, modifiers=["Shift"])
    page.locator(".irs-verdict", has_text="May they alias? yes").wait_for()


def test_groups_that_meet_later_show_the_step_and_its_price(asked: tuple[Any, Any, Inspection]) -> None:
    page, _graph, _ = asked
    page.locator(".irs-text [data-record]", has_text="%bent0").first.click()
    page.locator(".irs-text [data-record]", has_text="%bent1").first.click(modifiers=["Shift"])
    page.locator(".irs-verdict", has_text="only from step 'constants' on, which gives up the constants, which become arguments").wait_for()
