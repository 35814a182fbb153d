"""The most likely types of groups' operands, where a graph does not say the strides of its inputs.

A traced function and a typed-in program know shapes but not strides. Most arrays are row-major; the op rules infer the
rest from that. Kernels for these types can be compiled and inspected before the program runs. Nothing relies on the
assumption: a call with other strides compiles kernels for those.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from irscope.analysis.shapes import infer
from irscope.ir import Graph, Node, TensorType, Type, Value
from irscope.ops.typing import contiguous_strides
from irscope.runtime.arrays import extents

__all__ = ["likely_types"]


def likely_types(graph: Graph, groups: Iterable[Node]) -> dict[Node, tuple[Type, ...]]:
    """Returns the types of each group's operands if inputs of unknown strides are row-major; the types as they are if none is.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse(\"\"\"graph(%x : Float(2, 3)):
    ...   %y : Float(2, 3) = prim::FusionGroup(%x)
    ...     block0(%a : Float(2, 3)):
    ...       %b : Float(2, 3) = aten::relu(%a)
    ...       -> (%b)
    ...   return (%y)\"\"\")
    >>> [str(type) for type in likely_types(g, [g.node("y")])[g.node("y")]]
    ['Float(2, 3, strides=[3, 1])']
    """
    assumed: dict[Value, Type] = {}
    for value in graph.free_inputs:
        type = value.type
        if isinstance(type, TensorType) and type.is_static and type.strides is None:
            assumed[value] = replace(type, strides=contiguous_strides(extents(type)))
    if not assumed:
        return {group: tuple([value.type for value in group.inputs]) for group in groups}
    shapes = infer(graph, assumed)
    return {group: tuple([shapes.type(value) for value in group.inputs]) for group in groups}
