"""The table of rules: maps an MLIR op's name to the rule that appends `aten` ops that compute the same.

A rule takes the op and returns its results, or None if this op (its element type, an attribute, unknown extents)
has no faithful counterpart; then it has appended nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from irscope.frontends.mlir.meaning import (
    arith,
    bits,
    contraction,
    gathers,
    ordering,
    pointwise,
    reductions,
    shaping,
    tensors,
    torch_dialect,
    windows,
)
from irscope.frontends.mlir.operation import Operation
from irscope.ir import Value

__all__ = ["MEANINGS", "Rule"]

Rule = Callable[[Operation], Value | Sequence[Value] | None]

MEANINGS: Final[Mapping[str, Rule]] = {
    **pointwise.RULES,
    **bits.RULES,
    **torch_dialect.RULES,
    **shaping.RULES,
    **tensors.RULES,
    **reductions.RULES,
    **windows.RULES,
    **contraction.RULES,
    **gathers.RULES,
    **ordering.RULES,
    **arith.RULES,
}
