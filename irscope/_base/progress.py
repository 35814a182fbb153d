"""A progress bar with the remaining time, for work that takes more than a second, in a terminal or notebook if tqdm is installed.

Otherwise nothing is shown. Ctrl-C, or the notebook's interrupt button, ends the work and removes the bar."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

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
    thread, begun = threading.get_ident(), time.time()
    is_shown = thread == _MAIN  # a notebook shows output of other threads at arbitrary places
    done = 0
    bar: Any = None

    def step() -> None:
        nonlocal done, bar, is_shown
        done += 1  # two threads may count one step only: the bar need not be exact
        if not is_shown or (bar is None and time.time() - begun < _QUIET_SECONDS) or threading.get_ident() != thread:
            return
        if bar is not None:
            bar.update(done - bar.n)
        else:  # not before: quick work pays for no bar, which in a notebook is a widget even while tqdm's own `delay` hides it
            bar = _bar(total, label, done, begun)
            is_shown = bar is not None

    is_done = False
    try:
        yield step
        is_done = True
    finally:
        if bar is not None:
            if is_done:
                bar.total = bar.n  # work with fewer steps is done too; else the bar would stay in a notebook, in red
            bar.close()


def counted(things: Collection[T], label: str) -> Iterator[T]:
    """Iterates over the things with a progress bar of the loop that consumes them.

    >>> [2 * number for number in counted([1, 2], "doubling")]
    [2, 4]
    """
    with progress(len(things), label) as step:
        for thing in things:
            yield thing
            step()


def _bar(total: int, label: str, done: int, begun: float) -> Any:
    """A bar of work that began earlier; None without tqdm."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets, tqdm warns in a notebook and shows a text bar
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return None
    bar = tqdm(total=total, initial=done, desc=label, leave=False, disable=None, smoothing=0)
    bar.initial, bar.start_t = 0, begun  # the remaining time is estimated from all steps
    bar.refresh()
    return bar
