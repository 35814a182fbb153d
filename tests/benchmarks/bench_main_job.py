"""From a scripted YOLOv3 to its equivalence classes: load, alias, fuse, dedup, each timed; and the import.

python tests/benchmarks/bench_main_job.py [repeats]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

GOAL = 1.0
"""Seconds for the four steps together."""


def main(repeats: int = 7) -> None:
    import torch
    from yolov3 import yolov3

    import irscope as irs

    model = torch.jit.script(yolov3())
    x = torch.rand(1, 3, 160, 160)
    taken: dict[str, list[float]] = {"load": [], "alias": [], "fuse": [], "dedup": []}
    for _ in range(repeats):
        start = perf_counter()
        graph = irs.load(model, x)
        taken["load"].append(perf_counter() - start)
        start = perf_counter()
        irs.AliasDb(graph)
        taken["alias"].append(perf_counter() - start)
        start = perf_counter()
        fusion = irs.fuse(graph)
        taken["fuse"].append(perf_counter() - start)
        start = perf_counter()
        classes = irs.dedup(fusion).classes
        taken["dedup"].append(perf_counter() - start)
    nodes = sum(1 for _ in graph.nodes())
    print(f"YOLOv3: {nodes} nodes, {len(fusion.groups)} groups, {len(classes)} classes; medians of {repeats}, first run apart")
    print(f"{'step':<8}{'first ms':>10}{'median ms':>11}")
    for step, seconds in taken.items():
        print(f"{step:<8}{seconds[0] * 1e3:>10.1f}{median(seconds[1:]) * 1e3:>11.1f}")
    first, later = sum(seconds[0] for seconds in taken.values()), sum(median(seconds[1:]) for seconds in taken.values())
    print(f"{'all':<8}{first * 1e3:>10.1f}{later * 1e3:>11.1f}   goal {GOAL * 1e3:.0f} ms: {'met' if first < GOAL else 'missed'}")
    print(f"import irscope: {median(_import_seconds() for _ in range(5)) * 1e3:.0f} ms")


def _import_seconds() -> float:
    code = "import time; s = time.perf_counter(); import irscope; print(time.perf_counter() - s)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
