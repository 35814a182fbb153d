"""What the benchmarks share: options, processor time of work on subjects made afresh, its growth, tables, and processes of their own."""

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]


def command(doc: str | None) -> argparse.ArgumentParser:
    """A parser of options, whose help is the head of the script."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def in_a_process(script: str, *arguments: object, limit: float | None = None, **environment: str) -> Any:
    """What a script prints last, as JSON, when a process of its own runs it so; None if that takes more than `limit` seconds."""
    line, where = [sys.executable, script, *map(str, arguments)], {**os.environ, **environment}
    try:
        done = subprocess.run(line, env=where, stdout=subprocess.PIPE, text=True, timeout=limit, check=True, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1])


def milliseconds(work: Callable[[Any], object], prepare: Callable[[], Any], repeats: int, *, at_most: float = math.inf) -> list[float]:
    """The processor time of `work` on what `prepare` makes afresh each time, in milliseconds; no more runs once they have
    taken `at_most` together."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < at_most:
        subject = prepare()
        gc.collect()
        started = time.process_time()
        result = work(subject)
        times.append(1000 * (time.process_time() - started))
        del result, subject
    return times


def median_ms(work: Callable[[Any], object], prepare: Callable[[], Any], repeats: int, *, at_most: float = math.inf) -> float:
    return statistics.median(milliseconds(work, prepare, repeats, at_most=at_most))


class Growth:
    """The exponent with which a time grows, from the first size that is given to each later one."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def at(self, size: int, taken: float) -> float:
        """The slope from the first size; not a number for that one."""
        if self._first is None:
            self._first = size, taken
            return math.nan
        return math.log(taken / self._first[1]) / math.log(size / self._first[0])


def head(*columns: str) -> None:
    """Prints the head of a table in Markdown."""
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)


def row(*cells: object) -> None:
    """Prints a row of it, when its figures are there: of numbers three digits that count, and `-` for what was not measured."""
    print(f"| {' | '.join(map(_cell, cells))} |", flush=True)


def _cell(value: object) -> str:
    if value is None or value != value:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)
