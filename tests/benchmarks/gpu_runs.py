"""One case at one size on the GPU: ours, eager torch, torch.compile and CuPy in turns, and the copy that is the limit.

Times are the device's own: events around a batch of calls that cycle through sets of operands that together exceed the
level-two cache. Small sizes are also timed as one CUDA graph of such a batch, which excludes the host's part; CuPy does not
take part in that, since torch's graph capture does not know its memory. The limit is the fastest copy of as many bytes. A
competitor that fails is named with the reason, and the others continue.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from irscope.runtime.program import compile_graph
from irscope.runtime.timer import Spread
from irscope.session import load
from tests.benchmarks.kernel_cases import Case
from tests.benchmarks.separate_process import told

OURS: Final = "irscope"
PEERS: Final = ("eager", "torch.compile", "cupy.fuse")
_GRAPHED: Final = (OURS, "eager", "torch.compile")
_GRAPH_SIZES: Final = 1 << 20
"""The most elements for which a CUDA graph is timed too."""
_MOST_SETS: Final = 64
_TURN: Final = 15e-3
"""The intended seconds of one competitor's turn."""


@dataclass
class Contest:
    """The competitors of one case at one size."""

    torch: Any
    sets: list[list[Any]]
    rivals: dict[str, Callable[..., Any]] = field(default_factory=dict)
    firsts: dict[str, float] = field(default_factory=dict)
    """Seconds until a competitor's first result, mostly compiling."""
    missing: list[tuple[str, str]] = field(default_factory=list)

    def enter(self, label: str, make: Callable[[], Callable[..., Any]]) -> None:
        """Adds a competitor if it can be built and run once."""
        start = time.perf_counter()
        try:
            rival = make()
            rival(*self.sets[0])
            self.torch.cuda.synchronize()
        except Exception as error:
            self.missing.append((label, told(error)))
            self.torch.cuda.synchronize()  # a pending GPU error ends the process here
            return
        self.rivals[label], self.firsts[label] = rival, time.perf_counter() - start

    def times(self, rounds: int) -> dict[str, Spread]:
        """Returns the time of a call by the device's events, all in turn."""
        calls = {label: self._calls(rival) for label, rival in self.rivals.items()}
        taken: dict[str, list[float]] = {label: [] for label in self.rivals}
        for turn in range(rounds):
            order = list(self.rivals)
            for label in order[turn % len(order) :] + order[: turn % len(order)]:
                taken[label].append(self._batch(self.rivals[label], calls[label]))
        return {label: Spread.of([each * 1e9 for each in seconds]) for label, seconds in taken.items()}

    def graph_times(self, rounds: int) -> dict[str, float]:
        """Returns the median seconds of a call inside a CUDA graph, for the competitors that can be captured."""
        found: dict[str, float] = {}
        for label in _GRAPHED:
            if label not in self.rivals:
                continue
            try:
                found[label] = self._graph_time(self.rivals[label], rounds)
            except Exception as error:
                self.missing.append((f"{label}, as a CUDA graph", told(error)))
                self.torch.cuda.synchronize()
        return found

    def _graph_time(self, rival: Callable[..., Any], rounds: int) -> float:
        torch, count = self.torch, len(self.sets)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for operands in self.sets[:3]:
                rival(*operands)
        torch.cuda.current_stream().wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, stream=side):
            kept = [rival(*operands) for operands in self.sets]
        captured.replay()
        taken = [self._event_seconds(captured.replay) / count for _ in range(rounds)]
        del kept
        return statistics.median(taken)

    def _calls(self, rival: Callable[..., Any]) -> int:
        once = self._batch(rival, 3)
        return int(max(len(self.sets), min(400, _TURN / max(once, 1e-7))))

    def _batch(self, rival: Callable[..., Any], calls: int) -> float:
        sets = self.sets

        def run() -> None:
            for index in range(calls):
                rival(*sets[index % len(sets)])

        return self._event_seconds(run) / calls

    def _event_seconds(self, run: Callable[[], object]) -> float:
        torch = self.torch
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3


