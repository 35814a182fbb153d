"""Work on other threads, Ctrl-C that waits, and work without the collector."""

import _thread
import gc
import signal
import sys
import threading
import time
from contextlib import closing

import pytest

from irscope._base.running import interrupts_deferred, run_together, without_collector


def test_errors_are_raised_here() -> None:
    with pytest.raises(ValueError, match="no"):
        list(run_together([lambda: int("no")]))


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
@pytest.mark.parametrize(("times", "however_often"), [(1, False), (2, False), (2, True)])
@pytest.mark.usefixtures("ctrl_c")
def test_the_first_interrupt_is_deferred_and_the_second_only_if_asked(times: int, however_often: bool) -> None:
    done: list[int] = []

    def work() -> None:
        with interrupts_deferred(however_often=however_often):
            for turn in range(times):
                signal.raise_signal(signal.SIGINT)
                done.append(turn)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ([0, 1] if however_often else [0]), "all of it, or up to the second one"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no such signal there")
def test_a_time_limit_that_raises_lets_native_work_end_first() -> None:
    done: list[int] = []

    def limit(number: int, frame: object) -> None:
        raise TimeoutError

    def work() -> None:
        with interrupts_deferred(however_often=True):
            signal.raise_signal(signal.SIGALRM)
            done.append(1)

    before = signal.signal(signal.SIGALRM, limit)
    try:
        with pytest.raises(TimeoutError):
            work()
        assert done and signal.getsignal(signal.SIGALRM) is limit
    finally:
        signal.signal(signal.SIGALRM, before)


def test_jobs_after_a_failed_one_are_dropped() -> None:
    done: list[int] = []
    with pytest.raises(ZeroDivisionError):
        list(run_together([lambda: 1 // 0, *[lambda: time.sleep(0.05) or done.append(1)] * 2000]))
    assert len(done) < 2000


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_waits_for_running_jobs_only() -> None:
    done: list[int] = []
    all_given = threading.Event()

    def press() -> None:
        all_given.wait(60)
        _thread.interrupt_main()

    def sleep() -> None:
        time.sleep(0.02)
        done.append(1)

    def consume() -> None:
        with closing(run_together([sleep, press, *[sleep] * 2000])) as results:
            for _ in results:  # the first comes when all threads have started
                all_given.set()

    with pytest.raises(KeyboardInterrupt):
        consume()
    count = len(done)
    time.sleep(0.1)
    assert count == len(done) < 2000


def test_the_collector_runs_again_after_an_error_but_not_if_it_was_stopped() -> None:
    with pytest.raises(ZeroDivisionError), without_collector():
        1 // int(gc.isenabled())
    assert gc.isenabled()
    gc.disable()
    try:
        with without_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
