"""In-place forms of elementwise library ops outside of groups: `gelu` becomes `gelu_` where the operand is dead afterwards.

Only ops of one tensor qualify: with several, the result's layout may differ from the first operand's, and a smaller operand
would have to grow. The graph must say that the result has exactly the operand's type, so that torch casts and moves nothing.
"""

from __future__ import annotations

from irscope.ir import Node, TensorType, make_node, new_id
from irscope.ops.registry import effect_of, op_of, schema_of

__all__ = ["in_place_form"]


def in_place_form(node: Node) -> Node | None:
    """Returns the node that computes the same in its first operand; None if there is none, or it might not be the same.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Float(4, strides=[1])):\\n  %y : Float(4, strides=[1]) = aten::tanh(%x)\\n  return (%y)")
    >>> in_place_form(g.node("y")).op
    'aten::tanh_'
    """
    op = op_of(node)
    if op is None or op.category != "pointwise" or op.operand_axes or node.blocks or len(node.outputs) != 1:
        return None
    tensors = [value for value in node.inputs if isinstance(value.type, TensorType)]
    if len(tensors) != 1 or node.inputs[0] is not tensors[0] or effect_of(node) != "pure":
        return None
    given, made = tensors[0].type, node.output.type
    assert isinstance(given, TensorType)
    if not given.is_static or given.strides is None or given.dtype is None or given != made:
        return None
    variant = make_node(new_id(), f"{node.op}_", node.inputs, node.outputs, node.attrs, (), node.location, node.scope)
    return variant if schema_of(variant) is not None and effect_of(variant) == "in-place" else None
