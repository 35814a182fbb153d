"""The process that examines models, each in an expendable fork of itself.

`python -m irscope.corpus.copies` reads jobs from its input, runs them concurrently, and answers each with its number when it is
done. For each it forks: the copy starts with everything imported, has limits of processor time and memory, and frees all memory when
it ends; a crash, a hang or a leak affects that model alone. Packages that a model made its copy import (mostly torch) are imported by
the process too, as soon as the model is loaded and while it is examined, so that later copies find them there, and all of them share
that memory. The process computes nothing itself and has one thread, which makes forking safe: another fork between it and the copy
waits for the copy's end.

It serves the process that started it and ends, with its copies, when that is gone.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import select
import signal
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from irscope._base.escaping import shortened
from irscope._base.isolated import IsolatedError, isolated
from irscope._base.words import byte_count
from irscope.corpus.records import failure, has_record, write_record
from irscope.corpus.sources import Settings, Source
from irscope.errors import IrscopeError, MissingExtra

__all__ = ["LENGTH", "PATIENCE"]

LENGTH: Final = struct.Struct(">Q")
"""The length of a job, which precedes it."""
PATIENCE: Final = 4
"""The factor from a model's processor time to its limit on the clock."""
_HEAVY: Final = frozenset({
    "irscope", "iree", "jax", "jaxlib", "mpmath", "networkx", "numpy", "onnx", "onnxscript", "pandas", "scipy", "sympy", "torch",
    "transformers",
})  # fmt: skip
"""Packages that are worth importing once; importing them starts no threads."""
_LINE: Final = b"\n"
"""The end of a batch of names from a copy."""
_END: Final = b"\0"
"""The last byte from a watcher."""


@dataclass
class _Watcher:
    """The fork that waits for a copy, and its unfinished line of module names."""

    process: int
    number: int
    unread: bytes = b""


def main() -> None:
    """Serves jobs until the input ends."""
    jobs, answers = 0, os.dup(1)
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _warm_up()
    watchers: dict[int, _Watcher] = {}
    wanted: deque[str] = deque()
    while True:
        ready = select.select([jobs, *watchers], [], [], 0 if wanted else None)[0]
        if not ready:
            _import(wanted.popleft())  # one at a time: a job does not wait for all
        for place in ready:
            if place == jobs:
                job = _next(jobs)
                if job is None:
                    _end_all()
                    return
                here, watcher = _watched(*job, (jobs, answers, *watchers))
                watchers[here] = watcher
                continue
            watcher, more = watchers[place], os.read(place, 1 << 16)
            names, _, watcher.unread = (watcher.unread + more).rpartition(_LINE)
            if not more or more.endswith(_END):
                del watchers[place]
                os.close(place)
                os.waitpid(watcher.process, 0)
                os.write(answers, json.dumps(watcher.number).encode() + b"\n")
            wanted += names.decode().split()


def _end_all() -> None:
    """Ends the running copies, and this process, if it leads its own process group."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)


def _next(jobs: int) -> tuple[int, Path, Source, Settings] | None:
    head = _exactly(jobs, LENGTH.size)
    body = _exactly(jobs, LENGTH.unpack(head)[0]) if head else b""
    if not body:
        return None
    number, out, source, settings = pickle.loads(body)
    return number, Path(out), source, settings


def _exactly(place: int, size: int) -> bytes:
    """Reads exactly `size` bytes, or none if there are fewer."""
    found = bytearray()
    while len(found) < size:
        more = os.read(place, size - len(found))
        if not more:
            return b""
        found += more
    return bytes(found)


def _watched(number: int, out: Path, source: Source, settings: Settings, ours: Iterable[int]) -> tuple[int, _Watcher]:
    """Forks a watcher that examines a model in a copy; returns the pipe on which it reports imported modules."""
    here, there = os.pipe()
    process = os.fork()
    if not process:
        try:
            for place in (here, *ours):
                os.close(place)
            _examine_apart(out, source, settings, there)
            os.set_blocking(there, True)
            os.write(there, _END)
        finally:
            os._exit(0)  # an error here is our bug, and the requester finds no record
    os.close(there)
    return here, _Watcher(process, number)


def _examine_apart(out: Path, source: Source, settings: Settings, there: int) -> None:
    """Examines a model in a copy; the record is written here if the copy could not."""
    known = set(sys.modules)

    def send() -> None:
        names = [name for name in sys.modules if name not in known and name.partition(".")[0] in _HEAVY]
        known.update(names)
        _send(there, names)

    def work() -> None:
        gc.freeze()
        gc.enable()  # a large model leaves garbage, and a copy starts with the collector off
        _examine(out, source, settings, send)
        send()

    limits = (settings.seconds, settings.memory)
    try:
        isolated(work, seconds=settings.seconds, memory=settings.memory)
    except IsolatedError as error:
        if has_record(out, source, settings):
            return  # all that failed was to say so
        kind = error.kind if error.kind in ("exit", "memory") else "limit"
        write_record(out, source, failure(kind, f"it {error}", limits=None if kind == "exit" else limits))


def _send(there: int, names: list[str]) -> None:
    """Writes as many names as a pipe takes at once, unless the model closed it; the rest is dropped, and imported along with them."""
    with suppress(OSError):
        os.set_blocking(there, False)
        os.write(there, " ".join(names).encode()[: (1 << 16) - len(_LINE)] + _LINE)


_NO_MEMORY: Final = "can't allocate memory"
"""The text of torch's RuntimeError when its allocator runs out of memory."""


def _examine(out: Path, source: Source, settings: Settings, loaded: Callable[[], object]) -> None:
    from irscope.corpus.examine import examined

    try:
        record = examined(source, settings, loaded)
        record["peak_bytes"] = _peak_bytes()
    except MissingExtra as error:
        record = failure("MissingExtra", f"{error}")
    except IrscopeError as error:
        record = failure(type(error).__name__, shortened(str(error), 2000))
    except BaseException as error:
        # a model's own code may raise anything, and a bad one must not end a survey
        if isinstance(error, MemoryError) or _NO_MEMORY in str(error):
            limits = (settings.seconds, settings.memory)
            record = failure("memory", f"it needs over {byte_count(settings.memory)} of memory", limits=limits)
        else:
            record = failure(type(error).__name__, shortened(f"{type(error).__name__}: {error}", 2000))
    write_record(out, source, record)


def _peak_bytes() -> int:
    """Returns the peak memory of this copy, including what it started with."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM"):
                return 1024 * int(line.split()[1])
    return 0


def _warm_up() -> None:
    """Examines a program of two nodes, which imports what every model needs."""
    from irscope.corpus.examine import examined

    text = "graph(%x : Float(4)):\n  %y : Float(4) = aten::relu(%x)\n  %z : Float(4) = aten::tanh(%y)\n  return (%z)"
    examined(Source("warm up", "0" * 32, pickled=pickle.dumps(text)), Settings())


def _import(name: str) -> None:
    if name not in sys.modules:
        with suppress(Exception):
            import_module(name)


if __name__ == "__main__":
    main()
