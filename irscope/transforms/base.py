"""The contract of a pass, and its record: the next graph, the edits with their reasons, and the decisions it made or declined.

A pass is a function `(graph, *, option=…) -> PassRecord`, or it returns a result with a `history` of such records, each
starting from the graph where the previous one ended. It keeps this contract:

* *Meaning.* The next graph returns the same results as the graph before, makes the same writes that a caller sees, and fails
  where the graph before fails. `verify` and `check_types` accept it. The graph before is unchanged; it is also the next one if there was
  nothing to do.
* *Edits* are complete: an analysis of the graph before can be updated by them to the next (`irscope.analysis.per_graph`). A
  value in both graphs holds the same in both; `keeps_facts` says that the known facts of its type and number still hold.
* *Remarks.* What the pass did is `passed`, what it declined is `missed`, each with the values and nodes that are its reason.
* *Idempotence.* Run again on its own result, a pass finds nothing, unless its docstring says otherwise.
* *Analyses* come from `irscope.analysis.per_graph`, never as arguments. *Options* are keywords; those that take a word or a
  number can be written in a pipeline's text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from irscope.analysis.per_graph import shapes_of
from irscope.analysis.shapes import infer
from irscope.errors import PassError
from irscope.ir import Edit, Graph, Node, TensorType, Value, contradiction
from irscope.ir.text.printer import excerpt

RemarkKind = Literal["passed", "missed", "analysis"]
"""LLVM's words: something was done, declined, or found by analysis."""


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
        """The remark in one line, with the values' own names; `PassRecord.told` uses the printed ones.

        >>> from irscope.ir.text.parser import parse
        >>> relu = parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)").node("y")
        >>> print(Remark("missed", "not-pointwise", relu, "aten::relu has no known overload"))
        missed [not-pointwise] %y: aten::relu has no known overload
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
    """Returns the graph after the first n `Merged` edits only; set by a pass that can stop after each."""
    keeps_facts: bool = False
    """Whether all facts known before about types and numbers still hold for the remaining values."""

    def told(self, remark: Remark) -> str:
        """One of this record's remarks in one line: kind, rule, subject and reason.

        >>> from irscope.ir.text.parser import parse
        >>> from irscope.transforms.functionalize import functionalize
        >>> record = functionalize(parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu_(%x)\\n  return (%y)"))
        >>> record.told(record.remarks[0])
        'missed [input] %y: %x is an input, and the caller sees what is written there'
        """
        return remark._in_words([self.before.names.get(v) or self.after.names.get(v) for v in remark._values])


def check_types(record: PassRecord) -> None:
    """Raises PassError for the first value that is in both graphs and that holds another element type, number of dimensions or
    extent after the pass, by what is inferred of each graph.

    """
    if record.after is record.before:
        return
    before, after = shapes_of(record.before), infer(record.after)  # anew: the pass may be wrong about what it keeps
    known = {value.id: value for value in record.before.values()}
    for value in record.after.values():
        old = known.get(value.id)
        had, has = before.type(old) if old is not None else None, after.type(value)
        because = contradiction(had, has) if isinstance(had, TensorType) and isinstance(has, TensorType) else ""
        if because:
            name = record.after.names.get(value) or value.name
            place = record.after.producer.get(value) or record.after.body
            raise PassError(
                f"%{name} is {had} before pass {record.name!r} and {has} after it: {because}",
                where=excerpt(record.after, {place: ""}), rule="keeps-types",
                hint="a value in both graphs holds the same in both: give the other op a result of its own",
            )  # fmt: skip
