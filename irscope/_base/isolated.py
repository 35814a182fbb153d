"""Runs work that may crash, hang or take all memory in a copy of this process, which is forked for it and is gone afterwards.

Readers of foreign formats abort on some damaged files, and models take what they like. The copy has everything that is imported
here, one thread, limits of processor time and memory, no signals and no output; it ends without finalisers. So the
work costs some milliseconds more, and what becomes of it is an exception here. It protects from accidents, not from attacks: the copy
may do all that this process may.
"""

import faulthandler
import gc
import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

from irscope._base.words import byte_count

_CAN_FORK: Final = hasattr(os, "fork") and sys.platform.startswith(("linux", "darwin", "freebsd"))
_MOST_TEXT: Final = 1000
"""The most characters reported of an exception."""
_NEAR: Final = 0.6
"""The share of its memory limit above which an abort counts as running out of memory: so ends C++ that gets none."""


class IsolatedError(Exception):
    """Raised if the work crashed, exceeded a limit, ended its process or raised an exception; the text says which, as the rest of a
    sentence about it: "takes over 4 s"."""

    def __init__(self, what: str, kind: Literal["crash", "error", "exit", "memory", "time"]) -> None:
        super().__init__(what)
        self.kind = kind
        """"error" for an exception, "exit" if it ended its process, "memory" also if the system killed it, as systems that run out
        of memory do."""


def isolated(work: Callable[[], Any], *, seconds: int, memory: int | None = None) -> Any:
    """The result of `work()`, computed in a forked copy of this process: None, or anything that JSON can write.

    `seconds` limit its processor time; on the clock it may take four times as long and 30 seconds more, since other programs
    occupy the processors too. `memory` limits, in bytes, what it takes beyond what this process has. Any thread may call it; Ctrl-C here
    ends the copy. On a system that cannot fork (Windows) the work runs here, without limits.

    Raises IsolatedError.
    """
    if not _CAN_FORK:
        try:
            return work()
        except Exception as error:
            raise _raised(_text_of(error)) from error
    held = _held_bytes()
    here, there = os.pipe()
    copy = 0
    try:
        # No signal handler may raise before the copy is known here, nor in it: it would go on as a second instance of this program.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGXCPU})
        try:
            copy = _fork()
            if not copy:
                _run(there, work, seconds, memory)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(there)
        there = -1
        message, code, is_late, usage = _outcome(copy, here, 4 * seconds + 30)
        copy = 0
    finally:
        os.close(here)
        if there >= 0:
            os.close(there)
        if copy:  # interrupted
            with suppress(OSError):
                os.kill(copy, signal.SIGKILL)
                os.waitpid(copy, 0)
    with suppress(ValueError):  # it is not whole
        answer = json.loads(message)
        if "error" in answer:
            raise _raised(answer["error"])
        return answer["result"]
    spent, most = (usage.ru_utime + usage.ru_stime, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)) if usage else (0, 0)
    raise _failure(code, is_late or spent > seconds, seconds, max(most - held, 0), memory)


def _fork() -> int:
    with warnings.catch_warnings():  # JAX and Python warn that a fork of threads may hang; this one would end in time
        warnings.simplefilter("ignore")
        return os.fork()


def _run(there: int, work: Callable[[], Any], seconds: int, memory: int | None) -> NoReturn:
    """Run the work in the copy, write its outcome and end the process, whatever happens."""
    try:
        gc.disable()  # it would finalise objects of the other process
        faulthandler.disable()
        _limit(seconds, memory)
        nowhere = Path(os.devnull).open("r+", encoding="utf-8")  # noqa: SIM115
        for stream in (0, 1, 2):
            os.dup2(nowhere.fileno(), stream)
        sys.stdout = sys.stderr = nowhere  # a notebook's streams do not write to these descriptors
        message = json.dumps({"result": work()})
    except BaseException as error:
        message = json.dumps({"error": _text_of(error)})
    try:
        with open(there, "wb") as pipe:
            pipe.write(message.encode())
    finally:
        os._exit(0)


def _outcome(copy: int, here: int, seconds: float) -> tuple[bytes, int | None, bool, Any]:
    """Wait for a copy to end, and kill it after so many seconds. Returns what it wrote, its exit code (minus the signal that ended
    it; None if unknown), whether it was killed here, and the resources that it used."""
    os.set_blocking(here, False)
    message, is_open, wait = bytearray(), True, 0.001
    end, is_late = time.monotonic() + seconds, False
    while True:
        if is_open:
            select.select([here], [], [], wait)
        else:
            time.sleep(wait)
        wait = min(2 * wait, 0.05)
        if time.monotonic() > end and not is_late:
            is_late = True
            with suppress(OSError):
                os.kill(copy, signal.SIGKILL)
        try:
            ended, status, usage = os.wait4(copy, os.WNOHANG)
        except ChildProcessError:  # other code took its status
            ended, status, usage = copy, None, None
        with suppress(BlockingIOError):  # read what it wrote, after asking whether it has ended
            while part := os.read(here, 1 << 16):
                message += part
            is_open = False
        if ended:
            code = None if status is None else os.waitstatus_to_exitcode(status)
            return bytes(message), code, is_late and code == -signal.SIGKILL, usage


def _failure(code: int | None, is_late: bool, seconds: int, most: int, memory: int | None) -> IsolatedError:
    """The error for a copy that ended without a message. What kills it from outside is in practice a system without memory."""
    status = -(code or 0)
    if is_late or status == signal.SIGXCPU:
        return IsolatedError(f"takes over {seconds} s", "time")
    if status <= 0:
        how = "" if code is None else f", with exit code {code}"
        return IsolatedError(f"ends its own process{how}, or closes files that it did not open", "exit")
    if status == signal.SIGKILL:
        what = f"was killed from outside, as systems that run out of memory do, after it had taken {byte_count(most)}"
        return IsolatedError(what, "memory")
    what = f"crashes with signal {status}"
    if memory is None or status != signal.SIGABRT or most < _NEAR * memory:
        return IsolatedError(what, "crash")
    what += f" after it had taken {byte_count(most)} of the {byte_count(memory)} of memory that it may take"
    return IsolatedError(what, "memory")


def _raised(text: str) -> IsolatedError:
    return IsolatedError(f"raises {text}", "memory" if text.startswith("MemoryError") else "error")


def _text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_MOST_TEXT]


def _held_bytes() -> int:
    """The bytes that this process holds and a copy starts with, without file pages, which a copy gets when it reads them; 0 if unknown."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return 0
    _, held, of_files = map(int, statm.read_text(encoding="ascii").split()[:3])
    return (held - of_files) * os.sysconf("SC_PAGE_SIZE")


def machine_memory() -> int:
    """The bytes of memory of the machine; 1 TiB where the system does not say."""
    with suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 1 << 40


def _limit(seconds: int, memory: int | None) -> None:
    import resource

    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_CORE: 0}  # the first sends SIGXCPU
    statm = Path("/proc/self/statm")
    if memory is not None and statm.exists():  # macOS has this limit, and refuses to set it
        limits[resource.RLIMIT_AS] = int(statm.read_text(encoding="ascii").split()[0]) * resource.getpagesize() + memory
    for which, limit in limits.items():
        most = resource.getrlimit(which)[1]
        limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
        with suppress(ValueError, OSError):  # a system that refuses limits
            resource.setrlimit(which, (limit, most))
