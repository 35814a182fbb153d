"""A progress bar with the remaining time, for work that takes more than a second, in a terminal or notebook if tqdm is installed.

Otherwise nothing is shown. Ctrl-C, or the notebook's interrupt button, ends the work and removes the bar."""

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
    """A function to call after each of `total` steps, from any thread; the bar appears after a second and goes with the work.

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
    """Iterates over the things with a progress bar of the loop that consumes them.

    >>> [2 * number for number in counted([1, 2], "doubling")]
    [2, 4]
    """
    with progress(len(things), label) as step:
        for thing in things:
            yield thing
            step()


class _Steps:
    """Counts steps, and draws a bar once they have taken a second: quick work does not pay for one."""

    __slots__ = ("_bar", "_done", "_label", "_start", "_thread", "_total")

    def __init__(self, total: int, label: str) -> None:
        self._total, self._label, self._done = total, label, 0
        self._start, self._thread = time.time(), threading.get_ident()
        self._bar: Any = None

    def step(self) -> None:
        self._done += 1  # two threads may count one step only: the bar need not be exact
        if self._bar is None and time.time() - self._start < _QUIET_SECONDS:
            return
        if threading.get_ident() == self._thread and self._thread == _MAIN:  # a notebook shows output of other threads at arbitrary places
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
        bar.initial, bar.start_t = 0, self._start  # the remaining time is estimated from all steps
        bar.refresh()

    def end(self, is_done: bool) -> None:
        if self._bar is None:
            return
        if is_done:
            self._bar.total = self._bar.n  # work with fewer steps is done too; else the bar would stay in a notebook, in red
        self._bar.close()


def _bars() -> Any:
    """The class of bars. It changes the warning filters temporarily, and so does tqdm: call it only where no signal arrives."""
    known = sys.modules.get("tqdm.auto")
    if known is not None:
        return known.tqdm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets, tqdm warns in a notebook and shows a text bar
        return import_module("tqdm.auto").tqdm
