"""What the benchmarks share: processor time of a pass over subjects made afresh, its growth, and a table to print."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any


def milliseconds(work: Callable[[Any], object], prepare: Callable[[], Any], repeats: int, *, at_most: float = math.inf) -> list[float]:
    """The processor time of `work` on what `prepare` makes afresh each time, in milliseconds; no more runs once they have
    taken `at_most` together."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < at_most:
        subject = prepare()
        gc.collect()
        started = time.process_time()
        result = work(subject)
        times.append(1000 * (time.process_time() - started))
        del result, subject
    return times


def median_ms(work: Callable[[Any], object], prepare: Callable[[], Any], repeats: int, *, at_most: float = math.inf) -> float:
    """The median of `milliseconds`."""
    return statistics.median(milliseconds(work, prepare, repeats, at_most=at_most))


class Growth:
    """The exponent with which a time grows, from the first size that is given to each later one."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def at(self, size: int, taken: float) -> float:
        """The slope from the first size; not a number for that one."""
        if self._first is None:
            self._first = size, taken
            return math.nan
        return math.log(taken / self._first[1]) / math.log(size / self._first[0])


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """The cells in columns, the first to the left and others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        [cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    )
    return "\n".join("  ".join(line).rstrip() for line in padded)
