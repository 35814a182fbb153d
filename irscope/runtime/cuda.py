"""Kernels on an NVIDIA GPU through CuPy: NVRTC compiles the text, CuPy loads and launches it.

The compiler needs no GPU, so source and machine code can be had on any machine where CuPy and NVRTC are installed.
Kernels are compiled by `cupy.cuda.nvrtc` rather than `RawModule`, which always flushes denormals to zero.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from irscope.codegen.cuda import BLOCK, emit_cuda, stride_arguments, vector_lanes
from irscope.codegen.kernel_spec import BROADCAST, ITEM_SIZE, UNIT, KernelSpec, Launch, LaunchPlan, is_float
from irscope.codegen.source import SourceText
from irscope.errors import CodegenError, DeviceUnavailable, MissingExtra
from irscope.runtime.base import Availability
from irscope.runtime.cache import CacheCounts, KernelCache, ObjectStore, user_cache_directory

__all__ = ["CudaDevice", "CudaKernel", "CudaPlan", "takes_vectors"]

_INSTALL: Final = "pip install 'irscope[cuda13]'   (or cuda12, by the driver)"
_OPTIONS: Final = ("--std=c++17", "--fmad=true", "--prec-div=true", "--prec-sqrt=true", "--ftz=false")


@dataclass(frozen=True, eq=False)
class CudaKernel:
    """A kernel loaded on the current GPU."""

    spec: KernelSpec
    compile_seconds: float
    from_disk: bool
    any_entry: Any
    vector_entry: Any
    """None when the spec has no vector entry."""


class CudaDevice:
    """The current NVIDIA GPU.

    >>> CudaDevice().name
    'cuda'
    """

    name = "cuda"

    def __init__(self, *, store: ObjectStore | None = None) -> None:
        """`store`: compiled code on disk, by default in the user's cache directory."""
        self.store = store or ObjectStore(user_cache_directory() / "cuda")
        self._kernels: KernelCache[CudaKernel] = KernelCache()

    def __repr__(self) -> str:
        return f"<{self.name}: {self.availability()}>"

    def availability(self) -> Availability:
        """Whether CuPy, a driver and a GPU are here, and which."""
        try:
            cupy = _cupy()
        except MissingExtra:
            return Availability(False, "CuPy is not installed", _INSTALL)
        except Exception as error:
            return Availability(False, f"CuPy does not load here: {error}", _INSTALL)
        try:
            count = cupy.cuda.runtime.getDeviceCount()
            properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice()) if count else {}
        except Exception as error:
            return Availability(
                False, f"CuPy finds no GPU: {error}", "install the NVIDIA driver; nvidia-smi must list a GPU"
            )
        if not count:
            return Availability(False, "CuPy finds no GPU", "nvidia-smi must list a GPU")
        return Availability(True, f"{properties['name'].decode()}, {properties['multiProcessorCount']} multiprocessors")

    @property
    def cache_counts(self) -> CacheCounts:
        """Kernels asked for and made since this device was."""
        return self._kernels.counts

    def source(self, spec: KernelSpec) -> SourceText:
        """The CUDA C++ text; needs neither GPU nor CuPy."""
        return emit_cuda(spec)

    def machine_code(self, spec: KernelSpec, *, architecture: str = "80") -> bytes:
        """What NVRTC makes of the text for a compute capability ("80", "90"); needs CuPy and NVRTC, no GPU.

        Raises MissingExtra without CuPy, DeviceUnavailable without NVRTC.
        """
        return _compiled(emit_cuda(spec).text, architecture)

    def compile(self, spec: KernelSpec) -> CudaKernel:
        """The kernel on the current GPU: from memory, from disk, or from NVRTC."""
        here = self.availability()
        if not here:
            raise DeviceUnavailable(here.what, hint=f"{here.fix}; device='cpu' works without it")
        gpu = _cupy().cuda.Device()
        return self._kernels.get((spec, gpu.id), lambda: self._build(spec, gpu.compute_capability))

    def prepare(self, plan: LaunchPlan) -> CudaPlan:
        """Compile what a plan needs. Raises CodegenError for kernels that read or write a part of a tensor."""
        if any(launch.offsets or -1 in launch.reads for launch in plan.launches):
            raise CodegenError("kernels on parts of tensors have no CUDA text yet", rule="codegen-target")
        return CudaPlan(plan, tuple(self.compile(launch.spec) for launch in plan.launches))

    def _build(self, spec: KernelSpec, architecture: str) -> CudaKernel:
        cupy, start = _cupy(), time.perf_counter()
        text = emit_cuda(spec).text
        version = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
        key = "\n".join((f"nvrtc {version}", architecture, *_OPTIONS, text))
        code = self.store.load(key)
        from_disk = code is not None
        if code is None:
            code = _compiled(text, architecture)
            self.store.save(key, code)
        module = cupy.cuda.function.Module()
        module.load(code)
        vector = module.get_function(f"{spec.name}_vector") if vector_lanes(spec) else None
        return CudaKernel(spec, time.perf_counter() - start, from_disk, module.get_function(spec.name), vector)


