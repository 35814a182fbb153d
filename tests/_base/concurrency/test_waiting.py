"""Waiting for other threads while interrupts come."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time

import pytest

from irscope._base.concurrency import waiting
from irscope._base.concurrency.waiting import Errand, Workers, join, put_off, run_uninterruptible, side_by_side


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
            run_uninterruptible(work)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert done == [False]


def test_errors_come_back() -> None:
    with pytest.raises(ValueError, match="no"):
        run_uninterruptible(lambda: int("no"))


@pytest.mark.parametrize("dies", [False, True], ids=["cannot start", "dies at once"])
def test_without_a_thread_the_work_is_done_here(dies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(function: object, arguments: object) -> None:
        if not dies:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", start)
    monkeypatch.setattr(waiting, "_PATIENCE", 0.01)
    assert run_uninterruptible(lambda: threading.current_thread() is threading.main_thread())


def test_who_joins_waits_to_the_end_however_often_interrupted() -> None:
    go, done = threading.Event(), list[bool]()

    class Impatient(Errand):
        interrupts = 3

        def has_ended(self, seconds: float = -1) -> bool:
            if self.interrupts:
                self.interrupts -= 1
                raise KeyboardInterrupt
            go.set()
            return super().has_ended(seconds)

    def work() -> None:
        go.wait(10)
        done.append(True)

    errand = Impatient(work)
    threading.Thread(target=errand.run).start()
    while not errand._owner:
        time.sleep(1e-3)
    with pytest.raises(KeyboardInterrupt):
        join([errand])
    assert done


def test_what_was_taken_back_is_never_done() -> None:
    done: list[int] = []
    errand = Errand(lambda: done.append(1))
    join([errand])
    join([errand])
    errand.run()
    assert not done


@pytest.mark.parametrize("dies", [False, True], ids=["cannot start", "dies at once"])
def test_without_threads_all_jobs_are_done_here(dies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(function: object, arguments: object) -> int:
        if not dies:
            raise RuntimeError("can't start new thread")
        return 0

    monkeypatch.setattr(_thread, "start_new_thread", start)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    done: list[int] = []
    side_by_side([lambda number=number: done.append(number) for number in range(9)])
    assert done == list(range(9))
    workers, errands = Workers(3), [Errand(lambda: done.append(9)) for _ in range(40)]
    for errand in errands:
        workers.ask([errand])
    join(errands)
    assert len(done) == 9 and workers._errands.qsize() < 9


def test_when_a_job_fails_the_rest_is_left_out() -> None:
    done: list[int] = []
    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: 1 // 0, *[lambda: time.sleep(1e-3) or done.append(1)] * 200])
    assert len(done) < 200


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
