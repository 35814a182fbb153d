"""A remark put to the test: the program that follows it, and the one it is about, measured in turn.

The new program must give the same results, but for rounding, or the trial says so. A remark whose gain was measured already
(what fusing brings) is not measured again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from irscope.errors import ArgumentError
from irscope.ir import Graph
from irscope.runtime.measure.accuracy import arrays
from irscope.runtime.measure.argument_snapshot import ArgumentSnapshot
from irscope.runtime.profile.advice import Remark
from irscope.runtime.profile.readings import Readings, time_words
from irscope.runtime.profile.spread import Spread
from irscope.runtime.program import compile_graph
from irscope.runtime.timer import Measurement, measure

__all__ = ["Trial", "trial"]

_TURNS = 15
_CLOSE = 1e-4
"""The largest difference between results, relative to the largest element, that counts as rounding."""


@dataclass(frozen=True)
class Trial:
    """What following a remark did."""

    remark: Remark
    graph: Graph
    """The program that follows it."""
    before: Spread
    """A call of the program as it was, in nanoseconds."""
    after: Spread
    """A call of the one that follows the remark."""
    difference: float
    """The largest difference of its results, relative to the largest element."""

    @property
    def is_same(self) -> bool:
        """Whether both give the same results but for rounding."""
        return self.difference <= _CLOSE

    @property
    def gain_ns(self) -> float:
        """What was saved of a call."""
        return self.before.median - self.after.median

    @property
    def holds(self) -> bool:
        """Whether it is faster, by at least half of what was predicted: no quartiles overlap."""
        return self.after.against(self.before) == "faster" and self.gain_ns >= 0.5 * self.remark.gain_ns

    def __repr__(self) -> str:
        told = self.after.against(self.before)
        verdict = f"{told}, by {time_words(abs(self.gain_ns))}" if told != "the same" else "no difference that is sure"
        same = "the same results" if self.is_same else f"other results (relative difference {self.difference:.1e})"
        return (
            f"{self.remark.rule}: {time_words(self.before.median)} → {time_words(self.after.median)} a call: {verdict}; "
            f"predicted were {time_words(self.remark.gain_ns)}; {same}"
        )


def trial(readings: Readings, remark: Remark, seconds: float) -> Trial:
    """Apply a remark and measure. Raises ArgumentError for one that only the author of the source can follow."""
    measured = readings.measured
    if remark.rule == "fuse":
        return Trial(
            remark, readings.graph("fused"), readings.total("op by op"), readings.total("fused"), _fused_error(readings)
        )
    if remark.change is None:
        where = f" at {remark.line}" if remark.line is not None else ""
        raise ArgumentError(
            f"the advice {remark.advice!r} cannot be tried by itself: it asks for a change of the source{where}"
            if remark.advice else "there is nothing to try: it runs as fast as it can",
            hint="change the source, profile that, and compare: p.diff(q)",
        )  # fmt: skip
    graph = measured.original
    changed = remark.change(graph)
    device, exact = measured.device, measured.exact
    programs = [compile_graph(each, device, use_kernels=False, exact=exact) for each in (graph, changed)]
    runs = [partial(program, *measured.args) for program in programs]
    state = ArgumentSnapshot([*measured.args, *graph.bound.values()])
    results = [arrays(state.watch(run)) for run in runs]
    try:
        both = dict(zip(("before", "after"), runs, strict=True))
        taken = measure(both, turns=_TURNS, before=state.restore, once=state.is_written, patience=seconds)
    finally:
        state.restore()
    return Trial(remark, changed, _spread(taken["before"]), _spread(taken["after"]), _largest(*results))


def _spread(taken: Measurement) -> Spread:
    return Spread(taken.median * 1e9, taken.low * 1e9, taken.high * 1e9)


def _fused_error(readings: Readings) -> float:
    args = readings.measured.args
    state = ArgumentSnapshot([*args, *readings.graph().bound.values()])
    one, other = (arrays(state.watch(partial(way.plain, *args))) for way in readings.ways.values())
    return _largest(one, other)


def _largest(one: Sequence[Any], other: Sequence[Any]) -> float:
    """The largest difference of two programs' results, relative to the largest element; infinite for other shapes."""
    if len(one) != len(other) or any(a.shape != b.shape for a, b in zip(one, other, strict=False)):
        return float("inf")
    found = 0.0
    for a, b in zip(one, other, strict=True):
        if a.size == 0:
            continue
        wide_a, wide_b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (a, b))
        same = (wide_a == wide_b) | (np.isnan(wide_a) & np.isnan(wide_b))
        if not same.all():
            scale = np.max(np.abs(wide_a[np.isfinite(wide_a)]), initial=np.finfo(np.float64).tiny)
            far = np.abs(np.where(same, 0.0, wide_a - wide_b)).max()
            found = max(found, float("inf") if np.isnan(far) else float(far / scale))
    return found
