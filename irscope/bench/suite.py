"""Suites run from the command line: progress on the way, tables at the end, and all results as JSON.

The first line of a suite of kernels is the machine; each table has a line for each case and size with every competitor's
time, ours as a fraction of the machine's copy, and ours against the best of the others. Summaries are geometric means of
the others' times over ours: above one, ours is faster. On a busy machine the medians reflect the load; the JSON also has
the fastest turns, and a second summary uses them.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from irscope._base.concurrency.temporary import temporary_folder
from irscope.errors import ArgumentError
from irscope.runtime.machine import describe

__all__ = ["SUITES", "run_suite"]

SUITES: Final = ("kernels", "models", "gpu")
_OURS: Final = "fused"


def run_suite(
    suite: str, *, quick: bool = False, threads: Sequence[int] = (1, 2), peers: Sequence[str] | None = None,
    names: Sequence[str] = (), dry: bool = False, rotate: bool = False, say: Callable[[str], object] = print,
) -> dict[str, Any]:  # fmt: skip
    """Runs a suite; `say` gets the tables. Returns everything as plain data.

    Raises ArgumentError for an unknown suite, case or competitor, and DeviceUnavailable for the suite `gpu` where there is
    no GPU.
    """
    if suite not in SUITES:
        raise ArgumentError(f"there is no suite {suite!r}", hint=f"the suites are {', '.join(SUITES)}")
    _known(suite, names, peers)
    if suite == "gpu":
        from irscope.bench.gpu import gpu_suite

        return gpu_suite(quick=quick, names=names, peers=peers, dry=dry, say=say)
    found: dict[str, Any] = {"suite": suite, "machine": describe(), "quick": quick, "runs": []}
    say(_machine_line(found["machine"]))
    for count in threads:
        found["runs"] += _in_a_process(suite, count, quick, peers, names, rotate)
    found["load_after"] = describe()["load"]
    table = _kernel_table if suite == "kernels" else _model_table
    say(table(found["runs"]))
    if suite == "kernels":
        found["summary"] = {kind: _means(found["runs"], kind) for kind in ("median", "best")}
        say(_summary(found["summary"]))
    return found


def _known(suite: str, names: Sequence[str], peers: Sequence[str] | None) -> None:
    from irscope.bench.cases import CASES
    from irscope.bench.models import MODELS
    from irscope.bench.peers import PEERS

    cases = tuple(MODELS) if suite == "models" else tuple(case.name for case in CASES)
    for kind, given, known in (("case", names, cases), ("competitor", peers or (), (*PEERS, "cupy.fuse"))):
        for name in given:
            if name not in known:
                raise ArgumentError(
                    f"there is no {kind} {name!r} in the suite {suite}", hint=f"there are {', '.join(known)}"
                )


def _in_a_process(
    suite: str, threads: int, quick: bool, peers: Sequence[str] | None, names: Sequence[str], rotate: bool
) -> list[dict[str, Any]]:
    """Returns the runs of one thread count, measured in a separate process, whose progress is shown."""
    with temporary_folder() as folder:
        output = folder / "runs.json"
        options = {"threads": threads, "quick": quick, "peers": peers, "names": list(names), "rotate": rotate}
        code = "import sys; from irscope.bench.suite import _measure; _measure(*sys.argv[1:])"
        command = [sys.executable, "-c", code, suite, json.dumps(options), str(output)]
        status = subprocess.call(command)
        if status or not output.exists():
            raise ArgumentError(
                f"measuring on {threads} threads ended with status {status}", hint="its errors are above"
            )
        found: list[dict[str, Any]] = json.loads(output.read_text())
        return found


def _measure(suite: str, options_text: str, output: str) -> None:
    """Runs in the process of one thread count."""
    options = json.loads(options_text)
    threads, quick, peers, names = options["threads"], options["quick"], options["peers"], options["names"]
    runs: list[dict[str, Any]] = []
    if suite == "kernels":
        from irscope.bench.kernels import SIZES, kernel_runs
        from irscope.bench.peers import PEERS

        sizes = (1_000, 1_000_000) if quick else SIZES
        for run in kernel_runs(
            threads, sizes, names=names, peers=PEERS if peers is None else peers, rounds=3 if quick else 9,
            rotate=options["rotate"], step=_step,
        ):  # fmt: skip
            kept = {"case": run.case, "size": run.size, "threads": threads, "kernel_call_us": run.kernel_call_us}
            runs.append({**kept, **run.comparison.to_json()})
    else:
        from irscope.bench.models import model_runs

        wanted = ("eager", "torch.compile") if peers is None else peers
        for found in model_runs(threads, names=names, peers=wanted, rounds=3 if quick else 7, step=_step):
            if isinstance(found, tuple):
                runs.append({"case": found[0], "threads": threads, "rows": [], "missing": [found]})
            else:
                runs.append({"case": found.name, "threads": threads, **found.to_json()})
    Path(output).write_text(json.dumps(runs))
    _step("")


def _step(what: str) -> None:
    """Shows what is measured now, in place of the previous line."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{what}")
    elif what:
        sys.stderr.write(f"{what}\n")
    sys.stderr.flush()


