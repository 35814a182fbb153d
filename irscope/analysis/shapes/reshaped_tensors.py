"""Finds the values that may be a tensor object whose shape an op changes in place.

`add_` writes elements; `resize_`, `t_`, `set_` and the `out=` forms change the object itself, and so every other name
of it. Names are followed through ops that may return their argument, branches, loops and containers, all in one
union-find; a graph without such ops, which is nearly every graph, costs one visit per node. A caller may pass one
tensor for two arguments: unless inputs are promised to be distinct, all free inputs are names of one object. (A bound
parameter is not one of them: `Graph.storages` says so, and calls that write check this.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final

from irscope.ir import ANY, Graph, Node, PrimitiveType, Value
from irscope.ops.registry import effect_of, schema_of
from irscope.ops.traits import ANOTHER_OBJECT, MAYBE_ANOTHER_OBJECT, PACKS, SHAPE_WRITERS

__all__ = ["CallerVisible", "reshaped_objects"]

_WRITES: Final = frozenset({"in-place", "opaque"})


def reshaped_objects(graph: Graph) -> frozenset[Value]:
    """The values whose shape and strides may differ from those their producer gave them."""
    seeds = [value for node in graph.nodes() if effect_of(node) in _WRITES for value in _changed(node)]
    if not seeds:
        return frozenset()
    roots, find = _classes(graph, seeds)
    return frozenset(value for value in graph.values() if find(value) in roots)


class CallerVisible:
    """The values that may be a tensor object visible to the caller: an argument or a result.

    Two objects over one memory are the same to code that reads and writes elements, but a caller that has both can
    distinguish them by calling `t_` on one.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _held(self) -> set[Value]:
        graph = self._graph
        held = [*graph.inputs, *graph.outputs]
        held += [value for node in graph.nodes() if _is_unseen(node) for value in (*node.inputs, *node.outputs)]
        roots, find = _classes(graph, held)
        return {value for value in graph.values() if find(value) in roots}

    def identity_is_observable(self, node: Node, stays: Value) -> bool:
        """Whether a caller could observe that a node's view was replaced by another value, a view of the same elements."""
        return node.op in MAYBE_ANOTHER_OBJECT and node.output in self._held and stays in self._held

    def become_one(self, gone: Value, stays: Value) -> None:
        """Record that a value replaces another from now on."""
        if gone in self._held:
            self._held.add(stays)


def _classes(graph: Graph, seeds: Iterable[Value]) -> tuple[set[Value], Callable[[Value], Value]]:
    """The representatives of these values, and the function that finds the representative of any value."""
    parent: dict[Value, Value] = {}

    def find(value: Value) -> Value:
        while value in parent:
            above = parent[value]
            if above in parent:
                parent[value] = parent[above]
            value = above
        return value

    for node in graph.nodes():
        for a, b in _same_object(node):
            a, b = find(a), find(b)
            if a is not b:
                parent[a] = b
    if not (graph.distinct_inputs or graph.functional):
        given = [value for value in graph.free_inputs if not isinstance(value.type, PrimitiveType) or value.type == ANY]
        for value in given[1:]:
            a, b = find(value), find(given[0])
            if a is not b:
                parent[a] = b
    return {find(value) for value in seeds}, find


def _is_unseen(node: Node) -> bool:
    return not node.blocks and not node.op.startswith("prim::") and schema_of(node) is None


def _changed(node: Node) -> tuple[Value, ...]:
    if node.op in SHAPE_WRITERS:
        return node.inputs[:1]
    schema = schema_of(node) if effect_of(node) == "in-place" else None
    if schema is None:
        return ()
    pairs = zip(schema.arguments, node.inputs, strict=False)
    return tuple(
        value for argument, value in pairs if argument.keyword_only and argument.alias and argument.alias.is_write
    )


def _same_object(node: Node) -> list[tuple[Value, Value]]:
    """Pairs of names that may be one object. Pure ops create new ones; all others are assumed to return any argument."""
    pairs: list[tuple[Value, Value]] = []
    if node.op == "prim::Loop":
        (block,) = node.blocks
        carried = list(zip(node.outputs, block.params[1:], strict=True))
        pairs += carried + list(zip(node.inputs[2:], block.params[1:], strict=True))
        pairs += zip(block.returns[1:], node.outputs, strict=True)
        return pairs
    if node.blocks:
        for block in node.blocks:
            pairs += zip(block.returns, node.outputs, strict=False)
            pairs += zip(node.inputs, block.params, strict=False)
        return pairs
    if effect_of(node) == "pure" and node.op not in PACKS:
        return pairs
    if node.op in ANOTHER_OBJECT:
        return pairs
    values = (*node.inputs, *node.outputs)
    return [(values[0], other) for other in values[1:]]
