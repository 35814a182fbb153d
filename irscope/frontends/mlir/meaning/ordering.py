"""Rules of sorting: `stablehlo.sort` with a comparator that is a lexicographic order, `chlo.top_k`, and the custom calls of JAX that
have a meaning on one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from irscope.frontends.mlir.emit import Emitter, dtype_of, shape_of
from irscope.frontends.mlir.meaning.bodies import expressions, is_lexicographic
from irscope.frontends.mlir.meaning.pointwise import FLOATS, INTEGERS, splat
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


def _approximate_top_k(op: Operation) -> Sequence[Value] | None:
    """JAX's `approx_max_k` and `approx_min_k`, computed exactly, as XLA does on a processor."""
    config = op.attr("mhlo.backend_config")
    if config is None or len(op.operands) != 4 or len(op.types) != 2 or not op.is_static:
        return None
    e, (x, index, *_), axis = op.e, op.operands, int(config["reduction_dim"].value)
    descending = {"compare.GT(a0,a1)": True, "compare.LT(a0,a1)": False}.get(_called_text(op))
    before, count = shape_of(x) or (), op.shape[axis]
    if descending is None or count not in (int(config["top_k"].value), before[axis]) or dtype_of(x) not in FLOATS | INTEGERS:
        return None
    values, places = _sorted(e, x, axis, descending)
    return sliced(e, values, axis, 0, count), sliced(e, e.like("gather", index, axis, places, False), axis, 0, count)


def _called_text(op: Operation) -> str:
    """Returns the only computation that a custom call names as a text over its parameters; empty if there is none."""
    names = [symbol.value for symbol in op.attr("called_computations") or ()]
    top = op.handle
    while top.name != "builtin.module":
        top = top.parent.operation
    functions = [each.operation for block in top.regions[0].blocks for each in block.operations]
    found = [each for each in functions if "sym_name" in each.attributes and [each.attributes["sym_name"].value] == names]
    texts = expressions(found[0].regions[0]) if found else None
    return texts[0] if texts is not None and len(texts) == 1 else ""


def _custom_call(op: Operation) -> Value | Sequence[Value] | None:
    """The operands, for markers of sharding and layout; JAX's approximate `top_k`, computed exactly; nothing for a check that holds."""
    target = op.text("call_target_name").strip('"')
    if target == "ApproxTopK":
        return _approximate_top_k(op)
    if target == "shape_assertion" and not op.types and splat(op.e, op.operands[0]) is True:
        return ()
    is_marker = target in _MARKERS and [value.type for value in op.operands] == list(op.types)
    return op.operands if is_marker else None


_MARKERS: Final = ("LayoutConstraint", "Sharding", "annotate_device_placement")
"""Custom calls that say where or how a tensor lies; their results are their operands."""


RULES: Final[Mapping[str, Callable[[Operation], Value | Sequence[Value] | None]]] = {
    "stablehlo.sort": _sort,
    "chlo.top_k": _top_k,
    "stablehlo.custom_call": _custom_call,
}
"""The rule of each op."""
