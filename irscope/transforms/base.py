"""What a pass leaves behind: the next graph, the edits with their reasons, and the decisions it made or declined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from irscope.ir.core import Graph, Node, Value
from irscope.ir.rewriter import Edit

__all__ = ["PassRecord", "Remark", "RemarkKind"]

RemarkKind = Literal["passed", "missed", "analysis"]
"""LLVM's words: something was done, something was declined, something was found out."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One decision, with its evidence."""

    kind: RemarkKind
    rule: str
    """The stable name of the rule that decided, `writes-memory`."""
    subject: Value | Node
    because: str
    """The reason in a sentence without a full stop."""
    evidence: tuple[Value | Node, ...] = ()
    """The values and nodes that the reason names."""


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One run of one pass."""

    name: str
    before: Graph
    after: Graph
    edits: tuple[Edit, ...] = ()
    remarks: tuple[Remark, ...] = ()
    seconds: float = 0.0
    after_merges: Callable[[int], Graph] | None = None
    """The graph after only the first so many `Merged` edits, from a pass that can stop after each."""
