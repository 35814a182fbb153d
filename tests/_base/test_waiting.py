"""Waiting for other threads while interrupts come."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from concurrent.futures import Future

import pytest

from irscope._base import waiting
from irscope._base.waiting import Lending, finish, is_interrupt, put_off, undisturbed


def interrupt(error: BaseException) -> BaseException:
    """What a condition of Python's makes of an interrupt."""
    error.__context__ = KeyboardInterrupt()
    return error


def test_who_waits_for_jobs_waits_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    job: Future[None] = Future()
    trouble = iter([KeyboardInterrupt(), interrupt(RuntimeError("cannot release un-acquired lock")), None])

    def interrupted_wait(jobs: list[Future[None]]) -> None:
        error = next(trouble)
        if error is not None:
            raise error
        job.set_result(None)

    monkeypatch.setattr(waiting, "wait", interrupted_wait)
    with pytest.raises(KeyboardInterrupt):
        finish([job])
    assert job.done()


def test_other_errors_are_no_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_wait(jobs: list[Future[None]]) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(waiting, "wait", broken_wait)
    with pytest.raises(RuntimeError, match="broken"):
        finish([Future()])
    assert not is_interrupt(RuntimeError())


@pytest.mark.skipif(sys.platform == "win32", reason="no timers there")
def test_work_is_done_to_its_end_before_an_interrupt_is_raised() -> None:
    done, go = [], threading.Event()

    def work() -> None:
        go.wait(0.2)
        done.append(threading.current_thread() is threading.main_thread())

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        with pytest.raises(KeyboardInterrupt):
            undisturbed(work)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert done == [False]


def test_errors_come_back() -> None:
    with pytest.raises(ValueError, match="no"):
        undisturbed(lambda: int("no"))


@pytest.mark.parametrize("dies", [False, True], ids=["cannot start", "dies at once"])
def test_without_a_thread_the_work_is_done_here(dies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(function: object, arguments: object) -> None:
        if not dies:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", start)
    monkeypatch.setattr(waiting, "_PATIENCE", 0.01)
    assert undisturbed(lambda: threading.current_thread() is threading.main_thread())


def test_memory_is_taken_back_when_all_work_with_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    lending, may_end, began = Lending(), threading.Event(), threading.Event()
    ended: list[bool] = []

    def work() -> None:
        began.set()
        may_end.wait(10)
        ended.append(True)

    def impatient(seconds: float) -> None:
        if not may_end.is_set():
            may_end.set()
            raise KeyboardInterrupt
        real_sleep(seconds)

    real_sleep = time.sleep
    monkeypatch.setattr(time, "sleep", impatient)
    thread = threading.Thread(target=lending.work, args=(work,))
    thread.start()
    began.wait(10)
    lending.take_back()
    assert ended
    lending.work(ended.clear)
    assert ended, "no work begins after that"
    thread.join()


def test_work_that_fails_has_ended() -> None:
    lending = Lending()
    with pytest.raises(ZeroDivisionError):
        lending.work(lambda: 1 / 0)
    lending.take_back()


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
@pytest.mark.parametrize("times", [1, 2])
def test_the_second_interrupt_is_not_put_off(times: int) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    done: list[int] = []

    def work() -> None:
        for turn in range(times):
            signal.raise_signal(signal.SIGINT)
            done.append(turn)

    try:
        with pytest.raises(KeyboardInterrupt):
            put_off(work)
        assert done == [0], "all of it, or up to the second one"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
