"""The suite on a GPU: every kernel case at sizes from 2^14 to 2^28 in float32 and bfloat16, beside torch, torch.compile and CuPy.

    python tests/benchmarks/gpu_suite.py              # torch with CUDA, CuPy and NVRTC; at most eight minutes
    python tests/benchmarks/gpu_suite.py --dry        # no GPU: every kernel is generated, and compiled where NVRTC is there

The sizes of the targets come first, and cases without time left are named. Measuring runs in a separate process, so a
kernel that crashes or hangs loses only its own figures. The results are written after every run, into `results` under the
device's name, with the targets judged at the end.
"""

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from irscope.analysis.shapes import infer, refined
from irscope.codegen.kernel import LaunchPlan
from irscope.codegen.lowering import spec_of_group
from irscope.errors import DeviceUnavailable, IrscopeError
from irscope.ir import Graph, TensorType
from irscope.ir.text import parse
from irscope.ops.type_rules import contiguous_strides
from irscope.runtime.cuda import CudaDevice, CudaKernel
from irscope.runtime.device import device as device_named
from irscope.runtime.machine import describe
from tests.benchmarks.gpu_runs import OURS, PEERS, measured
from tests.benchmarks.kernel_cases import CASES, Case, chosen
from tests.benchmarks.separate_process import Job, apart, told

DTYPES: Final = ("float32", "bfloat16")
_SIZES: Final = tuple(1 << power for power in (26, 16, 28, 20, 14, 24, 18, 22))
"""In the order of measurement: a large and a small one first, intermediate ones last."""
_QUICK_SIZES: Final = tuple(1 << power for power in (26, 16, 22))
_SECONDS: Final = 440.0
"""The time after which no run begins: with the last run, and the setup before the first, eight minutes."""


def gpu_suite(*, quick: bool, names: Sequence[str], peers: Sequence[str] | None, dry: bool, say: Callable[[str], object]) -> dict[str, Any]:
    """Runs the suite, or with `dry` only compiles it. Raises DeviceUnavailable with what is missing."""
    if dry:
        return dry_run(names, say)
    here = device_named("cuda").availability()
    reason = here.what if not here else _torch_trouble()
    if reason:
        raise DeviceUnavailable(
            f"the suite gpu needs a GPU, CuPy and torch with CUDA: {reason}",
            hint=f"{here.fix or 'install torch built for CUDA'}; --dry compiles everything without",
        )
    torch = import_module("torch")
    properties = torch.cuda.get_device_properties(0)
    found: dict[str, Any] = {
        "suite": "gpu", "machine": describe(), "device": properties.name, "cuda": torch.version.cuda, "quick": quick,
        "multiprocessors": properties.multi_processor_count, "memory": properties.total_memory,
    }  # fmt: skip
    say(f"{properties.name}, {properties.multi_processor_count} multiprocessors, {properties.total_memory >> 30} GiB")
    file = _folder() / f"{re.sub(r'[^a-z0-9]+', '-', properties.name.lower()).strip('-')}.json"
    jobs = jobs_of(names, PEERS if peers is None else peers, quick=quick)
    return run_jobs(jobs, found, file, say, until=time.monotonic() + _SECONDS)


def _torch_trouble() -> str:
    if find_spec("torch") is None:
        return "torch is not installed"
    return "" if import_module("torch").cuda.is_available() else "torch sees no GPU"


def _folder() -> Path:
    return Path(__file__).parent / "results"


def jobs_of(names: Sequence[str], peers: Sequence[str], *, quick: bool) -> list[Job]:
    """Returns every case in every element type at every size, as plain data; the most informative sizes first."""
    return [
        {"case": case.name, "dtype": dtype, "size": size, "peers": list(peers), "rounds": 5 if quick else 7}
        for size in (_QUICK_SIZES if quick else _SIZES) for case in chosen(names)
        for dtype in DTYPES
    ]  # fmt: skip


