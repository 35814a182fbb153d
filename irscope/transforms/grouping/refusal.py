"""A "no" of the fuser: the rule that says it, a sentence, and what the sentence is about."""

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
    """What the sentence names."""
