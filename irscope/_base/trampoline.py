"""Calls without the Python stack: a generator yields the generator to run, and is sent its result.

Interpreters of nested blocks can be written as if they recursed, even for programs nested a hundred thousand deep.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

__all__ = ["Call", "run"]

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
