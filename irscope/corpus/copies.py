"""A process that looks at models, each in a copy of itself that it can do without.

`python -m irscope.corpus.copies` reads jobs from its input, as many at once as it is given, and answers each with its number when it is
done. For each it forks: the copy begins with everything imported, has limits of processor time and memory, and gives all memory back
when it ends; a crash, a hang or a leak costs that model alone. What a model made its copy import (torch, mostly) the process imports
too, as soon as the model is loaded and while it is looked at, so that later copies find it there, and all of them share the memory that
it takes. It computes nothing itself and has one thread, which is what makes forking safe: another fork between it and the copy waits for
the copy's end.

It works for whoever started it and ends, with its copies, when they are gone.
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

from irscope._base.concurrency.trial import TrialError, tried
from irscope._base.escaping import shortened
from irscope._base.words import byte_count
from irscope.corpus.records import failure, write_record
from irscope.corpus.sources import Settings, Source
from irscope.errors import IrscopeError, MissingExtra

__all__ = ["LENGTH", "PATIENCE"]

LENGTH: Final = struct.Struct(">Q")
"""How long a job is, before it."""
PATIENCE: Final = 4
"""How many times its processor time a model may take on the clock."""
_HEAVY: Final = frozenset({
    "irscope", "iree", "jax", "jaxlib", "mpmath", "networkx", "numpy", "onnx", "onnxscript", "pandas", "scipy", "sympy", "torch",
    "transformers",
})  # fmt: skip
"""Packages that are worth importing once; importing them starts no threads."""
_LINE: Final = b"\n"
"""What ends the names that a copy tells at once."""
_END: Final = b"\0"
"""What a watcher says last."""


@dataclass
class _Watcher:
    """The fork that waits for a copy, and what came of it that is not yet a whole line: names of modules."""

    process: int
    number: int
    told: bytes = b""


def main() -> None:
    """Serve jobs until there is nobody left to give any."""
    jobs, answers = 0, os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
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
            names, _, watcher.told = (watcher.told + more).rpartition(_LINE)
            if not more or more.endswith(_END):
                del watchers[place]
                os.close(place)
                os.waitpid(watcher.process, 0)
                os.write(answers, json.dumps(watcher.number).encode() + b"\n")
            wanted += names.decode().split()


def _end_all() -> None:
    """End the copies that are at work, and this process, if it leads a group of its own."""
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
    """So many bytes, or none where there are fewer."""
    found = bytearray()
    while len(found) < size:
        more = os.read(place, size - len(found))
        if not more:
            return b""
        found += more
    return bytes(found)


def _watched(number: int, out: Path, source: Source, settings: Settings, ours: Iterable[int]) -> tuple[int, _Watcher]:
    """Have a fork look at a model in a copy; gives where it tells what it imported."""
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
            os._exit(0)  # an error here is ours to mend, and the one who asked finds no record
    os.close(there)
    return here, _Watcher(process, number)


def _examine_apart(out: Path, source: Source, settings: Settings, there: int) -> None:
    """Look at a model in a copy; the record is written here if the copy could not."""
    told = set(sys.modules)

    def tell() -> None:
        names = [name for name in sys.modules if name not in told and name.partition(".")[0] in _HEAVY]
        told.update(names)
        _tell(there, names)

    def work() -> None:
        gc.freeze()
        gc.enable()  # a large model leaves much to collect, and a copy begins without
        _examine(out, source, settings, tell)
        tell()

    limits = (settings.seconds, settings.memory)
    try:
        tried(work, seconds=settings.seconds, memory=settings.memory, expected=_NeverError, patience=PATIENCE)
    except TrialError as error:
        what = f"it {error}" if str(error).startswith(("takes", "crashes", "was killed")) else f"it ended with {error}"
        write_record(out, source, failure("memory" if error.is_memory else "limit", what, limits=limits))


class _NeverError(Exception):
    """What no work raises."""


def _tell(there: int, names: list[str]) -> None:
    """As many names as a pipe takes at once; the rest comes along with them."""
    os.set_blocking(there, False)
    with suppress(BlockingIOError):
        os.write(there, " ".join(names).encode()[: (1 << 16) - len(_LINE)] + _LINE)


_NO_MEMORY: Final = "can't allocate memory"
"""What a RuntimeError of torch says where its allocator gets none."""


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
    """The most memory that this copy held at once, what it began with included."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM"):
                return 1024 * int(line.split()[1])
    return 0


def _warm_up() -> None:
    """Look at a program of two nodes, which imports what every model needs."""
    from irscope.corpus.examine import examined

    text = "graph(%x : Float(4)):\n  %y : Float(4) = aten::relu(%x)\n  %z : Float(4) = aten::tanh(%y)\n  return (%z)"
    examined(Source("warm up", "0" * 32, pickled=pickle.dumps(text)), Settings())


def _import(name: str) -> None:
    if name not in sys.modules:
        with suppress(Exception):
            import_module(name)


if __name__ == "__main__":
    main()
