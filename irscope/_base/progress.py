"""A progress bar for work that takes more than a second, in a terminal or notebook and where tqdm is installed; nothing
otherwise."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from irscope._base.concurrency.waiting import run_uninterruptible

__all__ = ["progress"]

_QUIET_SECONDS: Final = 1.0


@contextmanager
def progress(total: int, label: str) -> Iterator[Callable[[], object]]:
    """A function to call after each of `total` steps; the bar shows after a second and goes when the work is done.

    >>> with progress(3, "measuring") as step:
    ...     for _ in range(3):
    ...         step()
    """
    try:
        tqdm = run_uninterruptible(_bars)
    except ImportError:
        yield lambda: None
        return
    bar = tqdm(total=total, desc=label, delay=_QUIET_SECONDS, leave=False, disable=None)
    with bar:
        yield bar.update
        bar.total = bar.n  # work that took fewer steps is done too; in a notebook the bar would stay, in red


def _bars() -> Any:
    """What makes bars. It changes the filters of warnings for a while, and so does tqdm: to be called where no signal comes."""
    known = sys.modules.get("tqdm.auto")
    if known is not None:
        return known.tqdm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm warns in a notebook without ipywidgets, and shows a bar of text
        return import_module("tqdm.auto").tqdm
