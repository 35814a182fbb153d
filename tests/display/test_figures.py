"""Pictures of single results, for papers: SVG that is XML, PNG, and Graphviz's own objects."""

import shutil
import subprocess
import xml.dom.minidom
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from tests.programs import ir

TEXT = ir(
    "x y | a = relu x; l:Tensor[] = ListConstruct a y; b = mul_ a y; c = tanh b; d = matmul c y; e = relu d; f = tanh e | f l",
    "Float(4, 4)",
)


def results() -> list[Any]:
    g = irs.parse(TEXT)
    f = irs.fuse(g)
    return [g, f, irs.AliasDb(g), irs.dedup(f)]


@pytest.mark.parametrize("k", range(4), ids=["graph", "fusion", "alias", "dedup"])
def test_every_result_is_drawn_for_a_page_a_paper_and_graphviz(k: int, tmp_path: Path) -> None:
    thing = results()[k]
    svg = thing.to_svg(tmp_path / "picture.svg")
    assert svg == thing._repr_svg_() == (tmp_path / "picture.svg").read_text(encoding="utf-8")
    words = [text.firstChild.data for text in xml.dom.minidom.parseString(svg).getElementsByTagName("text") if text.firstChild]
    wanted = ("relu", "relu · tanh", "%a", "class 0")[k]
    assert any(wanted in word for word in words), words
    graphviz = pytest.importorskip("graphviz")
    source = thing.to_graphviz()
    assert isinstance(source, graphviz.Source)
    if shutil.which("dot"):
        drawn = subprocess.run(["dot", "-Tplain"], input=source.source.encode(), capture_output=True, timeout=60)
        assert drawn.returncode == 0, drawn.stderr


def test_a_graphviz_source_shows_itself_without_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("graphviz")
    monkeypatch.setenv("PATH", "")
    for thing in results():
        assert thing.to_graphviz()._repr_mimebundle_()["image/svg+xml"] == thing.to_svg()
    one = irs.AliasDb(results()[0]).to_graphviz("x")._repr_mimebundle_()["image/svg+xml"]
    assert ">%x<" in one and ">%f<" not in one


def test_a_png_has_the_size_that_was_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    thing = results()[0]
    sizes = []
    for scale in (1.0, 2.0):
        picture = thing.to_png(tmp_path / "picture.png", scale=scale)
        assert picture[:8] == b"\x89PNG\r\n\x1a\n"
        assert (tmp_path / "picture.png").read_bytes() == picture
        sizes.append(int.from_bytes(picture[16:20], "big"))
    assert abs(sizes[1] - 2 * sizes[0]) <= 2


def test_a_png_can_be_read_on_a_dark_slide() -> None:
    pytest.importorskip("resvg_py")
    image = pytest.importorskip("PIL.Image")
    for thing in (results()[0], irs.memory_plan(results()[0])):
        assert image.open(BytesIO(thing.to_png())).convert("RGBA").getchannel("A").getextrema() == (255, 255)


def test_a_large_program_is_drawn_closed() -> None:
    chain = [f"  %v{i} : Float(8) = aten::relu(%v{i - 1})" for i in range(1, 3001)]
    g = irs.parse("\n".join(["graph(%v0 : Float(8)):", *chain, "  return (%v3000)"]))
    assert len(g.to_svg()) < 150_000
