"""The one place at a time where torch captures a program.

torch.export, `make_fx` and `torch.jit.script` change the state of the process: they put fake tensors into the parameters of the
user's modules, patch `Module.__call__`, and keep a stack of tracers. Two threads in them at once take each other's fake tensors for
parameters, which stay in the model for good. So every capture of irscope runs alone, and a fork waits for its end. A capture of
the user's own, or a call of the same model, on another thread is not held back.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from typing import Final, TypeVar

from irscope._base.concurrency.forking import Library
from irscope._base.concurrency.restored import with_attributes
from irscope._base.concurrency.waiting import put_off
from irscope.errors import CaptureError

__all__ = ["alone", "captured"]

T = TypeVar("T")

_TORCH: Final = Library(exclusive=True)


def alone(work: Callable[[], T]) -> T:
    """Returns the result of work that reads or captures a live model while no other thread captures. Ctrl-C ends the wait.

    >>> alone(lambda: alone(lambda: 1))
    1
    """
    if _TORCH.is_broken:
        what = "this process was forked while another thread of its parent captured a program, and torch is still in the middle of it"
        raise CaptureError(what, hint="start processes by spawn or forkserver: multiprocessing.get_context('spawn')")
    return _TORCH.call(work)


def captured(work: Callable[[], T]) -> T:
    """Returns the result of a call into torch's capture, which runs alone, is not interrupted half-way, and whose log lines are left
    out; its output to the error stream is passed on only if it succeeds: a failure is described by the error that is raised."""
    return alone(lambda: _quietly(lambda: put_off(work)))


def _quietly(work: Callable[[], T]) -> T:
    known = logging.getLogger("torch").manager.loggerDict.items()
    loggers = [log for name, log in known if name.partition(".")[0] == "torch" and isinstance(log, logging.Logger)]
    said = io.StringIO()
    result = with_attributes(loggers, "disabled", True, with_attributes, [sys], "stderr", said, work)
    sys.stderr.write(said.getvalue())
    return result
