"""What lies inside lists, tuples and dictionaries, however deep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["leaves"]


def leaves(nested: Any) -> Iterator[Any]:
    """The values inside, in order; a value that is no container is its own leaf.

    >>> list(leaves([1, {"a": (2, [3])}, "45"])), list(leaves(6))
    ([1, 2, 3, '45'], [6])
    """
    stack = [nested]
    while stack:
        item = stack.pop()
        if isinstance(item, list | tuple):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.extend(reversed(item.values()))
        else:
            yield item
