"""The suite of kernels: every case at every size on a number of threads, ours beside the installed competitors.

Each thread count runs in a separate process restricted to as many processors: some libraries decide at import time. Within
a process one comparison follows another (see `irscope.runtime.measure.benchmark` for what makes it fair). Ours is the
compiled program, called with tensors like the others; for the smallest size the time of its kernel alone is added.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from irscope._base.words import plural
from irscope.bench.cases import CASES, Case
from irscope.bench.peers import PEERS, peers_of
from irscope.runtime.measure import Comparison, compare
from irscope.runtime.program import compile_graph
from irscope.session import load

__all__ = ["SIZES", "KernelRun", "kernel_runs"]

SIZES: Final = (1_000, 100_000, 10_000_000)


@dataclass(frozen=True)
class KernelRun:
    """One case at one size."""

    case: str
    size: int
    threads: int
    comparison: Comparison
    kernel_call_us: float | None = None
    """Microseconds of one call of the kernel with memory for its result allocated, where the program is one kernel."""


def kernel_runs(
    threads: int, sizes: Sequence[int] = SIZES, *, names: Sequence[str] = (), peers: Sequence[str] = PEERS,
    rounds: int = 9, rotate: bool = False, step: Callable[[str], object] = str,
) -> Iterator[KernelRun]:  # fmt: skip
    """Measures in this process. `step` is called with the name of the next case; `names` chooses cases."""
    _use(threads)
    for case in CASES:
        if names and case.name not in names:
            continue
        for size in sizes:
            step(f"{case.name} {size:.0e} on {plural(threads, 'thread')}")
            operands = _operands(case, size)
            graph = load(case.group_text, *operands, name=case.name)
            functions, missing = peers_of(case, operands, peers, threads)
            found = compare(
                graph, *operands, peers=functions, repeats=rounds, ways=("fused",), rotate=rotate
            )  # fmt: skip
            found = _with_missing(found, missing)
            yield KernelRun(case.name, size, threads, found, _kernel_call(graph, operands) if size <= 10_000 else None)


def _use(threads: int) -> None:
    """Restricts this process to this many processors, and torch to as many threads."""
    if hasattr(os, "sched_setaffinity"):
        mine = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, mine[:threads])
    if find_spec("torch") is not None:
        import torch

        torch.set_num_threads(threads)


def _operands(case: Case, size: int) -> list[Any]:
    numbers = np.random.default_rng(0)
    arrays = [numbers.standard_normal(shape, np.float32) * np.float32(2) for shape in case.shapes(size)]
    if find_spec("torch") is None:
        return arrays
    import torch

    return [torch.from_numpy(array) for array in arrays]


def _with_missing(found: Comparison, missing: Sequence[tuple[str, str]]) -> Comparison:
    from dataclasses import replace

    return replace(found, missing=(*missing, *found.missing))


def _kernel_call(program: Any, operands: Sequence[Any]) -> float | None:
    """Returns the microseconds of one call of a program's only kernel: the best of several turns."""
    made = compile_graph(program)
    output = made(*operands)
    groups = [node for node in made.graph.nodes() if node.op == "prim::FusionGroup"]
    plan = made.plan_of(groups[0]) if len(groups) == 1 else None
    if plan is None or len(plan.plan.outputs) != 1 or len(groups[0].inputs) != len(operands):
        return None
    pointers = [_address(operand) for operand in operands]
    result = (_address(output),)
    best = float("inf")
    for _ in range(15):
        start = time.perf_counter()
        for _ in range(1000):
            plan(result, pointers)
        best = min(best, (time.perf_counter() - start) / 1000)
    return best * 1e6


def _address(tensor: Any) -> int:
    return int(tensor.data_ptr() if hasattr(tensor, "data_ptr") else tensor.ctypes.data)
