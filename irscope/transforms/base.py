"""What a pass leaves behind: the next graph, the edits with their reasons, and the decisions it made or declined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from irscope.ir import Edit, Graph, Node, Value

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

    def __str__(self) -> str:
        """The remark in a line, with names as they were given; `PassRecord.told` knows the printed ones.

        >>> from irscope.ir.text.parser import parse
        >>> relu = parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)").node("y")
        >>> print(Remark("missed", "not-pointwise", relu, "it does not want to"))
        missed [not-pointwise] %y: it does not want to
        """
        return self._in_words([value.name for value in self._values])

    @property
    def _values(self) -> tuple[Value, ...]:
        return (self.subject,) if isinstance(self.subject, Value) else self.subject.outputs

    def _in_words(self, names: Sequence[str | None]) -> str:
        subject = ", ".join(f"%{name}" for name in names if name)
        if not subject:
            subject = self.subject.op if isinstance(self.subject, Node) else repr(self.subject)
        return f"{self.kind} [{self.rule}] {subject}: {self.because}"


@dataclass(frozen=True, slots=True, weakref_slot=True)
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
    keeps_facts: bool = False
    """Whether all that was known before of types and numbers holds of the values that are left."""

    def told(self, remark: Remark) -> str:
        """One of this record's remarks in a line: kind, rule, what it is about, and the reason.

        >>> from irscope.ir.text.parser import parse
        >>> from irscope.transforms.functionalize import functionalize
        >>> record = functionalize(parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu_(%x)\\n  return (%y)"))
        >>> record.told(record.remarks[0])
        'missed [input] %y: %x is an input, and the caller sees what is written there'
        """
        return remark._in_words([self.before.names.get(v) or self.after.names.get(v) for v in remark._values])
