"""The CUDA entries of a pointwise kernel: each thread has some vectors, and loads all of them before any arithmetic."""

from __future__ import annotations

from contextlib import AbstractContextManager

from irscope.codegen.cuda.instruction_text import REGISTER
from irscope.codegen.cuda.kernel_base import EntryText
from irscope.codegen.cuda.schedule import BLOCK

__all__ = ["PointsText"]


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
            with self._each_vector():
                self._steps(inner)
                for i in moving:
                    slot = self.first_input + i
                    self.add(f"v{i}[u] = {self.loaded(slot, self._place(slot), f'x{i}')};")
            with self._each_vector():
                self._steps(inner)
                self._values(moving, "[u]")
                self._elements()
            if width > 1 and spec.rank == 1:
                self._remainder(moving)

    def _each_vector(self) -> AbstractContextManager[None]:
        return self.braces(f"for (int u = 0; u < {self.repeat}; u++) if (first + u * {BLOCK} < points)", unrolled=True)

    def _steps(self, inner: str) -> None:
        rank = self.spec.rank
        self.add(f"const {self.step} point = first + u * {BLOCK};")
        self.split_steps(range(rank), "point", inner)

    def _place(self, slot: int) -> str:
        """Return where a thread's elements start; the innermost loop counts vectors."""
        rank = self.spec.rank
        outer = self.offset(slot, range(rank - 1))
        if self.width == 1 or not self.is_vector(slot):
            return self.offset(slot, range(rank))
        return f"{outer} + i{rank - 1} * {self.width}"

    def _values(self, moving: list[int], at: str) -> None:
        """Name the operands' values in registers."""
        for index, code in enumerate(self.spec.instructions):
            if code.op != "input":
                continue
            assert code.value is not None
            slot = self.first_input + code.value
            if code.value in moving:
                self.names[index] = self.in_register(slot, f"v{code.value}{at}")
            elif self.tensors[slot].pattern:
                self.names[index] = f"(x{code.value} + {self._index(slot)})"
            else:
                self.names[index] = self.scalar_value(slot)

    def _index(self, slot: int) -> str:
        rank = self.spec.rank
        if self.width == 1:
            return self.offset(slot, range(rank))
        stride = self.tensors[slot].pattern[-1]
        inner = {0: "0", 1: f"i{rank - 1} * {self.width} + e"}.get(
            stride, f"(i{rank - 1} * {self.width} + e) * s{slot}_{rank - 1}"
        )
        return f"{self.offset(slot, range(rank - 1))} + {inner}"

    def _elements(self) -> None:
        """Emit the computation of a vector and its store."""
        outputs = range(len(self.spec.outputs))
        for slot in outputs:
            self.declare_word(slot)
        if self.width > 1:
            with self.braces(f"for (int e = 0; e < {self.width}; e++)", unrolled=True):
                self._element()
        else:
            self._element()
        for slot in outputs:
            self.store_word(slot, f"y{slot} + {self._place(slot)}")

    def _element(self) -> None:
        for index, code in enumerate(self.spec.instructions):
            if code.op in ("input", "const"):
                continue
            self.add(f"const {REGISTER[code.dtype]} t{index} = {self.value_text(index)};", node=code.node)
            self.names[index] = f"t{index}"
        for slot in range(len(self.spec.outputs)):
            self.set_word(slot)

    def _remainder(self, moving: list[int]) -> None:
        """Emit the elements after the last whole vector of the only loop, computed by the first threads of the first block."""
        width, self.width = self.width, 1
        with self.braces(f"if (blockIdx.x == 0 && threadIdx.x < n0 % {width})"):
            self.add(f"const {self.step} i0 = n0 / {width} * {width} + threadIdx.x;")
            for i in moving:
                slot = self.first_input + i
                self.add(f"const {self.memory_type(slot)} b{i} = {self.loaded(slot, self._place(slot), f'x{i}')};")
            for index, code in enumerate(self.spec.instructions):
                if code.op == "input" and code.value in moving:
                    self.names[index] = self.in_register(self.first_input + code.value, f"b{code.value}")
                elif code.op == "input" and code.value is not None and self.spec.inputs[code.value].pattern:
                    self.names[index] = f"(x{code.value} + {self._index(self.first_input + code.value)})"
            self._elements()
        self.width = width
