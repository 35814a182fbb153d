"""Twice the program takes twice the work: calls, lines of Python that run, and letters of the page, counted; no clock.

Each program has a node, a memory or a name that all others share, or nests: where work per record grows with the program, the
work for each further part grows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

import irscope as irs
from irscope.display.html import standalone_html
from irscope.report.pages.exploration import Exploration
from tests.work import calls_made

X = "Float(4, strides=[1])"
HEAD = f"graph(%x : {X}, %c : bool):\n  %one : int = prim::Constant[value=1]()\n"


def in_place(n: int) -> str:
    lines = [f"  %v{i + 1} : {X} = aten::add_(%v{i}, %x, %one)" for i in range(n)]
    return f"{HEAD}  %v0 : {X} = aten::relu(%x)\n" + "\n".join(lines) + f"\n  return (%v{n})"


def views_of_views(n: int) -> str:
    lines = [f"  %v{i + 1} : {X} = aten::view_as(%v{i}, %x)" for i in range(n)]
    return f"{HEAD}  %v0 : {X} = aten::relu(%x)\n" + "\n".join(lines) + f"\n  %w : {X} = aten::relu_(%v{n})\n  return (%w)"


def fan_out(n: int) -> str:
    lines = [f"  %u{i} : {X} = aten::detach(%v)" for i in range(n)]
    return f"{HEAD}  %v : {X} = aten::relu(%x)\n" + "\n".join(lines) + "\n  return (%u0)"


def joined(n: int) -> str:
    lines = [f"  %u{i} : {X} = aten::cumsum(%x, %one)" for i in range(n)]
    names = ", ".join(f"%u{i}" for i in range(n))
    tail = f"  %l : Tensor[] = prim::ListConstruct({names})\n  %j : Tensor = aten::cat(%l, %one)\n  return (%j)"
    return "\n".join([HEAD.rstrip(), *lines, tail])


def many_results(n: int) -> str:
    return f"{HEAD}  {', '.join(f'%u{i} : Tensor' for i in range(n))} = my::op(%x)\n  return (%u0)"


def unpacked(n: int) -> str:
    return f"graph(%l : Tensor[]):\n  {', '.join(f'%u{i} : Tensor' for i in range(n))} = prim::ListUnpack(%l)\n  return (%u0)"


def many_operands(n: int) -> str:
    return f"{HEAD}  %u : Tensor = my::op({', '.join(['%x'] * n)})\n  return (%u)"


def nested_ifs(n: int) -> str:
    ifs = [f"  %r{i} : {X} = prim::If(%c)\n block0():" for i in range(n)]
    ends = [f" -> (%r{i + 1})\n block1():\n -> (%x)" for i in reversed(range(n - 1))]
    return "\n".join([HEAD.rstrip(), *ifs, f"  %k : {X} = aten::relu(%x)\n -> (%k)\n block1():\n -> (%x)", *ends, "  return (%r0)"])


def one_size_list(n: int) -> str:
    lines = [f"  %e{i} : {X} = aten::view(%x, %s)\n  %v{i} : {X} = aten::relu(%e{i})" for i in range(n)]
    sizes = "  %four : int = prim::Constant[value=4]()\n  %s : int[] = prim::ListConstruct(%four)"
    return "\n".join([HEAD.rstrip(), sizes, *lines, "  return (%v0)"])


def doubling_tuples(n: int) -> str:
    lines = [f"  %l{i + 1} : Any = prim::TupleConstruct(%l{i}, %l{i})" for i in range(n)]
    return "graph(%l0 : Tensor):\n" + "\n".join(lines) + f"\n  return (%l{n})"


def doubling_lists(n: int) -> str:
    return doubling_tuples(n).replace("Any =", "Any[] =").replace("prim::Tuple", "prim::List")


def page(graph: irs.Graph) -> str:
    return standalone_html(Exploration(irs.fuse(graph)))


def lines_run(graph: irs.Graph) -> int:
    """Lines of Python that run for its page."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        page(graph)
    finally:
        sys.settrace(before)
    return lines


PROGRAMS = [
    in_place, views_of_views, fan_out, joined, many_results, unpacked, many_operands, nested_ifs, one_size_list, doubling_tuples,
    doubling_lists,
]  # fmt: skip
SIZES = (65, 130, 260)
"""Above what is told one by one: 40 elements of a picture, 60 writers."""
LARGER = (300, 600, 1200)
"""Above where a page shows a part of the graph."""
MOST = 2.6
"""How many times as much the second step adds as the first, which is half as long: 2 if linear, 4 if quadratic."""


@pytest.mark.parametrize("program", PROGRAMS)
def test_twice_as_much_is_twice_the_work(program: Callable[[int], str]) -> None:
    """A page: it fuses, asks for aliases, and tells of each record."""
    page(irs.parse(program(SIZES[0])))  # what is loaded and remembered once
    graphs = [irs.parse(program(size)) for size in SIZES]
    grows_evenly("calls", [calls_made(partial(page, graph)) for graph in graphs])


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_twice_as_much_runs_twice_the_lines(program: Callable[[int], str]) -> None:
    """Also where loops call nothing."""
    page(irs.parse(program(SIZES[0])))
    grows_evenly("lines", [lines_run(irs.parse(program(size))) for size in SIZES])


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_page_of_twice_as_much_is_twice_as_long(program: Callable[[int], str]) -> None:
    grows_evenly("letters", [len(page(irs.parse(program(size)))) for size in LARGER])


def grows_evenly(what: str, found: list[int]) -> None:
    few, more, most = found
    assert most - more <= MOST * max(more - few, 200), f"{what}: {found}"
