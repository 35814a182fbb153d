"""What fusion and sharing kernels buy: one program run op by op, fused, and fused with shared kernels, side by side.

All rows run the same folded program in the same process, in turns, with the same allocator; they differ only in how
fusion groups run: node by node through the library, each by a kernel of its own, or by kernels that equal groups share.
Compile times are cold. The error is against a run of the whole program in float64.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from irscope._base.progress import progress
from irscope.errors import ArgumentError, MissingExtra
from irscope.ir.arguments import graph_of, spread
from irscope.ir.core import Graph
from irscope.runtime.base import device as device_named
from irscope.runtime.executable import Executable, compile_graph
from irscope.runtime.flat_code import flatten
from irscope.runtime.library import TorchLibrary, is_torch_tensor, library_for
from irscope.runtime.measure import Measurement, measure
from irscope.runtime.reference import run_reference
from irscope.transforms.fusion import Fusion, fuse

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Comparison", "Row", "compare"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """One competitor; times are in milliseconds."""

    label: str
    median: float
    low: float
    """The lower quartile."""
    high: float
    """The upper quartile."""
    compile: float
    """Compiling its kernels, with nothing in any cache; 0 where there is nothing of ours to compile."""
    kernels: int
    """Kernels compiled."""
    launched: int | None
    """Kernels that one run launches, ours and the library's; None where nobody counts."""
    error: float | None
    """Largest difference from the float64 run, relative to the largest element of each result."""
    absolute_error: float | None
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Times and errors of several ways to run one program."""

    name: str
    rows: tuple[Row, ...]
    caption: str
    """On what, and how it was measured."""

    def table(self) -> pd.DataFrame:
        """One row per competitor."""
        import pandas as pd

        columns = {
            "median ms": "median", "low ms": "low", "high ms": "high", "compile ms": "compile", "kernels": "kernels",
            "launched": "launched", "relative error": "error", "absolute error": "absolute_error", "note": "note",
        }  # fmt: skip
        data = {title: [getattr(row, name) for row in self.rows] for title, name in columns.items()}
        return pd.DataFrame(data, index=pd.Index([row.label for row in self.rows], name=self.name))

    def chart(self) -> Figure:
        """Medians as bars, with the quartiles. Raises MissingExtra without matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtra("matplotlib", extra="lab", purpose="to draw a chart") from None
        figure = Figure(figsize=(7, 0.9 + 0.45 * len(self.rows)), layout="constrained")
        axes = figure.subplots()
        spread = [[row.median - row.low for row in self.rows], [row.high - row.median for row in self.rows]]
        places = range(len(self.rows))
        axes.barh(places, [row.median for row in self.rows], xerr=spread, color="#4c78a8", ecolor="#98a2b3", capsize=3)
        axes.set_yticks(places, [row.label for row in self.rows])
        axes.invert_yaxis()
        for place, row in enumerate(self.rows):
            axes.annotate(_ms(row.median), (row.high, place), (4, 0), textcoords="offset points", va="center")
        axes.margins(x=0.15)
        axes.set_xlabel("milliseconds a run: median, and the middle half of the runs")
        axes.set_title(self.name, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        return figure

    def __repr__(self) -> str:
        titles = f"{'median':>11}{'quartiles':>24}{'compile':>11}{'kernels':>9}{'launched':>10}{'error':>10}"
        lines = [f"{self.name:<24}{titles}"]
        for row in self.rows:
            spread = f"{_ms(row.low)} – {_ms(row.high)}"
            launched = "" if row.launched is None else str(row.launched)
            error = "" if row.error is None else f"{row.error:.1e}"
            lines.append(
                f"{row.label:<24}{_ms(row.median):>11}{spread:>24}{_ms(row.compile):>11}{row.kernels:>9}"
                f"{launched:>10}{error:>10}  {row.note}".rstrip()
            )
        return "\n".join([*lines, self.caption])


def compare(
    program: Graph | Fusion, *args: Any, devices: Sequence[str] | None = None, eager: Callable[..., Any] | None = None,
    repeats: int = 5,
) -> Comparison:  # fmt: skip
    """Run a program in several ways and set their times and errors side by side.

    `devices` are names of devices (`"cpu"`, `"cuda"`), by default the processor; `eager` is the model itself, to be
    timed too. Arguments and buffers that the program writes are restored before each run, and at the end.

    >>> import irscope as irs
    >>> text = "graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  %z : Tensor = aten::tanh(%y)\\n  return (%z)"
    >>> x = np.linspace(-1, 1, 1000, dtype=np.float32)
    >>> [row.label for row in compare(irs.load(text, x), x).rows]
    ['op by op', 'fused', 'fused + dedup']
    """
    if isinstance(program, Graph):
        program = fuse(program)
    graph = graph_of(program, "compare")
    devices = (devices,) if isinstance(devices, str) else devices
    if repeats < 1:
        raise ArgumentError(f"{repeats} repeats measure nothing", hint="repeats=5 is a good number")
    args = spread(args, len(graph.free_inputs))
    state = _State([*args, *graph.bound.values()])
    entries: list[_Entry] = []
    for device in devices or ("cpu",):
        suffix = f", {device}" if devices is not None and len(devices) > 1 else ""
        for label, how in _WAYS:
            made = compile_graph(graph, device, disk_cache=False, **how)
            entries.append(_Entry(label + suffix, partial(made, *args), made))
    if eager is not None:
        entries.append(_Entry("eager", _without_gradients(eager, args), None, "the model itself"))
    rows, turns = _rows(entries, args, state, lambda: _float64(graph, args), repeats)
    return Comparison(graph.name, rows, _caption(graph, args, devices or ("cpu",), turns))


_WAYS: tuple[tuple[str, dict[str, bool]], ...] = (
    ("op by op", {"use_kernels": False}),
    ("fused", {"share_kernels": False}),
    ("fused + dedup", {"share_kernels": True}),
)


@dataclass(frozen=True, eq=False)
class _Entry:
    """A competitor before it has run."""

    label: str
    run: Callable[[], Any]
    executable: Executable | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class _FirstRun:
    """What the first run of a competitor, which also compiles what was not known beforehand, tells."""

    results: list[np.ndarray[Any, Any]]
    launched: int | None


def _first_run(entry: _Entry, args: Sequence[Any]) -> _FirstRun:
    if entry.executable is None:
        return _FirstRun(_arrays(entry.run()), None)
    launches: list[object] = []
    results = entry.executable.run(args, launched=launches.append)
    return _FirstRun(_arrays(results), len(launches))


def _rows(
    entries: Sequence[_Entry], args: Sequence[Any], state: _State, truth: Callable[[], list[Any]], repeats: int
) -> tuple[tuple[Row, ...], int]:
    """The rows, and how many turns were measured."""
    with progress(1 + len(entries) * (repeats + 2), "comparing") as step:
        firsts = [state.watch(lambda: _first_run(entries[0], args))]
        step()
        for entry in entries[1:]:
            firsts.append(_first_run(entry, args))
            state.restore()
            step()
        exact = truth()
        step()

        def before() -> None:
            state.restore()
            step()

        competitors = {entry.label: entry.run for entry in entries}
        times = measure(competitors, turns=repeats, before=before, finish=_waiter(entries), once=state.is_written)
        state.restore()
    rows = tuple(
        _row(entry, first, exact, times, entries[0].label) for entry, first in zip(entries, firsts, strict=True)
    )
    return rows, len(times[entries[0].label].seconds)


def _row(entry: _Entry, first: _FirstRun, exact: list[Any], times: dict[str, Measurement], base: str) -> Row:
    time, error = times[entry.label], _errors(first.results, exact)
    made = entry.executable
    kernels = made.kernels if made is not None else ()
    without = f"{len(made.remarks)} groups without a kernel" if made is not None and made.remarks else ""
    ratio = times[base].median / time.median if time.median else 1.0
    faster = f"{ratio:.2g}× as fast as {base}" if entry.label != base else ""
    return Row(
        entry.label, time.median * 1e3, time.low * 1e3, time.high * 1e3,
        sum(kernel.compile_seconds for kernel in kernels) * 1e3, len(kernels), first.launched,
        None if error is None else error[0], None if error is None else error[1],
        "; ".join(filter(None, [faster, entry.note, without])),
    )  # fmt: skip


class _State:
    """The tensors that a program is given, and what those held that it writes."""

    def __init__(self, given: Sequence[Any]) -> None:
        self.tensors = [value for value in _leaves(given) if is_torch_tensor(value) or isinstance(value, np.ndarray)]
        self.saved: list[tuple[Any, Any]] = []

    @property
    def is_written(self) -> bool:
        """Whether the program writes any of them."""
        return bool(self.saved)

    def watch(self, run: Callable[[], T]) -> T:
        """Run once, find out what was written, and restore it; gives what the run gives."""
        before = [(tensor, _copy(tensor)) for tensor in self.tensors]
        result = run()
        self.saved = [(tensor, copy) for tensor, copy in before if not _same(tensor, copy)]
        self.restore()
        return result

    def restore(self) -> None:
        for tensor, copy in self.saved:
            if isinstance(tensor, np.ndarray):
                tensor[...] = copy
            else:
                tensor.detach().copy_(copy)


def _float64(graph: Graph, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The program's results computed in float64 throughout, on copies."""
    if library_for([*args, *graph.bound.values()]).name != "torch":
        return _arrays(run_reference(graph, *args, precision="float64"))
    library = TorchLibrary(double=True)
    bound = {value: _doubled(held) for value, held in graph.bound.items()}
    code = flatten(graph.body, library, bound=bound, call=lambda node, reads, writes: None)
    slots = code.template.copy()
    given = iter(args)
    for slot, value in zip(code.inputs, graph.inputs, strict=True):
        slots[slot] = bound[value] if value in bound else _doubled(next(given))
    with library.torch.no_grad():
        code.run(slots)
    return _arrays([slots[slot] for slot in code.outputs])


def _doubled(value: Any) -> Any:
    """A copy in float64 of a floating-point tensor, a copy of any other tensor, anything else as it is."""
    if isinstance(value, np.ndarray):
        value = sys.modules["torch"].from_numpy(value)
    if is_torch_tensor(value):
        copy = value.detach().clone()
        return copy.double() if value.dtype.is_floating_point else copy
    if isinstance(value, list | tuple):
        return type(value)(_doubled(item) for item in value)
    return {key: _doubled(item) for key, item in value.items()} if isinstance(value, dict) else value


def _errors(results: Sequence[Any], truth: Sequence[Any]) -> tuple[float, float] | None:
    """The largest relative and absolute difference over all floating-point results; None if there are none."""
    relative, absolute, seen = 0.0, 0.0, False
    for result, true in zip(results, truth, strict=True):
        if true.dtype.kind not in "fc" or true.size == 0:
            continue
        seen = True
        with np.errstate(invalid="ignore", over="ignore"):
            difference = np.abs(result.astype(true.dtype) - true)
        difference = np.where((result == true) | (np.isnan(result) & np.isnan(true)), 0.0, difference)
        finite = np.abs(true[np.isfinite(true)])
        largest = float(np.max(difference))
        absolute = max(absolute, largest)
        relative = max(relative, largest / max(float(finite.max()) if finite.size else 0.0, np.finfo(np.float64).tiny))
    return (relative, absolute) if seen else None


def _arrays(results: Any) -> list[np.ndarray[Any, Any]]:
    """Every tensor and number among the results, as NumPy arrays, in order."""
    return [_array(leaf) for leaf in _leaves([results])]


def _array(leaf: Any) -> np.ndarray[Any, Any]:
    if is_torch_tensor(leaf):
        leaf = leaf.detach().cpu()
        if str(leaf.dtype) == "torch.bfloat16":
            leaf = leaf.float()
        return leaf.resolve_conj().numpy()  # type: ignore[no-any-return]
    is_number = isinstance(leaf, np.ndarray | np.generic | bool | int | float | complex)
    return np.asarray(leaf) if is_number else np.empty(0, bool)


def _leaves(values: Sequence[Any]) -> Iterator[Any]:
    """The values inside lists, tuples and dictionaries, in order."""
    stack = list(reversed(values))
    while stack:
        value = stack.pop()
        if isinstance(value, list | tuple):
            stack.extend(reversed(value))
        elif isinstance(value, dict):
            stack.extend(reversed(list(value.values())))
        else:
            yield value


def _copy(tensor: Any) -> Any:
    return tensor.copy() if isinstance(tensor, np.ndarray) else tensor.detach().clone()


def _same(tensor: Any, copy: Any) -> bool:
    if isinstance(tensor, np.ndarray):
        return np.array_equal(tensor, copy, equal_nan=tensor.dtype.kind in "fc")
    return bool(((tensor == copy) | ((tensor != tensor) & (copy != copy))).all())


def _without_gradients(eager: Callable[..., Any], args: Sequence[Any]) -> Callable[[], Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return lambda: eager(*args)

    def run() -> Any:
        with torch.no_grad():
            return eager(*args)

    return run


def _waiter(entries: Sequence[_Entry]) -> Callable[[], object]:
    """What waits for the device to be done; a processor is done when the call returns."""
    if any(entry.executable is not None and entry.executable.device == "cuda" for entry in entries):
        synchronize: Callable[[], object] = sys.modules["torch"].cuda.synchronize
        return synchronize
    return lambda: None


def _caption(graph: Graph, args: Sequence[Any], devices: Sequence[str], repeats: int) -> str:
    library = library_for([*args, *graph.bound.values()]).name
    where = "; ".join(device_named(device).availability().what for device in devices)
    allocator = "torch's allocator" if library == "torch" else "NumPy's allocator, and a pool for the kernels' results"
    return (
        f"{where}. Median and quartiles of {repeats} turns; errors against a float64 run; {allocator} for all.{_busy()}"
    )


def _busy() -> str:
    """A warning if other programs keep the processors busy: ops that wait for several threads then take milliseconds."""
    processors = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return (
        f" The machine is busy (load {load:.0f} on {processors} processors): measure again."
        if load > 1.5 * processors
        else ""
    )


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"
