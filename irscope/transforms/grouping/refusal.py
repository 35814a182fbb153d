"""The reason that a fuser declines: the rule, a sentence, and the values and nodes that the sentence names."""

from __future__ import annotations

from dataclasses import dataclass

from irscope.ir import Node, Value

__all__ = ["Refusal"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not fused."""

    rule: str
    """The stable name of the rule."""
    because: str
    """A sentence without a full stop."""
    evidence: tuple[Value | Node, ...] = ()
    """The values and nodes that the sentence names."""
