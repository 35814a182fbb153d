"""The client side of the process that examines models (`copies`): one process for all threads that ask."""

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
"""Seconds for the process itself to answer, beyond the limit of a model."""
_TRIES: Final = 3
"""The attempts at a model whose process is killed from outside."""


class StoppedError(Exception):
    """Raised when an examiner is stopped in the middle of a model."""


class Examiner:
    """Examines models, as many at once as threads ask for. Its process starts with the first, and ends with `stop` or with this one."""

    def __init__(self, out: Path, settings: Settings) -> None:
        self.out = out
        self.settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._begins = threading.Lock()
        self._asked: dict[int, tuple[subprocess.Popen[bytes], SimpleQueue[bool]]] = {}
        """The queues of waiting requesters, by the number of their request; the item says whether there is an answer."""
        self._numbers = count()
        self._stopped = False

    def examine(self, source: Source) -> str:
        """Examines a model and writes its record, unless it exists; returns why it is left out, or "". Raises StoppedError."""
        for _ in range(_TRIES):
            if has_record(self.out, source, self.settings):
                break
            self._ask(source)
            if self._stopped:
                raise StoppedError
        else:
            if not has_record(self.out, source, self.settings):
                what = f"the process that examined it was killed from outside {_TRIES} times, as by a system that runs out of memory"
                limits = (self.settings.seconds, self.settings.memory)
                write_record(self.out, source, failure("killed", what, limits=limits))
        found = read_record(self.out, source) or {}
        return str(found.get("failure", {}).get("what", ""))

    def stop(self) -> None:
        """Ends the process and the running copies; may be called from any thread."""
        self._stopped = True
        if self._process is not None:
            _end(self._process)

    def _ask(self, source: Source) -> None:
        """Requests an examination. Returns without an answer if the process dies or is late; a late one is killed."""
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
        """Returns the process, started if none is alive. Raises StoppedError."""
        if self._process is None or self._process.poll() is not None:
            if self._process is not None:
                _end(self._process)
            self._process = _start()
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        if self._stopped:  # checked after the process is known to `stop`
            _end(self._process)
            raise StoppedError
        return self._process

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Forwards the answers of a process, and wakes those who will get none when it ends."""
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
    """Starts a process in its own session, so that an interrupt reaches only its parent."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-m", "irscope.corpus.copies"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
        start_new_session=True,
    )  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and its copies."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with suppress(OSError, ValueError):  # another thread may be writing to it
        assert process.stdin is not None
        process.stdin.close()
