"""Which nodes give floats of whatever type is the default: types here say float32 of them.

`torch.set_default_dtype` changes what `tanh` of whole numbers, `zeros` without a type, and `x > 0.5` of whole numbers
compute in. Where a tensor of floats goes in, or the type is said, the default does not matter.
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
"""Categories of ops that make no floats out of anything else."""


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
    """The graph, which says so if one of the nodes that were erased on the way to it gave floats of the default type.

    What was computed of such a node beforehand holds for that type alone, and no node is left that could be asked.
    """
    if graph.default_floats:
        return graph
    erased = (edit.node for edit in edits if isinstance(edit, Erased))
    told = next((node.op for node in erased if gives_default_floats(node) is not False), "")
    return replace(graph, default_floats=told) if told else graph


def _is_float(type: TensorType) -> bool | None:
    return None if type.dtype is None else type.dtype.startswith(("float", "bfloat", "complex"))


def _says_type(node: Node) -> bool:
    """Whether an operand is the number of an element type."""
    schema = schema_of(node)
    if schema is None:
        return False
    named = zip(schema.arguments, node.inputs, strict=False)
    return any(argument.name == "dtype" and value.type == INT for argument, value in named)
