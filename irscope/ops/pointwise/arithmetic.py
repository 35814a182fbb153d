"""Pointwise arithmetic: sums and products, quotients with their rounding modes, powers; and functions of one number: signs, rounding,
exponentials, logarithms, trigonometric functions, conversions of element types."""

from functools import partial
from math import inf
from typing import Any, Final

import numpy as np

from irscope.ops.expr import (
    ON_ARRAYS,
    Expr,
    Kind,
    NoExpression,
    call,
    const,
    conversion,
    digamma,
    erfc,
    erfinv,
    lgamma,
    remainder,
    require_float,
    require_known,
    result_type,
    round_to,
    where,
)
from irscope.ops.expr.elementwise import elementwise
from irscope.ops.op import Op, define
from irscope.ops.type_rules import NUMBER_STRENGTH, Unknown, dtype_name, is_integral

Array = np.ndarray[Any, Any]


def _plus(a: Expr, b: Expr) -> Expr:
    return a | b if a.dtype == "bool" else a + b


def _times(a: Expr, b: Expr | float) -> Expr:
    return a & b if a.dtype == "bool" and isinstance(b, Expr) else a * b


def _minus(a: Expr, b: Expr) -> Expr:
    if a.dtype == "bool":
        raise NoExpression("torch does not subtract bools")
    return a - b


def _scaled(b: Expr, alpha: Expr | float) -> Expr:
    if isinstance(alpha, Expr):
        return _times(b, alpha)
    return b if alpha == 1 else _times(b, const(alpha, b.dtype))


def _divisor(b: Expr) -> float:
    """Return the known divisor of an integer division; a machine traps on 0, and on the smallest integer divided by -1."""
    if b.op != "const" or b.value == 0:
        raise NoExpression("an integer is divided by a value that may be zero, which must raise")
    return float(b.value)


def _rest(op: str, a: Expr, b: Expr) -> Expr:
    return a * 0 if is_integral(a.dtype) and abs(_divisor(b)) == 1 else call(op, a, b)


def _floor_divide(a: Expr, b: Expr) -> Expr:
    if is_integral(a.dtype):
        return _whole_floor_divide(a, b)
    rest = call("fmod", a, b)
    quotient = (a - rest) / b
    crosses = call("ne", rest, 0.0) & (call("lt", b, 0.0) ^ call("lt", rest, 0.0))
    quotient = where(crosses, quotient - 1.0, quotient)
    down = call("floor", quotient)
    whole = where(quotient - down > 0.5, down + 1.0, down)
    plain = a / b
    return where(call("eq", b, 0.0), plain, where(call("eq", quotient, 0.0), plain * 0.0, whole))


def _whole_floor_divide(a: Expr, b: Expr) -> Expr:
    """Return the truncated quotient, less one where truncation rounded up; `a` minus its remainder need not fit into the type."""
    divisor = _divisor(b)
    if abs(divisor) == 1:
        return a * int(divisor)
    rest = call("fmod", a, b)
    return where(rest < 0 if divisor > 0 else rest > 0, a / b - 1, a / b)


def _div_kind(rounding_mode: Any = None) -> Kind | None:
    if isinstance(rounding_mode, Unknown):
        return None
    return "float" if rounding_mode is None else "same"


def _div(a: Expr, b: Expr, rounding_mode: Any = None) -> Expr:
    mode = require_known(rounding_mode, "the rounding mode")
    if mode == "floor":
        return _floor_divide(a, b)
    if is_integral(a.dtype):
        return -a if _divisor(b) == -1 else a / b
    return a / b if mode is None else call("trunc", a / b)


def _checked(a: Array, b: Array) -> None:
    if np.issubdtype(a.dtype, np.integer) and not np.all(b):
        raise ZeroDivisionError("an integer is divided by zero")


