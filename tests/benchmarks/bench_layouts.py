"""How fast kernels are whose memory is not one long row: tall and wide reductions, short rows, transposed operands.

    python tests/benchmarks/bench_layouts.py [--cases "sum columns,add turned"] [--rounds 9]

Time on one thread without what other programs took, best of interleaved rounds on the same arrays, with freed memory kept.
Beside torch's op, and beside a copy of as many bytes as the kernel moves.
"""

import ctypes
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from irscope.runtime.arrays.pool import BufferPool
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.device.kernel_cache import ObjectStore
from irscope.runtime.measure.conditions import with_kept_memory
from irscope.runtime.timer import measure
from tests.benchmarks.harness import command, head, row
from tests.codegen.kernels import call, planned

Shape = tuple[int, int]
Body = Callable[..., Any]

REDUCED: dict[str, tuple[Body, Callable[[Any], Any], list[Shape]]] = {
    "sum rows": (lambda b, x: call(b, "sum", x, [1], False, None), lambda x: x.sum(1), [(9765, 1024), (100, 100_000), (312_500, 32)]),
    "amax rows": (lambda b, x: call(b, "amax", x, [1], False), lambda x: x.amax(1), [(9765, 1024)]),
    "sum columns": (
        lambda b, x: call(b, "sum", x, [0], False, None), lambda x: x.sum(0),
        [(9765, 1024), (3000, 3333), (100, 100_000), (100_000, 100), (312_500, 32), (1_000_000, 10)],
    ),
    "amin columns": (lambda b, x: call(b, "amin", x, [0], False), lambda x: x.amin(0), [(9765, 1024)]),
    "var columns": (lambda b, x: call(b, "var", x, [0], 1, False), lambda x: x.var(0), [(9765, 1024)]),
    "softmax columns": (lambda b, x: call(b, "softmax", x, 0, None), lambda x: x.softmax(0), [(9765, 1024), (100, 100_000)]),
    "softmax rows": (lambda b, x: call(b, "softmax", x, 1, None), lambda x: x.softmax(1), [(312_500, 32)]),
}  # fmt: skip
ADDED: tuple[Body, Callable[..., Any]] = (lambda b, x, y: call(b, "add", x, y, 1), lambda x, y: x + y)
SQUARES = [(1000, 1000), (4000, 4000), (4096, 4096)]
NARROW = [(1_000_000, 10), (312_500, 32), (100_000, 100)]


def arrays(name: str, shape: Shape, pool: BufferPool) -> list[Any]:
    """The operands; of "add turned" the second one is the transpose of an array, of "add bias" a row."""
    made = []
    for number in range(2 if name.startswith("add") else 1):
        turned = name == "add turned" and number == 1
        own = shape[1:] if name == "add bias" and number == 1 else shape
        array = pool.empty(own[::-1] if turned else own, "float32")
        array[...] = np.random.default_rng(number).standard_normal(array.shape, dtype=np.float32) * 2
        made.append(array.T if turned else array)
    return made


def speed(name: str, body: Body, eager: Callable[..., Any], shape: Shape, rounds: int, store: ObjectStore) -> None:
    import torch

    pool, device = BufferPool(), CpuDevice(threads=1, store=store)
    inputs = arrays(name, shape, pool)
    plan = planned(body, *inputs)
    prepared = device.prepare(plan)
    out = pool.empty([size for size in plan.outputs[0].shape or () if isinstance(size, int)], "float32")
    pointers, result = [x.ctypes.data for x in inputs], [out.ctypes.data]
    tensors = [torch.from_numpy(x) for x in inputs]
    moved = plan.launches[0].bytes_moved
    source, target = pool.empty((moved // 8,), "float32"), pool.empty((moved // 8,), "float32")
    source[:] = 1
    found = measure(
        {
            "irscope": lambda: prepared(result, pointers), "torch": lambda: eager(*tensors),
            "copy": lambda: ctypes.memmove(target.ctypes.data, source.ctypes.data, source.nbytes),
        },
        turns=rounds, alone=True,
    )  # fmt: skip
    wanted = eager(*(tensor.double() for tensor in tensors))
    error = float((torch.from_numpy(out).double() - wanted).abs().max() / wanted.abs().max())
    ours, theirs, copy = (min(found[who].seconds) for who in ("irscope", "torch", "copy"))
    row(name, f"{shape[0]:,} × {shape[1]:,}", ours * 1e6, theirs * 1e6, theirs / ours, copy / ours, f"{error:.1e}")


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--cases", default=",".join([*REDUCED, "add", "add turned", "add bias"]))
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    known = {**REDUCED, "add": (*ADDED, SQUARES), "add turned": (*ADDED, SQUARES), "add bias": (*ADDED, NARROW)}

    head("kernel", "shape", "irscope µs", "torch µs", "torch / irscope", "of copy", "error")

    def run(kept: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name in options.cases.split(","):
                body, eager, shapes = known[name]
                for shape in shapes:
                    speed(name, body, eager, shape, options.rounds, ObjectStore(Path(folder) / "cpu"))

    with_kept_memory(run)


if __name__ == "__main__":
    main()
