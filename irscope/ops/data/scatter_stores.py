"""Functional variants of stores: the value of a tensor after `copy_`, `fill_`, `zero_`, or after a write through one of its views.

The first three use only element type, shape and layout of the tensor that would be written, never its elements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from irscope.ir import TensorType
from irscope.ops.expr import Expr, lift
from irscope.ops.expr.elementwise import elementwise
from irscope.ops.numpy_layout import Array, laid_out_like
from irscope.ops.op import Op, define
from irscope.ops.type_rules import Abstract


def _filled(self: Array, value: Any = 0, **rest: Any) -> Array:
    result = np.empty_like(self)
    result[...] = value
    return result


def _nothing(x: Expr) -> Expr:
    return lift(0, x.dtype)


def _store(*texts: str, operands: str, expr: Any) -> tuple[Op, ...]:
    return elementwise(*texts, numpy=_filled, expr=expr, operands=operands, in_place=False, layout="like-first")


def _in_place_of(self: TensorType, **rest: Abstract) -> TensorType:
    """Return the type of a copy of a tensor; its strides are unknown for one with gaps, where torch keeps them and NumPy does not."""
    copy = laid_out_like(self, self.dtype)
    return copy if copy.strides == self.strides else copy.with_(strides=None)


def _select_scatter(self: Array, src: Array, dim: int, index: int) -> Array:
    result = self.copy("K")
    result[(slice(None),) * (dim % self.ndim) + (index,)] = src
    return result


def _slice_scatter(self: Array, src: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    result = self.copy("K")
    result[(slice(None),) * (dim % self.ndim) + (slice(start, end, step),)] = src
    return result


(_COPY,) = _store(
    "aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", operands="self =src", expr=lambda self, src, **rest: src
)

OPS: Final = (
    replace(_COPY, category="memory", type_rule=_in_place_of),
    *_store(
        "aten::fill.Scalar(Tensor self, Scalar value) -> Tensor",
        "aten::fill.Tensor(Tensor self, Tensor value) -> Tensor",
        operands="self =value",
        expr=lambda self, value: value,
    ),
    *_store("aten::zero(Tensor self) -> Tensor", operands="self", expr=_nothing),
    define(
        "aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
        category="memory",
        type_rule=_in_place_of,
        reference=_select_scatter,
    ),
    define(
        "aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
        category="memory",
        type_rule=_in_place_of,
        reference=_slice_scatter,
    ),
)
