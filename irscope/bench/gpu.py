"""The suite on a GPU: every case at sizes from 2^14 to 2^28 in float32 and bfloat16, beside torch, torch.compile and CuPy.

One command, at most eight minutes: the sizes that the targets are about come first, and what there is no time for is
named. Measuring is left to a process of its own (`apart`), so that a kernel that crashes or hangs costs its own figures.
The results are written after every run, under the device's name, with the targets judged at the end. Without a GPU it
says what is missing; `dry` then still generates every kernel, and compiles it where NVRTC is there, which needs no GPU.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from irscope.bench.apart import Job, apart, work
from irscope.bench.cases import CASES
from irscope.bench.gpu_dry import DTYPES, dry_run
from irscope.bench.gpu_runs import PEERS, measured
from irscope.bench.gpu_targets import judged, table_of
from irscope.errors import DeviceUnavailable
from irscope.runtime.device import device as device_named
from irscope.runtime.machine import describe

__all__ = ["gpu_suite", "jobs_of", "measure", "run_jobs"]

_SIZES: Final = tuple(1 << power for power in (26, 16, 28, 20, 14, 24, 18, 22))
"""In the order in which they are measured: a large and a small one first, between them last."""
_QUICK_SIZES: Final = tuple(1 << power for power in (26, 16, 22))
_SECONDS: Final = 440.0
"""After which no run begins: with the last run, and what begins before the first, eight minutes."""
_CODE: Final = "import sys; from irscope.bench.gpu import measure; measure(*sys.argv[1:])"


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
    """Where results are kept: with the benchmarks of a checkout, otherwise here."""
    folder = Path(__file__).parents[2] / "tests" / "benchmarks" / "results"
    return folder if folder.exists() else Path.cwd()


def jobs_of(names: Sequence[str], peers: Sequence[str], *, quick: bool) -> list[Job]:
    """Every case in every element type at every size, as plain data; the most telling sizes first."""
    return [
        {"case": case.name, "dtype": dtype, "size": size, "peers": list(peers), "rounds": 5 if quick else 7}
        for size in (_QUICK_SIZES if quick else _SIZES) for case in CASES if not names or case.name in names
        for dtype in DTYPES
    ]  # fmt: skip


def run_jobs(
    jobs: Sequence[Job], found: dict[str, Any], file: Path, say: Callable[[str], object], *, until: float
) -> dict[str, Any]:
    """Measure all, and put runs, targets and what was left out into `found`, which is in the file after every run.

    Ctrl-C ends the measuring and not the report.
    """
    runs: list[dict[str, Any]] = []
    found |= {"runs": runs, "file": file.name, "interrupted": False}
    try:
        for job, result in apart(jobs, _CODE, until=until):
            runs.append({"case": job["case"], "dtype": job["dtype"], "size": job["size"], **result})
            say(line_of(runs[-1]))
            _write(found, jobs, file)
    except KeyboardInterrupt:
        found["interrupted"] = True
    _write(found, jobs, file)
    say(table_of(found["targets"]))
    failed = sum("error" in run for run in runs)
    say(f"{len(runs)} measured, {failed} of them failed; {len(found['left_out'])} left out for want of time")
    say(f"wrote {file}")
    return found


def _write(found: dict[str, Any], jobs: Sequence[Job], file: Path) -> None:
    """The file as a whole, or not at all."""
    done = {(run["case"], run["dtype"], run["size"]) for run in found["runs"]}
    asked = ((job["case"], job["dtype"], job["size"]) for job in jobs)
    found["left_out"] = [list(each) for each in asked if each not in done]
    found["targets"] = judged(found["runs"])
    new = file.with_suffix(".new")
    new.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    new.replace(file)


def measure(tasks: str, results: str) -> None:
    """What the measuring process does."""
    torch = import_module("torch")
    cases = {case.name: case for case in CASES}

    def run(job: Job) -> dict[str, Any]:
        try:
            return measured(torch, cases[job["case"]], job["dtype"], job["size"], job["peers"], job["rounds"])
        finally:
            torch.cuda.empty_cache()
            if "cupy" in sys.modules:
                sys.modules["cupy"].get_default_memory_pool().free_all_blocks()

    def is_sound() -> bool:
        try:
            torch.cuda.synchronize()
        except Exception:
            return False
        return True

    work(run, is_sound, tasks, results)


def line_of(run: dict[str, Any]) -> str:
    """One run in one line."""
    cells = [f"{run['case']:<12} {run['dtype']:<9} 2^{run['size'].bit_length() - 1}"]
    if "error" in run:
        return f"{cells[0]} failed: {run['error']}"
    for row in run["rows"]:
        graph = f" (graph {row['graph'] * 1e3:.1f})" if row["graph"] is not None else ""
        cells.append(f"{row['label']} {row['median'] * 1e3:.1f} µs{graph}, {row['copy_fraction']:.2f} of copy")
    return "; ".join([*cells, *(f"{label}: {why}" for label, why in run["missing"])])
