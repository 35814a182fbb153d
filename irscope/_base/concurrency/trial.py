"""Work that may kill the process, tried first in a copy of it: other people's readers of files crash on some damaged ones."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from irscope._base.words import byte_count

__all__ = ["TrialError", "tried"]

_CAN_FORK: Final = hasattr(os, "fork") and sys.platform.startswith(("linux", "darwin", "freebsd"))
_PATIENCE: Final = 12
"""How many times its processor time a copy may take on the clock: other programs may hold the processors."""
_LOOKS: Final = (0.001, 0.05)
"""Seconds between two looks at the copy, at first and at last."""
_WELL: Final = b"well"
_SAID: Final = 1000
"""Bytes that are told of an exception; a pipe takes them without waiting for a reader."""


class TrialError(Exception):
    """The work came to no end, crashed, or raised what it should not; says which."""

    is_memory: bool = False
    """Whether it was most likely memory that it wanted: the system killed it, or it crashed near its limit."""


def tried(
    work: Callable[[], object], *, seconds: int, memory: int, expected: type[Exception], patience: float = _PATIENCE
) -> None:
    """Do a work in a forked process, with so much processor time, and so many bytes of memory more than this one has.

    On the clock it may take `patience` times as long as that.

    The copy has one thread and no signals, opens no files of its own, and ends without finalisers. Where the system cannot
    fork, nothing is done. Raises TrialError where the copy dies, takes too long, or where the work raises something other
    than `expected`, which the caller will meet himself.

    >>> tried(lambda: None, seconds=5, memory=1 << 30, expected=ValueError)
    >>> tried(os.abort, seconds=5, memory=1 << 30, expected=ValueError)
    Traceback (most recent call last):
    irscope._base.concurrency.trial.TrialError: crashes with signal 6
    """
    if not _CAN_FORK:
        return
    here, there = os.pipe()
    child, held = 0, _held_bytes()
    try:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:  # no handler of signals may raise in the copy: it would go on as a second one of this program
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            child = _forked()
            if not child:
                _in_copy(there, work, seconds, memory, expected)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        status, is_late, spent, most = _ended(child, patience * seconds)
        os.set_blocking(here, False)
        with contextlib.suppress(BlockingIOError):
            told = os.read(here, _SAID)
            if told == _WELL:
                return
            if told:
                raise TrialError(told.decode("utf-8", "replace"))
        raise _ending(status, is_late or spent > 0.9 * seconds, seconds, max(most - held, 0), memory)
    finally:
        os.close(here)
        os.close(there)
        if child:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _ending(status: int, is_late: bool, seconds: int, most: int, memory: int) -> TrialError:
    """What the signal of a copy means that said nothing before it ended.

    Processor time ends in a signal of its own, or in SIGKILL where the work takes that one. Any other SIGKILL came from outside: in
    practice from a system that ran out of memory. Libraries that get none abort, which looks like a crash; by then the copy has most
    of what it may.
    """
    if is_late or status == getattr(signal, "SIGXCPU", 0):
        return TrialError(f"takes over {seconds} s")
    if status == getattr(signal, "SIGKILL", 0):
        error = TrialError(f"was killed from outside, as systems do that run out of memory, when it had taken {byte_count(most)}")
    else:
        error = TrialError(f"crashes with signal {status}")
        if status != getattr(signal, "SIGABRT", 0) or most < _NEAR * memory:
            return error
        error = TrialError(f"{error} when it had taken {byte_count(most)} of the {byte_count(memory)} of memory that it may")
    error.is_memory = True
    return error


_NEAR: Final = 0.6
"""Of the memory that a copy may take: with so much in use, an abort is taken for a want of it."""


def _forked() -> int:
    """A fork of which nothing is said: JAX and Python warn that copies of processes with threads may wait for each other without end,
    and this one ends in time whatever it meets. To be called where no signal comes: it changes the filters of warnings for a while."""
    with warnings.catch_warnings():  # noqa: TID251  # no signal comes
        warnings.simplefilter("ignore")
        return os.fork()


def _ended(child: int, seconds: float) -> tuple[int, bool, float, int]:
    """How a copy ended, however it is stopped, at the latest after so long on the clock: the signal (0 if with none, or nobody
    knows), whether it was stopped here, its seconds of processor time and the most bytes that it held."""
    wait, most = _LOOKS
    end, is_late = time.monotonic() + seconds, False
    with contextlib.suppress(ChildProcessError), _waiter(child) as rest:  # somebody else took its status
        while True:
            if time.monotonic() > end and not is_late:
                os.kill(child, signal.SIGKILL)
                is_late = True
            ended, status, usage = os.wait4(child, os.WNOHANG)
            if ended:
                number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                held = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
                return number, is_late and number == signal.SIGKILL, usage.ru_utime + usage.ru_stime, held
            rest(wait)
            wait = min(2 * wait, most)
    return 0, is_late, 0.0, 0


@contextlib.contextmanager
def _waiter(child: int) -> Iterator[Callable[[float], object]]:
    """What waits for a copy's end, so many seconds at most; where the system cannot be asked for that, always as long."""
    try:
        place = os.pidfd_open(child)
    except (AttributeError, OSError):
        yield time.sleep
        return
    try:
        yield lambda seconds: select.select([place], [], [], seconds)
    finally:
        os.close(place)


def _in_copy(there: int, work: Callable[[], object], seconds: int, memory: int, expected: type[Exception]) -> None:
    told = _WELL
    try:
        # what the collector would find belongs to the other process, and this one ends with what it opened
        gc.disable()  # noqa: TID251
        faulthandler.disable()
        _limit(seconds, memory)
        nowhere = Path(os.devnull).open("r+", encoding="utf-8")  # noqa: SIM115
        for stream in (0, 1, 2):
            os.dup2(nowhere.fileno(), stream)
        sys.stdout = sys.stderr = nowhere  # a notebook's write elsewhere
        work()
    except expected:
        pass
    except BaseException as error:
        told = f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:_SAID]
    finally:
        try:
            os.write(there, told)
        finally:
            os._exit(0)


def _held_bytes() -> int:
    """What this process holds and a copy begins with: all but pages of files, which a copy gets when it reads them. 0 where nobody
    says."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return 0
    _, held, of_files = map(int, statm.read_text(encoding="ascii").split()[:3])
    return (held - of_files) * os.sysconf("SC_PAGE_SIZE")


def _limit(seconds: int, memory: int) -> None:
    import resource

    statm = Path("/proc/self/statm")
    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_CORE: 0}
    if statm.exists():
        has = int(statm.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        limits[resource.RLIMIT_AS] = has + memory
    for which, limit in limits.items():
        most = resource.getrlimit(which)[1]
        limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(which, (limit, limit))
