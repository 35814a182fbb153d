"""Folds copies into another layout into the group whose result they copy, so that its kernel writes them.

An unwritten copy of a group's result becomes one more result of the group, and replaces the original where that has no other
users: no launch, and no bytes read again. Groups with max pooling run as several kernels, and are left as they are.
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
    """The top-level group that produces a value, if its kernel can write it in another layout; otherwise None."""
    node = graph.producer.get(value)
    if node is None or node.op != _GROUP or graph.block_of[node] is not graph.body:
        return None
    return None if any(inner.op in MAX_POOLS for inner in node.blocks[0].nodes) else node


def with_copies_in_groups(graph: Graph, copies: Collection[Value]) -> tuple[Graph, tuple[Edit, ...]]:
    """The graph in which groups write these copies (by `aten::contiguous`) of their results, where possible; and the edits."""
    db, found = alias_db_of(graph), dict[Node, list[Node]]()
    for node in graph.body.nodes:
        if node.op == "aten::contiguous" and node.output in copies:
            group = group_before(graph, node.inputs[0])
            if group is not None and not db.is_written(node.inputs[0]) and not db.is_written(node.output):
                found.setdefault(group, []).append(node)
    rewriter, reason = Rewriter(graph), "the kernel that produces it writes it in this layout"
    codes: dict[Value, Node] = {}
    for group, nodes in found.items():
        rewriter.replace_node(group, [_with_copies(graph, group, nodes)], reason=reason)
        for node in nodes:
            rewriter.erase(node, reason=reason)
            codes[node.inputs[1]] = graph.producer[node.inputs[1]]
    folded = {node for nodes in found.values() for node in nodes}
    for code, constant in codes.items():
        if all(use.user in folded for use in graph.users.get(code, ())):
            rewriter.erase(constant, reason="it is unused")
    return rewriter.finish(), rewriter.edits


def _with_copies(graph: Graph, group: Node, nodes: Sequence[Node]) -> Node:
    """The group with these copies of its results as further outputs, without the results that have no other users."""
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
