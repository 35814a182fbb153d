"""A progress bar for work that takes more than a second, in a terminal or notebook and where tqdm is installed; nothing
otherwise."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tqdm warns in a notebook without ipywidgets, and shows a bar of text
            from tqdm.auto import tqdm

            bar = tqdm(total=total, desc=label, delay=_QUIET_SECONDS, leave=False, disable=None)
    except ImportError:
        yield lambda: None
        return
    with bar:
        yield bar.update
        bar.total = bar.n  # work that took fewer steps is done too; in a notebook the bar would stay, in red
