"""Iteration spaces: shapes in which some extents, or all, may be unknown."""

from __future__ import annotations

from irscope.ir import Dim

__all__ = ["Space", "same_space", "format_space"]

Space = tuple[Dim, ...] | None
"""The points over which a node iterates; None when the rank is unknown."""


def same_space(a: Space, b: Space) -> bool:
    """Whether two iteration spaces are the same, or may be where extents are unknown.

    >>> same_space((2, 3), (2, 3)), same_space((2, None), (2, 3)), same_space(None, (2,)), same_space((2, 1), (2, 3))
    (True, True, True, False)
    """
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(
        x == y or not (isinstance(x, int) and isinstance(y, int)) for x, y in zip(a, b, strict=True)
    )


def format_space(space: Space) -> str:
    """Returns an iteration space as text.

    >>> format_space((2, None)), format_space(None)
    ('(2, *)', 'of unknown rank')
    """
    return (
        "of unknown rank" if space is None else "(" + ", ".join("*" if dim is None else str(dim) for dim in space) + ")"
    )
