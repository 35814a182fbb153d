"""Pictures and pages are well-formed, escape what they show, and ask for nothing from outside."""

import re
from base64 import b64decode
from importlib import import_module
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import irscope as irs
from irscope.display.ipython import register_completion
from irscope.display.svg import graph_svg
from irscope.display.text import overview
from irscope.report.pages.exploration import Exploration
from irscope.report.pages.parts import explorer_view
from irscope.report.panes.program_view import graph_view
from tests.programs import ir

PROGRAM = """graph(%x : Tensor):
  %name : str = prim::Constant[value="</script><b>&\\"x"]()
  %y : Tensor = foo::"strange"(%x, %name)
  return (%y)
""".replace('foo::"strange"', "foo::strange")

CHAIN = ir("x flag:bool | y = relu x; z = tanh y; r = If flag {| n = neg z | n} {| | z} | r")


@pytest.fixture(params=[PROGRAM, CHAIN], ids=["strange", "chain"])
def exploration(request: pytest.FixtureRequest) -> Exploration:
    return Exploration(irs.fuse(irs.parse(request.param)))


def test_an_svg_is_well_formed_and_shows_every_visible_box(exploration: Exploration) -> None:
    view = graph_view(exploration.graph)
    picture = ElementTree.fromstring(graph_svg(view, closed=()))
    shown = "".join(picture.itertext())
    for box in view["boxes"]:
        assert box["label"] in shown


def test_a_picture_for_a_notebook_is_dark_with_its_reader_s_page_and_one_for_paper_never(exploration: Exploration) -> None:
    view = graph_view(exploration.graph)
    on_paper, themed = graph_svg(view), graph_svg(view, themed=True)
    assert "prefers-color-scheme" in themed and "prefers-color-scheme" not in on_paper + irs.fuse(exploration.graph).to_svg()
    painted = {rect.get("fill") for rect in ElementTree.fromstring(themed).iter("{http://www.w3.org/2000/svg}rect")} - {None}
    assert not painted & {"#fff", "#f6f7f9", "#eef4fb"}, "grounds are classes, which the sheet makes dark"


def test_the_overview_says_how_big_it_is(exploration: Exploration) -> None:
    assert f"{len(exploration.fusion.original.position)} nodes" in overview(explorer_view(exploration))


@pytest.fixture
def shell() -> Any:
    """IPython with our displays."""
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    from irscope.display.ipython import register

    made = interactive.InteractiveShell()
    register(made)
    return made


def test_rich_display_never_raises_into_a_cell(shell: Any) -> None:
    graph = irs.parse(CHAIN)
    fusion = irs.fuse(graph)
    for thing in (graph, fusion, irs.AliasDb(graph), irs.dedup(fusion)):
        data, _ = shell.display_formatter.format(thing)
        assert "text/html" in data, thing
        assert data["text/plain"]


def test_every_class_that_shows_itself_is_where_its_picture_looks_for_it(shell: Any) -> None:
    from irscope.magics import show_histories as register

    register(shell)
    formatters = [*shell.display_formatter.formatters.values(), shell.display_formatter.ipython_display_formatter]
    homes = {key for formatter in formatters for key in formatter.deferred_printers if key[0].startswith("irscope")}
    assert len(homes) >= 7
    for home, name in homes:
        assert getattr(import_module(home), name).__module__ == home


def test_what_was_measured_and_its_charts_show_themselves(shell: Any) -> None:
    pytest.importorskip("matplotlib")
    x = np.ones(100, np.float32)
    comparison = irs.compare(irs.trace(lambda x: np.tanh(np.exp(x)), x), x, repeats=1)
    data, _ = shell.display_formatter.format(comparison)
    assert "<img" in data["text/html"]
    assert comparison.caption.split(".")[0] in data["text/html"]
    picture = re.search(r"svg.xml;base64,([^\"]+)", data["text/html"])
    assert picture is not None and b64decode(picture[1]).count(b"data:image/png") == 2, "a chart for each theme"
    data, _ = shell.display_formatter.format(comparison.chart())
    assert data["image/png"]


def test_what_a_pipeline_did_shows_as_a_table(shell: Any) -> None:
    data, _ = shell.display_formatter.format(irs.Pipeline("cse,fuse")(irs.parse(CHAIN)))
    assert "<table" in data["text/html"]


def test_magics_bind_the_parsed_graph(shell: Any) -> None:
    irs.load_ipython_extension(shell)
    shell.run_cell_magic("ir", "g", CHAIN)
    assert isinstance(shell.user_ns["g"], irs.Graph)


COMPLETED = "graph(%x : Tensor):\n  %conv : Tensor = aten::relu(%x)\n  %cost : Tensor = aten::tanh(%conv)\n  return (%cost)"


def test_the_tab_key_offers_names_of_values_where_a_method_is_asked(shell: Any) -> None:
    completers = pytest.importorskip("IPython.core.completer")
    g = irs.parse(COMPLETED)
    shell.user_ns.update(irs=irs, g=g, f=irs.fuse(g), s=irs.story(g), db=irs.AliasDb(g), other="co")
    for _ in range(2):
        register_completion(shell)

    def applied(line: str) -> list[str]:
        with completers.provisionalcompleter():
            found = shell.Completer.completions(line, len(line))
            return [line[: each.start] + each.text + line[each.end :] for each in found]

    for line, wanted in (
        ('f.why_not("co', ['f.why_not("conv', 'f.why_not("cost']),
        ('f.why_not("%co', ['f.why_not("%conv', 'f.why_not("%cost']),
        ("f.groups[0].op", ["f.groups[0].op"]),
        ("f.remarks[-1].bec", ["f.remarks[-1].because"]),
        ('f.why_not("x", "cos', ['f.why_not("x", "cost']),
        ("db.may_alias('co", ["db.may_alias('conv", "db.may_alias('cost"]),
        ('f.graph.value("con', ['f.graph.value("conv']),
        ('f.selection = ["x", "co', ['f.selection = ["x", "conv', 'f.selection = ["x", "cost']),
        ('f.what_if(policy="min', ['f.what_if(policy="min-bytes']),
        ('f.decide(compiler="ind', ['f.decide(compiler="inductor']),
        ('f.dedup(relation="ext', ['f.dedup(relation="extents']),
        ('s.add("x", pane="poi', ['s.add("x", pane="points-to']),
        ('irs.quiz.fusion(f, subject="con', ['irs.quiz.fusion(f, subject="conv']),
    ):
        assert set(wanted) <= set(applied(line)), line
    assert not [found for found in applied('other.f(policy="min') if "min-bytes" in found]
    for line in ('other.count("co', 'nobody.f("co', 'irs.parse("co'):
        assert not [found for found in applied(line) if "conv" in found or "cost" in found], line
