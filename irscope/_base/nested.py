"""Nested values, and nested calls, without the Python stack: a program may be nested a hundred thousand deep."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any


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


# Interpreters of nested blocks are written as if they recursed: a generator yields the generator to run, and is sent its result.
Call = Generator["Call", Any, Any]
"""A call in progress: yields calls, is sent their results, returns its own."""


def run(call: Call) -> Any:
    """The result of a call and of all calls inside it.

    >>> def total(n):
    ...     return 0 if n == 0 else n + (yield total(n - 1))
    >>> run(total(100_000))
    5000050000
    """
    stack = [call]
    result: Any = None
    try:
        while stack:
            try:
                inner = stack[-1].send(result)
            except StopIteration as end:
                stack.pop()
                result = end.value
            else:
                stack.append(inner)
                result = None
    finally:
        while stack:  # innermost first, so that closing does not recurse either
            stack.pop().close()
    return result