def run_jobs(jobs: Sequence[Job], found: dict[str, Any], file: Path, say: Callable[[str], object], *, until: float) -> dict[str, Any]:
    """Measures all jobs; adds runs, targets and what was left out to `found`, which is written to the file after every run.

    Ctrl-C ends the measuring but not the report.
    """
    runs: list[dict[str, Any]] = []
    found |= {"runs": runs, "file": file.name, "interrupted": False}
    try:
        for job, result in apart(jobs, measure, until=until):
            runs.append({"case": job["case"], "dtype": job["dtype"], "size": job["size"], **result})
            say(line_of(runs[-1]))
            _write(found, jobs, file)
    except KeyboardInterrupt:
        found["interrupted"] = True
    _write(found, jobs, file)
    say(table_of(found["targets"]))
    failed = sum("error" in run for run in runs)
    say(f"{len(runs)} measured, {failed} of them failed; {len(found['left_out'])} left out for lack of time")
    say(f"wrote {file}")
    return found


def _write(found: dict[str, Any], jobs: Sequence[Job], file: Path) -> None:
    done = {(run["case"], run["dtype"], run["size"]) for run in found["runs"]}
    asked = ((job["case"], job["dtype"], job["size"]) for job in jobs)
    found["left_out"] = [list(each) for each in asked if each not in done]
    found["targets"] = judged(found["runs"])
    new = file.with_suffix(".new")
    new.write_text(json.dumps(found) + "\n", encoding="utf-8")
    new.replace(file)


def measure(job: Job) -> dict[str, Any]:
    """Runs in the measuring process."""
    torch = import_module("torch")
    case = next(case for case in CASES if case.name == job["case"])
    try:
        found = measured(torch, case, job["dtype"], job["size"], job["peers"], job["rounds"])
        torch.cuda.empty_cache()
        if "cupy" in sys.modules:
            sys.modules["cupy"].get_default_memory_pool().free_all_blocks()
        torch.cuda.synchronize()
        return found
    except Exception as error:
        return {"error": told(error), "spoiled": not _is_sound(torch)}


def _is_sound(torch: Any) -> bool:
    try:
        torch.cuda.synchronize()
    except Exception:
        return False
    return True


def line_of(run: dict[str, Any]) -> str:
    cells = [f"{run['case']:<12} {run['dtype']:<9} 2^{run['size'].bit_length() - 1}"]
    if "error" in run:
        return f"{cells[0]} failed: {run['error']}"
    for row in run["rows"]:
        graph = f" (graph {row['graph'] * 1e3:.1f})" if row["graph"] is not None else ""
        cells.append(f"{row['label']} {row['median'] * 1e3:.1f} µs{graph}, {row['copy_fraction']:.2f} of copy")
    return "; ".join([*cells, *(f"{label}: {why}" for label, why in run["missing"])])


# -- targets: share of copy at large sizes, and time against the others -------------------------------------------------

_LARGE: Final = 1 << 26
"""The least elements at which a memory-bound kernel should be as fast as a copy."""
_COPY: Final = 0.92

Run = Mapping[str, Any]


