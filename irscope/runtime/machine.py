"""The machine that measurements were taken on, and its limits: copy bandwidth and multiply-add rate.

Both limits are measured, not looked up: with the competitors' number of threads, at the size in question, once per
process. The copy is the fastest of a kernel of ours, the C library's `memmove` and torch's `copy_` if torch is imported;
it moves the given number of bytes, half of them read and half written. The arithmetic rate is that of
`irscope.runtime.machine`, times the threads.
"""

from __future__ import annotations

import ctypes
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import numpy as np

from irscope.codegen.lowering import spec_of_group
from irscope.ir import TensorType
from irscope.ir.text import parse
from irscope.runtime.arrays import BufferPool
from irscope.runtime.cpu import CpuDevice, Host, loaded, object_file, with_llvm
from irscope.runtime.device import Device
from irscope.runtime.device import device as device_named
from irscope.runtime.timer import spent, undisturbed

_PACKAGES: Final = ("irscope", "numpy", "torch", "jax", "numexpr", "llvmlite", "cupy")
_FEATURES: Final = ("sse2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512bf16", "avx512fp16", "neon", "sve")
"""The processor features that kernels and libraries use."""
_LARGEST_COPY: Final = 512 << 20
_CACHES: Final = 4
"""A copy that moves this many times the last-level cache is as fast as a larger one, which only takes more memory."""
_SECONDS: Final = 0.03
"""The least time for which each candidate of a limit is measured."""


def describe() -> dict[str, Any]:
    """Returns the processor, its features, its load, and the versions of the measured packages, as plain JSON."""
    from irscope.runtime.device import devices

    load = list(os.getloadavg()) if hasattr(os, "getloadavg") else []
    features: list[str] = []
    with suppress(ImportError):
        from llvmlite.binding import get_host_cpu_features

        here = get_host_cpu_features()
        features = [name for name in _FEATURES if here.get(name)]
    lines: list[str] = []
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model")))
    versions = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "cpu": next(names, platform.processor() or platform.machine()),
        "cores": os.cpu_count() or 1, "features": features, "load": [round(x, 2) for x in load],
        "system": f"{platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}".strip(", "),
        "python": platform.python_version(), "versions": versions, "time": time.strftime("%Y-%m-%d %H:%M:%S"),
        "devices": {each.name: str(each.availability()) for each in devices()},
    }  # fmt: skip


def cache_bytes() -> int:
    """Returns the bytes of the last-level cache, or 32 MiB where the system does not report it."""
    found = [32 << 20]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
        if text[:-1].isdigit() and text[-1] in units:
            found.append(int(text[:-1]) * units[text[-1]])
    return max(found)


@cache
def limits(threads: int) -> Limits:
    """Returns the limits for competitors with this many threads, the same object for every caller."""
    return Limits(threads)


class Limits:
    """The limits of the processor with a number of threads, measured on first use and then kept."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._copies: dict[int, float] = {}
        self._device: Device = CpuDevice(threads=threads)
        if not self._device.availability():
            self._device = device_named("numpy")

    def copy_seconds(self, moved: int) -> float:
        """Returns the seconds of a copy that moves this many bytes, reads and writes together."""
        size = _half(moved)
        if size not in self._copies:
            self._copies[size] = min(_median_seconds(candidate, self.threads) for candidate in self._copy_candidates(size))
        return self._copies[size] * max(moved, 128) / (2 * size)

    def fastest_copy(self, moved: int) -> tuple[Callable[[], object], float]:
        """Returns a copy to run in turn with competitors, and the factor to multiply its time by: see `copy_seconds`."""
        size = _half(moved)
        return min(self._copy_candidates(size), key=partial(_median_seconds, threads=self.threads)), max(moved, 128) / (2 * size)

    @cached_property
    def flops(self) -> float:
        """The additions and multiplications of float32 per second."""
        if isinstance(self._device, CpuDevice):
            return self.threads * arithmetic_peak(self._device.host)
        a, b = np.zeros((2, 4096), np.float32)  # NumPy performs one operation at a time
        return float(a.size / _median_seconds(lambda: np.add(a, b, out=a)))

    def _copy_candidates(self, size: int) -> list[Callable[[], object]]:
        """Returns functions that copy this many bytes."""
        pool = BufferPool(limit_bytes=0)
        source, target = (pool.empty((size // 4,), "float32") for _ in range(2))
        source[:] = 1
        target[:] = 0
        begin, end = source.ctypes.data, target.ctypes.data
        plan = self._device.prepare(_copy_plan(size // 4))
        candidates: list[Callable[[], object]] = [
            lambda: ctypes.memmove(target.ctypes.data, source.ctypes.data, source.nbytes),
            partial(lambda memory: plan((end,), (begin,)), (source, target)),  # so that the arrays live as long
        ]
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "from_numpy") and torch.get_num_threads() == self.threads:
            given, taken = torch.from_numpy(source), torch.from_numpy(target)
            candidates.append(lambda: taken.copy_(given))
        return candidates


def _half(moved: int) -> int:
    """Returns the bytes that a copy moving this many reads: whole cache lines, and at most the affordable size."""
    return max(min(moved, _LARGEST_COPY, _CACHES * cache_bytes()) // 2 // 64 * 64, 64)


def _copy_plan(size: int) -> Any:
    """Returns the launch plan of a group that reads and writes one vector."""
    group = parse("""graph(%x : Tensor):
  %y : Tensor = prim::FusionGroup[kind="pointwise"](%x)
    block0(%p : Tensor):
      %r : Tensor = aten::relu(%p)
      -> (%r)
  return (%y)
