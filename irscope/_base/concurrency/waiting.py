"""Runs work on other threads, and waits for it, although an interrupt may arrive at any moment.

Python runs signal handlers on the main thread, between any two of its steps. A `Condition` that waits there loses its
lock, and a thread pool with it; a library that has just freed something, and has not recorded it yet, frees it again later.
So delicate work runs on a thread that no signal reaches (`run_uninterruptible`), and a thread that has lent memory to others waits
until they are done, interrupted or not (`join`). No thread waits for one that has not started: there may be no memory for it.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final, TypeVar

__all__ = ["Errand", "Workers", "join", "put_off", "side_by_side", "run_uninterruptible"]

T = TypeVar("T")

_PATIENCE: Final = 1.0
"""Seconds after which a thread that has not started is no longer waited for."""


class Errand:
    """Work for another thread, which never runs if it is taken back before that thread has started it."""

    __slots__ = ("_done", "_errors", "_owner", "_results", "_work")

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._owner: dict[str, str] = {}
        self._done = _thread.allocate_lock()
        self._done.acquire()
        self._results: list[Any] = []
        self._errors: list[BaseException] = []

    def start(self) -> Errand:
        """Start a new thread with this one's context. It never starts if there is no memory for it, or the process ends."""
        with suppress(RuntimeError):
            _thread.start_new_thread(copy_context().run, (self.run,))
        return self

    def run(self) -> None:
        """Run the work, unless it was taken back."""
        if self._owner.setdefault("owner", "runs") != "runs":
            return
        try:
            self._results.append(self._work())
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._done.release()

    def take_back(self) -> bool:
        """Take the work back; returns whether it had not started, and never will. May be called again."""
        return self._owner.setdefault("owner", "taken back") != "runs"

    def has_ended(self, seconds: float = -1) -> bool:
        """Wait for the end for a number of seconds, by default without a limit; returns whether the work has ended."""
        return bool(self._results or self._errors) or self._done.acquire(timeout=seconds)

    def result(self) -> Any:
        """The result of the work; raises the error that it ended in."""
        if self._errors:
            raise self._errors.pop()
        return self._results[0]


def run_uninterruptible(work: Callable[[], T]) -> T:
    """The result of `work`, or its error, from a thread that no signal interrupts. An interrupt that arrives
    meanwhile is raised when the work is done.

    >>> run_uninterruptible(lambda: threading.current_thread() is threading.main_thread())
    False
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    errand = Errand(work).start()
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            if errand.has_ended(_PATIENCE):
                break
            if errand.take_back():
                return work()  # the thread could not start
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
    result: T = errand.result()
    return result


def side_by_side(jobs: Iterable[Callable[[], object]]) -> None:
    """Run all jobs, on as many threads as there are processors, or as can be started. If one fails, or is interrupted, those that
    have not started are skipped, and its error is raised.

    >>> done = []
    >>> side_by_side([lambda: done.append(1), lambda: done.append(2)])
    >>> sorted(done)
    [1, 2]
    """
    left, errors = deque(jobs), list[BaseException]()

    def help() -> None:
        while left and not errors:
            with suppress(IndexError):  # another thread has taken the last one
                job = left.popleft()
                try:
                    job()
                except BaseException as error:
                    errors.append(error)

    helpers = [Errand(help) for _ in range(min(len(left), os.cpu_count() or 1) - 1)]
    try:
        for helper in helpers:
            helper.start()
        help()
        join(helpers)
    except KeyboardInterrupt as error:
        errors.append(error)
        join(helpers)
    if errors:
        raise errors[0]


def join(errands: Sequence[Errand]) -> None:
    """Wait until the started errands are done, however often interrupted, then raise the interrupt; no other one starts."""
    interrupt: KeyboardInterrupt | None = None
    for errand in errands:
        while True:
            try:
                if errand.take_back() or errand.has_ended():
                    break
            except KeyboardInterrupt as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt


def put_off(work: Callable[[], T]) -> T:
    """The result of a call into foreign code that must not be interrupted half-way, and cannot run on another thread. Ctrl-C
    takes effect when the call is done; a second one takes effect at once.

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
        signal.signal(signal.SIGINT, heed)  # the first call here: nothing can intervene
        if heard:
            heed(*heard[0])


class Workers:
    """Persistent threads, for work too short to start a thread for it: as many as requested, or as can be started.

    They start when there is something to do; a forked process gets its own.

    >>> errand = Errand(lambda: 6 * 7)
    >>> Workers(1).ask([errand])
    >>> errand.has_ended() and errand.result()
    42
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._process = 0
        self._errands: SimpleQueue[Errand | None] = SimpleQueue()
        self._begun: list[int] = []

    def ask(self, errands: Sequence[Errand]) -> None:
        """Hand errands out. The caller must join them, and do those that were not started."""
        if self._process != os.getpid():
            self._process, self._errands, self._begun = os.getpid(), SimpleQueue(), []
        try:
            while len(self._begun) < self._count:
                self._begun.append(_thread.start_new_thread(_serve, (self._errands,)))
        except RuntimeError:  # no memory, or the process ends
            if not self._begun:
                return
        if self._errands.qsize() <= self._count:  # else the threads died before they started
            for errand in errands:
                self._errands.put(errand)

    def __del__(self) -> None:
        for _ in self._begun:
            self._errands.put(None)


def _serve(errands: SimpleQueue[Errand | None]) -> None:
    while (errand := errands.get()) is not None:
        errand.run()
        del errand
