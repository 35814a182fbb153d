"""Ways to run work: on several threads at once, with Ctrl-C deferred, without the garbage collector, and with a progress bar."""

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, TypeVar

T = TypeVar("T")
_MAY_RAISE: Final = ("SIGINT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
"""The signals for which programs install handlers that raise; a system has most of them."""


def run_together(jobs: Sequence[Callable[[], T]]) -> Iterator[T]:
    """Run jobs on as many threads as there are processors; yields each result when it is there, in any order.

    If a job fails, or the caller is interrupted, those that have not started are dropped, and those that run are waited for.
    """
    pool = ThreadPoolExecutor(max(1, min(len(jobs), os.cpu_count() or 1)), thread_name_prefix="irscope")
    try:
        for done in as_completed([pool.submit(job) for job in jobs]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def interrupts_deferred(*, however_often: bool = False) -> Iterator[None]:
    """A `with` around native code that must not be interrupted half-way: torch's tracers end the process, LLVM frees things twice
    afterwards. Ctrl-C takes effect at the end, and a second one at once. With `however_often` all wait for the end, and so do the
    other signals whose handlers raise: a time limit by an alarm, a request to end the process.
    """
    numbers = [getattr(signal, name) for name in (_MAY_RAISE if however_often else ("SIGINT",)) if hasattr(signal, name)]
    handlers = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
    if threading.current_thread() is not threading.main_thread() or not handlers:
        yield
        return
    heard: dict[int, FrameType | None] = {}

    def note(number: int, frame: FrameType | None) -> None:
        if number in heard and not however_often:
            handlers[number](number, frame)
        heard.setdefault(number, frame)

    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in heard.items():
            handlers[number](number, frame)


_MANY: Final = 10_000
"""So many new objects make it worth the time to count what others have frozen."""


@contextmanager
def without_collector() -> Iterator[None]:
    """Stop the garbage collector in a `with`, for work that creates hundreds of thousands of records without cycles: sorting the
    regions of 8,000 nodes takes 1.7 times as long with it, parsing a large text 1.3 times.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():  # else it would also let go of what others froze
                gc.freeze()  # and on: all records count as old, so that the next young collection does not scan the new ones
                gc.unfreeze()
            gc.enable()


# A progress bar with the remaining time appears for work that takes more than a second, in a terminal or notebook if tqdm is installed.
# It goes with the work, also when Ctrl-C or the notebook's interrupt button ends that.

_QUIET_SECONDS: Final = 1.0
_MAIN: Final = threading.main_thread().ident


@contextmanager
def progress(total: int, label: str) -> Iterator[Callable[[], object]]:
    """A function to call after each of `total` steps (0 if nobody knows), from any thread; the bar appears after a second and goes
    with the work."""
    thread, begun, stream = threading.get_ident(), time.time(), sys.stderr  # the work may put another stream in its place
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
        else:  # not before: quick work pays for no bar
            bar = _bar(total, label, done, begun, stream)
            is_shown = bar is not None

    try:
        yield step
    finally:
        if bar is not None:
            bar.close()


def counted(things: Collection[T], label: str) -> Iterator[T]:
    """Iterates over the things with a progress bar of the loop that consumes them."""
    with progress(len(things), label) as step:
        for thing in things:
            yield thing
            step()


class _NotebookLine:
    """A stream that shows the last thing written to it in a cell's output, so that a notebook keeps nothing of a bar that is gone; of
    tqdm's own widget it keeps how far the work was at first."""

    shown: Any = None

    def write(self, text: str) -> None:
        line = {"text/plain": text.strip()}
        if self.shown is None:
            self.shown = sys.modules["IPython"].display.display(line, raw=True, display_id=True)  # loaded: it runs the cell
        else:
            self.shown.update(line, raw=True)

    def flush(self) -> None:
        """Nothing waits."""


def _bar(total: int, label: str, done: int, begun: float, stream: Any) -> Any:
    """A bar of work that began earlier; None without tqdm."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    file = _NotebookLine() if hasattr(shell, "kernel") else stream
    words = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]" if total else "{desc}: step {n_fmt} [{elapsed}]"
    bar = tqdm(total=total, initial=done, desc=label, file=file, bar_format=words, leave=False, disable=None, smoothing=0)
    bar.initial, bar.start_t = 0, begun  # the remaining time is estimated from all steps
    bar.refresh()
    return bar
