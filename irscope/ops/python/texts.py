"""Strings as TorchScript formats and searches them, which differs from Python in details.

Only `{}` is a placeholder in a format text, so that it cannot access attributes of operands, as Python's `"{0.__class__}"` can.
Floats have 17 digits, or end in a point; strings in lists have no quotes. The bounds of a search are those of C++. Tested
against torch 2.13.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["ends_with", "find", "formatted", "percent_formatted", "shown", "starts_with"]


def shown(value: Any) -> str:
    """Return a value as TorchScript prints it.

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
    """Return the text with each `{}` replaced by an operand; surplus operands are ignored.

    >>> formatted("{} of {:>5}", 1, 2)
    '1 of {:>5}'
    """
    parts = text.split("{}")
    if len(parts) - 1 > len(operands):
        raise ValueError(f"the text has {len(parts) - 1} places and {len(operands)} operands")
    return "".join(part + told for part, told in zip(parts, [*map(shown, operands[: len(parts) - 1]), ""], strict=True))


def percent_formatted(text: str, *operands: Any) -> str:
    """Return the text with each `%d`, `%s` and so on replaced by an operand; a single tuple stands for its members.

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
    raise ValueError(f"%{kind} cannot format {shown(value)}")


def find(text: str, part: str, start: int = 0, end: int = -1) -> int:
    """Return the index of a part between two bounds; -1 if it is not found.

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
    """Return the part between two bounds; an end before the start means no end."""
    start, end = _ends(text, start, end)
    return text[start:end] if end >= start else text[start:]


def _ends(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the bounds of a search; a negative bound counts from the end."""
    start = max(0, len(text) + start) if start < 0 else start
    if start > len(text):
        raise ValueError(f"the search starts at {start}, after the end of the text of {len(text)} characters")
    return start, max(0, len(text) + end + 1) if end < 0 else end
