"""How much work a function does, counted in calls of Python and C functions (the same on every machine, unlike seconds); long runs."""

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import pytest


def calls_made(function: Callable[[], object]) -> int:
    """The number of calls that one run makes."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def long(cases: Iterable[Any]) -> list[Any]:
    """Cases of a parametrised test that only a long run tries."""
    return [pytest.param(case, marks=pytest.mark.long) for case in cases]


def some(cases: Iterable[Any], few: int) -> list[Any]:
    """All these cases, of which the suite tries the first few."""
    every = [*cases]
    return [*every[:few], *long(every[few:])]


def blocks(first: int, count: int, size: int) -> list[range]:
    """So many ranges of this size, one after the other."""
    return [range(start, start + size) for start in range(first, first + count * size, size)]
