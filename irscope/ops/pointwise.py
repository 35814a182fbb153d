"""All pointwise ops: those of which each element of the result needs one element of each operand, at the same place."""

from __future__ import annotations

from typing import Final

from irscope.ops import (
    pointwise_activation,
    pointwise_arithmetic,
    pointwise_cast,
    pointwise_choice,
    pointwise_functions,
    pointwise_inference,
    pointwise_logic,
)
from irscope.ops.op import Op

__all__ = ["OPS"]

OPS: Final[tuple[Op, ...]] = (
    *pointwise_arithmetic.OPS,
    *pointwise_functions.OPS,
    *pointwise_logic.OPS,
    *pointwise_choice.OPS,
    *pointwise_activation.OPS,
    *pointwise_cast.OPS,
    *pointwise_inference.OPS,
)
