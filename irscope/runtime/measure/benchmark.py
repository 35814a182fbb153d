"""What fusion and sharing kernels buy: one program run in several ways, side by side.

Our rows run the same folded program in the same process; they differ only in how fusion groups run: node by node through
the library, each by a kernel of its own, or by kernels that equal groups share. Beside them run the model itself and
whatever other functions the user gives: a torch.compile of it, a jax.jit, an expression of numexpr.

*Fair* means: all take turns, in another order each time; every row gets its results' memory from the library's
own allocator, which is told to keep what is freed (see `irscope.runtime.measure.keep_freed_memory`; with `keep_memory=False` all pay
the page faults alike); no row computes gradients; arguments that the program writes are restored before each turn. With
`rotate=True` the runs go through copies of the arguments that are larger than the last-level cache together, so that no
row finds its operands there; otherwise all do, if they fit.

The limit is measured in the same turns: the machine's fastest copy of as many bytes on as many threads, between arrays of
its own. Bytes and arithmetic are the program's (see `irscope.runtime.measure.workload`), not a row's: a row that moves more than it must
shows as a lower bandwidth.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any, ParamSpec, TypeVar

import numpy as np

from irscope._base.concurrency.restored import without_gradients
from irscope._base.concurrency.temporary import temporary_folder
from irscope._base.leaves import leaves
from irscope._base.progress import progress
from irscope._base.words import plural
from irscope.errors import ArgumentError
from irscope.ir import Graph, flatten_arguments, graph_of
from irscope.ops.exactness import Exact
from irscope.runtime.arrays import imported_cupy, is_cupys, is_torch_tensor, library_for, off_the_gpu, on_host
from irscope.runtime.device import ObjectStore
from irscope.runtime.device import device as device_named
from irscope.runtime.executor import PeakMemory, as_torch
from irscope.runtime.machine import Limits, busy, cache_bytes, limits
from irscope.runtime.measure.accuracy import arrays, errors, float64_results
from irscope.runtime.measure.argument_snapshot import ArgumentSnapshot
from irscope.runtime.measure.comparison import Comparison, Row
from irscope.runtime.measure.fx_export import torch_peer
from irscope.runtime.measure.keep_freed_memory import with_kept_memory
from irscope.runtime.measure.workload import Workload, workload
from irscope.runtime.program import Executable, compile_graph
from irscope.runtime.timer import Measurement, measure
from irscope.transforms.dedup import RELATIONS, Relation
from irscope.transforms.dedup.rewrite import merge_groups
from irscope.transforms.fusion import Fusion, fuse

__all__ = ["Comparison", "Row", "compare"]

P = ParamSpec("P")
T = TypeVar("T")

_COPY = "a copy of as many bytes"
"""What runs in turn with the competitors as their limit."""
_MOST_SETS = 64
"""Copies of the arguments at most, however small they are."""


def compare(
    program: Graph | Fusion, *args: Any, devices: Sequence[str] | None = None, eager: Callable[..., Any] | None = None,
    peers: Mapping[str, Callable[..., Any]] | Sequence[str] = (), repeats: int = 5, keep_memory: bool = True,
    rotate: bool = False, ways: Sequence[str] | None = None, exact: Exact = None, steps: Sequence[Relation] | bool = (),
) -> Comparison:  # fmt: skip
    """Run a program in several ways and set their times and errors side by side; one without groups is fused first.

    `devices` are names of devices (`"cpu"`, `"cuda"`), by default the processor; `eager` is the model itself, to be
    timed too, and `peers` are other functions of the same arguments; one that fails is named with the reason. `"torch"`
    and `"torch.compile"` are made of the graph, or of the model if it is there: `peers=["torch.compile"]`. `ways` chooses
    among `"op by op"`, `"fused"` and `"fused + dedup"`; `steps` adds a row for each of these steps of dedup's ladder (True: for
    all), with one body for each class; `exact` is that of `irs.compile`. Arguments and buffers that the
    program writes are restored before each run, and at the end.

    >>> import irscope as irs
    >>> text = "graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  %z : Tensor = aten::tanh(%y)\\n  return (%z)"
    >>> x = np.linspace(-1, 1, 1000, dtype=np.float32)
    >>> [row.label for row in compare(irs.load(text, x), x, peers={"NumPy": lambda x: np.tanh(np.maximum(x, 0))}).rows]
    ['op by op', 'fused', 'fused + dedup', 'NumPy']
    """
    source = graph_of(program, "compare")
    if isinstance(program, Graph) and not any(node.op == "prim::FusionGroup" for node in program.nodes()):
        program = fuse(program, exact=exact)
    graph = graph_of(program, "compare")
    devices = (devices,) if isinstance(devices, str) else tuple(devices or ("cpu",))
    given: object = repeats
    if not isinstance(given, int) or given < 1:
        raise ArgumentError(f"{repeats!r} repeats measure nothing", hint="repeats=5 is a good number")
    unknown = set(ways or ()) - set(_WAYS)
    if unknown:
        raise ArgumentError(
            f"there is no way {min(unknown)!r} to run a program", hint=f"the ways are {', '.join(_WAYS)}"
        )
    args = flatten_arguments(args, graph)
    entries = [
        _our_entry(program, way, device, len(devices) > 1, exact) for device in devices for way in ways or _WAYS
    ]  # fmt: skip
    for device in devices:
        entries += [_step_entry(graph, step, device, len(devices) > 1, exact) for step in _steps(steps)]
    others = {"eager": eager} if eager is not None else {}
    others |= peers if isinstance(peers, Mapping) else {name: torch_peer(name, source, eager) for name in _names(peers)}
    entries += [_Entry(label, function, None) for label, function in others.items()]

    def contest(kept: bool) -> Comparison:
        return _Contest(graph, args, devices, entries, kept, rotate).run(repeats)

    return with_kept_memory(contest) if keep_memory else contest(False)


def _names(peers: Sequence[str] | None) -> Sequence[str]:
    return (peers,) if isinstance(peers, str) else peers or ()


_WAYS: dict[str, dict[str, Any]] = {
    "op by op": {"use_kernels": False},
    "fused": {"share_kernels": False},
    "fused + dedup": {"share_kernels": True},
}


@dataclass(frozen=True, eq=False)
class _Entry:
    """A competitor before it has run."""

    label: str
    function: Callable[..., Any]
    executable: Executable | None
    cold: float = 0.0
    """Milliseconds to compile its kernels, with nothing in any cache."""
    warm: float | None = None
    """Milliseconds to make them from the disk cache."""


def _steps(steps: Sequence[Relation] | bool) -> tuple[Relation, ...]:
    """The steps that are meant. Raises ArgumentError."""
    if isinstance(steps, bool):
        return RELATIONS if steps else ()
    chosen: tuple[Relation, ...] = (steps,) if isinstance(steps, str) else tuple(steps)  # type: ignore[assignment]
    for step in chosen:
        if step not in RELATIONS:
            raise ArgumentError(f"there is no step of similarity {step!r}", hint=f"choose among {', '.join(RELATIONS)}")
    return chosen


def _step_entry(graph: Graph, step: Relation, device: str, says_device: bool, exact: Exact) -> _Entry:
    """The program with one body for each class of a step."""
    made = merge_groups(graph, step=step).after
    return _our_entry(made, "fused + dedup", device, says_device, exact, f"dedup by {step}")


def _our_entry(
    program: Graph | Fusion, way: str, device: str, says_device: bool, exact: Exact, told: str = ""
) -> _Entry:  # fmt: skip
    """One way, compiled twice with a cache directory of its own: empty at first, then full."""
    label = f"{told or way}, {device}" if says_device else told or way
    with temporary_folder() as folder:
        store = ObjectStore(folder / "kernels")
        made = compile_graph(program, device, store=store, pooled=False, exact=exact, **_WAYS[way])
        if way == "op by op":
            return _Entry(label, made, made)
        again = compile_graph(program, device, store=store, pooled=False, exact=exact, **_WAYS[way])
    cold, warm = (sum(kernel.compile_seconds for kernel in each.kernels) * 1e3 for each in (made, again))
    return _Entry(label, made, made, cold, warm)


@dataclass(frozen=True, slots=True)
class _FirstRun:
    """What the first run of a competitor, which also compiles what was not known beforehand, tells."""

    results: list[np.ndarray[Any, Any]]
    launched: int | None
    seconds: float
    peak_bytes: int | None


class _Contest:
    """One comparison: who takes part, and what they are given."""

    def __init__(
        self, graph: Graph, args: tuple[Any, ...], devices: Sequence[str], entries: Sequence[_Entry], kept: bool,
        rotate: bool,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.args = args
        self.devices = devices
        self.entries = list(entries)
        self.kept = kept
        self.rotate = rotate
        self.state = ArgumentSnapshot([*args, *graph.bound.values()])
        self.library = library_for([*args, *graph.bound.values()])
        self.threads = sys.modules["torch"].get_num_threads() if self.library.name == "torch" else os.cpu_count() or 1
        self.missing: list[tuple[str, str]] = []

    def run(self, repeats: int) -> Comparison:
        """The comparison. What the program has written is put back, also when it fails or is interrupted."""
        try:
            return self._run(repeats)
        finally:
            self.state.restore()

    def _run(self, repeats: int) -> Comparison:
        with progress(4 + repeats + len(self.entries) * (repeats + 2), "comparing") as step:
            firsts = self._first_runs(step)
            work = self._workload()
            exact = float64_results(self.graph, self.args)
            step()
            sets = self._argument_sets()

            def before() -> None:
                self.state.restore()
                step()

            finish, once = _waiter(self.entries), self.state.is_written
            competitors = {entry.label: self._timed(entry, sets) for entry in self.entries}
            limit = limits(self.threads) if "cuda" not in self.devices and work.bytes else None
            scale = 0.0
            if limit is not None:
                competitors[_COPY], scale = limit.fastest_copy(work.bytes)
            # once for all: to switch them costs as much as a small op
            times = _without_gradients(measure, competitors, turns=repeats, before=before, finish=finish, once=once)
            copy = times.pop(_COPY).median * scale if limit is not None else None
            step()
        base = self.entries[0].label
        rows = tuple([_row(entry, firsts[entry.label], exact, times, base, work, copy) for entry in self.entries])
        turns = len(times[base].seconds)
        return Comparison(
            self.graph.name, rows, self._caption(turns, len(sets)), tuple(self.missing), work.bytes, work.flops,
            work.bytes / copy / 1e9 if copy else 0.0, _peak(limit, work) / 1e9,
        )  # fmt: skip

    def _first_runs(self, step: Callable[[], object]) -> dict[str, _FirstRun]:
        """Run each once, the first one watched for what it writes; a foreign one that fails leaves."""
        firsts = {}
        for index, entry in enumerate(tuple(self.entries)):
            try:
                run = partial(_first_run, entry, self.args)
                firsts[entry.label] = run() if index else self.state.watch(run)
            except Exception as error:
                if entry.executable is not None:
                    raise
                self.entries.remove(entry)
                lines = str(error).strip().splitlines() or [""]
                self.missing.append((entry.label, f"{type(error).__name__}: {lines[0]}"))
            self.state.restore()
            step()
        return firsts

    def _workload(self) -> Workload:
        graph, args = self.graph, self.args
        if self.library.name == "torch":
            args = tuple(as_torch(arg) for arg in args)
            found = _without_gradients(workload, graph, self.library, dict(graph.bound), args)
        else:
            found = workload(graph, self.library, dict(graph.bound), tuple(off_the_gpu(on_host(arg)) for arg in args))
        self.state.restore()
        return found

    def _argument_sets(self) -> list[tuple[Any, ...]]:
        """The arguments, and as many copies as it takes to fill the last-level cache twice."""
        if not self.rotate or self.state.is_written:
            return [self.args]
        size = sum(getattr(part, "nbytes", 0) for part in leaves(self.args))
        count = max(1, min(_MOST_SETS, -(-2 * cache_bytes() // max(size, 1))))
        return [self.args, *(tuple(map(_copied, self.args)) for _ in range(count - 1))]

    def _timed(self, entry: _Entry, sets: list[tuple[Any, ...]]) -> Callable[[], object]:
        if len(sets) == 1:
            return partial(entry.function, *self.args)
        following = cycle(sets)
        return lambda: entry.function(*next(following))

    def _caption(self, turns: int, sets: int) -> str:
        where = "; ".join(device_named(device).availability().what for device in self.devices)
        library = "torch's allocator" if self.library.name == "torch" else "NumPy's allocator"
        memory = "freed memory kept" if self.kept else "freed memory may go back to the system"
        reads = f"{sets} sets of arguments in turn" if sets > 1 else "the same arguments each time"
        return (
            f"{where}. Median and quartiles of {plural(turns, 'turn')}; {plural(self.threads, 'thread')}; {library} for all, "
            f"{memory}; {reads}; errors against a float64 run.{busy()}"
        )


def _first_run(entry: _Entry, args: Sequence[Any]) -> _FirstRun:
    start = time.perf_counter()
    if entry.executable is None:
        results = arrays(_without_gradients(entry.function, *args))
        return _FirstRun(results, None, time.perf_counter() - start, None)
    launches: list[object] = []
    footprints: list[PeakMemory] = []
    found = entry.executable.run(args, launched=launches.append, footprints=footprints)
    peak = footprints[0].peak if footprints else None
    return _FirstRun(arrays(found), len(launches), time.perf_counter() - start, peak)


def _row(
    entry: _Entry, first: _FirstRun, exact: list[Any], times: dict[str, Measurement], base: str, work: Workload,
    copy: float | None,
) -> Row:  # fmt: skip
    time, made = times[entry.label], entry.executable
    error = errors(first.results, exact) if len(first.results) == len(exact) else None
    cold = entry.cold if made is not None else max(first.seconds - time.median, 0.0) * 1e3
    lacking = len(made.remarks) - len(made.told) if made is not None else 0
    without = f"{plural(lacking, 'group')} without a kernel" if lacking else ""
    ratio = times[base].median / time.median if time.median else 1.0
    faster = f"{ratio:{'.0f' if ratio >= 100 else '.2g'}}× as fast as {base}" if entry.label != base else ""
    return Row(
        entry.label, time.median * 1e3, time.low * 1e3, time.high * 1e3,
        cold, len(made.kernels) if made is not None else 0, first.launched,
        None if error is None else error[0], None if error is None else error[1],
        "; ".join(filter(None, [faster, without])), entry.warm,
        work.bytes / time.median / 1e9 if time.median else None,
        copy / time.median if copy is not None and time.median else None,
        work.flops / time.median / 1e9 if time.median and work.flops else None, first.peak_bytes,
        min(time.seconds) * 1e3,
    )  # fmt: skip


def _peak(limit: Limits | None, work: Workload) -> float:
    return limit.flops() if limit is not None and work.flops else 0.0


def _copied(value: Any) -> Any:
    if is_cupys(value):
        return value.copy()
    if isinstance(value, np.ndarray):
        return value.copy("K")
    return value.detach().clone() if is_torch_tensor(value) else value


def _without_gradients(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "no_grad"):
        return work(*args, **kwargs)
    return without_gradients(torch, work, *args, **kwargs)


def _waiter(entries: Sequence[_Entry]) -> Callable[[], object]:
    """What waits for the device to be done; a processor is done when the call returns."""
    if any(entry.executable is not None and entry.executable.device == "cuda" for entry in entries):
        synchronize: Callable[[], object] = imported_cupy().cuda.Device().synchronize
        return synchronize
    return lambda: None