def measured(torch: Any, case: Case, dtype: str, size: int, peers: Sequence[str], rounds: int) -> dict[str, Any]:
    """Returns every competitor's times, errors and first results, as plain data."""
    kind = getattr(torch, dtype)
    generator = torch.Generator(device="cuda").manual_seed(0)

    def operands() -> list[Any]:
        return [torch.randn(shape, generator=generator, device="cuda").mul_(2).to(kind) for shape in case.shapes(size)]

    eager = case.torch(torch)
    sets = [operands()]
    moved = sum(tensor.nbytes for tensor in (*sets[0], eager(*sets[0])))
    cache = int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 50 << 20))
    room = int(0.35 * torch.cuda.mem_get_info()[0] // moved)
    sets += [operands() for _ in range(max(1, min(_MOST_SETS, -(-4 * cache // moved), room)) - 1)]
    contest = Contest(torch, sets)
    contest.enter(OURS, lambda: compile_graph(load(case.group_text, *sets[0], name=case.name), "cuda"))
    if "eager" in peers:
        contest.enter("eager", lambda: eager)
    if "torch.compile" in peers:
        contest.enter("torch.compile", lambda: _compiled(torch, eager))
    if "cupy.fuse" in peers and case.cupy is not None and dtype == "float32":
        contest.enter("cupy.fuse", lambda: _cupy_rival(torch, case))
    times = contest.times(rounds)
    copy = _copy_time(torch, moved, len(sets), rounds)
    graphs = contest.graph_times(rounds) if size <= _GRAPH_SIZES else {}
    errors = _errors(torch, contest, eager)
    return {
        "case": case.name, "dtype": dtype, "size": size, "sets": len(sets), "bytes": moved,
        "copy_bandwidth": moved / copy / 1e9, "missing": contest.missing,
        "kernels": len(getattr(contest.rivals.get(OURS), "kernels", ())),
        "rows": [
            {
                "label": label, "median": time.median / 1e6, "low": time.low / 1e6, "high": time.high / 1e6,
                "best": time.best / 1e6, "bandwidth": moved / time.median,
                "copy_fraction": copy / time.median * 1e9, "graph": graphs[label] * 1e3 if label in graphs else None,
                "first": contest.firsts[label] * 1e3, "error": errors.get(label),
            }
            for label, time in times.items()
        ],
    }  # fmt: skip


def _compiled(torch: Any, eager: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    compiled: Callable[..., Any] = torch.compile(eager, dynamic=False)
    return compiled


def _copy_time(torch: Any, moved: int, count: int, rounds: int) -> float:
    """Returns the seconds of a copy that moves as many bytes, through as many sets of operands as the competitors had."""
    half = max(moved // 2 // 4, 1)
    target = torch.empty(half, device="cuda")
    copying = Contest(torch, [[torch.ones(half, device="cuda")] for _ in range(count)])
    copying.enter("copy", lambda: target.copy_)
    return copying.times(rounds)["copy"].median / 1e9


def _errors(torch: Any, contest: Contest, eager: Callable[..., Any]) -> dict[str, float]:
    """Returns the largest difference from the exact result relative to the largest element, if the memory suffices."""
    try:
        exact = eager(*[tensor.double() for tensor in contest.sets[0]])
        scale = exact.abs().max()
        found = {}
        for label, rival in contest.rivals.items():
            found[label] = float((rival(*contest.sets[0]).double() - exact).abs().max() / scale)
        return found
    except Exception as error:
        contest.missing.append(("errors", told(error)))
        torch.cuda.synchronize()
        return {}


def _cupy_rival(torch: Any, case: Case) -> Callable[..., Any]:
    """Returns CuPy's function on torch's memory: fused if `cupy.fuse` can, which excludes reductions, otherwise op by op.

    Both work on the default stream here.
    """
    cupy = import_module("cupy")
    assert case.cupy is not None
    plain = case.cupy(cupy)
    function = plain if case.is_matrix else cupy.fuse(plain)
    known: dict[int, Any] = {}

    def run(*operands: Any) -> Any:
        arrays = []
        for operand in operands:
            place = operand.data_ptr()
            if place not in known:
                known[place] = cupy.from_dlpack(operand)
            arrays.append(known[place])
        return torch.from_dlpack(function(*arrays))

    return run
