"""One way to run a program, op by op or with its groups as kernels, and the times of its instructions run after run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, Literal

import numpy as np

from irscope.ir import Graph, Node
from irscope.runtime.profile.clocks import Durations, Stopwatch, stopwatch
from irscope.runtime.profile.costs import Counter, NodeCost
from irscope.runtime.program import Code, Executable, Slots
from irscope.runtime.timer import Spread, spent, undisturbed

WayName = Literal["op by op", "fused"]
WARM_RUNS: Final = 6
"""Calls before the first that counts: a program has its fast path after the fourth."""
_MOST_NUMBERS: Final = 8_000_000
"""The most times that are kept for all runs together."""
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
    _busy: list[Any] = field(default_factory=list)
    _host: list[Any] = field(default_factory=list)
    _idle: list[Any] = field(default_factory=list)
    _entry: list[float] = field(default_factory=list)
    _leave: list[float] = field(default_factory=list)
    _kept: list[tuple[float, Any, Durations, float]] = field(default_factory=list)
    _path: tuple[list[tuple[int, int]], Any] | None = None
    _counts: Any = None
    _cold_runs: int = 0

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
        self._map_rows(code)
        self.whole, self.is_cold, self._cold_runs = [self.first_ns], True, 1
        if self.code is None:
            self._busy = [np.array([self.first_ns] * min(len(self.nodes), 1))]
        else:
            positions, times = np.array(taken, np.int64).reshape(-1, 2).T
            end = start + int(times.sum())
            self.whole = [float(times.sum())]
            self._record(positions, Durations(times, times, np.zeros_like(times), start, end), start, end)
        start = time.perf_counter_ns()
        for run in (self._run_plain, *((self._run_stamped,) if self.code is not None else ())):
            for _ in range(WARM_RUNS):
                if is_over():
                    break
                restore()
                run(args)
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

    def _run_stamped(self, args: Sequence[Any]) -> None:
        self.watch.start()
        self.timed(*args)
        self.watch.finish()

    def _run_plain(self, args: Sequence[Any]) -> None:
        self.plain(*args)
        self.watch.finish()

    def _map_rows(self, code: Code) -> None:
        """Maps each instruction to the row that it counts for."""
        rows = {node.id: row for row, node in enumerate(self.nodes)}
        owners: list[Node | None] = [step.owner for step in code.instructions]
        self.row_of_position = np.array([rows[node.id] if node is not None else 0 for node in owners], np.intp)
        self._owners = owners
        self._first: dict[int, int] = {}
        for position, node in enumerate(step.node for step in code.instructions):
            if node is not None:
                self._first.setdefault(node.id, position)
        self._counts = np.zeros(len(code.instructions), np.int64)
        for position, _, _ in self.counter.curve:
            self._counts[position] += 1

    def run_whole(self, args: Sequence[Any], calls: int) -> None:
        """Times some calls of the plain program."""
        timed = undisturbed if self.alone else spent
        took = timed(partial(self.plain, *args), calls, self.watch.finish) * 1e9 / calls
        self.whole = [] if self.is_cold else self.whole
        self.is_cold = False
        self.whole.append(took)

    def run_timed(self, args: Sequence[Any]) -> None:
        """Times one call, instruction by instruction."""
        code, watch = self.code, self.watch
        if code is None:  # a single kernel, called directly: its time is the whole
            self._warmed()
            self._busy.append(np.array([self.whole[-1]] * min(len(self.nodes), 1)))
            return
        clock = watch.stamp[1]
        watch.start()
        start = clock()
        self.timed(*args)
        end = clock()
        found = watch.read()
        self._warmed()
        self._record(self._positions(code.path), found, start, end)

    def _warmed(self) -> None:
        """Forgets the call that ran before the program was warm."""
        for kept in (self._busy, self._host, self._idle, self._entry, self._leave, self._kept):
            del kept[: self._cold_runs]
        self._cold_runs = 0

    def _record(self, positions: Any, found: Durations, start: int, end: int) -> None:
        rows = self.row_of_position[positions]
        for kept, times in ((self._busy, found.busy), (self._host, found.host), (self._idle, found.idle)):
            kept.append(np.bincount(rows, times, len(self.nodes)))
        self._entry.append(max(found.start - start, 0))
        self._leave.append(max(end - found.end, 0))
        self._keep(float(found.busy.sum()), positions, found, start)

    def _keep(self, total: float, positions: Any, found: Durations, start: int) -> None:
        if len(self._kept) >= _KEPT_RUNS:
            self._kept.pop(0)
        self._kept.append((total, positions, found, start))

    def _positions(self, path: list[tuple[int, int]]) -> Any:
        """Returns the position of each instruction of a run; always the same for programs without jumps."""
        if self._path is None or self._path[0] != path:
            found = np.concatenate([np.arange(start, stop) for start, stop in path]) if path else np.zeros(0, np.intp)
            self._path = (list(path), found)
        return self._path[1]

    @property
    def is_full(self) -> bool:
        """Whether enough times have been kept."""
        return len(self._busy) * max(len(self.nodes), 1) > _MOST_NUMBERS

    def set_runs(self, nodes: list[Node], busy: Any) -> None:
        """Takes times that others have measured, by run and node; nodes without any are left out."""
        vars(self)["nodes"] = nodes
        self._busy, self.whole = list(busy), [float(each.sum()) for each in busy]
        self._owners, places = list[Node | None](self.nodes), np.arange(len(self.nodes))
        self._first = {node.id: place for place, node in enumerate(self.nodes)}
        self._counts = np.array([*(self.cost(node).calls for node in self.nodes), 0], np.int64)
        for each in busy:
            self._keep(float(each.sum()), places, Durations(each, each, np.zeros_like(each), 0, int(each.sum())), 0)

    # -- results ------------------------------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes that run, in textual order, one row of every table each. A kernel's inner nodes are not distinguished."""
        kernels = {node for node in self.graph.nodes() if self.plain.has_kernels(node)}
        inside = {inner for group in kernels for block in group.blocks for inner in block.nodes}
        return [node for node in self.graph.nodes() if node.op != "prim::Constant" and node not in inside]

    @property
    def runs(self) -> int:
        return len(self._busy)

    @property
    def busy(self) -> Any:
        """Nanoseconds by run and node."""
        return np.array(self._busy).reshape(self.runs, len(self.nodes))

    @property
    def host(self) -> Any:
        """The processor's share: launches, where a GPU does the work."""
        return np.array(self._host).reshape(len(self._host), len(self.nodes)) if self._host else self.busy

    @property
    def idle(self) -> Any:
        """The time that a GPU waited for the host before each node."""
        return np.array(self._idle).reshape(len(self._idle), len(self.nodes)) if self._idle else np.zeros_like(self.busy)

    @property
    def total(self) -> Spread:
        """A whole call."""
        return Spread.of(self.whole)

    @property
    def entry(self) -> Spread:
        """The time from the call to the first instruction, in which arguments are checked."""
        return Spread.of(self._entry)

    @property
    def leave(self) -> Spread:
        """The time from the last instruction to the caller."""
        return Spread.of(self._leave)

    @property
    def parts(self) -> Spread:
        """The sum of all nodes and of the time before and after them, run by run."""
        return Spread.of(self.parts_by_run)

    @property
    def parts_of_call(self) -> float:
        """That sum as a part of a plain call: above 1 where a stamp between two ops costs more than by itself."""
        return self.parts.median / self.total.median if self.total.median else 1.0

    @property
    def parts_by_run(self) -> Any:
        """The same sum of each run, in nanoseconds."""
        if not self._entry:
            return self.busy.sum(axis=1)
        return self.busy.sum(axis=1) + self.idle.sum(axis=1) + np.array(self._entry) + np.array(self._leave)

    def cost(self, node: Node) -> NodeCost:
        """Returns the traffic, arithmetic and allocations of a node in a run."""
        return self.counter.costs.get(node.id) or NodeCost()

    def calls(self, node: Node) -> int:
        """Returns how often a node runs in a run."""
        first = self._first.get(node.id)
        return 0 if first is None else int(self._counts[first])

    def trips(self, node: Node) -> int | None:
        """Returns how often a loop's body runs in a run; None for a node that is not a loop."""
        if node.op != "prim::Loop":
            return None
        head = self._first[node.id] + 1  # checks before each iteration whether there is one
        return int(self._counts[head]) - self.calls(node)

    def timeline(self) -> list[Instruction]:
        """Returns the instructions of one of the last runs, the one with the median time."""
        if not self._kept:
            return self._direct_timeline()
        ordered = sorted(self._kept, key=lambda kept: kept[0])
        _, positions, found, start = ordered[len(ordered) // 2]
        live = [bytes_ for _, _, bytes_ in self.counter.curve]
        offset = found.start - start
        host = offset + np.concatenate([[0.0], np.cumsum(found.host)])
        ends = offset + np.cumsum(found.busy + found.idle)
        made = []
        for index, position in enumerate(positions):
            node, alive = self._owners[position], live[index] if index < len(live) else 0
            if node is not None:
                took = float(found.busy[index])
                made.append(
                    Instruction(
                        node, float(ends[index]) - took, took, float(host[index]), float(found.host[index]), alive,
                        self.timed.threads_of(node),
                    )
                )
        return made

    def _direct_timeline(self) -> list[Instruction]:
        took = self.total.median
        alive = max((bytes_ for _, _, bytes_ in self.counter.curve), default=0)
        return [Instruction(node, 0.0, took, 0.0, took, alive, self.plain.threads_of(node)) for node in self.nodes[:1]]

    def order_by_time(self) -> list[int]:
        """Returns the rows, the slowest first."""
        medians = np.median(self.busy, axis=0) if self.runs else np.zeros(len(self.nodes))
        return [int(row) for row in np.argsort(-medians, kind="stable")]