""").node("y")
    return spec_of_group(group, [TensorType("float32", (size,), (1,))])


def _median_seconds(run: Callable[[], object], threads: int = 1) -> float:
    """Returns the median of at least five turns, which take a thirtieth of a second together. What other programs take of one
    thread does not count."""
    timed = undisturbed if threads == 1 else spent
    run()
    once = max(timed(run), 1e-7)
    calls = max(1, min(10_000, int(_SECONDS / 7 / once)))
    return statistics.median([timed(run, calls) / calls for _ in range(7 if once < 0.05 else 5)])


# The peak float32 arithmetic of one thread of this processor: multiply-adds that wait for nothing.
#
# It runs a loop over a dozen independent vectors in registers, each multiplied and added to in every iteration: enough of
# them that the arithmetic units never idle. No memory is read. A processor without fused multiply-add does both separately.

_VECTORS: Final = 12
_TURNS: Final = 20_000
_ROUNDS: Final = 9


def arithmetic_peak(host: Host) -> float:
    """Returns float32 additions and multiplications per second in the fastest round: other programs only slow rounds down."""
    lanes = host.target.vector_bytes // 4
    fused = "+fma" in host.features.split(",") or platform.machine() in ("aarch64", "arm64")
    code = with_llvm(lambda: loaded(object_file(_text(lanes, fused=fused), host), "irscope_peak", host))
    assert code is not None, "an object file that LLVM has just made must load"
    address, _owner = code
    call = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(address)
    call(_TURNS)
    best = min(spent(partial(call, _TURNS)) for _ in range(_ROUNDS))
    return 2.0 * _VECTORS * lanes * _TURNS / max(best, 1e-9)


def _text(lanes: int, *, fused: bool) -> str:
    """Returns the loop's LLVM text. Its vectors end in the returned value, so that LLVM removes none of them."""
    kind, splat = f"<{lanes} x float>", f"<{', '.join(['float 0.5'] * lanes)}>"
    phis, steps, ends = [], [], []
    for place in range(_VECTORS):
        start = f"<{', '.join([f'float {place + 1}.0'] * lanes)}>"
        phis.append(f"  %v{place} = phi {kind} [ {start}, %entry ], [ %n{place}, %turn ]")
        if fused:
            steps.append(f"  %n{place} = call {kind} @llvm.fma.v{lanes}f32({kind} %v{place}, {kind} {splat}, {kind} {splat})")
        else:
            steps += [f"  %m{place} = fmul {kind} %v{place}, {splat}", f"  %n{place} = fadd {kind} %m{place}, {splat}"]
        before = f"%s{place - 1}" if place else "zeroinitializer"
        ends.append(f"  %s{place} = fadd {kind} {before}, %n{place}")
    return "\n".join([
        f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})",
        "define float @irscope_peak(i64 %turns) {", "entry:", "  br label %turn", "turn:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %turn ]", *phis, *steps,
        "  %next = add i64 %i, 1", "  %on = icmp slt i64 %next, %turns", "  br i1 %on, label %turn, label %end", "end:",
        *ends, f"  %found = extractelement {kind} %s{_VECTORS - 1}, i32 0", "  ret float %found", "}",
    ])  # fmt: skip
