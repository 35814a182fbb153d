"""The text of a kernel for CUDA: C++ without any header, which NVRTC compiles with no include directory.

A kernel has one or two entries. `<name>` takes any strides and alignment. `<name>_vector` moves 16 bytes of the widest
tensor at a time, and exists when the schedule has vectors; the launcher may use it when pointers are aligned to whole
vectors (`alignments`). The kernel's name is that of the spec, followed by a code for its schedule.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from irscope.codegen.cuda.instruction_text import HALF_HELPERS, HELPERS, REGISTER
from irscope.codegen.cuda.kernel_base import EntryText
from irscope.codegen.cuda.reduction import JOIN_HELPERS, ReductionText
from irscope.codegen.cuda.schedule import BLOCK, Schedule, likely_schedule
from irscope.codegen.kernel import KernelSpec, Lines, SourceText

# The CUDA entries of a pointwise kernel: each thread has some vectors, and loads all of them before any arithmetic.


class PointsText(EntryText):
    """An entry in which thread `t` of a block computes the vectors `t`, `t + 256`, … of the block."""

    def write(self, name: str) -> None:
        """Emit the whole entry."""
        spec, width = self.spec, self.width
        count = "i64" if self.schedule.wide else "unsigned"
        extents = [f"({count})n{loop}" for loop in range(spec.rank)]
        inner = extents[-1] if width == 1 else f"({extents[-1]} / {width}u)"
        extents[-1] = inner
        moving = [i for i, operand in enumerate(spec.inputs) if operand.kind == "tensor"]
        with self.entry(name):
            self.add(f"const {self.step} first = ({self.step})blockIdx.x * {BLOCK * self.repeat} + threadIdx.x;")
            self.add(f"const {self.step} points = ({self.step})({' * '.join(extents)});")
            for i in moving:
                self.add(f"{self.memory_type(self.first_input + i)} v{i}[{self.repeat}];")
            with self._each_vector(inner):
                for i in moving:
                    slot = self.first_input + i
                    self.add(f"v{i}[u] = {self.loaded(slot, self._place(slot), f'x{i}')};")
            with self._each_vector(inner):
                self._name_operands(moving, "v{}[u]")
                self._elements()
            if width > 1 and spec.rank == 1:
                self._remainder(moving)

    @contextmanager
    def _each_vector(self, inner: str) -> Iterator[None]:
        """Emit a loop over the vectors of a thread, with the steps of the loops of each."""
        with self.braces(f"for (int u = 0; u < {self.repeat}; u++) if (first + u * {BLOCK} < points)", unrolled=True):
            self.add(f"const {self.step} point = first + u * {BLOCK};")
            self.split_steps(range(self.spec.rank), "point", inner)
            yield

    def _place(self, slot: int) -> str:
        """Return where a thread's elements start; the innermost loop counts vectors."""
        rank = self.spec.rank
        outer = self.offset(slot, range(rank - 1))
        if self.width == 1 or not self.is_vector(slot):
            return self.offset(slot, range(rank))
        return f"{outer} + i{rank - 1} * {self.width}"

    def _name_operands(self, moving: list[int], word: str) -> None:
        """Name the operands' values in registers; `word` is that of a loaded operand, with a place for its number."""
        for index, code in enumerate(self.spec.instructions):
            if code.op != "input":
                continue
            slot = self.first_input + code.operand
            if code.operand in moving:
                self.names[index] = self.in_register(slot, word.format(code.value))
            elif self.tensors[slot].pattern:
                self.names[index] = f"(x{code.value} + {self._index(slot)})"
            else:
                self.names[index] = self.scalar_value(slot)

    def _index(self, slot: int) -> str:
        rank = self.spec.rank
        if self.width == 1:
            return self.offset(slot, range(rank))
        stride = self.tensors[slot].pattern[-1]
        inner = {0: "0", 1: f"i{rank - 1} * {self.width} + e"}.get(stride, f"(i{rank - 1} * {self.width} + e) * s{slot}_{rank - 1}")
        return f"{self.offset(slot, range(rank - 1))} + {inner}"

    def _elements(self) -> None:
        """Emit the computation of a vector and its store."""
        outputs = range(len(self.spec.outputs))
        for slot in outputs:
            self.declare_word(slot)
        with self.each_element():
            for index, code in enumerate(self.spec.instructions):
                if code.op not in ("input", "const"):
                    self.add(f"const {REGISTER[code.dtype]} t{index} = {self.value_text(index)};", node=code.node)
                    self.names[index] = f"t{index}"
            for slot in outputs:
                self.set_word(slot)
        for slot in outputs:
            self.store_word(slot, f"y{slot} + {self._place(slot)}")

    def _remainder(self, moving: list[int]) -> None:
        """Emit the elements after the last whole vector of the only loop, computed by the first threads of the first block."""
        width, self.width = self.width, 1
        with self.braces(f"if (blockIdx.x == 0 && threadIdx.x < n0 % {width})"):
            self.add(f"const {self.step} i0 = n0 / {width} * {width} + threadIdx.x;")
            for i in moving:
                slot = self.first_input + i
                self.add(f"const {self.memory_type(slot)} b{i} = {self.loaded(slot, self._place(slot), f'x{i}')};")
            self._name_operands(moving, "b{}")
            self._elements()
        self.width = width


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
    return _module([(spec, schedule)]).source(kernel_name(spec, schedule), "cuda")


def emit_module(kernels: Iterable[tuple[KernelSpec, Schedule]]) -> str:
    """Return the text of several kernels, which compile faster together than one by one."""
    return _module(dict.fromkeys(kernels)).source("module", "cuda").text


def _module(kernels: Iterable[tuple[KernelSpec, Schedule]]) -> Lines:
    """Return the helper functions that kernels use, then the kernels."""
    helpers: set[str] = set()
    parts = [_entries(spec, schedule, helpers) for spec, schedule in kernels]
    whole = Lines()
    whole.add("typedef long long i64;")
    if helpers & {"load_once", "store_past"}:
        helpers.add("Pack")
    for name, text in {**HELPERS, **HALF_HELPERS, **JOIN_HELPERS}.items():
        if name in helpers:
            whole.add(text)
    for lines in parts:
        whole.extend(lines)
    return whole


def _entries(spec: KernelSpec, schedule: Schedule, helpers: set[str]) -> Lines:
    """Emit the entries. In the one for single elements, each thread has as many elements as its vectors hold if the row is held,
    else as many as it has vectors."""
    kind = ReductionText if spec.reduced else PointsText
    name = kernel_name(spec, schedule)
    single = kind(spec, schedule, 1, schedule.repeat * (schedule.width if schedule.held else 1), helpers)
    single.write(name)
    lines = single.lines
    if schedule.width > 1:
        vector = kind(spec, schedule, schedule.width, schedule.repeat, helpers)
        vector.write(f"{name}_vector")
        lines.extend(vector.lines)
    return lines
