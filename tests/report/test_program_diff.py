"""Differences of programs: judged by their text, and by what the passes recorded."""

import difflib
import random
import re
import zlib
from collections import Counter
from xml.etree import ElementTree

import pytest

import irscope as irs
from irscope.display.diff_page import diff_html
from irscope.errors import ArgumentError
from irscope.report.layout import lay_out
from irscope.report.panes import graph_view
from tests.programs import ir
from tests.random_programs.graphs import random_program

TEXT = ir("x y | a = relu x; b = mul a y; c = tanh b; d = matmul c y; e = relu d; f = tanh e | f", "Float(4, 4)")


def test_a_program_and_itself_read_again_are_equal() -> None:
    g = irs.parse(TEXT)
    for other, by in ((g, "ids"), (irs.parse(TEXT), "structure")):
        found = irs.diff(g, other)
        assert (found.is_empty, found.matched_by, found.counts["kept"]) == (True, by, 6) and found.table().empty


def test_edits_of_the_text_are_shown_line_by_line() -> None:
    """Judged by Python's own diff of the lines."""
    lines = TEXT.splitlines()
    for seed in range(20):
        rng = random.Random(seed)
        edited = list(lines)
        at = rng.randrange(1, 7)
        if seed % 2:
            edited.insert(at, f"  %new{seed} : Float(4, 4) = aten::neg(%x)")
        else:
            edited[at] = edited[at].replace("aten::relu", "aten::neg").replace("aten::tanh", "aten::exp").replace("aten::m", "aten::m")
        found = irs.diff(irs.parse("\n".join(lines)), irs.parse("\n".join(edited)))
        wanted = [line for line in difflib.ndiff(lines, edited) if line[0] in "+-"]
        told = [line for line in str(found).splitlines() if line[0] in "+−"]
        assert [line[2:].strip() for line in wanted] == [line[2:].split("    #")[0].strip() for line in told], seed


def test_no_op_becomes_a_constant_and_none_is_left_out() -> None:
    """A rewrite that takes an op apart has constants that the program before lacks."""
    whole = irs.parse(ir('x y | n = "none"; a = gelu x n; b = mul a y | b', "Float(4, 4)"))
    parts = irs.parse(ir("x y | h = 0.5; k = 0.7; p = mul x h; q = mul x k; r = erf q; b = addcmul y p r h | b", "Float(4, 4)"))
    for one, other in ((whole, parts), (parts, whole)):
        lines = str(irs.diff(one, other)).splitlines()
        assert not any("Constant" in line for line in lines)
        for graph, sign in ((one, "−"), (other, "+")):
            ops = Counter(re.findall(r"aten::\w+", str(graph)))
            assert ops == Counter(op for line in lines if line[:1] in f"{sign} " for op in re.findall(r"aten::\w+", line.split("#")[0]))


def test_fusing_moves_nodes_into_groups_and_two_policies_differ_in_them() -> None:
    g = irs.parse(TEXT)
    f = irs.fuse(g)
    found = irs.diff(g, f)
    assert found.matched_by == "ids"
    assert [change.after for change in found.of("new")] == list(f.groups)
    assert len(found.of("changed")) >= 5
    assert all(change.how.startswith("moved into group %") for change in found.of("changed"))
    same = irs.diff(f, irs.fuse(g))
    assert same.counts["new"] == same.counts["gone"] == 0  # groups are the same by their members
    few = irs.fuse(g, min_size=3)
    assert {change.before for change in irs.diff(f, few).of("gone")} == {f.groups[1]}


def test_the_cell_folds_what_is_equal() -> None:
    chain = [f"  %v{i} : Float(8) = aten::relu(%v{i - 1})" for i in range(1, 3001)]
    text = "\n".join(["graph(%v0 : Float(8)):", *chain, "  return (%v3000)"])
    page = diff_html(irs.diff(irs.parse(text), irs.parse(text.replace("%v9 : Float(8) = aten::relu", "%v9 : Float(8) = aten::tanh"))))
    assert "equal lines" in page and len(page) < 400_000 and page.count("<img") == 2
    assert "<img" not in diff_html(irs.diff(irs.parse(text), irs.parse(text)))


def test_what_is_not_a_program_is_refused() -> None:
    with pytest.raises(ArgumentError):
        irs.diff(irs.parse(TEXT), 3)


def test_a_name_is_not_a_change_and_another_op_is() -> None:
    """Random programs with every value renamed, or numbered again."""
    edited = alone = 0
    for seed in range(60):
        g = irs.parse(random_program(seed).text)
        renamed = irs.parse(re.sub(r"%([\w.]+)", r"%z\1", str(g)))
        assert irs.diff(g, renamed).is_empty, seed
        numbered = irs.parse(re.sub(r"%([A-Za-z_][\w.]*)", lambda name: f"%{zlib.crc32(name[1].encode())}", str(g)))
        assert irs.diff(g, numbered).is_empty, seed
        if (other := re.sub(r"aten::tanh\b", "aten::neg", str(numbered), count=1)) != str(numbered):
            found = irs.diff(g, irs.parse(other))
            assert not found.is_empty, seed
            edited += 1
            alone += [(change.kind, change.how) for change in found.changes if change.kind != "kept"] == [("changed", "was aten::tanh")]
    assert edited > 30
    assert alone > 0.9 * edited  # which of two equal nodes is meant can be ambiguous