# -- tables -----------------------------------------------------------------------------------------------------------


def _machine_line(machine: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    load = machine["load"][0] if machine["load"] else 0.0
    return (
        f"{machine['cpu']}, {machine['cores']} processors, load {load:g}; {', '.join(machine['features'])}\n{versions}"
    )


def _kernel_table(runs: Sequence[Mapping[str, Any]]) -> str:
    peers = _labels(runs)
    titles = ["case", "size", "threads", "irscope", "of copy", "call", *peers, "best / ours", "error"]
    lines = []
    for run in runs:
        rows = {row["label"]: row for row in run["rows"]}
        ours = rows[_OURS]
        best = min((rows[peer]["median"] for peer in peers if peer in rows), default=None)
        call = run.get("kernel_call_us")
        lines.append([
            run["case"], f"{run['size']:.0e}", str(run["threads"]), _us(ours["median"]), _number(ours["copy_fraction"]),
            "" if call is None else f"{call:.2f}", *(_us(rows[peer]["median"]) if peer in rows else "-" for peer in peers),
            "-" if best is None else f"{best / ours['median']:.2f}", _error(ours["error"]),
        ])  # fmt: skip
    notes = dict.fromkeys(f"{label}: {why}" for run in runs for label, why in run["missing"])
    return "\n".join(["medians in µs", _aligned([titles, *lines]), *notes, "", "ours", _own_table(runs)])


def _own_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Returns all measurements of our runs: times in µs, compiling in ms, cold and from the disk cache."""
    lines = [
        ["case", "size", "threads", "median", "quartiles", "GB/s", "of copy", "GFLOP/s", "cold ms", "warm ms", "launched", "error"]
    ]  # fmt: skip
    for run in runs:
        ours = next(row for row in run["rows"] if row["label"] == _OURS)
        lines.append([
            run["case"], f"{run['size']:.0e}", str(run["threads"]), _us(ours["median"]),
            f"{_us(ours['low'])} – {_us(ours['high'])}", _number(ours["bandwidth"], 1), _number(ours["copy_fraction"]),
            _number(ours["gflops"], 1), _number(ours["compile"], 1), _number(ours["warm_compile"], 1),
            str(ours["launched"]), _error(ours["error"]),
        ])  # fmt: skip
    return _aligned(lines)


def _model_table(runs: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        ["model", "threads", "way", "median ms", "quartiles", "launched", "kernels", "compile ms", "peak MB", "error"]
    ]
    for run in runs:
        for row in run["rows"]:
            peak = "" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:.1f}"
            lines.append([
                run["case"], str(run["threads"]), row["label"], f"{row['median']:.3g}",
                f"{row['low']:.3g} – {row['high']:.3g}", str(row["launched"] or ""), str(row["kernels"] or ""),
                f"{row['compile']:.3g}", peak, _error(row["error"]),
            ])  # fmt: skip
    notes = dict.fromkeys(f"{label}: {why}" for run in runs for label, why in run["missing"])
    return "\n".join([_aligned(lines), *notes])


def _means(runs: Sequence[Mapping[str, Any]], kind: str) -> dict[str, dict[str, float]]:
    """Returns for each competitor the geometric mean of its time over ours, and the worst case."""
    found: dict[str, dict[str, float]] = {}
    for peer in _labels(runs):
        ratios = []
        for run in runs:
            rows = {row["label"]: row for row in run["rows"]}
            if peer in rows:
                ratios.append(rows[peer][kind] / rows[_OURS][kind])
        found[peer] = {
            "geometric_mean": math.exp(sum(map(math.log, ratios)) / len(ratios)), "worst": min(ratios),
            "cases": len(ratios),
        }  # fmt: skip
    return found


def _summary(means: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    lines = [["their time / ours", "by medians", "worst", "by quickest turns", "worst", "cases"]]
    for peer, median in means["median"].items():
        best = means["best"][peer]
        lines.append([
            peer, f"{median['geometric_mean']:.2f}", f"{median['worst']:.2f}", f"{best['geometric_mean']:.2f}",
            f"{best['worst']:.2f}", f"{median['cases']:.0f}",
        ])  # fmt: skip
    return _aligned(lines)


def _labels(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the competitors other than ours, in order of appearance."""
    return [label for label in dict.fromkeys(row["label"] for run in runs for row in run["rows"]) if label != _OURS]


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    )
    return "\n".join("  ".join(line).rstrip() for line in padded)


def _us(milliseconds: float) -> str:
    return f"{milliseconds * 1e3:,.1f}" if milliseconds < 0.1 else f"{milliseconds * 1e3:,.0f}"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"
