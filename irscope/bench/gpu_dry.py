"""The kernels of the suite `gpu` without a GPU: every text is generated, and compiled where NVRTC is available."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from irscope.bench.cases import CASES, Case
from irscope.codegen.kernel import LaunchPlan
from irscope.codegen.lowering import spec_of_group
from irscope.errors import IrscopeError
from irscope.ir import Graph, TensorType
from irscope.runtime.cuda import CudaDevice, CudaKernel
from irscope.runtime.machine import describe

__all__ = ["DTYPES", "dry_run", "plans_of", "programs"]

DTYPES: Final = ("float32", "bfloat16")
_ARCHITECTURES: Final = ("80", "90", "100")


def dry_run(names: Sequence[str] = (), say: Callable[[str], object] = print) -> dict[str, Any]:
    """Generates the text of every kernel of the suite; compiles each for three architectures where NVRTC is available."""
    device = CudaDevice()
    runs: list[dict[str, Any]] = []
    nvrtc = ""
    for case, dtype, graph in programs(names):
        for plan in plans_of(graph):
            try:
                made = [device.kernels_of(plan, architecture=architecture) for architecture in _ARCHITECTURES]
            except IrscopeError as error:
                runs.append({"case": case.name, "dtype": dtype, "error": error.what})
                continue
            each = zip(*made, strict=True)
            runs += [{"case": case.name, "dtype": dtype, **_looked_at(kernels)} for kernels in each]
    failed = [run for run in runs if run.get("error")]
    compiled = sum("registers" in run for run in runs)
    spilled = sum(any(run.get("spill_bytes", {}).values()) for run in runs)
    most = max((count for run in runs for count in run.get("registers", {}).values()), default=0)
    if not compiled:
        nvrtc = _nvrtc_trouble(device)
    found = f", {spilled} spill registers, {most} registers at most" if compiled else ""
    say(
        f"{len(runs)} kernels generated for sm_{', sm_'.join(_ARCHITECTURES)}, {compiled} compiled, {len(failed)} failed"
        f"{found}"
    )
    for run in failed:
        say(f"  {run['case']} {run['dtype']}: {run['error']}")
    if nvrtc:
        say(f"nothing was compiled: {nvrtc}")
    return {"suite": "gpu", "dry": True, "machine": describe(), "runs": runs}


def programs(names: Sequence[str], size: int = 1 << 20) -> Iterator[tuple[Case, str, Graph]]:
    """Yields every case in every element type, for about `size` elements: large ones bypass the caches."""
    from irscope.analysis.shapes import infer, refine
    from irscope.ir.text import parse

    for case in CASES:
        if names and case.name not in names:
            continue
        for dtype in DTYPES:
            graph = parse(case.group_text)
            types = [TensorType(dtype, shape, _row_major(shape)) for shape in case.shapes(size)]
            known = dict(zip(graph.inputs, types, strict=True))
            yield case, dtype, refine(graph, infer(graph, known, strict=True))


def plans_of(graph: Graph) -> Iterator[LaunchPlan]:
    for node in graph.nodes():
        if node.op == "prim::FusionGroup":
            yield spec_of_group(node, [value.type for value in node.inputs])


def _looked_at(kernels: Sequence[CudaKernel]) -> dict[str, Any]:
    """Returns the record of one kernel, compiled for each architecture if possible."""
    found: dict[str, Any] = {"kernel": kernels[0].name, "lines": kernels[0].source.text.count("\n")}
    if all(kernel.resources for kernel in kernels):
        found["registers"] = {kernel.architecture: kernel.registers for kernel in kernels}
        found["spill_bytes"] = {kernel.architecture: kernel.spill_bytes for kernel in kernels}
        found["pace"] = kernels[1].pace().because
    return found


def _nvrtc_trouble(device: CudaDevice) -> str:
    """Returns the reason why nothing can be compiled."""
    try:
        device.compiler.version()
    except IrscopeError as error:
        return f"{error.what} ({error.hint})" if error.hint else error.what
    return ""


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))
