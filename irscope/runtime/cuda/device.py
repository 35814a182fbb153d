"""Kernels on an NVIDIA GPU through CuPy: NVRTC compiles the text, CuPy loads and launches it.

The compiler needs no GPU, so source, PTX, machine code, registers and spills are available on any machine with CuPy and
NVRTC, and the source on any machine. Kernels that are prepared together are compiled as one module, which takes a third
of the time; on disk a module is kept once, and each of its kernels refers to it.
"""

import hashlib
import os
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final

from irscope._base.running import run_together
from irscope.codegen.cuda import (
    MULTIPROCESSORS,
    Schedule,
    cheaper_for_halves,
    emit_cuda,
    emit_module,
    entry_names,
    kernel_name,
    likely_schedule,
    parts_of,
    schedule_of,
)
from irscope.codegen.facts import KernelFacts, code_sizes, cuda_facts, ptx_lines, tie_sass
from irscope.codegen.kernel import ITEM_SIZE, KernelSpec, Launch, LaunchPlan, SourceText, use_online_softmax
from irscope.codegen.kernel.launches import split_reduction
from irscope.errors import DeviceUnavailable, IrscopeError, MissingExtra
from irscope.runtime.arrays import imported_cupy
from irscope.runtime.cuda.launch import CaptureArena, CudaPlan, CupyGpu, Step, laid_out
from irscope.runtime.cuda.nvrtc import INSTALL, OPTIONS, Compiled, Nvrtc, Resources, disassembled
from irscope.runtime.device import Availability, Device, KernelCache, MissLog, ObjectStore
from irscope.runtime.device.kernel_cache import user_store

# A kernel for an NVIDIA GPU, for inspection: its texts, and counts from its machine code.


