"""Flat code that records the time after each of its instructions, and otherwise runs unchanged.

Stretches compiled to Python get one more line for each instruction, `mark(clock())`; instructions that run one by one
are followed by the same call. Nothing else of a run changes, so the time between two stamps is the time of an
instruction, of freeing its operands' memory, and of one stamp. `stamp_cost` measures the cost of a stamp.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from irscope.errors import IrscopeError, RunError
from irscope.ir import Node
from irscope.runtime.executor.bytecode import FlatCode, Slots
from irscope.runtime.executor.trace_codegen import Stamp

__all__ = ["StampedCode", "stamp_cost"]

_LINES: Final = 500
_ROUNDS: Final = 25


class StampedCode(FlatCode):
    """Flat code whose runs are timed, instruction by instruction."""

    def __init__(self, code: FlatCode, stamp: Stamp) -> None:
        super().__init__(**vars(code))
        self.runs = {}
        self.strayed = False
        self.stamp = stamp
        self.path: list[tuple[int, int]] = []
        """The stretches of the last run in order, as half-open ranges of positions."""
        self.observer: Callable[[FlatCode, Slots], Callable[[int], None]] | None = None
        """Creates a callback that gets the position of each instruction that has run; runs with an observer are not timed."""

    def run(
        self, slots: Slots, visit: Callable[[Node], None] | None = None, after: Callable[[int], None] | None = None
    ) -> None:
        """Runs as `FlatCode.run` does, with a stamp at the start and after each instruction."""
        if visit is not None or after is not None or self.observer is not None:
            super().run(slots, visit, after if self.observer is None else self.observer(self, slots))
            return
        code, runs, path = self.instructions, self.runs, self.path
        mark, clock = self.stamp
        path.clear()
        position, end = 0, len(code)
        try:
            mark(clock())
            while position < end:
                start = position
                if runs and (run := runs.get(position)) is not None:
                    position = run.function(slots)
                    path.append((start, position))
                    if position == run.stop:
                        continue
                    self.strayed = True
                    start = position
                step, dead = code[position]
                target = step(slots)
                position = position + 1 if target is None else target
                for slot in dead:
                    slots[slot] = None
                mark(clock())
                path.append((start, start + 1))
        except IrscopeError:
            raise
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise RunError(f"the program failed while it was timed: {lines[0]}") from error


def stamp_cost(stamp: Stamp, forget: Callable[[], object]) -> float:
    """Returns the nanoseconds of one stamp: the median over rounds of many in a row; `forget` discards their times.

    >>> times = []
    >>> 0 < stamp_cost((times.append, time.perf_counter_ns), times.clear) < 1e6
    True
    """
    names: dict[str, Any] = {"mark": stamp[0], "clock": stamp[1]}
    exec("def run():\n" + "    mark(clock())\n" * _LINES, names)
    run, taken = names["run"], []
    for _ in range(_ROUNDS):
        start = time.perf_counter_ns()
        run()
        taken.append((time.perf_counter_ns() - start) / _LINES)
        forget()
    return statistics.median(taken)