def test_a_constant_is_compared_by_its_value() -> None:
    text = ir("x | 0 = 1; 1 = 1; a = add x x 0; b = add a x 1 | b", "Float(4)")
    assert irs.diff(irs.parse(text), irs.parse(text.replace("%a, %x, %1", "%a, %x, %0"))).is_empty
    assert irs.diff(irs.parse(text), irs.Pipeline("cse,dce")(irs.parse(text)).graph).is_empty
    other = text.replace("%1 : int = prim::Constant[value=1]", "%1 : int = prim::Constant[value=3]")
    (change,) = irs.diff(irs.parse(text), irs.parse(other)).of("changed")
    assert (change.after.op, change.how) == ("aten::add", "reads 3 instead of 1")


def test_a_node_that_changes_groups_is_one_change() -> None:
    g = irs.parse("\n".join(line for line in TEXT.splitlines() if "matmul" not in line).replace("%d", "%c"))
    whole = irs.fuse(g)
    first, last = (irs.fuse(g, forbid=[pair]) for pair in (("b", "c"), ("c", "e")))
    assert (len(whole.groups), len(first.groups), len(last.groups)) == (1, 2, 2)
    found = irs.diff(first, last)
    assert [(change.after.op, change.how) for change in found.of("changed")] == [("aten::tanh", "moved from group %f to group %c")]
    assert found.counts == {"kept": len(list(first.graph.nodes())) - 1, "changed": 1, "new": 0, "gone": 0}


def test_what_a_program_takes_and_returns_and_the_order_of_writes_belong_to_it() -> None:
    text = ir("x y | one = 1; a = relu x; u = add_ x one one; w = relu y | a u", "Float(4)")
    g = irs.parse(text)
    lines = text.splitlines()
    later = "\n".join([*lines[:2], lines[3], lines[2], *lines[4:]])
    for other, how in (
        (text.replace("(%a, %u)", "(%u, %a)"), "returns %u instead of %a"),
        (text.replace("(%a, %u)", "(%a)"), "returns 1 values instead of 2"),
        (text.replace("%x : Float(4),", "%x : Float(4, strides=[2]),"), "takes %x of Float(4, strides=[2]) instead of Float(4)"),
        (later, "is now after %u = aten::add_"),
    ):
        assert [change.how for change in irs.diff(g, irs.parse(other)).of("changed")] == [how]
    early = "\n".join([*lines[:2], lines[4], *lines[2:4], lines[5]])  # %y is another argument, but may be the memory of %x
    assert [change.how for change in irs.diff(g, irs.parse(early)).of("changed")] == ["is now before %u = aten::add_"]
    pure = text.replace("aten::add_", "aten::add")
    assert irs.diff(irs.parse(pure), irs.parse(later.replace("aten::add_", "aten::add"))).is_empty


@pytest.mark.parametrize("seed", range(12))
def test_both_sides_have_the_same_places_and_all_edges(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = irs.parse(random_program(seed).text)
    after = irs.functionalize(graph).after if seed % 2 else irs.fuse(graph).graph
    sides: list[ElementTree.Element] = []  # as drawn: an image in a page has no titles
    monkeypatch.setattr("irscope.display.diff_page.embedded_svg", lambda svg, *_: sides.append(ElementTree.fromstring(svg)))
    diff_html(irs.diff(graph, after))
    if not sides:
        return
    svg = "{http://www.w3.org/2000/svg}"
    places: list[dict[str, str]] = []
    for side, program in zip(sides, (graph, after), strict=True):
        groups = {group.attrib["data-box"]: group for group in side.iter(f"{svg}g")}
        faces = {box: next(rect for rect in group.iter(f"{svg}rect") if rect.get("class") in ("k", "o")) for box, group in groups.items()}
        places.append({box: f"{face.get('x')} {face.get('y')}" for box, face in faces.items()})
        ends = {(path.get("data-from"), path.get("data-to")) for path in side.iter(f"{svg}path") if path.get("data-from")}
        view = graph_view(program)
        closed = lay_out(view)
        assert len(ends) <= len(view["edges"]) and (ends or not closed.routes)
        titles = [group.findtext(f"{svg}title") for group in groups.values()]
        ops = [f"{box['label']} {box['detail']}" for box in view["boxes"] if box["kind"] in ("op", "group") and box["id"] in closed.rects]
        assert not Counter(ops) - Counter(titles), "everything that a picture of the program alone shows"
    before, there = places
    assert before.keys() & there.keys() and all(before[box] == there[box] for box in before.keys() & there.keys())
