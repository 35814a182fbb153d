"""Benchmarks of fusion and kernel sharing: one program run in several ways, side by side.

Our rows run the same folded program in the same process; they differ only in how fusion groups run: node by node through
the library, each by its own kernel, or by kernels that equal groups share. Beside them run the model itself and any other
functions that the user passes: a torch.compile of it, a jax.jit, an expression of numexpr.

*Fair* means: all take turns, in another order each time; every row allocates its results from the library's own allocator,
which is set to keep freed memory (see `irscope.runtime.measure.conditions`; with `keep_memory=False` all pay the page
faults alike); no row computes gradients; arguments that the program writes are restored before each turn. With
`rotate=True` the runs cycle through copies of the arguments that together exceed the last-level cache, so that no row
finds its operands there; otherwise all do, if they fit.

The limit is measured in the same turns: the machine's fastest copy of as many bytes on as many threads, between its own
arrays. Bytes and arithmetic are the program's (see `irscope.runtime.measure.workload`), not a row's: a row that moves more than
necessary shows as a lower bandwidth.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from irscope._base.frozen import EMPTY
from irscope._base.nested import leaves
from irscope._base.running import progress
from irscope._base.words import listed, plural
from irscope.errors import ArgumentError
from irscope.ir import Graph, check_count, flatten_arguments, graph_of
from irscope.ops.accuracy import Exact
from irscope.runtime.arrays import LIBRARY_NAMES, device_with, has_onednn, imported_cupy, library_for, off_the_gpu, on_host
from irscope.runtime.device import ObjectStore
from irscope.runtime.device import device as device_named
from irscope.runtime.foreign_ops import has_runner
from irscope.runtime.machine import cache_bytes, limits
from irscope.runtime.measure.accuracy import Distance, arrays, cancelled, difference, distance, float64_results, not_returned
from irscope.runtime.measure.comparison import Comparison, Row
from irscope.runtime.measure.conditions import (
    ArgumentSnapshot,
    OwnFunction,
    Threads,
    copied,
    no_gradients,
    own_function,
    threads_for,
    with_kept_memory,
    with_threads,
)
from irscope.runtime.measure.fx_export import torch_peer
from irscope.runtime.measure.workload import Workload, workload
from irscope.runtime.program import Executable, PeakMemory, as_torch, compile_graph
from irscope.runtime.timer import LEAST_SECONDS, LEAST_TURNS, Spread, measure
from irscope.transforms.dedup import RELATIONS, Relation
from irscope.transforms.dedup.rewrite import merge_groups
from irscope.transforms.fusion import Fusion, frozen, fuse

_COPY = "a copy of as many bytes"
"""The label of the limit, which runs in turn with the competitors."""
_CALLS_BEFORE = 4
"""Untimed calls on a GPU, after which a program's calls are replayed as a CUDA graph, if they ever are."""
_MOST_SETS = 64
"""The most copies of the arguments, however small they are."""


