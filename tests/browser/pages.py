"""Programs for the browser, and every page that irscope writes of a small one, with whatever names are wanted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import irscope as irs
from irscope._base.words import in_markup, printable
from irscope.display.diff_page import diff_html
from irscope.display.html import plain_page
from irscope.display.survey_page import SurveyedClass, SurveyView, survey_html
from irscope.ir import Graph, GraphBuilder, Location, TensorType

EXPLORERS = ("report", "classes", "profiled", "story", "history")
"""The pages that are explorers; the others have no script."""

X = TensorType("float32", (64, 64), (64, 1))
ROW = TensorType("float32", (64,), (1,))
T = TensorType("float32", (64, 64), (1, 64))


def program(name: str = "net") -> Graph:
    """Two equal stretches that differ in a number, a product, a row that is written in place, a transposition and its copy."""
    build = GraphBuilder(name)
    x = build.input(name if name != "net" else "x", X)
    w = build.input("w", X)
    one, zero = build.constant(1), build.constant(0)
    value = x
    for layer, scale in (("0", 0.5), ("1", 0.25)):
        there: dict[str, Any] = {"scope": f"{name}.{layer}", "location": Location(name, 3)}
        (scaled,) = build.node("aten::mul", (value, build.constant(scale)), (X,), names=(f"scaled{layer}",), **there)
        (bent,) = build.node("aten::tanh", (scaled,), (X,), names=(f"bent{layer}",), **there)
        (value,) = build.node("aten::mm", (bent, w), (X,), names=(f"product{layer}",), **there)
    (row,) = build.node("aten::select", (value, zero, one), (ROW,), names=("row",))
    build.node("aten::relu_", (row,), (ROW,), names=("written",))
    (turned,) = build.node("aten::t", (value,), (T,), names=("turned",))
    (copied,) = build.node("aten::contiguous", (turned, zero), (X,), names=("copied",))
    (result,) = build.node("foreign::op", (copied, build.constant(name)), (X,), attrs={"code": name}, names=("result",))
    return build.finish([result, row])


def network(blocks: int) -> str:
    """The text of a residual network, whose blocks are a convolution and a group each; a row of the last is written in place."""
    t, lines, last = "Float(1, 8, 8, 8)", list[str](), "x"
    for k in range(blocks):
        bend = ("relu", "tanh", "sigmoid", "exp", "neg")[k * k % 53 % 5]  # nothing repeats itself
        ops = (
            f"c{k} : {t} = aten::conv2d(%{last}, %w, %none, %ones, %ones, %ones, %one)",
            f"n{k} : {t} = aten::{bend}(%c{k})", f"a{k} : {t} = aten::add(%n{k}, %{last}, %one)",
        )  # fmt: skip
        lines += [f"  %{op}, scope: backbone.stage{(k + 4) // 6}\n" for op in ops]
        last = f"a{k}"
    return f"""graph(%x : {t}, %w : Float(8, 8, 3, 3)):
  %none : NoneType = prim::Constant()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
{"".join(lines)}  %row : Float(8, 8, 8) = aten::select(%{last}, %zero, %zero)
  %written : Float(8, 8, 8) = aten::relu_(%row)
  return (%{last}, %row)"""


def pages(folder: Path, name: str = "net") -> dict[str, str]:
    """The address of each page, by what it shows."""
    graph = program(name)
    fused = irs.fuse(graph)
    same = irs.dedup(fused)
    story = irs.story(fused, title=name)
    story.add(f"{name} **begins** here.", selection="w", pane="graph")
    story.add(f"And it ends here, `{name}`.", selection="copied")
    story.save(folder / "story.html")
    irs.write_report(fused, output=folder / "report.html")
    irs.write_report(same, output=folder / "classes.html")
    irs.write_report(fused.history, output=folder / "history.html")
    measured = irs.profile(_runnable(name), *[np.ones((64, 64), np.float32)] * 2, seconds=0.02)
    irs.write_report(measured, output=folder / "profiled.html")
    (folder / "survey.html").write_text(survey_html(_survey(printable(name))), encoding="utf-8")
    diff = diff_html(irs.diff(graph, fused.graph))
    (folder / "diff.html").write_text(plain_page(name, "diff", f"<h1>{in_markup(name)}</h1>{diff}"), encoding="utf-8")
    return {path.stem: path.as_uri() for path in sorted(folder.glob("*.html"))}


def _runnable(name: str) -> Graph:
    """A program of library ops alone, which can be measured."""
    build = GraphBuilder(name)
    x, w = build.input("x", X), build.input("w", X)
    there: dict[str, Any] = {"scope": name, "location": Location(name, 3)}
    (bent,) = build.node("aten::tanh", (x,), (X,), names=("bent",), **there)
    (scaled,) = build.node("aten::relu", (bent,), (X,), names=("scaled",), **there)
    (product,) = build.node("aten::mm", (scaled, w), (X,), names=("product",), **there)
    return build.finish([product])


def _survey(name: str) -> SurveyView:
    cls = SurveyedClass(
        number=0, members=3, models=2, ops=f"mul, tanh {name}", before=3000, after=1000, saved_s=0.2, text=f"graph(%x):  # {name}",
        where=[f"{name}: group 0"],
    )  # fmt: skip
    return SurveyView(
        title=name, summary=f"2 models of {name}", classes=[cls], rest=0, models=[name, "other"], columns=[0], cells=[[2], [1]],
        tables=[("What never fuses", ["op", "count"], [[name, "3"]]), ("Failures", ["model", "why"], [])],
    )  # fmt: skip


def states(page: Any) -> Iterator[str]:
    """A page as it opens, then with a value selected, on each tab of the inspector and of the tables, and its texts in columns."""
    yield "as it opens"
    if not page.locator(".irs-text").is_visible():
        return
    page.locator(".irs-text .irs-line [data-record]").first.click()
    for place in (".irs-inspector", ".irs-dock-bar", ".irs-dock-panel"):
        for number in range(page.locator(f"{place} [role=tab]").count()):
            tab = page.locator(f"{place} [role=tab]").nth(number)
            if tab.get_attribute("aria-selected") != "true":
                tab.click()
            yield f"{place} {tab.inner_text()}"
    columns = page.get_by_role("button", name="columns", exact=True)
    if columns.is_visible():
        columns.click()
        page.locator(".irs-kernel-pane").wait_for()
        yield ".irs-main columns"
