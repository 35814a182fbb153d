"""Converts what a user passes to what a graph takes: a program to its graph, and nested arguments to one per input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from irscope._base.leaves import leaves, leaves_by_path
from irscope._base.words import plural
from irscope.errors import ArgumentError
from irscope.ir.core import Graph, Module

__all__ = ["check_count", "flatten_arguments", "graph_of", "nested_paths", "numbers_of_keys"]

_MOST_SHOWN: Final = 12


def graph_of(program: Any, verb: str) -> Graph:
    """The graph of a program: a Graph itself, that of a Fusion, or a Module's one public graph with the calls inlined.
    `verb` names the caller in the error.

    Raises ArgumentError for anything else.
    """
    if isinstance(program, Module):
        from irscope.ir.module import inlined  # which verifies what it reads, with this function

        return inlined(program)
    graph = program if isinstance(program, Graph) else getattr(program, "graph", None)
    if not isinstance(graph, Graph):
        what = f"{verb} works on a Graph, a Module or the result of fuse, not on {type(program).__name__}"
        raise ArgumentError(what, hint="irs.load(program, *example_arguments) makes a Graph of a model or a file")
    return graph


def flatten_arguments(arguments: Sequence[Any], graph: Graph) -> tuple[Any, ...]:
    """The arguments, one per free input, taken out of lists, tuples and dictionaries.

    If a graph knows the paths to its inputs (`Graph.argument_paths`), each is found by its path, so that the order of a
    dictionary's keys does not matter. Otherwise the leaves are taken in order; if their number does not fit either, the
    arguments are returned as they are.

    Raises ArgumentError for arguments that are nested differently from those the program was loaded with, and
    for dictionaries if no keys are known.
    """
    if not any(isinstance(argument, list | tuple | dict) for argument in arguments):
        return numbers_of_keys(arguments)  # the usual case, at each call: it does not inspect the graph's inputs
    return numbers_of_keys(_flattened(arguments, graph))


def numbers_of_keys(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments with the unsigned integers of each typed key of JAX's (`jax.random.key`) in its place."""
    return tuple([
        sys.modules["jax"].random.key_data(argument) if type(argument).__name__ == "PRNGKeyArray" else argument
        for argument in arguments
    ])


def _flattened(arguments: Sequence[Any], graph: Graph) -> tuple[Any, ...]:
    wanted = len(graph.free_inputs)
    paths = graph.argument_paths
    if len(paths) == wanted:
        return _by_path(arguments, paths)
    if len(arguments) == wanted:
        return tuple(arguments)
    parts = tuple(leaves(arguments))
    if len(parts) != wanted:
        return tuple(arguments)
    if any(isinstance(argument, dict) for argument in arguments):
        raise ArgumentError(
            f"{graph.name} does not know the keys of its arguments", where=_shown_inputs(graph),
            hint="pass the values of the dictionary, one argument per input, in this order",
        )  # fmt: skip
    return parts


def check_count(graph: Graph, arguments: Sequence[Any], what: str = "argument") -> None:
    """Raises ArgumentError unless there is one argument for each free input."""
    wanted = len(graph.free_inputs)
    if len(arguments) != wanted:
        raise ArgumentError(
            f"{graph.name} takes {plural(wanted, what)} and got {len(arguments)}", where=_shown_inputs(graph),
            hint="pass one argument per input that is not a parameter, in order",
        )  # fmt: skip


def _shown_inputs(graph: Graph) -> str:
    """The first inputs that a caller passes, with their types, as text."""
    free = graph.free_inputs
    names = ", ".join(f"%{graph.names[value]} : {value.type}" for value in free[:_MOST_SHOWN]) or "none"
    return f"inputs: {names}" + (f", and {len(free) - _MOST_SHOWN} more" if len(free) > _MOST_SHOWN else "")


def nested_paths(arguments: Sequence[Any], wanted: int) -> tuple[tuple[Any, ...], ...]:
    """The paths to the leaves of nested example arguments, for `Graph.argument_paths`; empty if no argument is nested or
    the number of leaves is not that of the inputs.

    >>> nested_paths([1, {"w": 2, "b": 3}], 3), nested_paths([1, 2], 2), nested_paths([[1]], 4)
    (((0,), (1, 'w'), (1, 'b')), (), ())
    """
    paths = tuple(path for path, _ in leaves_by_path(arguments))
    return paths if len(paths) == wanted and any(len(path) > 1 for path in paths) else ()


def _by_path(arguments: Sequence[Any], paths: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    given = dict(leaves_by_path(arguments))
    known = frozenset(paths)
    missing = [path for path in paths if path not in given]
    wrong = [path for path, leaf in given.items() if path not in known and leaf is not None]
    if missing or wrong:
        parts = [f"{_path_text(path)} is missing" for path in missing[:3]] + [f"{_path_text(path)} is new" for path in wrong[:3]]
        raise ArgumentError(
            "the arguments are nested differently from those the program was loaded with", where="; ".join(parts),
            hint="load it again with arguments like these",
        )  # fmt: skip
    return tuple(given[path] for path in paths)


def _path_text(path: tuple[Any, ...]) -> str:
    """`argument 1['w']`."""
    return f"argument {path[0]}" + "".join(f"[{key!r}]" for key in path[1:])
