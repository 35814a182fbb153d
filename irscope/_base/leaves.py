"""The leaves of nested lists, tuples and dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["leaves", "leaves_by_path"]


def leaves(nested: Any) -> Iterator[Any]:
    """The leaves of a nested value, in order; a value that is not a container is its own leaf.

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


def leaves_by_path(nested: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The same leaves, each with its path: indexes of lists, field names of named tuples, keys of dictionaries.

    >>> list(leaves_by_path([1, {"a": (2, [3])}]))
    [((0,), 1), ((1, 'a', 0), 2), ((1, 'a', 1, 0), 3)]
    """
    stack: list[tuple[tuple[Any, ...], Any]] = [((), nested)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, list | tuple):
            inside = list(zip(getattr(item, "_fields", range(len(item))), item, strict=True))
        elif isinstance(item, dict):
            inside = list(item.items())
        else:
            yield path, item
            continue
        stack.extend(((*path, key), part) for key, part in reversed(inside))
