"""What a whole thread or process shares, changed for one call and put back after it, whatever interrupts the call.

A handler of signals runs after a call or when a function begins, and may raise there. A context manager written in Python
can therefore be cut in two: after it has changed something and before it knows, or before it puts it back. Here a change is
made inside `try` by one call of C's, and undone by the first call of `finally`, which is C's too: no handler runs between.
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
"""The threads that have stopped the collector: a process that was forked has only one of them, and starts it for the others."""


def without_gradients(torch: Any, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a call gives while torch records nothing for gradients on this thread."""
    change, guard = torch._C._set_grad_enabled, torch._C.DisableTorchFunction()  # a mode would run Python in between
    before = torch.is_grad_enabled()
    try:
        change(False)
        return work(*args, **kwargs)
    finally:
        with guard:
            change(before)


def quietly(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a call gives while NumPy says nothing of overflow, of division by zero and of numbers that are none.

    >>> float(quietly(np.log, np.float32(0)))
    -inf
    """
    if _NUMPY_1 is None:  # where it keeps this in a variable of the context
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
"""What gets and sets how NumPy 1 treats such numbers on this thread."""


def with_attributes(
    holders: Sequence[object], name: str, value: object, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """What a call gives while an attribute of several objects has another value.

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


def to_stay(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The same for a call whose records stay: all that there is counts as old afterwards, and waits for the next full
    collection. Else the collector's next turns look through what was made, with Python's lock held: of a program of 100,000
    nodes for seconds, just when somebody has asked about it. Not for what is called in a loop.

    >>> to_stay(gc.isenabled)
    False
    """

    def made() -> T:
        result = work(*args, **kwargs)
        if not gc.get_freeze_count():  # else it would melt what is another's
            try:
                gc.freeze()
            finally:
                gc.unfreeze()  # to the oldest
        return result

    return without_collector(made)


def switching_often(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a call gives that computes for long on a thread of its own: meanwhile each other thread has Python's lock a
    millisecond after it asked, and not five. A message takes a dozen such turns.

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
    """What a call of some milliseconds gives that somebody waits for: no other thread takes Python's lock from it meanwhile. Two
    threads that compute side by side take twice as long, and each turn of the other one may be a long call of C's.

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
        deque(back, 0)  # what it is by then: a call that switches often may have ended


_HURRIED_SECONDS: Final = 0.001
_HELD_SECONDS: Final = 0.01
"""What is held is lost too, once, to a thread that had asked for the lock before."""
_HURRIED: Final[list[float]] = []
"""How often threads took turns before each of the calls that are under way."""
_AFTERWARDS: Final = [0.005]
"""How often they take turns when nobody holds the lock."""


def _go_on_in_child() -> None:
    if _STOPPED_BY and threading.get_ident() not in _STOPPED_BY:
        gc.enable()
    _STOPPED_BY.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on_in_child)
