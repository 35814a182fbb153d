"""Work on other threads, and waiting for it, when an interrupt may come at any moment.

Python runs signal handlers on the main thread, between any two steps of it. A `Condition` that is waited on there loses its
lock and says "cannot release un-acquired lock" instead of KeyboardInterrupt; a library that has just freed something, and
has not noted it yet, frees it again later. So delicate work is done on a thread that no signal reaches (`undisturbed`), and
who has lent memory to other threads waits until they are done, interrupted or not (`finish`), or takes it back (`Lending`).
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from types import FrameType
from typing import Any, Final, TypeVar

__all__ = ["Lending", "finish", "is_interrupt", "put_off", "undisturbed"]

T = TypeVar("T")

_LOOK: Final = 1e-4
"""Seconds between two looks at whether work that was begun has ended."""
_PATIENCE: Final = 1.0
"""Seconds after which a thread that has done nothing yet is not waited for."""


def undisturbed(work: Callable[[], T]) -> T:
    """What `work` gives, or the error that it ends in, from a thread that no signal interrupts. An interrupt that comes
    meanwhile is raised when the work is done.

    >>> undisturbed(lambda: threading.current_thread() is threading.main_thread())
    False
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    errors: list[BaseException] = []
    turn, done = _thread.allocate_lock(), _thread.allocate_lock()
    done.acquire()

    def run() -> None:
        if not turn.acquire(False):
            return
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.release()

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # the process ends, or has no memory for another thread
        return work()
    interrupt: KeyboardInterrupt | None = None
    while not results and not errors:
        try:
            if not done.acquire(timeout=_PATIENCE) and turn.acquire(False):
                return work()  # the thread had no memory to begin with
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
    if errors:
        raise errors.pop()
    return results[0]


def put_off(work: Callable[[], T]) -> T:
    """What a call gives whose code, not ours, must not be interrupted half-way, and cannot go to another thread. Ctrl-C is
    heeded when it is done; a second one at once.

    >>> put_off(lambda: signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    False
    """
    heed = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(heed):
        return work()
    heard: list[tuple[int, FrameType | None]] = []

    def note(number: int, frame: FrameType | None) -> None:
        heard.append((number, frame))
        if len(heard) > 1:
            heed(number, frame)

    try:
        signal.signal(signal.SIGINT, note)
        return work()
    finally:
        signal.signal(signal.SIGINT, heed)  # the first call here: nothing comes between
        if heard:
            heed(*heard[0])


def finish(jobs: Sequence[Future[Any]]) -> None:
    """Wait until all are done, also when interrupted; then raise the interrupt."""
    interrupt: KeyboardInterrupt | None = None
    for job in jobs:
        while not job.done():
            try:
                wait([job])
            except (KeyboardInterrupt, RuntimeError) as error:
                if not is_interrupt(error):
                    raise
                interrupt = KeyboardInterrupt()
    if interrupt is not None:
        raise interrupt


class Lending:
    """Work with memory of the caller's on other threads, that is never done after the caller has taken the memory back.

    An interrupt may come when a job is on its way and its future is not in anyone's hands yet; so the work itself says that
    it is begun and that it has ended.

    >>> done, lending = [], Lending()
    >>> lending.work(done.append, 1)
    >>> lending.take_back()
    >>> lending.work(done.append, 2)
    >>> done
    [1]
    """

    def __init__(self) -> None:
        self._begun: list[None] = []
        self._ended: list[None] = []
        self._over = False

    def work(self, function: Callable[..., object], *args: object) -> None:
        """Call a function, on any thread; no longer when the memory has been taken back."""
        self._begun.append(None)  # before the look at `_over`: who sets that sees this, or is seen
        try:
            if not self._over:
                function(*args)
        finally:
            self._ended.append(None)

    def take_back(self) -> None:
        """Wait until all work that was begun has ended, however often interrupted; none begins after that."""
        while True:
            try:
                self._over = True
                while len(self._ended) < len(self._begun):
                    time.sleep(_LOOK)
            except KeyboardInterrupt:
                continue
            return


def is_interrupt(error: BaseException) -> bool:
    """Whether an error is an interrupt, or what a condition of Python's has made of one."""
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt)
