"""Conversions of element types as expressions; `irscope.ops.data.copies` declares the ops, which also move memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from irscope.ir import TensorType
from irscope.ops.expr import conversion, result_type, round_to
from irscope.ops.schema import Op
from irscope.ops.schema.define import define
from irscope.ops.typing import Unknown, dtype_name

__all__ = ["OPS"]


def _converted_type(a: TensorType, dtype: Any) -> TensorType:
    return result_type(None if isinstance(dtype, Unknown) else dtype_name(dtype, a.dtype), [a])


def _converted(a: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return round_to(a, dtype_name(dtype, str(a.dtype)) or str(a.dtype))


OPS: Final[tuple[Op, ...]] = (
    define(
        "prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor",
        category="pointwise",
        type_rule=_converted_type,
        reference=_converted,
        expression=lambda a, dtype: conversion(a, dtype),
    ),
)
