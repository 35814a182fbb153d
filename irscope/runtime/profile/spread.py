"""Statistics of repeated measurements: which of two is larger.

*One is larger than another in the same runs* if it was in more runs than chance would allow: of `n` pairs in which neither
is generally larger, more than `n / 2 + 0.98 √n` of one kind occur in one of twenty cases (the sign test).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import Any, Final

import numpy as np

__all__ = ["is_larger", "sure_order"]

_EQUAL: Final = 0.03


def is_larger(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Checks whether the first of two measured in the same runs is larger, more often than chance would allow.

    >>> is_larger(np.full(20, 2.0), np.full(20, 1.0)), is_larger(np.array([2.0, 1.0] * 10), np.array([1.0, 2.0] * 10))
    (True, False)
    """
    count = int(np.count_nonzero(a != b))
    return count > 3 and int(np.count_nonzero(a > b)) > count / 2 + 0.98 * sqrt(count)


def sure_order(taken: np.ndarray[Any, Any], places: Sequence[int]) -> list[int]:
    """Returns those of some columns, in descending order of their medians, whose order relative to the next is not sure.

    `taken` has a row for each run. Columns whose medians differ by less than the fraction `_EQUAL` count as equal.
    """
    unsure = []
    for a, b in pairwise(places):
        first, second = np.median(taken[:, a]), np.median(taken[:, b])
        if first - second > _EQUAL * first and not is_larger(taken[:, a], taken[:, b]):
            unsure.append(a)
    return unsure
