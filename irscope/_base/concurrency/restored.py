"""Changes state shared by a thread or process for one call, and restores it whatever interrupts the call.

A signal handler runs after a call or when a function begins, and may raise there. A context manager written in Python
can therefore be interrupted after it has changed something and before it records that, or before it restores it. Here a change
is made inside `try` by one C call, and undone by the first call of `finally`, also in C: no handler runs in between.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from itertools import repeat
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

__all__ = ["holding_the_lock", "quietly", "switching_often", "to_stay", "with_attributes", "without_collector", "without_gradients"]

P = ParamSpec("P")
T = TypeVar("T")

_STOPPED_BY: Final[set[int]] = set()
"""The threads that have stopped the collector: a forked process has only one of them, and restarts it for the others."""


def without_gradients(torch: Any, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a call during which torch records no gradients on this thread."""
    change, guard = torch._C._set_grad_enabled, torch._C.DisableTorchFunction()  # a mode would run Python in between
    before = torch.is_grad_enabled()
    try:
        change(False)
        return work(*args, **kwargs)
    finally:
        with guard:
            change(before)


def quietly(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a call during which NumPy does not warn about overflow, division by zero and NaN.

    >>> float(quietly(np.log, np.float32(0)))
    -inf
    """
    if _NUMPY_1 is None:  # NumPy 2 keeps this in a context variable
        return copy_context().run(_quiet, lambda: work(*args, **kwargs))
    get, change = _NUMPY_1
    before = get()
    try:
        change([before[0], 0, before[2]])
        return work(*args, **kwargs)
    finally:
        change(before)


def _quiet(work: Callable[[], T]) -> T:
    with np.errstate(all="ignore"):  # may be left behind: the context is thrown away
        return work()


_NUMPY_1: Final[Any] = (np.geterrobj, np.seterrobj) if hasattr(np, "seterrobj") else None  # type: ignore[attr-defined]
"""Getter and setter of NumPy 1's handling of such numbers on this thread."""


def with_attributes(
    holders: Sequence[object], name: str, value: object, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """The result of a call during which an attribute of several objects has another value.

    >>> class Lamp: lit = False
    >>> lamps = [Lamp(), Lamp()]
    >>> with_attributes(lamps, "lit", True, lambda: [lamp.lit for lamp in lamps]), lamps[0].lit
    ([True, True], False)
    """
    before = [getattr(holder, name) for holder in holders]
    back = map(setattr, holders, repeat(name), before)
    try:
        deque(map(setattr, holders, repeat(name), repeat(value)), 0)
        return work(*args, **kwargs)
    finally:
        deque(back, 0)


def without_collector(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a call without the garbage collector, for calls that create hundreds of thousands of records without
    cycles; afterwards the collector is on again if it was on, whatever interrupts the call.

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


def to_stay(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The same for a call whose records stay: all objects count as old afterwards, and wait for the next full
    collection. Otherwise the next collections scan the new records with Python's lock held: for seconds, for a program of
    100,000 nodes, just when the user asks about it. Do not use it for calls in a loop.

    >>> to_stay(gc.isenabled)
    False
    """

    def made() -> T:
        result = work(*args, **kwargs)
        if not gc.get_freeze_count():  # else it would unfreeze objects frozen by others
            try:
                gc.freeze()
            finally:
                gc.unfreeze()  # into the oldest generation
        return result

    return without_collector(made)


def switching_often(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a call that computes for long on its own thread: meanwhile each other thread gets Python's lock after
    one millisecond instead of five. A message takes a dozen such turns.

    >>> switching_often(sys.getswitchinterval) <= 0.001
    True
    """
    try:
        _HURRIED.append(_AFTERWARDS[0] if sys.getswitchinterval() >= _HELD_SECONDS else sys.getswitchinterval())
        _AFTERWARDS[0] = min(_HURRIED[0], _HURRIED_SECONDS)
        sys.setswitchinterval(_AFTERWARDS[0])
        return work(*args, **kwargs)
    finally:
        before = _HURRIED.pop()
        if not _HURRIED:
            _AFTERWARDS[0] = before
            sys.setswitchinterval(before)


def holding_the_lock(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a call of some milliseconds that a user waits for: no other thread takes Python's lock from it meanwhile. Two
    threads that compute at the same time take twice as long, and each turn of the other may be a long C call.

    >>> holding_the_lock(sys.getswitchinterval) > sys.getswitchinterval()
    True
    """
    now = sys.getswitchinterval()
    if now >= _HELD_SECONDS:
        return work(*args, **kwargs)
    if not _HURRIED:
        _AFTERWARDS[0] = now
    back = map(sys.setswitchinterval, map(_AFTERWARDS.__getitem__, (0,)))
    try:
        sys.setswitchinterval(_HELD_SECONDS)
        return work(*args, **kwargs)
    finally:
        deque(back, 0)  # the current value: a call of `switching_often` may have ended


_HURRIED_SECONDS: Final = 0.001
_HELD_SECONDS: Final = 0.01
"""The switch interval while the lock is held; a thread that had already asked for the lock still gets it once."""
_HURRIED: Final[list[float]] = []
"""The switch intervals before each of the running calls."""
_AFTERWARDS: Final = [0.005]
"""The switch interval that applies when no call holds the lock."""


def _go_on_in_child() -> None:
    if _STOPPED_BY and threading.get_ident() not in _STOPPED_BY:
        gc.enable()
    _STOPPED_BY.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on_in_child)
