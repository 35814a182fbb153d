"""Ranked locks for work that other threads would repeat, and that may safely be done twice.

A thread that holds a turn may be interrupted: a signal handler, or a finaliser that the collector runs, calls a program, which
needs the same turn, or one held by another thread that waits for this one. That would be a deadlock. So turns have
ranks. A thread waits only for turns of a higher rank than those that it holds, as all regular work does: then no cycle of
threads that wait for each other can form. Code that reaches a turn of the same or a lower rank has interrupted such work,
and does its own without waiting. The rank is passed on to threads that work for this one, since it is kept in the context.

A forked process has none of the threads that hold its turns, and starts with new ones.
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
    """The kinds of turns, in the order in which work takes them."""

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
        """The result of the work, run when no other thread holds the turn, or at once if waiting could deadlock."""
        if _REACHED.get() >= self.rank:
            return work()
        if self._process != os.getpid():
            self._lock, self._process = threading.RLock(), os.getpid()
        return copy_context().run(self._run, work)  # restores the rank afterwards, whatever interrupts this

    def _run(self, work: Callable[[], T]) -> T:
        _REACHED.set(self.rank)  # first: code that interrupts the wait must not wait for others
        with self._lock:
            return work()


_REACHED: Final[ContextVar[int]] = ContextVar("the highest rank of a turn that this thread has", default=0)
