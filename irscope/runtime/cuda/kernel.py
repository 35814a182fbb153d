"""A kernel for an NVIDIA GPU, for inspection: its texts, and counts from its machine code."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from irscope.codegen.cuda import Schedule, emit_cuda, entry_names, kernel_name
from irscope.codegen.facts import Pace, pace_of
from irscope.codegen.kernel import KernelSpec, Launch, SourceText
from irscope.runtime.cuda.nvrtc import Compiled, Compiler, Nvrtc, Resources

if TYPE_CHECKING:
    from irscope.codegen.facts import KernelFacts

__all__ = ["CudaKernel"]


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
    compiler: Compiler = field(default_factory=Nvrtc, repr=False)
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
        return f"{taken}{self.pace().because}"

    def pace(self, launch: Launch | None = None) -> Pace:
        """Returns what limits the kernel, or one launch of it: memory, issue slots or latency; counted, not measured."""
        return pace_of(self.spec, self.schedule, self.code_sizes.get(self.widest), launch)

    @property
    def source(self) -> SourceText:
        """The text that was compiled."""
        return emit_cuda(self.spec, self.schedule)

    @cached_property
    def compiled(self) -> Compiled:
        """The kernel alone, compiled again with line information, for inspection. Raises MissingExtra without CuPy, and
        DeviceUnavailable without NVRTC."""
        return self.compiler.compile(self.source.text, self.architecture, lines=True)

    @property
    def ptx(self) -> SourceText:
        """The text for a virtual GPU."""
        from irscope.codegen.facts import ptx_lines

        return ptx_lines(self.compiled.ptx, self.source)

    @property
    def sass(self) -> SourceText:
        """The text of the machine code. Raises DeviceUnavailable without a disassembler."""
        from irscope.codegen.facts import tied_sass
        from irscope.runtime.cuda.nvdisasm import disassembled

        return tied_sass(disassembled(self.compiled.code), self.source)

    @property
    def facts(self) -> KernelFacts:
        """The facts by counting; without NVRTC only those in its text."""
        from irscope.codegen.facts import cuda_facts

        found = self.resources.get(self.widest)
        taken = (found.registers, found.spill_bytes, found.stack_bytes) if found is not None else None
        return cuda_facts(self.spec, self.schedule, f"compute capability {self.architecture}", self.pace(), taken)

    @property
    def cubin(self) -> bytes:
        """The machine code."""
        return self.compiled.code

    @property
    def registers(self) -> int | None:
        """The maximum per thread over the entries; None where NVRTC is missing."""
        return max((each.registers for each in self.resources.values()), default=None)

    @property
    def spill_bytes(self) -> int | None:
        """The maximum per thread over the entries; None where NVRTC is missing."""
        return max((each.spill_bytes for each in self.resources.values()), default=None)
