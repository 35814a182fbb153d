"""Rules of shifts, and of the bits of numbers as numbers of another type.

StableHLO shifts out all bits if the distance is the width or more; torch does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from irscope.frontends.emit import CODES
from irscope.frontends.mlir.emit import dtype_of
from irscope.frontends.mlir.meaning.pointwise import FLOATS, INTEGERS
from irscope.frontends.mlir.meaning.pointwise import RULES as POINTWISE
from irscope.frontends.mlir.operation import Operation
from irscope.ir import TensorData, TensorType, Value

__all__ = ["RULES", "shift_right_logical"]

Rule = Callable[[Operation], Value | None]


_SHIFTED: Final = frozenset({"uint8", "int8", "int16", "int32", "int64"})
"""The element types that torch shifts."""


def _shift(right: bool) -> Rule:
    """Returns the rule of a shift. Of a type that torch does not shift, it is a product or a quotient with a power of two if
    the distance is constant, and computed in int64 otherwise."""
    aten = "__rshift__" if right else "__lshift__"

    def rule(op: Operation) -> Value | None:
        if op.dtype not in INTEGERS:
            return None
        if op.dtype in _SHIFTED:
            return op.e.op(aten, *op.operands, type=op.type)
        known, bits = op.e.known.get(op.operands[1]), np.iinfo(op.dtype).bits
        if known is None or known.size == 0 or not np.all(known < bits):
            return _shifted(op, aten, bits)
        power = TensorData.of(np.left_shift(np.ones(known.shape, op.dtype), known.astype(op.dtype)))
        by = op.e.constant(power, TensorType(op.dtype, known.shape, None if known.shape else ()))
        return op.e.like("div", op.operands[0], by, "floor") if right else op.e.like("mul", op.operands[0], by)

    return rule


def _shifted(op: Operation, aten: str, bits: int) -> Value:
    """Emits a shift of unsigned numbers by a computed distance."""
    if bits == 64:
        return op.e.op(aten, *op.operands, type=op.type)
    wide = op.e.like(aten, *(op.e.cast(value, "int64") for value in op.operands))
    return op.e.cast(op.e.like("bitwise_and", wide, (1 << bits) - 1), op.dtype)


def _bitcast(op: Operation) -> Value | None:
    """The same bits as elements of another type of the same width."""
    source = dtype_of(op.operands[0])
    plain = (FLOATS | INTEGERS) - {"bfloat16"}
    if not {source, op.dtype} <= plain or np.dtype(source).itemsize != np.dtype(op.dtype).itemsize:
        return None
    return op.e.op("view", op.operands[0], CODES[op.dtype], type=op.type)


def shift_right_logical(op: Operation) -> Value | None:
    """A shift that brings in zeros; a signed number is shifted by one first and then has no sign."""
    if op.dtype.startswith("u"):
        return _shift(True)(op)
    if op.dtype not in _SHIFTED:
        return None
    e, (x, by) = op.e, op.operands
    half = e.like("bitwise_and", e.op("__rshift__", x, 1, type=op.type), int(np.iinfo(op.dtype).max))
    rest = e.op("__rshift__", half, e.like("sub", by, 1, 1), type=op.type)
    return e.op("where", e.op("eq", by, 0, type=op.type.with_(dtype="bool")), x, rest, type=op.type)


_BROADCASTING: Final = (
    "add", "and", "atan2", "compare", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder", "select",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor",
)  # fmt: skip


def _broadcasting(rule: Rule) -> Rule:
    """Returns the rule for operands that broadcast as in NumPy."""

    def guarded(op: Operation) -> Value | None:
        return rule(op) if op.is_static and not op.text("broadcast_dimensions") else None

    guarded.becomes = getattr(rule, "becomes", "")  # type: ignore[attr-defined]  # for the coverage table
    return guarded


_OWN: Final[Mapping[str, Rule]] = {
    "stablehlo.shift_left": _shift(False),
    "stablehlo.shift_right_arithmetic": lambda op: _shift(True)(op) if op.dtype[:1] != "u" else None,
    "stablehlo.shift_right_logical": shift_right_logical,
    "stablehlo.bitcast_convert": _bitcast,
}
RULES: Final[Mapping[str, Rule]] = {
    **_OWN,
    **{f"chlo.broadcast_{name}": _broadcasting({**POINTWISE, **_OWN}[f"stablehlo.{name}"]) for name in _BROADCASTING},
}
"""The rule of each op."""
