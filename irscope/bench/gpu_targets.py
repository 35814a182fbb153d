"""The targets of the suite `gpu` and their verdicts: share of copy at large sizes, and time against the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from irscope.bench.cases import CASES
from irscope.bench.gpu_runs import OURS

__all__ = ["judged", "table_of"]

_LARGE: Final = 1 << 26
"""The least elements at which a memory-bound kernel should be as fast as a copy."""
_COPY: Final = 0.92

Run = Mapping[str, Any]


def judged(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Returns one record for each target: the wanted figure, the mean and the worst one reached, and the number of cases."""
    bound = {case.name for case in CASES if case.memory_bound}
    large = [run for run in runs if run["size"] >= _LARGE and run["case"] in bound]
    return [
        _verdict(
            "share of copy, every memory-bound kernel", large, lambda rows: rows[OURS]["copy_fraction"], _COPY, True
        ),
        _verdict("torch.compile's time / ours", runs, _times("torch.compile", "median"), 1.0, False),
        _verdict("cupy.fuse's time / ours", runs, _times("cupy.fuse", "median"), 1.5, False),
        _verdict("torch.compile's time / ours, in a CUDA graph", runs, _times("torch.compile", "graph"), 1.0, False),
    ]


def _times(peer: str, kind: str) -> Callable[[Mapping[str, Any]], float]:
    return lambda rows: float(rows[peer][kind] / rows[OURS][kind])


def _verdict(
    what: str, runs: Iterable[Run], of: Callable[[Mapping[str, Any]], float], wanted: float, every: bool
) -> dict[str, Any]:
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
    """Returns the verdicts as lines to print."""
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
