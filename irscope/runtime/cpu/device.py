"""Kernels on this machine's processor: LLVM text compiled by llvmlite, run on one or more threads.

A kernel is called with two addresses (see `irscope.codegen.llvm.emit`). Extents and strides, which do not change from
call to call, are laid out once when a plan is prepared; a call packs the pointers and jumps.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from irscope.codegen.kernel import KernelSpec, Launch, LaunchPlan, SourceText, with_tiled_reads
from irscope.codegen.kernel.launches import split_reduction
from irscope.codegen.llvm import GENERIC, ConvolutionText, emit_convolution, emit_llvm, least_rows, vector_width
from irscope.errors import DeviceUnavailable, MissingExtra
from irscope.runtime.cpu.compiler import CpuCompiler, Host, MachineCode
from irscope.runtime.cpu.contents import Hash, range_of
from irscope.runtime.cpu.launch import (
    LaunchCall,
    PoolCall,
    Range,
    SplitCall,
    TeamCall,
    estimated_seconds,
    gather_cuts,
    gather_ranges,
    split_kept,
    stores_should_stream,
)
from irscope.runtime.cpu.native_loop import NativeLoop
from irscope.runtime.cpu.openmp import StallBackoff, loaded_openmp, team_loop
from irscope.runtime.device import Availability, Device, HostKernel, KernelCache, MissLog, ObjectStore, PreparedPlan
from irscope.runtime.device.kernel_cache import user_store

if TYPE_CHECKING:
    from irscope.codegen.facts import KernelFacts

_THREADS_PAY: Final = 200e-6
"""Seconds of estimated time above which a launch is split over Python threads."""
_TEAM_PAYS: Final = 40e-6
"""Seconds of estimated time above which a launch is split over torch's threads, which start sooner."""
_HOLD_GIL: Final = 5e-6
"""Seconds of estimated time below which releasing the GIL costs more than it gains."""


@dataclass(frozen=True, eq=False)
class CpuKernel(HostKernel):
    code: MachineCode
    spec: KernelSpec
    compile_seconds: float
    from_disk: bool


