"""Jobs in a separate process, whose results arrive as they finish: a job that crashes, hangs or breaks the GPU fails alone, and
another process continues with the rest."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

Job = dict[str, Any]


def apart(
    jobs: Sequence[Job], run: Callable[[Job], dict[str, Any]], *, until: float, patience: float = 120.0
) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Yield each job with its result, or with `{"error": …}`; jobs that have not begun by `until` are left out.

    A result that is `spoiled` ends its process. `until` is on the clock of `time.monotonic`; `patience` is the longest that a job
    takes, with the start of its process, in seconds.
    """
    context = multiprocessing.get_context("spawn")
    process = ours = None
    try:
        for job in jobs:
            if time.monotonic() >= until:
                return
            if process is None or ours is None:
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, run), daemon=True)
                process.start()
                theirs.close()
            result: dict[str, Any] = {"error": f"no sign of life for {patience:g} s", "spoiled": True}
            try:
                ours.send(job)
                if ours.poll(patience):
                    result = ours.recv()
            except (EOFError, OSError):
                process.join()
                result = {"error": f"its process ended with status {process.exitcode}", "spoiled": True}
            if result.pop("spoiled", False):
                process.kill()
                process = None
            yield job, result
    finally:
        if process is not None:
            process.kill()


def _serve(pipe: Connection, run: Callable[[Job], dict[str, Any]]) -> None:
    while True:
        job = pipe.recv()
        try:
            pipe.send(run(job))
        except Exception as error:
            pipe.send({"error": told(error)})


def told(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]
