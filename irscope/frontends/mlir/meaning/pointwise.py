"""Rules of elementwise ops of StableHLO and CHLO, and how some differ from torch's op of the same name.

Integer division by zero returns -1, with the dividend as remainder, in XLA, and stops a torch program: if the divisor
is not a constant, it is guarded. A float beyond the range of the integer type becomes the largest or smallest integer,
and NaN 0, where torch leaves that to the machine: the conversion is guarded, unless a clamp before it bounds the float.
`sign` keeps NaN and the sign of zero. `round_nearest_afz` rounds halves away from zero, torch to even. Comparisons by
total order are torch's if the program has reduced a float to one zero and one NaN before, as JAX does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from irscope.frontends.emit import CODES
from irscope.frontends.mlir.emit import Emitter, dtype_of
from irscope.frontends.mlir.meaning.bodies import has_one_zero_and_nan
from irscope.frontends.mlir.operation import Operation
from irscope.ir import Value

__all__ = ["FLOATS", "INTEGERS", "RULES", "divided", "is_float", "is_integer", "simple"]

FLOATS: Final = frozenset({"float16", "bfloat16", "float32", "float64"})
INTEGERS: Final = frozenset({f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)})
_COMPLEX: Final = frozenset({"complex64", "complex128"})
_NUMBERS: Final = FLOATS | INTEGERS | _COMPLEX
_BITS: Final = INTEGERS | {"bool"}

Rule = Callable[[Operation], Value | None]


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def is_integer(dtype: str) -> bool:
    return dtype in INTEGERS


def simple(aten: str, accepted: frozenset[str], *rest: Any) -> Rule:
    """Returns the rule of an op that is the same as one of torch's for these element types; `rest` are further
    arguments."""

    def rule(op: Operation) -> Value | None:
        if any(dtype_of(value) not in accepted for value in op.operands):
            return None
        return op.e.op(aten, *op.operands, *rest, type=op.type)

    rule.becomes = aten  # type: ignore[attr-defined]  # for the coverage table
    return rule


def _divide(op: Operation) -> Value | None:
    if is_integer(op.dtype):
        return divided(op, "div", "trunc")
    return op.e.op("div", *op.operands, type=op.type) if op.dtype in _NUMBERS else None


def _remainder(op: Operation) -> Value | None:
    if is_integer(op.dtype):
        return divided(op, "fmod")
    return op.e.op("fmod", *op.operands, type=op.type) if is_float(op.dtype) else None


def divided(op: Operation, aten: str, *rest: Any) -> Value:
    """Emits an integer quotient or remainder as in XLA: by 0 the result has all bits set, or is the dividend; the
    smallest number by -1 does not trap."""
    e, (a, b) = op.e, op.operands
    known = e.known.get(b)
    if known is not None and not np.any(known == 0) and not np.any(known == (-1 if known.dtype.kind == "i" else 0)):
        return e.op(aten, a, b, *rest, type=op.type)
    one = e.scalar(1, op.dtype)
    zero = e.like("eq", b, 0, dtype="bool")
    if op.dtype.startswith("u"):
        safe = e.like("where", zero, one, b, dtype=op.dtype)
        made = e.op(aten, a, safe, *rest, type=op.type)
    else:
        minus = e.like("eq", b, -1, dtype="bool")
        safe = e.like("where", e.like("bitwise_or", zero, minus), one, b, dtype=op.dtype)
        made = e.op(aten, a, safe, *rest, type=op.type)
        other = e.like("neg", a) if aten == "div" else e.like("mul", a, e.scalar(0, op.dtype))
        made = e.op("where", minus, other, made, type=op.type)
    all_bits = np.iinfo(op.dtype).max if op.dtype.startswith("u") else -1
    by_zero = e.scalar(all_bits, op.dtype) if aten == "div" else a
    return e.op("where", zero, by_zero, made, type=op.type)


def _abs(op: Operation) -> Value | None:
    (x,) = op.operands
    if dtype_of(x) not in _COMPLEX:
        return op.e.op("abs", x, type=op.type) if op.dtype in FLOATS | INTEGERS else None
    parts = (op.e.like("real", x, dtype=op.dtype), op.e.like("imag", x, dtype=op.dtype))
    return op.e.op("hypot", *parts, type=op.type)


def _sign(op: Operation) -> Value | None:
    (x,) = op.operands
    if op.dtype in INTEGERS:
        return op.e.like("sign", x)
    if not is_float(op.dtype):
        return None
    nonzero = op.e.like("gt", op.e.like("abs", x), 0, dtype="bool")
    return op.e.op("where", nonzero, op.e.like("sign", x), x, type=op.type)


def _round_away(op: Operation) -> Value | None:
    if not is_float(op.dtype):
        return None
    e, (x,) = op.e, op.operands
    whole = e.like("trunc", x)
    up = e.cast(e.like("ge", e.like("abs", e.like("sub", x, whole, 1)), 0.5, dtype="bool"), op.dtype)
    away = e.like("where", e.like("lt", x, 0, dtype="bool"), e.like("neg", up), up, dtype=op.dtype)
    rounded = e.like("add", whole, away, 1)
    return e.op("where", e.like("eq", x, whole, dtype="bool"), x, rounded, type=op.type)


def _cube_root(op: Operation) -> Value | None:
    if not is_float(op.dtype):
        return None
    e, (x,) = op.e, op.operands
    root = e.like("pow", e.like("abs", x), 1 / 3)
    signed = e.like("where", e.like("lt", x, 0, dtype="bool"), e.like("neg", root), root, dtype=op.dtype)
    return e.op("where", e.like("eq", x, 0, dtype="bool"), x, signed, type=op.type)


def _power(op: Operation) -> Value | None:
    if is_float(op.dtype):
        return op.e.op("pow", *op.operands, type=op.type)
    known = op.e.known.get(op.operands[1])
    if not is_integer(op.dtype) or known is None or np.any(known < 0):
        return None  # torch raises for negative powers of integers
    return op.e.op("pow", *op.operands, type=op.type)


_DIRECTIONS: Final = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


def _compare(op: Operation) -> Value | None:
    word = op.text("comparison_direction").rpartition(" ")[2].rstrip(">")
    dtype = dtype_of(op.operands[0])
    if dtype not in _NUMBERS | {"bool"}:
        return None
    if dtype in _COMPLEX and word not in ("EQ", "NE"):
        return _compare_pairs(op, word, *op.operands)
    if "TOTALORDER" in op.text("compare_type") and dtype not in _BITS:
        return _compare_in_total_order(op, word)
    return op.e.op(_DIRECTIONS[word], *op.operands, type=op.type)


def _compare_pairs(op: Operation, word: str, a: Value, b: Value) -> Value:
    """Compares complex numbers by their real parts, and where these are equal by their imaginary parts."""
    e, kind, part = op.e, op.of((), "bool").type, "float32" if dtype_of(a) == "complex64" else "float64"
    (x, u), (y, v) = ([e.like(name, side, dtype=part) for name in ("real", "imag")] for side in (a, b))
    first, second = e.op(_DIRECTIONS[word], x, y, type=kind), e.op(_DIRECTIONS[word], u, v, type=kind)
    return e.op("where", e.op("eq", x, y, type=kind), second, first, type=kind)


def _extreme(aten: str, word: str) -> Rule:
    """Returns the rule of a maximum or minimum; of complex numbers XLA compares the real parts only, StableHLO pairs."""
    plain = simple(aten, FLOATS | INTEGERS | {"bool"})

    def rule(op: Operation) -> Value | None:
        if op.dtype not in _COMPLEX:
            return plain(op)
        return op.e.op("where", _compare_pairs(op, word, *op.operands), *op.operands, type=op.type)

    rule.becomes = aten  # type: ignore[attr-defined]  # for the coverage table
    return rule


def _compare_in_total_order(op: Operation, word: str) -> Value | None:
    """Compares floats with one zero and one NaN, which comes last, as JAX prepares them; other floats by their bits."""
    if not all(has_one_zero_and_nan(operand) for operand in op.handle.operands):
        return _compare_by_bits(op, word)
    e, (a, b) = op.e, op.operands
    if word in ("GT", "GE"):
        a, b, word = b, a, {"GT": "LT", "GE": "LE"}[word]
    plain = e.like(_DIRECTIONS[word], a, b, dtype="bool")
    a_is_nan, b_is_nan = e.like("ne", a, a, dtype="bool"), e.like("ne", b, b, dtype="bool")
    if word == "LE":
        return e.op("bitwise_or", plain, b_is_nan, type=op.type)
    if word == "LT":
        last = e.like("bitwise_and", e.like("bitwise_not", a_is_nan), b_is_nan)
        return e.op("bitwise_or", plain, last, type=op.type)
    both = e.like("bitwise_and", a_is_nan, b_is_nan)
    if word == "EQ":
        return e.op("bitwise_or", plain, both, type=op.type)
    return e.op("bitwise_and", plain, e.like("bitwise_not", both), type=op.type)


def _compare_by_bits(op: Operation, word: str) -> Value | None:
    """Compares any floats in total order: as integers, with all bits but the sign flipped for negative floats."""
    integers = _SAME_WIDTH.get(dtype_of(op.operands[0]))
    if integers is None:
        return None
    e, limits = op.e, np.iinfo(integers)
    keys = []
    for operand in op.operands:
        bits = e.like("view", operand, CODES[integers], dtype=integers)
        signs = e.like("bitwise_and", e.like("__rshift__", bits, limits.bits - 1), int(limits.max))
        keys.append(e.like("bitwise_xor", bits, signs))
    return e.op(_DIRECTIONS[word], *keys, type=op.type)


_SAME_WIDTH: Final = {"float16": "int16", "float32": "int32", "float64": "int64"}
"""The integer type of a float's bits; torch cannot shift those of bfloat16."""


