"""The suite on a GPU: every case at sizes from 2^14 to 2^28 in float32 and bfloat16, beside torch, torch.compile and CuPy.

Times are the device's own: events around a batch of calls that go through sets of operands larger than the level-two cache
together. Small sizes are also timed as one CUDA graph of such a batch, which leaves the host's part out. The limit is the
fastest copy of as many bytes. The result is a file named after the device. Without a GPU it says what is missing; `dry`
then still generates every kernel, and compiles it where NVRTC is there, which needs no GPU.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from irscope.bench.cases import CASES, Case
from irscope.codegen.group_plan import spec_of_group
from irscope.codegen.kernel_spec import LaunchPlan
from irscope.errors import DeviceUnavailable, IrscopeError
from irscope.ir.core import Graph
from irscope.ir.types import TensorType
from irscope.runtime.base import device as device_named
from irscope.runtime.cuda import CudaDevice, CudaKernel
from irscope.runtime.executable import compile_graph
from irscope.runtime.machine import describe
from irscope.runtime.measure import Measurement
from irscope.session import load

__all__ = ["dry_run", "gpu_suite"]

_SIZES: Final = tuple(1 << power for power in range(14, 29, 2))
_QUICK_SIZES: Final = (1 << 16, 1 << 22, 1 << 26)
_DTYPES: Final = ("float32", "bfloat16")
_ARCHITECTURES: Final = ("80", "90", "100")
_GRAPH_SIZES: Final = 1 << 20
"""Elements up to which a CUDA graph is timed too."""
_MOST_SETS: Final = 64


def gpu_suite(
    *, quick: bool, names: Sequence[str], peers: Sequence[str] | None, dry: bool, say: Callable[[str], object]
) -> dict[str, Any]:
    """Run it, or with `dry` only compile. Raises DeviceUnavailable with what is missing."""
    if dry:
        return dry_run(names, say)
    here = device_named("cuda").availability()
    reason = here.what if not here else _torch_trouble()
    if reason:
        raise DeviceUnavailable(
            f"the suite gpu needs a GPU, CuPy and torch with CUDA: {reason}",
            hint=f"{here.fix or 'install torch built for CUDA'}; irscope bench --suite gpu --dry compiles everything without",
        )
    found = _measured(quick, names, ("eager", "torch.compile", "cupy.fuse") if peers is None else peers, say)
    name = re.sub(r"\W+", "-", found["device"]).strip("-").lower()
    folder = Path(__file__).parents[2] / "tests" / "benchmarks" / "results"
    found["file"] = f"{name}.json"
    if folder.exists():
        import json

        (folder / found["file"]).write_text(json.dumps(found, indent=1) + "\n")
        say(f"wrote {folder / found['file']}")
    return found


def _torch_trouble() -> str:
    if find_spec("torch") is None:
        return "torch is not installed"
    return "" if import_module("torch").cuda.is_available() else "torch sees no GPU"


# -- without a GPU ----------------------------------------------------------------------------------------------------


def dry_run(names: Sequence[str] = (), say: Callable[[str], object] = print) -> dict[str, Any]:
    """Generate the text of every kernel of the suite; compile each for three architectures where NVRTC is there."""
    device = CudaDevice()
    runs: list[dict[str, Any]] = []
    nvrtc = ""
    for case, dtype, graph in _programs(names):
        for plan in _plans(graph):
            try:
                made = [device.kernels_of(plan, architecture=architecture) for architecture in _ARCHITECTURES]
            except IrscopeError as error:
                runs.append({"case": case.name, "dtype": dtype, "error": error.what})
                continue
            each = zip(*made, strict=True)
            runs += [{"case": case.name, "dtype": dtype, **_looked_at(kernels)} for kernels in each]
    failed = [run for run in runs if run.get("error")]
    compiled = sum("registers" in run for run in runs)
    spilled = sum(any(run.get("spill_bytes", {}).values()) for run in runs)
    most = max((count for run in runs for count in run.get("registers", {}).values()), default=0)
    if not compiled:
        nvrtc = _nvrtc_trouble(device)
    say(
        f"{len(runs)} kernels generated for sm_{', sm_'.join(_ARCHITECTURES)}, {compiled} compiled, {len(failed)} failed,"
        f" {spilled} spill registers, {most} registers at most"
    )
    for run in failed:
        say(f"  {run['case']} {run['dtype']}: {run['error']}")
    if nvrtc:
        say(f"nothing was compiled: {nvrtc}")
    return {"suite": "gpu", "dry": True, "machine": describe(), "runs": runs}


def _programs(names: Sequence[str]) -> Iterator[tuple[Case, str, Graph]]:
    """Every case in every element type, for a middle size."""
    from irscope.analysis.shapes import infer, refine
    from irscope.ir.parser import parse

    for case in CASES:
        if names and case.name not in names:
            continue
        for dtype in _DTYPES:
            graph = parse(case.group_text)
            types = [TensorType(dtype, shape, _row_major(shape)) for shape in case.shapes(1 << 20)]
            known = dict(zip(graph.inputs, types, strict=True))
            yield case, dtype, refine(graph, infer(graph, known, strict=True))


def _plans(graph: Graph) -> Iterator[LaunchPlan]:
    for node in graph.nodes():
        if node.op == "prim::FusionGroup":
            yield spec_of_group(node, [value.type for value in node.inputs])


def _looked_at(kernels: Sequence[CudaKernel]) -> dict[str, Any]:
    """One kernel, compiled for each architecture if it could be."""
    found: dict[str, Any] = {"kernel": kernels[0].name, "lines": kernels[0].source.text.count("\n")}
    if all(kernel.resources for kernel in kernels):
        found["registers"] = {kernel.architecture: kernel.registers for kernel in kernels}
        found["spill_bytes"] = {kernel.architecture: kernel.spill_bytes for kernel in kernels}
        found["pace"] = kernels[1].pace().because
    return found


def _nvrtc_trouble(device: CudaDevice) -> str:
    """Why nothing can be compiled."""
    try:
        device.compiler.version()
    except IrscopeError as error:
        return error.what
    return ""


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))


# -- with one ---------------------------------------------------------------------------------------------------------


@dataclass
class _Contest:
    """The competitors of one case at one size."""

    torch: Any
    sets: list[list[Any]]
    rivals: dict[str, Callable[..., Any]] = field(default_factory=dict)
    missing: list[tuple[str, str]] = field(default_factory=list)

    def enter(self, label: str, make: Callable[[], Callable[..., Any]]) -> None:
        """Add a competitor that can be made and runs once."""
        try:
            rival = make()
            rival(*self.sets[0])
            self.torch.cuda.synchronize()
            self.rivals[label] = rival
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            self.missing.append((label, f"{type(error).__name__}: {lines[0]}"))

    def times(self, rounds: int) -> dict[str, Measurement]:
        """Seconds of a call by the device's events, all in turn."""
        calls = {label: self._calls(rival) for label, rival in self.rivals.items()}
        taken: dict[str, list[float]] = {label: [] for label in self.rivals}
        for turn in range(rounds):
            order = list(self.rivals)
            for label in order[turn % len(order) :] + order[: turn % len(order)]:
                taken[label].append(self._batch(self.rivals[label], calls[label]))
        return {label: Measurement(label, tuple(seconds)) for label, seconds in taken.items()}

    def graph_times(self, rounds: int) -> dict[str, float]:
        """Median seconds of a call inside a CUDA graph; nothing for what cannot be captured."""
        found = {}
        for label, rival in self.rivals.items():
            try:
                found[label] = self._graph_time(rival, rounds)
            except Exception as error:
                self.missing.append((f"{label}, as a CUDA graph", f"{type(error).__name__}"))
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
        with torch.cuda.graph(captured):
            kept = [rival(*operands) for operands in self.sets]
        taken = [self._event_seconds(captured.replay) / count for _ in range(rounds)]
        del kept
        return statistics.median(taken)

    def _calls(self, rival: Callable[..., Any]) -> int:
        once = self._batch(rival, 3)
        return int(max(len(self.sets), min(400, 20e-3 / max(once, 1e-7))))

    def _batch(self, rival: Callable[..., Any], calls: int) -> float:
        sets = self.sets

        def run() -> None:
            for index in range(calls):
                rival(*sets[index % len(sets)])

        return self._event_seconds(run) / calls

    def _event_seconds(self, run: Callable[[], object]) -> float:
        torch = self.torch
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3


