"""Numbers with their nouns."""

from __future__ import annotations

__all__ = ["plural"]


def plural(count: int, noun: str, many: str = "") -> str:
    """A number and its noun, which takes an s, or `many`, unless there is one.

    >>> plural(1, "node"), plural(1200, "node"), plural(0, "class", "classes")
    ('1 node', '1,200 nodes', '0 classes')
    """
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
