"""Handles sizes that differ between the members of a class: as parameters, or as unknown extents in types.

Where a function consists of ops whose results follow from their operands, its types only repeat what operands determine: a type
that differs between members can be weakened without changing what is computed. So an extent that differs becomes unknown in the
leader, and a size that is an op's operand (`view(x, [n, 4])`) becomes a parameter like any number. Ops of MLIR's dialects are
different: the result of `tensor.empty` is determined by its result type and by no operand. With such an op, or an unknown op,
the function stays as it is, and a remark names the op.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from irscope.ir import (
    CONTROL_FLOW,
    GROUPS,
    Block,
    Graph,
    Node,
    TensorData,
    TensorType,
    Type,
    Value,
    make_block,
    make_node,
    make_value,
)
from irscope.ops.registry import has_value_tensors, schema_of
from irscope.transforms.dedup.regions.repeat import common_type
from irscope.transforms.dedup.rewrite.parameters import ClassHoles, HoleRow

__all__ = ["is_said_by_operands", "relaxed", "told_type", "types_in_common", "why_not_free"]


def is_said_by_operands(row: HoleRow, holes: ClassHoles) -> bool:
    """Whether a hole needs no parameter because operands determine it: an extent or a stride in a type, or in that of a constant
    tensor that is passed."""
    if row.kind not in ("extent", "stride"):
        return False
    if row.site.part == "type":
        return isinstance(row.site.subject, Value)
    passed = (other.site[:3] for other in holes.rows if other.kind == "constant" and other.parameter is not None)
    return row.site.part == "operand" and row.site[:3] in passed


def why_not_free(holes: ClassHoles, functions: Sequence[Graph]) -> str:
    """Returns why extents of a class cannot be unknown in its functions; empty if they can, or do not differ."""
    varying = {
        row.site.subject for row in holes.rows
        if row.parameter is not None and row.kind in ("extent", "stride") and isinstance(row.site.subject, Value)
    }  # fmt: skip
    if not varying:
        return ""
    matched = set(holes.matches[0].nodes)
    for node in (node for function in functions for node in function.nodes()):
        if node.op != "prim::Constant" and node not in matched:
            return f"{node.op} is unused, and may not work for other sizes: run the pass dce first"
        if any(value in varying for value in (*node.inputs, *node.outputs)) and not _follows_from_operands(node):
            return f"sizes differ at {node.op}, whose types may decide what it computes: they cannot be passed as operands"
    return ""


def _follows_from_operands(node: Node) -> bool:
    if has_value_tensors(node.op):
        return False
    return schema_of(node) is not None or node.op in CONTROL_FLOW or node.op in GROUPS or node.op.startswith("prim::")


def types_in_common(holes: ClassHoles) -> dict[Value, Type]:
    """Returns, for each value of the leader whose type differs between members, the type that covers all of them."""
    found: dict[Value, Type] = {}
    for value in holes.matches[0].values:
        types = [match.values[value].type for match in holes.matches if value in match.values]
        if any(type != types[0] for type in types):
            found[value] = common_type(types)
    return found


def told_type(row: HoleRow, leaf: Type) -> Type:
    """Returns the type of the parameter for constant tensors: the type that covers all of them."""
    tensors = [value for value in row.values if isinstance(value, TensorData)]
    types: list[Type] = [TensorType(each.dtype, tuple(each.shape), device=each.device) for each in tensors]
    return leaf if not types or all(type == types[0] for type in types) else common_type(types)


def relaxed(graph: Graph, types: Mapping[Value, Type]) -> Graph:
    """Returns the graph with other types for some of its values, also in nested blocks."""
    if not types:
        return graph
    env = {value: make_value(value.id, type, value.name) for value, type in types.items()}

    def renamed(values: Iterable[Value]) -> tuple[Value, ...]:
        return tuple([env.get(value, value) for value in values])

    made: dict[Block, Block] = {}
    for block in reversed(list(graph.blocks())):  # inner blocks first
        nodes = [
            make_node(
                node.id, node.op, renamed(node.inputs), renamed(node.outputs), node.attrs,
                tuple([made[inner] for inner in node.blocks]), node.location, node.scope,
            ) for node in block.nodes
        ]  # fmt: skip
        made[block] = make_block(block.id, renamed(block.params), tuple(nodes), renamed(block.returns))
    bound = {env.get(value, value): thing for value, thing in graph.bound.items()}
    return Graph(made[graph.body], graph.name, bound, graph.distinct_inputs, graph.functional)
