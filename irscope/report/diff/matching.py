"""Matches the nodes of two programs.

Programs that passes derived from one program share ids: a node matches itself, and a group the one with the same members. Others
are matched by what they compute from the inputs: op, attributes, types and operands, equal ones in order of occurrence; the rest
by op and printed name. Everything is linear. A match is for display only; no pass relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Literal

from irscope.ir import Graph, Node, Value

__all__ = ["By", "match"]

By = Literal["ids", "structure"]


def match(first: Graph, second: Graph) -> tuple[dict[Node, Node], By]:
    """The pairs of corresponding nodes, and the criterion used."""
    left, right = list(first.nodes()), list(second.nodes())
    pairs: dict[Node, Node] = {}
    common = {node.id for node in left} & {node.id for node in right}
    by: By = "ids" if common else "structure"
    if common:
        _pair(left, right, pairs, lambda node: node.id)
        _pair(left, right, pairs, _members)
    else:
        keys = _computed(first) | _computed(second)
        _pair(left, right, pairs, keys.__getitem__)
        names = {**first.names, **second.names}
        _pair(left, right, pairs, lambda node: (node.op, *(names[value] for value in node.outputs[:1])) if node.outputs else None)
    return pairs, by


def _pair(left: Iterable[Node], right: Iterable[Node], pairs: dict[Node, Node], key: Callable[[Node], Hashable]) -> None:
    """Pair unpaired nodes with equal keys, in order; nodes with the key None stay unpaired."""
    taken = set(pairs.values())
    waiting: dict[Hashable, list[Node]] = {}
    for node in right:
        if node not in taken:
            waiting.setdefault(key(node), []).append(node)
    for same in waiting.values():
        same.reverse()
    for node in left:
        if node not in pairs and (found := key(node)) is not None and waiting.get(found):
            pairs[node] = waiting[found].pop()


def _members(node: Node) -> Hashable:
    """The key of a group: the ids of its nodes, without constants, which are copies."""
    inside = frozenset(inner.id for block in node.blocks for inner in block.nodes if inner.op != "prim::Constant")
    return inside or None


def _computed(graph: Graph) -> dict[Node, Hashable]:
    """A number per node that is equal for equal computations, within this process."""
    of: dict[Value, Hashable] = {value: ("input", k) for k, value in enumerate(graph.inputs)}
    found: dict[Node, Hashable] = {}
    for node in graph.nodes():
        for depth, block in enumerate(node.blocks):
            of.update((value, ("parameter", depth, k, node.op)) for k, value in enumerate(block.params))
        reads = tuple(of.get(value, "later") for value in node.inputs)
        types = tuple(str(value.type) for value in node.outputs)
        key = found[node] = hash((node.op, repr(sorted(node.attrs.items(), key=str)), reads, types))
        of.update((value, (key, k)) for k, value in enumerate(node.outputs))
    return found
