"""What a call changes for a whole process is as it was afterwards, whoever else changes it and whatever the call ends in."""

from __future__ import annotations

import gc
import sys
import threading

import pytest

from irscope._base.concurrency.restored import holding_the_lock, switching_often, to_stay


def test_what_stays_is_old_for_the_collector() -> None:
    kept = to_stay(lambda: [[number] for number in range(20_000)])
    young = {id(each) for generation in (0, 1) for each in gc.get_objects(generation)}
    assert young.isdisjoint(map(id, kept))
    assert gc.get_freeze_count() == 0
    assert gc.isenabled()


def test_what_another_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        to_stay(list)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_garbage_among_what_stays_is_collected_when_all_is() -> None:
    class Ring:
        alive = 0

        def __init__(self) -> None:
            self.itself = self
            Ring.alive += 1

        def __del__(self) -> None:
            Ring.alive -= 1

    def work() -> None:
        Ring()

    to_stay(work)
    gc.collect()
    assert Ring.alive == 0


def test_threads_take_turns_as_before_after_the_last_that_computes() -> None:
    before = sys.getswitchinterval()
    first_runs, second_ran = threading.Event(), threading.Event()
    seen: list[float] = []

    def first() -> None:
        first_runs.set()
        second_ran.wait(10)
        seen.append(sys.getswitchinterval())

    thread = threading.Thread(target=lambda: switching_often(first))
    thread.start()
    assert first_runs.wait(10)
    switching_often(lambda: seen.append(sys.getswitchinterval()))
    second_ran.set()
    thread.join()
    assert seen == pytest.approx([0.001, 0.001])
    assert sys.getswitchinterval() == pytest.approx(before)
    with pytest.raises(ZeroDivisionError):
        switching_often(lambda: 1 / 0)
    assert sys.getswitchinterval() == pytest.approx(before)


def test_who_holds_the_lock_is_not_interrupted_by_who_computes_beside_it() -> None:
    before = sys.getswitchinterval()
    runs, stop = threading.Event(), threading.Event()
    counted = [0]

    def beside() -> None:
        runs.set()
        while not stop.is_set():
            counted[0] += 1

    def short() -> int:
        first = counted[0]
        for _ in range(100_000):  # some milliseconds
            pass
        return counted[0] - first

    thread = threading.Thread(target=lambda: switching_often(beside))
    thread.start()
    try:
        assert runs.wait(10)
        taken = [holding_the_lock(short) for _ in range(5)]
        assert sorted(taken)[2] == 0, taken  # it may have waited for its turn already, and gets one then
        assert sys.getswitchinterval() == pytest.approx(0.001)
    finally:
        stop.set()
        thread.join()
    assert sys.getswitchinterval() == pytest.approx(before)


def test_a_call_that_switches_often_may_end_while_the_lock_is_held() -> None:
    before = sys.getswitchinterval()
    runs, stop = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: switching_often(lambda: (runs.set(), stop.wait(10))))
    thread.start()
    assert runs.wait(10)

    def short() -> None:
        stop.set()
        thread.join()  # lets it have the lock
        holding_the_lock(lambda: None)

    holding_the_lock(short)
    assert sys.getswitchinterval() == pytest.approx(before)
    with pytest.raises(ZeroDivisionError):
        holding_the_lock(lambda: 1 / 0)
    assert sys.getswitchinterval() == pytest.approx(before)