def _clamp(op: Operation) -> Value | None:
    low, x, high = op.operands
    if op.dtype not in FLOATS | INTEGERS:
        return None
    made = op.e.op("minimum", op.e.like("maximum", x, low), high, type=op.type)
    least, most = splat(op.e, low), splat(op.e, high)
    if least is not None and most is not None:
        op.e.bounds[made] = (float(min(least, most)), float(most))
    return made


def _select(op: Operation) -> Value | None:
    return op.e.op("where", *op.operands, type=op.type) if op.dtype in _NUMBERS | {"bool"} else None


def _convert(op: Operation) -> Value | None:
    source = dtype_of(op.operands[0])
    known = _NUMBERS | {"bool"}
    if source not in known or op.dtype not in known or (source in _COMPLEX and op.dtype not in _COMPLEX):
        return None
    if is_float(source) and is_integer(op.dtype):
        return _whole(op)
    return op.e.cast(op.operands[0], op.dtype)


_DIGITS: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""The significand bits of each float type."""


def _whole(op: Operation) -> Value:
    """Converts a float to an integer: out of range it is the largest or smallest of the type; NaN becomes 0."""
    e, (x,), limits = op.e, op.operands, np.iinfo(op.dtype)
    known, (low, high) = e.known.get(x), e.bounds.get(x, (-np.inf, np.inf))
    if known is not None and known.size and known.dtype.kind == "f" and np.all(np.isfinite(known)):
        low, high = float(known.min()), float(known.max())
    else:
        x = e.like("nan_to_num", x, 0.0, float("inf"), float("-inf"))
    end = int(limits.max) + 1
    if (low, high) != (-np.inf, np.inf) and low >= limits.min and high < end:
        return e.cast(x, op.dtype)
    if (end - 1).bit_length() <= _DIGITS[dtype_of(x)]:
        return e.cast(e.like("clamp", x, float(limits.min), float(limits.max)), op.dtype)
    largest, smallest = (e.scalar(limit, op.dtype) for limit in (limits.max, limits.min))
    made = e.like("where", e.like("ge", x, float(end), dtype="bool"), largest, e.cast(x, op.dtype), dtype=op.dtype)
    return e.like("where", e.like("lt", x, float(limits.min), dtype="bool"), smallest, made, dtype=op.dtype)


_PRECISIONS: Final = {(8, 7): "bfloat16", (5, 10): "float16", (8, 23): "float32", (11, 52): "float64"}


def _reduce_precision(op: Operation) -> Value | None:
    # with fewer bits for the exponent it is no conversion there and back: it makes what is too small for a normal number 0, and
    # a conversion of float64 rounds to float32 first
    bits = {name: exponent for (exponent, _), name in _PRECISIONS.items()}
    exponent = op.number("exponent_bits")
    wanted = _PRECISIONS.get((exponent, op.number("mantissa_bits")))
    if wanted is None or not is_float(op.dtype) or exponent < bits[op.dtype]:
        return None
    return op.e.cast(op.e.cast(op.operands[0], wanted), op.dtype)


def _digamma(op: Operation) -> Value | None:
    """Torch's digamma, but NaN at zero, as at all other poles."""
    if not is_float(op.dtype):
        return None
    e, (x,) = op.e, op.operands
    pole = e.scalar(float("nan"), op.dtype)
    return e.op("where", e.like("eq", x, 0, dtype="bool"), pole, e.like("digamma", x), type=op.type)


