"""A remark on a possible improvement, and the evidence for the rules: each node's time, traffic, tensors and users."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from irscope._base.results import Rows
from irscope._base.words import listed, time_words
from irscope.analysis.alias import AliasDb
from irscope.analysis.per_graph import alias_db_of
from irscope.errors import new_table
from irscope.ir import Graph, Location, Node
from irscope.ops.op import draws_random_numbers
from irscope.ops.registry import effect_of
from irscope.runtime.profile.costs import NodeCost, TensorFacts
from irscope.runtime.profile.readings import NodeRow, Readings

if TYPE_CHECKING:
    import pandas as pd

Change = Callable[[Graph], Graph]
"""Returns the program that follows a remark."""


@dataclass(frozen=True, eq=False)
class Remark:
    """A possible improvement at one place of a program.

    `str(remark)` is the sentence: the line, the time of its nodes, the possible saving, the reason, and the advice.
    """

    rule: str
    """The stable name of the rule: `copy`, `float64`, `rebuilt-constant`, …"""
    node: Node
    """The node that it is about, the slowest if there are several."""
    nodes: tuple[Node, ...]
    """All of them, in program order."""
    now_ns: float
    """Their time in a run."""
    gain_ns: float
    """The expected saving of that time."""
    share: float
    """Their share of a run of the original program."""
    because: str
    """The evidence, a clause without a full stop."""
    advice: str
    """What to do, a clause without a full stop; empty where there is nothing to gain."""
    certainty: float = 1.0
    """The weight of the gain in the order of remarks: lower where the evidence only makes it likely."""
    change: Change | None = field(default=None, repr=False)
    """Applies the advice, where that needs no author; None where the source must be changed by hand."""
    is_measured: bool = False
    """Whether the gain was measured rather than predicted."""
    beside: tuple[int, ...] = ()
    """The numbers of the remarks before it that are about some of the same nodes: following both saves less than the sum."""
    whose: str = ""
    """Whose call the times are of, where that is not the program op by op: NumPy's."""

    @property
    def worth_ns(self) -> float:
        """The gain by its certainty."""
        return self.gain_ns * self.certainty

    @property
    def line(self) -> Location | None:
        """The place in the user's source."""
        return self.lines[0] if self.lines else None

    @property
    def lines(self) -> tuple[Location, ...]:
        """All lines concerned, that of `node` first."""
        found: dict[tuple[str, int], Location] = {}
        for node in (self.node, *self.nodes):
            if node.location is not None:
                found.setdefault((node.location.file, node.location.line), node.location)
        return tuple(found.values())

    def __str__(self) -> str:
        where = _places(self.lines) or repr(self.node)
        whose = self.whose and f" of the call in {self.whose}"
        takes = f"{where}: {self.share:.0%} of the time op by op ({time_words(self.now_ns)}{whose}), {self.because}"
        if not self.advice:
            return takes
        return f"{takes}; {self.advice} ({'saves' if self.is_measured else 'would save about'} {self.saving()})"

    def saving(self) -> str:
        """The gain in words, with the remarks that save some of it too: `422 µs, in part those of remark 0`."""
        others = f", in part those of {'remark' + 's' * (len(self.beside) > 1)} {listed(self.beside)}" if self.beside else ""
        return f"{time_words(self.gain_ns)}{others}"


class Remarks(Rows[Remark]):
    """The remarks of a profile by their numbers, which `try_` takes. Shown, they are a table."""

    def table(self) -> "pd.DataFrame":
        """One row for each remark: its lines, the time of its nodes, the possible saving, the reason and the advice."""
        rows = [
            (
                _places(each.lines) or repr(each.node), f"{each.share:.0%}", time_words(each.now_ns),
                each.saving() if each.advice else "", each.because, each.advice,
            )
            for each in self
        ]  # fmt: skip
        return new_table(rows, columns=["where", "share", "time", "saves", "why", "what to do"])

    def lines(self) -> list[str]:
        """The remarks as sentences, each with its number."""
        return [f"{number}. {remark}" for number, remark in enumerate(self)]


def line_of(node: Node) -> tuple[str, int] | None:
    """Returns the file and the line of a node in the user's source."""
    return None if node.location is None else (node.location.file, node.location.line)


def _places(lines: tuple[Location, ...]) -> str:
    """Returns the first lines in short form: `model.py:12, 14`."""
    if not lines:
        return ""
    first, *others = lines
    more = [str(line.line) for line in others[:3] if line.file == first.file]
    rest = len(others) - len(more)
    text = ", ".join([first.short, *more])
    return f"{text} and {rest} more" if rest > 0 else text


