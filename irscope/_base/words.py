"""Numbers with their nouns and units, and warnings that point at the caller's line."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def plural(count: int, noun: str, many: str = "") -> str:
    """A number and its noun, in the plural (with an s, or as `many`) unless the number is one.

    >>> plural(1, "node"), plural(1200, "node"), plural(0, "class", "classes")
    ('1 node', '1,200 nodes', '0 classes')
    """
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def each(count: int, noun: str, many: str = "") -> str:
    """A number of things as the subject of a singular sentence.

    >>> [f"{each(count, 'group')} is a piece" for count in (0, 1, 2)]
    ['no group is a piece', 'the one group is a piece', 'each of the 2 groups is a piece']
    """
    if count < 2:
        return f"{'the one' if count else 'no'} {noun}"
    return f"each of the {plural(count, noun, many)}"


def listed(things: Sequence[T], name: Callable[[T], str] = str, most: int = 8) -> str:
    """The names of the first things, and the number of the rest, so that a sentence stays short.

    >>> listed("abc"), listed(range(2000), hex, 2)
    ('a, b, c', '0x0, 0x1 and 1,998 more')
    """
    more = f" and {len(things) - most:,} more" if len(things) > most else ""
    return ", ".join(map(name, things[:most])) + more


def byte_count(count: float) -> str:
    """An amount of memory with a decimal prefix, in three digits.

    >>> byte_count(800), byte_count(1_500_000)
    ('800 B', '1.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


_OURS = f"{Path(__file__).parents[1]}{os.sep}"


def warn_caller(message: str) -> None:
    """Emit a UserWarning at the innermost line outside this package.

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warn_caller("look out")
    >>> str(told[0].message)
    'look out'
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)
