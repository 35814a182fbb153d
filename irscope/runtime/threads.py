"""The number of threads that a measurement runs on: as many as usual, or one where other programs keep the processors busy.

Two threads of one op wait for each other. Where another program has the processor of one of them, the other waits for the rest
of a time slice, some milliseconds, whatever the op takes: a hundred times as long. One thread does not wait, and what others
take of it is known (`irscope.runtime.timer`). So who measures asks first what others take, and who has one thread keeps the
libraries to it: torch, the BLAS of NumPy, and our own kernels, which take theirs from torch or are told when compiled. JAX
starts its threads once for the whole process.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from irscope.errors import ArgumentError
from irscope.runtime.cpu import CpuDevice

__all__ = ["Threads", "threads_for", "with_threads"]

P = ParamSpec("P")
T = TypeVar("T")

_LOOK: Final = 0.1
"""Seconds for which other programs are watched: ten ticks of the system's counter."""
_TAKEN: Final = 0.5
"""The part of a processor that others may take before it counts as taken."""
_BLAS: Final = tuple(f"{begin}openblas_{{}}_num_threads{end}" for begin in ("scipy_", "") for end in ("64_", ""))
"""The names under which OpenBLAS has its number of threads, to be read (`get`) and changed (`set`)."""


@dataclass(frozen=True, slots=True)
class Threads:
    """A number of threads, and what to say of it."""

    count: int
    warning: str = ""
    """Why the times may not be those of a quiet machine."""
    is_busy: bool = False
    """Whether other programs keep the processors busy."""
    is_asked: bool = False
    """Whether the user wants this number, whatever others do."""


def threads_for(asked: int | None) -> Threads:
    """Returns the number of threads to measure with. Raises ArgumentError for a number that is none."""
    given: object = asked
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
        raise ArgumentError(f"there cannot be {asked!r} threads", hint="threads=1 disturbs and is disturbed least")
    usual = CpuDevice().threads
    count, processors, taken = asked or usual, len(_processors()), others()
    if taken <= max(processors - count, 0) + _TAKEN:
        return Threads(count, is_asked=asked is not None)
    busy = f"Other programs keep {taken:.1f} of {processors} processors busy"
    if asked is None and usual > 1:
        return Threads(1, f"{busy}: measured on one thread, in place of {usual}.", True)
    advice = " threads=1 is disturbed less." if count > 1 else " What they took of this thread is not counted."
    return Threads(count, f"{busy}.{advice}", True, asked is not None)


def others() -> float:
    """Returns how many processors other programs use now, of those that this one may use.

    >>> 0 <= others() <= 10_000
    True
    """
    before = _busy_seconds()
    if before is None:  # a mean of the last minute, this program included
        return max(os.getloadavg()[0] - 1.0, 0.0) if hasattr(os, "getloadavg") else 0.0
    own, start = time.process_time(), time.perf_counter()
    time.sleep(_LOOK)
    own, lasted = time.process_time() - own, time.perf_counter() - start
    return min(max((_busy_seconds() or 0.0) - before - own, 0.0) / lasted, float(len(_processors())))


def _processors() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _busy_seconds() -> float | None:
    """Returns the seconds for which the processors were busy since the system started; None where it does not say."""
    here = {f"cpu{number}" for number in _processors()}
    try:
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        times = [[int(word) for word in words[1:9]] for words in lines if words and words[0] in here]
        ticks = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
    return sum(sum(each) - each[3] - each[4] for each in times) / ticks if times else None  # without idle and waiting


def with_threads(count: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Returns the result of a call during which torch and NumPy's BLAS use this many threads, whatever interrupts it.

    >>> with_threads(1, lambda: 2)
    2
    """
    switches = [*_torchs(), *_blas()]
    before = [get() for get, _ in switches]
    if all(each == count for each in before):
        return work(*args, **kwargs)
    try:
        for _, change in switches:
            change(count)
        return work(*args, **kwargs)
    finally:
        for (_, change), number in zip(switches, before, strict=True):
            change(number)


_Switch = tuple[Callable[[], int], Callable[[int], Any]]


def _torchs() -> Iterator[_Switch]:
    torch = sys.modules.get("torch")
    if hasattr(torch, "set_num_threads"):
        yield torch.get_num_threads, torch.set_num_threads  # type: ignore[union-attr]


def _blas() -> Iterator[_Switch]:
    """Yields those of the OpenBLAS libraries that this process has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return
    for path in sorted({line.split(None, 5)[5] for line in lines if "openblas" in line and line.count("/")}):
        with suppress(OSError):
            library = ctypes.CDLL(path)
            for name in _BLAS:
                if hasattr(library, name.format("set")):
                    yield getattr(library, name.format("get")), getattr(library, name.format("set"))
                    break
