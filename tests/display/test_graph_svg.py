"""Pictures of programs, read as SVG: edges keep off the boxes of others, letters can be read, and cut labels differ."""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from unicodedata import east_asian_width
from xml.etree import ElementTree

import pytest

import irscope as irs
from irscope.display.svg import graph_svg
from irscope.report.panes.program_view import graph_view
from irscope.report.view_models import Box, GraphView
from tests.conftest import read_sections
from tests.programs import parsed
from tests.random_programs.graphs import random_program

SVG = "{http://www.w3.org/2000/svg}"
CASES = sorted((Path(__file__).parents[1] / "cases/fusion").glob("*.ir"))[:20]
STEP = re.compile(r"([MLC])([^MLCmv]*)")
SMALLEST_LETTERS = 9.0


class Frame(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float


def corners(path: str) -> Iterator[tuple[float, float]]:
    """Points of a path: the ends of its lines, and nine on each of its curves."""
    x = y = 0.0
    for kind, numbers in STEP.findall(path):
        values = [float(number) for number in numbers.split()]
        if kind == "C":
            ax, ay, bx, by, to_x, to_y = values
            for t in (k / 10 for k in range(1, 10)):
                u = 1 - t
                yield (
                    u**3 * x + 3 * u * u * t * ax + 3 * u * t * t * bx + t**3 * to_x,
                    u**3 * y + 3 * u * u * t * ay + 3 * u * t * t * by + t**3 * to_y,
                )
        x, y = values[-2:]
        yield x, y


def along(path: str) -> Iterator[tuple[float, float]]:
    """The points of a path, and eight more between two of them."""
    for (x, y), (to_x, to_y) in pairwise(corners(path)):
        yield from ((x + (to_x - x) * k / 9, y + (to_y - y) * k / 9) for k in range(10))


def check(view: GraphView) -> int:
    """Judge a picture; returns its number of edges."""
    root = ElementTree.fromstring(graph_svg(view))
    parents = {box["id"]: box["parent"] for box in view["boxes"]}
    around = {0: frozenset[int]()}
    for each in view["boxes"]:
        around[each["id"]] = around[each["parent"]] | {each["id"]}
    frames: dict[int, Frame] = {}
    titles: dict[int, list[str]] = {}
    for group in root.iter(f"{SVG}g"):
        face = next(rect for rect in group.iter(f"{SVG}rect") if rect.get("class") in ("k", "o"))
        x, y, width, height = (float(face.attrib[name]) for name in ("x", "y", "width", "height"))
        box = int(group.attrib["data-box"])
        frames[box] = Frame(x, y, x + width, y + height)
        titles[box] = [text.text or "" for text in group.iter(f"{SVG}text")]
        for words, letter in zip(group.iter(f"{SVG}text"), (7.8, 6.3, 6.3), strict=False):
            wide = letter * sum(1.65 if east_asian_width(one) in "WF" else 1 for one in words.text or "")
            left = float(words.attrib["x"]) - (wide / 2 if words.get("text-anchor") else 0)
            assert x <= left and left + wide <= x + width, words.text
        for pen in (path for path in group.iter(f"{SVG}path") if path.get("transform")):
            left, top = (float(number) for number in re.findall(r"[\d.-]+", pen.attrib["transform"]))
            badges = [float(rect.attrib["x"]) for rect in group.iter(f"{SVG}rect") if rect.get("class") == "r"]
            assert x + 12 + 7.9 * len(titles[box][0]) <= left + 1 and left + 11 <= min([x + width, *badges]), titles[box]
            assert top + 10 <= y + 23
    paths = [path for path in root.iter(f"{SVG}path") if path.get("data-from") and path.get("class") != "e t"]
    heads = {
        box: Frame(frames[box].left, frames[box].top, frames[box].left + 7.9 * len(titles[box][0]) + 12, frames[box].top + 20)
        for box in {parents[box] for box in frames} - {0}
    }  # fmt: skip
    for path in paths:
        own = {int(path.attrib["data-from"]), int(path.attrib["data-to"])}
        outer = frozenset[int]().union(*(around[box] for box in own))
        foreign = [frame for box, frame in frames.items() if box not in outer]
        for x, y in along(path.attrib["d"]):
            for frame in (*foreign, *(head for box, head in heads.items() if box not in own)):
                assert not (frame.left < x < frame.right and frame.top < y < frame.bottom), (own, x, y, frame)
    sizes = [float(size) for size in re.findall(r"(?:font:(?:\d+ )?|font-size:)([\d.]+)px", root.findtext(f"{SVG}style") or "")]
    assert sizes and min(sizes) >= SMALLEST_LETTERS
    whole = {box["id"]: box["label"] for box in view["boxes"]}
    shown: dict[tuple[int, str], str] = {}
    for box, (label, *_) in titles.items():
        assert shown.setdefault((parents[box], label), whole[box]) == whole[box], "two labels are cut to one text"
    return len(paths)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_pictures_of_case_files(path: Path) -> None:
    graph = irs.parse(read_sections(path.read_text(encoding="utf-8"))["input"])
    for each in (graph, irs.fuse(graph).graph):
        check(graph_view(each))


@pytest.mark.parametrize("seed", range(10))
def test_pictures_of_random_programs(seed: int) -> None:
    graph = irs.parse(random_program(seed).with_types().text)
    assert check(graph_view(irs.fuse(graph).graph))


def program(inputs: Iterable[int], ops: Iterable[tuple[int, int, int]], results: Iterable[int], scope: str = "") -> str:
    """The text of sums: the number of each, and those of what it adds."""
    names = [", ".join(f"%v{k}" for k in numbers) for numbers in (inputs, results)]
    here = f", scope: {scope}" if scope else ""
    lines = [f"  %v{k} : Float(4) = aten::add(%v{a}, %v{b}){here.format(k // 2)}" for k, a, b in ops]
    return "\n".join([f"graph({names[0]}):", *lines, f"  return ({names[1]})"])


CHAIN = [(k, k - 1, k - 1) for k in range(1, 9)]
ODD = {
    "empty": "graph():\n  return ()",
    "a number": "graph():\n  %y : int = prim::Constant[value=3]()\n  return (%y)",
    "nothing done": program([0], [], [0]),
    "200 ops of one level": program([0], [(k, max(0, k - k * k % 7 - 1), k * k % k if k % 5 else 0) for k in range(1, 201)], [7, 200]),
    "300 arguments": program(range(0, 600, 2), [(2 * k + 1, max(0, 2 * k - 1), 2 * k) for k in range(300)], [599]),
    "100 results": program([0], [(k, 0, 0) for k in range(1, 101)], range(1, 101)),
    "long names": program([0], CHAIN, [8], "a_model_with_a_long_name.encoder_of_everything.layers_{}.post_attention_layernorm"),
    "ideographs": program([0], CHAIN, [8], "层标准化注意力机制的输出投影.größe{}"),
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_pictures_of_odd_programs(text: str) -> None:
    graph = irs.parse(text)
    for each in (graph, irs.fuse(graph).graph):
        view = graph_view(each)
        check(view)
        check(view | {"closed": []})


def check_memory(svg: str) -> int:
    """Judge a picture of memory; returns its number of names: lines keep off names that are not their ends, and words off each other."""
    root = ElementTree.fromstring(svg)
    assert float(root.attrib["width"]) >= 700
    sheet = root.findtext(f"{SVG}style") or ""
    assert min(float(size) for size in re.findall(r"(?:font:(?:\d+ )?|font-size:)([\d.]+)px", sheet)) >= SMALLEST_LETTERS
    names = [(group.findtext(f"{SVG}text"), group.find(f"{SVG}rect").attrib) for group in root.iter(f"{SVG}g")]  # type: ignore[union-attr]
    places = [[float(box[name]) for name in ("x", "y", "width", "height")] for _, box in names]
    boxes = [Frame(x, y, x + width, y + height) for x, y, width, height in places]
    for path in root.iter(f"{SVG}path"):
        if (path.get("class") or "").startswith("a"):
            points = list(along(re.split(r"m[-\d]", path.attrib["d"])[0]))
            for frame in boxes:
                inside = [(x, y) for x, y in points if frame.left + 1 < x < frame.right - 1 and frame.top + 1 < y < frame.bottom - 1]
                assert not inside, (path.attrib["d"], frame)
    assert all(label and "…" not in label for label, _ in names)
    words = [frame_of(text) for text in root.iter(f"{SVG}text") if text.get("class") in ("o", "l")] + boxes
    for k, one in enumerate(words):
        for other in words[:k]:
            apart = one.right <= other.left or other.right <= one.left or one.bottom <= other.top or other.bottom <= one.top
            assert apart, (one, other)
    assert all(frame.right <= float(root.attrib["width"]) for frame in words)
    return len(names)


def frame_of(text: ElementTree.Element) -> Frame:
    x, y, wide = float(text.attrib["x"]), float(text.attrib["y"]), 6.62 * len(text.text or "")
    left = x - wide if text.get("text-anchor") == "end" else x
    return Frame(left, y - 9, left + wide, y + 2)


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "cases/alias").glob("*.ir"))[:30], ids=lambda path: path.stem)
def test_pictures_of_memory(path: Path) -> None:
    """Of the whole program, and of pairs that may share memory and that may not."""
    graph = irs.parse(read_sections(path.read_text(encoding="utf-8"))["input"])
    db = irs.AliasDb(graph)
    assert check_memory(db.to_svg()) > 0
    values = [value for value in graph.values() if db.is_memory(value)]
    for a, b in zip(values, values[1:] + values[:2], strict=False):
        verdict = db.explain(a, b)
        if a is not b:
            assert check_memory(db.memory_of(a, b).to_svg()) >= 2
            assert bool(verdict) or not db.path(a, b)
    for value in values[:6]:
        assert f">%{graph.names[value]}<" in db.memory_of(value).to_svg()


