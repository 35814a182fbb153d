"""`arith` where it reads the bits of an integer as a number without sign, shifts them, or takes them for a float's.

Torch's integers have a sign. Turning over the sign bit of both sides makes the order of signed numbers that of unsigned ones;
quotients, widened and converted numbers are those of a wider type, so of 64 bits there are none. Shifts by the width or more
and divisions by zero have no value in MLIR, and any will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from irscope.frontends.mlir.emit import Emitter, dtype_of, shape_of
from irscope.frontends.mlir.meaning.bits import RULES as BITS
from irscope.frontends.mlir.meaning.pointwise import FLOATS, divided, simple
from irscope.frontends.mlir.operation import Operation
from irscope.ir import INT, Value

__all__ = ["RULES", "compared", "index_of"]

Rule = Callable[[Operation], Value | None]

_SIGNED: Final = frozenset({"int8", "int16", "int32", "int64"})
_WORDS: Final = {"ult": "lt", "ule": "le", "ugt": "gt", "uge": "ge"}


def compared(op: Operation, word: str) -> Value | None:
    """`ult`, `ule`, `ugt` or `uge` of two operands; None where their type has no order here."""
    dtype = dtype_of(op.operands[0])
    if dtype == "bool":
        sides = [op.e.cast(value, "int8") for value in op.operands]
    elif dtype in _SIGNED:
        sides = [_turned(op.e, value) for value in op.operands]
    else:
        return None
    return op.e.aten(_WORDS[word], *sides, type=op.type)


def _turned(e: Emitter, value: Value) -> Value:
    """The bits with the sign turned over."""
    return e.like("bitwise_xor", value, int(np.iinfo(dtype_of(value)).min))


def _extreme(aten: str, of_bools: str) -> Rule:
    def rule(op: Operation) -> Value | None:
        if op.dtype == "bool":
            return op.e.aten(of_bools, *op.operands, type=op.type)
        if op.dtype not in _SIGNED:
            return None
        return _turned(op.e, op.e.like(aten, *(_turned(op.e, value) for value in op.operands)))

    return rule


def _widened(e: Emitter, value: Value) -> Value | None:
    """The number that the bits are without a sign, as int64; None of 64 bits."""
    dtype = dtype_of(value)
    if dtype == "bool":
        return e.cast(value, "int64")
    if dtype not in _SIGNED or dtype == "int64":
        return None
    return e.like("bitwise_and", e.cast(value, "int64"), (1 << np.iinfo(dtype).bits) - 1)


def _converted(targets: frozenset[str]) -> Rule:
    """A number without sign as one of a wider type, or a float."""

    def rule(op: Operation) -> Value | None:
        wide = _widened(op.e, op.operands[0]) if op.dtype in targets else None
        return None if wide is None else op.e.cast(wide, op.dtype)

    return rule


def index_of(op: Operation) -> Value | None:
    """`arith.index_castui` of an integer."""
    wide = _widened(op.e, op.operands[0])
    if wide is None or (op.types[0] != INT and op.dtype != "int64"):
        return None
    return op.e.aten("Int", wide, type=INT) if op.types[0] == INT and shape_of(wide) == () else wide


def _to_unsigned(op: Operation) -> Value | None:
    """A float as a number without sign, of up to 32 bits: what the type does not hold has no value."""
    if dtype_of(op.operands[0]) not in FLOATS or op.dtype not in _SIGNED - {"int64"}:
        return None
    return op.e.cast(op.e.cast(op.operands[0], "int64"), op.dtype)


def _quotient(aten: str, *rest: Any) -> Rule:
    def rule(op: Operation) -> Value | None:
        sides = [_widened(op.e, value) for value in op.operands]
        if op.dtype not in _SIGNED or None in sides:
            return None
        return op.e.cast(divided(op.of([side for side in sides if side is not None], "int64"), aten, *rest), op.dtype)

    return rule


def _shift_without_sign(op: Operation) -> Value | None:
    """A shift to the right, less the copies of the sign that come in from the left."""
    if op.dtype not in _SIGNED:
        return None
    e, (x, by), top = op.e, op.operands, np.iinfo(op.dtype).bits - 1
    ones = e.like("sub", e.like("mul", by, 0), 1, 1)
    kept = e.like("__lshift__", ones, e.like("sub", e.scalar(top, op.dtype), by, 1))
    mask = e.like("bitwise_not", e.like("__lshift__", kept, 1))
    return e.aten("bitwise_and", e.aten("__rshift__", x, by, type=op.type), mask, type=op.type)


RULES: Final[Mapping[str, Rule]] = {
    "arith.maxui": _extreme("maximum", "bitwise_or"),
    "arith.minui": _extreme("minimum", "bitwise_and"),
    "arith.extui": _converted(_SIGNED),
    "arith.uitofp": _converted(FLOATS),
    "arith.fptoui": _to_unsigned,
    "arith.divui": _quotient("div", "trunc"),
    "arith.remui": _quotient("fmod"),
    "arith.shli": simple("__lshift__", _SIGNED),
    "arith.shrsi": simple("__rshift__", _SIGNED),
    "arith.shrui": _shift_without_sign,
    "arith.bitcast": BITS["stablehlo.bitcast_convert"],
}
"""What each op becomes, where all operands are tensors without flags."""
