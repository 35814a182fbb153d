"""The text of a pointwise kernel: nested loops, the innermost over vectors written out as vectors.

A row whose length is not a multiple of the vector ends with a vector that overlaps the one before; a row shorter than
one vector goes through a buffer on the stack. So there is one copy of the arithmetic and no scalar remainder loop; the
price is that **a result must not overlap an operand**.
"""

from __future__ import annotations

from irscope.codegen.element_text import MEMORY, to_memory
from irscope.codegen.kernel_spec import STRIDED, KernelSpec
from irscope.codegen.llvm_kernel import KernelText
from irscope.codegen.llvm_target import Target
from irscope.codegen.loop_nest import loop_nest
from irscope.codegen.source import NO_NODE

__all__ = ["PointwiseKernel"]


class PointwiseKernel(KernelText):
    """Every instruction as far out as its operands allow."""

    def __init__(self, spec: KernelSpec, target: Target, width: int) -> None:
        super().__init__(spec, target, width)
        self.nest = loop_nest(spec)
        self.lane_steps: dict[int, str] = {}
        """How far apart the lanes of a tensor lie, where they do not lie side by side."""

    def write(self) -> None:
        """All loops."""
        self.buffers()
        with self.outer_loops(self.nest.stages[: self.spec.rank]):
            self._row()

    def lane_step(self, slot: int) -> str | None:
        """How far apart the lanes lie: side by side in the buffer of a short row."""
        return self.lane_steps.get(slot)

    # -- the innermost loop -------------------------------------------------------------------------------------------

    def _row(self) -> None:
        """One run of the innermost loop, over a buffer on the stack if it is shorter than a vector."""
        body, length, width = self.body, self.sizes[-1], self.width
        for index in self.nest.carried:
            self.splat(index)
        before = body.block
        short = body.value(f"icmp slt i64 {length}, {width}")
        last = body.value(f"sub i64 {length}, {width}")
        body.add(f"br i1 {short}, label %fill, label %start, !prof !1")
        body.label("fill")
        mask = self.lanes_below(length)
        for slot in self.moving:
            if slot >= self.first_input and slot not in self.indexes:
                self._fill(slot, length, mask)
        filled = body.block
        body.add("br label %start")
        body.label("start")
        bases = {
            slot: self._either(f"ptr [{self.pointers[slot]}, %{before}], [%buffer{slot}, %{filled}]")
            for slot in self.moving
            if slot not in self.indexes
        } | {slot: self.pointers[slot] for slot in self.indexes if slot in self.moving}
        steps = {
            slot: self._either(f"i64 [{self.strides[slot, self.spec.rank - 1]}, %{before}], [1, %{filled}]")
            for slot in self.moving
            if self.patterns[slot][-1] == STRIDED and slot not in self.indexes
        }
        self.lane_steps = steps | {slot: step for slot in self.indexes if (step := KernelText.lane_step(self, slot))}
        last = self._either(f"i64 [{last}, %{before}], [0, %{filled}]")
        self._vectors(bases, last)
        body.add(f"br i1 {short}, label %drain, label %end, !prof !1")
        body.label("drain")
        mask = self.lanes_below(length)
        for slot in self.moving:
            if slot < self.first_input:
                self._drain(slot, length, mask)
        body.add("br label %end")
        body.label("end")

    def _either(self, text: str) -> str:
        return self.body.value(f"phi {text}")

    def _fill(self, slot: int, length: str, mask: str) -> None:
        """Copy a short row to the buffer. A whole vector is stored, so that the load behind it need not wait."""
        row = self.load_some(slot, self.pointers[slot], super().lane_step(slot), length, mask)
        kind = self.vector.type(MEMORY[self.dtypes[slot]])
        self.body.add(f"store {kind} {row}, ptr %buffer{slot}, align {self.target.vector_bytes}")

    def _drain(self, slot: int, length: str, mask: str) -> None:
        """Copy a short row from the buffer."""
        kind = self.vector.type(MEMORY[self.dtypes[slot]])
        row = self.body.value(f"load {kind}, ptr %buffer{slot}, align {self.target.vector_bytes}")
        self.store_some(slot, row, self.pointers[slot], super().lane_step(slot), length, mask)

    def _vectors(self, bases: dict[int, str], last: str) -> None:
        """The loop over vectors; the last one starts at `last` and may overlap the one before."""
        body, before = self.body, self.body.block
        body.add("br label %vector")
        body.label("vector")
        index, following = "%i", "%i.next"
        body.add(f"{index} = phi i64 [0, %{before}], [{following}, %latch]")
        self.places = {slot: self.at(slot, base, index, self.lane_steps.get(slot)) for slot, base in bases.items()}
        for code in self.nest.stages[self.spec.rank]:
            self.instruction(code, self.vector)
        for slot, result in enumerate(self.spec.outputs):
            body.node = self.spec.instructions[result.instruction].node
            stored = to_memory(
                self.vector,
                self.operand(result.instruction, self.vector),
                result.dtype,
                native_half=self.target.native_half,
            )
            self.store(slot, stored, streaming=self.spec.nontemporal)
        body.node = NO_NODE
        body.add("br label %latch")
        body.label("latch")
        further = body.value(f"add i64 {index}, {self.width}")
        inside = body.value(f"icmp slt i64 {further}, {last}")
        body.add(f"{following} = select i1 {inside}, i64 {further}, i64 {last}")
        more = body.value(f"icmp slt i64 {index}, {last}")
        body.add(f"br i1 {more}, label %vector, label %finish")
        body.label("finish")
