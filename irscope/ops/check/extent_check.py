"""Checks that the tensors of a program can exist: no negative extents, and element counts and strides that fit in 64 bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from irscope.errors import VerifyError
from irscope.ir import Block, Graph, Node, TensorType, Type, Value, walk
from irscope.ir.text.printer import excerpt

__all__ = ["check_extents", "wrong_extents"]

_MOST: Final = 2**63 - 1


def check_extents(graph: Graph, types: Iterable[Type]) -> None:
    """Raises VerifyError (`extent`) for the first of a graph's types that contains an impossible tensor."""
    for type in types:
        wrong = wrong_extents(type)
        if wrong:
            raise _extent_error(graph, type, wrong)


@lru_cache(maxsize=1 << 12)
def wrong_extents(type: Type) -> str:
    """Return what is wrong with the extents of the tensors in a type; empty if nothing is."""
    for inside in walk(type):
        if not isinstance(inside, TensorType):
            continue
        if any(isinstance(dim, int) and dim < 0 for dim in inside.shape or ()):
            return "an extent cannot be negative; write * for an unknown one"
        if not _can_be_counted(inside):
            return "its number of elements or one of its strides does not fit in 64 bits"
    return ""


def _can_be_counted(type: TensorType) -> bool:
    numel = 1
    for dim in type.shape or ():
        numel *= max(1, dim) if isinstance(dim, int) else 1
        if numel > _MOST:
            return False
    return all(abs(step) <= _MOST for step in type.strides or ())


def _extent_error(graph: Graph, type: Type, wrong: str) -> VerifyError:
    value, place = next((value, place) for value, place in _definitions(graph) if value.type is type)
    return VerifyError(
        f"{value!r} is of type {type}: {wrong}", where=excerpt(graph, {place: ""}), rule="extent",
        hint="a tensor's extents are non-negative numbers, * or symbols",
    )  # fmt: skip


def _definitions(graph: Graph) -> Iterator[tuple[Value, Node | Block]]:
    """Yield every value, with the node or block that an error shows."""
    yield from ((value, graph.body) for value in graph.inputs)
    for node in graph.nodes():
        yield from ((value, node) for value in node.outputs)
        yield from ((value, node) for block in node.blocks for value in block.params)
