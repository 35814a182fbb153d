"""How fast fused kernels are, against torch op by op and a copy of as many bytes; and what compiling costs.

    python tests/benchmarks/bench_kernels.py [--sizes 1e3,1e5,1e7] [--threads 1,2] [--kernels k1,softmax] [--keep-memory]
                                             [--processor-time]

k1 sigmoid(a*b+c)*tanh(d), an LSTM's gates; k2 gelu(x+bias), a vector along 1024 columns; k3 twelve mixed ops; then
reductions and normalisations of rows of 1024, which torch has as one op each.
Competitors take turns in random order within each round, on the same arrays; shown is the best of all rounds and, in
brackets, the median. "of copy" is the time of the best copy of as many bytes divided by the kernel's time: 1.00 is
the memory's speed. torch allocates its results anew, as it does in a program; with --keep-memory the C library keeps
freed memory, which spares torch the page faults. With --processor-time what counts is the time that this process had
a processor (of all its threads): to be trusted on a busy machine, with one thread.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from irscope.codegen.lowering.lower import spec_of_group
from irscope.ir.builder import GraphBuilder
from irscope.ir.core import Node, Value
from irscope.ir.types import TENSOR, TensorType
from irscope.runtime.arrays.buffer_pool import BufferPool
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.device.kernel_cache import ObjectStore

Array = np.ndarray[Any, Any]
Body = Callable[..., Value]


def call(b: GraphBuilder, op: str, *args: Any) -> Value:
    return b.op(f"aten::{op}", *(arg if isinstance(arg, Value) else b.constant(arg) for arg in args))


def k1(b: GraphBuilder, x: Value, y: Value, z: Value, w: Value) -> Value:
    gate = call(b, "sigmoid", call(b, "add", call(b, "mul", x, y), z, 1))
    return call(b, "mul", gate, call(b, "tanh", w))


def k2(b: GraphBuilder, x: Value, bias: Value) -> Value:
    return call(b, "gelu", call(b, "add", x, bias, 1), "none")


def k3(b: GraphBuilder, x: Value, y: Value) -> Value:
    t = call(b, "exp", call(b, "mul", x, -0.5))
    t = call(b, "relu", call(b, "add", call(b, "mul", t, y), 1.5, 1))
    t = call(b, "where", call(b, "gt", t, x), t, y)
    t = call(b, "clamp", t, -2.0, 2.0)
    t = call(b, "sqrt", call(b, "add", call(b, "mul", t, t), 1.0, 1))
    return call(b, "sub", t, x, 1)


def eager(name: str) -> Callable[..., Any]:
    import torch

    norms = torch.nn.functional

    def fused_by_hand(x: Any, y: Any) -> Any:
        t = torch.relu(torch.exp(x * -0.5) * y + 1.5)
        t = torch.where(t > x, t, y).clamp(-2.0, 2.0)
        return torch.sqrt(t * t + 1.0) - x

    return {
        "k1": lambda a, b, c, d: torch.sigmoid(a * b + c) * torch.tanh(d),
        "k2": lambda x, bias: torch.nn.functional.gelu(x + bias),
        "k3": fused_by_hand,
        "softmax": lambda x: torch.softmax(x, -1),
        "layernorm": lambda x, w, b: norms.layer_norm(x, (COLUMNS,), w, b),
        "rmsnorm": lambda x, w: norms.rms_norm(x, (COLUMNS,), w, 1e-5),
        "sumlast": lambda x: x.sum(1),
        "sumfirst": lambda x: x.sum(0),
        "sumall": torch.sum,
    }[name]


def softmax(b: GraphBuilder, x: Value) -> Value:
    return call(b, "softmax", x, -1, None)


def layernorm(b: GraphBuilder, x: Value, weight: Value, bias: Value) -> Value:
    return call(b, "layer_norm", x, [COLUMNS], weight, bias, 1e-5, False)


def rmsnorm(b: GraphBuilder, x: Value, weight: Value) -> Value:
    return call(b, "rms_norm", x, [COLUMNS], weight, 1e-5)


def total(dims: list[int] | None) -> Body:
    return lambda b, x: call(b, "sum", x, dims, False, None) if dims else call(b, "sum", x, None)


COLUMNS = 1024
KERNELS: dict[str, tuple[Body, int]] = {
    "k1": (k1, 4), "k2": (k2, 2), "k3": (k3, 2), "softmax": (softmax, 1), "layernorm": (layernorm, 3),
    "rmsnorm": (rmsnorm, 2), "sumlast": (total([1]), 1), "sumfirst": (total([0]), 1), "sumall": (total(None), 1),
}  # fmt: skip
FLAT = ("k1", "k3")


def group(body: Body, count: int) -> Node:
    b = GraphBuilder()
    outer = [b.input(f"x{i}") for i in range(count)]
    with b.block([(f"p{i}", TENSOR) for i in range(count)]) as block:
        block.returns([body(b, *block.params)])
    outputs = b.structured("prim::FusionGroup", outer, [TENSOR], [block])
    return next(node for node in b.finish(outputs).nodes() if node.blocks)


def arrays(name: str, size: int, pool: BufferPool) -> list[Array]:
    shape = (size,) if name in FLAT else (max(1, size // COLUMNS), COLUMNS)
    made = []
    for index in range(KERNELS[name][1]):
        array = pool.empty(shape[1:] if name not in FLAT and index else shape, "float32")
        array[...] = np.random.default_rng(index).standard_normal(array.shape, dtype=np.float32) * 2
        made.append(array)
    return made


def measure(
    competitors: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, tuple[float, float]]:
    """Best and median seconds of each."""
    counts = {}
    for name, run in competitors.items():
        run()
        start = time.perf_counter()
        run()
        counts[name] = max(1, min(2000, int(2e-3 / max(time.perf_counter() - start, 1e-7))))
    times: dict[str, list[float]] = {name: [] for name in competitors}
    order = list(competitors)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            run, count = competitors[name], counts[name]
            run()
            start = clock()
            for _ in range(count):
                run()
            times[name].append((clock() - start) / count)
    return {name: (min(found), statistics.median(found)) for name, found in times.items()}


def speed(name: str, size: int, threads: int, rounds: int, store: ObjectStore, clock: Callable[[], float]) -> None:
    import torch

    torch.set_num_threads(threads)
    pool, device = BufferPool(), CpuDevice(threads=threads, store=store)
    inputs = arrays(name, size, pool)
    types = [TensorType("float32", x.shape, tuple(step // 4 for step in x.strides)) for x in inputs]
    plan = spec_of_group(group(*KERNELS[name]), types)
    prepared = device.prepare(plan)
    out = pool.empty([int(size) for size in plan.outputs[0].shape or () if isinstance(size, int)], "float32")
    pointers, result = [x.ctypes.data for x in inputs], [out.ctypes.data]
    tensors = [torch.from_numpy(x) for x in inputs]
    function = eager(name)
    moved = plan.launches[0].bytes_moved
    source, target = pool.empty((moved // 8,), "float32"), pool.empty((moved // 8,), "float32")
    source[:] = 1
    t_source, t_target = torch.from_numpy(source), torch.from_numpy(target)
    competitors: dict[str, Callable[[], object]] = {
        "irscope": lambda: prepared(result, pointers),
        "torch": lambda: function(*tensors),
        "copy (memcpy)": lambda: ctypes.memmove(target.ctypes.data, source.ctypes.data, source.nbytes),
        "copy (torch)": lambda: t_target.copy_(t_source),
    }
    with torch.no_grad():
        found = measure(competitors, rounds, clock)
        wanted = function(*(tensor.double() for tensor in tensors))
    error = float((torch.from_numpy(out).double() - wanted).abs().max() / wanted.abs().max())
    copy = min(found["copy (memcpy)"][0], found["copy (torch)"][0])
    ours, theirs = found["irscope"], found["torch"]
    print(
        f"{name:9} {inputs[0].size:>10,} {threads}T  irscope {ours[0] * 1e6:9.2f} ({ours[1] * 1e6:9.2f}) us"
        f"  torch {theirs[0] * 1e6:9.2f} ({theirs[1] * 1e6:9.2f}) us  x{theirs[0] / ours[0]:5.2f}"
        f"  of copy {copy / ours[0]:.2f}  error {error:.1e}",
        flush=True,
    )


def latency() -> None:
    """Cold, from disk and from memory, in milliseconds; the first kernel of the process apart."""
    with tempfile.TemporaryDirectory() as folder:
        store = ObjectStore(Path(folder) / "cpu")
        for title in ("cold", "from disk"):
            device = CpuDevice(store=store)
            device.availability()
            line = []
            for name, (body, count) in KERNELS.items():
                whole = name in FLAT
                types = [TensorType("float32", (64, COLUMNS) if i == 0 or whole else (COLUMNS,)) for i in range(count)]
                start = time.perf_counter()
                plan = spec_of_group(group(body, count), types)
                planned = time.perf_counter()
                device.prepare(plan)
                done = time.perf_counter()
                line.append(f"{name} plan {(planned - start) * 1e3:5.2f} kernel {(done - planned) * 1e3:6.2f} ms")
            print(f"compile, {title}:", *line, sep="\n  ")


def keep_memory() -> None:
    """Tell the C library to keep freed memory (Linux with glibc)."""
    libc = ctypes.CDLL(None)
    libc.mallopt(-4, 0)
    libc.mallopt(-1, 2**31 - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1e3,1e5,1e7")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--keep-memory", action="store_true")
    parser.add_argument("--processor-time", action="store_true")
    options = parser.parse_args()
    if options.keep_memory:
        keep_memory()
    clock = time.process_time if options.processor_time else time.perf_counter
    print(CpuDevice().availability())
    latency()
    with tempfile.TemporaryDirectory() as folder:
        store = ObjectStore(Path(folder) / "cpu")
        for name in options.kernels.split(","):
            for size in options.sizes.split(","):
                for threads in options.threads.split(","):
                    speed(name, int(float(size)), int(threads), options.rounds, store, clock)


if __name__ == "__main__":
    main()
