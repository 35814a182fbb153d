"""The text of a pointwise kernel: nested loops, the innermost over vectors written out as vectors.

A row whose length is not a multiple of the vector ends with a vector that overlaps the one before; a row that turns out
shorter than one vector goes through a buffer on the stack, and where all are known to be, each is one vector and a mask.
So there is no scalar remainder loop, and but for light work on short rows one copy of the arithmetic; the price is that
**a result must not overlap an operand**.
"""

from __future__ import annotations

from typing import Final

from irscope.codegen.kernel import STRIDED, KernelSpec
from irscope.codegen.kernel.loop_nest import loop_nest
from irscope.codegen.llvm.kernel_base import KernelText
from irscope.codegen.llvm.rematerialize import WEIGHT
from irscope.codegen.llvm.target import Target
from irscope.codegen.simd import MEMORY, to_memory

__all__ = ["PointwiseKernel"]

_LIGHT: Final = 60
"""Instructions of LLVM at a point up to which memory sets the pace."""


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
        if self.spec.rank > 1 and 0 < self.spec.row_limit <= self.width:
            self._short_rows()
            return
        with self.outer_loops(self.nest.stages[: self.spec.rank]):
            self._row()

    def lane_step(self, slot: int) -> str | None:
        """How far apart the lanes lie: side by side in the buffer of a short row."""
        return self.lane_steps.get(slot)

    # -- rows of one vector -------------------------------------------------------------------------------------------

    def _short_rows(self) -> None:
        """The last loops where a row is less than a vector: rows that are read with what follows them, then the last ones;
        where much is done at a point, all are read under the mask, and the arithmetic is written once."""
        length, rank = self.sizes[-1], self.spec.rank
        with self.only_if(self.body.value(f"icmp sgt i64 {length}, 0")), self.outer_loops(self.nest.stages[: rank - 1]):
            self.some = (length, self.lanes_below(length))
            size, pointers, values = self.sizes[rank - 2], self.pointers, self.values
            safe = self.rows_before_the_last(size) if self._is_light() else "0"
            parts = [("0", safe, self.followed(rank - 2))] if safe != "0" else []
            for start, stop, whole in (*parts, (safe, size, frozenset[int]())):
                with self.loop(stop, start=start) as row:
                    self.whole, self.pointers, self.values = whole, dict(pointers), dict(values)
                    self.advance(rank - 2, row.index)
                    self._short_row()
            self.whole, self.pointers, self.values = frozenset(), pointers, values

    def _is_light(self) -> bool:
        return sum(WEIGHT.get(code.op, 1) for code in self.spec.instructions) <= _LIGHT

    def _short_row(self) -> None:
        for index in self.nest.stages[-2]:
            self.instruction(index, self.scalar)
        for index in self.nest.carried:
            self.splat(index)
        self.lane_steps = {slot: step for slot in self.moving if (step := KernelText.lane_step(self, slot)) is not None}
        self.places = {slot: self.pointers[slot] for slot in self.moving}
        self._body()

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
        self._body()
        body.add("br label %latch")
        body.label("latch")
        further = body.value(f"add i64 {index}, {self.width}")
        inside = body.value(f"icmp slt i64 {further}, {last}")
        body.add(f"{following} = select i1 {inside}, i64 {further}, i64 {last}")
        more = body.value(f"icmp slt i64 {index}, {last}")
        body.add(f"br i1 {more}, label %vector, label %finish")
        body.label("finish")

    def _body(self) -> None:
        """What is computed and written at the lanes of a vector."""
        for code in self.nest.stages[self.spec.rank]:
            self.instruction(code, self.vector)
        for slot, result in enumerate(self.spec.outputs):
            with self.written_for(self.spec.instructions[result.instruction].node):
                value = self.operand(result.instruction, self.vector)
                stored = to_memory(self.vector, value, result.dtype, native_half=self.target.native_half)
                self.store(slot, stored, streaming=self.spec.nontemporal)
