"""Slicing large graphs into differentiable subgraphs, against torch's C++ `_jit_pass_create_autodiff_subgraphs`, in one process.

    python tests/benchmarks/bench_autodiff.py                             # every family, 1600, 6400 and 25600 nodes
    python tests/benchmarks/bench_autodiff.py --ours-only --no-collector  # without the garbage collector's share

Ours is all that `irs.autodiff_subgraphs` does: the alias db, gradients, dependences, the plan, the graph and the remarks.
Times are processor time in milliseconds over fresh parses, medians for ours; torch runs once where it takes seconds, and not at
all beyond `--limit` nodes of the families in which it is cubic or quadratic. `exponent` is the slope of our time from the
first to the last size.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs
from tests.benchmarks.families import chain, cut, independent, live, twice
from tests.benchmarks.harness import Growth, median_ms

FAMILIES: dict[str, Callable[[int], Iterator[str]]] = {
    "chain": chain,
    "twice": twice,
    "cut": lambda count: cut(count, "Tensor", "atan2"),  # which has no gradient formula
    "independent": independent,
    "live": live,
}


def ours(graph: irs.Graph, collect: bool) -> None:
    if not collect:
        gc.disable()
    irs.autodiff_subgraphs(graph)
    gc.enable()


def torchs(text: str, repeats: int) -> float:
    import torch

    create = torch._C._jit_pass_create_autodiff_subgraphs
    return median_ms(lambda graph: create(graph, 2), lambda: torch._C.parse_ir(text), repeats, at_most=2000)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", type=int, nargs="+", default=[1600, 6400, 25600])
    options.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--limit", type=int, default=6400, help="torch's largest size of live and independent values")
    options.add_argument("--ours-only", action="store_true")
    options.add_argument("--no-collector", action="store_true", help="run ours with Python's garbage collector off")
    chosen = options.parse_args()
    print(f"{'family':12} {'nodes':>8} {'ours ms':>9} {'torch ms':>10} {'torch/ours':>10} {'groups':>7} {'exponent':>8}")
    for family in chosen.families:
        growth = Growth()
        for size in chosen.sizes:
            text = "\n".join(FAMILIES[family](size))
            mine = median_ms(lambda graph: ours(graph, not chosen.no_collector), lambda text=text: irs.parse(text), chosen.repeats)
            groups = len(irs.autodiff_subgraphs(irs.parse(text)).groups)
            too_long = family in ("live", "independent") and size > chosen.limit
            theirs = math.nan if too_long or chosen.ours_only else torchs(text, chosen.repeats)
            told = f"{mine:9.1f} {theirs:10.1f} {theirs / mine:10.2f} {groups:7} {growth.at(size, mine):8.2f}"
            print(f"{family:12} {size:8} {told}", flush=True)


if __name__ == "__main__":
    main()
