"""One way to run a program, op by op or with its groups as kernels, and the times of its instructions run after run.

On a processor an instruction is done when it returns. A GPU runs asynchronously: an instruction only enqueues work on the
stream. There each stamp also records an event on the stream, which gets its time when the work before it is done. The host's
times `h` and the events' times `d` are relative to the first stamp, when the stream is empty, so both clocks start together.
The work of instruction `k` cannot have started before the work before it was done, nor before the host reached it:

    it took at most  d[k] - max(d[k-1], h[k-1]),  and the stream was idle for at least  h[k-1] - d[k-1].

That is far from what a short op takes, since its launch is in it. So the stream is then held by a wait, until the host has enqueued
the whole run, and the run repeated: its work lies close together, and `d[k] - d[k-1]` is what `k` takes. The rest of what it took in
the first run, the stream was idle.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from irscope.ir import Graph, Node
from irscope.runtime.arrays import imported_cupy
from irscope.runtime.profile.costs import Counter, NodeCost
from irscope.runtime.program import Code, Executable, Slots, Stamp, stamp_cost
from irscope.runtime.timer import Spread, spent, undisturbed

Series = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Durations:
    """The time of each instruction of a run, in nanoseconds, less what a stamp costs by itself."""

    host: Series
    """The processor's time."""
    busy: Series
    """The device's time: the same on a processor, the stream's work on a GPU."""
    idle: Series
    """The time that a GPU waited for the host before each instruction; 0 on a processor."""
    start: int
    """The clock at the first stamp."""
    end: int
    """The clock at the last one."""

    @classmethod
    def on_host(cls, taken: Series, start: int, end: int) -> Durations:
        return cls(taken, taken, np.zeros_like(taken), start, end)


class TorchHold:
    """Keeps torch's current stream waiting. It waits for a number of cycles, whose pace changes: each wait measures that of the next."""

    def __init__(self, event: Callable[[], Any], sleep: Callable[[int], object]) -> None:
        self._event, self._sleep = event, sleep
        self._pace = 1.0
        """Cycles of a nanosecond."""
        self._cycles = 0
        self._marks: list[Any] = []

    def __call__(self, nanoseconds: float) -> None:
        """Holds the stream, which must have passed the last hold."""
        if self._marks:
            self._pace = self._cycles / max(self._marks[0].elapsed_time(self._marks[1]) * 1e6, 1.0)
        self._cycles = int(nanoseconds * self._pace)
        self._marks = [self._event()]
        self._sleep(self._cycles)
        self._marks += [self._event(), self._event()]

    @property
    def event_ns(self) -> float:
        """What the last hold's events took of the stream, each by itself."""
        return float(self._marks[1].elapsed_time(self._marks[2])) * 1e6


class Stopwatch:
    """Times runs one after the other: a processor's clock, on a GPU with events on the stream in use."""

    def __init__(
        self, clock: Callable[[], int] = time.perf_counter_ns, event: Callable[[], Any] | None = None,
        elapsed: Callable[[Any, Any], float] = lambda a, b: 0.0, finish: Callable[[], object] = lambda: None,
        hold: TorchHold | None = None,
    ) -> None:  # fmt: skip
        """`event` records one on the stream, `elapsed` returns the milliseconds between two, `finish` waits for the device, `hold` keeps
        the stream waiting for some nanoseconds; it knows what an event takes of the stream."""
        self.times: list[int] = []
        self.events: list[Any] = []
        self.event = event
        self.elapsed = elapsed
        self.finish = finish
        self.hold = hold

        def mark(now: int) -> None:
            self.times.append(now)
            self.events.append(event and event())

        self.stamp: Stamp = (self.times.append if event is None else mark, clock)
        self.cost = stamp_cost(self.stamp, self.start)
        """Nanoseconds of one stamp."""

    def start(self) -> None:
        """Waits for the device, and forgets the previous run."""
        self.times.clear()
        self.events.clear()
        self.finish()

    def read(self) -> Durations:
        """Returns the times of the run that has ended."""
        self.finish()
        times = np.array(self.times, np.int64)
        start, end = int(times[0]), int(times[-1])
        host = np.maximum(np.diff(times) - self.cost, 0.0)
        if self.event is None:
            return Durations.on_host(host, start, end)
        done = self._done()
        came = (times - start).astype(np.float64)
        idle = np.maximum(came[:-1] - done[:-1], 0.0)
        return Durations(host, np.maximum(done[1:] - np.maximum(done[:-1], came[:-1]), 0.0), idle, start, end)

    def _done(self) -> Series:
        """Returns when the stream passed each event, in nanoseconds from the first."""
        return np.array([self.elapsed(self.events[0], event) * 1e6 for event in self.events])

    def read_held(self, free: Durations) -> Durations:
        """Returns the times of a run on a free stream, divided between work and waiting by the same run, just ended, on a held one."""
        self.finish()
        assert self.hold is not None
        work, took = np.diff(self._done()) - self.hold.event_ns, free.busy + free.idle
        if work.shape != took.shape:  # other turns of a loop
            return free
        busy = np.minimum(np.maximum(work, 0.0), took)
        return replace(free, busy=busy, idle=took - busy)


