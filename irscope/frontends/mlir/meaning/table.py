"""Which ops of MLIR have a meaning here: each name to the rule that appends `aten` ops that compute the same.

A rule gets the op and gives its results; None where this op (its element type, an attribute, extents that are not known)
has no faithful counterpart, and then it has appended nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from irscope.frontends.mlir.meaning import (
    arith,
    bits,
    broadcasting,
    contraction,
    gathers,
    ordering,
    pointwise,
    reductions,
    shaping,
    tensors,
    windows,
)
from irscope.frontends.mlir.operation import Operation
from irscope.ir import Value

__all__ = ["MEANINGS", "Rule"]

Rule = Callable[[Operation], Value | Sequence[Value] | None]

MEANINGS: Final[Mapping[str, Rule]] = {
    **pointwise.RULES,
    **bits.RULES,
    **broadcasting.RULES,
    **shaping.RULES,
    **tensors.RULES,
    **reductions.RULES,
    **windows.RULES,
    **contraction.RULES,
    **gathers.RULES,
    **ordering.RULES,
    **arith.RULES,
}
