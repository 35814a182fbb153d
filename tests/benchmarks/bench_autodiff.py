"""Slicing large graphs into differentiable subgraphs, against torch's C++ `_jit_pass_create_autodiff_subgraphs`, in one process.

    python tests/benchmarks/bench_autodiff.py                             # every family, 1600, 6400 and 25600 nodes
    python tests/benchmarks/bench_autodiff.py --ours-only --no-collector  # without the garbage collector's share

Ours is all that `irs.autodiff_subgraphs` does: the alias db, gradients, dependences, the plan, the graph and the remarks.
Times are processor time in milliseconds over fresh parses, medians for ours; torch runs once where it takes seconds, and not at
all beyond `--limit` nodes of the families in which it is cubic or quadratic. `exponent` is the slope of our time from the
first to the last size.
"""

import gc
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs
from tests.benchmarks.families import Families, add_options, beside_torch, chain, cut, independent, live, twice
from tests.benchmarks.harness import command

FAMILIES: Families = {
    "chain": chain,
    "twice": twice,
    "cut": lambda count: cut(count, "Tensor", "atan2"),  # which has no gradient formula
    "independent": independent,
    "live": live,
}


def main() -> None:
    options = command(__doc__)
    add_options(options, FAMILIES, sizes=[1600, 6400, 25600], repeats=5)
    options.add_argument("--limit", type=int, default=6400, help="torch's largest size of live and independent values")
    options.add_argument("--no-collector", action="store_true", help="run ours with Python's garbage collector off")
    chosen = options.parse_args()

    def ours(graph: irs.Graph) -> irs.AutodiffSubgraphs:
        if chosen.no_collector:
            gc.disable()
        found = irs.autodiff_subgraphs(graph)
        gc.enable()
        return found

    def theirs(graph: Any) -> None:
        import torch

        torch._C._jit_pass_create_autodiff_subgraphs(graph, 2)

    beside_torch(FAMILIES, chosen, ours, theirs, dict.fromkeys(("independent", "live"), chosen.limit))


if __name__ == "__main__":
    main()
