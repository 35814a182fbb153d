"""Proves that two places of a region are the same: node by node, operand by operand, payload by payload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from irscope.ir import Value
from irscope.ir.structural import inner_blocks
from irscope.transforms.dedup.piece import Piece
from irscope.transforms.dedup.regions.block_index import BlockIndex
from irscope.transforms.dedup.relations import bijection, same_payload
from irscope.transforms.dedup.steps import Relation

__all__ = ["same_region"]

_RELATIONS: Final[tuple[Relation, ...]] = ("alpha", "extents")


def same_region(index: BlockIndex, leader: Sequence[int], member: Sequence[int]) -> bool:
    """Whether the nodes of two places correspond one by one: the same ops, attributes and blocks, and edges between the same
    columns. Constants among the operands, extents, and values from outside may differ; blocks must be the same by `extents`."""
    ours = {value: (c, k) for c, node in enumerate(leader) for k, value in enumerate(index.nodes[node].outputs)}
    theirs = {value: (c, k) for c, node in enumerate(member) for k, value in enumerate(index.nodes[node].outputs)}
    if len(ours) != len(theirs) or len(set(member)) != len(leader):
        return False
    return all(
        _same_node(index, a, b)
        and [ours.get(x) for x in index.operands[a]] == [theirs.get(y) for y in index.operands[b]]
        for a, b in zip(leader, member, strict=True)
    )


def _same_node(index: BlockIndex, a: int, b: int) -> bool:
    one, other = index.nodes[a], index.nodes[b]
    if index.looks[a] != index.looks[b] or one.op != other.op or len(one.outputs) != len(other.outputs):
        return False
    if len(index.operands[a]) != len(index.operands[b]) or one.attrs.keys() != other.attrs.keys():
        return False
    if not all(same_payload(payload, other.attrs[key]) for key, payload in one.attrs.items()):
        return False
    return not inner_blocks(one) or _same_blocks(index, a, b)


def _same_blocks(index: BlockIndex, a: int, b: int) -> bool:
    """Whether the blocks are the same, and read the operands from outside in the same way."""
    one, other = index.nodes[a], index.nodes[b]
    ours, theirs = inner_blocks(one), inner_blocks(other)
    outer = dict(zip(index.operands[a], index.operands[b], strict=True))
    return len(ours) == len(theirs) and all(
        _same_pieces(index.piece(one, x), index.piece(other, y), outer) for x, y in zip(ours, theirs, strict=True)
    )


def _same_pieces(left: Piece, right: Piece, outer: Mapping[Value, Value]) -> bool:
    """Whether two blocks are the same by `extents`; `alpha` is tried first, as it is four times faster and implies it."""
    for relation in _RELATIONS:
        matched = bijection(left, right, relation)
        if matched is not None and _agrees(matched, outer):
            return True
    return False


def _agrees(matched: dict[Value, Value], outer: Mapping[Value, Value]) -> bool:
    return all(outer.get(x, y) is y for x, y in matched.items())
