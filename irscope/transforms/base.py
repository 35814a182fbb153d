"""The contract of a pass, its record (the next graph, the edits with their reasons, the decisions it made or declined), and histories.

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

A history is a graph and such records: the graph after every step, and what became of each value on the way. Graphs are frozen and
share what did not change, so a history costs as much as its edits, and going back is an index. A *step* is a single merge where a
pass can stop after each merge, and otherwise a whole pass that changed something; the graphs between merges are built on request.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from itertools import accumulate
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, ParamSpec, Self
from weakref import WeakValueDictionary

from irscope._base.nested import grouped
from irscope._base.results import Numbered, Rows
from irscope._base.words import listed, plural
from irscope.analysis.per_graph import shapes_of
from irscope.analysis.shapes import infer
from irscope.errors import ArgumentError, PassError, UnknownNumber, new_table
from irscope.ir import Created, Edit, Erased, Graph, Merged, Moved, Node, Replaced, TensorType, Value, contradiction
from irscope.ir.text.printer import excerpt

if TYPE_CHECKING:
    import pandas as pd

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
    _graphs: tuple[Graph, ...] = field(default=(), init=False, repr=False, compare=False)
    """The graphs that know the printed names: those before and after its pass."""

    def __str__(self) -> str:
        """The remark in one line: kind, rule, subject and reason.

        >>> from irscope.ir.text.parser import parse
        >>> relu = parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)").node("y")
        >>> print(Remark("missed", "not-pointwise", relu, "aten::relu has no known overload"))
        missed [not-pointwise] %y: aten::relu has no known overload
        """
        subject = ", ".join(self._names(self._graphs))
        if not subject:
            subject = self.subject.op if isinstance(self.subject, Node) else repr(self.subject)
        return f"{self.kind} [{self.rule}] {subject}: {self.because}"

    def __reduce__(self) -> tuple[type["Remark"], tuple[object, ...]]:
        return Remark, (self.kind, self.rule, self.subject, self.because, self.evidence)

    def _names(self, graphs: tuple[Graph, ...]) -> list[str]:
        """The printed names of the subject, in the first of these graphs that has it."""
        values = (self.subject,) if isinstance(self.subject, Value) else self.subject.outputs
        return [next((f"%{graph.names[value]}" for graph in graphs if value in graph.names), repr(value)) for value in values]


class LateRemark(Remark):
    """A remark whose reason is worked out when it is first read, where that takes as long as the pass itself."""

    __slots__ = ("_reason",)
    _reason: str | Callable[[], str]

    def __init__(
        self, kind: RemarkKind, rule: str, subject: Value | Node, because: Callable[[], str], evidence: tuple[Value | Node, ...] = ()
    ) -> None:  # fmt: skip
        values = {"kind": kind, "rule": rule, "subject": subject, "evidence": evidence, "_reason": because, "_graphs": ()}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def because(self) -> str:
        reason = self._reason
        if not isinstance(reason, str):
            reason = reason()
            object.__setattr__(self, "_reason", reason)
        return reason


NAMES: Final = re.compile(r"%[\w.]*\w| \(×\d+\)")
"""What may differ in remarks of one reason."""


class Remarks(Rows[Remark]):
    """Remarks in order. Shown, they are a table: those of one reason, whatever the names in it, are one row with their number.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(8), %y : Float(4)):
    ...   %a : Float(8) = aten::sigmoid_(%x)
    ...   %b : Float(4) = aten::sigmoid_(%y)
    ...   return (%a, %b)''')
    >>> irs.functionalize(g).remarks.table()["×"].tolist()
    [2]
    """

    noun = "remark"
    graphs: tuple[Graph, ...]
    """The graphs that know the printed names of the subjects."""

    def __new__(cls, remarks: Iterable[Remark] = (), graphs: tuple[Graph, ...] = ()) -> Self:
        made = super().__new__(cls, remarks)
        made.graphs = graphs
        for remark in made:
            if not remark._graphs:
                object.__setattr__(remark, "_graphs", graphs)
        return made

    def table(self) -> "pd.DataFrame":
        """One row for each reason: how often it was given, and where first."""
        alike = grouped(((remark.kind, remark.rule, NAMES.sub("%", remark.because)), remark) for remark in self)
        rows = [(len(several), kind, rule, self._where(several[0]), several[0].because) for (kind, rule, _), several in alike.items()]
        return new_table(rows, columns=["×", "remark", "rule", "where", "why"])

    def lines(self) -> list[str]:
        """A line for each row of the table."""
        rows = self.table().itertuples(index=False, name=None)
        return [f"{f'{times}× ' if times > 1 else ''}{kind} [{rule}] {where}: {why}" for times, kind, rule, where, why in rows]

    def _where(self, remark: Remark) -> str:
        """The subject of a remark with its op and line."""
        subject = remark.subject
        names = ", ".join(remark._names(self.graphs))
        node = subject if isinstance(subject, Node) else next((g.producer[subject] for g in self.graphs if subject in g.producer), None)
        if node is None:
            return names
        line = f", {node.location.short}" if node.location is not None else ""
        return f"{names} = {node.op}{line}" if names else f"{node.op}{line}"


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
    saved: Callable[[Merged], object] = lambda merge: 0
    """Returns the bytes of memory traffic that one of its merges avoids, if that is a number."""
    keeps_facts: bool = False
    """Whether all facts known before about types and numbers still hold for the remaining values."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "remarks", Remarks(self.remarks, (self.before, self.after)))

    def __repr__(self) -> str:
        kinds = Counter(remark.kind for remark in self.remarks)
        told = "".join(f", {kinds[kind]:,} {kind}" for kind in ("passed", "missed") if kinds[kind])
        return f"<PassRecord of {self.name!r} on {self.before!r}: {plural(len(self.edits), 'edit')}{told}>"


def check_types(record: PassRecord) -> None:
    """Raises PassError for the first value that is in both graphs and that holds another element type, number of dimensions or
    extent after the pass, by what is inferred of each graph."""
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


_Options = ParamSpec("_Options")


def timed(run: Callable[_Options, PassRecord]) -> Callable[_Options, PassRecord]:
    """A pass whose record says how many seconds it took."""

    @wraps(run)
    def run_timed(*graph: _Options.args, **options: _Options.kwargs) -> PassRecord:
        started = perf_counter()
        record = run(*graph, **options)
        return replace(record, seconds=perf_counter() - started)

    return run_timed


def starts_at(name: str, ops: Collection[str]) -> Callable[[Callable[_Options, PassRecord]], Callable[_Options, PassRecord]]:
    """Decorates the pass of that name, whose every edit and remark begins at one of these ops; a graph without them stays as it is."""

    def gated(run: Callable[_Options, PassRecord]) -> Callable[_Options, PassRecord]:
        @wraps(run)
        def run_where_they_are(*args: _Options.args, **options: _Options.kwargs) -> PassRecord:
            graph: Any = args[0]
            return run(*args, **options) if any(node.op in ops for node in graph.nodes()) else PassRecord(name, graph, graph)

        return run_where_they_are

    return gated


class Unpicklable:
    """The base of frozen results that answer from what is known of the ops in this process: a copy is the result itself, and a pickle
    is refused."""

    pickle_instead: ClassVar[str]
    """What to pickle, for the hint."""

    def __post_init__(self) -> None:
        """Groups, of those that have some, are called by their results in errors."""
        if (groups := self.__dict__.get("groups")) is not None:
            graph, numbered = self.__dict__["graph"], Numbered[Node](groups)
            numbered.noun = "group"
            numbered.called = lambda group: listed(group.outputs, lambda value: f"%{graph.names[value]}", 2)
            object.__setattr__(self, "groups", numbered)

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> str:
        what = f"{type(self).__name__} cannot be pickled: it answers questions from what is known of the ops in this process"
        raise ArgumentError(what, hint=self.pickle_instead)


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
    """The memory traffic that it avoids, counted as in the tables of a fusion; 0 when unknown."""
    is_known: bool = True
    """Whether that is a number, and not a formula of sizes or unknown."""


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
        if step not in range(-len(steps), len(steps)):
            raise UnknownNumber(f"there is no pass {step!r}", hint=f"the last is {len(self.records)}, or -1; 0 is the initial graph")
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
        if step not in range(-last - 1, last + 1):
            raise ArgumentError(f"there is no step {step!r}", hint=f"the last is {last}, or -1; 0 is the initial graph")
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
        counts = (
            int(record.after is not record.before) if record.after_merges is None else sum(isinstance(e, Merged) for e in record.edits)
            for record in self.records
        )  # fmt: skip
        return list(accumulate(counts, initial=0))

    @property
    def count(self) -> int:
        """The number of steps, without listing them."""
        return self.ends[-1]

    @property
    def remarks(self) -> Remarks:
        """The remarks of all passes in order."""
        graphs = (*(record.before for record in self.records), self.final)
        return Remarks((remark for record in self.records for remark in record.remarks), graphs)

    def then(self, record: PassRecord) -> "History":
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
            Step(record.name, edit.rule, edit.reason, edit.nodes, saved if isinstance(saved, int) else 0, isinstance(saved, int))
            for edit, saved in ((edit, record.saved(edit)) for edit in record.edits if isinstance(edit, Merged))
        ]
    if record.after is record.before:
        return []
    nodes = [edit.node for edit in record.edits if isinstance(edit, Erased | Moved)]
    present = record.before.position
    return [Step(record.name, record.name, _told_edits(record), tuple(node for node in nodes if node in present))]


def _told_edits(record: PassRecord) -> str:
    """Returns the number of edits of each kind, as text."""
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
