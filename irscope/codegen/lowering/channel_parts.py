"""Normalizations that reduce each group of channels separately (`Op.channel_parts`): group norm, instance norm.

One kernel in five steps: cast the input to the compute type, view it as (batch, part, rest), normalise along the last
axis by the op's expression, view the result with the input's shape, and scale channel by channel. The views cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Protocol

from irscope.codegen.lowering.data_movement import no_kernel
from irscope.codegen.lowering.element_ops import Compute, Seen, Step
from irscope.ir import Node, TensorType, Value, make_value, new_id
from irscope.ops.expr import Expr, NoExpression, affine, cast, input_element
from irscope.ops.schema import Op
from irscope.ops.typing import contiguous_strides, opmath

__all__ = ["normalized_in_parts"]


class _Values(Protocol):
    """The part of `GroupValues` that this module uses."""

    known: dict[Value, Any]
    types: dict[Value, Any]
    steps: dict[Value, Step]

    def shape(self, value: Value) -> tuple[int, ...]: ...
    def dtype(self, value: Value) -> str: ...


Operands = list[tuple[int, Value, int | None]]


def normalized_in_parts(
    values: _Values, position: int, node: Node, op: Op, arguments: Mapping[str, Any]
) -> tuple[Expr, Operands]:
    """Return the expression of the node's result and its operands; the steps before it are added to `values.steps`."""
    assert op.channel_parts is not None
    assert op.expression is not None
    known = _known(values, arguments)
    operand = arguments["input"]
    shape, dtype = values.shape(operand), values.dtype(operand)
    if len(shape) < 2 or 0 in shape:
        raise no_kernel(node)
    compute = opmath(dtype)
    try:
        parts = op.channel_parts(channels=shape[1], **known)
        rows = (shape[0], parts, prod(shape[1:]) // parts)
        expr = op.expression(**{**known, "input": input_element(0, compute, rank=3)})
    except NoExpression:
        raise no_kernel(node) from None

    def step(extents: tuple[int, ...], made: Callable[[], Step]) -> Value:
        value = make_value(new_id(), node.output.type, node.output.name)
        values.types[value] = TensorType(compute, extents, contiguous_strides(extents))
        values.steps[value] = made()
        return value

    whole = cast(input_element(0, dtype, rank=len(shape)), compute)
    wide = step(shape, lambda: Compute(position, whole, ((0, operand, None),)))
    seen = step(rows, lambda: Seen(position, wide, 0, contiguous_strides(rows)))
    normal = step(rows, lambda: Compute(position, expr, ((0, seen, None),), (2,), rows))
    back = step(shape, lambda: Seen(position, normal, 0, contiguous_strides(shape)))
    operands: Operands = [(0, back, None)]
    scales: list[Expr | None] = []
    for name in ("weight", "bias"):
        vector = arguments.get(name)
        if known.get(name) is not None:  # a constant
            raise no_kernel(node)
        if name in known or not isinstance(vector, Value):
            scales.append(None)
            continue
        scales.append(input_element(len(operands), values.dtype(vector), rank=1))
        operands.append((len(operands), vector, op.operand_axes[name]))
    return cast(affine(input_element(0, compute, rank=len(shape)), *scales), dtype), operands


def _known(values: _Values, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are known, by name."""
    found = {name: values.known.get(a, a) if isinstance(a, Value) else a for name, a in arguments.items()}
    return {name: a for name, a in found.items() if not isinstance(a, Value)}
