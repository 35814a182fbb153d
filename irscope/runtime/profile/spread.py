"""What a number of measurements allows to say: their middle, their spread, and which of two is larger.

*One is larger than another in the same runs* if that was so in more of them than chance would allow: of `n` pairs of which
neither is the larger, more than `n / 2 + 0.98 √n` of one kind come in one of twenty cases (the sign test). *One program is
faster than another* if the middle halves of their runs do not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any, Final, Literal

import numpy as np

__all__ = ["Spread", "is_larger", "sure_order"]

_EQUAL: Final = 0.03


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and its quartiles, in nanoseconds.

    >>> Spread.of([5.0, 1.0, 2.0, 3.0, 4.0])
    Spread(median=3.0, low=2.0, high=4.0)
    """

    median: float
    low: float
    high: float

    @staticmethod
    def of(taken: Sequence[float] | np.ndarray[Any, Any]) -> Spread:
        if not len(taken):
            return Spread(0.0, 0.0, 0.0)
        low, median, high = np.quantile(np.asarray(taken, np.float64), (0.25, 0.5, 0.75))
        return Spread(float(median), float(low), float(high))

    def against(self, other: Spread) -> Literal["faster", "slower", "the same"]:
        """What this one is beside the other; `the same` where the middle halves overlap.

        >>> Spread(1.0, 0.9, 1.1).against(Spread(2.0, 1.5, 2.5)), Spread(1.0, 0.9, 1.6).against(Spread(2.0, 1.5, 2.5))
        ('faster', 'the same')
        """
        if self.high < other.low:
            return "faster"
        return "slower" if self.low > other.high else "the same"


def is_larger(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether the first is larger, of two that were measured in the same runs: more than chance would allow.

    >>> is_larger(np.full(20, 2.0), np.full(20, 1.0)), is_larger(np.array([2.0, 1.0] * 10), np.array([1.0, 2.0] * 10))
    (True, False)
    """
    count = int(np.count_nonzero(a != b))
    return count > 3 and int(np.count_nonzero(a > b)) > count / 2 + 0.98 * sqrt(count)


def sure_order(taken: np.ndarray[Any, Any], places: Sequence[int]) -> list[int]:
    """Those of some columns, in descending order of their medians, whose order to the next one is not sure.

    `taken` has a row for each run. Columns whose medians differ by less than `_EQUAL` are as good as equal.
    """
    unsure = []
    for a, b in pairwise(places):
        first, second = np.median(taken[:, a]), np.median(taken[:, b])
        if first - second > _EQUAL * first and not is_larger(taken[:, a], taken[:, b]):
            unsure.append(a)
    return unsure
