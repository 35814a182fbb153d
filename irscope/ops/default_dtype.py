"""Finds nodes that compute in torch's default floating-point type, which the type rules assume to be float32.

`torch.set_default_dtype` changes the type in which `tanh` of whole numbers, `zeros` without a type, and `x > 0.5` of whole
numbers compute. Where an operand is a tensor of floats, or the type is given explicitly, the default does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from irscope.ir import FLOAT, INT, Erased, Graph, Node, TensorType
from irscope.ops.registry import category_of, schema_of

__all__ = ["DEFAULT", "gives_default_floats", "remembering_default"]

DEFAULT: Final = "float32"
_ELSEWHERE: Final = ("container", "control", "scalar", "view")
"""Categories of ops that never turn anything else into floats."""


def gives_default_floats(node: Node) -> bool | None:
    """Whether the node computes in the default floating-point type; None where types leave that open.

    >>> import irscope as irs
    >>> text = "graph(%x : {}):\\n  %y : Float(2) = aten::tanh(%x)\\n  return (%y)"
    >>> [gives_default_floats(irs.parse(text.format(kind)).node("y")) for kind in ("Long(2)", "Float(2)", "Tensor")]
    [True, False, None]
    """
    if node.blocks or node.op.startswith("prim::") or category_of(node) in _ELSEWHERE or _says_type(node):
        return False
    operands = [_is_float(value.type) for value in node.inputs if isinstance(value.type, TensorType)]
    results = [_is_float(value.type) for value in node.outputs if isinstance(value.type, TensorType)]
    compares_floats = any(value.type == FLOAT for value in node.inputs)
    if True in operands or not results:
        return False
    if True in results or compares_floats:
        return None if None in operands else True
    return None if None in results else False


def remembering_default(graph: Graph, edits: Iterable[object]) -> Graph:
    """Return the graph, marked if one of the nodes erased on the way to it computed in the default type.

    A constant that was folded from such a node is valid for that type alone, and the node itself is gone.
    """
    if graph.default_floats:
        return graph
    erased = (edit.node for edit in edits if isinstance(edit, Erased))
    op = next((node.op for node in erased if gives_default_floats(node) is not False), "")
    return replace(graph, default_floats=op) if op else graph


def _is_float(type: TensorType) -> bool | None:
    return None if type.dtype is None else type.dtype.startswith(("float", "bfloat", "complex"))


def _says_type(node: Node) -> bool:
    """Whether an argument gives the element type explicitly."""
    schema = schema_of(node)
    if schema is None:
        return False
    named = zip(schema.arguments, node.inputs, strict=False)
    return any(argument.name == "dtype" and value.type == INT for argument, value in named)
