"""The process that looks at models (`copies`), from the side of those who ask: one for all threads that do."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from irscope.corpus.copies import LENGTH, PATIENCE
from irscope.corpus.records import failure, has_record, read_record, write_record
from irscope.corpus.sources import Settings, Source

__all__ = ["Examiner", "StoppedError"]

_STARTS: Final = 60
"""Seconds for the process itself to answer, beyond those that a model may take."""
_TRIES: Final = 3
"""How often a model is begun whose process is killed from outside."""


class StoppedError(Exception):
    """An examiner was told to stop in the middle of a model."""


class Examiner:
    """Looks at as many models at once as threads ask for. Its process begins with the first, and ends with `stop` or with this one."""

    def __init__(self, out: Path, settings: Settings) -> None:
        self.out = out
        self.settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._begins = threading.Lock()
        self._asked: dict[int, tuple[subprocess.Popen[bytes], SimpleQueue[bool]]] = {}
        """Where those wait who asked, by the number of their question: whether there is an answer."""
        self._numbers = count()
        self._stopped = False

    def examine(self, source: Source) -> str:
        """Look at a model and write its record, unless it is there; gives why it is left out, or nothing. Raises StoppedError."""
        for _ in range(_TRIES):
            if has_record(self.out, source, self.settings):
                break
            self._ask(source)
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
        """End the process and the copies that are at work; may be called from any thread."""
        self._stopped = True
        if self._process is not None:
            _end(self._process)

    def _ask(self, source: Source) -> None:
        """Have a model looked at. Without an answer if the process dies, or is late, which ends it."""
        number, answer = next(self._numbers), SimpleQueue[bool]()
        job = pickle.dumps((number, str(self.out), source, self.settings))
        with self._begins:
            process = self._running()
            self._asked[number] = process, answer
            try:
                assert process.stdin is not None
                process.stdin.write(LENGTH.pack(len(job)) + job)
                process.stdin.flush()
            except (OSError, ValueError):  # it died, or was ended
                del self._asked[number]
                return
        try:
            answer.get(timeout=PATIENCE * self.settings.seconds + _STARTS)
        except Empty:
            _end(process)

    def _running(self) -> subprocess.Popen[bytes]:
        """The process, begun where there is none that lives. Raises StoppedError."""
        if self._process is None or self._process.poll() is not None:
            if self._process is not None:
                _end(self._process)
            self._process = _start()
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        if self._stopped:  # looked at after the process is known to `stop`
            _end(self._process)
            raise StoppedError
        return self._process

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Hand on the answers of a process, and wake those who will get none when it ends."""
        assert process.stdout is not None
        with process.stdout as answers, suppress(OSError, ValueError):
            for line in answers:
                _, answer = self._asked.pop(json.loads(line))
                answer.put(True)
        for number, (asked, answer) in list(self._asked.items()):
            if asked is process:
                self._asked.pop(number, None)
                answer.put(False)


def _start() -> subprocess.Popen[bytes]:
    """A process in a session of its own: an interrupt is for whoever started it."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-m", "irscope.corpus.copies"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
        start_new_session=True,
    )  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its copies."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with suppress(OSError, ValueError):  # another thread is in the middle of it
        assert process.stdin is not None
        process.stdin.close()
