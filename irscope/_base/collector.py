"""Work without Python's cycle collector, which looks at every live record again and again while many are made.

A handler of signals runs after a call or when a function begins, and may raise there. So the collector is stopped inside
`try`, and goes on by the first call of `finally`, which is C's: there is no moment between. A context manager has such
moments, in its `__enter__` and its `__exit__`.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

__all__ = ["without_collector"]

P = ParamSpec("P")
T = TypeVar("T")

_STOPPED_BY: Final[set[int]] = set()
"""The threads that have stopped it: a process that was forked has only one of them, and must start it for the others."""


def without_collector(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a call gives that makes hundreds of thousands of records without cycles; the collector goes on afterwards, if it
    was on, and whatever interrupts the call.

    >>> without_collector(gc.isenabled)
    False
    """
    if not gc.isenabled():
        return work(*args, **kwargs)
    thread = threading.get_ident()
    try:
        try:
            _STOPPED_BY.add(thread)
            gc.disable()
            return work(*args, **kwargs)
        finally:
            gc.enable()
    finally:
        _STOPPED_BY.discard(thread)


def _go_on_in_child() -> None:
    if _STOPPED_BY and threading.get_ident() not in _STOPPED_BY:
        gc.enable()
    _STOPPED_BY.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on_in_child)
