"""Programs run in forked processes, many in each, with a watch that ends one which hangs and goes on with the next.

The work of a job is a generator: it says `Stage` before what may take long, and `Ended` for each program. A stage of ours that
takes more than `SECONDS` of processor time, or a few times that while nothing is computed, is a hang. What is loaded once in
the parent (torch, its samples) is there in all children.
"""

import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

SECONDS: Final = 5.0
_WAITING: Final = 12
"""How many times `SECONDS` may pass on the clock, without the time for which other programs held the processors."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What begins now."""

    program: str
    ours: bool
    """Whether it is our code that runs, rather than torch's."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: one of `counts.WAYS`, and what was said of it."""

    program: str
    way: str
    said: str = ""


Work = Callable[[Any, int], Iterator[Stage | Ended]]
"""The programs of a job but for the first so many."""


def watched(work: Work, jobs: Sequence[Any], *, each: int = 40) -> Iterator[Ended]:
    """How all programs of the jobs ended, `each` jobs in one process."""
    for start in range(0, len(jobs), each):
        chunk = list(jobs[start : start + each])
        skip = 0
        while chunk:
            done, skip = yield from _one_process(work, chunk, skip)
            chunk = chunk[done:]


def _one_process(work: Work, jobs: Sequence[Any], skip: int) -> Iterator[Ended]:
    """One child; gives how many jobs are over, and how many programs of the next one."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_in_child, args=(here, there, work, jobs, skip), daemon=True)
    child.start()
    there.close()
    over, stage, watch = 0, Stage("before the first program", ours=False), _Watch(child.pid or 0)
    try:
        while over < len(jobs):
            if here.poll(0.2):
                try:
                    said = here.recv()
                except EOFError:
                    child.join()
                    yield Ended(stage.program, "crash", f"the process ended with {child.exitcode}")
                    return over, skip + 1
                if isinstance(said, Stage):
                    stage = said
                elif isinstance(said, Ended):
                    yield said
                    skip += 1
                else:
                    over, skip = over + 1, 0
                watch.restart()
            elif watch.is_late():
                what = f"over {SECONDS:g} s in {'our code' if stage.ours else 'torch'}"
                yield Ended(stage.program, "hang" if stage.ours else "torch", what)
                return over, skip + 1
        return over, 0
    finally:
        child.kill()
        child.join()
        here.close()


def _in_child(here: Connection, there: Connection, work: Work, jobs: Sequence[Any], skip: int) -> None:
    here.close()  # so that a child whose parent is gone cannot go on telling
    if not os.environ.get("ORACLES_LOUD"):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout.fileno(), sys.stderr.fileno()):  # C++ warns there as well
            os.dup2(nowhere, stream)
    for job in jobs:
        try:
            for said in work(job, skip):
                there.send(said)
        except BaseException:
            there.send(Ended(str(job), "crash", f"the oracle itself: {traceback.format_exc()[-600:]}"))
        there.send(None)
        skip = 0


class _Watch:
    """The time that a process has taken for one stage."""

    def __init__(self, pid: int) -> None:
        self.clock = ((~pid) << 3) | 2  # Linux's number of the processor time of another process
        self.queue = Path(f"/proc/{pid}/schedstat")
        self.restart()

    def restart(self) -> None:
        self.since, self.worked = time.monotonic() - self._queued(), self._work()

    def is_late(self) -> bool:
        passed = time.monotonic() - self._queued() - self.since
        return self._work() - self.worked > SECONDS or passed > _WAITING * SECONDS

    def _queued(self) -> float:
        """Seconds for which it could have run, and had no processor: its second number in Linux's table."""
        try:
            return int(self.queue.read_text(encoding="ascii").split()[1]) * 1e-9
        except (OSError, IndexError):  # another system, or the process is over
            return 0.0

    def _work(self) -> float:
        try:
            return time.clock_gettime(self.clock)
        except OSError:  # another system, or the process is over
            return time.monotonic() / _WAITING