class Evidence:
    """The measured program, for rules."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        self.graph: Graph = readings.graph("op by op")
        self.rows: list[NodeRow] = readings.rows("op by op")
        self.row_of = {row.node: row for row in self.rows}
        self.total_ns = max(sum(row.self_time.median for row in self.rows) + self.idle_ns("op by op"), 1.0)
        """The time of a run, in which a GPU also waits."""
        own = readings.measured.own
        self.scale = 1.0 if own is None else min(1.0, own[1].median / self.total_ns)
        """What the user's own function takes of the time of irscope's interpreter: no more than that can be saved."""
        self.whose = own[0] if own is not None and self.scale < 1 else ""

    def idle_ns(self, way: str) -> float:
        """Returns the time in which a GPU waits in a call without stamps, which make it wait longer; 0 on a processor."""
        rows = self.readings.rows(way)
        idle = sum(row.idle_ns for row in rows)
        return max(0.0, min(idle, self.readings.total(way).median - sum(row.self_time.median for row in rows))) if idle else 0.0

    @cached_property
    def db(self) -> AliasDb:
        return alias_db_of(self.graph)

    @cached_property
    def call_ns(self) -> float:
        """The time to call an op with almost no work: the fastest one observed, or a microsecond."""
        small = [row.self_time.median / row.calls for row in self.rows if row.launches and row.calls and row.cost.bytes < 1 << 14]
        return min(max(min(small, default=1000.0), 200.0), 5000.0)

    # -- the program --------------------------------------------------------------------------------------------------

    def users(self, node: Node) -> Iterator[Node]:
        """Returns the nodes that read its results."""
        return (use.user for value in node.outputs for use in self.graph.users.get(value, ()) if isinstance(use.user, Node))

    def is_returned(self, node: Node) -> bool:
        """Checks whether a block returns one of its results."""
        uses = (use for value in node.outputs for use in self.graph.users.get(value, ()))
        return any(not isinstance(use.user, Node) for use in uses)

    def makers(self, node: Node) -> Iterator[Node]:
        """Returns the producers of its operands, constants left out."""
        made = (self.graph.producer.get(value) for value in node.inputs)
        return (maker for maker in made if maker is not None and maker.op != "prim::Constant")

    def is_pure(self, node: Node) -> bool:
        """Checks whether equal operands give an equal result, and neither the result nor an operand is ever written."""
        if node.blocks or node.op in _FRESH or effect_of(node) not in ("pure", "view") or draws_random_numbers(node.op, {}):
            return False
        return not any(map(self.db.has_writers, (*node.outputs, *node.inputs)))

    # -- what was measured --------------------------------------------------------------------------------------------

    def ns(self, node: Node) -> float:
        row = self.row_of.get(node)
        return 0.0 if row is None else row.self_time.median

    def sum_ns(self, nodes: Iterable[Node]) -> float:
        return sum(map(self.ns, nodes))

    def cost(self, node: Node) -> NodeCost:
        row = self.row_of.get(node)
        return NodeCost() if row is None else row.cost

    def operand(self, node: Node, place: int = 0) -> TensorFacts | None:
        """Returns the facts of an operand at its first call, if it is a tensor."""
        operands = self.cost(node).operands
        return operands[place] if place < len(operands) else None

    def result(self, node: Node) -> TensorFacts | None:
        results = self.cost(node).results
        return results[0] if results else None

    def saved_by_fusing(self, *nodes: Node) -> float | None:
        """Returns what the kernel of a group that has all these nodes was measured to save; None where none has them all."""
        for row in self.readings.group_rows:
            if set(nodes) <= set(self.readings.members.get(row.node.id, ())):
                return self.readings.group_before(row.node).median - row.self_time.median
        return None

    def copy_ns(self, moved: float) -> float:
        """Returns the nanoseconds of a copy that moves this many bytes."""
        return self.readings.speeds.copy_ns(moved)

    # -- remarks ------------------------------------------------------------------------------------------------------

    def remark(
        self, rule: str, nodes: Iterable[Node], gain_ns: float, because: str, advice: str, *, certainty: float = 1.0,
        change: Change | None = None, is_measured: bool = False, first: Node | None = None, now_ns: float | None = None,
    ) -> Remark:  # fmt: skip
        """Builds a remark about nodes, represented by the slowest unless `first` names another. Times are those op by op; the
        remark's are as much less as what the user wrote takes less."""
        every = sorted(set(nodes), key=self.graph.position.__getitem__)
        now = min(self.sum_ns(every) if now_ns is None else now_ns, self.total_ns)  # `now_ns` may be of the fused run
        slowest = first if first is not None else max(every, key=self.ns)
        gain = max(0.0, min(gain_ns, now))
        return Remark(
            rule, slowest, tuple(every), now * self.scale, gain * self.scale, now / self.total_ns, because, advice, certainty,
            change, is_measured, whose=self.whose,
        )  # fmt: skip


_FRESH = frozenset({"aten::empty", "aten::empty_like", "aten::new_empty", "aten::empty_strided"})
"""Ops whose result is uninitialised memory."""
