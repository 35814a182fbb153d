"""Answers that take long, worked out beside the notebook's loop: short questions are answered meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from irscope._base.concurrency.restored import switching_often
from irscope._base.concurrency.waiting import Errand

__all__ = ["answer_beside"]

T = TypeVar("T")


def answer_beside(work: Callable[[], T], tell: Callable[[T], object]) -> None:
    """Tell what a work gives. On a thread where a loop runs, it is done on another one and told in the loop when that is free."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        tell(work())
        return
    Errand(lambda: loop.call_soon_threadsafe(tell, switching_often(work))).start()
