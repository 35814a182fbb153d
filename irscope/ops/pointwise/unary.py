"""Pointwise functions of one number: signs, rounding, exponentials, logarithms, trigonometric functions, conversions of element types."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from irscope.ir import TensorType
from irscope.ops.expr import (
    Expr,
    Kind,
    NoExpression,
    call,
    const,
    conversion,
    digamma,
    erf,
    erfc,
    erfinv,
    lgamma,
    require_known,
    result_type,
    round_to,
    sigmoid,
)
from irscope.ops.expr.elementwise import elementwise
from irscope.ops.op import Op, define
from irscope.ops.type_rules import Unknown, dtype_name, is_integral

Array = np.ndarray[Any, Any]


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


def _np_nextafter(x: Array, towards: Array) -> Array:
    return np.where(x == towards, towards, np.nextafter(x, towards))


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


def _unary(name: str, numpy: Any, expr: Any, *, kind: Kind = "float", also: str = "") -> tuple[Op, ...]:
    return elementwise(f"aten::{name}(Tensor self) -> Tensor", numpy=numpy, expr=expr, kind=kind, operands="self", also=also)


def _primitive(op: str) -> Any:
    return lambda x: call(op, x)


_LN10_INVERSE: Final = 0.4342944819032518

_ROOTS: Final = (
    *_unary("sqrt", np.sqrt, _primitive("sqrt")),
    *_unary("rsqrt", lambda x: 1 / np.sqrt(x), _primitive("rsqrt")),
    *_unary("reciprocal", lambda x: 1 / x, _primitive("reciprocal")),
)

_SIGNS: Final = (
    *_unary("neg", np.negative, _primitive("neg"), kind="same", also="negative"),
    *_unary("abs", np.abs, lambda x: x if x.dtype in ("bool", "uint8") else call("abs", x), kind="magnitude", also="absolute"),
    *_unary("sign", _np_sign, _sign, kind="same"),
    *_unary("sgn", _np_sgn, _sign, kind="same"),
    *_unary("floor", np.floor, _rounded("floor"), kind="same"),
    *_unary("ceil", np.ceil, _rounded("ceil"), kind="same"),
    *_unary("trunc", np.trunc, _rounded("trunc"), kind="same", also="fix"),
    *_unary("frac", lambda x: x - np.trunc(x), lambda x: x - call("trunc", x), kind="same"),
    *elementwise(
        "aten::round(Tensor self) -> Tensor",
        "aten::round.decimals(Tensor self, *, int decimals) -> Tensor",
        numpy=_np_round,
        expr=_rounded("round"),
        operands="self",
    ),
)

_FUNCTIONS: Final = (
    *_unary("exp", np.exp, _primitive("exp")),
    *_unary("exp2", np.exp2, lambda x: call("pow", const(2.0, x.dtype), x)),
    *_unary("expm1", np.expm1, _primitive("expm1")),
    *_unary("log", np.log, _primitive("log")),
    *_unary("log1p", np.log1p, _primitive("log1p")),
    *_unary("log2", np.log2, _primitive("log2")),
    *_unary("log10", np.log10, lambda x: call("log", x) * _LN10_INVERSE),
    *_unary("sin", np.sin, _primitive("sin")),
    *_unary("cos", np.cos, _primitive("cos")),
    *_unary("tan", np.tan, _primitive("tan")),
    *_unary("tanh", np.tanh, _primitive("tanh")),
    *_unary("sigmoid", sigmoid, _primitive("sigmoid")),
    *_unary("erf", erf, _primitive("erf")),
    *_unary("erfc", erfc, None),
    *_unary("erfinv", erfinv, None),
    *_unary("lgamma", lgamma, None),
    *_unary("digamma", digamma, None),
    *_unary("asin", np.arcsin, None, also="arcsin"),
    *_unary("acos", np.arccos, None, also="arccos"),
    *_unary("atan", np.arctan, None, also="arctan"),
    *_unary("sinh", np.sinh, None),
    *_unary("cosh", np.cosh, None),
    *_unary("asinh", np.arcsinh, None, also="arcsinh"),
    *_unary("acosh", np.arccosh, None, also="arccosh"),
    *_unary("atanh", np.arctanh, None, also="arctanh"),
    *elementwise("aten::atan2(Tensor self, Tensor other) -> Tensor", numpy=np.arctan2, kind="float", also="arctan2"),
    *elementwise("aten::nextafter(Tensor self, Tensor other) -> Tensor", numpy=_np_nextafter, kind="exact"),
    *elementwise("aten::hypot(Tensor self, Tensor other) -> Tensor", numpy=np.hypot),
)


# Conversions of element types as expressions; `irscope.ops.data.copies` declares the ops, which also move memory.


def _converted_type(a: TensorType, dtype: Any) -> TensorType:
    return result_type(None if isinstance(dtype, Unknown) else dtype_name(dtype, a.dtype), [a])


def _converted(a: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return round_to(a, dtype_name(dtype, str(a.dtype)) or str(a.dtype))


_CASTS: Final[tuple[Op, ...]] = (
    define(
        "prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor",
        category="pointwise",
        type_rule=_converted_type,
        reference=_converted,
        expression=lambda a, dtype: conversion(a, dtype),
    ),
)

OPS: Final = (*_ROOTS, *_SIGNS, *_FUNCTIONS, *_CASTS)
