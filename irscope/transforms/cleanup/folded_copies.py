"""Copies into another layout that the kernel of a group makes as it writes its results.

A copy of what a group gives, which nobody writes, is one more result of the group, and the only one where nobody reads what it is a copy
of: no launch, and no bytes read again. Kernels of max pooling are several by themselves, and are left as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from irscope.analysis.per_graph import alias_db_of
from irscope.ir import Edit, Graph, Node, Rewriter, Value, make_block, make_node, make_value, new_id
from irscope.ops.traits import MAX_POOLS

__all__ = ["group_before", "with_copies_in_groups"]

_GROUP: Final = "prim::FusionGroup"


def group_before(graph: Graph, value: Value) -> Node | None:
    """The group at the top of the program that makes a value, if its kernel can lay it out otherwise."""
    node = graph.producer.get(value)
    if node is None or node.op != _GROUP or graph.block_of[node] is not graph.body:
        return None
    return None if any(inner.op in MAX_POOLS for inner in node.blocks[0].nodes) else node


def with_copies_in_groups(graph: Graph, copies: Collection[Value]) -> tuple[Graph, tuple[Edit, ...]]:
    """The graph of which groups make these copies (by `aten::contiguous`) of their results, where that can be."""
    db, found = alias_db_of(graph), dict[Node, list[Node]]()
    for node in graph.body.nodes:
        if node.op == "aten::contiguous" and node.output in copies:
            group = group_before(graph, node.inputs[0])
            if group is not None and not db.is_written(node.inputs[0]) and not db.is_written(node.output):
                found.setdefault(group, []).append(node)
    rewriter, reason = Rewriter(graph), "the kernel that makes it lays it out"
    codes: dict[Value, Node] = {}
    for group, nodes in found.items():
        rewriter.replace_node(group, [_with_copies(graph, group, nodes)], reason=reason)
        for node in nodes:
            rewriter.erase(node, reason=reason)
            codes[node.inputs[1]] = graph.producer[node.inputs[1]]
    folded = {node for nodes in found.values() for node in nodes}
    for code, constant in codes.items():
        if all(use.user in folded for use in graph.users.get(code, ())):
            rewriter.erase(constant, reason="nobody reads it")
    return rewriter.finish(), rewriter.edits


def _with_copies(graph: Graph, group: Node, nodes: Sequence[Node]) -> Node:
    """A group that gives these copies of its results as well, or in place of those that nobody else reads."""
    (block,) = group.blocks
    inside: Mapping[Value, Value] = dict(zip(group.outputs, block.returns, strict=True))
    body, outputs, returns = list(block.nodes), list[Value](), list[Value]()
    for value in group.outputs:
        if any(use.user not in nodes for use in graph.users.get(value, ())):
            outputs.append(value)
            returns.append(inside[value])
    for node in nodes:
        constant = graph.producer[node.inputs[1]]
        code = make_value(new_id(), constant.output.type, constant.output.name)
        made = make_value(new_id(), node.output.type, node.output.name)
        place = (), node.location, node.scope
        body.append(make_node(new_id(), constant.op, (), (code,), constant.attrs, *place))
        body.append(make_node(new_id(), node.op, (inside[node.inputs[0]], code), (made,), node.attrs, *place))
        outputs.append(node.output)
        returns.append(made)
    new = make_block(new_id(), block.params, tuple(body), tuple(returns))
    return make_node(new_id(), group.op, group.inputs, tuple(outputs), group.attrs, (new,), group.location, group.scope)
