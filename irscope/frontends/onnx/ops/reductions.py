"""Builders of reductions and scans; in newer opsets the axes are an operand, which may be computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, Final

from irscope.frontends.emit import CODES
from irscope.frontends.onnx.building.call import Call, Result, extents_of
from irscope.frontends.onnx.building.held import Item
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.frontends.onnx.reading.types import FLOATS
from irscope.ir import Value

__all__ = ["OPS"]

OPS: Table = {}

Axes = list[Item]
Reduce = Callable[[Call, Value, Axes, bool], Value]


def _sum(call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    """Sums in the operand's own type, whereas `aten::sum` would widen integers."""
    dtype = str(call.dtype())
    return call.op("sum", x, axes, keep, None if dtype in FLOATS else CODES[dtype])


def _mean(call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    if call.dtype() not in FLOATS:
        raise call.refuse("it truncates the mean of integers")
    return call.op("mean", x, axes, keep)


def _extreme(name: str, empty: float, call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    shape = extents_of(x) or ()
    reduced = [axis % len(shape) for axis in axes if isinstance(axis, int)] if shape else []
    if 0 in shape and len(reduced) != len(axes):
        raise call.refuse("it may reduce no elements")
    if any(shape[axis] == 0 for axis in reduced):
        if call.dtype() not in FLOATS or len(reduced) != len(axes):
            raise call.refuse("it reduces no elements")
        sizes = [1 if i in reduced else call.size(x, i) for i in range(len(shape)) if keep or i not in reduced]
        return call.op("full", sizes, empty, CODES[str(call.dtype())], None, None, None)
    return call.op(name, x, axes, keep)


def _prod(call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    dtype = CODES[str(call.dtype())]
    if len(axes) == 1:
        return call.op("prod", x, axes[0], keep, dtype)
    if not all(isinstance(axis, int) for axis in axes):
        raise call.refuse("its axes are known only at run time")
    rank = call.rank_of(x)
    for axis in sorted((call.wrap(int(axis), rank) for axis in axes), reverse=True):  # type: ignore[arg-type]
        x = call.op("prod", x, axis, keep, dtype)
    return x


def _l1(call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    return _sum(call, call.op("abs", x), axes, keep)


def _sum_square(call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    return _sum(call, call.op("mul", x, x), axes, keep)


def _l2(call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    return call.cast(call.op("sqrt", _sum_square(call, x, axes, keep)), str(call.dtype()))


def _log_sum(call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    return call.cast(call.op("log", _sum(call, x, axes, keep)), str(call.dtype()))


def _log_sum_exp(call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    if call.dtype() not in FLOATS:
        raise call.refuse("it truncates the logarithm of integers")
    shape = extents_of(x) or ()
    if 0 in shape:
        return call.op("log", call.op("sum", call.op("exp", x), axes, keep, None))
    return call.op("logsumexp", x, axes, keep)


_REDUCTIONS: Final[dict[str, tuple[int, Reduce]]] = {
    "ReduceSum": (13, _sum), "ReduceMean": (18, _mean), "ReduceMax": (18, partial(_extreme, "amax", -inf)),
    "ReduceMin": (18, partial(_extreme, "amin", inf)), "ReduceProd": (18, _prod), "ReduceL1": (18, _l1),
    "ReduceL2": (18, _l2), "ReduceLogSum": (18, _log_sum), "ReduceLogSumExp": (18, _log_sum_exp),
    "ReduceSumSquare": (18, _sum_square),
}  # fmt: skip
"""For each op, the opset from which on the axes are an operand, and the reduction."""
_UNCHANGED: Final = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
"""Over no axes these return their operand."""


def _reduced(reduce: Reduce, as_operand: int, call: Call) -> Result:
    if call.opset >= as_operand:
        axes: Axes = call.items(1) if call.has(1) else []
    else:
        axes = list(call.attr("axes", ()))
    x, keep = call.x(), bool(call.integer("keepdims", 1))
    if not axes and call.integer("noop_with_empty_axes", 0):
        if call.node.op_type not in _UNCHANGED:
            return reduce_each(call, x, reduce)
        return x
    axes = axes or list(range(call.rank()))
    return x if not axes and call.node.op_type in _UNCHANGED else reduce(call, x, axes, keep)


def reduce_each(call: Call, x: Value, reduce: Reduce) -> Value:
    """Reduces over no axes: each element by itself, along a new axis."""
    alone = call.op("unsqueeze", x, -1)
    return reduce(call, alone, [-1], False)


for _name, (_since, _reduce) in _REDUCTIONS.items():
    OPS[_name] = [(1, partial(_reduced, _reduce, _since))]


def _position(name: str, call: Call) -> Any:
    """Returns the first index of the extreme; the last one is the first in the flipped operand."""
    axis, keep = call.axis("axis", 0), bool(call.integer("keepdims", 1))
    x = call.x()
    if not call.integer("select_last_index", 0):
        return call.op(name, x, axis, keep)
    found = call.op(name, call.op("flip", x, [axis]), axis, keep)
    last = call.size(x, axis)
    end = last - 1 if isinstance(last, int) else call.op("sub", last, 1)
    return call.op("add", call.op("neg", found), end)


OPS["ArgMax"] = [(1, partial(_position, "argmax"))]
OPS["ArgMin"] = [(1, partial(_position, "argmin"))]


@op(OPS, "CumSum")
def _cum_sum(call: Call) -> Value:
    return _cumulated(call, "cumsum", 0)


@op(OPS, "CumProd")
def _cum_prod(call: Call) -> Value:
    return _cumulated(call, "cumprod", 1)


def _cumulated(call: Call, name: str, start: int) -> Value:
    """Accumulates along an axis; backwards means forwards on the flipped operand, exclusive means shifted by one."""
    x, axis = call.x(), call.items(1)[0]
    dtype = None if call.dtype() in FLOATS else CODES[str(call.dtype())]
    backwards, exclusive = call.integer("reverse", 0), call.integer("exclusive", 0)
    if backwards:
        x = call.op("flip", x, [axis])
    if exclusive:
        first = call.op("full_like", call.op("slice", x, axis, 0, 1, 1), start, None, None, None, None, None)
        x = call.op("cat", [first, call.op("slice", x, axis, 0, -1, 1)], axis)
    x = call.op(name, x, axis, dtype)
    return call.op("flip", x, [axis]) if backwards else x
