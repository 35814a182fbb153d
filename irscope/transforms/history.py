"""Time travel: the graphs of every step side by side, and what became of each value on the way.

Graphs are frozen and share what did not change, so a history costs what its edits cost, and going back is an index.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from irscope.ir.core import Graph, Value
from irscope.ir.rewriter import Replaced
from irscope.transforms.base import PassRecord, Remark

__all__ = ["History"]


@dataclass(frozen=True)
class History:
    """A graph and the passes that were run over it, in order."""

    initial: Graph
    records: tuple[PassRecord, ...] = ()

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<History of {self.initial.name!r}: {', '.join(record.name for record in self.records) or 'no passes'}>"

    def graph(self, step: int) -> Graph:
        """The graph after `step` passes; 0 is the initial one, -1 the last."""
        steps = (self.initial, *(record.after for record in self.records))
        return steps[step]

    @property
    def final(self) -> Graph:
        """The graph after the last pass."""
        return self.graph(-1)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks of all passes in order."""
        return tuple(remark for record in self.records for remark in record.remarks)

    def then(self, record: PassRecord) -> History:
        """This history with one more step, which must start where this one ends."""
        assert record.before is self.final, "a pass must start from the last graph"
        return History(self.initial, (*self.records, record))

    @cached_property
    def _replacements(self) -> tuple[dict[Value, Value], ...]:
        return tuple({e.old: e.new for e in record.edits if isinstance(e, Replaced)} for record in self.records)

    def forward(self, value: Value, since: int = 0, until: int | None = None) -> Value | None:
        """What a value of step `since` is at step `until`; None when it is gone."""
        until = len(self.records) if until is None else until
        for step in range(since, until):
            table = self._replacements[step]
            while (new := table.get(value)) is not None:
                value = new
            if value not in self.records[step].after.names:
                return None
        return value
