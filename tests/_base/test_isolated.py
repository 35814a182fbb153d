"""Isolated work that crashes, hangs, ends its process or takes all memory is an IsolatedError, and leaves no process and no open file."""

import _thread
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from irscope._base.isolated import IsolatedError, isolated

if sys.platform != "linux":
    pytest.skip("the limits are told as Linux has them", allow_module_level=True)


def _open_files() -> set[str]:
    return {str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.exists()}


def _children() -> set[str]:
    """The numbers of the child processes, ended ones that were not waited for included; other tests may have left some."""
    return {number for task in Path("/proc/self/task").iterdir() for number in (task / "children").read_text().split()}


def _busy() -> None:
    while True:
        pass


@pytest.mark.parametrize(("work", "told"), [
    (lambda: ctypes.string_at(0), "crashes with signal 11"), (os.abort, "crashes with signal 6"), (_busy, "takes over 1 s"),
    (lambda: bytearray(1 << 32), "raises MemoryError"), (lambda: 1 // 0, "raises ZeroDivisionError: integer"),
    (lambda: os._exit(3), "ends its own process, with exit code 3"),
    (lambda: os.closerange(3, 200), "with exit code 0, or closes"), (lambda: sys.exit(2), "SystemExit: 2"),
    (lambda: os.kill(os.getppid(), 0) or os.kill(os.getpid(), signal.SIGKILL), "was killed from outside, as systems"),
])  # fmt: skip
def test_what_becomes_of_bad_work(work: Callable[[], object], told: str) -> None:
    before, mask, children = _open_files(), signal.pthread_sigmask(signal.SIG_BLOCK, ()), _children()
    with pytest.raises(IsolatedError, match=told):
        isolated(work, seconds=1, memory=1 << 30)
    assert _open_files() == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
    assert _children() <= children


def _takes_most_and_aborts() -> None:
    taken = bytearray(800 << 20)
    os.abort() if taken else None


def test_good_work_returns_its_result_and_nothing_else_happens_here(capfd: pytest.CaptureFixture[str]) -> None:
    done: list[int] = []
    before = _open_files()
    work = lambda: (done.append(1), print("not heard", flush=True), "x" * 1_000_000)  # noqa: E731
    assert isolated(work, seconds=60, memory=1 << 30) == [None, None, "x" * 1_000_000]
    assert done == []  # in the copy alone
    assert capfd.readouterr() == ("", "")
    assert _open_files() == before


@pytest.mark.parametrize(
    ("work", "kind"),
    [(os.abort, "crash"), (_busy, "time"), (_takes_most_and_aborts, "memory"), (lambda: int("x"), "error"), (lambda: os._exit(0), "exit")],
)
def test_the_error_says_of_which_kind_it_is(work: Callable[[], object], kind: str) -> None:
    with pytest.raises(IsolatedError) as error:
        isolated(work, seconds=1 if work is _busy else 30, memory=1 << 30)  # a busy machine takes long to fill memory
    assert error.value.kind == kind


def test_what_cannot_be_written_as_json_is_an_error() -> None:
    with pytest.raises(IsolatedError, match="raises TypeError: Object of type object"):
        isolated(object, seconds=60)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_copy() -> None:
    children = _children()

    def pressed() -> None:
        threading.Timer(0.2, _thread.interrupt_main).start()
        isolated(lambda: time.sleep(60), seconds=60)

    with pytest.raises(KeyboardInterrupt):
        pressed()
    assert _children() <= children


def test_where_children_are_not_waited_for() -> None:
    """A program may say that it does not care how its children end."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        isolated(lambda: None, seconds=60, memory=1 << 30)
        with pytest.raises(IsolatedError):
            isolated(os.abort, seconds=60, memory=1 << 30)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_nothing_is_said_of_the_fork() -> None:
    """JAX warns at every fork, once it is imported; here a hook stands for it, which cannot be removed."""
    program = """
import os, warnings
from irscope._base.isolated import isolated
warnings.simplefilter("always")
os.register_at_fork(before=lambda: warnings.warn("a deadlock", RuntimeWarning))
isolated(lambda: None, seconds=60, memory=1 << 30)
warnings.warn("heard", UserWarning)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "deadlock" not in run.stderr and "heard" in run.stderr