def judged(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Returns one record for each target: the wanted figure, the mean and the worst one reached, and the number of cases."""
    bound = {case.name for case in CASES if case.memory_bound}
    large = [run for run in runs if run["size"] >= _LARGE and run["case"] in bound]
    return [
        _verdict("share of copy, every memory-bound kernel", large, lambda rows: rows[OURS]["copy_fraction"], _COPY, True),
        _verdict("torch.compile's time / ours", runs, _times("torch.compile", "median"), 1.0, False),
        _verdict("cupy.fuse's time / ours", runs, _times("cupy.fuse", "median"), 1.5, False),
        _verdict("torch.compile's time / ours, in a CUDA graph", runs, _times("torch.compile", "graph"), 1.0, False),
    ]


def _times(peer: str, kind: str) -> Callable[[Mapping[str, Any]], float]:
    return lambda rows: float(rows[peer][kind] / rows[OURS][kind])


def _verdict(what: str, runs: Iterable[Run], of: Callable[[Mapping[str, Any]], float], wanted: float, every: bool) -> dict[str, Any]:
    """Judges the runs that have the figure. With `every`, the worst must reach what is wanted, otherwise the mean."""
    found: list[tuple[float, Run]] = []
    for run in runs:
        try:
            found.append((of({row["label"]: row for row in run.get("rows", ())}), run))
        except (KeyError, TypeError):  # a competitor that took no part, or a missing time
            continue
    if not found:
        return {"target": what, "wanted": wanted, "by": "worst" if every else "mean", "cases": 0, "met": None}
    mean = math.exp(sum(math.log(value) for value, _ in found) / len(found))
    worst, run = min(found, key=lambda each: each[0])
    return {
        "target": what, "wanted": wanted, "by": "worst" if every else "mean", "cases": len(found), "mean": mean,
        "worst": worst, "worst_case": f"{run['case']} {run['dtype']} 2^{run['size'].bit_length() - 1}",
        "met": (worst if every else mean) >= wanted,
    }  # fmt: skip


def table_of(targets: Iterable[Mapping[str, Any]]) -> str:
    lines = []
    for each in targets:
        if each["met"] is None:
            lines.append(f"not measured  {each['target']}, {each['by']} ≥ {each['wanted']:g}")
            continue
        lines.append(
            f"{'met' if each['met'] else 'MISSED':<12}  {each['target']}, {each['by']} ≥ {each['wanted']:g}: geometric mean"
            f" {each['mean']:.2f} of {each['cases']}, worst {each['worst']:.2f} ({each['worst_case']})"
        )
    return "\n".join(lines)


# -- without a GPU ------------------------------------------------------------------------------------------------------

_ARCHITECTURES: Final = ("80", "90", "100")


def dry_run(names: Sequence[str] = (), say: Callable[[str], object] = print) -> dict[str, Any]:
    """Generates the text of every kernel of the suite; compiles each for three architectures where NVRTC is available."""
    device = CudaDevice()
    runs: list[dict[str, Any]] = []
    nvrtc = ""
    for case, dtype, graph in programs(names):
        for plan in plans_of(graph):
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
    found = f", {spilled} spill registers, {most} registers at most" if compiled else ""
    say(f"{len(runs)} kernels generated for sm_{', sm_'.join(_ARCHITECTURES)}, {compiled} compiled, {len(failed)} failed{found}")
    for run in failed:
        say(f"  {run['case']} {run['dtype']}: {run['error']}")
    if nvrtc:
        say(f"nothing was compiled: {nvrtc}")
    return {"suite": "gpu", "dry": True, "machine": describe(), "runs": runs}


def programs(names: Sequence[str], size: int = 1 << 20) -> Iterator[tuple[Case, str, Graph]]:
    """Yields every case in every element type, for about `size` elements: large ones bypass the caches."""
    for case in chosen(names):
        for dtype in DTYPES:
            graph = parse(case.group_text)
            types = [TensorType(dtype, shape, contiguous_strides(shape)) for shape in case.shapes(size)]
            known = dict(zip(graph.inputs, types, strict=True))
            yield case, dtype, refined(graph, infer(graph, known, strict=True))[0]


def plans_of(graph: Graph) -> Iterator[LaunchPlan]:
    for node in graph.nodes():
        if node.op == "prim::FusionGroup":
            yield spec_of_group(node, [value.type for value in node.inputs])


def _looked_at(kernels: Sequence[CudaKernel]) -> dict[str, Any]:
    found: dict[str, Any] = {"kernel": kernels[0].name, "lines": kernels[0].source.text.count("\n")}
    if all(kernel.resources for kernel in kernels):
        found["registers"] = {kernel.architecture: kernel.registers for kernel in kernels}
        found["spill_bytes"] = {kernel.architecture: kernel.spill_bytes for kernel in kernels}
        found["pace"] = kernels[1].facts.because
    return found


def _nvrtc_trouble(device: CudaDevice) -> str:
    try:
        device.compiler.version()
    except IrscopeError as error:
        return f"{error.what} ({error.hint})" if error.hint else error.what
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry", action="store_true", help="generate and compile everything, run nothing")
    parser.add_argument("--quick", action="store_true", help="three sizes")
    parser.add_argument("--cases", nargs="+", default=(), choices=[case.name for case in CASES])
    parser.add_argument("--peers", nargs="*", choices=PEERS)
    parser.add_argument("--json", type=Path, help="write all figures to this file too")
    options = parser.parse_args()
    try:
        found = gpu_suite(quick=options.quick, names=options.cases, peers=options.peers, dry=options.dry, say=print)
    except DeviceUnavailable as error:
        sys.exit(f"{error.what}\n{error.hint}")
    if options.json:
        options.json.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
