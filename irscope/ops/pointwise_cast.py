"""Conversions of element types as expressions; `irscope.ops.data.copies` declares the ops, which also move memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from irscope._base.restored import quietly
from irscope.ir import TensorType
from irscope.ops.expr import Expr, NoExpression, cast, require_known, result_type, round_to
from irscope.ops.schema import Op
from irscope.ops.schema.define import define
from irscope.ops.typing import Unknown, dtype_name

__all__ = ["OPS", "conversion"]


def conversion(self: Expr, dtype: Any = None, other: Expr | None = None, device: Any = None, **rest: Any) -> Expr:
    """One element of `to`, `type_as` and their like; where it lies, `irscope.ops.data.copies` tells."""
    if device is not None:
        raise NoExpression("the elements may move to another device")
    target = other.dtype if other is not None else dtype_name(require_known(dtype, "the element type"), self.dtype)
    if (
        target is None
        or target.startswith(("complex", "float8", "q"))
        or self.dtype.startswith(("complex", "float8", "q"))
    ):
        raise NoExpression(f"kernels do not convert {self.dtype} to {target}")
    return cast(self, target)


def _converted_type(a: TensorType, dtype: Any) -> TensorType:
    return result_type(None if isinstance(dtype, Unknown) else dtype_name(dtype, a.dtype), [a])


def _converted(a: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    return quietly(round_to, a, dtype_name(dtype, str(a.dtype)) or str(a.dtype))


OPS: Final[tuple[Op, ...]] = (
    define(
        "prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor",
        category="pointwise",
        type_rule=_converted_type,
        reference=_converted,
        expression=lambda a, dtype: conversion(a, dtype),
    ),
)
