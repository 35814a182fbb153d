"""Computes slow answers beside the notebook's event loop, which meanwhile answers quick requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from irscope._base.concurrency.restored import switching_often
from irscope._base.concurrency.waiting import Errand

__all__ = ["answer_beside"]

T = TypeVar("T")


def answer_beside(work: Callable[[], T], tell: Callable[[T], object]) -> None:
    """Call `tell` with the result of `work`. If an event loop is running, `work` runs on another thread and `tell` in the loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        tell(work())
        return
    Errand(lambda: loop.call_soon_threadsafe(tell, switching_often(work))).start()
