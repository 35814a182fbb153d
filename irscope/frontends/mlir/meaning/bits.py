"""Rules of shifts, and of the bits of numbers as numbers of another type.

StableHLO shifts out all bits if the distance is the width or more; torch does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from irscope.frontends.mlir.emit import dtype_of
from irscope.frontends.mlir.meaning.pointwise import FLOATS, INTEGERS
from irscope.frontends.mlir.operation import Operation
from irscope.ir import TensorData, TensorType, Value

__all__ = ["RULES"]

Rule = Callable[[Operation], Value | None]


def _shift(right: bool) -> Rule:
    """Returns the rule of a shift; by a constant smaller than the width it is a product or a quotient with a power of
    two."""

    def rule(op: Operation) -> Value | None:
        known = op.e.elements(op.operands[1])
        if op.dtype not in INTEGERS:
            return None
        bits = np.iinfo(op.dtype).bits
        if known is None or known.size == 0 or not np.all((known >= 0) & (known < bits - right)):
            return _shifted(op, "__rshift__" if right else "__lshift__", bits)
        power = TensorData.of(np.left_shift(np.ones(known.shape, op.dtype), known.astype(op.dtype)))
        by = op.e.constant(power, TensorType(op.dtype, known.shape, None if known.shape else ()))
        return op.e.like("div", op.operands[0], by, "floor") if right else op.e.like("mul", op.operands[0], by)

    return rule


def _shifted(op: Operation, aten: str, bits: int) -> Value:
    """Emits a shift by a computed distance; for small unsigned numbers, which torch does not shift, in int64."""
    if op.dtype[0] != "u" or bits == 64:
        return op.e.aten(aten, *op.operands, type=op.type)
    wide = op.e.like(aten, *(op.e.cast(value, "int64") for value in op.operands))
    return op.e.cast(op.e.like("bitwise_and", wide, (1 << bits) - 1), op.dtype)


def _bitcast(op: Operation) -> Value | None:
    """The same bits as elements of another type of the same width."""
    source = dtype_of(op.operands[0])
    plain = (FLOATS | INTEGERS) - {"bfloat16"}
    if not {source, op.dtype} <= plain or np.dtype(source).itemsize != np.dtype(op.dtype).itemsize:
        return None
    return op.e.aten("view", op.operands[0], op.e.code(op.dtype), type=op.type)


def _shift_right_logical(op: Operation) -> Value | None:
    if op.dtype.startswith("u") and op.dtype in INTEGERS:
        return _shift(True)(op)
    known = op.e.elements(op.operands[1])
    if op.dtype not in INTEGERS or known is None or known.size == 0:
        return None
    by, bits = int(known.flat[0]), np.iinfo(op.dtype).bits
    if not np.all(known == by):
        return None
    if not 0 < by < bits:  # a negative distance is a large one
        return op.e.like("bitwise_and", op.operands[0], -1 if by == 0 else 0)
    shifted = _shift(True)(op)
    return op.e.aten("bitwise_and", shifted, (1 << (bits - by)) - 1, type=op.type)


RULES: Final[Mapping[str, Rule]] = {
    "stablehlo.shift_left": _shift(False),
    "stablehlo.shift_right_arithmetic": lambda op: _shift(True)(op) if op.dtype[:1] != "u" else None,
    "stablehlo.shift_right_logical": _shift_right_logical,
    "stablehlo.bitcast_convert": _bitcast,
}
"""The rule of each op."""
