"""Tensors that grow piece by piece: each join copies everything joined before, which is quadratic in the number of pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from irscope._base.words import byte_count, plural
from irscope.ir import Node, Value
from irscope.ops.traits import JOINS
from irscope.runtime.profile.advice.evidence import Evidence
from irscope.runtime.profile.advice.remark import Remark

__all__ = ["growing_remarks"]

_MANY: Final = 4
"""The least number of joins that count as a growing tensor."""
_WASTED: Final = 0.5
"""The least part of redundant bytes that is worth a remark."""


def growing_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields one remark for each tensor that every new piece copies again."""
    for nodes in _chains(evidence):
        last = evidence.result(nodes[-1])
        joins = sum(evidence.cost(node).calls for node in nodes)
        if last is None or joins < _MANY:
            continue
        moved = sum(evidence.cost(node).bytes for node in nodes)
        final = last.bytes if len(nodes) > 1 else _at_the_end(evidence, nodes[0])
        wasted = 1.0 - 2 * final / moved if moved else 0.0
        if wasted < _WASTED:
            continue
        yield evidence.remark(
            "grows-by-copies", nodes, wasted * evidence.sum_ns(nodes),
            f"{plural(joins, 'join')} move {byte_count(moved)} to make a tensor of {byte_count(final)}: each copies what was joined before",
            "keep the pieces in a list, and join them once at the end",
        )  # fmt: skip


def _chains(evidence: Evidence) -> Iterator[list[Node]]:
    """Yields chains of joins in which each extends the result of the one before, and joins that extend their own in a loop."""
    chain: dict[Node, list[Node]] = {}
    for row in evidence.rows:
        node = row.node
        if node.op not in JOINS:
            continue
        grown = next((maker for value in _parts(evidence, node) if (maker := evidence.graph.producer.get(value)) in chain), None)
        nodes = chain.pop(grown) if grown is not None else []
        nodes.append(node)
        chain[node] = nodes
    yield from (nodes for nodes in chain.values() if len(nodes) > 1 or _is_carried(evidence, nodes[0]))


def _parts(evidence: Evidence, node: Node) -> tuple[Value, ...]:
    listed = evidence.graph.producer.get(node.inputs[0])
    return listed.inputs if listed is not None and listed.op == "prim::ListConstruct" else ()


def _is_carried(evidence: Evidence, node: Node) -> bool:
    """Checks whether a join extends its own result of the previous loop iteration."""
    block = evidence.graph.block_of[node]
    carried = {given for given, param in zip(block.returns, block.params, strict=False) if param in _parts(evidence, node)}
    return node.output in carried


def _at_the_end(evidence: Evidence, node: Node) -> float:
    """Estimates the bytes of a loop join's result in the last iteration, for pieces that are all of equal size."""
    first, cost = evidence.result(node), evidence.cost(node)
    assert first is not None, "asked by the caller"
    # its results are first, first + piece, first + 2 · piece, …, which add up to the bytes written
    piece = (cost.written_bytes - cost.calls * first.bytes) / (cost.calls * (cost.calls - 1) / 2)
    return first.bytes + (cost.calls - 1) * piece
