"""One thread at a time, for work that others would do as well, and that does no harm when it is done twice.

A thread that has a turn may be interrupted: a signal's handler, or a finaliser that the collector runs, calls a program, and
that wants the same turn, or one that another thread has which waits for this one. Nobody would ever go on. So turns have
ranks. A thread waits only for turns of a higher rank than those that it has, as all orderly work does: then no circle of
threads that wait for each other can close. Who comes to a turn of the same rank or a lower one has interrupted such work,
and does its own without waiting. The rank goes along to threads that work for this one, since it is kept in the context.

A process that was forked has none of the threads that its turns were given to, and begins with new ones.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from enum import IntEnum
from typing import Final, TypeVar

__all__ = ["Rank", "Turn"]

T = TypeVar("T")


class Rank(IntEnum):
    """What turns are for, in the order in which work comes to them."""

    PROGRAM = 1
    GROUP = 2
    MODULE = 3
    KERNEL = 4
    ENTRY = 5
    BOOKS = 6


class Turn:
    """
    >>> turn = Turn(Rank.KERNEL)
    >>> turn.run(lambda: turn.run(lambda: "interrupted by itself"))
    'interrupted by itself'
    """

    __slots__ = ("_lock", "_process", "rank")

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self._lock = threading.RLock()
        self._process = os.getpid()

    def run(self, work: Callable[[], T]) -> T:
        """What the work gives: when no other thread has the turn, or at once if waiting could last for ever."""
        if _REACHED.get() >= self.rank:
            return work()
        if self._process != os.getpid():
            self._lock, self._process = threading.RLock(), os.getpid()
        return copy_context().run(self._run, work)  # after which the rank is what it was, whatever interrupts this

    def _run(self, work: Callable[[], T]) -> T:
        _REACHED.set(self.rank)  # first: what interrupts the wait must not wait for others
        with self._lock:
            return work()


_REACHED: Final[ContextVar[int]] = ContextVar("the highest rank of a turn that this thread has", default=0)
