"""Pointwise predicates and logic: comparisons, logical and bitwise ops, and tests for NaN, infinite and finite numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from irscope.ops.expr import Expr, call
from irscope.ops.expr.elementwise import elementwise
from irscope.ops.schema import Op
from irscope.ops.typing import is_integral

__all__ = ["OPS"]

Array = np.ndarray[Any, Any]


def _comparison(name: str, symbol: str, numpy: Any, *, also: str) -> tuple[Op, ...]:
    return elementwise(
        f"aten::{name}.Tensor(Tensor self, Tensor other) -> Tensor",
        f"aten::{name}.Scalar(Tensor self, Scalar other) -> Tensor",
        numpy=numpy,
        expr=lambda a, b: call(symbol, a, b),
        kind="bool",
        also=also,
        rounds=True,
    )


def _logical(name: str, symbol: str, numpy: Any) -> tuple[Op, ...]:
    return elementwise(
        f"aten::logical_{name}(Tensor self, Tensor other) -> Tensor",
        numpy=numpy,
        expr=lambda a, b: call(symbol, a, b),
        kind="logical",
    )


def _whole(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: call(op, a, b)


def _bitwise(name: str, numpy: Any) -> tuple[Op, ...]:
    """Define a bitwise op under two names: `torch.bitwise_and` and Python's `&`, which has no overload with the number first."""
    return (
        *elementwise(
            f"aten::bitwise_{name}.Tensor(Tensor self, Tensor other) -> Tensor",
            f"aten::bitwise_{name}.Scalar(Tensor self, Scalar other) -> Tensor",
            f"aten::bitwise_{name}.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
            numpy=numpy,
            expr=_whole(name),
        ),
        *elementwise(
            f"aten::__{name}__.Tensor(Tensor self, Tensor other) -> Tensor",
            f"aten::__{name}__.Scalar(Tensor self, Scalar other) -> Tensor",
            numpy=numpy,
            expr=_whole(name),
            in_place=False,
        ),
        *elementwise(
            f"aten::__i{name}__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
            f"aten::__i{name}__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
            numpy=numpy,
            expr=_whole(name),
            written=True,
        ),
    )


def _shift(name: str, symbol: str, numpy: Any) -> tuple[Op, ...]:
    """Define a shift under two names: `torch.bitwise_left_shift` and Python's `<<`."""
    rule: dict[str, Any] = {"numpy": _shifted(numpy), "expr": _whole(symbol)}
    return (
        *elementwise(
            f"aten::bitwise_{name}_shift.Tensor(Tensor self, Tensor other) -> Tensor",
            f"aten::bitwise_{name}_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor",
            f"aten::bitwise_{name}_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
            **rule,
        ),
        *elementwise(
            f"aten::__{name[0]}shift__.Tensor(Tensor self, Tensor other) -> Tensor",
            f"aten::__{name[0]}shift__.Scalar(Tensor self, Scalar other) -> Tensor",
            **rule,
            in_place=False,
        ),
        *elementwise(
            f"aten::__i{name[0]}shift__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
            f"aten::__i{name[0]}shift__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
            **rule,
            written=True,
        ),
    )


def _shifted(numpy: Any) -> Callable[[Array, Array], Array]:
    def run(a: Array, b: Array) -> Array:
        if a.dtype == bool:  # NumPy would give int8
            raise TypeError("torch does not shift bools")
        return np.asarray(numpy(a, b))

    return run


def _question(name: str, numpy: Any, expr: Any) -> tuple[Op, ...]:
    return elementwise(
        f"aten::{name}(Tensor self) -> Tensor", numpy=numpy, expr=expr, kind="bool", operands="self", in_place=False
    )


def _never(x: Expr) -> Expr:
    return call("ne", x, x)


def _is_infinite(x: Expr) -> Expr:
    return _never(x) if is_integral(x.dtype) else call("eq", call("abs", x), float("inf"))


def _is_finite(x: Expr) -> Expr:
    return ~_never(x) if is_integral(x.dtype) else call("lt", call("abs", x), float("inf"))


OPS: Final = (
    *_comparison("eq", "eq", np.equal, also=""),
    *_comparison("ne", "ne", np.not_equal, also="not_equal"),
    *_comparison("lt", "lt", np.less, also="less"),
    *_comparison("le", "le", np.less_equal, also="less_equal"),
    *_comparison("gt", "gt", np.greater, also="greater"),
    *_comparison("ge", "ge", np.greater_equal, also="greater_equal"),
    *_logical("and", "and", np.logical_and),
    *_logical("or", "or", np.logical_or),
    *_logical("xor", "xor", np.logical_xor),
    *elementwise(
        "aten::logical_not(Tensor self) -> Tensor",
        numpy=np.logical_not,
        expr=lambda x: ~x,
        kind="logical",
        operands="self",
    ),
    *_bitwise("and", np.bitwise_and),
    *_bitwise("or", np.bitwise_or),
    *_bitwise("xor", np.bitwise_xor),
    *_shift("left", "shl", np.left_shift),
    *_shift("right", "shr", np.right_shift),
    *elementwise("aten::bitwise_not(Tensor self) -> Tensor", numpy=np.invert, expr=lambda x: ~x, operands="self"),
    *_question("isnan", np.isnan, lambda x: _never(x) if is_integral(x.dtype) else call("isnan", x)),
    *_question("isinf", np.isinf, _is_infinite),
    *_question("isfinite", np.isfinite, _is_finite),
)