@dataclass(frozen=True, eq=False)
class CudaKernel:
    """A kernel: its text, and as much of the rest as this machine can compile or load."""

    spec: KernelSpec
    schedule: Schedule
    compile_seconds: float
    from_disk: bool
    architecture: str
    resources: dict[str, Resources] = field(default_factory=dict)
    """By entry; empty where NVRTC is missing."""
    any_entry: Any = None
    """None without a GPU."""
    vector_entry: Any = None
    """None without a GPU, or when the schedule has no vectors."""
    compiler: Nvrtc = field(default_factory=Nvrtc, repr=False)
    code_sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By entry, the number of instructions and of those for the special function unit."""

    def __repr__(self) -> str:
        return f"<{self.name}: {self.summary}>"

    @property
    def name(self) -> str:
        """The symbol of the entry that takes any strides and alignment."""
        return kernel_name(self.spec, self.schedule)

    @property
    def widest(self) -> str:
        """The symbol of the entry that runs when tensors are suitably aligned and strided."""
        return entry_names(self.spec, self.schedule)[-1]

    @property
    def summary(self) -> str:
        """Registers, spills and shared memory of the widest entry, and what bounds its speed."""
        found = self.resources.get(self.widest)
        taken = f"{found}; " if found is not None else ""
        return f"{taken}{self.facts.because}"

    @property
    def source(self) -> SourceText:
        return emit_cuda(self.spec, self.schedule)

    @cached_property
    def compiled(self) -> Compiled:
        """The kernel alone, compiled again with line information, for inspection. Raises MissingExtra without CuPy, and
        DeviceUnavailable without NVRTC."""
        return self.compiler.compile(self.source.text, self.architecture, lines=True)

    @property
    def ptx(self) -> SourceText:
        """The text for a virtual GPU."""
        return ptx_lines(self.compiled.ptx, self.source)

    @property
    def sass(self) -> SourceText:
        """The text of the machine code. Raises DeviceUnavailable without a disassembler."""
        return tie_sass(disassembled(self.compiled.code), self.source)

    @property
    def facts(self) -> KernelFacts:
        """The facts with what limits the kernel, memory or issue slots, by counting; without NVRTC only those in its text."""
        found = self.resources.get(self.widest)
        taken = (found.registers, found.spill_bytes, found.stack_bytes) if found is not None else None
        return cuda_facts(self.spec, self.schedule, f"compute capability {self.architecture}", self.code_sizes.get(self.widest), taken)

    @property
    def registers(self) -> int | None:
        """The maximum per thread over the entries; None where NVRTC is missing."""
        return max((each.registers for each in self.resources.values()), default=None)

    @property
    def spill_bytes(self) -> int | None:
        """The maximum per thread over the entries; None where NVRTC is missing."""
        return max((each.spill_bytes for each in self.resources.values()), default=None)


_ASSUMED: Final = "90"
"""The target compute capability where there is no GPU."""
_TOGETHER: Final = 8
"""Kernels per module: with more, the first ones would wait longer."""

_Wanted = tuple[KernelSpec, Schedule]


class CudaDevice(Device):
    """The current NVIDIA GPU.

    >>> CudaDevice().name
    'cuda'
    """

    name = "cuda"

    def __init__(self, *, store: ObjectStore | None = None, gpu: CupyGpu | None = None, compiler: Nvrtc | None = None) -> None:
        """`store`: compiled code on disk, by default in the user's cache directory. `gpu` and `compiler` replace the
        current GPU and NVRTC."""
        self.store: ObjectStore = store or user_store("cuda")
        self.misses = MissLog(self.store)
        """The kernels that had to be compiled, and how each differs from the nearest one."""
        self.compiler = compiler or Nvrtc()
        self.held = CaptureArena()
        self._gpu = gpu
        self._gpus: dict[int, CupyGpu] = {}
        self._kernels: KernelCache[CudaKernel] = KernelCache()
        self._modules: KernelCache[Any] = KernelCache()
        self._compiling = threading.RLock()

    def availability(self) -> Availability:
        """Returns whether CuPy, a driver and a GPU are available, and which; never raises."""
        if self._gpu is not None:
            return Availability(True, f"{self._gpu!r}, {self._gpu.multiprocessors} multiprocessors")
        try:
            cupy = imported_cupy()
        except MissingExtra:
            return Availability(False, "CuPy is not installed", INSTALL)
        except Exception as error:
            return Availability(False, f"CuPy does not load here: {error}", INSTALL)
        try:
            count = cupy.cuda.runtime.getDeviceCount()
            properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice()) if count else {}
        except Exception as error:
            return Availability(False, f"CuPy finds no GPU: {error}", "install the NVIDIA driver; nvidia-smi must list a GPU")
        if not count:
            return Availability(False, "CuPy finds no GPU", "nvidia-smi must list a GPU")
        try:
            self.compiler.version()
        except IrscopeError as error:
            return Availability(False, error.what, error.hint)
        return Availability(True, f"{properties['name'].decode()}, {properties['multiProcessorCount']} multiprocessors")

    def source(self, spec: KernelSpec) -> SourceText:
        """Returns the CUDA C++ text for a likely schedule; needs neither GPU nor CuPy."""
        return emit_cuda(cheaper_for_halves(spec))

    def compile(self, spec: KernelSpec) -> CudaKernel:
        """Returns the kernel of a spec with a likely schedule, on the current GPU. Raises DeviceUnavailable."""
        suited = cheaper_for_halves(spec)
        gpu, wanted = self._present(), (suited, likely_schedule(suited))
        self._compile_together([wanted], gpu)
        return self._kernel(wanted, gpu)

    # -- plans --------------------------------------------------------------------------------------------------------

    def prepare(self, plan: LaunchPlan) -> CudaPlan:
        """Compiles the kernels of a plan and lays out its arguments.

        Without a GPU the plan cannot be called, but its kernels can be inspected.
        """
        gpu: CupyGpu | None = None
        unavailable: IrscopeError | None = None
        try:
            gpu = self._present()
        except DeviceUnavailable as error:
            unavailable = error
        kernels: list[CudaKernel] = []
        steps: list[Step] = []
        temporaries: list[int] = []
        for launch in plan.launches:
            pieces, own = self._pieces(launch, plan, gpu, len(temporaries))
            temporaries += own
            self._compile_together([(piece.spec, schedule) for piece, schedule, _ in pieces], gpu)
            for piece, schedule, part in pieces:
                kernel = self._kernel((piece.spec, schedule), gpu)
                kernels.append(kernel)
                if piece.kept_elements:
                    steps.append(laid_out(kernel, piece, schedule, part))
        return CudaPlan(plan, tuple(kernels), steps, temporaries, gpu, self.held, unavailable)

    def kernels_of(self, plan: LaunchPlan, *, architecture: str = _ASSUMED) -> tuple[CudaKernel, ...]:
        """Returns the kernels of a plan for a compute capability, for inspection only; needs no GPU.

        Without NVRTC they have only their text.
        """
        pieces = [piece for launch in plan.launches for piece in self._pieces(launch, plan, None, 0)[0]]
        wanted = list(dict.fromkeys((launch.spec, schedule) for launch, schedule, _ in pieces))
        return tuple(self._build(wanted, None, architecture))

    def prepare_together(self, plans: Iterable[LaunchPlan]) -> None:
        """Compiles the kernels of many plans, several to a module; `prepare` then finds them."""
        gpu = self._present() if self.availability() else None
        wanted = [
            (piece.spec, schedule)
            for plan in plans
            for launch in plan.launches
            for piece, schedule, _ in self._pieces(launch, plan, gpu, 0)[0]
        ]
        self._compile_together(wanted, gpu)

    def _pieces(
        self, launch: Launch, plan: LaunchPlan, gpu: CupyGpu | None, first: int
    ) -> tuple[list[tuple[Launch, Schedule, tuple[int, int]]], list[int]]:
        """Returns the launches that one launch is split into, and the bytes of temporary memory between them.

        `first` is the number of temporaries of the plan's earlier launches.
        """
        processors = MULTIPROCESSORS if gpu is None else gpu.multiprocessors
        launch = replace(launch, spec=cheaper_for_halves(launch.spec))
        if launch.spec.reduced and not schedule_of(launch).held:  # each pass reads the row again
            launch = replace(launch, spec=use_online_softmax(launch.spec))
        parts = parts_of(launch, multiprocessors=processors)
        if parts == 1:
            return [(launch, schedule_of(launch, multiprocessors=processors), (1, 0))], []
        split = split_reduction(launch, plan.inputs + first, len(plan.outputs) + first, parts)
        pieces = []
        for stage in split.stages:
            schedule = schedule_of(stage.launch, partial=stage.partial, multiprocessors=processors)
            pieces.append((stage.launch, schedule, (parts if stage.partial else 1, split.part_elements)))
        return pieces, [elements * ITEM_SIZE[dtype] for dtype, elements in split.temporaries]

    # -- compiling ----------------------------------------------------------------------------------------------------

    def _present(self) -> CupyGpu:
        """Returns the GPU. Raises DeviceUnavailable."""
        if self._gpu is not None:
            return self._gpu
        known = self._gpus.get(imported_cupy().cuda.runtime.getDevice()) if self._gpus else None
        if known is not None:
            return known
        here = self.availability()
        if not here:
            raise DeviceUnavailable(here.what, hint=f"{here.fix}; device='cpu' works without it")
        gpu = CupyGpu()
        return self._gpus.setdefault(gpu.key[0], gpu)

    def _kernel(self, wanted: _Wanted, gpu: CupyGpu | None) -> CudaKernel:
        return self._kernels.get((wanted, gpu and gpu.key), lambda: self._build([wanted], gpu)[0])

    def _compile_together(self, wanted: Sequence[_Wanted], gpu: CupyGpu | None) -> None:
        """Compiles the missing kernels, several to a module, and modules in parallel; each kernel once for all callers."""

        def make(group: list[_Wanted]) -> None:
            for each, kernel in zip(group, self._build(group, gpu), strict=True):
                self._kernels.get((each, gpu and gpu.key), lambda kernel=kernel: kernel)  # type: ignore[misc]

        with self._compiling:
            missing = [each for each in dict.fromkeys(wanted) if (each, gpu and gpu.key) not in self._kernels]
            if not missing:
                return
            share = min(_TOGETHER, -(-len(missing) // (os.cpu_count() or 1)))
            for _ in run_together([partial(make, missing[start : start + share]) for start in range(0, len(missing), share)]):
                pass

    def _build(self, wanted: Sequence[_Wanted], gpu: CupyGpu | None, assumed: str = _ASSUMED) -> list[CudaKernel]:
        start = time.perf_counter()
        architecture = assumed if gpu is None else gpu.key[1]
        try:
            version = self.compiler.version()
        except IrscopeError:
            if gpu is not None:
                raise
            return [CudaKernel(*each, 0.0, False, architecture, compiler=self.compiler) for each in wanted]
        known = [self._on_disk(each, version, architecture) for each in wanted]
        fresh = [each for each, found in zip(wanted, known, strict=True) if found is None]
        if fresh:
            began = time.perf_counter()
            compiled = self._compiled(fresh, version, architecture)
            for spec, _ in fresh:
                self.misses.note(spec, (time.perf_counter() - began) / len(fresh))
        seconds = (time.perf_counter() - start) / len(wanted)
        made = []
        for each, found in zip(wanted, known, strict=True):
            module, code = (compiled if found is None else found) if fresh else found  # type: ignore[misc]
            names = entry_names(*each)
            entries: list[Any] = [None, None]
            if gpu is not None:
                loaded = self._modules.get((module, gpu.key), lambda code=code: gpu.load(code.code))  # type: ignore[misc]
                entries = [loaded.get_function(name) for name in names] + [None]
            resources = {name: code.resources[name] for name in names if name in code.resources}
            sizes = {name: size for name, size in code_sizes(code.code).items() if name in names}
            made.append(CudaKernel(
                *each, seconds, found is not None, architecture, resources, entries[0], entries[1], self.compiler, sizes
            ))  # fmt: skip
        return made

    def _compiled(self, wanted: Sequence[_Wanted], version: str, architecture: str) -> tuple[str, Compiled]:
        """Compiles a new module with these kernels, and saves it on disk."""
        text = emit_module(wanted)
        module = _key("module", version, architecture, text)
        compiled = self.compiler.compile(text, architecture)
        if self.store.save(module, compiled.packed(), kernel=False):
            for each in wanted:
                self.store.save(_kernel_key(each, version, architecture), module.encode())
        return module, compiled

    def _on_disk(self, wanted: _Wanted, version: str, architecture: str) -> tuple[str, Compiled] | None:
        """Returns the module that has a kernel; None if it must be compiled."""
        name = self.store.read(_kernel_key(wanted, version, architecture))
        packed = None if name is None else self.store.read(name.decode(), kernel=False)
        self.store.count(found=packed is not None)
        if name is None or packed is None:
            return None
        return name.decode(), Compiled.unpacked(packed)


def _kernel_key(wanted: _Wanted, version: str, architecture: str) -> str:
    return _key("kernel", version, architecture, emit_cuda(*wanted).text)


def _key(kind: str, version: str, architecture: str, text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return "\n".join((f"cuda {kind}", version, architecture, *OPTIONS, digest))
