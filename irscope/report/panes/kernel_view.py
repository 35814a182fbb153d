"""The kernel of a fusion group as source text; each line knows the node it computes."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

from irscope._base.words import byte_count, plural
from irscope.codegen.facts import KernelFacts, hot_loops
from irscope.codegen.kernel import NO_NODE, KernelSpec, LaunchPlan, SourceText
from irscope.codegen.llvm import GENERIC
from irscope.codegen.lowering import spec_of_group
from irscope.errors import CodegenError, IrscopeError, UnknownName
from irscope.ir import Node
from irscope.report.view_models import KernelDetail, KernelText
from irscope.runtime.cpu import CpuDevice, estimated_seconds

if TYPE_CHECKING:
    from irscope.runtime.cuda import CudaDevice, CudaKernel
    from irscope.transforms.fusion import Fusion


LANGUAGES: Final = ("llvm", "assembly", "cuda", "ptx", "sass")


class KernelViews:
    """The kernels of the groups of one fusion. Groups whose types are not refined have none yet."""

    def __init__(
        self, fusion: "Fusion", alike: Callable[[], Iterable[Sequence[Node]]], given: Mapping[Node, KernelDetail] | None = None
    ) -> None:
        """`alike` yields the groups in lists that are equal up to names and so run the same kernels; `given` are the kernels of another
        compiler, for the groups that it formed."""
        self._exact = fusion.exact
        self._groups = dict.fromkeys(fusion.groups)
        self._alike = alike
        self._cpu = CpuDevice()
        self._plans: dict[Node, LaunchPlan | None] = {}
        self._texts: dict[tuple[KernelSpec, tuple[int, ...]], SourceText] = {}
        self._details: dict[Node, KernelDetail | None] = dict(given or {})
        self._assembled: dict[KernelSpec, tuple[SourceText, SourceText]] = {}
        self._for_gpu: dict[tuple[KernelSpec, tuple[int, ...]], CudaKernel] = {}

    def plan(self, group: Node) -> LaunchPlan | None:
        if group not in self._plans:
            plan = None
            if group in self._groups and group.attrs.get("kind") != "view":
                with suppress(CodegenError):  # sizes are unknown before the run, or no kernel can be generated
                    plan = spec_of_group(group, [value.type for value in group.inputs], exact=self._exact)
            self._plans[group] = plan
        return self._plans[group]

    def specs(self, group: Node) -> tuple[KernelSpec, ...]:
        """The kernels of a group as the device runs them; empty if it has none."""
        plan = self.plan(group)
        return () if plan is None else tuple(self._cpu.adapted(launch).spec for launch in plan.launches)

    @cached_property
    def shared_by(self) -> Counter[KernelSpec]:
        """The number of groups that run each kernel; only one group of each list of equal groups is examined."""
        found: Counter[KernelSpec] = Counter()
        for groups in self._alike():
            for spec in dict.fromkeys(self.specs(groups[0])):
                found[spec] += len(groups)
        return found

    def detail(self, group: Node) -> KernelDetail | None:
        """The first kernel of a group. Cached, because each node of the group shows it."""
        if group not in self._details:
            self._details[group] = self._made(group)
        return self._details[group]

    def _made(self, group: Node) -> KernelDetail | None:
        plan, specs = self.plan(group), self.specs(group)
        if plan is None or not specs:
            return None
        spec = specs[0]
        # equal kernels may come from nodes in another order, and lines refer to nodes by position
        key = (spec, tuple(step.node for step in spec.instructions))
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = self._cpu.source(spec)
        nodes = group.blocks[0].nodes
        return KernelDetail(
            name=text.name, language=text.language, source=text.text,
            line_nodes=[0 if line == NO_NODE else nodes[line].id for line in text.line_nodes], shared_by=self.shared_by[spec],
            launched=_launched(plan),
        )  # fmt: skip

    def text(self, group: Node, language: str) -> KernelText:
        """The first kernel of a group that has one, in a language that details do not have, generated on request, with the facts of
        the device that runs it; what cannot be generated on this machine says what is missing. Raises UnknownName."""
        if language not in LANGUAGES:
            raise UnknownName(f"there is no language {language!r}", hint=f"the languages are {', '.join(LANGUAGES)}")
        try:
            if not self.specs(group):
                raise CodegenError("irscope has no kernel for this group", hint="its ops run in the library")
            if language in ("llvm", "assembly"):
                return self._of_processor(self.specs(group)[0], language)
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
        spec, nodes = self.specs(group)[0], group.blocks[0].nodes
        key = (spec, tuple(step.node for step in spec.instructions))
        kernel = self._for_gpu.get(key)
        if kernel is None:
            plan = self.plan(group)
            assert plan is not None, "asked of groups that have kernels"
            kernel = self._for_gpu[key] = self._gpu.kernels_of(plan)[0]
        made = {"cuda": lambda: kernel.source, "ptx": lambda: kernel.ptx, "sass": lambda: kernel.sass}[language]()
        owners = [0 if line == NO_NODE else nodes[line].id for line in made.line_nodes]
        return KernelText(**_kernel_text(language, made.text, kernel.facts) | {"line_nodes": owners})

    @cached_property
    def _gpu(self) -> "CudaDevice":
        from irscope.runtime.cuda import CudaDevice  # about a second, if CuPy is installed

        return CudaDevice()


def _kernel_text(language: str, source: str, facts: KernelFacts) -> KernelText:
    return KernelText(
        language=language, source=source, origins=[], line_nodes=[], hot=[],
        facts=[list(row) for row in facts.rows], because=facts.because, trouble="",
    )  # fmt: skip


_NEAR: Final = 1 << 20  # Bytes that fit into the caches of one core.
_CALL: Final = 1e-6  # Seconds to launch a kernel.


def _launched(plan: LaunchPlan) -> str:
    launch = plan.launches[0]
    seconds = estimated_seconds(launch, GENERIC.vector_bytes)
    meaning = ""
    if seconds < _CALL:
        meaning = "; to start the kernel takes longer than that. The figures below are for larger tensors"
    elif launch.bytes_moved <= _NEAR:
        meaning = ", which fit in a core's own caches. The figures below are for larger tensors"
    first = f", the first of {len(plan.launches)} kernels" if len(plan.launches) > 1 else ""
    return f"in this group it runs over {plural(launch.elements, 'point')} and moves {byte_count(launch.bytes_moved)}{first}{meaning}"