def compare(
    program: Graph | Fusion, *args: Any, devices: Sequence[str] | None = None, eager: Callable[..., Any] | None = None,
    peers: Mapping[str, Callable[..., Any]] | Sequence[str] = (), repeats: int = LEAST_TURNS, keep_memory: bool = True,
    rotate: bool = False, ways: Sequence[str] | None = None, exact: Exact = None, steps: Sequence[Relation] | bool = (),
    threads: int | None = None, given_back: Mapping[str, Sequence[int | None] | None] = EMPTY,
) -> Comparison:  # fmt: skip
    """Runs a program in several ways and compares their times and errors; a program without groups is fused first.

    `irs.compare` says what the arguments are. What the program writes is restored before each run, and at the end. A program that was
    read from a function or a model has a row for that: `NumPy`, `jax.jit` or `eager`; a peer that fails is listed with the reason.
    `given_back` says of a call that the program was read from which of the program's results each of its own is, or None; None if they are
    the same. Where such a call returns another number of results, or other shapes, it is not compared: it is no longer that program.

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
    devices = (devices,) if isinstance(devices, str) else tuple(devices or (device_with(args),))
    if not hasattr(repeats, "__index__") or getattr(repeats, "shape", ()) != () or repeats < 1:
        raise ArgumentError(f"{repeats!r} repeats measure nothing", hint=f"repeats={LEAST_TURNS} is a good number")
    ways = [ways] if isinstance(ways, str) else ways
    if eager is not None and not callable(eager):
        raise ArgumentError(f"eager is a function or a model to compare with, not {type(eager).__name__}", hint="eager=model")
    unknown = set(ways or ()) - set(_WAYS)
    if unknown:
        raise ArgumentError(f"there is no way {min(unknown)!r} to run a program", hint=f"the ways are {', '.join(_WAYS)}")
    flat = flatten_arguments(args, graph)
    check_count(graph, flat)
    chosen = threads_for(threads)
    compiled = program
    if isinstance(program, Fusion) and exact is None and "cpu" in devices:
        made_once = frozen(program)  # what `irs.compile` runs on the processor, where that is another program
        compiled = made_once if made_once.graph is not program.graph and has_onednn() else program
    # op by op as written: without what fusion did before, so that a profile has as many launches
    programs = {"frozen": compiled, "op by op": program.original if isinstance(program, Fusion) else program}
    own_ways = ways or [way for way in _WAYS if way != "frozen" or compiled is not program]
    # first, while freed memory goes back: it converts one parameter after the other
    truth = with_threads(chosen.count, float64_results, graph, flat)

    def contest(kept: bool, chosen: Threads) -> Comparison:
        entries = [
            _our_entry(programs.get(way, program), way, device, len(devices) > 1, exact, threads=chosen.count)
            for device in devices
            for way in own_ways
            if ways or way != "frozen" or device == "cpu"
        ]
        for device in devices:
            for step in _steps(steps):  # one body for each class
                merged, label = merge_groups(graph, step=step).after, f"dedup by {step}"
                entries.append(_our_entry(merged, "fused + dedup", device, len(devices) > 1, exact, label, threads=chosen.count))
        own = own_function(graph, args, flat)
        others: dict[str, Callable[..., Any]] = {} if own is None else {own.label: own}
        others |= {"eager": eager} if eager is not None else {}
        named = (peers,) if isinstance(peers, str) else () if isinstance(peers, Mapping) else peers or ()
        others |= peers if isinstance(peers, Mapping) else {name: torch_peer(name, source, eager) for name in named}
        entries += [_Entry(label, function, None) for label, function in others.items()]
        base = own.label if own is not None else "eager" if eager is not None else entries[0].label
        # again for measuring: torch may have been imported to compile
        made = _Contest(program, flat, devices, entries, kept, rotate, exact, chosen, base, truth, given_back)
        found = with_threads(chosen.count, made.run, repeats)
        if chosen.is_asked or chosen.count == 1 or not any(row.spread.is_noisy for row in found.rows):
            return found
        varied = f"On {plural(chosen.count, 'thread')} times varied by more than three: measured on one thread."
        return with_threads(1, contest, kept, Threads(1, varied))

    def work(kept: bool) -> Comparison:
        return with_threads(chosen.count, contest, kept, chosen)

    return with_kept_memory(work) if keep_memory else work(False)


_WAYS: dict[str, dict[str, Any]] = {
    "op by op": {"use_kernels": False},
    "fused": {"share_kernels": False},
    "fused + dedup": {"share_kernels": True},
    "frozen": {"share_kernels": True},
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
    """Milliseconds to load them from the disk cache."""


def _is_foreign(entry: _Entry) -> bool:
    """Whether its first call may compile, and nobody says for how long."""
    return entry.executable is None and entry.label not in ("eager", "NumPy")


def _steps(steps: Sequence[Relation] | bool) -> tuple[Relation, ...]:
    """Returns the chosen steps. Raises ArgumentError for an unknown one."""
    if isinstance(steps, bool):
        return RELATIONS if steps else ()
    chosen: tuple[Relation, ...] = (steps,) if isinstance(steps, str) else tuple(steps)  # type: ignore[assignment]
    for step in chosen:
        if step not in RELATIONS:
            raise ArgumentError(f"there is no step of similarity {step!r}", hint=f"choose among {', '.join(RELATIONS)}")
    return chosen


def _our_entry(program: Graph | Fusion, way: str, device: str, says_device: bool, exact: Exact, name: str = "", *, threads: int) -> _Entry:
    """Compiles one way twice with its own cache directory: empty at first, then full."""
    label = f"{name or way}, {device}" if says_device else name or way
    with TemporaryDirectory(prefix="irscope-") as folder:
        store = ObjectStore(Path(folder) / "kernels")
        made = compile_graph(program, device, store=store, pooled=False, exact=exact, threads=threads, **_WAYS[way])
        if way == "op by op":
            return _Entry(label, made, made)
        again = compile_graph(program, device, store=store, pooled=False, exact=exact, threads=threads, **_WAYS[way])
    cold, warm = (sum(kernel.compile_seconds for kernel in each.kernels) * 1e3 for each in (made, again))
    return _Entry(label, made, made, cold, warm)


@dataclass(frozen=True, slots=True)
class _FirstRun:
    """The observations in a competitor's first run, which also compiles what was not known beforehand."""

    results: list[np.ndarray[Any, Any]]
    launched: int | None
    seconds: float
    peak_bytes: int | None


