"""One kernel of an executable, for inspection: its texts from LLVM or CUDA down to machine code, and its facts.

    kernel = irs.compile(f).kernels[0]
    kernel.facts        # bytes, operations, registers, spills, and the time of a copy
    kernel.source       # the text that was compiled; .llvm and .assembly on a processor, .ptx and .sass on a GPU

Each text is a `SourceText`: `node_of(line)` and `lines_of(node)` tie its lines to `kernel.nodes`, in both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Final, Self

from irscope._base.results import Numbered
from irscope._base.words import plural
from irscope.codegen.kernel import KernelSpec, SourceText, spec_attributes, spec_graph
from irscope.errors import IrscopeError, UnknownName
from irscope.ir import Graph, Node
from irscope.runtime.device import Device, HostKernel

if TYPE_CHECKING:
    from irscope.codegen.facts import KernelFacts

_TEXTS: Final = {"cpu": ("llvm", "assembly"), "cuda": ("cuda", "ptx", "sass"), "numpy": ("llvm",)}
"""The texts that each device can show of a kernel."""
_LARGE: Final = 1 << 28
"""Bytes that exceed most caches."""


@dataclass(eq=False, repr=False)
class CompiledKernel:
    name: str
    spec: KernelSpec
    device: Device
    compile_seconds: float
    """Time from text to machine code, or to load it from the disk cache."""
    from_disk: bool
    groups: list[Node] = field(default_factory=list)
    """The fusion groups that run it, in the order in which they requested it."""
    kernel: Any = HostKernel()  # noqa: RUF009  # it has no state
    """The device's object: a GPU's kernel has `registers` and `spill_bytes`."""

    # -- texts --------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the first group that runs it, indexed by the positions in its texts."""
        return self.groups[0].blocks[0].nodes if self.groups else ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The names of its device's texts, the one that was compiled first."""
        return _TEXTS.get(self.device.name, ())

    @cached_property
    def source(self) -> SourceText:
        """The text that was compiled: LLVM's for a processor, CUDA C++ for a GPU."""
        own: SourceText | None = self.kernel.source
        return self.device.source(self.spec) if own is None else own

    @property
    def llvm(self) -> SourceText:
        """The text for LLVM. Raises UnknownName for a kernel of a GPU."""
        self._offers("llvm")
        return self.source

    @cached_property
    def assembly(self) -> SourceText:
        """The processor's assembly; compiles again, in 10 to 50 ms. Raises UnknownName for a kernel of another device."""
        self._offers("assembly")
        made: SourceText = self.device.assembly(self.spec)  # type: ignore[attr-defined]
        return made

    @cached_property
    def machine_code(self) -> str:
        """The machine code with a neutral name, for comparison: assembly of a processor, compiled again in 10 to 50 ms, or SASS of
        a GPU. Raises as `assembly` and `sass` do."""
        if "sass" in self.texts:
            return self.sass.text.replace(self.name, "kernel")
        self._offers("assembly")
        return str(self.device.plain_assembly(self.spec)).replace(self.spec.name, "kernel")  # type: ignore[attr-defined]

    @property
    def graph(self) -> Graph:
        """Its spec as a graph of `kernel::…` nodes."""
        return spec_graph(self.spec)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The properties of the spec as a whole."""
        return spec_attributes(self.spec)

    @property
    def hot_loops(self) -> tuple[SourceText, ...]:
        """The stretches of the assembly that run for every point, one for each pass. Raises UnknownName as `assembly` does."""
        from irscope.codegen.facts import hot_loops  # code that only inspects kernels is loaded on demand

        return tuple(self.assembly.only(loop) for loop in hot_loops(self.source, self.assembly))

    @property
    def ptx(self) -> SourceText:
        """The kernel for a virtual GPU; needs NVRTC and no GPU. Raises UnknownName for another device."""
        self._offers("ptx")
        made: SourceText = self.kernel.ptx
        return made

    @cached_property
    def sass(self) -> SourceText:
        """The GPU's machine code; needs NVRTC and NVIDIA's disassembler, but no GPU. Raises UnknownName for another device,
        and DeviceUnavailable with the command that installs what is missing."""
        self._offers("sass")
        made: SourceText = self.kernel.sass
        return made

    def _offers(self, text: str) -> None:
        if text not in self.texts:
            names = {"llvm": "LLVM text", "assembly": "assembly", "ptx": "PTX", "sass": "SASS"}
            other = next(name for name, each in _TEXTS.items() if text in each)
            raise UnknownName(f"a kernel of the device {self.device.name!r} has no {names[text]}", hint=f'compile with device="{other}"')

    # -- facts --------------------------------------------------------------------------------------------------------

    @cached_property
    def facts(self) -> KernelFacts:
        """The facts by counting, beside a copy at a reference speed."""
        return self.facts_at()

    def facts_at(self, copy: float | None = None) -> KernelFacts:
        """Returns the facts for a copy speed in bytes per second, reads and writes together; a GPU's facts ignore it."""
        known: KernelFacts | None = self.kernel.facts
        if known is not None:
            return known
        if "assembly" not in self.texts:
            from irscope.codegen.facts import unknown_facts

            because = "NumPy evaluates it instruction by instruction: memory sets the pace, many times over"
            return unknown_facts(self.spec, self.device.name, "NumPy", because)
        counted: KernelFacts = self.device.facts(self.spec, self.source, self.assembly, copy=copy)  # type: ignore[attr-defined]
        return counted

    def measured_facts(self, threads: int = 1, moved: int = _LARGE) -> KernelFacts:
        """Returns the facts at this machine's copy speed for this many moved bytes and threads, measured now; the first
        measurement takes up to half a second."""
        from irscope.runtime.machine import limits

        return self.facts_at(moved / limits(threads).copy_seconds(moved) / threads)

    @property
    def registers(self) -> int | None:
        """Registers per thread on a GPU; None for another device, or where the compiler is missing."""
        found: int | None = self.kernel.registers
        return found

    @property
    def spill_bytes(self) -> int | None:
        """Bytes that a GPU thread spills because registers run out; None for another device."""
        found: int | None = self.kernel.spill_bytes
        return found

    # -- words --------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        origin = "from the disk cache" if self.from_disk else "compiled"
        more = f"; {self.kernel.summary}" if self.kernel.summary else ""
        took = f"{origin} in {self.compile_seconds * 1e3:.1f} ms" if self.compile_seconds else "not compiled"
        return f"<{self.name}: {took}, runs {plural(len(self.groups), 'group')}{more}>"

    def _repr_html_(self) -> str:
        """The same with the facts, or with the reason why they cannot be counted here."""
        try:
            facts = self.facts._repr_html_()
        except IrscopeError as error:
            facts = f"<p>{escape(str(error))}</p>"
        return f"<p><code>{escape(repr(self))}</code></p>{facts}"


class KernelList(Numbered[CompiledKernel]):
    """Kernels in the order in which they were compiled. Raises UnknownNumber for an index out of range."""

    noun = "kernel"

    def __new__(cls, kernels: Iterable[CompiledKernel], why_none: Callable[[], str]) -> Self:
        """`why_none` returns the reason why there are none; it is called only when the reason is shown."""
        made = super().__new__(cls, kernels)
        made.why_none = why_none
        return made

    def __repr__(self) -> str:
        return "\n".join(f"{number}: {kernel!r}" for number, kernel in enumerate(self)) or f"no kernels: {self.why_none()}"
