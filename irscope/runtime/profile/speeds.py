"""What the machine can do at most, asked for many sizes: the time of a copy, and arithmetic.

A copy of each size would take a second to measure; sizes are measured in steps of four, when somebody asks, and the speed
between two steps is that of the line between them. Of a GPU no limits are measured.
"""

from __future__ import annotations

from math import log2
from typing import Final

from irscope.runtime.machine import limits

__all__ = ["Speeds"]

_SMALLEST: Final = 1 << 14
_LARGEST: Final = 1 << 26
_STEP: Final = 2
"""Of two sizes that are measured, the larger has 2 to this power times the bytes."""


class Speeds:
    """The limits for programs on so many threads; of other devices than the processor none.

    >>> speeds = Speeds(1, "cpu")
    >>> speeds.copy_ns(1 << 20) > 0, Speeds(1, "cuda").copy_ns(1 << 20)
    (True, 0.0)
    """

    def __init__(self, threads: int, device: str) -> None:
        self._limits = limits(threads) if device == "cpu" else None

    def copy_ns(self, moved: float) -> float:
        """Nanoseconds of a copy that moves so many bytes, read and written together; 0 where it is not known."""
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
        """Nanoseconds that so many additions and multiplications of float32 take at least; 0 where it is not known."""
        if self._limits is None or flops <= 0:
            return 0.0
        return flops / self._limits.flops() * 1e9

    def roof_ns(self, moved: float, flops: float) -> float:
        """The least that both allow."""
        return max(self.copy_ns(moved), self.flops_ns(flops))
