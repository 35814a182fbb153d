"""The measurement of a program in several ways, by turns until the order of its slow nodes is sure, or the time is up.

All ways take turns, in another order each time, as in `irs.compare`: a call of the plain program for the whole, and a call
that leaves stamps for the parts. What the user wrote takes its turns too, where it is not torch's: a NumPy function, or
`jax.jit` of a JAX function. Arguments that the program writes are restored before each. No call begins once the time is up,
which compiling does not count for; a quarter of it is for each way to get warm. A Ctrl-C ends the measurement and keeps its
results, once the original program has run, even while the fused one is compiled: a way without a run is left out.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import sqrt
from random import Random
from typing import Any, Final, TypeVar

import numpy as np

from irscope._base.running import progress
from irscope.errors import ArgumentError
from irscope.ir import Graph, flatten_arguments, graph_of
from irscope.ops.accuracy import Exact
from irscope.runtime.arrays import LIBRARY_NAMES, are_torchs, device_with
from irscope.runtime.machine import describe
from irscope.runtime.measure.conditions import (
    ArgumentSnapshot,
    OwnFunction,
    Threads,
    no_gradients,
    own_function,
    threads_for,
    with_kept_memory,
    with_threads,
)
from irscope.runtime.profile.way import Way, WayName
from irscope.runtime.program import Executable, compile_graph
from irscope.runtime.timer import LEAST_TURNS, Spread, calls_per_turn, spent, undisturbed
from irscope.transforms.fusion import Fusion, fuse

T = TypeVar("T")

_MOST_TURNS: Final = 300
_calls: Final = partial(calls_per_turn, turn=200e-6, most=100)
"""How many plain calls of so many seconds are in a turn."""
_SHORT_NS: Final = 100e6
"""A way whose call takes less is run once even when the time is up."""
HOTTEST: Final = 10
"""The number of slowest nodes whose order must be sure."""


@dataclass(eq=False)
class Measured:
    """The programs that were measured, and how."""

    original: Graph
    """The original program."""
    fusion: Fusion | None
    """Its fusion; None where the program was fused before."""
    ways: dict[WayName, Way]
    device: str
    is_torch: bool
    turns: int
    is_interrupted: bool
    environment: dict[str, Any]
    warnings: tuple[str, ...]
    args: tuple[Any, ...]
    exact: Exact
    threads: int = 1
    own: tuple[str, Spread] | None = None
    """What the user wrote, `NumPy` or `jax.jit`, and its time; None for torch's programs, which run op by op as eager ones do."""


