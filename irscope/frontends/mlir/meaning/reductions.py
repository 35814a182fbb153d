"""Rules of `stablehlo.reduce`: sums, products, extrema, `all`, `any`, and JAX's argmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from irscope.frontends.emit import CODES
from irscope.frontends.mlir.emit import Emitter, dtype_of, shape_of
from irscope.frontends.mlir.meaning.bodies import reducer, selects_largest
from irscope.frontends.mlir.meaning.pointwise import FLOATS, INTEGERS
from irscope.frontends.mlir.meaning.shaping import spread
from irscope.frontends.mlir.operation import Operation
from irscope.ir import Value

__all__ = ["RULES", "combined", "is_identity", "is_reducible", "reduced"]

_COMBINE: Final = {
    "add": ("add", 1), "mul": ("mul",), "max": ("maximum",), "min": ("minimum",), "and": ("bitwise_and",),
    "or": ("bitwise_or",),
}  # fmt: skip
"""For each reduction, its op of two operands and that op's further arguments."""


def is_reducible(kind: str, dtype: str) -> bool:
    """Checks whether torch has this reduction for an element type."""
    if dtype == "bool":
        return True
    return kind in ("add", "mul", "max", "min") and (dtype in FLOATS | INTEGERS or (dtype == "complex64" and kind == "add"))


def is_identity(kind: str, dtype: str, known: np.ndarray[Any, Any] | None) -> bool:
    """Checks whether an initial value is the identity of a reduction."""
    if known is None or known.size != 1:
        return False
    value = known.reshape(-1)[0]
    if kind in ("max", "min"):
        if dtype == "bool":
            return bool(value) == (kind == "min")
        if dtype in INTEGERS:
            limits = np.iinfo(dtype)
            return bool(value == (limits.min if kind == "max" else limits.max))
        return bool(value == (-np.inf if kind == "max" else np.inf))
    return bool(value == {"add": 0, "mul": 1, "and": True, "or": False}[kind])


def combined(e: Emitter, kind: str, a: Value, b: Value) -> Value:
    """Emits the reduction's op of two operands."""
    op, *rest = _COMBINE[kind]
    shape = shape_of(a) if len(shape_of(a) or ()) >= len(shape_of(b) or ()) else shape_of(b)
    return e.tensor(str(op), a, b, *rest, dtype=dtype_of(a), shape=shape or ())


def reduced(e: Emitter, kind: str, value: Value, axes: Sequence[int]) -> Value:
    """Emits a reduction over some dimensions, none of them empty."""
    if not axes:
        return value
    dtype, before = dtype_of(value), shape_of(value)
    assert before is not None  # checked by the caller
    after = [extent for axis, extent in enumerate(before) if axis not in axes]
    if dtype == "bool":
        kind = {"add": "or", "max": "or", "mul": "and", "min": "and"}.get(kind, kind)
    if kind in ("and", "or"):
        return _one_by_one(e, "all" if kind == "and" else "any", value, axes)
    if kind == "mul":
        return _one_by_one(e, "prod", value, axes, CODES[dtype])
    if kind == "add":
        return e.tensor("sum", value, list(axes), False, CODES[dtype], dtype=dtype, shape=after)
    return e.tensor("amax" if kind == "max" else "amin", value, list(axes), False, dtype=dtype, shape=after)


def _one_by_one(e: Emitter, aten: str, value: Value, axes: Sequence[int], *rest: object) -> Value:
    for axis in sorted(axes, reverse=True):
        before = shape_of(value)
        assert before is not None  # static
        value = e.tensor(aten, value, axis, False, *rest, dtype=dtype_of(value), shape=[*before[:axis], *before[axis + 1 :]])
    return value


def _reduce(op: Operation) -> Sequence[Value] | None:
    axes = op.ints("dimensions")
    if axes is None or not op.is_static:
        return None
    (region,) = op.regions()
    count = len(op.types)
    kind = reducer(region) if count == 1 else None
    if kind is None:
        return _arg_extreme(op, axes) if count == 2 else None
    e, (x, initial) = op.e, op.operands
    if not is_reducible(kind, op.dtype) or not dtype_of(x):
        return None
    x, initial = e.cast(x, op.dtype), e.cast(initial, op.dtype)  # computed in the result's element type
    if 0 in [(shape_of(x) or ())[axis] for axis in axes]:
        return [spread(e, initial, op.shape)]
    made = reduced(e, kind, x, axes)
    if not is_identity(kind, op.dtype, e.known.get(initial)):
        made = combined(e, kind, made, initial)
    return [made]


def _arg_extreme(op: Operation, axes: Sequence[int]) -> Sequence[Value] | None:
    """Emits an extreme and its index, if the second operand numbers the first along one dimension."""
    (region,) = op.regions()
    name, e = selects_largest(region), op.e
    x, index, initial, first = op.operands
    kind = {"argmax": "max", "argmin": "min"}.get(name or "")
    if kind is None or len(axes) != 1 or e.counts.get(index) != axes[0] or dtype_of(x) not in FLOATS | INTEGERS:
        return None
    start = e.known.get(first)
    if not is_identity(kind, dtype_of(x), e.known.get(initial)) or start is None or np.any(start != 0):
        return None
    if 0 in (shape_of(x) or ()):
        return None
    (axis,) = axes
    place = e.tensor(str(name), x, axis, False, dtype="int64", shape=op.shape)
    return [reduced(e, kind, x, axes), e.cast(place, dtype_of(index))]


RULES: Final[Mapping[str, Callable[[Operation], Sequence[Value] | None]]] = {"stablehlo.reduce": _reduce}
"""The rule of each op."""
