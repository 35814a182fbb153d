"""Tries work that may kill the process in a forked copy first: third-party file readers crash on some damaged files."""

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
"""How many times its processor time a copy may take on the clock: other programs may occupy the processors."""
_LOOKS: Final = (0.001, 0.05)
"""Seconds between two polls of the copy, at first and at most."""
_WELL: Final = b"well"
_SAID: Final = 1000
"""The most bytes reported of an exception; a pipe takes them without waiting for a reader."""


class TrialError(Exception):
    """Raised if the work did not end, crashed, or raised an unexpected exception; says which."""

    is_memory: bool = False
    """Whether it most likely ran out of memory: the system killed it, or it crashed near its limit."""


def tried(
    work: Callable[[], object], *, seconds: int, memory: int, expected: type[Exception], patience: float = _PATIENCE
) -> None:
    """Run work in a forked process with limits on its processor time, and on its memory beyond that of this process, in bytes.

    On the clock it may take `patience` times as long.

    The copy has one thread and no signals, opens no files of its own, and ends without finalisers. If the system cannot
    fork, nothing is done. Raises TrialError if the copy dies or takes too long, or if the work raises an exception other
    than `expected`, which the caller will get when it runs the work itself.

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
        try:  # no signal handler may raise in the copy: it would continue as a second instance of this program
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            child = _forked()
            if not child:
                _in_copy(there, work, seconds, memory, expected)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        code, is_late, spent, most = _ended(child, patience * seconds)
        os.set_blocking(here, False)
        with contextlib.suppress(BlockingIOError):
            message = os.read(here, _SAID)
            if message == _WELL:
                return
            if message:
                raise TrialError(message.decode("utf-8", "replace"))
        raise _ending(code, is_late or spent > 0.9 * seconds, seconds, max(most - held, 0), memory)
    finally:
        os.close(here)
        os.close(there)
        if child:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _ending(code: int | None, is_late: bool, seconds: int, most: int, memory: int) -> TrialError:
    """The error for a copy that ended without a message, with this exit code, or by the signal of which it is the negative.

    The work may end its process itself (`os._exit`), or close the pipe for the message along with all others. Exceeding the
    processor time ends in its own signal, or in SIGKILL if the work handles that one. Any other SIGKILL came from outside: in practice
    from a system that ran out of memory. Libraries that get no memory abort, which looks like a crash; by then the copy uses most of
    its limit.
    """
    status = -(code or 0)
    if is_late or status == getattr(signal, "SIGXCPU", -1):
        return TrialError(f"takes over {seconds} s")
    if status <= 0:
        how = "" if code is None else f", with exit code {code}"
        return TrialError(f"ends its own process{how}, or closes files that it did not open")
    if status == getattr(signal, "SIGKILL", 0):
        error = TrialError(f"was killed from outside, as systems that run out of memory do, after it had taken {byte_count(most)}")
    else:
        error = TrialError(f"crashes with signal {status}")
        if status != getattr(signal, "SIGABRT", 0) or most < _NEAR * memory:
            return error
        error = TrialError(f"{error} after it had taken {byte_count(most)} of the {byte_count(memory)} of memory that it may take")
    error.is_memory = True
    return error


_NEAR: Final = 0.6
"""The share of its memory limit above which an abort of a copy counts as running out of memory."""


def _forked() -> int:
    """Fork without warnings: JAX and Python warn that forked processes with threads may deadlock, but this copy ends in time in any
    case. Call it only where no signal arrives: it changes the warning filters temporarily."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def _ended(child: int, seconds: float) -> tuple[int | None, bool, float, int]:
    """Wait for a copy to end, and kill it after a time on the clock; returns its exit code (minus the signal that ended it; None if it is
    unknown), whether it was killed here, its seconds of processor time and the most bytes that it held."""
    wait, most = _LOOKS
    end, is_late = time.monotonic() + seconds, False
    with contextlib.suppress(ChildProcessError), _waiter(child) as rest:  # other code took its status
        while True:
            if time.monotonic() > end and not is_late:
                os.kill(child, signal.SIGKILL)
                is_late = True
            ended, status, usage = os.wait4(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                held = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
                return code, is_late and code == -signal.SIGKILL, usage.ru_utime + usage.ru_stime, held
            rest(wait)
            wait = min(2 * wait, most)
    return None, is_late, 0.0, 0


@contextlib.contextmanager
def _waiter(child: int) -> Iterator[Callable[[float], object]]:
    """A function that waits for a copy's end for at most some seconds; if the system cannot do that, it always sleeps as long."""
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
    message = _WELL
    try:
        # the collector would find objects of the other process, and this one ends without cleaning up
        gc.disable()
        faulthandler.disable()
        _limit(seconds, memory)
        nowhere = Path(os.devnull).open("r+", encoding="utf-8")  # noqa: SIM115
        for stream in (0, 1, 2):
            os.dup2(nowhere.fileno(), stream)
        sys.stdout = sys.stderr = nowhere  # a notebook's streams do not write to these descriptors
        work()
    except expected:
        pass
    except BaseException as error:
        message = f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:_SAID]
    finally:
        try:
            os.write(there, message)
        finally:
            os._exit(0)


def _held_bytes() -> int:
    """The bytes that this process holds and a copy starts with, except file pages, which a copy gets when it reads them; 0 if
    unknown."""
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
