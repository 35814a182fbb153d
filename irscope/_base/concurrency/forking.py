"""Libraries that no thread may be inside of when the process is forked.

A child has one thread, and a copy of the memory at the fork: a lock that another thread held then is held for ever. Python
locks can be renewed, those inside a library cannot. So the forking thread waits for a limited time until no thread is inside;
if one still is, the child records it (`is_broken`) instead of hanging.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar
from weakref import ref

__all__ = ["Library", "renewed_in_child"]

T = TypeVar("T")

_PATIENCE: Final = 4.0
"""The most seconds that a fork waits."""
_LOOK: Final = 1e-3


class Library:
    """Tracks the threads inside a library. If it is `exclusive`, the others wait; Ctrl-C ends their wait."""

    def __init__(self, *, exclusive: bool = False) -> None:
        self._inside: list[int] = []
        self._entrance = threading.RLock()
        self._is_exclusive = exclusive
        self._forking: list[int] = []
        self.is_broken = False
        """Whether this process was forked while another thread was inside."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._empty, after_in_parent=self._open, after_in_child=self._begin)

    def call(self, work: Callable[[], T]) -> T:
        """The result of a call of the library; the process is not forked meanwhile.

        >>> Library().call(lambda: 1)
        1
        """
        here = threading.get_ident()
        if here in self._inside:
            return work()
        try:
            with self._entrance:
                self._inside.append(here)
                if self._is_exclusive:
                    return work()
            return work()
        finally:
            while here in self._inside:
                self._inside.remove(here)

    def _empty(self) -> None:
        """Block new calls, and wait until all other threads are out."""
        end = time.monotonic() + _PATIENCE
        if self._entrance.acquire(timeout=_PATIENCE):
            self._forking.append(threading.get_ident())
        while set(self._inside) - {threading.get_ident()} and time.monotonic() < end:
            time.sleep(_LOOK)

    def _open(self) -> None:
        here = threading.get_ident()
        if here in self._forking:
            self._forking.remove(here)
            self._entrance.release()

    def _begin(self) -> None:
        here = threading.get_ident()
        self.is_broken |= bool(set(self._inside) - {here})
        self._inside = [thread for thread in self._inside if thread == here]
        self._forking = []
        self._entrance = threading.RLock()


def renewed_in_child(holder: Any) -> None:
    """Give `holder._lock` a new lock in each process that is forked from this one."""
    _HOLDERS.append(ref(holder))
    for _ in range(2):
        oldest = _HOLDERS.popleft()
        if oldest() is not None:
            _HOLDERS.append(oldest)


_HOLDERS: Final[deque[ref[Any]]] = deque()
"""Those that are alive, and some that are gone. Unlike a `WeakSet`, it runs no Python when one is freed, where a Ctrl-C would be lost."""


def _renew() -> None:
    for holder in [found() for found in _HOLDERS.copy()]:
        if holder is not None:
            holder._lock = type(holder._lock)()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
