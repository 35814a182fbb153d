"""Timing of competitors: in turns on a monotonic clock, after a warm-up, as a median with its spread; and what two such say.

Taking turns spreads disturbances of the machine over all competitors alike, and leaves the allocator and the caches in the
same state for each. The order changes from turn to turn, because a competitor finds other cache contents after a copy
than after one that uses the same operands. A fast competitor is called several times per turn, so that the cost of the
clock is negligible, and once more before them, untimed: after a peer with threads of its own, the first call of a small
program takes twice as long, and who comes after whom would decide.

*One is faster than another* if the middle halves of their turns do not overlap, and neither is noisy: a program whose
median is more than three times its best turn waited for something else most of the time, and no ratio of it means anything.

On one thread, what other programs take can be known and taken off: in a turn in which the system switched the thread out
and the thread itself never waited, all the time off the processor went to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal

import numpy as np

from irscope._base.words import time_words

getrusage: Any = None
with suppress(ImportError):  # only Linux counts for each thread
    from resource import RUSAGE_THREAD, getrusage

LEAST_TURNS: Final = 7
LEAST_SECONDS: Final = 0.05
"""The turns and the time, all turns together, from which a ratio can be believed on a quiet machine."""
_FEW: Final = 5
"""Fewer turns have no quartiles to speak of."""
_NOISY: Final = 3.0
_LEAST_NOISE: Final = 5e3
"""Nanoseconds; a smaller difference between the median and the best may be the clock's."""
_SHORTEST_TURN: Final = 1e-3
"""The least seconds of a turn."""
_MOST_CALLS: Final = 1000
_MOST_TURNS: Final = 1000
_LONG_TURN: Final = 10e-3
"""Seconds; who takes longer sits out once it has had its turns and its time."""


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and its quartiles, in nanoseconds.

    >>> Spread.of([5.0, 1.0, 2.0, 3.0, 4.0])
    Spread(median=3.0, low=2.0, high=4.0)
    """

    median: float
    low: float
    """The quartile below the median."""
    high: float
    """The quartile above it."""
    best: float = field(default=0.0, repr=False)
    """The fastest turn; 0 where it is not known."""
    turns: int = field(default=_FEW, repr=False)

    @staticmethod
    def of(taken: Sequence[float] | np.ndarray[Any, Any]) -> Spread:
        if not len(taken):
            return Spread(0.0, 0.0, 0.0)
        best, low, median, high = np.quantile(np.asarray(taken, np.float64), (0.0, 0.25, 0.5, 0.75))
        return Spread(float(median), float(low), float(high), float(best), len(taken))

    @property
    def is_noisy(self) -> bool:
        """Whether the median is far from the best turn.

        >>> Spread(17e6, 31e3, 20e6, best=31e3).is_noisy, Spread(2.0, 1.9, 2.1, best=0.1).is_noisy
        (True, False)
        """
        return 0 < self.best < min(self.median / _NOISY, self.median - _LEAST_NOISE)

    def against(self, other: Spread) -> Literal["faster", "slower", "the same", "too noisy", "too few runs"]:
        """Compares this one with another; `the same` where the middle halves overlap.

        >>> Spread(1.0, 0.9, 1.1).against(Spread(2.0, 1.5, 2.5)), Spread(1.0, 0.9, 1.6).against(Spread(2.0, 1.5, 2.5))
        ('faster', 'the same')
        >>> Spread.of([1.0]).against(Spread.of([2.0]))
        'too few runs'
        """
        if self.is_noisy or other.is_noisy:
            return "too noisy"
        if min(self.turns, other.turns) < _FEW:
            return "too few runs"
        if self.high < other.low:
            return "faster"
        return "slower" if self.low > other.high else "the same"

    def ratio_words(self, other: Spread, name: str = "") -> str:
        """Says how fast this one is against another, or why that cannot be said.

        >>> Spread(1.0, 0.9, 1.1).ratio_words(Spread(2.0, 1.5, 2.5), "eager")
        '2× as fast as eager'
        >>> Spread(1.0, 0.9, 1.6).ratio_words(Spread(2.0, 1.5, 2.5))
        'no difference seen'
        >>> Spread(17e6, 31e3, 20e6, best=31e3).ratio_words(Spread(2.0, 1.5, 2.5))
        'too noisy: best 31 µs, median 17 ms'
        """
        if self.is_noisy:
            return f"too noisy: best {time_words(self.best)}, median {time_words(self.median)}"
        if other.is_noisy:
            return f"{name or 'the other'} is too noisy to compare with"
        if min(self.turns, other.turns) < _FEW:
            return "too few turns to compare"
        if self.against(other) == "the same" or not self.median:
            return "no difference seen"
        times = other.median / self.median
        return f"{times:,.{0 if times >= 99.5 else 2}{'f' if times >= 99.5 else 'g'}}× as fast{f' as {name}' if name else ''}"


def measure(
    competitors: Mapping[str, Callable[[], object]], *, turns: int = LEAST_TURNS, seconds: float = 0.0,
    before: Callable[[], object] = _nothing, finish: Callable[[], object] = _nothing, once: bool = False,
    patience: float = 20.0, known: Mapping[str, float] | None = None, alone: bool = False,
) -> dict[str, Spread]:  # fmt: skip
    """Times a call of each competitor `turns` times, and until it has run for `seconds`, in turns; starts no further turn after
    `patience` seconds.

    `before` runs untimed before each turn (to restore what a competitor changes), `finish` at its end (to wait for a
    device). `once` calls a competitor only once per turn, because a second call would see what the first one changed.
    `known` are the seconds of earlier calls: a competitor that took long needs no trial. `alone` says that all run on one
    thread: what other programs took of it is not counted.
    """
    start = time.perf_counter()
    timed = undisturbed if alone else spent
    calls = dict.fromkeys(competitors, 1)
    for label, run in competitors.items():
        if (known or {}).get(label, 0.0) >= _LONG_TRIAL:
            continue
        before()
        trials = [timed(run, 1, finish)]
        while not once and len(trials) < _MOST_TRIALS and sum(trials) < 20 * _SHORTEST_TURN:
            trials.append(timed(run, 1, finish))  # the first ones fill caches and wake threads
            calls[label] = calls_per_turn(min(trials))
    taken: dict[str, list[float]] = {label: [] for label in competitors}
    lasted = dict.fromkeys(competitors, 0.0)
    for turn in range(max(turns, _MOST_TURNS)):
        short = {label for label in taken if len(taken[label]) < turns or lasted[label] < seconds}
        if not short or (turn and time.perf_counter() - start > patience):
            break
        order = [label for label in taken if label in short or lasted[label] < turn * _LONG_TURN]
        for label in Random(turn).sample(order, len(order)):
            before()
            if calls[label] > 1:
                timed(competitors[label], 1, finish)  # what the one before has left in caches and threads is not its own
            took = timed(competitors[label], calls[label], finish)
            lasted[label] += took
            taken[label].append(took / calls[label])
    return {label: Spread.of([each * 1e9 for each in found]) for label, found in taken.items()}


_MOST_TRIALS: Final = 5
_LONG_TRIAL: Final = 0.5
"""Seconds of an earlier call; who takes that long is called once in a turn, and has no trial first."""


def calls_per_turn(seconds: float, *, turn: float = _SHORTEST_TURN, most: int = _MOST_CALLS) -> int:
    """Returns how many calls of so many seconds fill a turn."""
    return max(1, min(most, round(turn / max(seconds, 1e-9))))


def spent(run: Callable[[], object], calls: int = 1, finish: Callable[[], object] = _nothing) -> float:
    """Returns the seconds of some calls in a row."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    finish()
    return time.perf_counter() - start


def undisturbed(run: Callable[[], object], calls: int = 1, finish: Callable[[], object] = _nothing) -> float:
    """Returns the seconds of some calls on one thread, without the time that the system gave to other programs."""
    if getrusage is None:
        return spent(run, calls, finish)
    clock, before = time.thread_time(), getrusage(RUSAGE_THREAD)
    taken = spent(run, calls, finish)
    after, worked = getrusage(RUSAGE_THREAD), time.thread_time() - clock
    # where the thread was switched out and never waited itself, all the time that it was not on the processor was taken from it
    is_disturbed = after.ru_nivcsw > before.ru_nivcsw and after.ru_nvcsw == before.ru_nvcsw
    return min(taken, worked) if is_disturbed else taken