def _measured(quick: bool, names: Sequence[str], peers: Sequence[str], say: Callable[[str], object]) -> dict[str, Any]:
    torch = import_module("torch")
    properties = torch.cuda.get_device_properties(0)
    found: dict[str, Any] = {
        "suite": "gpu", "machine": describe(), "device": properties.name, "quick": quick, "runs": [],
        "driver": torch.version.cuda,
    }  # fmt: skip
    say(f"{properties.name}, {properties.multi_processor_count} multiprocessors, {properties.total_memory >> 30} GiB")
    cache = int(getattr(properties, "L2_cache_size", 50 << 20))
    for case in CASES:
        if names and case.name not in names:
            continue
        for dtype in _DTYPES:
            for size in _QUICK_SIZES if quick else _SIZES:
                run = _one(torch, case, dtype, size, peers, cache, 5 if quick else 9)
                found["runs"].append(run)
                say(_line(run))
                torch.cuda.empty_cache()
    return found


def _one(
    torch: Any, case: Case, dtype: str, size: int, peers: Sequence[str], cache: int, rounds: int
) -> dict[str, Any]:
    """One case at one size: every competitor's times, errors, and the copy."""
    kind = getattr(torch, dtype)
    generator = torch.Generator(device="cuda").manual_seed(0)

    def operands() -> list[Any]:
        return [
            torch.randn(shape, generator=generator, device="cuda").mul_(2).to(kind) for shape in case.shapes(size)
        ]  # fmt: skip

    sets = [operands()]
    program = load(case.group_text, *sets[0], name=case.name)
    ours = compile_graph(program, "cuda")
    result = ours(*sets[0])
    moved = sum(tensor.nbytes for tensor in (*sets[0], result))
    free = torch.cuda.mem_get_info()[0]
    count = max(1, min(_MOST_SETS, -(-4 * cache // moved), int(0.35 * free // moved)))
    sets += [operands() for _ in range(count - 1)]
    contest = _Contest(torch, sets)
    contest.enter("irscope", lambda: ours)
    if "eager" in peers:
        contest.enter("eager", lambda: case.torch(torch))  # type: ignore[misc]
    if "torch.compile" in peers:
        torch._dynamo.reset()
        contest.enter("torch.compile", lambda: torch.compile(case.torch(torch), dynamic=False))  # type: ignore[misc]
    if "cupy.fuse" in peers and case.cupy is not None and dtype == "float32":
        contest.enter("cupy.fuse", lambda: _cupy_rival(case))
    half = max(moved // 2 // 4, 1)
    target = torch.empty(half, device="cuda")
    sources = [torch.ones(half, device="cuda") for _ in range(count)]
    copying = _Contest(torch, [[source] for source in sources])
    copying.enter("copy", lambda: target.copy_)
    times = contest.times(rounds)
    copy = copying.times(rounds)["copy"].median
    assert case.torch is not None, "every case has a function in torch"
    exact = case.torch(torch)(*[tensor.double() for tensor in sets[0]])
    rows = []
    graphs = contest.graph_times(rounds) if size <= _GRAPH_SIZES else {}
    for label, time in times.items():
        given = contest.rivals[label](*sets[0])
        error = float((given.double() - exact).abs().max() / exact.abs().max()) if given is not None else None
        rows.append({
            "label": label, "median": time.median * 1e3, "low": time.low * 1e3, "high": time.high * 1e3,
            "best": min(time.seconds) * 1e3, "bandwidth": moved / time.median / 1e9,
            "copy_fraction": copy / time.median, "graph": graphs[label] * 1e3 if label in graphs else None,
            "error": error,
        })  # fmt: skip
    return {
        "case": case.name, "dtype": dtype, "size": size, "sets": count, "bytes": moved, "rows": rows,
        "missing": contest.missing, "copy_bandwidth": moved / copy / 1e9, "kernels": len(ours.kernels),
    }  # fmt: skip


def _cupy_rival(case: Case) -> Callable[..., Any]:
    """CuPy on torch's memory: fused if `cupy.fuse` can, which it cannot with reductions, and then op by op."""
    cupy = import_module("cupy")
    assert case.cupy is not None
    plain = case.cupy(cupy)
    function = plain if case.is_matrix else cupy.fuse(plain)
    known: dict[int, Any] = {}
    torch = sys.modules["torch"]

    def run(*operands: Any) -> Any:
        arrays = []
        for operand in operands:
            place = operand.data_ptr()
            if place not in known:
                known[place] = cupy.from_dlpack(operand)
            arrays.append(known[place])
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            return torch.from_dlpack(function(*arrays))

    return run


def _line(run: dict[str, Any]) -> str:
    cells = [f"{run['case']:<12} {run['dtype']:<9} 2^{run['size'].bit_length() - 1}"]
    for row in run["rows"]:
        graph = f" (graph {row['graph'] * 1e3:.1f})" if row["graph"] is not None else ""
        cells.append(f"{row['label']} {row['median'] * 1e3:.1f} µs{graph}, {row['copy_fraction']:.2f} of copy")
    return "; ".join([*cells, *(f"{label}: {why}" for label, why in run["missing"])])