def stopwatch(device: str, is_torch: bool, *, alone: bool = False) -> Stopwatch:
    """Returns the stopwatch of a device. For programs that run on one thread alone, beside others that keep the processors
    busy, the clock is that of the thread: it costs more, and stands still while others have the processor."""
    clock = time.perf_counter_ns
    if device != "cuda":
        return Stopwatch(time.thread_time_ns if alone else clock)
    if is_torch:
        import torch

        def event() -> Any:
            made = torch.cuda.Event(enable_timing=True)
            made.record()
            return made

        return Stopwatch(clock, event, lambda a, b: float(a.elapsed_time(b)), torch.cuda.synchronize, TorchHold(event, torch.cuda._sleep))
    cupy = imported_cupy()
    elapsed = cupy.cuda.get_elapsed_time
    return Stopwatch(clock, lambda: cupy.cuda.get_current_stream().record(), elapsed, cupy.cuda.Device().synchronize)


# -- the runs ---------------------------------------------------------------------------------------------------------

WayName = Literal["op by op", "fused"]
WARM_RUNS: Final = 6
"""Calls before the first that counts: a program has the function for its arguments after the second."""
_MOST_NUMBERS: Final = 8_000_000
"""The most times that are kept for all runs together."""
_HELD: Final = 1.5
"""How long a GPU's stream is held for a run, by the time that the host took to enqueue it before."""
_KEPT_RUNS: Final = 9
"""Runs whose every instruction is kept; the timeline shows one of them."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a run, for the timeline; in nanoseconds from the start of the call."""

    node: Node
    start: float
    duration: float
    """The device's time."""
    host_start: float
    host_duration: float
    live_bytes: int
    """Bytes of the run's tensors after the instruction."""
    threads: int = 1
    """The number of threads that the kernel is split over; unknown for the library's ops."""


class Run(NamedTuple):
    """One run, its times by node, in nanoseconds."""

    busy: Series
    host: Series
    idle: Series
    entry: float = 0.0
    """The time before the first instruction."""
    leave: float = 0.0
    """The time after the last one."""


