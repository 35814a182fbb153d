"""Bounds the size of the result of an op on numbers, strings and lists, before it is computed.

`"ab" * 100_000_000_000` is one line of a program that may never run; a compiler that folds it runs out of memory. Sizes
are characters, elements, or bytes of an int, and are never underestimated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["MOST_AHEAD", "RESULT_SIZES", "size_of", "too_much"]

MOST_AHEAD: Final = 1 << 16
"""The largest result that is computed before the program runs."""

_FACTORIAL: Final = 1000


def size_of(value: Any) -> int:
    """Return the characters of a string, the elements of a container at any depth, the bytes of an int; 1 for anything else.

    >>> size_of("abc"), size_of([1, ["ab"]]), size_of(2**80), size_of(0.5)
    (3, 5, 11, 1)
    """
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list | tuple):
        return len(value) + sum(size_of(item) for item in value if isinstance(item, str | list | tuple))
    return 1 if not isinstance(value, int) or isinstance(value, bool) else value.bit_length() // 8 + 1


def too_much(size: int) -> str:
    """Return why a result of this size is not computed before the run; empty if it is.

    >>> too_much(10), too_much(200_000)
    ('', 'it would have 200,000 parts, and at most 65,536 are computed before the program runs')
    """
    if size <= MOST_AHEAD:
        return ""
    amount = f"{size:,} parts" if size < 10**15 else "more parts than any memory"
    return f"it would have {amount}, and at most {MOST_AHEAD:,} are computed before the program runs"


def _sum(*operands: Any) -> int:
    return sum(map(size_of, operands))


def _product(a: Any, b: Any) -> int:
    """Return the size of a repeated string or list; for two numbers, the sum of their sizes."""
    for many, times in ((a, b), (b, a)):
        if isinstance(many, str | list | tuple):
            return size_of(many) * max(0, times) if isinstance(times, int) else size_of(many)
    return size_of(a) + size_of(b)


def _shifted(a: Any, bits: Any) -> int:
    return size_of(a) + (max(0, bits) // 8 if isinstance(bits, int) else 0)


def _multiplied_up(a: Any) -> int:
    return MOST_AHEAD + 1 if isinstance(a, int) and a > _FACTORIAL else 1


def _counted(n: Any) -> int:
    return max(0, n) if isinstance(n, int) else 1


def _formatted(text: Any, *operands: Any) -> int:
    """Return a bound for formatted text: every number in the text, and every int operand, may be a width or a precision."""
    widths = [int(digits[:18]) for digits in re.findall(r"\d+", text)] if isinstance(text, str) else []
    given = [abs(operand) for operand in operands if isinstance(operand, int)] if "*" in str(text)[:MOST_AHEAD] else []
    fields = 1 + max(str(text).count("{"), str(text).count("%"))
    return _sum(text, *operands) * fields + 20 * len(operands) + sum(widths) + sum(given)


def _joined(text: Any, parts: Any) -> int:
    return size_of(parts) + size_of(text) * (len(parts) if isinstance(parts, list | tuple) else 1)


def _replaced(text: Any, old: Any = "", new: Any = "", *_: Any) -> int:
    return size_of(text) + (size_of(text) + 1) * size_of(new)


RESULT_SIZES: Final[Mapping[str, Callable[..., int]]] = {
    "aten::add": _sum,
    "aten::mul": _product,
    "aten::__lshift__": _shifted,
    "aten::factorial": _multiplied_up,
    "aten::format": _formatted,
    "aten::percentFormat": _formatted,
    "aten::join": _joined,
    "aten::replace": _replaced,
    "prim::rangelist": _counted,
}
"""The size of an op's result, by op; the results of other ops are not larger than their operands."""
