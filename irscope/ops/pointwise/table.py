"""The table of all pointwise ops: each element of a result depends on one element of each operand, at the same position."""

from __future__ import annotations

from typing import Final

from irscope.ops.pointwise import activation, arithmetic, cast, comparison, derivatives, selection, unary
from irscope.ops.schema import Op

__all__ = ["OPS"]

OPS: Final[tuple[Op, ...]] = (
    *arithmetic.OPS,
    *unary.OPS,
    *comparison.OPS,
    *selection.OPS,
    *activation.OPS,
    *derivatives.OPS,
    *cast.OPS,
)
