"""From a scripted YOLOv3 to its equivalence classes: load, alias, fuse, dedup, each timed; and the import.

python tests/benchmarks/bench_main_job.py [repeats]
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.harness import head, row

GOAL = 1000.0
"""Milliseconds for the four steps together."""


def main(repeats: int = 7) -> None:
    import irscope as irs
    from tests.benchmarks.models import scripted_yolov3

    model, images = scripted_yolov3()
    taken: dict[str, list[float]] = {"load": [], "alias": [], "fuse": [], "dedup": []}

    def timed(step: str, work: Callable[..., Any], *subjects: Any) -> Any:
        start = perf_counter()
        made = work(*subjects)
        taken[step].append(1e3 * (perf_counter() - start))
        return made

    for _ in range(repeats):
        graph = timed("load", irs.load, model, *images)
        timed("alias", irs.AliasDb, graph)
        fusion = timed("fuse", irs.fuse, graph)
        classes = timed("dedup", lambda fusion: irs.dedup(fusion).classes, fusion)
    nodes = sum(1 for _ in graph.nodes())
    print(f"YOLOv3: {nodes} nodes, {len(fusion.groups)} groups, {len(classes)} classes; medians of {repeats}, first run apart")
    head("step", "first ms", "median ms")
    for step, times in taken.items():
        row(step, times[0], median(times[1:]))
    first = sum(times[0] for times in taken.values())
    row("all", first, sum(median(times[1:]) for times in taken.values()))
    print(f"goal {GOAL:.0f} ms: {'met' if first < GOAL else 'missed'}")
    print(f"import irscope: {median(_import_seconds() for _ in range(5)) * 1e3:.0f} ms")


def _import_seconds() -> float:
    code = "import time; s = time.perf_counter(); import irscope; print(time.perf_counter() - s)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
