"""All pointwise ops: each element of a result depends on one element of each operand, at the same position."""

from __future__ import annotations

from irscope.ops.pointwise import activation, arithmetic, comparison

OPS = (*arithmetic.OPS, *comparison.OPS, *activation.OPS)