@dataclass(frozen=True, eq=False)
class CudaPlan:
    """A launch plan ready to run on the current stream."""

    plan: LaunchPlan
    kernels: tuple[CudaKernel, ...]

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        """Launch on device addresses (and numbers); see `irscope.runtime.base.PreparedPlan`. Does not wait."""
        stream = _cupy().cuda.get_current_stream().ptr
        for kernel, launch in zip(self.kernels, self.plan.launches, strict=True):
            if not launch.elements:
                continue
            vector = kernel.vector_entry is not None and takes_vectors(launch, outputs, inputs)
            entry = kernel.vector_entry if vector else kernel.any_entry
            entry(_grid(launch, vector=vector), (BLOCK,), _arguments(launch, outputs, inputs), stream=stream)


def takes_vectors(launch: Launch, outputs: Sequence[float], inputs: Sequence[float]) -> bool:
    """Whether a launch may use the vector entry: whole vectors in every row but the only one, all of them aligned."""
    spec = launch.spec
    width = vector_lanes(spec)
    if not width or (spec.rank > 1 and launch.sizes[-1] % width):
        return False
    addresses = [*(outputs[i] for i in launch.writes), *(inputs[i] for i in launch.reads)]
    for tensor, strides, address in zip(spec.tensors, launch.strides, addresses, strict=True):
        if not tensor.pattern or tensor.pattern[-1] == BROADCAST:
            continue
        assert tensor.pattern[-1] == UNIT
        if address % (width * ITEM_SIZE[tensor.dtype]) or any(stride % width for stride in strides[:-1]):
            return False
    return True


def _grid(launch: Launch, *, vector: bool) -> tuple[int]:
    points = launch.elements
    if vector:
        points = points // launch.sizes[-1] * (launch.sizes[-1] // vector_lanes(launch.spec))
    return (max(1, -(-points // BLOCK)),)


def _arguments(launch: Launch, outputs: Sequence[int], inputs: Sequence[float]) -> tuple[Any, ...]:
    """The entry's arguments as NumPy scalars of their sizes."""
    args: list[Any] = [np.uint64(outputs[i]) for i in launch.writes]
    for operand, position in zip(launch.spec.inputs, launch.reads, strict=True):
        kind = np.uint64 if operand.kind == "tensor" else np.float64 if is_float(operand.dtype) else np.int64
        args.append(kind(inputs[position]))
    args += [np.int64(size) for size in launch.sizes]
    args += [np.int64(launch.strides[slot][loop]) for slot, loop in stride_arguments(launch.spec)]
    return tuple(args)


def _cupy() -> Any:
    try:
        import cupy
    except ImportError:
        raise MissingExtra("cupy", extra="cuda13", purpose="to run kernels on a GPU") from None
    return cupy


def _compiled(text: str, architecture: str) -> bytes:
    """Machine code for one compute capability."""
    nvrtc = _cupy().cuda.nvrtc
    try:
        program = nvrtc.createProgram(text, "kernel.cu", (), ())
    except Exception as error:  # CuPy's loader has an error type of its own for a missing library
        raise DeviceUnavailable(f"NVRTC cannot be loaded: {error}", hint=_INSTALL) from None
    try:
        nvrtc.compileProgram(program, (*_OPTIONS, f"--gpu-architecture=sm_{architecture}"))
        return bytes(nvrtc.getCUBIN(program))
    except nvrtc.NVRTCError as error:
        raise AssertionError(f"NVRTC refuses our text: {error}\n{nvrtc.getProgramLog(program)}") from None
    finally:
        nvrtc.destroyProgram(program)
