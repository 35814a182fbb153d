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

    def told(self, remark: Remark) -> str:
        """One of this record's remarks in a line: kind, rule, what it is about, and the reason.

        >>> from irscope.ir.parser import parse
        >>> from irscope.transforms.functionalize import functionalize
        >>> record = functionalize(parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu_(%x)\\n  return (%y)"))
        >>> record.told(record.remarks[0])
        'missed [input] %y: %x is an input, and the caller sees what is written there'
        """
        values = (remark.subject,) if isinstance(remark.subject, Value) else remark.subject.outputs
        names = [self.before.names.get(value) or self.after.names.get(value) for value in values]
        subject = ", ".join(f"%{name}" for name in names if name)
        if not subject:
            subject = remark.subject.op if isinstance(remark.subject, Node) else repr(remark.subject)
        return f"{remark.kind} [{remark.rule}] {subject}: {remark.because}"
