"""The text of a kernel for CUDA: C++ without any header, which NVRTC compiles with no include directory.

A kernel has one or two entries. `<name>` takes any strides and alignment. `<name>_vector` moves 16 bytes of the widest
tensor at a time, and exists when the schedule has vectors; the launcher may use it when pointers are aligned to whole
vectors (`alignments`). The kernel's name is that of the spec, followed by a code for its schedule.
"""

from __future__ import annotations

from collections.abc import Iterable

from irscope.codegen.cuda.half_precision import HALF_HELPERS
from irscope.codegen.cuda.instruction_text import HELPERS
from irscope.codegen.cuda.pointwise import PointsText
from irscope.codegen.cuda.reduction import RowsText
from irscope.codegen.cuda.reduction_text import JOIN_HELPERS
from irscope.codegen.cuda.schedule import BLOCK, Schedule, likely_schedule, stride_arguments, vector_lanes
from irscope.codegen.kernel import KernelSpec, Lines, SourceText

__all__ = ["BLOCK", "emit_cuda", "emit_module", "entry_names", "kernel_name", "stride_arguments", "vector_lanes"]


def kernel_name(spec: KernelSpec, schedule: Schedule) -> str:
    """Return the symbol of the entry that takes any alignment."""
    return f"{spec.name}_{schedule.code}"


def entry_names(spec: KernelSpec, schedule: Schedule) -> tuple[str, ...]:
    """Return the symbols of the entries, the one for any alignment first."""
    name = kernel_name(spec, schedule)
    return (name, f"{name}_vector") if schedule.width > 1 else (name,)


def emit_cuda(spec: KernelSpec, schedule: Schedule | None = None) -> SourceText:
    """Return the kernel as CUDA C++ text with all its entries; for a likely schedule if none is given."""
    schedule = likely_schedule(spec) if schedule is None else schedule
    helpers: set[str] = set()
    lines = _entries(spec, schedule, helpers)
    whole = _head(helpers)
    whole.extend(lines)
    return whole.source(kernel_name(spec, schedule), "cuda")


def emit_module(kernels: Iterable[tuple[KernelSpec, Schedule]]) -> str:
    """Return the text of several kernels, which compile faster together than one by one."""
    helpers: set[str] = set()
    parts = [_entries(spec, schedule, helpers) for spec, schedule in dict.fromkeys(kernels)]
    whole = _head(helpers)
    for lines in parts:
        whole.extend(lines)
    return whole.source("module", "cuda").text


def _head(helpers: set[str]) -> Lines:
    head = Lines()
    head.add("typedef long long i64;")
    known = {**HELPERS, **HALF_HELPERS, **JOIN_HELPERS}
    if helpers & {"load_once", "store_past"}:
        helpers.add("Pack")
    for name, text in known.items():
        if name in helpers:
            head.add(text)
    return head


def _entries(spec: KernelSpec, schedule: Schedule, helpers: set[str]) -> Lines:
    """Emit the entries. In the one for single elements, each thread has as many elements as its vectors hold if the row is held,
    else as many as it has vectors."""
    kind = RowsText if spec.reduced else PointsText
    name = kernel_name(spec, schedule)
    single = kind(spec, schedule, 1, schedule.repeat * (schedule.width if schedule.held else 1), helpers)
    single.write(name)
    lines = single.lines
    if schedule.width > 1:
        vector = kind(spec, schedule, schedule.width, schedule.repeat, helpers)
        vector.write(f"{name}_vector")
        lines.extend(vector.lines)
    return lines
