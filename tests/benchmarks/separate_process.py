"""Jobs in a separate process, whose results arrive as they finish: a job that crashes, hangs or breaks the GPU fails alone.

The process appends a line of JSON to a file when a job begins and when it ends. If the process dies, or is silent for too
long, the running job is blamed, and another process continues with the rest.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

_LOOK: Final = 0.1
"""Seconds between reads of the file."""
_FAILURES: Final = 3
"""The consecutive processes that may die before their first job; further ones would die too."""

Job = dict[str, Any]


def apart(jobs: Sequence[Job], code: str, *, until: float, patience: float = 120.0) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Yields each job with its result, or with `{"error": …}`; jobs that have not begun by `until` are left out.

    `code` is a Python program that calls `work`: `sys.argv` has the file of jobs and that of results. `until` is on the
    clock of `time.monotonic`; `patience` is the longest silence of a process, in seconds.
    """
    left, failures = list(jobs), 0
    while left and failures < _FAILURES and time.monotonic() < until:
        began = len(left)
        for job, result in _one_process(tuple(left), code, until, patience):
            left.remove(job)
            yield job, result
        failures = failures + 1 if len(left) == began else 0
    if failures == _FAILURES:
        for job in left:
            yield job, {"error": f"{_FAILURES} processes ended before they began it; their errors are above"}


def _one_process(jobs: Sequence[Job], code: str, until: float, patience: float) -> Iterator[tuple[Job, dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as name:
        tasks, results = Path(name) / "jobs.json", Path(name) / "results"
        tasks.write_text(json.dumps({"jobs": jobs, "seconds": until - time.monotonic()}))
        results.touch()
        process = subprocess.Popen([sys.executable, "-c", code, str(tasks), str(results)])
        heard, running = time.monotonic(), None
        try:
            with results.open() as lines:
                while True:
                    ended = process.poll() is not None  # checked before the last read
                    for line in _whole_lines(lines):
                        heard, message = time.monotonic(), json.loads(line)
                        job = jobs[message["job"]]
                        running = None if "result" in message else job
                        if "result" in message:
                            yield job, message["result"]
                    if ended or time.monotonic() - heard > patience:
                        break
                    time.sleep(_LOOK)
            if running is not None:
                silent = f"no sign of life for {patience:g} s"
                yield running, {"error": f"its process ended with status {process.poll()}" if ended else silent}
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def _whole_lines(file: Any) -> Iterator[str]:
    """Yields the lines that are complete by now."""
    while True:
        place = file.tell()
        line = file.readline()
        if not line.endswith("\n"):
            file.seek(place)
            return
        yield line


def work(run: Callable[[Job], dict[str, Any]], is_sound: Callable[[], bool], tasks: str, results: str) -> None:
    """Runs the jobs in order, in the separate process, until the time is up or an error has broken it."""
    given = json.loads(Path(tasks).read_text())
    until = time.monotonic() + given["seconds"]
    with Path(results).open("a") as file:

        def say(number: int, **more: Any) -> None:
            file.write(json.dumps({"job": number, **more}) + "\n")
            file.flush()

        for number, job in enumerate(given["jobs"]):
            if time.monotonic() > until:
                return
            say(number)
            try:
                result = run(job)
            except Exception as error:
                lines = str(error).strip().splitlines() or [""]
                result = {"error": f"{type(error).__name__}: {lines[0]}"[:300]}
            say(number, result=result)
            if "error" in result and not is_sound():
                return
