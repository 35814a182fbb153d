"""Pages, tables and facts of programs whose sets are large grow with the program, not with its square.

What is compared is processor time at a size and at four times that: linear is 4, quadratic 16.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

import irscope as irs
from irscope.report.pages.details import Inspection
from irscope.report.pages.exploration import Exploration

T = "Float(4, 4)"


def program(params: str, lines: list[str], result: str) -> str:
    return f"graph({params}):\n" + "".join(f"  {line}\n" for line in lines) + f"  return ({result})"


def in_place(n: int) -> str:
    lines = [f"%v{i + 1} : {T} = aten::relu_(%v{i})" for i in range(n)]
    return program(f"%v0 : {T}", lines, f"%v{n}")


def views(n: int) -> str:
    lines = ["%z : int = prim::Constant[value=0]()", "%o : int = prim::Constant[value=1]()"]
    return program(f"%v0 : {T}", lines + [f"%v{i + 1} : {T} = aten::transpose(%v{i}, %z, %o)" for i in range(n)], f"%v{n}")


def fan_out(n: int) -> str:
    lines = ["%k : int = prim::Constant[value=0]()", "%none : NoneType = prim::Constant()", f"%a : {T} = aten::cumsum(%x, %k, %none)"]
    lines += [f"%v{i} : {T} = aten::cumsum(%a, %k, %none)" for i in range(n)]
    listed = f"%l : Tensor[] = prim::ListConstruct({', '.join(f'%v{i}' for i in range(n))})"
    return program(f"%x : {T}", [*lines, listed, "%c : Tensor = aten::cat(%l, %k)"], "%c")


def unpack(n: int) -> str:
    results = ", ".join(f"%v{i} : Tensor" for i in range(n))
    return program("%x : Tensor[]", [f"{results} = prim::ListUnpack(%x)"], f"%v{n - 1}")


def nested_ifs(n: int) -> str:
    opened = [line for i in range(n) for line in (f"%r{i} : {T} = prim::If(%c{i % 7})", "block0():")]
    closed = [line for i in reversed(range(1, n)) for line in (f"-> (%r{i})", "block1():", "-> (%x)")]
    inner = [f"%d : {T} = aten::relu(%x)", "-> (%d)", "block1():", "-> (%x)"]
    return program(f"%x : {T}, " + ", ".join(f"%c{i} : bool" for i in range(7)), opened + inner + closed, "%r0")


def doubling(op: str, declared: str) -> Callable[[int], str]:
    def text(n: int) -> str:
        lines = [f"%l0 : {declared} = prim::{op}(%x, %x)"]
        return program("%x : Tensor", lines + [f"%l{i + 1} : {declared} = prim::{op}(%l{i}, %l{i})" for i in range(n)], f"%l{n}")

    return text


def one_inside_another(n: int) -> str:
    lines = ["%l0 : Any = prim::TupleConstruct(%x)"]
    return program("%x : Tensor", lines + [f"%l{i + 1} : Any = prim::TupleConstruct(%l{i})" for i in range(n)], f"%l{n}")


def into_itself(n: int) -> str:
    lines = ["%l : Any[] = prim::ListConstruct()", *(f"%a{i} : Any[] = aten::append(%l, %l)" for i in range(n))]
    return program("%x : Tensor", lines, "%l")


def appended(n: int) -> str:
    """A list of tensors, of sizes, of lists, each longer at each line and read at each line."""
    lines = ["%z : int = prim::Constant[value=0]()", "%s : int[] = prim::ListConstruct(%z)", "%l : Tensor[] = prim::ListConstruct()"]
    for i in range(n):
        lines += [f"%a{i} : Tensor[] = aten::append(%l, %x)", f"%b{i} : int[] = aten::append(%s, %z)", f"%n{i} : int = aten::len(%l)"]
    return program("%x : Tensor", lines, "%l")


def details(graph: irs.Graph) -> None:
    exploration = Exploration.of(irs.fuse(graph))
    asked = Inspection(exploration)
    for record in exploration.records:
        asked.detail(record)


def page(graph: irs.Graph) -> None:
    from irscope.display.html import standalone_html

    standalone_html(Exploration.of(irs.fuse(graph)))


def is_linear(make: Callable[[int], str], work: Callable[[irs.Graph], object], n: int) -> bool:
    """Whether four times a size takes less than nine times the processor time, in one of three attempts: other work disturbs."""

    def once(size: int) -> float:
        graph = irs.parse(make(size))
        gc.collect()
        started = time.process_time()
        work(graph)
        return time.process_time() - started

    once(8)
    return any(once(4 * n) < 9 * once(n) for _ in range(3))


@pytest.mark.parametrize("make", [in_place, views, fan_out, unpack])
def test_details_of_every_value_are_linear(make: Callable[[int], str]) -> None:
    assert is_linear(make, details, 250)


@pytest.mark.parametrize("make", [in_place, views, unpack])
def test_pages_are_linear(make: Callable[[int], str]) -> None:
    assert is_linear(make, page, 200)


@pytest.mark.parametrize(
    "make",
    [appended, nested_ifs, doubling("TupleConstruct", "Any"), doubling("ListConstruct", "Any[]"), one_inside_another, into_itself],
)
def test_fuse_of_what_nests_is_linear(make: Callable[[int], str]) -> None:
    assert is_linear(make, irs.fuse, 250)


def test_sets_are_told_once() -> None:
    from irscope.report.pages.explorer_view import explorer_view

    view = explorer_view(Exploration.of(irs.fuse(irs.parse(in_place(300)))), details=True)
    stored = sum(len(ids) for ids in view["alias_sets"])
    assert stored < 3 * 300
    told = [detail["alias"] for detail in view["details"].values() if detail["alias"] is not None]
    assert all(not alias["alias_set"] and not alias["writers"] for alias in told)


def test_a_cell_that_ends_in_a_program_of_any_size_shows_a_picture_of_bounded_size() -> None:
    from irscope.display.ipython import _fusion, _graph

    for make, n in ((in_place, 50), (in_place, 5000), (unpack, 30_000)):
        graph = irs.parse(make(n))
        for page in (_graph(graph), _fusion(irs.fuse(graph))):
            assert len(page) < 150_000
            assert "<img" in page
        assert "%v1" in _graph(graph)


def shared_sizes(n: int) -> str:
    lines = ["%a : int = prim::Constant[value=2]()", "%b : int = prim::Constant[value=8]()", "%s : int[] = prim::ListConstruct(%a, %b)"]
    for i in range(n):
        lines += [f"%w{i} : {T} = aten::clone(%x, %none)", f"%v{i} : Float(2, 8) = aten::view(%w{i}, %s)"]
        lines += [f"%r{i} : Float(2, 8) = aten::relu_(%v{i})"]
    listed = f"%l : Tensor[] = prim::ListConstruct({', '.join(f'%w{i}' for i in range(n))})"
    return program(f"%x : {T}", ["%none : NoneType = prim::Constant()", *lines, listed], "%l")


def test_fuse_asks_once_about_a_list_of_sizes_that_all_share() -> None:
    assert is_linear(shared_sizes, irs.fuse, 200)


def test_long_constants_are_read_and_printed_in_linear_time() -> None:
    def numbers(n: int) -> str:
        return program("%x : Tensor", [f"%l : int[] = prim::Constant[value={list(range(n))}]()"], "%l")

    def words(n: int) -> str:
        return program("%x : Tensor", ["%l : str[] = prim::Constant[value=[" + ", ".join(f'"s{i}"' for i in range(n)) + "]]()"], "%l")

    for make in (numbers, words):
        assert is_linear(make, lambda graph: irs.parse(str(graph)), 5000)
