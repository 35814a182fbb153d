"""Rules of `arith` ops that read an integer's bits as an unsigned number, shift them, or reinterpret them as a float.

Torch's integers are signed. With the sign bit of both sides flipped, a signed comparison orders as an unsigned one;
quotients and conversions are computed in a wider type, so those of 64 bits are kept. Shifts by the width or more and
divisions by zero have no defined value in MLIR, so any result is correct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from irscope.frontends.mlir.emit import Emitter, dtype_of, shape_of
from irscope.frontends.mlir.meaning.bits import RULES as BITS
from irscope.frontends.mlir.meaning.bits import shift_right_logical
from irscope.frontends.mlir.meaning.pointwise import FLOATS, divided, simple
from irscope.frontends.mlir.operation import Operation
from irscope.ir import INT, Value

__all__ = ["RULES", "compared", "index_of"]

Rule = Callable[[Operation], Value | None]

_SIGNED: Final = frozenset({"int8", "int16", "int32", "int64"})
_WORDS: Final = {"ult": "lt", "ule": "le", "ugt": "gt", "uge": "ge"}


def compared(op: Operation, word: str) -> Value | None:
    """Emits `ult`, `ule`, `ugt` or `uge` of two operands; None if their type is not supported."""
    dtype = dtype_of(op.operands[0])
    if dtype == "bool":
        sides = [op.e.cast(value, "int8") for value in op.operands]
    elif dtype in _SIGNED:
        sides = [_sign_flipped(op.e, value) for value in op.operands]
    else:
        return None
    return op.e.op(_WORDS[word], *sides, type=op.type)


def _sign_flipped(e: Emitter, value: Value) -> Value:
    """Flips the sign bit."""
    return e.like("bitwise_xor", value, int(np.iinfo(dtype_of(value)).min))


def _extreme(aten: str, of_bools: str) -> Rule:
    def rule(op: Operation) -> Value | None:
        if op.dtype == "bool":
            return op.e.op(of_bools, *op.operands, type=op.type)
        if op.dtype not in _SIGNED:
            return None
        return _sign_flipped(op.e, op.e.like(aten, *(_sign_flipped(op.e, value) for value in op.operands)))

    return rule


def _widened(e: Emitter, value: Value) -> Value | None:
    """Returns the unsigned number of an integer's bits as int64; None for 64 bits."""
    dtype = dtype_of(value)
    if dtype == "bool":
        return e.cast(value, "int64")
    if dtype not in _SIGNED or dtype == "int64":
        return None
    return e.like("bitwise_and", e.cast(value, "int64"), (1 << np.iinfo(dtype).bits) - 1)


def _converted(targets: frozenset[str]) -> Rule:
    """Returns the rule that converts an unsigned number to a wider type, or to a float."""

    def rule(op: Operation) -> Value | None:
        wide = _widened(op.e, op.operands[0]) if op.dtype in targets else None
        return None if wide is None else op.e.cast(wide, op.dtype)

    return rule


def index_of(op: Operation) -> Value | None:
    """An unsigned integer as an index."""
    wide = _widened(op.e, op.operands[0])
    if wide is None or (op.types[0] != INT and op.dtype != "int64"):
        return None
    return op.e.op("Int", wide, type=INT) if op.types[0] == INT and shape_of(wide) == () else wide


def _to_unsigned(op: Operation) -> Value | None:
    """A float as an unsigned number of up to 32 bits; out of range the result is undefined in MLIR."""
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
    "arith.shrui": shift_right_logical,
    "arith.bitcast": BITS["stablehlo.bitcast_convert"],
}
"""The rule of each op, if all operands are tensors and it has no flags."""