def _np_floor_divide(a: Array, b: Array) -> Array:
    _checked(a, b)
    if np.issubdtype(a.dtype, np.integer):
        return np.asarray(a // b)
    return np.where(b == 0, a / b, np.floor_divide(a, b))


def _np_div(a: Array, b: Array, rounding_mode: str | None = None) -> Array:
    if rounding_mode is None:
        return np.asarray(a / b)
    if rounding_mode == "floor":
        return _np_floor_divide(a, b)
    _checked(a, b)
    if np.issubdtype(a.dtype, np.integer):
        return (a - np.fmod(a, b)) // b
    return np.trunc(a / b)


def _np_rest(function: Any, a: Array, b: Array) -> Array:
    _checked(a, b)
    return np.asarray(function(a, b))


def _pow(base: Expr, exponent: Expr) -> Expr:
    if exponent.op != "const":
        require_float(base.dtype, "a power with an unknown exponent")
        if exponent.strength == NUMBER_STRENGTH:
            raise NoExpression("the exponent is known only at run time, and torch treats 0.5 and -0.5 apart from the others")
        return call("pow", base, exponent)
    power = exponent.value
    if is_integral(base.dtype) or power in (2.0, 3.0):
        return _whole_power(base, int(power))
    if abs(power) == 0.5 and base.op == "cast" and base.args[0].dtype == "float16":
        # Return C's power of 0.5 or -0.5, which differs from the root at -0 and -inf; torch uses it for float16 only.
        root = call("sqrt" if power > 0 else "rsqrt", base + 0.0)
        return where(call("eq", base, -inf), inf if power > 0 else 0.0, root)
    if power == -2.0:
        return 1.0 / (base * base)
    special = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    return call(special[power], base) if power in special else call("pow", base, exponent)


def _whole_power(base: Expr, power: int) -> Expr:
    """Compute a power by squaring, which wraps around as repeated multiplication does."""
    if power < 0:
        raise NoExpression("an integer to a negative power must raise")
    if power == 0:
        return base * 0 + 1
    result: Expr | None = None
    while power:
        if power & 1:
            result = base if result is None else result * base
        power >>= 1
        base = base * base if power else base
    assert result is not None
    return result


def _np_pow(base: Array, exponent: Array) -> Array:
    if base.dtype.kind == "c":
        return np.asarray(np.power(base, exponent))
    if np.issubdtype(base.dtype, np.integer):
        inverse = np.where(base == 1, 1, np.where(base == -1, 1 - 2 * (exponent & 1), 0))
        return np.where(exponent < 0, inverse, np.power(base, np.maximum(exponent, 0)))
    if base.dtype != np.float16 and exponent.ndim == 0 and float(exponent) in (0.5, -0.5):
        root = np.sqrt(base)
        return root if exponent > 0 else 1 / root
    return np.asarray(np.power(base, exponent))


def _sum(name: str, numpy: Any, expr: Any, **options: Any) -> tuple[Op, ...]:
    """Define a sum or difference of the first operand, or of the second, with the other times `alpha`."""
    return elementwise(f"aten::{name}.Tensor", f"aten::{name}.Scalar", numpy=numpy, expr=expr, rounds=True, **options)


def _np_scaled(b: Array, alpha: Any) -> Array:
    return b if alpha == 1 else b * np.asarray(alpha).astype(b.dtype)


_SUMS: Final = (
    *_sum("add", lambda a, b, alpha=1: a + _np_scaled(b, alpha), lambda a, b, alpha=1: _plus(a, _scaled(b, alpha))),
    *_sum("sub", lambda a, b, alpha=1: a - _np_scaled(b, alpha), lambda a, b, alpha=1: _minus(a, _scaled(b, alpha)), also="subtract"),
    *_sum(
        "rsub", lambda a, b, alpha=1: b - _np_scaled(a, alpha), lambda a, b, alpha=1: _minus(b, _scaled(a, alpha)),
        in_place=False, layout="reversed",
    ),
    *elementwise("aten::mul.Tensor", "aten::mul.Scalar", numpy=np.multiply, expr=_times, also="multiply"),
    *elementwise(
        "aten::addcmul",
        numpy=lambda a, b, c, value=1: a + (b * c if value == 1 else np.asarray(value).astype(a.dtype) * b * c),
        expr=lambda a, b, c, value=1: _plus(a, _times(_scaled(b, value), c)),
        operands="self tensor1 tensor2",
    ),
    *elementwise(
        "aten::addcdiv",
        numpy=lambda a, b, c, value=1: a + np.asarray(value).astype(a.dtype) * b / c,
        expr=lambda a, b, c, value=1: a + _scaled(b, value) / c,
        operands="self tensor1 tensor2",
    ),
    *elementwise(
        "aten::lerp.Scalar",
        "aten::lerp.Tensor",
        expr=lambda a, b, w: where(call("abs", w) < 0.5, a + w * (b - a), b - (b - a) * (1.0 - w)),
        operands="self end weight",
    ),
)  # fmt: skip

_QUOTIENTS: Final = (
    *elementwise(
        "aten::div.Tensor",
        "aten::div.Scalar",
        "aten::div.Tensor_mode",
        "aten::div.Scalar_mode",
        numpy=_np_div,
        expr=_div,
        kind=_div_kind,
        also="divide",
    ),
    *elementwise("aten::true_divide.Tensor", "aten::true_divide.Scalar", numpy=_np_div, expr=_div, kind="float"),
    *elementwise("aten::floor_divide", "aten::floor_divide.Scalar", numpy=_np_floor_divide, expr=_floor_divide, in_place=False),
    *elementwise("aten::floor_divide_.Tensor", "aten::floor_divide_.Scalar", numpy=_np_floor_divide, expr=_floor_divide, written=True),
    *elementwise(
        "aten::remainder.Tensor",
        "aten::remainder.Scalar",
        numpy=partial(_np_rest, remainder),
        expr=partial(_rest, "remainder"),
        rounds=True,
    ),
    *elementwise(
        "aten::remainder.Scalar_Tensor", numpy=partial(_np_rest, remainder), expr=partial(_rest, "remainder"), in_place=False, rounds=True
    ),
    *elementwise("aten::fmod.Tensor", "aten::fmod.Scalar", numpy=partial(_np_rest, np.fmod), expr=partial(_rest, "fmod"), rounds=True),
)

_POWER: Final[dict[str, Any]] = {"kind": "exact", "numpy": _np_pow, "expr": _pow, "operands": "self exponent", "rounds": True}

_POWERS: Final = (
    *elementwise("aten::pow.Tensor_Tensor", "aten::pow.Tensor_Scalar", **_POWER, in_place=False, layout="numbers-aside"),
    *elementwise("aten::pow.Scalar", **_POWER, in_place=False, layout="rows"),
    *elementwise("aten::pow_.Scalar", "aten::pow_.Tensor", **_POWER, written=True),
    *elementwise("aten::square", operands="self", kind="number", numpy=np.square, expr=lambda x: x * x),
)

# Functions of one number.


def _sign(x: Expr) -> Expr:
    return x if x.dtype == "bool" else call("sign", x)


def _np_sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        raise TypeError("complex numbers have no sign; sgn gives the number of size 1 in their direction")
    return x if x.dtype == np.bool_ else (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def _np_sgn(x: Array) -> Array:
    if x.dtype.kind != "c":
        return _np_sign(x)
    size = np.hypot(x.real, x.imag)
    made = np.zeros_like(x)
    for part, own in ((made.real, x.real), (made.imag, x.imag)):
        np.divide(own, size, out=part, where=size != 0)
    return made


def _rounded(op: str) -> Any:
    def expr(x: Expr, decimals: Any = 0) -> Expr:
        if require_known(decimals, "the number of decimals") != 0:
            raise NoExpression("rounding to decimals")
        if x.dtype == "bool":
            raise NoExpression(f"torch has no {op} of bools")
        return x if is_integral(x.dtype) else call(op, x)

    return expr


def _np_round(x: Array, decimals: int = 0) -> Array:
    if decimals == 0 or np.issubdtype(x.dtype, np.integer):
        return np.round(x)
    scale = x.dtype.type(10.0 ** abs(decimals))
    return np.asarray(np.round(x * scale) / scale if decimals > 0 else np.round(x / scale) * scale)


def _unary(name: str, numpy: Any, expr: Any = None, *, kind: Kind = "float", also: str = "") -> tuple[Op, ...]:
    return elementwise(f"aten::{name}", numpy=numpy, expr=expr, kind=kind, operands="self", also=also)


def _primitive(op: str) -> Any:
    return lambda x: call(op, x)


_LN10_INVERSE: Final = 0.4342944819032518

_SIGNS: Final = (
    *_unary("neg", np.negative, _primitive("neg"), kind="same", also="negative"),
    *_unary("abs", np.abs, lambda x: x if x.dtype in ("bool", "uint8") else call("abs", x), kind="magnitude", also="absolute"),
    *_unary("sign", _np_sign, _sign, kind="same"),
    *_unary("sgn", _np_sgn, _sign, kind="same"),
    *_unary("floor", np.floor, _rounded("floor"), kind="same"),
    *_unary("ceil", np.ceil, _rounded("ceil"), kind="same"),
    *_unary("trunc", np.trunc, _rounded("trunc"), kind="same", also="fix"),
    *_unary("frac", lambda x: x - np.trunc(x), lambda x: x - call("trunc", x), kind="same"),
    *elementwise("aten::round", "aten::round.decimals", numpy=_np_round, expr=_rounded("round"), operands="self"),
)

_PRIMITIVES: Final = "sqrt rsqrt reciprocal exp expm1 log log1p log2 sin cos tan tanh sigmoid erf".split()
"""Functions that are a step of an expression, computed by the same function of NumPy's."""

_FUNCTIONS: Final = (
    *(op for name in _PRIMITIVES for op in _unary(name, ON_ARRAYS[name], _primitive(name))),
    *_unary("exp2", np.exp2, lambda x: call("pow", const(2.0, x.dtype), x)),
    *_unary("log10", np.log10, lambda x: call("log", x) * _LN10_INVERSE),
    *(op for name, numpy in (("erfc", erfc), ("erfinv", erfinv), ("lgamma", lgamma), ("digamma", digamma)) for op in _unary(name, numpy)),
    *(op for name in ("sinh", "cosh") for op in _unary(name, getattr(np, name))),
    *(op for name in "sin cos tan sinh cosh tanh".split() for op in _unary(f"a{name}", getattr(np, f"arc{name}"), also=f"arc{name}")),
    *elementwise("aten::atan2", numpy=np.arctan2, kind="float", also="arctan2"),
    *elementwise("aten::nextafter", numpy=lambda x, towards: np.where(x == towards, towards, np.nextafter(x, towards)), kind="exact"),
    *elementwise("aten::hypot", numpy=np.hypot),
)


# Conversions of element types as expressions; `irscope.ops.data.copies` declares the ops, which also move memory.


def _converted(a: Array, dtype: Any) -> Array:
    with np.errstate(all="ignore"):
        return round_to(a, dtype_name(dtype, str(a.dtype)) or str(a.dtype))


_CAST: Final = define(
    "prims::convert_element_type",
    category="pointwise",
    type_rule=lambda a, dtype: result_type(None if isinstance(dtype, Unknown) else dtype_name(dtype, a.dtype), [a]),
    reference=_converted,
    expression=lambda a, dtype: conversion(a, dtype),
)

OPS: Final = (*_SUMS, *_QUOTIENTS, *_POWERS, *_SIGNS, *_FUNCTIONS, _CAST)
