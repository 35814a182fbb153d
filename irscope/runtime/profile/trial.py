"""A trial of a remark: the program that follows it and the original one, measured in turn.

If the new program's results differ by more than rounding, the trial says so. A remark whose gain was measured already (the
gain of fusing) is not measured again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from irscope.errors import ArgumentError
from irscope.ir import Graph
from irscope.runtime.measure.accuracy import arrays, distance
from irscope.runtime.measure.argument_snapshot import ArgumentSnapshot
from irscope.runtime.profile.advice import Remark
from irscope.runtime.profile.readings import Readings
from irscope.runtime.program import compile_graph
from irscope.runtime.timer import Measurement, Spread, measure, time_words

__all__ = ["Trial", "trial"]

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
        verdict = f"{kind}, by {time_words(abs(self.gain_ns))}" if kind != "the same" else "no significant difference"
        same = "the same results" if self.is_same else f"other results (relative difference {self.difference:.1e})"
        return (
            f"{self.remark.rule}: {time_words(self.before.median)} → {time_words(self.after.median)} a call: {verdict}; "
            f"predicted: {time_words(self.remark.gain_ns)}; {same}"
        )


def trial(readings: Readings, remark: Remark, seconds: float) -> Trial:
    """Applies a remark and measures. Raises ArgumentError for one that only the author of the source can follow."""
    measured = readings.measured
    if remark.rule == "fuse":
        return Trial(
            remark, readings.graph("fused"), readings.total("op by op"), readings.total("fused"), _fused_error(readings)
        )
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
    programs = [compile_graph(each, device, use_kernels=False, exact=exact) for each in (graph, changed)]
    runs = [partial(program, *measured.args) for program in programs]
    state = ArgumentSnapshot((graph, measured.args))
    results = [arrays(state.watch(run)) for run in runs]
    try:
        both = dict(zip(("before", "after"), runs, strict=True))
        taken = measure(both, turns=_TURNS, before=state.restore, once=state.is_written, patience=seconds)
    finally:
        state.restore()
    return Trial(remark, changed, _spread(taken["before"]), _spread(taken["after"]), _far(*results))


def _spread(taken: Measurement) -> Spread:
    return Spread(taken.median * 1e9, taken.low * 1e9, taken.high * 1e9)


def _fused_error(readings: Readings) -> float:
    args = readings.measured.args
    state = ArgumentSnapshot((readings.measured.original, args))
    one, other = (arrays(state.watch(partial(way.plain, *args))) for way in readings.ways.values())
    return _far(one, other)


def _far(one: list[Any], other: list[Any]) -> float:
    found = distance(other, one)
    return 0.0 if found is None else found.relative
