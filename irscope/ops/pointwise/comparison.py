"""Pointwise predicates, logic and selection: comparisons, bitwise ops, limits, masks, replacements for NaN and infinities."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from irscope.ops.expr import PRIMITIVES, Expr, call, lift, require_known, where
from irscope.ops.expr.elementwise import elementwise
from irscope.ops.op import Op
from irscope.ops.type_rules import NUMBER_STRENGTH, is_integral

Array = np.ndarray[Any, Any]


def _comparison(name: str, also: str = "") -> tuple[Op, ...]:
    return elementwise(
        f"aten::{name}.Tensor",
        f"aten::{name}.Scalar",
        numpy=getattr(np, PRIMITIVES[name].numpy),
        expr=lambda a, b: call(name, a, b),
        kind="bool",
        also=also,
        rounds=True,
    )


def _logical(name: str) -> tuple[Op, ...]:
    numpy = getattr(np, f"logical_{name}")
    return elementwise(f"aten::logical_{name}", numpy=numpy, expr=lambda a, b: call(name, a, b), kind="logical")


def _bits(name: str, short: str, number: str, symbol: str, numpy: Any) -> tuple[Op, ...]:
    """Define an op on bits under two names, `torch.bitwise_and` and Python's `&`, which has no overload with the number first."""
    rule: dict[str, Any] = {"numpy": numpy, "expr": lambda a, b: call(symbol, a, b)}
    return (
        *elementwise(f"aten::bitwise_{name}.Tensor", f"aten::bitwise_{name}.{number}", f"aten::bitwise_{name}.Scalar_Tensor", **rule),
        *elementwise(f"aten::__{short}__.Tensor", f"aten::__{short}__.Scalar", **rule, in_place=False),
        *elementwise(f"aten::__i{short}__.Tensor", f"aten::__i{short}__.Scalar", **rule, written=True),
    )


def _shifted(numpy: Any) -> Callable[[Array, Array], Array]:
    def run(a: Array, b: Array) -> Array:
        if a.dtype == bool:  # NumPy would give int8
            raise TypeError("torch does not shift bools")
        return np.asarray(numpy(a, b))

    return run


def _question(name: str, numpy: Any, expr: Any) -> tuple[Op, ...]:
    return elementwise(f"aten::{name}", numpy=numpy, expr=expr, kind="bool", operands="self", in_place=False)


def _never(x: Expr) -> Expr:
    return call("ne", x, x)


_COMPARISONS: Final = (
    *_comparison("eq"),
    *(op for name in ("ne", "lt", "le", "gt", "ge") for op in _comparison(name, also=PRIMITIVES[name].numpy)),
    *(op for name in ("and", "or", "xor") for op in _logical(name)),
    *elementwise("aten::logical_not", numpy=np.logical_not, expr=lambda x: ~x, kind="logical", operands="self"),
    *(op for name in ("and", "or", "xor") for op in _bits(name, name, "Scalar", name, getattr(np, f"bitwise_{name}"))),
    *_bits("left_shift", "lshift", "Tensor_Scalar", "shl", _shifted(np.left_shift)),
    *_bits("right_shift", "rshift", "Tensor_Scalar", "shr", _shifted(np.right_shift)),
    *elementwise("aten::bitwise_not", numpy=np.invert, expr=lambda x: ~x, operands="self"),
    *_question("isnan", np.isnan, lambda x: _never(x) if is_integral(x.dtype) else call("isnan", x)),
    *_question("isinf", np.isinf, lambda x: _never(x) if is_integral(x.dtype) else call("eq", call("abs", x), float("inf"))),
    *_question("isfinite", np.isfinite, lambda x: ~_never(x) if is_integral(x.dtype) else call("lt", call("abs", x), float("inf"))),
)


# Pointwise selection: the smaller or larger of two, limits, masks, and replacements for NaN and infinities.

_LARGEST: Final = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


def larger(a: Expr, b: Expr | float) -> Expr:
    """Return the larger of two, NaN if either is."""
    return a | b if a.dtype == "bool" and isinstance(b, Expr) else call("maximum", a, b)


def smaller(a: Expr, b: Expr | float) -> Expr:
    """Return the smaller of two, NaN if either is."""
    return a & b if a.dtype == "bool" and isinstance(b, Expr) else call("minimum", a, b)


