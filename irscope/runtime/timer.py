"""Timing of competitors: in turns on a monotonic clock, after a warm-up, as a median with its spread.

Taking turns spreads disturbances of the machine over all competitors alike, and leaves the allocator and the caches in the
same state for each. The order changes from turn to turn, because a competitor finds other cache contents after a copy
than after one that uses the same operands. A fast competitor is called several times per turn, so that the cost of the
clock is negligible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

__all__ = ["Measurement", "measure"]

_SHORTEST_TURN: Final = 1e-3
"""The least seconds of a turn."""
_MOST_CALLS: Final = 1000


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Measurement:
    """The times of one competitor, turn by turn.

    >>> m = Measurement("sum", (0.5, 0.1, 0.2, 0.3, 0.4))
    >>> m.median, m.low, m.high
    (0.3, 0.2, 0.4)
    """

    label: str
    seconds: tuple[float, ...]
    """Time of one call, by turn."""

    @property
    def median(self) -> float:
        return self._at(0.5)

    @property
    def low(self) -> float:
        """The quartile below the median."""
        return self._at(0.25)

    @property
    def high(self) -> float:
        """The quartile above the median."""
        return self._at(0.75)

    def _at(self, part: float) -> float:
        ordered = sorted(self.seconds)
        place = part * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def measure(
    competitors: Mapping[str, Callable[[], object]], *, turns: int = 5, before: Callable[[], object] = _nothing,
    finish: Callable[[], object] = _nothing, once: bool = False, patience: float = 20.0,
) -> dict[str, Measurement]:  # fmt: skip
    """Times each competitor `turns` times, in turns; starts no further turn after `patience` seconds.

    `before` runs untimed before each turn (to restore what a competitor changes), `finish` at its end (to wait for a
    device). `once` calls a competitor only once per turn, because a second call would see what the first one changed.

    >>> found = measure({"short": lambda: sum(range(10)), "long": lambda: sum(range(10_000))}, turns=3)
    >>> found["short"].median < found["long"].median
    True
    """
    start = time.perf_counter()
    calls = dict.fromkeys(competitors, 1)
    for label, run in competitors.items():
        before()
        seconds = _timed(run, 1, finish)
        if not once and seconds < 20 * _SHORTEST_TURN:
            calls[label] = _calls_per_turn(_timed(run, 1, finish))
    taken: dict[str, list[float]] = {label: [] for label in competitors}
    order = list(competitors)
    for turn in range(turns):
        if turn and time.perf_counter() - start > patience:
            break
        for label in Random(turn).sample(order, len(order)):
            before()
            taken[label].append(_timed(competitors[label], calls[label], finish) / calls[label])
    return {label: Measurement(label, tuple(seconds)) for label, seconds in taken.items()}


def _calls_per_turn(seconds: float) -> int:
    return max(1, min(_MOST_CALLS, round(_SHORTEST_TURN / max(seconds, 1e-9))))


def _timed(run: Callable[[], object], calls: int, finish: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    finish()
    return time.perf_counter() - start
