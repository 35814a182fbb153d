"""A trial takes nobody with it: crashes, hangs and wants of memory end in its own error, and leave no process and no file open."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from irscope._base.concurrency.trial import TrialError, tried

if sys.platform != "linux":
    pytest.skip("the limits are told as Linux has them", allow_module_level=True)


def _open_files() -> set[str]:
    return {str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.exists()}


def _children() -> set[str]:
    """The numbers of the child processes, ended ones that nobody waited for included; other tests may have left some."""
    return {number for task in Path("/proc/self/task").iterdir() for number in (task / "children").read_text().split()}


def _busy() -> None:
    while True:
        pass


def _raises() -> None:
    raise ValueError("as the caller will see")


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (lambda: ctypes.string_at(0), "crashes with signal 11"), (os.abort, "crashes with signal 6"), (_busy, "takes over 1 s"),
        (lambda: bytearray(1 << 32), "MemoryError"), (lambda: 1 // 0, "ZeroDivisionError: integer"),
        (lambda: os._exit(3), "ends its own process, with exit code 3"),
        (lambda: os.closerange(3, 200), "with exit code 0, or closes"), (lambda: sys.exit(2), "SystemExit: 2"),
        (lambda: os.kill(os.getppid(), 0) or os.kill(os.getpid(), signal.SIGKILL), "was killed from outside, as systems"),
    ],
)  # fmt: skip
def test_what_becomes_of_bad_work(work: Callable[[], object], told: str) -> None:
    before, mask, children = _open_files(), signal.pthread_sigmask(signal.SIG_BLOCK, ()), _children()
    with pytest.raises(TrialError, match=told):
        tried(work, seconds=1, memory=1 << 30, expected=ValueError)
    assert _open_files() == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
    assert _children() <= children


def _takes_most_and_aborts() -> None:
    taken = bytearray(800 << 20)
    os.abort() if taken else None


@pytest.mark.parametrize(("work", "is_memory"), [(_takes_most_and_aborts, True), (os.abort, False)])
def test_an_abort_near_the_limit_is_a_want_of_memory(work: Callable[[], object], is_memory: bool) -> None:
    """As C++ ends where it gets none."""
    with pytest.raises(TrialError, match="crashes with signal 6") as told:
        tried(work, seconds=5, memory=1 << 30, expected=ValueError)
    assert told.value.is_memory is is_memory


def test_good_work_and_what_the_caller_meets_himself(capfd: pytest.CaptureFixture[str]) -> None:
    done: list[int] = []
    tried(lambda: (done.append(1), print("not heard", flush=True)), seconds=5, memory=1 << 30, expected=ValueError)
    tried(_raises, seconds=5, memory=1 << 30, expected=ValueError)
    assert done == []  # in the copy alone
    assert capfd.readouterr() == ("", "")


def test_where_children_are_not_waited_for() -> None:
    """A program may say that it does not care how its children end."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        tried(lambda: None, seconds=5, memory=1 << 30, expected=ValueError)
        with pytest.raises(TrialError):
            tried(os.abort, seconds=5, memory=1 << 30, expected=ValueError)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_nothing_is_said_of_the_fork() -> None:
    """JAX warns at every fork, once it is imported; here a hook stands for it, which nobody can take back."""
    program = """
import os, warnings
from irscope._base.concurrency.trial import tried
warnings.simplefilter("always")
os.register_at_fork(before=lambda: warnings.warn("a deadlock", RuntimeWarning))
tried(lambda: None, seconds=5, memory=1 << 30, expected=ValueError)
warnings.warn("heard", UserWarning)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "deadlock" not in run.stderr
    assert "heard" in run.stderr
