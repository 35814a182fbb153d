"""The suite of kernels held against what it is meant to reach, and the table of the README, from one command.

    python tests/benchmarks/check_targets.py --json tests/benchmarks/results/NAME.json     # measures, about five minutes
    python tests/benchmarks/check_targets.py --read tests/benchmarks/results/NAME.json     # what was measured before
    python tests/benchmarks/check_targets.py --read A.json B.json C.json                   # the median of several runs

Run it with a Python that has torch, jax and numexpr beside irscope, on a quiet machine. "By quickest turns" says what a
quiet machine would have shown where the medians were disturbed. Of several runs each case is taken from the
one that is its median by the best competitor's time over ours.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median_low
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks import kernel_suite
from tests.benchmarks.harness import command
from tests.benchmarks.kernel_cases import CASES
from tests.benchmarks.kernel_suite import KINDS, OURS, geometric_mean, ratios, rows_of, summarize

PEERS: Final = {"torch.compile": 1.5, "jax.jit": 1.2}
"""Whose time over ours should have at least this geometric mean over all cases."""
BOUND_BY_MEMORY: Final = tuple(case.name for case in CASES if case.memory_bound)


def best_ratio(run: dict[str, Any], kind: str) -> tuple[float, str]:
    """The best competitor's time over ours, and who it is."""
    rows = rows_of(run)
    return min((row[kind] / rows[OURS][kind], label) for label, row in rows.items() if label != OURS)


def together(files: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases of several files, each as it was in the run that is the median one by the best competitor's ratio, with
    the median of the shares of the copy."""
    cases: dict[tuple[str, float, int], list[dict[str, Any]]] = {}
    for file in files:
        for run in file["runs"]:
            cases.setdefault((run["case"], run["size"], run["threads"]), []).append(run)
    found = []
    for runs in cases.values():
        middle = sorted(runs, key=lambda run: best_ratio(run, "median"))[(len(runs) - 1) // 2]
        found.append({**middle, "copy_fraction": median_low(rows_of(run)[OURS]["copy_fraction"] for run in runs)})
    return found


def verdict(what: str, value: float, bound: float, *, at_most: bool = False) -> str:
    reached = value <= bound if at_most else value >= bound
    return f"  {'reached' if reached else 'MISSED '} {what}: {value:.2f} ({'at most' if at_most else 'at least'} {bound:g})"


def targets(runs: list[dict[str, Any]], kind: str) -> list[str]:
    lines = [
        verdict(f"{peer} over ours", geometric_mean(ratios(runs, peer, kind)), bound)
        for peer, bound in PEERS.items()
        if ratios(runs, peer, kind)
    ]
    for run in sorted(runs, key=lambda run: best_ratio(run, kind)):
        ratio, label = best_ratio(run, kind)
        if ratio < 0.8:
            lines.append(verdict(f"{run['case']} {run['size']:.0e} on {run['threads']}, {label} over ours", ratio, 0.8))
    return lines


def further_targets(runs: list[dict[str, Any]]) -> list[str]:
    """What is measured one way only: the share of the copy by medians, a call and compiling by quickest turns."""
    lines = []
    for run in runs:
        share = run["copy_fraction"]
        if run["size"] >= 1e7 and run["threads"] == 2 and run["case"] in BOUND_BY_MEMORY:
            lines.append(verdict(f"{run['case']} 1e7 on 2, share of the copy", share, 0.85))
        if run.get("kernel_call_us") is not None and run["threads"] == 1:
            lines.append(verdict(f"{run['case']} 1e3, µs a kernel's call", run["kernel_call_us"], 2.0, at_most=True))
    for name in dict.fromkeys(run["case"] for run in runs):
        mine = [rows_of(run)[OURS] for run in runs if run["case"] == name]
        for words, key, bound in (("compiling", "compile", 20.0), ("from the disk cache", "warm_compile", 3.0)):
            lines.append(verdict(f"{name}, ms {words}", min(row[key] for row in mine), bound, at_most=True))
    return lines


def main() -> None:
    options = command(__doc__)
    given = options.add_mutually_exclusive_group(required=True)
    given.add_argument("--json", type=Path, help="measure, and write the figures here")
    given.add_argument("--read", type=Path, nargs="+")
    options.add_argument("--quick", action="store_true")
    chosen = options.parse_args()
    if chosen.json is not None:
        kernel_suite.main(["--json", str(chosen.json), *(["--quick"] if chosen.quick else [])])
    files = [json.loads(path.read_text()) for path in ([chosen.json] if chosen.json is not None else chosen.read)]
    for file in files:
        print(f"load {file['machine']['load'][0]:g} before, {file['load_after'][0]:g} after")
    runs = together(files)
    for kind, words in KINDS.items():
        print(f"\n{words}", *targets(runs, kind), "", sep="\n")
        summarize(runs, kind)
    print("\neither way", *further_targets(runs), sep="\n")


if __name__ == "__main__":
    main()
