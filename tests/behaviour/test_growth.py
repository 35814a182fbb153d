"""Twice the program takes twice the work: calls, lines of Python that run, and letters of the page, counted; no clock.

Each program has a node, a memory or a name that all others share, or nests: where work per record grows with the program, the
work for each further part grows.
"""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

import irscope as irs
from irscope.display.html import standalone_html
from irscope.report.pages.exploration import Exploration
from irscope.transforms.dedup.rewrite import normal_form
from tests.work import calls_made

X = "Float(4, strides=[1])"
HEAD = f"graph(%x : {X}, %c : bool):\n  %one : int = prim::Constant[value=1]()"


def body(*lines: str) -> str:
    return "\n".join([HEAD, *lines])


def chain(op: str, first: str = "aten::relu(%x)", last: str = "return (%v{n})", n: int = 0) -> str:
    """Each op on what the one before gave."""
    return body(f"  %v0 : {X} = {first}", *(f"  %v{i + 1} : {X} = {op.format(i=i)}" for i in range(n)), last.format(n=n))


def many(n: int) -> str:
    return ", ".join(f"%u{i} : Tensor" for i in range(n))


def nested_ifs(n: int) -> str:
    ifs = [f"  %r{i} : {X} = prim::If(%c)\n block0():" for i in range(n)]
    ends = [f" -> (%r{i + 1})\n block1():\n -> (%x)" for i in reversed(range(n - 1))]
    return body(*ifs, f"  %k : {X} = aten::relu(%x)\n -> (%k)\n block1():\n -> (%x)", *ends, "  return (%r0)")


def doubling(kind: str, type: str, n: int) -> str:
    lines = [f"  %l{i + 1} : {type} = prim::{kind}Construct(%l{i}, %l{i})" for i in range(n)]
    return "\n".join(["graph(%l0 : Tensor):", *lines, f"  return (%l{n})"])


PROGRAMS: dict[str, Callable[[int], str]] = {
    "in place": lambda n: chain("aten::add_(%v{i}, %x, %one)", n=n),
    "views of views": lambda n: chain("aten::view_as(%v{i}, %x)", last=f"  %w : {X} = aten::relu_(%v{{n}})\n  return (%w)", n=n),
    "fan out": lambda n: body(f"  %v : {X} = aten::relu(%x)", *(f"  %u{i} : {X} = aten::detach(%v)" for i in range(n)), "  return (%u0)"),
    "joined": lambda n: body(
        *(f"  %u{i} : {X} = aten::cumsum(%x, %one)" for i in range(n)),
        f"  %l : Tensor[] = prim::ListConstruct({', '.join(f'%u{i}' for i in range(n))})",
        "  %j : Tensor = aten::cat(%l, %one)\n  return (%j)",
    ),
    "many results": lambda n: body(f"  {many(n)} = my::op(%x)\n  return (%u0)"),
    "unpacked": lambda n: f"graph(%l : Tensor[]):\n  {many(n)} = prim::ListUnpack(%l)\n  return (%u0)",
    "many operands": lambda n: body(f"  %u : Tensor = my::op({', '.join(['%x'] * n)})\n  return (%u)"),
    "nested ifs": nested_ifs,
    "one list of sizes": lambda n: body(
        "  %four : int = prim::Constant[value=4]()\n  %s : int[] = prim::ListConstruct(%four)",
        *(f"  %e{i} : {X} = aten::view(%x, %s)\n  %v{i} : {X} = aten::relu(%e{i})" for i in range(n)), "  return (%v0)",
    ),
    "doubling tuples": partial(doubling, "Tuple", "Any"),
    "doubling lists": partial(doubling, "List", "Any[]"),
}  # fmt: skip


def page(graph: irs.Graph) -> str:
    return standalone_html(Exploration(irs.fuse(graph)))


def lines_run(do: Callable[[irs.Graph], object], graph: irs.Graph) -> int:
    """Lines of Python that run, also where loops call nothing."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        do(graph)
    finally:
        sys.settrace(before)
    return lines


SIZES = (130, 260, 520)
"""Above what is told one by one: 120 boxes side by side, 60 writers."""
LARGER = (300, 600, 1200)
"""Above where a page shows a part of the graph."""
MOST = 2.6
"""How many times as much the second step adds as the first, which is half as long: 2 if linear, 4 if quadratic."""


MEASURES: dict[str, tuple[tuple[int, int, int], Callable[[irs.Graph], int]]] = {
    "calls": (SIZES, lambda graph: calls_made(partial(page, graph))), "lines": (SIZES, partial(lines_run, page)),
    "letters": (LARGER, lambda graph: len(page(graph))),
}  # fmt: skip
"""Calls that are made for a page, which fuses, asks for aliases and tells of each record; lines that run for it, also where loops call
nothing; and the letters that it has."""


@pytest.mark.parametrize("what", ["calls", *(pytest.param(what, marks=pytest.mark.long) for what in ("lines", "letters"))])
@pytest.mark.parametrize("program", PROGRAMS)
def test_twice_as_much_is_twice_the_work(program: str, what: str) -> None:
    sizes, measure = MEASURES[what]
    page(irs.parse(PROGRAMS[program](SIZES[0])))  # what is loaded and remembered once
    graphs = [irs.parse(PROGRAMS[program](size)) for size in sizes]
    few, more, most = (measure(graph) for graph in graphs)
    assert most - more <= MOST * max(more - few, 200), (few, more, most)


def test_nested_blocks_are_put_into_their_normal_form_in_linear_time() -> None:
    few, more, most = (lines_run(normal_form, irs.parse(nested_ifs(size))) for size in SIZES)
    assert most - more <= MOST * (more - few), (few, more, most)
