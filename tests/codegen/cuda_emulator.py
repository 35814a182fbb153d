"""CUDA text run on the processor: g++ compiles it as plain C++, and a loop plays the threads one after another.

It checks addresses, arithmetic and bounds of kernels whose threads do not talk to each other; not timing, and not the
memory model.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from irscope.codegen.cuda import BLOCK, emit_cuda, stride_arguments, vector_lanes
from irscope.codegen.kernel_spec import KernelSpec, Launch, LaunchPlan, is_float

AVAILABLE: Final = shutil.which("g++") is not None

_HEAD: Final = r"""
#include <math.h>
#include <stdint.h>
#include <string.h>
struct Index { unsigned x, y, z; };
static thread_local Index threadIdx, blockIdx;
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __align__(n) alignas(n)
#define __restrict__ __restrict
static inline float __uint_as_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline uint32_t __float_as_uint(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline double __longlong_as_double(uint64_t u) { double f; memcpy(&f, &u, 8); return f; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
"""


class Emulated:
    """One kernel's text, compiled for the processor."""

    def __init__(self, spec: KernelSpec, folder: Path) -> None:
        self.spec = spec
        text = emit_cuda(spec).text
        entries = [spec.name, *([f"{spec.name}_vector"] if vector_lanes(spec) else [])]
        source = _HEAD + text + "".join(_launcher(spec, entry) for entry in entries)
        stem = folder / hashlib.sha256(source.encode()).hexdigest()[:16]
        path = stem.with_suffix(".cpp")
        path.write_text(source)
        flags = ["-O1", "-std=c++17", "-shared", "-fPIC", "-Wno-unknown-pragmas", "-fno-strict-aliasing"]
        done = subprocess.run(
            ["g++", *flags, "-o", str(stem.with_suffix(".so")), str(path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[:3000]
        self.library = ctypes.CDLL(str(stem.with_suffix(".so")))

    def run(self, launch: Launch, outputs: Sequence[int], inputs: Sequence[Any], *, vector: bool) -> None:
        """Launch one of the entries on addresses and numbers."""
        spec = self.spec
        width = vector_lanes(spec) if vector else 1
        points = launch.elements // launch.sizes[-1] * (launch.sizes[-1] // width)
        blocks = max(1, -(-points // BLOCK))
        args: list[Any] = [ctypes.c_void_p(outputs[i]) for i in launch.writes]
        for operand, position in zip(spec.inputs, launch.reads, strict=True):
            kind: Any = (
                ctypes.c_void_p
                if operand.kind == "tensor"
                else ctypes.c_double
                if is_float(operand.dtype)
                else ctypes.c_longlong
            )
            args.append(kind(inputs[position]))
        args += [ctypes.c_longlong(size) for size in launch.sizes]
        args += [ctypes.c_longlong(launch.strides[slot][loop]) for slot, loop in stride_arguments(spec)]
        entry = f"run_{spec.name}{'_vector' if vector else ''}"
        self.library[entry](ctypes.c_uint(blocks), *args)


class EmulatedPlan:
    """A launch plan run by the emulator, with the vector entry wherever a launcher may use it."""

    def __init__(self, plan: LaunchPlan, folder: Path, *, vector: bool) -> None:
        self.plan = plan
        self.kernels = [Emulated(launch.spec, folder) for launch in plan.launches]
        self.vector = vector
        self.used_vectors = 0

    def __call__(self, outputs: Sequence[int], inputs: Sequence[Any]) -> None:
        from irscope.runtime.cuda import takes_vectors

        for kernel, launch in zip(self.kernels, self.plan.launches, strict=True):
            if launch.elements:
                vector = self.vector and takes_vectors(launch, outputs, inputs)
                self.used_vectors += vector
                kernel.run(launch, outputs, inputs, vector=vector)


def _launcher(spec: KernelSpec, entry: str) -> str:
    kinds = ["void*"] * len(spec.outputs)
    kinds += [
        "void*" if operand.kind == "tensor" else "double" if is_float(operand.dtype) else "i64"
        for operand in spec.inputs
    ]
    kinds += ["i64"] * (spec.rank + len(list(stride_arguments(spec))))
    params = ", ".join(f"{kind} p{i}" for i, kind in enumerate(kinds))
    tensors = [*spec.outputs, *spec.inputs]
    passed = ", ".join(
        _argument(i, tensors[i] if i < len(tensors) else None) for i in range(len(kinds))
    )
    return (
        f'\nextern "C" void run_{entry}(unsigned blocks, {params}) {{\n'
        f"  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)\n"
        f"    for (threadIdx.x = 0; threadIdx.x < {BLOCK}; threadIdx.x++) {entry}({passed});\n}}\n"
    )


def _argument(index: int, tensor: Any) -> str:
    from irscope.codegen.cuda_element import MEMORY

    if tensor is None or getattr(tensor, "kind", "tensor") == "scalar":
        return f"p{index}"
    return f"({MEMORY[tensor.dtype]}*)p{index}"
