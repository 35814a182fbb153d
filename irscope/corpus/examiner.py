"""A process that looks at models one after the other, each in a copy of itself that it can do without.

`python -m irscope.corpus.examiner` reads jobs from its input and answers in a line of JSON when each is done. For each it forks: the
copy begins with everything imported, has limits of processor time and memory, and gives all memory back when it ends; a crash, a
hang or a leak costs that model alone. What a model made its copy import (torch, mostly) the process then imports too, so that the next
copy finds it there. It computes nothing itself and has one thread, which is what makes forking safe.

It works for whoever started it and ends when they are gone.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Final

from irscope._base.concurrency.trial import TrialError, tried
from irscope._base.escaping import shortened
from irscope._base.words import byte_count
from irscope.corpus.records import failure, has_record, read_record, write_record
from irscope.corpus.sources import Settings, Source
from irscope.errors import IrscopeError, MissingExtra

__all__ = ["Examiner", "StoppedError"]

_PATIENCE: Final = 4
"""How many times its processor time a model may take on the clock."""
_STARTS: Final = 60
"""Seconds for the process itself to answer beyond that."""
_HEAVY: Final = frozenset({
    "irscope", "iree", "jax", "jaxlib", "mpmath", "networkx", "numpy", "onnx", "onnxscript", "pandas", "scipy", "sympy", "torch",
    "transformers",
})  # fmt: skip
"""Packages that are worth importing once; importing them starts no threads."""
_TRIES: Final = 3
"""How often a model is begun whose process is killed from outside."""
_LENGTH: Final = struct.Struct(">Q")


class StoppedError(Exception):
    """An examiner was told to stop in the middle of a model."""


class Examiner:
    """The process, from the side of those who hand it jobs; one thread at a time. Ends with `stop`, or with this process."""

    def __init__(self, out: Path, settings: Settings) -> None:
        self.out = out
        self.settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def examine(self, source: Source) -> str:
        """Look at a model and write its record, unless it is there; gives why it is left out, or nothing. Raises StoppedError."""
        for _ in range(_TRIES):
            if has_record(self.out, source, self.settings):
                break
            try:
                self._ask(source)
            except (OSError, EOFError, ValueError):  # the process itself died, or was killed
                self._end()
            if self._stopped:
                raise StoppedError
        else:
            if not has_record(self.out, source, self.settings):
                what = f"the process that looked at it was killed from outside, {_TRIES} times, as systems do that run out of memory"
                limits = (self.settings.seconds, self.settings.memory)
                write_record(self.out, source, failure("killed", what, limits=limits))
        found = read_record(self.out, source) or {}
        return str(found.get("failure", {}).get("what", ""))

    def stop(self) -> None:
        """End the process and the copy that it is waiting for; may be called from any thread."""
        self._stopped = True
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError, ValueError):  # another thread is in the middle of it
                        stream.close()

    def _ask(self, source: Source) -> None:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = self._start()
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        job = pickle.dumps((str(self.out), source, self.settings))
        late = threading.Timer(_PATIENCE * self.settings.seconds + _STARTS, process.kill)
        late.daemon = True
        late.start()
        try:
            process.stdin.write(_LENGTH.pack(len(job)) + job)
            process.stdin.flush()
            if json.loads(process.stdout.readline() or b"null") != source.key:
                raise EOFError
        finally:
            late.cancel()

    def _start(self) -> subprocess.Popen[bytes]:
        """A process in a session of its own: an interrupt is for whoever started it."""
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return subprocess.Popen(
            [sys.executable, "-m", "irscope.corpus.examiner"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=environment, start_new_session=True,
        )  # fmt: skip


def main() -> None:
    """Serve jobs until there is nobody left to give any."""
    jobs, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _warm_up()
    while (job := _next(jobs)) is not None:
        out, source, settings = job
        here, there = os.pipe()
        try:
            _examine_apart(Path(out), source, settings, there)
            os.close(there)
            with os.fdopen(here, "r", encoding="utf-8") as told:
                imported = told.read().split()
        except BaseException:
            os._exit(1)  # ours to mend, and the one who asked sees that there is no answer
        answers.write(json.dumps(source.key).encode() + b"\n")
        answers.flush()
        _import(imported)


def _next(jobs: IO[bytes]) -> tuple[str, Source, Settings] | None:
    head = jobs.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    body = jobs.read(_LENGTH.unpack(head)[0])
    job: tuple[str, Source, Settings] = pickle.loads(body)
    return job


def _examine_apart(out: Path, source: Source, settings: Settings, there: int) -> None:
    """Look at a model in a copy; the record is written here if the copy could not."""
    before = set(sys.modules)

    def work() -> None:
        gc.freeze()
        gc.enable()  # a large model leaves much to collect, and a copy begins without
        _examine(out, source, settings)
        _tell(there, [name for name in sys.modules if name not in before and name.partition(".")[0] in _HEAVY])

    limits = (settings.seconds, settings.memory)
    try:
        tried(work, seconds=settings.seconds, memory=settings.memory, expected=_NeverError, patience=_PATIENCE)
    except TrialError as error:
        what = f"it {error}" if str(error).startswith(("takes", "crashes", "was killed")) else f"it ended with {error}"
        write_record(out, source, failure("memory" if error.is_memory else "limit", what, limits=limits))


class _NeverError(Exception):
    """What no work raises."""


def _tell(there: int, names: list[str]) -> None:
    """As many names as a pipe takes at once; the rest comes along with them."""
    os.set_blocking(there, False)
    with suppress(BlockingIOError):
        os.write(there, " ".join(names).encode()[: 1 << 16])


_NO_MEMORY: Final = "can't allocate memory"
"""What a RuntimeError of torch says where its allocator gets none."""


def _examine(out: Path, source: Source, settings: Settings) -> None:
    from irscope.corpus.examine import examined

    try:
        record = examined(source, settings)
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


def _import(names: list[str]) -> None:
    for name in names:
        if name not in sys.modules:
            with suppress(Exception):
                import_module(name)


if __name__ == "__main__":
    main()
