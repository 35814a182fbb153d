"""Rules of sorting: `stablehlo.sort` with a comparator that is a lexicographic order, and `chlo.top_k`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from irscope.frontends.mlir.emit import Emitter, dtype_of, shape_of
from irscope.frontends.mlir.meaning.bodies import is_lexicographic
from irscope.frontends.mlir.meaning.pointwise import FLOATS, INTEGERS
from irscope.frontends.mlir.meaning.shaping import sliced
from irscope.frontends.mlir.operation import Operation
from irscope.ir import TensorType, Value

__all__ = ["RULES"]


def _sorted(e: Emitter, key: Value, axis: int, descending: bool) -> tuple[Value, Value]:
    """Sorts a key stably; returns it and the old index of each element."""
    shape = shape_of(key) or ()
    places = TensorType("int64", shape, None if shape else ())
    inputs = (key, e.constant(True), e.constant(axis), e.constant(descending))
    values, index = e.node("aten::sort", inputs, (key.type, places))
    return values, index


def _sort(op: Operation) -> Sequence[Value] | None:
    if not op.is_static or not op.shape:
        return None
    order = is_lexicographic(op.regions()[0])
    if order is None:
        return None
    keys, descending = order
    if any(dtype_of(key) not in FLOATS | INTEGERS for key in op.operands[:keys]):
        return None
    e, axis, current = op.e, op.number("dimension") % len(op.shape), list(op.operands)
    for number in reversed(range(keys)):
        made, index = _sorted(e, current[number], axis, descending)
        current = [
            made if place == number else e.like("gather", value, axis, index, False)
            for place, value in enumerate(current)
        ]
    return current


def _top_k(op: Operation) -> Sequence[Value] | None:
    """The largest elements, NaN first, and of equal ones the first, with their indices."""
    (x,) = op.operands
    if not op.is_static or dtype_of(x) not in FLOATS | INTEGERS or not op.shape:
        return None
    e, axis, count = op.e, len(op.shape) - 1, op.number("k")
    values, index = _sorted(e, x, axis, True)
    kind = op.types[1]
    assert isinstance(kind, TensorType) and kind.dtype is not None  # static
    return sliced(e, values, axis, 0, count), e.cast(sliced(e, index, axis, 0, count), kind.dtype)


RULES: Final[Mapping[str, Callable[[Operation], Sequence[Value] | None]]] = {
    "stablehlo.sort": _sort,
    "chlo.top_k": _top_k,
}
"""The rule of each op."""
