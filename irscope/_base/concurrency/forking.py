"""Libraries that must not be in the middle of something when the process is forked.

A child has one thread, and the memory as all threads had left it: a lock that another thread held then is held for ever. Locks
of Python can be made anew, those inside of a library cannot. So a process is forked when no thread is inside, for which the
forking thread waits a while; if it waits in vain, the child says so instead of hanging.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar
from weakref import WeakSet

__all__ = ["Library", "renewed_in_child"]

T = TypeVar("T")

_PATIENCE: Final = 4.0
"""Seconds that a fork waits at most."""
_LOOK: Final = 1e-3


class Library:
    """Which threads are inside of a library."""

    def __init__(self) -> None:
        self._inside: list[int] = []
        self._entrance = threading.RLock()
        self.is_broken = False
        """Whether this process was forked while another thread was inside."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._empty, after_in_parent=self._open, after_in_child=self._begin)

    def call(self, work: Callable[[], T]) -> T:
        """What a call of the library gives; no process is forked meanwhile.

        >>> Library().call(lambda: 1)
        1
        """
        here = threading.get_ident()
        if here in self._inside:
            return work()
        try:
            with self._entrance:
                self._inside.append(here)
            return work()
        finally:
            while here in self._inside:
                self._inside.remove(here)

    def _empty(self) -> None:
        """Let nobody in, and wait until all others are out."""
        self._entrance.acquire()
        end = time.monotonic() + _PATIENCE
        while set(self._inside) - {threading.get_ident()} and time.monotonic() < end:
            time.sleep(_LOOK)

    def _open(self) -> None:
        self._entrance.release()

    def _begin(self) -> None:
        here = threading.get_ident()
        self.is_broken |= bool(set(self._inside) - {here})
        self._inside = [thread for thread in self._inside if thread == here]
        self._entrance = threading.RLock()


def renewed_in_child(holder: Any) -> None:
    """Give `holder._lock` a new lock in each process that is forked from this one."""
    _HOLDERS.add(holder)


_HOLDERS: Final[WeakSet[Any]] = WeakSet()


def _renew() -> None:
    for holder in list(_HOLDERS):
        holder._lock = type(holder._lock)()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
