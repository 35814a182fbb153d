"""What a count says of a kernel's pace, beside what was measured: the nine kernels of the suite on one thread.

    python tests/benchmarks/bench_pace.py [elements]

Kernel and copy take turns; the best of each counts. The count knows the copy's speed and nothing else of the machine.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from irscope.codegen.lowering.lower import spec_of_group
from irscope.codegen.profile.kernel_facts import KernelFacts
from irscope.ir.text.parser import parse
from irscope.ir.types import TensorType
from irscope.ops.typing.strides import contiguous_strides
from irscope.runtime.arrays.buffer_pool import BufferPool
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.machine import describe, limits
from tests.benchmarks.kernel_cases import CASES, Case

TURNS = 25


def best_of_turns(runs: list[Callable[[], object]]) -> list[float]:
    """The least seconds of each, in turn."""
    best = [float("inf")] * len(runs)
    for _ in range(TURNS):
        for number, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[number] = min(best[number], time.perf_counter() - start)
    return best


def measured(case: Case, size: int, device: CpuDevice) -> tuple[float, float, KernelFacts]:
    """Bytes a second of the copy, the kernel's share of that, and what the count expects at that speed."""
    pool = BufferPool(limit_bytes=0)
    shapes = case.shapes(size)
    group = next(node for node in parse(case.group_text).nodes() if node.blocks)
    plan = spec_of_group(group, [TensorType("float32", shape, contiguous_strides(shape)) for shape in shapes])
    prepared = device.prepare(plan)
    inputs = [pool.empty(shape, "float32") for shape in shapes]
    outputs = [pool.empty(type.shape or (), "float32") for type in plan.outputs]
    for number, array in enumerate(inputs):
        array[...] = np.random.default_rng(number).standard_normal(array.shape, np.float32)
    for array in outputs:
        array[...] = 0
    ends = [array.ctypes.data for array in outputs], [array.ctypes.data for array in inputs]
    moved = sum(launch.bytes_moved for launch in plan.launches)
    copy, scale = limits(1).fastest_copy(moved)
    copied, taken = best_of_turns([copy, lambda: prepared(*ends)])
    rate = moved / (copied * scale)
    return rate, copied * scale / taken, device.facts(prepared.kernels[0].spec, copy=rate)


def main() -> None:
    """Print a table."""
    size = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    device = CpuDevice(threads=1)
    machine = describe()
    print(f"{machine['cpu']}, load {machine['load'][:1]}, {size:.0e} elements, 1 thread")
    print(f"{'':12} {'copy':>10} {'measured':>9} {'counted':>8}  bound by (busiest)")
    for case in CASES:
        rate, share, facts = measured(case, size, device)
        told = f"{facts.bound} ({facts.busiest})"
        print(f"{case.name:12} {rate / 1e9:5.1f} GB/s {share:9.2f} {facts.copy_share:8.2f}  {told}", flush=True)


if __name__ == "__main__":
    main()
