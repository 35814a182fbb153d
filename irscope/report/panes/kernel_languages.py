"""Kernel texts in the languages that details do not have: machine code, and code for GPUs, generated on request.

Each text comes with the facts of the device that runs it. What cannot be generated on this machine says what is missing.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from irscope.codegen.facts import KernelFacts, hot_loops
from irscope.codegen.kernel import NO_NODE, KernelSpec, SourceText
from irscope.errors import IrscopeError, UnknownName
from irscope.ir import Node
from irscope.report.panes.kernel_view import KernelViews
from irscope.report.view_models import KernelText
from irscope.runtime.cpu import CpuDevice

if TYPE_CHECKING:
    from irscope.runtime.cuda import CudaDevice, CudaKernel

__all__ = ["LANGUAGES", "KernelTexts"]

LANGUAGES: Final = ("llvm", "assembly", "cuda", "ptx", "sass")


class KernelTexts:
    """The first kernel of each group, in every language."""

    def __init__(self, views: KernelViews, cpu: CpuDevice) -> None:
        self._views = views
        self._cpu = cpu
        self._assembled: dict[KernelSpec, tuple[SourceText, SourceText]] = {}
        self._for_gpu: dict[tuple[KernelSpec, tuple[int, ...]], CudaKernel] = {}

    def text(self, group: Node, language: str) -> KernelText:
        """The kernel of a group that has one. Raises UnknownName for an unknown language."""
        if language not in LANGUAGES:
            raise UnknownName(f"there is no language {language!r}", hint=f"the languages are {', '.join(LANGUAGES)}")
        try:
            if language in ("llvm", "assembly"):
                return self._of_processor(self._views.specs(group)[0], language)
            return self._of_gpu(group, language)
        except IrscopeError as error:
            return KernelText(
                language=language, source="", origins=[], line_nodes=[], hot=[], facts=[], because="",
                trouble=str(error),
            )  # fmt: skip

    def _of_processor(self, spec: KernelSpec, language: str) -> KernelText:
        made = self._assembled.get(spec)
        if made is None:
            made = self._assembled[spec] = self._cpu.source(spec), self._cpu.assembly(spec)
        source, assembly = made
        facts = self._cpu.facts(spec, source, assembly)
        if language == "llvm":
            return _kernel_text(language, "", facts)
        found = _kernel_text(language, assembly.text, facts)
        hot = sorted(line for loop in hot_loops(source, assembly) for line in loop)
        return KernelText(**found | {"origins": list(assembly.origins), "hot": hot})

    def _of_gpu(self, group: Node, language: str) -> KernelText:
        spec, nodes = self._views.specs(group)[0], group.blocks[0].nodes
        key = (spec, tuple(step.node for step in spec.instructions))
        kernel = self._for_gpu.get(key)
        if kernel is None:
            plan = self._views.plan(group)
            assert plan is not None, "asked of groups that have kernels"
            kernel = self._for_gpu[key] = self._gpu.kernels_of(plan)[0]
        made = {"cuda": lambda: kernel.source, "ptx": lambda: kernel.ptx, "sass": lambda: kernel.sass}[language]()
        owners = [0 if line == NO_NODE else nodes[line].id for line in made.line_nodes]
        return KernelText(**_kernel_text(language, made.text, kernel.facts) | {"line_nodes": owners})

    @cached_property
    def _gpu(self) -> CudaDevice:
        from irscope.runtime.cuda import CudaDevice  # about a second, if CuPy is installed

        return CudaDevice()


def _kernel_text(language: str, source: str, facts: KernelFacts) -> KernelText:
    return KernelText(
        language=language, source=source, origins=[], line_nodes=[], hot=[],
        facts=[list(row) for row in facts.rows], because=facts.because, trouble="",
    )  # fmt: skip