class _Clock:
    """The time for measuring. It starts with the first call, and stands still while something is compiled."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._start: float | None = None

    def start(self) -> None:
        self._start = time.perf_counter() if self._start is None else self._start

    @property
    def spent(self) -> float:
        return 0.0 if self._start is None else time.perf_counter() - self._start

    def waits(self, made: Callable[[], T]) -> T:
        """Returns the result of a call whose time does not count."""
        begin = time.perf_counter()
        try:
            return made()
        finally:
            if self._start is not None:
                self._start += time.perf_counter() - begin

    def is_over(self, part: float = 1.0) -> bool:
        return self.spent >= self.seconds * part


def measure_program(
    program: Graph | Fusion | Executable, args: Sequence[Any], *, device: str | None, seconds: float, exact: Exact = None,
    threads: int | None = None,
) -> Measured:  # fmt: skip
    """Runs a program op by op and fused, for `seconds` seconds, and no call longer."""
    if getattr(seconds, "shape", ()) or not hasattr(seconds, "__float__") or not seconds > 0:
        raise ArgumentError(f"the time to measure for must be positive, not {seconds!r} seconds", hint="seconds=2 is usually enough")
    chosen = threads_for(threads)
    device = device or (program.device if isinstance(program, Executable) else device_with(args))
    original, fusion, makers = _programs(program, device, exact, chosen.count)
    flat = flatten_arguments(args, original)
    is_torch = are_torchs([*flat, *original.bound.values()])
    own = None if is_torch else own_function(original, args, flat)

    def work(kept: bool) -> Measured:
        run = _Run(original, fusion, makers, flat, device, is_torch, chosen, own, _Clock(seconds))
        with no_gradients():
            return run.measured(exact, kept)

    return with_threads(chosen.count, with_kept_memory, work)


def _programs(
    program: Graph | Fusion | Executable, device: str, exact: Exact, threads: int
) -> tuple[Graph, Fusion | None, dict[WayName, Callable[[], Executable]]]:
    """Returns the original program, its fusion, and a function that compiles each way."""
    fusion = None
    if isinstance(program, Executable):
        original = fused = program.graph
        exact = "torch" if program.exact else exact
        source: Graph | Fusion = fused
    else:
        graph = graph_of(program, "profile")
        if isinstance(program, Fusion):
            fusion = program
        elif not any(node.op == "prim::FusionGroup" for node in graph.nodes()):
            fusion = fuse(graph, exact=exact)
        source = fusion if fusion is not None else graph
        original, fused = (fusion.original, fusion.graph) if fusion is not None else (graph, graph)
    makers: dict[WayName, Callable[[], Executable]] = {
        "op by op": partial(compile_graph, original, device, use_kernels=False, exact=exact, threads=threads, capture=False)
    }
    if any(node.op == "prim::FusionGroup" for node in fused.nodes()) and device != "reference":
        makers["fused"] = partial(compile_graph, source, device, exact=exact, threads=threads, capture=False)
    return original, fusion, makers


@dataclass(eq=False)
class _Run:
    original: Graph
    fusion: Fusion | None
    makers: dict[WayName, Callable[[], Executable]]
    args: tuple[Any, ...]
    device: str
    is_torch: bool
    threads: Threads
    own: OwnFunction | None
    clock: _Clock
    own_times: list[float] = field(default_factory=list)

    def measured(self, exact: Exact, kept: bool) -> Measured:
        self.state = ArgumentSnapshot((self.original, self.args))
        with progress(100, "profiling") as step:
            try:
                ways = self._warm()
                before = _forced_switches()
                started = time.perf_counter()
                turns, interrupted = 1, True
                if self.clock.is_over() or len(ways) == len(self.makers):
                    turns, interrupted = with_threads(self.threads.count, self._take_turns, ways, step)
                lasted = time.perf_counter() - started
            finally:
                self.state.restore()
        own = (self.own.label, Spread.of(self.own_times)) if self.own is not None and self.own_times else None
        is_counted = not (self.threads.is_busy and self.threads.count == 1)  # by the thread's own clock nothing is lost
        switches = _forced_switches() - before if is_counted else 0
        warnings = tuple(self._warnings(ways, interrupted, switches, lasted))
        library = next(iter(ways.values())).plain.library(*self.args)
        memory = "freed memory kept" if kept else "freed memory may go back to the system"
        allocator = f"{LIBRARY_NAMES[library]}'s allocator, {memory}"
        environment = describe() | {"threads": self.threads.count, "allocator": allocator}
        return Measured(
            self.original, self.fusion, ways, self.device, self.is_torch, turns, interrupted, environment, warnings,
            self.args, exact, self.threads.count, own,
        )  # fmt: skip

    def _warnings(self, ways: dict[WayName, Way], interrupted: bool, switches: int, seconds: float) -> Iterator[str]:
        if self.threads.warning:
            yield self.threads.warning
        if not self.is_torch and any(way.plain.lacks_torch for way in ways.values()):
            yield "Ops outside kernels run in NumPy; with torch (pip install 'irscope[torch]') most take less time on the same arrays."
        slowest = max(way.total.median for way in ways.values()) / 1e9
        longer = f"{self.clock.seconds:g} s were not enough: seconds={max(20 * slowest, 2 * self.clock.seconds):.2g}"
        if len(ways) < len(self.makers) and not interrupted:
            yield f"{longer} would also measure the fused program."
        elif any(way.is_cold for way in ways.values()):
            yield f"{longer} would measure more than the first call."
        if switches > 50 * max(seconds, 0.1):
            yield f"Other programs took the processor away {switches} times in {seconds:.1f} s: quartiles are wide."

    def _warm(self) -> dict[WayName, Way]:
        """Returns the ways, compiled and called. Each runs one turn at once, so that an interrupt during the next compile keeps it."""
        ways: dict[WayName, Way] = {}
        try:
            for number, (label, make) in enumerate(self.makers.items(), 1):
                if self.clock.is_over() and any(way.total.median > _SHORT_NS for way in ways.values()):
                    break
                alone = self.threads.is_busy and self.threads.count == 1
                way = self.clock.waits(partial(Way.of, label, make, self.args, self.device, self.is_torch, alone=alone))
                self.clock.start()
                warm = partial(way.warm_up, self.args, self.state.restore, partial(self.clock.is_over, number / 4))
                if ways:
                    self.state.restore()
                    warm()
                else:
                    self.state.watch(warm)
                self._turn(way, 1)
                ways[label] = way
        except KeyboardInterrupt:
            if not ways:
                raise
        return ways

    def _take_turns(self, ways: dict[WayName, Way], step: Callable[[], object]) -> tuple[int, bool]:
        """Returns the number of turns, the first included, and whether an interrupt ended them."""
        clock, turns, shown = self.clock, 1, 0
        order = list(ways)
        try:
            calls = {label: 1 if self.state.is_written else _calls(way.total.median / 1e9) for label, way in ways.items()}
            while turns < _MOST_TURNS and not clock.is_over() and not any(way.is_full for way in ways.values()):
                self._own_turn()
                for label in Random(turns).sample(order, len(order)):
                    self._turn(ways[label], calls[label], turns % 2 == 1)
                turns += 1
                done = min(99, int(100 * clock.spent / clock.seconds))
                for _ in range(done - shown):
                    step()
                shown = done
                if turns >= LEAST_TURNS and clock.spent > clock.seconds / 4 and not any(unsure(way.busy) for way in ways.values()):
                    break
        except KeyboardInterrupt:
            return turns, True
        return turns, False

    def _turn(self, way: Way, calls: int, parts_first: bool = False) -> None:
        """Runs the whole and the parts, in reverse order every second turn: the second to run finds its weights in the caches."""
        whole, parts = partial(way.run_whole, self.args, calls), partial(way.run_timed, self.args, again=not self.state.is_written)
        in_order = [whole, *[parts] * min(calls, 5)]
        for run in reversed(in_order) if parts_first else in_order:
            if self.clock.is_over():
                return
            self.state.restore()
            run()

    def _own_turn(self) -> None:
        """Times what the user wrote; the first time is not kept, and one that fails is not asked again."""
        if self.own is None or self.clock.is_over():
            return
        self.state.restore()
        timed = undisturbed if self.threads.count == 1 else spent
        run = partial(self.own, *self.args)
        try:
            once = timed(run)
            calls = 1 if self.state.is_written else _calls(once)
            if not self.clock.is_over():
                self.state.restore()
                self.own_times.append(timed(run, calls) * 1e9 / calls)
        except Exception:
            self.own = None


def _forced_switches() -> int:
    """Returns how often the system has switched this process out in favour of others."""
    try:
        import resource
    except ImportError:  # Windows has no such counter
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


# -- which of two is larger -------------------------------------------------------------------------------------------

_EQUAL: Final = 0.03
"""Medians that differ by less than this fraction count as equal."""


def is_larger(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Checks whether the first of two measured in the same runs is larger, more often than chance would allow: of `n` pairs in which
    neither is generally larger, more than `n / 2 + 0.98 √n` of one kind occur in one of twenty cases (the sign test).
    """
    count = int(np.count_nonzero(a != b))
    return count > 3 and int(np.count_nonzero(a > b)) > count / 2 + 0.98 * sqrt(count)


def unsure(taken: np.ndarray[Any, Any]) -> list[int]:
    """Returns those of the slowest columns whose order relative to the next is not sure; `taken` has a row for each run."""
    if not len(taken):
        return []
    medians = np.median(taken, axis=0)
    slowest = [int(column) for column in np.argsort(-medians, kind="stable")[: HOTTEST + 1]]
    return [
        a for a, b in pairwise(slowest)
        if medians[a] - medians[b] > _EQUAL * medians[a] and not is_larger(taken[:, a], taken[:, b])
    ]  # fmt: skip
