"""What is folded is bounded by its size before it is made, and what is told of the size is never too small."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irscope as irs
from irscope.ops.python import containers, scalars
from irscope.ops.python.scalars import RESULT_SIZES, size_of

CONSTANTS = """
  %text : str = prim::Constant[value="aa"]()
  %wide : str = prim::Constant[value="{:99999999999}"]()
  %percent : str = prim::Constant[value="%99999999999d"]()
  %star : str = prim::Constant[value="%*d"]()
  %huge : int = prim::Constant[value=100000000000]()
  %one : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %small : int[] = prim::Constant[value=[1, 2, 3]]()
  %l : int[] = prim::ListConstruct(%one, %one)"""


def program(lines: str, result: str = "%r") -> str:
    return f"graph(%x : Tensor):{CONSTANTS}\n  {lines}\n  return ({result})"


@pytest.mark.parametrize(
    "line",
    [
        "%r : int[] = aten::mul(%small, %huge)", "%r : int[] = aten::mul(%l, %huge)",
        "%r : int = aten::__lshift__(%one, %huge)", "%r : int = aten::factorial(%huge)", "%r : str = aten::format(%wide, %one)",
        "%r : str = aten::percentFormat(%percent, %one)", "%r : str = aten::percentFormat(%star, %huge, %one)",
        "%r : int[] = prim::rangelist(%huge)",
    ],
)  # fmt: skip
def test_what_would_fill_the_memory_is_left_to_the_run(line: str) -> None:
    started = time.process_time()
    fusion = irs.fuse(irs.parse(program(line)))
    assert time.process_time() - started < 5
    assert line.partition("= ")[2].partition("(")[0] in str(fusion.graph)


@pytest.mark.parametrize(
    ("start", "step"),
    [
        ("%v0 : str = aten::add(%text, %text)", "%v{b} : str = aten::add(%v{a}, %v{a})"),
        ("%v0 : int[] = aten::add(%l, %l)", "%v{b} : int[] = aten::add(%v{a}, %v{a})"),
        ("%v0 : int[] = aten::add_(%l, %l)", "%v{b} : int[] = aten::add_(%l, %l)"),
        ("aten::extend(%l, %l)", "aten::extend(%l, %l)"),
        ("%v0 : str = aten::join(%text, %s)", "%v{b} : str = aten::replace(%v{a}, %text, %v{a})"),
    ],
)
def test_doubling_sixty_times(start: str, step: str) -> None:
    strings = "%s : str[] = prim::ListConstruct(%text, %text)"
    lines = [strings, start, *(step.format(a=i, b=i + 1) for i in range(60))]
    irs.fuse(irs.parse(program("\n  ".join(lines), "%l")))


def test_doubling_in_a_loop() -> None:
    loop = """%r : str = prim::Loop(%n, %true, %text)
    block0(%i : int, %s : str):
      %t : str = aten::add(%s, %s)
      -> (%true, %t)"""
    text = program("%n : int = prim::Constant[value=1000]()\n  " + loop)
    assert "prim::Loop" in str(irs.fuse(irs.parse(text)).graph)


def test_what_is_small_is_folded() -> None:
    graph = irs.fuse(irs.parse(program("%r : str = aten::add(%text, %text)"))).graph
    assert '"aaaa"' in str(graph)


NUMBERS = st.integers(-40, 40)
TEXTS = st.text(alphabet="ab{}%d1*", max_size=6)
OPERANDS = {
    "aten::add": st.tuples(TEXTS, TEXTS) | st.tuples(st.lists(NUMBERS), st.lists(NUMBERS)) | st.tuples(NUMBERS, NUMBERS),
    "aten::mul": st.tuples(TEXTS, NUMBERS) | st.tuples(st.lists(NUMBERS), NUMBERS) | st.tuples(NUMBERS, NUMBERS),
    "aten::__lshift__": st.tuples(NUMBERS, NUMBERS),
    "aten::factorial": st.tuples(st.integers(0, 16)),
    "aten::format": st.tuples(TEXTS, NUMBERS, TEXTS),
    "aten::percentFormat": st.tuples(TEXTS, NUMBERS, NUMBERS),
    "aten::join": st.tuples(TEXTS, st.lists(TEXTS)),
    "aten::replace": st.tuples(TEXTS, TEXTS, TEXTS),
    "prim::rangelist": st.tuples(NUMBERS),
}


@pytest.mark.parametrize("name", sorted(RESULT_SIZES))
def test_a_size_is_never_told_too_small(name: str) -> None:
    function = next(op for op in (*scalars.OPS, *containers.OPS) if op.name == name).reference
    assert function is not None

    @settings(max_examples=150, deadline=None)
    @given(OPERANDS[name])
    def check(operands: tuple[object, ...]) -> None:
        try:
            result = function(*operands)
        except (ValueError, TypeError, LookupError, ArithmeticError):
            return
        assert size_of(result) <= RESULT_SIZES[name](*operands) + 8

    check()
