"""Time travel: the graph after every step, and what became of each value on the way.

Graphs are frozen and share what did not change, so a history costs as much as its edits, and going back is an index.

A *step* is a single merge where a pass can stop after each merge, and otherwise a whole pass that changed something.
The graphs between the merges of a pass are built on request.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from weakref import WeakValueDictionary

from irscope._base.words import plural
from irscope.errors import ArgumentError
from irscope.ir import Created, Erased, Graph, Merged, Moved, Node, Replaced, Value
from irscope.transforms.base import PassRecord, Remark


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the program, as a person would count changes."""

    pass_name: str
    rule: str
    """The stable name of the change: the merge's rule, such as `producer-consumer`, or the name of the pass."""
    because: str
    """What was done and why, in a sentence without a full stop."""
    nodes: tuple[Node, ...]
    """The nodes that the step is about, of the graph before the pass."""
    bytes_saved: int = 0
    """The estimated memory traffic that it avoids; 0 when unknown."""


@dataclass(frozen=True)
class History:
    """A graph and the passes that were run on it, in order."""

    initial: Graph
    records: tuple[PassRecord, ...] = ()
    _between: WeakValueDictionary[int, Graph] = field(default_factory=WeakValueDictionary, repr=False, compare=False)
    """The graphs between merges that are still referenced elsewhere."""

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

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Every step of every pass.

        >>> import irscope as irs
        >>> g = irs.parse('''graph(%x : Float(2, 3)):
        ...   %a : Float(2, 3) = aten::relu(%x)
        ...   %b : Float(2, 3) = aten::tanh(%a)
        ...   return (%b)''')
        >>> [(step.because, step.bytes_saved) for step in irs.fuse(g).history.steps]
        [('%a feeds %b; iteration space (2, 3)', 48)]
        """
        return tuple(step for record in self.records for step in _steps(record))

    def graph_after(self, step: int) -> Graph:
        """The graph after `step` steps; 0 is the initial one, -1 the last.

        Costs up to one walk over the program; a graph that is still referenced is returned again. Parts that two steps
        have in common are the same objects in both graphs. Raises ArgumentError for a step that does not exist.
        """
        ends = self.ends
        last = ends[-1]
        if not -last - 1 <= step <= last:
            raise ArgumentError(f"there is no step {step}", hint=f"the last is {last}, or -1; 0 is the initial graph")
        step %= last + 1
        place = bisect_right(ends, step) - 1
        if step == ends[place]:
            return self.graph(place)
        found = self._between.get(step)
        if found is None:
            after_merges = self.records[place].after_merges
            assert after_merges is not None
            found = self._between[step] = after_merges(step - ends[place])
        return found

    @cached_property
    def ends(self) -> list[int]:
        """The number of steps done before the first pass, after it, after the next, …"""
        return list(accumulate((len(_steps(record)) for record in self.records), initial=0))

    @property
    def count(self) -> int:
        """The number of steps, without listing them."""
        return self.ends[-1]

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks of all passes in order."""
        return tuple(remark for record in self.records for remark in record.remarks)

    def then(self, record: PassRecord) -> History:
        """This history with one more pass, which must start from the last graph."""
        assert record.before is self.final, "a pass must start from the last graph"
        return History(self.initial, (*self.records, record))

    @cached_property
    def _replacements(self) -> tuple[dict[Value, Value], ...]:
        return tuple({e.old: e.new for e in record.edits if isinstance(e, Replaced)} for record in self.records)

    def forward(self, value: Value, since: int = 0, until: int | None = None) -> Value | None:
        """The value after `until` passes (default: all) that a value after `since` passes became; None when it is gone."""
        until = len(self.records) if until is None else until
        for step in range(since, until):
            table = self._replacements[step]
            while (new := table.get(value)) is not None:
                value = new
            if value not in self.records[step].after.names:
                return None
        return value


def _steps(record: PassRecord) -> list[Step]:
    if record.after_merges is not None:
        return [
            Step(record.name, edit.rule, edit.reason, edit.nodes, edit.bytes_saved) for edit in record.edits if isinstance(edit, Merged)
        ]
    if record.after is record.before:
        return []
    nodes = [edit.node for edit in record.edits if isinstance(edit, Erased | Moved)]
    present = record.before.position
    return [Step(record.name, record.name, _told_edits(record), tuple(node for node in nodes if node in present))]


def _told_edits(record: PassRecord) -> str:
    """Returns the number of edits of each kind, as text.
    >>> from irscope.ir.text.parser import parse
    >>> from irscope.transforms.cleanup.fold import remove_dead_nodes
    >>> g = parse("graph(%x : Tensor):\\n  %a : Tensor = aten::relu(%x)\\n  return (%x)")
    >>> _told_edits(remove_dead_nodes(g))
    '1 node erased'
    """
    kinds = Counter(type(edit) for edit in record.edits)
    counts = [
        f"{plural(kinds[kind], noun)} {what}"
        for kind, noun, what in (
            (Created, "node", "created"), (Erased, "node", "erased"), (Replaced, "value", "replaced"),
            (Moved, "node", "moved"), (Merged, "merge", "done"),
        )
        if kinds[kind]
    ]  # fmt: skip
    return ", ".join(counts)
