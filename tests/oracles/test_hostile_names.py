"""Hostile text in every field of a program, through every exporter, and in a real Chromium.

The judges: UTF-8, an XML parser, an HTML parser, a CSV reader, Graphviz where it is installed, our own parser (what is printed
reads back), and Chromium (the page comes to life, shows the text as text, and runs nothing of it).
"""

import csv
import html.parser
import io
import json
import re
import shutil
import subprocess
import unicodedata
import xml.dom.minidom
from base64 import b64decode
from collections.abc import Callable
from gzip import decompress
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope._base.words import printable
from irscope.display.figures import graph_dot
from irscope.display.html import static_html
from irscope.display.svg import graph_svg
from irscope.display.text import overview
from irscope.report.pages.exploration import Exploration
from irscope.report.pages.parts import explorer_view
from tests.oracles.hostile import BRIEF, HOSTILE, SHORT, program, told


def clean(output: str) -> None:
    """Whether a text can be written anywhere, and does nothing to a terminal."""
    output.encode()
    strange = [c for c in output if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]
    assert strange == []
    assert not set(output) & set("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufffe\uffff")


class Outline(html.parser.HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.handlers: list[str] = []
        self.data: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.data[self.elements[-1]] = self.data.get(self.elements[-1], "") + data


@pytest.fixture(scope="module")
def views() -> Callable[[str], Any]:
    kept: dict[str, Any] = {}

    def of(text: str) -> Any:
        if text not in kept:
            fusion = irs.fuse(program(text))
            kept[text] = (fusion, explorer_view(Exploration(fusion), details=True))
        return kept[text]

    return of


every = pytest.mark.parametrize(
    "text", [pytest.param(text, marks=() if text in BRIEF else pytest.mark.long) for text in HOSTILE], ids=map(told, HOSTILE)
)


@every
def test_text(text: str, views: Callable[[str], Any]) -> None:
    graph = program(text)
    clean(str(graph))
    clean(repr(graph))
    if not re.search("[\ud800-\udc7f\udd00-\udfff]", text):  # no encoding has these: a constant is read back as three bytes
        assert irs.same_structure(irs.parse(str(graph)), graph)
    assert str(irs.parse(str(graph))).splitlines()[1:] == str(graph).splitlines()[1:]
    fusion, view = views(text)
    clean(overview(view))
    clean(str(fusion.graph))
    for remark in fusion.remarks:
        clean(remark.because)


@every
def test_svg_is_xml_and_has_no_handlers(text: str, views: Callable[[str], Any]) -> None:
    picture = graph_svg(views(text)[1]["graph"])
    tree = xml.dom.minidom.parseString(picture.encode())
    names = {element.tagName for element in tree.getElementsByTagName("*")}
    assert names <= {"svg", "style", "rect", "g", "title", "text", "path"}
    assert not [e for e in tree.getElementsByTagName("*") for name in e.attributes.keys() if name.startswith("on")]  # noqa: SIM118
    clean(picture)


@every
def test_dot(text: str, views: Callable[[str], Any]) -> None:
    graph = program(text)
    for picture in (graph_dot(views(text)[1]["graph"]), irs.AliasDb(graph).dot()):
        clean(picture)
        outside = re.sub(r'"(?:[^"\\\n]|\\.)*"', "", picture)
        assert '"' not in outside and "evil" not in outside
        if shutil.which("dot"):
            drawn = subprocess.run(["dot", "-Tplain"], input=picture.encode(), capture_output=True, timeout=60)
            assert drawn.returncode == 0, drawn.stderr


@every
def test_tables_as_csv_and_html(text: str, views: Callable[[str], Any], tmp_path: Path) -> None:
    fusion, _ = views(text)
    graph = program(text)
    for table in (irs.AliasDb(graph).table(), fusion.table(), irs.dedup(fusion).table()):
        table.to_csv(tmp_path / "t.csv", encoding="utf-8")
        rows = list(csv.reader(io.StringIO((tmp_path / "t.csv").read_text(encoding="utf-8"))))
        assert {len(row) for row in rows} == {len(rows[0])}
        assert Outline(table.to_html()).elements.count("script") == 0


@every
def test_pages(text: str, views: Callable[[str], Any], tmp_path: Path) -> None:
    path = irs.write_report(program(text), output=tmp_path / "r.html")
    page = path.read_text(encoding="utf-8")
    clean(page.replace("\r", ""))
    outline = Outline(page)
    assert outline.elements.count("script") == 2 and outline.handlers == []
    data = page.partition('data-irscope="view"')[2].partition(">")[2].partition("</script>")[0]
    if 'data-packed="gzip">' in page:
        data = decompress(b64decode(data)).decode()
    assert not set("<>&") & set(data) and json.loads(data)["title"].startswith(printable(text[:200]))
    plain = Outline(static_html(views(text)[1]))
    assert set(plain.elements) <= {"img", "pre"} and plain.handlers == []


@every
def test_notebook_messages(text: str) -> None:
    pytest.importorskip("anywidget")
    explorer = irs.explore(program(text))
    explorer.view.decode()
    sent: list[Any] = []

    def send(content: Any, buffers: Any = ()) -> None:
        sent.append(json.loads(buffers[0]) if buffers else content)  # a long answer is beside its message

    explorer.send = send
    for node in filter(None, json.loads(explorer.view)["text"]["nodes"]):
        explorer._answer(explorer, {"kind": "inspect", "token": text, "ids": [node]}, [])
    assert len(sent) >= 4
    for reply in sent:
        assert reply["kind"] == "detail"
        json.dumps(reply, ensure_ascii=False).encode()
    clean(repr(explorer))
    explorer.close()


def test_names_of_files_and_of_a_model_s_parts(tmp_path: Path) -> None:
    for number, text in enumerate(HOSTILE):
        if len(text) < 100 and "\0" not in text and "/" not in text:
            try:
                path = tmp_path / f"{text}.ir"
                path.write_text("graph(%x : Float(4)):\n  %y : Float(4) = aten::relu(%x)\n  return (%y)")
            except (OSError, UnicodeEncodeError):
                continue
            graph = irs.load(path)
            irs.write_report(graph, output=tmp_path / f"{number}.html")
            clean(str(graph))


def test_names_of_a_model_s_parts(tmp_path: Path, torch: Any) -> None:
    for text in SHORT:
        if not text.isprintable() or "." in text:
            continue  # torch has no such names
        model = torch.nn.ModuleDict({text: torch.nn.Linear(4, 4)}) if text not in ("__proto__", "constructor") else None
        if model is None:
            continue
        model.forward = lambda x, model=model, text=text: {text: model[text](x).relu().tanh()}
        try:
            graph = irs.load(model, torch.rand(2, 4))
        except irs.IrscopeError:
            continue
        clean(str(graph))
        assert irs.same_structure(irs.parse(str(graph)), graph)
        irs.write_report(graph, output=tmp_path / "r.html")