def at_least(x: Expr, low: Expr | float) -> Expr:
    """Return `x`, or the limit if `x` is below it. A limit of zero keeps an `x` of -0.0 if it is a number, not if it is a tensor."""
    return larger(x, low) if _is_tensor(low) else larger(lift(low, x.dtype), x)


def at_most(x: Expr, high: Expr | float) -> Expr:
    """Return `x`, or the limit if `x` is above it. A limit of -0.0 keeps an `x` of 0.0 if it is a number, not if it is a tensor."""
    return smaller(x, high) if _is_tensor(high) else smaller(lift(high, x.dtype), x)


def _is_tensor(limit: Expr | float) -> bool:
    return isinstance(limit, Expr) and limit.strength > NUMBER_STRENGTH


def limited(x: Expr, low: Expr | float | None, high: Expr | float | None) -> Expr:
    """Return `x` within limits; where they cross, the upper one wins."""
    x = x if low is None else at_least(x, low)
    return x if high is None else at_most(x, high)


def _np_limited(x: Array, low: Any = None, high: Any = None) -> Array:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _np_nan_to_num(x: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Array:
    if not np.issubdtype(x.dtype, np.floating):
        return x
    limits = np.finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    x = np.where(np.isnan(x), 0.0 if nan is None else nan, x).astype(x.dtype)
    return np.where(x == np.inf, high, np.where(x == -np.inf, low, x))


def _nan_to_num(x: Expr, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Expr:
    if is_integral(x.dtype):
        return x
    infinity = float("inf")
    largest = _LARGEST[x.args[0].dtype if x.op == "cast" else x.dtype]
    high = largest if require_known(posinf, "posinf") is None else posinf
    low = -largest if require_known(neginf, "neginf") is None else neginf
    kept = where(call("eq", x, infinity), high, where(call("eq", x, -infinity), low, x))
    return where(call("isnan", x), 0.0 if require_known(nan, "nan") is None else nan, kept)


def _ignoring_nan(a: Expr, b: Expr, choice: Any) -> Expr:
    """Return the choice of two, ignoring a NaN unless both are, and the first of two zeros."""
    if is_integral(a.dtype):
        return choice(a, b)  # type: ignore[no-any-return]
    return where(call("isnan", a), b, where(call("isnan", b), a, choice(b, a)))


def _one_limit(name: str, limit: str, numpy: Any, expr: Any) -> tuple[Op, ...]:
    return elementwise(f"aten::{name}", f"aten::{name}.Tensor", numpy=numpy, expr=expr, operands=f"self {limit}", layout="numbers-aside")


def _two(name: str, numpy: Any, expr: Any) -> tuple[Op, ...]:
    return elementwise(f"aten::{name}", numpy=numpy, expr=expr, in_place=False)


_SELECTIONS: Final = (
    *(op for name in ("maximum", "max.other") for op in _two(name, np.maximum, larger)),
    *(op for name in ("minimum", "min.other") for op in _two(name, np.minimum, smaller)),
    *_two("fmax", np.fmax, lambda a, b: _ignoring_nan(a, b, larger)),
    *_two("fmin", np.fmin, lambda a, b: _ignoring_nan(a, b, smaller)),
    *elementwise(
        "aten::clamp", "aten::clamp.Tensor", numpy=_np_limited, expr=limited, operands="self min max", also="clip", layout="numbers-aside"
    ),
    *_one_limit("clamp_min", "min", np.maximum, at_least),
    *_one_limit("clamp_max", "max", np.minimum, at_most),
    *elementwise(
        "aten::where.self",
        "aten::where.ScalarSelf",
        "aten::where.ScalarOther",
        "aten::where.Scalar",
        numpy=np.where,
        expr=where,
        operands="?condition self other",
    ),
    *elementwise(
        "aten::masked_fill.Scalar",
        "aten::masked_fill.Tensor",
        numpy=lambda x, mask, value: np.where(mask, value, x),
        expr=lambda x, mask, value: where(mask, value, x),
        operands="self ?mask =value",
        layout="rows",
    ),
    *elementwise("aten::nan_to_num", numpy=_np_nan_to_num, expr=_nan_to_num, operands="self", kind="exact", layout="like-first"),
)

OPS: Final = (*_COMPARISONS, *_SELECTIONS)