def test_an_edge_leads_from_a_write_to_what_reads_that_memory() -> None:
    graph = parsed("x | a = neg x; b = relu_ a; c = tanh a | c", "Float(4)")
    root = ElementTree.fromstring(graph.to_svg())
    effects = [path for path in root.iter(f"{SVG}path") if "p" in (path.get("class") or "").split()]
    assert [(path.get("data-from"), path.get("data-to")) for path in effects] == [(str(graph.node("b").id), str(graph.node("c").id))]
    heads = [path.get("class") for path in root.iter(f"{SVG}path") if path.attrib["d"].endswith("l3 5 3-5")]
    assert heads.count("e f") == 1 and "e f p" not in heads, "dashes would leave crumbs of its head"
    assert "dashed" in graph.to_dot()


def test_long_labels_are_cut_in_the_middle_and_stay_apart() -> None:
    names = ["a.very_long_name_of_a_module.layers.3.norm", *(f"model.text_model.layers.{k}.post_attention_layernorm" for k in range(20))]
    boxes = [
        Box(id=k, parent=0, kind="module", label=name, detail="", category="module", values=[], writes=False, equivalence_class=-1, size=2)
        for k, name in enumerate(names, 1)
    ]
    view = GraphView(boxes=boxes, edges=[], closed=[])
    check(view)
    assert ">a.very_long_name…e.layers.3.norm<" in graph_svg(view)
