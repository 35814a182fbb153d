"""The machine's limits at many sizes: the time of a copy, and of arithmetic.

Measuring a copy of each size would take a second; sizes are measured on demand in steps of four, and the speed between two
steps is interpolated linearly. No limits are measured for a GPU.
"""

from __future__ import annotations

from math import log2
from typing import Final

from irscope.runtime.machine import limits

__all__ = ["Speeds"]

_SMALLEST: Final = 1 << 14
_LARGEST: Final = 1 << 26
_STEP: Final = 2
"""The logarithm to base 2 of the ratio between two measured sizes."""


class Speeds:
    """The limits for programs on a number of threads of the processor; other devices have none.

    >>> speeds = Speeds(1, "cpu")
    >>> speeds.copy_ns(1 << 20) > 0, Speeds(1, "cuda").copy_ns(1 << 20)
    (True, 0.0)
    """

    def __init__(self, threads: int, device: str) -> None:
        self._limits = limits(threads) if device == "cpu" else None

    def copy_ns(self, moved: float) -> float:
        """Returns the nanoseconds of a copy that moves this many bytes, reads and writes together; 0 where it is unknown."""
        if self._limits is None or moved <= 0:
            return 0.0
        size = min(max(moved, _SMALLEST), _LARGEST)
        steps = log2(size / _SMALLEST) / _STEP
        below = int(steps)
        first = _SMALLEST << (_STEP * below)
        second = min(first << _STEP, _LARGEST)
        part = steps - below
        speed = self._bytes_per_ns(first)
        if part > 0 and second > first:
            speed += part * (self._bytes_per_ns(second) - speed)
        return moved / speed

    def _bytes_per_ns(self, size: int) -> float:
        assert self._limits is not None
        return size / (self._limits.copy_seconds(size) * 1e9)

    def flops_ns(self, flops: float) -> float:
        """Returns the least nanoseconds of this many float32 additions and multiplications; 0 where it is unknown."""
        if self._limits is None or flops <= 0:
            return 0.0
        return flops / self._limits.flops() * 1e9

    def roof_ns(self, moved: float, flops: float) -> float:
        """Returns the least time that both allow."""
        return max(self.copy_ns(moved), self.flops_ns(flops))