@dataclass(eq=False)
class Way:
    """One compiled variant of a program, op by op or fused, and its times."""

    label: WayName
    graph: Graph
    plain: Executable
    """The program that is timed as a whole."""
    timed: Executable
    """The same program, which leaves stamps."""
    watch: Stopwatch
    code: Code | None = None
    first_ns: float = 0.0
    """The first call, which also compiles what could not be compiled before."""
    warm_ns: float = 0.0
    """The calls after it that are not counted."""
    whole: list[float] = field(default_factory=list)
    """Nanoseconds of plain calls."""
    alone: bool = False
    """Whether it runs on one thread of a busy machine: what other programs take of it does not count."""
    is_cold: bool = False
    """Whether there was time for the first call only."""
    counter: Counter = field(default_factory=Counter)
    _runs: list[Run] = field(default_factory=list)
    _kept: deque[tuple[float, Any, Durations, float]] = field(default_factory=partial(deque, maxlen=_KEPT_RUNS))
    """Of the last runs the whole time, the position of each instruction, its times, and the clock at the call."""
    _path: tuple[list[tuple[int, int]], Any] | None = None
    _owners: list[Node] = field(default_factory=list)
    """The node that each instruction serves."""
    _has_cold_run: bool = False
    """Whether the only run is the first call."""

    @staticmethod
    def of(label: WayName, make: Callable[[], Executable], args: Sequence[Any], device: str, is_torch: bool, *, alone: bool = False) -> Way:
        """Builds a way; `make` compiles the program: it is called twice, and the second call finds the kernels of the first.
        `alone` says that it runs on one thread of a busy machine: then the time is that of this thread."""
        plain, timed = make(), make()
        way = Way(label, plain.graph, plain, timed, stopwatch(device, is_torch, alone=alone), alone=alone)
        if device != "reference" and not plain.is_direct:
            way.code = timed.stamped(args, way.watch.stamp)
        return way

    # -- runs ---------------------------------------------------------------------------------------------------------

    def warm_up(self, args: Sequence[Any], restore: Callable[[], object], is_over: Callable[[], bool]) -> None:
        """Runs once, counting traffic and live memory, and then the calls that are not counted, as far as there is time.

        The first call counts as well where there is time for no other."""
        code = self.code or self.timed.stamped(args, self.watch.stamp)
        taken: list[tuple[int, int]] = []
        code.observer = partial(self._counting, taken)
        start = time.perf_counter_ns()
        try:
            self.timed(*args)
            self.watch.finish()
        finally:
            code.observer = None
        self.first_ns = time.perf_counter_ns() - start
        rows = {node.id: row for row, node in enumerate(self.nodes)}
        self._owners = [step.owner for step in code.instructions]
        self.row_of_position = np.array([rows[node.id] for node in self._owners], np.intp)
        self.whole, self.is_cold, self._has_cold_run = [self.first_ns], True, True
        if self.code is None:
            self._record_whole()
        else:
            positions, times = np.array(taken, np.int64).reshape(-1, 2).T
            end = start + int(times.sum())
            self.whole = [float(times.sum())]
            self._record(positions, Durations.on_host(times, start, end), start, end)
        start = time.perf_counter_ns()
        for run in (self.plain, *((self.timed,) if self.code is not None else ())):
            for _ in range(WARM_RUNS):
                if is_over():
                    break
                restore()
                self.watch.start()
                run(*args)
                self.watch.finish()
        self.warm_ns = time.perf_counter_ns() - start

    def _counting(self, taken: list[tuple[int, int]], code: Code, slots: Slots) -> Callable[[int], None]:
        """Counts traffic and memory, and takes the time of each instruction between two counts."""
        count, clock = self.counter.watch(code, slots), self.watch.stamp[1]
        last = clock()

        def after(position: int) -> None:
            nonlocal last
            taken.append((position, clock() - last))
            count(position)
            last = clock()

        return after

    def run_whole(self, args: Sequence[Any], calls: int) -> None:
        """Times some calls of the plain program."""
        timed = undisturbed if self.alone else spent
        took = timed(partial(self.plain, *args), calls, self.watch.finish) * 1e9 / calls
        self.whole = [] if self.is_cold else self.whole
        self.is_cold = False
        self.whole.append(took)

    def run_timed(self, args: Sequence[Any], *, again: bool = False) -> None:
        """Times one call, instruction by instruction; `again`: whether it may be repeated, with the same effect, on a held stream."""
        code, watch = self.code, self.watch
        if code is None:  # a single kernel, called directly: its time is the whole
            self._warmed()
            self._record_whole()
            return
        clock = watch.stamp[1]
        watch.start()
        start = clock()
        self.timed(*args)
        end = clock()
        found = watch.read()
        if again and watch.hold is not None:
            watch.start()
            watch.hold(_HELD * (end - start))
            self.timed(*args)
            found = watch.read_held(found)
        self._warmed()
        if self._path is None or self._path[0] != code.path:  # always the same for programs without jumps
            ranges = [np.arange(first, stop) for first, stop in code.path]
            self._path = (list(code.path), np.concatenate(ranges) if ranges else np.zeros(0, np.intp))
        self._record(self._path[1], found, start, end)

    def _warmed(self) -> None:
        """Forgets the call that ran before the program was warm."""
        if self._has_cold_run:
            self._runs.clear()
            self._kept.clear()
        self._has_cold_run = False

    def _record(self, positions: Any, found: Durations, start: int, end: int) -> None:
        rows = self.row_of_position[positions]
        busy, host, idle = (np.bincount(rows, each, len(self.nodes)) for each in (found.busy, found.host, found.idle))
        self._runs.append(Run(busy, host, idle, max(found.start - start, 0), max(end - found.end, 0)))
        self._kept.append((float(found.busy.sum()), positions, found, start))

    def _record_whole(self) -> None:
        """Records the time of the last plain call as that of its only node."""
        taken = np.array([self.whole[-1]] * min(len(self.nodes), 1))
        self._runs.append(Run(taken, taken, np.zeros_like(taken)))

    @property
    def is_full(self) -> bool:
        """Whether enough times have been kept."""
        return self.runs * max(len(self.nodes), 1) > _MOST_NUMBERS

    def set_runs(self, nodes: list[Node], busy: Any) -> None:
        """Takes times that others have measured, by run and node; nodes without any are left out."""
        vars(self)["nodes"] = nodes
        self._runs, self.whole = [Run(each, each, np.zeros_like(each)) for each in busy], [float(each.sum()) for each in busy]
        self._owners = self.nodes
        for each in busy:
            self._kept.append((float(each.sum()), np.arange(len(nodes)), Durations.on_host(each, 0, int(each.sum())), 0))

    # -- results ------------------------------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes that run, in textual order, one row of every table each. A kernel's inner nodes are not distinguished."""
        kernels = {node for node in self.graph.nodes() if self.plain.has_kernels(node)}
        inside = {inner for group in kernels for block in group.blocks for inner in block.nodes}
        return [node for node in self.graph.nodes() if node.op != "prim::Constant" and node not in inside]

    @property
    def runs(self) -> int:
        return len(self._runs)

    def _by_run(self, times: list[Series]) -> Series:
        return np.array(times).reshape(self.runs, len(self.nodes))

    @property
    def busy(self) -> Series:
        """Nanoseconds by run and node."""
        return self._by_run([run.busy for run in self._runs])

    @property
    def host(self) -> Series:
        """The processor's share: launches, where a GPU does the work."""
        return self._by_run([run.host for run in self._runs])

    @property
    def idle(self) -> Series:
        """The time that a GPU waited for the host before each node."""
        return self._by_run([run.idle for run in self._runs])

    @property
    def total(self) -> Spread:
        return Spread.of(self.whole)

    @property
    def entry(self) -> Spread:
        """The time from the call to the first instruction, in which arguments are checked."""
        return Spread.of([run.entry for run in self._runs])

    @property
    def leave(self) -> Spread:
        """The time from the last instruction to the caller."""
        return Spread.of([run.leave for run in self._runs])

    @property
    def parts_by_run(self) -> list[float]:
        """The sum of all nodes and of the time before and after them in each run, in nanoseconds."""
        return [float(run.busy.sum() + run.idle.sum() + run.entry + run.leave) for run in self._runs]

    @property
    def parts_of_call(self) -> float:
        """The median of that sum as a part of a plain call: above 1 where a stamp between two ops costs more than by itself."""
        return Spread.of(self.parts_by_run).median / self.total.median if self.total.median else 1.0

    def cost(self, node: Node) -> NodeCost:
        """Returns the traffic, arithmetic and allocations of a node in a run."""
        return self.counter.costs.get(node.id) or NodeCost()

    def timeline(self) -> list[Instruction]:
        """Returns the instructions of one of the last runs, the one with the median time."""
        if not self._kept:
            took, alive = self.total.median, max((bytes_ for _, _, bytes_ in self.counter.curve), default=0)
            return [Instruction(node, 0.0, took, 0.0, took, alive, self.plain.threads_of(node)) for node in self.nodes[:1]]
        ordered = sorted(self._kept, key=lambda kept: kept[0])
        _, positions, found, start = ordered[len(ordered) // 2]
        live = [bytes_ for _, _, bytes_ in self.counter.curve]
        if len(live) != len(positions):  # machine code ran the turns of a loop, which were counted one by one
            most = {position: bytes_ for bytes_, position in sorted((bytes_, position) for position, _, bytes_ in self.counter.curve)}
            live = [most.get(int(position), 0) for position in positions]
        offset = found.start - start
        host = offset + np.concatenate([[0.0], np.cumsum(found.host)])
        ends = offset + np.cumsum(found.busy + found.idle)
        made = []
        for index, position in enumerate(positions):
            node, alive = self._owners[position], live[index] if index < len(live) else 0
            took = float(found.busy[index])
            made.append(
                Instruction(
                    node, float(ends[index]) - took, took, float(host[index]), float(found.host[index]), alive, self.timed.threads_of(node)
                )
            )  # fmt: skip
        return made
