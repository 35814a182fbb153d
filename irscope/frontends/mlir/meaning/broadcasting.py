"""Rules of CHLO's broadcasting ops: those of StableHLO, for operands that broadcast as in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from irscope.frontends.mlir.meaning import bits, pointwise
from irscope.frontends.mlir.operation import Operation
from irscope.ir import Value

__all__ = ["RULES"]

Rule = Callable[[Operation], Value | None]

_BROADCASTING: Final = (
    "add", "and", "atan2", "compare", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder", "select",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor",
)  # fmt: skip


def _broadcasting(rule: Rule) -> Rule:
    """Returns the rule for operands that broadcast as in NumPy."""

    def guarded(op: Operation) -> Value | None:
        return rule(op) if op.is_static and not op.text("broadcast_dimensions") else None

    guarded.becomes = getattr(rule, "becomes", "")  # type: ignore[attr-defined]  # for the coverage table
    return guarded


RULES: Final[Mapping[str, Rule]] = {
    f"chlo.broadcast_{name}": _broadcasting({**pointwise.RULES, **bits.RULES}[f"stablehlo.{name}"]) for name in _BROADCASTING
}
"""The rule of each op."""
