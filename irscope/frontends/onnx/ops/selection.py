"""Choices among operands: Where, Clip, and the ops of any number of operands."""

from __future__ import annotations

from typing import Any

from irscope.frontends.onnx.building.call import Call, Result
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.ir import Value

__all__ = ["OPS"]

OPS: Table = {}


@op(OPS, "Where")
def _where(call: Call) -> Value:
    return call.op("where", call.x(0), call.x(1), call.x(2))


@op(OPS, "Clip")
def _clip(call: Call) -> Value:
    """Until opset 10 with numbers in attributes."""
    return _clamped(call, call.x(), call.attr("min", None), call.attr("max", None))


@op(OPS, "Clip", since=11)
def _clip_11(call: Call) -> Value:
    """With bounds as operands: numbers if they are known."""
    bounds = [call.held(index).known() if call.has(index) else None for index in (1, 2)]
    if all(bound is not None or not call.has(index) for index, bound in enumerate(bounds, 1)):
        low, high = (None if bound is None else bound.reshape(()).item() for bound in bounds)
        return _clamped(call, call.x(), low, high)
    low, high = (call.x(index) if call.has(index) else None for index in (1, 2))
    return _clamped(call, call.x(), low, high)


def _clamped(call: Call, x: Value, low: Any, high: Any) -> Value:
    return x if low is None and high is None else call.op("clamp", x, low, high)


def _folded(call: Call, name: str) -> Value:
    first, *rest = call.xs()
    for other in rest:
        first = call.op(name, first, other)
    return first


@op(OPS, "Max")
def _max(call: Call) -> Result:
    return _folded(call, "maximum")


@op(OPS, "Min")
def _min(call: Call) -> Result:
    return _folded(call, "minimum")


@op(OPS, "Sum")
def _sum(call: Call) -> Result:
    return _folded(call, "add")


@op(OPS, "Mean")
def _mean(call: Call) -> Result:
    total = _folded(call, "add")
    return call.op("div", total, len(call.inputs)) if len(call.inputs) > 1 else total
