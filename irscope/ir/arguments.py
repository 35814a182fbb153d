"""What a user passes, as a graph takes it: a program where one is asked for, and arguments, one per input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from irscope._base.leaves import leaves
from irscope.errors import ArgumentError
from irscope.ir.core import Graph

__all__ = ["graph_of", "flatten_arguments"]


def graph_of(program: Any, verb: str) -> Graph:
    """The graph that is meant: a Graph itself, or that of a Fusion. `verb` names who asks, in the error.

    Raises ArgumentError for anything else.
    """
    graph = program if isinstance(program, Graph) else getattr(program, "graph", None)
    if not isinstance(graph, Graph):
        what = f"{verb} works on a Graph or what fuse gives, not on {type(program).__name__}"
        raise ArgumentError(what, hint="irs.load(program, *example_arguments) makes a Graph of a model or a file")
    return graph


def flatten_arguments(arguments: Sequence[Any], wanted: int) -> tuple[Any, ...]:
    """The arguments, one per input: where the counts differ, the parts of lists, tuples and dictionaries, in order.

    torch.export makes one input of each tensor in a nested argument. Given back as they are if that does not fit either.

    >>> flatten_arguments([{"a": 1, "b": (2, 3)}, 4], 4), flatten_arguments([[1, 2]], 1), flatten_arguments([1], 2)
    ((1, 2, 3, 4), ([1, 2],), (1,))
    """
    if len(arguments) == wanted:
        return tuple(arguments)
    parts = tuple(leaves(arguments))
    return parts if len(parts) == wanted else tuple(arguments)
