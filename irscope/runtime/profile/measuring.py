"""The measurement of a program in several ways, by turns until the order of its slow nodes is sure, or the time is up.

All ways take turns, in another order each time, as in `irs.compare`: a call of the plain program for the whole, and a call
that leaves stamps for the parts. Arguments that the program writes are restored before each. A Ctrl-C ends the
measurement and keeps its results, once the original program has run, even while the fused one is compiled: a way
without a run is left out.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from irscope._base.concurrency.restored import without_gradients
from irscope._base.progress import progress
from irscope.errors import ArgumentError
from irscope.ir import Graph, flatten_arguments, graph_of
from irscope.ops.exactness import Exact
from irscope.runtime.arrays import are_torchs
from irscope.runtime.machine import busy, describe
from irscope.runtime.measure.argument_snapshot import ArgumentSnapshot
from irscope.runtime.measure.keep_freed_memory import with_kept_memory
from irscope.runtime.profile.spread import sure_order
from irscope.runtime.profile.way import Way, WayName
from irscope.runtime.program import Executable, compile_graph
from irscope.transforms.fusion import Fusion, fuse

__all__ = ["Measured", "measured"]

_LEAST_TURNS: Final = 7
_MOST_TURNS: Final = 300
_SHORTEST_TURN: Final = 200e-6
"""The least seconds of the plain calls in a turn."""
_MOST_CALLS: Final = 100
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
    written: bool
    """Whether the program writes its arguments."""
    args: tuple[Any, ...]
    exact: Exact


def measured(
    program: Graph | Fusion | Executable,
    args: Sequence[Any],
    *,
    device: str | None,
    seconds: float,
    exact: Exact = None,
) -> Measured:
    """Runs a program op by op and fused, for about `seconds` seconds."""
    if not seconds > 0:
        raise ArgumentError(f"the time to measure for must be positive, not {seconds!r} seconds", hint="seconds=2 is usually enough")
    original, fusion, makers, device = _programs(program, device, exact)
    args = flatten_arguments(args, original)
    is_torch = are_torchs([*args, *original.bound.values()])
    return with_kept_memory(
        lambda kept: _without_gradients(
            partial(_measured, original, fusion, makers, args, device, is_torch, seconds, exact, kept)
        )
    )


def _programs(
    program: Graph | Fusion | Executable, device: str | None, exact: Exact
) -> tuple[Graph, Fusion | None, dict[WayName, Callable[[], Executable]], str]:
    """Returns the original program, its fusion, a function that compiles each way, and the device."""
    fusion = None
    if isinstance(program, Executable):
        original = fused = program.graph
        device, exact = device or program.device, "torch" if program.exact else exact
        source: Graph | Fusion = fused
    else:
        graph = graph_of(program, "profile")
        if isinstance(program, Fusion):
            fusion = program
        elif not any(node.op == "prim::FusionGroup" for node in graph.nodes()):
            fusion = fuse(graph, exact=exact)
        source = fusion if fusion is not None else graph
        original, fused = (fusion.original, fusion.graph) if fusion is not None else (graph, graph)
    where = device or "cpu"
    makers: dict[WayName, Callable[[], Executable]] = {
        "op by op": partial(compile_graph, original, where, use_kernels=False, exact=exact)
    }
    if any(node.op == "prim::FusionGroup" for node in fused.nodes()) and where != "reference":
        makers["fused"] = partial(compile_graph, source, where, exact=exact)
    return original, fusion, makers, where


def _measured(
    original: Graph, fusion: Fusion | None, makers: dict[WayName, Callable[[], Executable]], args: tuple[Any, ...],
    device: str, is_torch: bool, seconds: float, exact: Exact, kept: bool,
) -> Measured:  # fmt: skip
    state = ArgumentSnapshot([*args, *original.bound.values()])
    with progress(100, "profiling") as step:
        try:
            ways = _warm(makers, args, state, device, is_torch)
            before = _forced_switches()
            started = time.perf_counter()
            turns, interrupted = 1, True
            if len(ways) == len(makers):
                turns, interrupted = _take_turns(ways, args, state, seconds, step)
            lasted = time.perf_counter() - started
        finally:
            state.restore()
    warnings = _warnings(_forced_switches() - before, lasted)
    return Measured(
        original, fusion, ways, device, is_torch, turns, interrupted, _environment(is_torch, kept), warnings,
        state.is_written, args, exact,
    )  # fmt: skip


def _warm(
    makers: dict[WayName, Callable[[], Executable]], args: tuple[Any, ...], state: ArgumentSnapshot, device: str, is_torch: bool
) -> dict[WayName, Way]:
    """Returns the ways, compiled and called. Each runs one turn at once, so that an interrupt during the next compile keeps it."""
    ways: dict[WayName, Way] = {}
    try:
        for label, make in makers.items():
            way = Way.of(label, make, args, device, is_torch)
            if not ways:
                state.watch(partial(way.plain, *args))
            way.warm_up(args, state.restore)
            _turn(way, args, state, 1)
            ways[label] = way
    except KeyboardInterrupt:
        if not ways:
            raise
    return ways


def _take_turns(
    ways: dict[WayName, Way],
    args: Sequence[Any],
    state: ArgumentSnapshot,
    seconds: float,
    step: Callable[[], object],
) -> tuple[int, bool]:
    """Returns the number of turns, the first included, and whether an interrupt ended them."""
    start, turns, shown = time.perf_counter(), 1, 0
    order = list(ways)
    try:
        calls = {label: 1 if state.is_written else _calls(way, args) for label, way in ways.items()}
        while turns < _MOST_TURNS:
            for label in Random(turns).sample(order, len(order)):
                _turn(ways[label], args, state, calls[label], turns % 2 == 1)
            turns += 1
            spent = time.perf_counter() - start
            done = min(99, int(100 * spent / seconds))
            for _ in range(done - shown):
                step()
            shown = done
            if (spent > seconds and turns >= 3) or any(way.is_full for way in ways.values()):
                break
            if turns >= _LEAST_TURNS and spent > seconds / 4 and not any(map(unsure, ways.values())):
                break
    except KeyboardInterrupt:
        return turns, True
    return turns, False


def _turn(way: Way, args: Sequence[Any], state: ArgumentSnapshot, calls: int, parts_first: bool = False) -> None:
    """Runs the whole and the parts, in reverse order every second turn: the second to run finds its weights in the caches."""
    if not parts_first:
        state.restore()
        way.run_whole(args, calls)
    for _ in range(min(calls, 5)):
        state.restore()
        way.run_timed(args)
    if parts_first:
        state.restore()
        way.run_whole(args, calls)


def unsure(way: Way) -> list[int]:
    """Returns the rows among the slowest whose order relative to the next is not sure."""
    return sure_order(way.busy, way.order_by_time()[: HOTTEST + 1]) if way.runs else []


def _calls(way: Way, args: Sequence[Any]) -> int:
    way.run_whole(args, 1)
    took = way.whole.pop() / 1e9
    return max(1, min(_MOST_CALLS, round(_SHORTEST_TURN / max(took, 1e-9))))


def _without_gradients(work: Callable[[], Measured]) -> Measured:
    torch = sys.modules.get("torch")
    return work() if torch is None or not hasattr(torch, "no_grad") else without_gradients(torch, work)


def _forced_switches() -> int:
    """Returns how often the system has switched this process out in favour of others."""
    try:
        import resource
    except ImportError:  # Windows has no such counter
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _warnings(switches: int, seconds: float) -> tuple[str, ...]:
    found = []
    if warning := busy().strip():
        found.append(warning)
    if switches > 50 * max(seconds, 0.1):
        found.append(f"Other programs took the processor away {switches} times in {seconds:.1f} s: quartiles are wide.")
    return tuple(found)


def _environment(is_torch: bool, kept: bool) -> dict[str, Any]:
    threads = sys.modules["torch"].get_num_threads() if is_torch else os.cpu_count() or 1
    library = "torch's allocator" if is_torch else "NumPy's allocator"
    memory = "freed memory kept" if kept else "freed memory may go back to the system"
    return describe() | {"threads": threads, "allocator": f"{library}, {memory}"}