@dataclass(eq=False)
class _Contest:
    """One comparison: its competitors and their arguments."""

    program: Graph | Fusion
    args: tuple[Any, ...]
    devices: Sequence[str]
    entries: list[_Entry]
    kept: bool
    rotate: bool
    exact: Exact
    threads: Threads
    base: str
    """The label of the row that the others are told against."""
    truth: list[np.ndarray[Any, Any]] | str
    given_back: Mapping[str, Sequence[int | None] | None]

    def __post_init__(self) -> None:
        self.graph = graph = graph_of(self.program, "compare")
        self.state = ArgumentSnapshot((graph, self.args))
        self.library = library_for([*self.args, *graph.bound.values()])
        self.missing: list[tuple[str, str]] = []
        self.scales: list[float] = []
        """Of each result the size of what cancels in it; empty where none was in doubt."""
        self.changed: dict[str, str] = {}
        """The calls that return something else than the program that was read from them, and how."""

    def run(self, repeats: int) -> Comparison:
        """Returns the comparison. Restores what the program has written, even if the run fails or is interrupted."""
        try:
            return self._run(repeats)
        finally:
            self.state.restore()

    def _run(self, repeats: int) -> Comparison:
        with progress(4 + repeats + len(self.entries) * (repeats + 2), "comparing") as step:
            firsts = self._first_runs(step)
            work = self._workload()
            truth = self.truth
            far = self._distances(firsts)
            cause = self._cause(firsts)
            step()
            sets = self._argument_sets()

            def before() -> None:
                self.state.restore()
                step()

            competitors = {entry.label: self._timed(entry, sets) for entry in self.entries}
            limit = limits(self.threads.count) if "cuda" not in self.devices and work.bytes else None
            scale = 0.0
            if limit is not None:
                competitors[_COPY], scale = limit.fastest_copy(work.bytes)
            # switched once for all: switching costs as much as a small op
            with no_gradients():
                if "cuda" in self.devices and not self.state.is_written:
                    for competitor in competitors.values():
                        for _ in range(_CALLS_BEFORE):
                            competitor()
                times = measure(
                    competitors, turns=repeats, seconds=LEAST_SECONDS if repeats >= LEAST_TURNS else 0.0, before=before,
                    finish=_waiter(self.devices), once=self.state.is_written, alone=self.threads.count == 1,
                    known={label: first.seconds for label, first in firsts.items()},
                )  # fmt: skip
            copy = times.pop(_COPY).median / 1e9 * scale if limit is not None else None
            step()
        base = self.base if self.base in times else self.entries[0].label
        rows = tuple([_row(entry, firsts[entry.label], far[entry.label], times, base, work, copy) for entry in self.entries])
        reason = truth if isinstance(truth, str) else ""
        warnings = tuple(filter(None, (self.threads.warning, cause, *self._uncompared())))
        return Comparison(
            self.graph.name, rows, self._caption(times, len(sets), reason, work.uncounted), tuple(self.missing), work.bytes, work.flops,
            work.bytes / copy / 1e9 if copy else 0.0, limit.flops / 1e9 if limit is not None and work.flops else 0.0, warnings, reason,
        )  # fmt: skip

    def _first_runs(self, step: Callable[[], object]) -> dict[str, _FirstRun]:
        """Runs each once, watched for writes; a foreign competitor that fails is removed."""
        firsts = {}
        for entry in tuple(self.entries):
            try:
                run = partial(_first_run, entry, self.args, may_write=bool(self.state.tensors))
                firsts[entry.label] = self.state.watch(run)
                ours, own = ([each.shape for each in firsts[label].results] for label in (next(iter(firsts)), entry.label))
                if isinstance(entry.function, OwnFunction) and own != ours:
                    raise ValueError("the program was changed since it was read")
            except Exception as error:
                if entry.executable is not None:
                    raise
                self.entries.remove(entry)
                firsts.pop(entry.label, None)
                lines = str(error).strip().splitlines() or [""]
                if not isinstance(entry.function, OwnFunction):  # nobody asked for it: it may take other arguments
                    self.missing.append((entry.label, f"{type(error).__name__}: {lines[0]}"))
            self.state.restore()
            step()
        return firsts

    def _distances(self, firsts: Mapping[str, _FirstRun]) -> dict[str, Distance | None]:
        """Returns how far each result is from the float64 run."""
        truth = self.truth
        if isinstance(truth, str):
            return dict.fromkeys(firsts)
        found = {label: self._as_the_programs(label, first.results, truth) for label, first in firsts.items()}
        far = {label: distance(results, truth) for label, results in found.items()}
        if any(each is not None and 0.5 < each.relative < np.inf for each in far.values()):
            self.scales = cancelled(self.graph, self.args, truth)
            self.state.restore()
            far = {label: distance(results, truth, self.scales) for label, results in found.items()}
        return far

    def _as_the_programs(
        self, label: str, results: list[np.ndarray[Any, Any]], truth: list[np.ndarray[Any, Any]]
    ) -> Sequence[np.ndarray[Any, Any] | None]:
        """The results of a peer in the order of the program's, None for what it does not return."""
        if label not in self.given_back:
            return results
        given = self.given_back[label]
        places = range(len(truth)) if given is None else given
        found = {place: each for place, each in zip(places, results, strict=False) if place is not None}
        other = [(each.shape, truth[place].shape) for place, each in found.items() if each.shape != truth[place].shape]
        if len(places) != len(results):
            self.changed[label] = f"{plural(len(results), 'result')} instead of {len(places)}"
        elif other:
            self.changed[label] = f"shape {other[0][0]} instead of {other[0][1]}"
        return [None if label in self.changed else found.get(place) for place in range(len(truth))]

    def _uncompared(self) -> Iterator[str]:
        """Says which results some do not return, and which calls no longer do what was read."""
        names = [entry.label for entry in self.entries if self.given_back.get(entry.label) is not None and entry.label not in self.changed]
        lost = list(dict.fromkeys(each for label in names for each in not_returned(self.graph, self.given_back[label] or ())))
        if lost:
            whose = "whose calls do not return" if len(names) > 1 else "whose call does not return"
            are, them = ("are", "them") if len(lost) > 1 else ("is", "it")
            yield f"{listed(lost)} {are} not compared for {' and '.join(names)}, {whose} {them}."
        for how in dict.fromkeys(self.changed.values()):
            names = [label for label, each in self.changed.items() if each == how]
            give, they_are, they_do = ("give", "they are", "they do") if len(names) > 1 else ("gives", "it is", "it does")
            yield (
                f"{' and '.join(names)} now {give} other results than when the program was read ({how}), as a model does that keeps "
                f"what it computed: {they_are} not compared, and the time is of what {they_do} now."
            )

    def _cause(self, firsts: Mapping[str, _FirstRun]) -> str:
        """Says how the fused results differ from those of op by op by more than some roundings, and whether rounding between
        ops is why: whether both agree once every op rounds as torch's does."""
        ours = {entry.label: firsts[entry.label].results for entry in self.entries if entry.executable is not None}
        plain, fused = (next((found for label, found in ours.items() if label.startswith(way)), None) for way in ("op by op", "fused"))
        if plain is None or fused is None or not (words := difference(fused, plain, self.scales)):
            return ""
        what = f"The fused results differ from those of op by op: {words}."
        if self.library.name != "torch" or self.exact or self.devices[0] != "cpu":
            return what
        program = self.program.exactly("torch") if isinstance(self.program, Fusion) else self.program
        try:
            run = compile_graph(program, exact="torch", pooled=False, threads=self.threads.count)
            agrees = not difference(arrays(run(*self.args)), plain, self.scales)
        except Exception:
            return what
        finally:
            self.state.restore()
        if agrees:
            return f'{what[:-1]}; rounding between ops is the cause: with exact="torch" they agree.'
        return f'{what[:-1]}; with exact="torch" as well: rounding between ops is not the cause.'

    def _workload(self) -> Workload:
        is_torch = self.library.name == "torch"
        args = [as_torch(arg) if is_torch else off_the_gpu(on_host(arg)) for arg in self.args]
        bound = {value: as_torch(held) if is_torch else held for value, held in self.graph.bound.items()}
        with no_gradients():
            found = workload(self.graph, self.library, bound, args)
        self.state.restore()
        return found

    def _argument_sets(self) -> list[tuple[Any, ...]]:
        """Returns the arguments, and enough copies to fill the last-level cache twice."""
        if not self.rotate or self.state.is_written:
            return [self.args]
        size = sum(getattr(part, "nbytes", 0) for part in leaves(self.args))
        count = max(1, min(_MOST_SETS, -(-2 * cache_bytes() // max(size, 1))))
        return [self.args, *(tuple(map(copied, self.args)) for _ in range(count - 1))]

    def _timed(self, entry: _Entry, sets: list[tuple[Any, ...]]) -> Callable[[], object]:
        if len(sets) == 1:
            return partial(entry.function, *self.args)
        following = cycle(sets)
        return lambda: entry.function(*next(following))

    def _caption(self, times: Mapping[str, Spread], sets: int, reason: str, uncounted: Sequence[str]) -> str:
        where = "; ".join(device_named(device).availability().what for device in self.devices)
        used = next((entry.executable.library(*self.args) for entry in self.entries if entry.executable is not None), self.library.name)
        library = f"{LIBRARY_NAMES[used]}'s allocator"
        memory = "freed memory kept" if self.kept else "freed memory may go back to the system"
        reads = f"{sets} sets of arguments in turn" if sets > 1 else "the same arguments each time"
        turns = sorted({taken.turns for taken in times.values()})
        count = plural(turns[0], "turn") if len(turns) == 1 else f"{turns[0]} to {turns[-1]} turns"
        kept = sorted({node.op for node in self.graph.nodes() if has_runner(node)})
        own = f", in which {', '.join(kept)} {'keeps' if len(kept) == 1 else 'keep'} the types of the program" if kept else ""
        errors = f"no errors, as there is no float64 run: {reason}" if reason else f"errors against a float64 run{own}"
        noise = [f"{size:.1e} (result {place})" for place, size in enumerate(self.scales) if size]
        errors += f"; of results that are zero but for rounding relative to the size of what cancels, {', '.join(noise)}" if noise else ""
        on_arrays = " on the arrays' memory" if used != self.library.name else ""
        plain = f"torch's ops, called one by one{on_arrays}" if used == "torch" else f"irscope's interpreter, through {LIBRARY_NAMES[used]}"
        if any(entry.label.startswith("frozen") for entry in self.entries):
            plain += "; frozen: with weights folded and laid out anew, as irs.compile does"
        if any(map(_is_foreign, self.entries)):
            plain += "; compile of what irscope did not make: its first call less a later one"
        flops = f"; of GFLOP/s: without {listed(uncounted, most=4)}, whose arithmetic is not known" if uncounted else ""
        return (
            f"{where}. Median and quartiles of {count}; {plural(self.threads.count, 'thread')}; {library} for all, "
            f"{memory}; {reads}; op by op: {plain}; of copy: the speed at which arguments, weights and results move, each once, "
            "beside that of a plain copy; "
            f"kernels: compiled, of which a group may have several; launched: groups and library calls of a run{flops}; {errors}."
        )


def _first_run(entry: _Entry, args: Sequence[Any], *, may_write: bool) -> _FirstRun:
    start, held = time.perf_counter(), np.copy if may_write else np.asarray  # a result may be an argument, which is restored
    if entry.executable is None:
        with no_gradients():
            results = arrays(entry.function(*args))
        return _FirstRun(list(map(held, results)), None, time.perf_counter() - start, None)
    launches: list[object] = []
    footprints: list[PeakMemory] = []
    found = entry.executable.run(args, launched=launches.append, footprints=footprints)
    peak = footprints[0].peak if footprints else None
    return _FirstRun(list(map(held, arrays(found))), len(launches), time.perf_counter() - start, peak)


def _row(
    entry: _Entry, first: _FirstRun, far: Distance | None, times: dict[str, Spread], base: str, work: Workload,
    copy: float | None,
) -> Row:  # fmt: skip
    made, spread = entry.executable, times[entry.label]
    seconds = spread.median / 1e9
    cold = max(first.seconds - seconds, 0.0) * 1e3 if _is_foreign(entry) else entry.cold
    lacking = made.without_kernels if made is not None else 0
    without = f"{plural(lacking, 'group')} without a kernel" if lacking else ""
    replayed = "replayed as a CUDA graph" if made is not None and made.is_replayed else ""
    is_told = entry.label != base or spread.is_noisy
    faster = spread.ratio_words(times[base], base) if is_told else ""
    return Row(
        entry.label, spread.median / 1e6, spread.low / 1e6, spread.high / 1e6,
        cold, len(made.kernels) if made is not None else 0, first.launched,
        None if far is None else far.relative, None if far is None else far.absolute,
        "; ".join(filter(None, [faster, replayed, without])), entry.warm,
        work.bytes / spread.median if seconds else None,
        copy / seconds if copy is not None and seconds else None,
        work.flops / spread.median if seconds and work.flops else None, first.peak_bytes,
        spread.best / 1e6, spread.turns, "" if far is None else far.words,
    )  # fmt: skip


def _waiter(devices: Collection[str]) -> Callable[[], object]:
    """Returns a function that waits for the devices; a processor is done when the call returns."""
    if "cuda" in devices:
        synchronize: Callable[[], object] = imported_cupy().cuda.Device().synchronize
        return synchronize
    return lambda: None


# Timing of several programs in turn, each on its own arguments: ways to fuse one program, or assumptions about its inputs.

_TURNS = 15


def side_by_side(
    programs: Mapping[str, Any], args: Mapping[str, Sequence[Any]], *, peers: Mapping[str, Callable[[], Any]] = EMPTY, seconds: float = 2.0
) -> dict[str, Spread]:  # fmt: skip
    """Returns the times of one call of each program on its arguments, where they lie, and of peers; all take turns, for about `seconds`.

    What a program writes is restored before each turn, and at the end.
    """
    threads = threads_for(None)
    graphs = {name: graph_of(program, "measure") for name, program in programs.items()}
    devices = {name: device_with(args[name]) for name in programs}
    given = [(graph, flatten_arguments(args[name], graph)) for name, graph in graphs.items()]

    def timed() -> dict[str, Spread]:
        runs: dict[str, Callable[[], Any]] = {
            name: partial(compile_graph(program, devices[name], threads=threads.count), *flat)
            for (name, program), (_, flat) in zip(programs.items(), given, strict=True)
        }
        runs |= peers
        for run in runs.values():
            state.watch(run)
        return measure(
            runs, turns=_TURNS, seconds=LEAST_SECONDS, before=state.restore, once=state.is_written, patience=seconds,
            finish=_waiter(devices.values()), alone=threads.count == 1,
        )  # fmt: skip

    state = ArgumentSnapshot(*given)
    try:
        with no_gradients():
            return with_threads(threads.count, timed)
    finally:
        state.restore()
