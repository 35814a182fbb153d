"""Strings as TorchScript makes and searches them, which is not quite as Python does.

Only `{}` stands for something in a text that is formatted, and nothing reaches into what is given: Python's `"{0.__class__}"` would.
Floats have 17 digits, or a point and nothing behind it; strings in lists have no quotes. The ends of a search count as C++
counts them. Tried against torch 2.13.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["ends_with", "find", "formatted", "percent_formatted", "shown", "starts_with"]


def shown(value: Any) -> str:
    """A value as TorchScript prints it.

    >>> shown(2.0), shown(0.1), shown([True, None]), shown((1, "a")), shown(("a",)), shown({"k": [1e300]})
    ('2.', '0.10000000000000001', '[True, None]', '(1, a)', '(a,)', '{k: [1.0000000000000001e+300]}')
    """
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))}{',' * (len(value) == 1)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{shown(key)}: {shown(item)}' for key, item in value.items())}}}"
    return str(value)


def _float(value: float) -> str:
    if not math.isfinite(value) or abs(value) >= 2**63 or not value.is_integer():
        return f"{value:.17g}"
    return f"{int(value)}."


def formatted(text: str, *operands: Any) -> str:
    """The text with an operand for each `{}`; operands that are left over say nothing.

    >>> formatted("{} of {:>5}", 1, 2)
    '1 of {:>5}'
    """
    parts = text.split("{}")
    if len(parts) - 1 > len(operands):
        raise ValueError(f"the text has {len(parts) - 1} places and {len(operands)} operands")
    return "".join(part + told for part, told in zip(parts, [*map(shown, operands[: len(parts) - 1]), ""], strict=True))


def percent_formatted(text: str, *operands: Any) -> str:
    """The text with an operand for each `%d`, `%s` and their like; one tuple is its members.

    >>> percent_formatted("%d%% %s %f", (3, "of", 0.5))
    '3% of 0.500000'
    """
    given = iter(operands[0] if len(operands) == 1 and isinstance(operands[0], tuple) else operands)
    made = "".join(_parts(text, given))
    if next(given, None) is not None:
        raise ValueError(f"the text {text!r} has fewer places than operands")
    return made


def _parts(text: str, given: Iterator[Any]) -> Iterator[str]:
    first, *rest = text.split("%") if "%" in text else [text]
    yield first
    pieces = iter(rest)
    for piece in pieces:
        if not piece:
            following = next(pieces, None)
            if following is None:
                raise ValueError(f"the text {text!r} ends in %")
            yield f"%{following}"
            continue
        yield _specified(piece[0], given, text) + piece[1:]


def _specified(kind: str, given: Iterator[Any], text: str) -> str:
    try:
        value = next(given)
    except StopIteration:
        raise ValueError(f"the text {text!r} has more places than operands") from None
    if kind in "di" and isinstance(value, int | float):
        return str(int(value))
    if kind in "eEfF" and isinstance(value, int | float):
        return f"%{kind}" % value
    if kind == "c" and isinstance(value, int):
        return chr(value)
    if kind == "s" or (kind == "c" and isinstance(value, str)):
        return shown(value)
    raise ValueError(f"%{kind} does not stand for {shown(value)}")


def find(text: str, part: str, start: int = 0, end: int = -1) -> int:
    """Where a part begins between two ends; -1 if it is not there.

    >>> find("banana", "an", 2), find("banana", "an", 2, 4), find("banana", "an", -6, -1)
    (3, -1, 1)
    """
    start, end = _ends(text, start, end)
    found = text[start:end].find(part)
    return found if found < 0 else found + start


def starts_with(text: str, part: str, start: int = 0, end: int = -1) -> bool:
    return _between(text, start, end).startswith(part)


def ends_with(text: str, part: str, start: int = 0, end: int = -1) -> bool:
    return _between(text, start, end).endswith(part)


def _between(text: str, start: int, end: int) -> str:
    """What lies between two ends; an end before the beginning is none."""
    start, end = _ends(text, start, end)
    return text[start:end] if end >= start else text[start:]


def _ends(text: str, start: int, end: int) -> tuple[int, int]:
    """The ends of a search, from zero on; one below zero counts from behind the last character."""
    start = max(0, len(text) + start) if start < 0 else start
    if start > len(text):
        raise ValueError(f"the search begins at {start}, behind the text of {len(text)} characters")
    return start, max(0, len(text) + end + 1) if end < 0 else end
