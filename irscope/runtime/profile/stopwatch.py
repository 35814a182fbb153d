"""What tells the time between the instructions of a program: a processor's clock, or events on a GPU's stream.

On a processor an instruction is done when it returns. A GPU works behind: an instruction only puts work into the stream.
There each stamp also leaves an event in the stream, which gets its time when the work before it is done. The host's times
`h` and the events' times `d` are told from the first stamp, when the stream is empty, so that both clocks start together.
The work of instruction `k` cannot have started before the work before it was done, nor before the host came to it:

    it took at most  d[k] - max(d[k-1], h[k-1]),  and the stream had nothing to do for at least  h[k-1] - d[k-1].
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from irscope.runtime.arrays import imported_cupy
from irscope.runtime.executor import Stamp, stamp_cost

__all__ = ["Durations", "EventWatch", "HostWatch", "Stopwatch", "stopwatch"]


Series = np.ndarray[Any, Any]


class Durations:
    """How long each instruction of a run took, in nanoseconds, what stamps cost taken off."""

    __slots__ = ("busy", "end", "host", "idle", "start")

    def __init__(self, host: Series, busy: Series, idle: Series, start: int, end: int) -> None:
        self.host = host
        """Of the processor."""
        self.busy = busy
        """Of what the program runs on: the same on a processor, the stream's work on a GPU."""
        self.idle = idle
        """How long a GPU waited for the host before; 0 on a processor."""
        self.start = start
        """The clock at the first stamp."""
        self.end = end
        """The clock at the last one."""


class Stopwatch(Protocol):
    """Takes the time of one run after the other."""

    @property
    def stamp(self) -> Stamp:
        """What runs leave after each instruction."""

    cost: float
    """Nanoseconds that one stamp takes."""

    @property
    def stamps(self) -> int:
        """How many the last run left."""

    def start(self) -> None:
        """Wait for the device, and forget the run before."""

    def finish(self) -> object:
        """Wait for the device."""

    def read(self) -> Durations:
        """The run that is over."""


class HostWatch:
    """A processor's clock.

    >>> watch = HostWatch()
    >>> mark, clock = watch.stamp
    >>> watch.start(), mark(clock()), mark(clock())
    (None, None, None)
    >>> len(watch.read().busy)
    1
    """

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.times: list[int] = []
        self.stamp: Stamp = (self.times.append, clock)
        self.cost = stamp_cost(self.stamp, self.times.clear)

    @property
    def stamps(self) -> int:
        return len(self.times)

    def start(self) -> None:
        self.times.clear()

    def finish(self) -> None:
        pass

    def read(self) -> Durations:
        times = np.array(self.times, np.int64)
        taken = np.maximum(np.diff(times) - self.cost, 0.0)
        return Durations(taken, taken, np.zeros_like(taken), int(times[0]), int(times[-1]))


class EventWatch:
    """Events on the stream in use, beside the processor's clock."""

    def __init__(
        self, event: Callable[[], Any], elapsed: Callable[[Any, Any], float], wait: Callable[[], object]
    ) -> None:
        """`event` leaves one in the stream, `elapsed` gives the milliseconds between two, `wait` waits for the device."""
        self.times: list[int] = []
        self.events: list[Any] = []
        self.event = event
        self.elapsed = elapsed
        self._wait = wait
        self.stamp: Stamp = (self._mark, time.perf_counter_ns)
        self.cost = stamp_cost(self.stamp, self._forget)

    def _mark(self, now: int) -> None:
        self.times.append(now)
        self.events.append(self.event())

    @property
    def stamps(self) -> int:
        return len(self.times)

    def _forget(self) -> None:
        self.times.clear()
        self.events.clear()

    def start(self) -> None:
        self._forget()
        self.finish()

    def finish(self) -> object:
        return self._wait()

    def read(self) -> Durations:
        self.finish()
        times = np.array(self.times, np.int64)
        host = np.maximum(np.diff(times) - self.cost, 0.0)
        done = np.array([self.elapsed(self.events[0], event) * 1e6 for event in self.events])
        came = (times - times[0]).astype(np.float64)
        idle = np.maximum(came[:-1] - done[:-1], 0.0)
        busy = np.maximum(done[1:] - np.maximum(done[:-1], came[:-1]), 0.0)
        return Durations(host, busy, idle, int(times[0]), int(times[-1]))


def stopwatch(device: str, is_torch: bool) -> Stopwatch:
    """What takes the time of programs on a device."""
    if device != "cuda":
        return HostWatch()
    if is_torch:
        import torch

        def event() -> Any:
            made = torch.cuda.Event(enable_timing=True)
            made.record()
            return made

        return EventWatch(event, lambda a, b: float(a.elapsed_time(b)), torch.cuda.synchronize)
    cupy = imported_cupy()

    def recorded() -> Any:
        made = cupy.cuda.Event()
        made.record(cupy.cuda.get_current_stream())
        return made

    return EventWatch(recorded, lambda a, b: float(cupy.cuda.get_elapsed_time(a, b)), cupy.cuda.Device().synchronize)