def _infinite(sign: int) -> Rule:
    def rule(op: Operation) -> Value | None:
        (x,) = op.operands
        if not is_float(dtype_of(x)):
            return None
        return op.e.op("eq", x, sign * float("inf"), type=op.type)

    return rule


def _add(op: Operation) -> Value | None:
    return op.e.op("add", *op.operands, 1, type=op.type) if op.dtype in _NUMBERS | {"bool"} else None


def _subtract(op: Operation) -> Value | None:
    return op.e.op("sub", *op.operands, 1, type=op.type) if op.dtype in _NUMBERS else None


def _functions(names: str, accepted: frozenset[str]) -> dict[str, Rule]:
    """Returns rules of functions of one or two operands, from `mlir=aten` words."""
    pairs = (word.partition("=") for word in names.split())
    return {name: simple(aten or name.partition(".")[2], accepted) for name, _, aten in pairs}


RULES: Final[Mapping[str, Rule]] = {
    **_functions(
        "stablehlo.ceil stablehlo.floor stablehlo.round_nearest_even=round stablehlo.is_finite=isfinite stablehlo.atan2 "
        "stablehlo.logistic=sigmoid chlo.erf chlo.erfc chlo.erf_inv=erfinv chlo.lgamma chlo.is_inf=isinf "
        "chlo.acos chlo.acosh chlo.asin chlo.asinh chlo.atan chlo.atanh chlo.cosh chlo.sinh chlo.tan",
        FLOATS,
    ),
    **_functions(
        "stablehlo.cosine=cos stablehlo.sine=sin stablehlo.tan stablehlo.tanh stablehlo.exponential=exp "
        "stablehlo.exponential_minus_one=expm1 stablehlo.log stablehlo.log_plus_one=log1p stablehlo.rsqrt stablehlo.sqrt",
        FLOATS | _COMPLEX,
    ),
    "stablehlo.abs": _abs,
    "stablehlo.negate": simple("neg", _NUMBERS),
    "stablehlo.sign": _sign,
    "stablehlo.cbrt": _cube_root,
    "stablehlo.round_nearest_afz": _round_away,
    "stablehlo.not": simple("bitwise_not", _BITS),
    "stablehlo.and": simple("bitwise_and", _BITS),
    "stablehlo.or": simple("bitwise_or", _BITS),
    "stablehlo.xor": simple("bitwise_xor", _BITS),
    "stablehlo.add": _add,
    "stablehlo.subtract": _subtract,
    "stablehlo.multiply": simple("mul", _NUMBERS | {"bool"}),
    "stablehlo.divide": _divide,
    "stablehlo.remainder": _remainder,
    "stablehlo.power": _power,
    "stablehlo.maximum": _extreme("maximum", "GT"),
    "stablehlo.minimum": _extreme("minimum", "LT"),
    "stablehlo.compare": _compare,
    "stablehlo.clamp": _clamp,
    "stablehlo.select": _select,
    "stablehlo.convert": _convert,
    "stablehlo.real": simple("real", _COMPLEX),
    "stablehlo.imag": simple("imag", _COMPLEX),
    "stablehlo.complex": simple("complex", frozenset({"float32", "float64"})),
    "chlo.next_after": simple("nextafter", frozenset({"float32", "float64"})),
    "stablehlo.reduce_precision": _reduce_precision,
    "chlo.digamma": _digamma,
    "chlo.square": lambda op: op.e.op("mul", op.operands[0], op.operands[0], type=op.type) if op.dtype in _NUMBERS else None,
    "chlo.is_pos_inf": _infinite(1),
    "chlo.is_neg_inf": _infinite(-1),
}  # fmt: skip
"""The rule of each op."""


def splat(e: Emitter, value: Value) -> float | int | bool | None:
    """Returns the one number that all elements of a value are known to have, else None."""
    known = e.known.get(value)
    if known is None or known.size == 0:
        return None
    first = known.reshape(-1)[0]
    return first.item() if np.all(known == first) else None