class CpuDevice(Device):
    """This machine's processor."""

    name = "cpu"

    def __init__(self, *, threads: int | None = None, store: ObjectStore | None = None) -> None:
        """`threads`: how many split a large launch, by default one per core, and at most torch's number once torch is
        imported. `store`: compiled code on disk, by default in the user's cache directory."""
        self._asked = threads
        self.store: ObjectStore = store or user_store("cpu")
        self._compiler = CpuCompiler(self.store)
        self.misses = MissLog(self.store)
        """The kernels that had to be compiled, and how each differs from the nearest one."""
        self._kernels: KernelCache[CpuKernel] = KernelCache()
        self._layers: KernelCache[MachineCode] = KernelCache()

    @property
    def threads(self) -> int:
        """The number of threads that split a launch prepared now."""
        if self._asked is not None:
            return self._asked
        torch = sys.modules.get("torch")
        asked = getattr(torch, "get_num_threads", None)
        return _cores() if asked is None else min(_cores(), asked())

    def availability(self) -> Availability:
        """Returns whether llvmlite is available, and which processor this is."""
        try:
            host = self.host
        except MissingExtra as missing:
            return Availability(False, "the compiler llvmlite is not installed", missing.hint)
        except Exception as error:
            return Availability(False, f"llvmlite does not work here: {error}", "pip install --upgrade llvmlite")
        return Availability(True, f"{host.name}; {host.versions}")

    @property
    def host(self) -> Host:
        """The processor. Raises MissingExtra without llvmlite."""
        return self._compiler.host

    def source(self, spec: KernelSpec) -> SourceText:
        """Returns the LLVM text, for this processor if it is known and for a generic one otherwise."""
        try:
            return emit_llvm(spec, self.host.target)
        except MissingExtra:
            return emit_llvm(spec, GENERIC)

    def assembly(self, spec: KernelSpec) -> SourceText:
        """Returns the processor's assembly, each line with the node that it serves. Raises MissingExtra without llvmlite."""
        from irscope.codegen.facts import tie_assembly, with_locations

        source = self.source(spec)
        return tie_assembly(self._compiler.assembly(with_locations(source)), source)

    def plain_assembly(self, spec: KernelSpec) -> str:
        """Returns the assembly without source locations. Raises MissingExtra without llvmlite."""
        return self._compiler.assembly(self.source(spec).text)

    def facts(self, spec: KernelSpec, source: SourceText, assembly: SourceText, *, copy: float | None = None) -> "KernelFacts":
        """Returns a kernel's facts, counted in its text and assembly. `copy`: the bytes per second that a core copies, by default a
        reference figure."""
        from irscope.codegen.facts import COPY, cpu_facts

        return cpu_facts(spec, source, assembly, self.host.name, copy=COPY if copy is None else copy)

    def compile(self, spec: KernelSpec) -> CpuKernel:
        """Returns the kernel of a spec: from memory, from disk, or from LLVM."""
        if not self.availability():
            raise DeviceUnavailable(self.availability().what, hint=f"{self.availability().fix}, or use device='numpy'")
        return self._kernels.get(spec, lambda: self._build(spec))

    def adapted(self, launch: Launch) -> Launch:
        """Returns the launch as it runs here: with tiled reads and with stores that bypass the caches, where that pays off."""
        if launch.spec.in_place:  # tiles overlap, and overwritten memory was just read
            return launch
        target = self.host.target if self.availability() else GENERIC
        launch = with_tiled_reads(launch, least_rows(launch.spec, target), vector_width(launch.spec, target))
        if not stores_should_stream(launch, target.vector_bytes):
            return launch
        return replace(launch, spec=replace(launch.spec, nontemporal=True))

    def prepare(self, plan: LaunchPlan) -> "CpuPlan":
        """Compiles a plan's kernels, decides on threads and streaming stores, and lays out the arguments."""
        bytes_wide = self.host.target.vector_bytes if self.availability() else 16
        launches = [self.adapted(launch) for launch in plan.launches]
        calls: list[LaunchCall | SplitCall] = []
        kernels: list[CpuKernel] = []
        for launch in launches:
            seconds = estimated_seconds(launch, bytes_wide)
            if self._is_starved(launch, seconds):
                call = self._split_call(launch, plan)
                calls.append(call)
                kernels += call.kernels
                continue
            kernels.append(self.compile(launch.spec))
            if launch.kept_elements:
                calls.append(self._call(kernels[-1], launch, seconds))
        return CpuPlan(replace(plan, launches=tuple(launches)), tuple(kernels), tuple(calls))

    def _is_starved(self, launch: Launch, seconds: float) -> bool:
        """Checks whether a launch is long enough to split, but has too few results for all threads and a long reduction."""
        if not launch.spec.reduced or not launch.elements or self.parts(seconds) == 1:
            return False
        width = vector_width(launch.spec, self.host.target)
        return len(split_kept(launch, self.threads, width)) < self.threads and len(gather_cuts(launch, self.threads)) > 2

    def _split_call(self, launch: Launch, plan: LaunchPlan) -> SplitCall:
        parts = len(gather_cuts(launch, self.threads)) - 1
        split = split_reduction(launch, plan.inputs, len(plan.outputs), parts)
        kernels = tuple(self.compile(stage.launch.spec) for stage in split.stages)
        calls = []
        for stage, kernel in zip(split.stages, kernels, strict=True):
            seconds = estimated_seconds(stage.launch, self.host.target.vector_bytes)
            if stage.partial:
                ranges = gather_ranges(stage.launch, parts, split.part_elements)
                calls.append(self.call(kernel.code, stage.launch, ranges, seconds))
            else:
                calls.append(self._call(kernel, stage.launch, seconds))
        return SplitCall(split, kernels, tuple(calls))

    def parts(self, seconds: float) -> int:
        """Returns the number of threads that work of this length is split over."""
        threads = self.threads
        if threads == 1 or seconds < _TEAM_PAYS:
            return 1
        return threads if seconds >= (_THREADS_PAY if loaded_openmp() is None else _TEAM_PAYS) else 1

    def _call(self, kernel: CpuKernel, launch: Launch, seconds: float) -> LaunchCall:
        ranges = tuple(split_kept(launch, self.parts(seconds), vector_width(launch.spec, self.host.target)))
        return self.call(kernel.code, launch, ranges, seconds)

    def call(self, code: MachineCode, launch: Any, ranges: tuple[Range, ...], seconds: float) -> LaunchCall:
        """Returns a launch of about so many seconds, whose parts run at the same time if there are several."""
        if len(ranges) == 1:
            return LaunchCall(code.call if seconds >= _HOLD_GIL else code.call_holding, launch, ranges)
        openmp = loaded_openmp()
        if openmp is None:
            return PoolCall(code.call, launch, ranges)
        return TeamCall(code.call, launch, ranges, code.address, openmp, self._team_loop, StallBackoff(seconds))

    @cached_property
    def _team_loop(self) -> MachineCode:
        """The loop that each of torch's threads runs."""
        return self._compiler.code(team_loop(), "irscope_team", kernel=False)

    def layer(self, text: ConvolutionText) -> MachineCode:
        """Returns the kernel of a layer (`irscope.runtime.cpu.layers`): from memory, from disk, or from LLVM."""
        return self._layers.get(text, lambda: self._compiler.code(emit_convolution(text, self.host.target).text, text.name))

    @cached_property
    def native_loop(self) -> NativeLoop:
        """The loop that calls kernels without Python in between."""
        return NativeLoop(self._compiler)

    def hasher(self, tensors: Sequence[Any]) -> Callable[[], int]:
        """Returns what hashes the elements that tensors of torch hold at a call, where they are now."""
        held = [tensor.detach() for tensor in tensors]  # keep the memory, which another thread may exchange meanwhile
        hashed = self._hash.of([range_of(tensor) for tensor in held])
        return lambda held=held: hashed()  # type: ignore[misc]

    @cached_property
    def _hash(self) -> Hash:
        return Hash(self._compiler)

    def _build(self, spec: KernelSpec) -> CpuKernel:
        start = time.perf_counter()
        code = self._compiler.code(emit_llvm(spec, self.host.target).text, spec.name)
        seconds = time.perf_counter() - start
        if not code.from_disk:
            self.misses.note(spec, seconds)
        return CpuKernel(code, spec, seconds, code.from_disk)


class CpuPlan(PreparedPlan):
    """A launch plan ready to run on the processor; safe to call from many threads at once."""

    def __init__(self, plan: LaunchPlan, kernels: tuple[CpuKernel, ...], calls: tuple[LaunchCall | SplitCall, ...]) -> None:
        self.plan = plan
        self.kernels = kernels
        self._calls = calls
        self.threads = max((call.threads for call in calls), default=1)
        self.serial = calls if all(type(call) is LaunchCall for call in calls) else ()
        self.single = self.serial[0] if len(self.serial) == 1 else None

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        """Runs on addresses of first elements (and numbers); see `irscope.runtime.device.protocol.PreparedPlan`."""
        for call in self._calls:
            call(outputs, inputs)


def _cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
