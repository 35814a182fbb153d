"""A progress bar with the time that is left, for work that takes more than a second, in a terminal or notebook and where tqdm is
installed; nothing otherwise. Ctrl-C, or the notebook's button that interrupts, ends the work; the bar goes with it."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, TypeVar

from irscope._base.concurrency.waiting import run_uninterruptible

__all__ = ["counted", "progress"]

T = TypeVar("T")

_QUIET_SECONDS: Final = 1.0
_MAIN: Final = threading.main_thread().ident


@contextmanager
def progress(total: int, label: str) -> Iterator[Callable[[], object]]:
    """A function to call after each of `total` steps, from any thread; the bar shows after a second and goes when the work is done.

    >>> with progress(3, "measuring") as step:
    ...     for _ in range(3):
    ...         step()
    """
    steps, is_done = _Steps(total, label), False
    try:
        yield steps.step
        is_done = True
    finally:
        steps.end(is_done)


def counted(things: Collection[T], label: str) -> Iterator[T]:
    """The things, one after the other, with the progress of whoever takes them.

    >>> [2 * number for number in counted([1, 2], "doubling")]
    [2, 4]
    """
    with progress(len(things), label) as step:
        for thing in things:
            yield thing
            step()


class _Steps:
    """Steps that are counted, and a bar once they have taken a second: work that is quick does not pay for one."""

    __slots__ = ("_bar", "_done", "_label", "_start", "_thread", "_total")

    def __init__(self, total: int, label: str) -> None:
        self._total, self._label, self._done = total, label, 0
        self._start, self._thread = time.time(), threading.get_ident()
        self._bar: Any = None

    def step(self) -> None:
        self._done += 1  # two threads may count one step: the bar is for people
        if self._bar is None and time.time() - self._start < _QUIET_SECONDS:
            return
        if threading.get_ident() == self._thread and self._thread == _MAIN:  # a notebook shows what other threads draw anywhere
            self._draw()

    def _draw(self) -> None:
        if self._bar is not None:
            self._bar.update(self._done - self._bar.n)
            return
        try:
            bar = run_uninterruptible(_bars)(
                total=self._total, initial=self._done, desc=self._label, leave=False, disable=None, smoothing=0
            )
        except ImportError:
            self._start = float("inf")
            return
        self._bar = bar
        bar.initial, bar.start_t = 0, self._start  # the time that is left is reckoned from all steps
        bar.refresh()

    def end(self, is_done: bool) -> None:
        if self._bar is None:
            return
        if is_done:
            self._bar.total = self._bar.n  # work that took fewer steps is done too; in a notebook the bar would stay, in red
        self._bar.close()


def _bars() -> Any:
    """What makes bars. It changes the filters of warnings for a while, and so does tqdm: to be called where no signal comes."""
    known = sys.modules.get("tqdm.auto")
    if known is not None:
        return known.tqdm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm warns in a notebook without ipywidgets, and shows a bar of text
        return import_module("tqdm.auto").tqdm
