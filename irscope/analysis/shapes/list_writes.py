"""The types of list that each node may write, nested blocks included, which the abstract interpreter must forget.

This is coarser than the alias analysis, and needs only schemas: lists of one type are not distinguished.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from irscope.ir import (
    ANY,
    CONTROL_FLOW,
    AliasAnnotation,
    Block,
    Graph,
    ListType,
    Node,
    PrimitiveType,
    Type,
    UnionType,
    erase_refinements,
    walk,
)
from irscope.ops.registry import effect_of, schema_of
from irscope.ops.traits import KNOWN_SIDE_EFFECTS

__all__ = ["Written", "list_writes", "stands_for_its_block"]

Written = frozenset[Type] | None
"""None: lists of any type."""

_NOTHING: Final[frozenset[Type]] = frozenset()
_WRITES: Final = frozenset({"in-place", "opaque"})


def list_writes(graph: Graph) -> tuple[Mapping[Node, Written], Written]:
    """The list types written by each node that may write lists (other nodes are missing), and by the whole program."""
    found: dict[Node, Written] = {}
    inside: dict[Block, Written] = {}
    for block in reversed(list(graph.blocks())):
        total: Written = _NOTHING
        for node in block.nodes:
            if node.blocks:
                written = _of_blocks(node, inside)
            elif effect_of(node) in _WRITES:
                written = _own(node)
            else:
                continue
            if written is None or written:
                found[node] = written
                total = _merged([total, written])
        inside[block] = total
    return found, inside[graph.body]


def stands_for_its_block(node: Node) -> bool:
    """Whether a node, such as a group, has one block with a parameter for each input and a return for each output."""
    blocks = node.blocks
    return len(blocks) == 1 and (len(blocks[0].params), len(blocks[0].returns)) == (len(node.inputs), len(node.outputs))


def _of_blocks(node: Node, inside: Mapping[Block, Written]) -> Written:
    if node.op in CONTROL_FLOW or stands_for_its_block(node):
        return _merged([inside[inner] for inner in node.blocks])
    return None


def _merged(parts: list[Written]) -> Written:
    result: set[Type] = set()
    for part in parts:
        if part is None:
            return None
        result |= part
    return frozenset(result) if result else _NOTHING


def _own(node: Node) -> Written:
    """The list types that a node without blocks, which has effects, may write."""
    if effect_of(node) == "opaque":
        return _NOTHING if node.op in KNOWN_SIDE_EFFECTS else None
    schema = schema_of(node)
    if schema is None:
        return None
    types: set[Type] = set()
    for argument, value in zip(schema.arguments, node.inputs, strict=False):
        if isinstance(argument.type, ListType) and _writes_list(argument.alias):
            types.add(erase_refinements(value.type))
    return None if any(map(_is_vague, types)) else frozenset(types)


def _writes_list(alias: AliasAnnotation | None) -> bool:
    return alias is not None and alias.is_write


def _is_vague(type: Type) -> bool:
    """Whether a list of this type may be a list of another: through `Any`, a type variable or a union."""
    if not isinstance(type, ListType):
        return True
    return any(
        part == ANY or isinstance(part, UnionType) or (isinstance(part, PrimitiveType) and part.name[:1] == "t")
        for part in walk(type)
    )
