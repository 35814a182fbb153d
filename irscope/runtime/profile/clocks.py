"""Clocks for the time between the instructions of a program: a processor's clock, or events on a GPU's stream.

On a processor an instruction is done when it returns. A GPU runs asynchronously: an instruction only enqueues work on the
stream. There each stamp also records an event on the stream, which gets its time when the work before it is done. The host's
times `h` and the events' times `d` are relative to the first stamp, when the stream is empty, so both clocks start together.
The work of instruction `k` cannot have started before the work before it was done, nor before the host reached it:

    it took at most  d[k] - max(d[k-1], h[k-1]),  and the stream was idle for at least  h[k-1] - d[k-1].
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from irscope.runtime.arrays import imported_cupy
from irscope.runtime.program import Stamp, stamp_cost

Series = np.ndarray[Any, Any]


class Durations:
    """The time of each instruction of a run, in nanoseconds, less what a stamp costs by itself."""

    __slots__ = ("busy", "end", "host", "idle", "start")

    def __init__(self, host: Series, busy: Series, idle: Series, start: int, end: int) -> None:
        self.host = host
        """The processor's time."""
        self.busy = busy
        """The device's time: the same on a processor, the stream's work on a GPU."""
        self.idle = idle
        """The time that a GPU waited for the host before each instruction; 0 on a processor."""
        self.start = start
        """The clock at the first stamp."""
        self.end = end
        """The clock at the last one."""


class Stopwatch(Protocol):
    """Times runs, one after the other."""

    @property
    def stamp(self) -> Stamp:
        """The stamp that runs leave after each instruction."""

    cost: float
    """Nanoseconds of one stamp."""

    def start(self) -> None:
        """Waits for the device, and forgets the previous run."""

    def finish(self) -> object:
        """Waits for the device."""

    def read(self) -> Durations:
        """Returns the times of the run that has ended."""


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

    def start(self) -> None:
        self.times.clear()

    def finish(self) -> None:
        pass

    def read(self) -> Durations:
        times = np.array(self.times, np.int64)
        taken = np.maximum(np.diff(times) - self.cost, 0.0)
        return Durations(taken, taken, np.zeros_like(taken), int(times[0]), int(times[-1]))


class EventWatch:
    """Events on the stream in use, together with the processor's clock."""

    def __init__(self, event: Callable[[], Any], elapsed: Callable[[Any, Any], float], wait: Callable[[], object]) -> None:
        """`event` records one on the stream, `elapsed` returns the milliseconds between two, `wait` waits for the device."""
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


def stopwatch(device: str, is_torch: bool, *, alone: bool = False) -> Stopwatch:
    """Returns the stopwatch of a device. For programs that run on one thread alone, beside others that keep the processors
    busy, the clock is that of the thread: it costs more, and stands still while others have the processor."""
    if device != "cuda":
        return HostWatch(time.thread_time_ns) if alone else HostWatch()
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
