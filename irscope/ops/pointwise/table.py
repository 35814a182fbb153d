"""All pointwise ops: those of which each element of the result needs one element of each operand, at the same place."""

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
