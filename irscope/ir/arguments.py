"""Arguments as a user passes them, and as a graph takes them: one per input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["spread"]


def spread(arguments: Sequence[Any], wanted: int) -> tuple[Any, ...]:
    """The arguments, one per input: where the counts differ, the parts of lists, tuples and dictionaries, in order.

    torch.export makes one input of each tensor in a nested argument. Given back as they are if that does not fit either.

    >>> spread([{"a": 1, "b": (2, 3)}, 4], 4), spread([[1, 2]], 1), spread([1], 2)
    ((1, 2, 3, 4), ([1, 2],), (1,))
    """
    if len(arguments) == wanted:
        return tuple(arguments)
    parts: list[Any] = []
    stack = list(reversed(arguments))
    while stack:
        part = stack.pop()
        if isinstance(part, list | tuple):
            stack.extend(reversed(part))
        elif isinstance(part, dict):
            stack.extend(reversed(part.values()))
        else:
            parts.append(part)
    return tuple(parts) if len(parts) == wanted else tuple(arguments)
