"""CHLO's ops of operands of several extents: those of StableHLO, for operands that broadcast as NumPy's do."""

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
    """The rule of an op whose operands broadcast as NumPy's do."""

    def guarded(op: Operation) -> Value | None:
        return rule(op) if op.is_static and not op.text("broadcast_dimensions") else None

    guarded.becomes = getattr(rule, "becomes", "")  # type: ignore[attr-defined]  # for the table of what is covered
    return guarded


RULES: Final[Mapping[str, Rule]] = {
    f"chlo.broadcast_{name}": _broadcasting({**pointwise.RULES, **bits.RULES}[f"stablehlo.{name}"]) for name in _BROADCASTING
}
"""What each op becomes."""
