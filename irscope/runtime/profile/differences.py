"""Two measurements against each other: a remark that is tried, and two profiles that are compared."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from irscope._base.nested import grouped
from irscope._base.words import time_words
from irscope.errors import ArgumentError, new_table
from irscope.ir import Graph
from irscope.runtime.measure.accuracy import arrays, distance
from irscope.runtime.measure.conditions import ArgumentSnapshot
from irscope.runtime.profile.evidence import Remark
from irscope.runtime.profile.readings import NodeRow, Readings, piece_key, place
from irscope.runtime.program import compile_graph
from irscope.runtime.timer import Spread, measure

if TYPE_CHECKING:
    import pandas as pd

# The program that follows a remark and the original one are measured in turn. If the new program's results differ by more than
# rounding, the trial says so. A remark whose gain was measured already (the gain of fusing) is not measured again.

_TURNS = 15
_CLOSE = 1e-4
"""The largest difference between results, relative to the largest element, that counts as rounding."""


@dataclass(frozen=True)
class Trial:
    """The effect of following a remark."""

    remark: Remark
    graph: Graph
    """The program that follows it."""
    before: Spread
    """A call of the original program, in nanoseconds."""
    after: Spread
    """A call of the program that follows the remark."""
    difference: float
    """The largest difference between their results, relative to the largest element."""

    @property
    def is_same(self) -> bool:
        """Whether both return the same results up to rounding."""
        return self.difference <= _CLOSE

    @property
    def gain_ns(self) -> float:
        """The saving in a call."""
        return self.before.median - self.after.median

    @property
    def holds(self) -> bool:
        """Whether it is faster without overlapping quartiles, by at least half of the predicted gain."""
        return self.after.against(self.before) == "faster" and self.gain_ns >= 0.5 * self.remark.gain_ns

    def __repr__(self) -> str:
        kind = self.after.against(self.before)
        verdict = (
            f"{kind}, by {time_words(abs(self.gain_ns))}"
            if kind in ("faster", "slower")
            else "no significant difference"
            if kind == "the same"
            else kind
        )
        same = "the same results" if self.is_same else f"other results (relative difference {self.difference:.1e})"
        return (
            f"{self.remark.rule}: {time_words(self.before.median)} → {time_words(self.after.median)} a call: {verdict}; "
            f"predicted to save {time_words(self.remark.gain_ns)}; {same}"
        )


def try_remark(readings: Readings, remark: Remark, seconds: float) -> Trial:
    """Applies a remark and measures. Raises ArgumentError for one that only the author of the source can follow."""
    measured = readings.measured
    state = ArgumentSnapshot((measured.original, measured.args))
    if remark.rule == "fuse":
        results = [arrays(state.watch(partial(way.plain, *measured.args))) for way in readings.ways.values()]
        return Trial(remark, readings.graph("fused"), readings.total("op by op"), readings.total("fused"), _far(*results))
    if remark.change is None:
        where = f" at {remark.line}" if remark.line is not None else ""
        raise ArgumentError(
            f"the advice {remark.advice!r} cannot be applied automatically: it asks for a change of the source{where}"
            if remark.advice else "there is nothing to try: it runs as fast as it can",
            hint="change the source, profile that, and compare: p.diff(q)",
        )  # fmt: skip
    graph = measured.original
    changed = remark.change(graph)
    device, exact = measured.device, measured.exact
    programs = [compile_graph(each, device, use_kernels=False, exact=exact, capture=False) for each in (graph, changed)]
    runs = [partial(program, *measured.args) for program in programs]
    results = [arrays(state.watch(run)) for run in runs]
    try:
        both = dict(zip(("before", "after"), runs, strict=True))
        taken = measure(both, turns=_TURNS, before=state.restore, once=state.is_written, patience=seconds)
    finally:
        state.restore()
    return Trial(remark, changed, taken["before"], taken["after"], _far(*results))


def _far(one: list[Any], other: list[Any]) -> float:
    found = distance(other, one)
    return 0.0 if found is None else found.relative


# The difference of two profiles: pieces that compute the same are matched, whatever their names.
#
# Two nodes match if their fingerprints by dedup are equal (groups as a whole, other nodes with their constants); where a class
# has several members, they count together. Nodes without a match are then matched by a relation that ignores sizes and
# strides: the same op on other tensors. The remaining nodes are new, or gone. A class counts as slower or faster only if the
# middle halves of its runs do not overlap.

_NOTHING = Spread(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Matched:
    """One class of pieces in both profiles."""

    key: str
    before: tuple[NodeRow, ...]
    after: tuple[NodeRow, ...]
    before_time: Spread
    after_time: Spread

    @property
    def verdict(self) -> str:
        """`slower`, `faster`, `the same`, `too noisy`, `too few runs`, `new` or `gone`."""
        if not self.before or not self.after:
            return "new" if self.after else "gone"
        return self.after_time.against(self.before_time)

    @property
    def is_different(self) -> bool:
        return self.verdict not in ("the same", "too noisy", "too few runs")

    @property
    def change_ns(self) -> float:
        """The increase of its time."""
        return self.after_time.median - self.before_time.median


@dataclass(frozen=True)
class ProfileDifference:
    """The classes of pieces that are slower or faster in a second profile."""

    name: str
    classes: tuple[Matched, ...]
    """Largest change first."""
    before: Spread
    """The time of a whole call in the first profile."""
    after: Spread
    warnings: tuple[str, ...]
    """Differences in how the two were measured."""

    def table(self) -> "pd.DataFrame":
        """Returns one row per class of pieces, the largest change first."""
        return new_table([_cells(each) for each in self.classes], columns=list(_COLUMNS))

    def __repr__(self) -> str:
        verdict = self.after.against(self.before)
        lines = [f"{self.name}: {time_words(self.before.median)} → {time_words(self.after.median)} a call ({verdict})"]
        for each in self.classes[:10]:
            if not each.is_different:
                continue
            row = (each.after or each.before)[0]
            where = place(row.node)
            times = f"{time_words(each.before_time.median)} → {time_words(each.after_time.median)}"
            lines.append(f"  {each.verdict:9}{times:24} {row.name} = {row.node.op}{f'  {where}' if where else ''}")
        return "\n".join([*lines, *self.warnings])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>{self.table().to_html(border=0, max_rows=30)}"


_COLUMNS = ("node", "op", "line", "before ms", "after ms", "change ms", "ratio", "verdict", "nodes before", "nodes after", "class")


def _cells(each: Matched) -> dict[str, Any]:
    row = (each.after or each.before)[0]
    both = each.before_time.median and each.after_time.median
    return {
        "node": row.name, "op": row.node.op, "line": str(place(row.node) or ""), "before ms": each.before_time.median / 1e6,
        "after ms": each.after_time.median / 1e6, "change ms": each.change_ns / 1e6,
        "ratio": each.after_time.median / each.before_time.median if both else None, "verdict": each.verdict,
        "nodes before": len(each.before), "nodes after": len(each.after), "class": each.key[:12],
    }  # fmt: skip


def compare_profiles(before: Readings, after: Readings, way: str | None) -> ProfileDifference:
    """Matches two profiles of the same way. Raises ArgumentError for an argument that is not a profile."""
    if not isinstance(after, Readings):
        raise ArgumentError(f"a profile is compared with a profile, not with {type(after).__name__}", hint="p.diff(q)")
    label = way or (before.main if before.main in after.ways else "op by op")
    sides = _classes(before, after, label)
    classes = []
    for key in dict.fromkeys((*sides[0], *sides[1])):
        rows, spread = zip(*(side.get(key, ((), _NOTHING)) for side in sides), strict=True)
        classes.append(Matched(key, tuple(rows[0]), tuple(rows[1]), spread[0], spread[1]))
    classes.sort(key=lambda each: (not each.is_different, -abs(each.change_ns)))
    name = before.name if before.name == after.name else f"{before.name} → {after.name}"
    return ProfileDifference(name, tuple(classes), before.total(label), after.total(label), _warnings(before, after))


def _classes(before: Readings, after: Readings, label: str) -> list[dict[str, tuple[tuple[NodeRow, ...], Spread]]]:
    """Returns the rows and the time of the classes of both, with pieces that compute the same under one key."""
    both = (before, after)
    keys = [[piece_key(each.graph(label), row.node) for row in each.rows(label)] for each in both]
    shared = set(keys[0]) & set(keys[1])
    for each, own in zip(both, keys, strict=True):
        for index, row in enumerate(each.rows(label)):
            if own[index] not in shared:
                own[index] = piece_key(each.graph(label), row.node, "layout")
    made = []
    for each, own in zip(both, keys, strict=True):
        rows, busy, places = each.rows(label), each.way(label).busy, grouped((key, index) for index, key in enumerate(own))
        made.append({key: (tuple(rows[at] for at in found), Spread.of(busy[:, found].sum(axis=1))) for key, found in places.items()})
    return made


def _warnings(before: Readings, after: Readings) -> tuple[str, ...]:
    both = ((what, before.environment.get(what), after.environment.get(what)) for what in ("cpu", "threads", "allocator", "versions"))
    found = [f"measured with other {what}: {one} and {other}" for what, one, other in both if one != other]
    return (*found, *dict.fromkeys((*before.warnings, *after.warnings)))
