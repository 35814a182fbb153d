"""The text of a pointwise kernel: nested loops, the innermost over vectors in LLVM's vector types.

A row whose length is not a multiple of the vector ends with a vector that overlaps the one before. A row that turns out
shorter than one vector goes through a buffer on the stack; where all rows are known to be short, each is one masked vector.
So there is no scalar remainder loop, and only one copy of the arithmetic, except for light work on short rows. The price is that
**a result must not overlap an operand**. Where it may (`KernelSpec.in_place`), a row is split in two: whole vectors, and the rest,
which is shorter than one and goes through the buffer.
"""

from __future__ import annotations

from typing import Final

from irscope.codegen.kernel import STRIDED
from irscope.codegen.kernel.loop_nest import loop_nest
from irscope.codegen.llvm.instructions import instruction, outer_loops, splat, stored
from irscope.codegen.llvm.kernel_builder import KernelBuilder
from irscope.codegen.llvm.load_store import load_some, store, store_some
from irscope.codegen.llvm.rematerialize import weight
from irscope.codegen.simd import MEMORY

__all__ = ["PointwiseKernel"]

_LIGHT: Final = 60
"""LLVM instructions per point up to which the kernel is memory-bound."""


class PointwiseKernel:
    """A pointwise kernel, with every instruction as far out as its operands allow."""

    def __init__(self, k: KernelBuilder) -> None:
        self.k, self.spec, self.body, self.vector = k, k.spec, k.body, k.vector
        self.nest = loop_nest(k.spec)

    def write(self) -> None:
        """Emit all loops."""
        self.k.buffers()
        if self.spec.rank > 1 and 0 < self.spec.row_limit <= self.k.width:
            self._short_rows()
            return
        with outer_loops(self.k, self.nest.stages[: self.spec.rank]):
            if self.spec.in_place:
                self._row_in_two_parts()
            else:
                self._row()

    # -- rows of one vector -------------------------------------------------------------------------------------------

    def _short_rows(self) -> None:
        """Emit the last two loops where a row is shorter than a vector: rows that can be read as whole vectors, then the last ones
        under the mask. With much work per point, all are read under the mask, so that the arithmetic is emitted once."""
        length, rank = self.k.sizes[-1], self.spec.rank
        with (
            self.body.only_if(self.body.value(f"icmp sgt i64 {length}, 0")),
            outer_loops(self.k, self.nest.stages[: rank - 1]),
        ):
            self.k.some = (length, self.k.lanes_below(length))
            size, pointers, values = self.k.sizes[rank - 2], self.k.pointers, self.k.values
            safe = self.k.rows_before_the_last(size) if self._is_light() else "0"
            parts = [("0", safe, self.k.followed(rank - 2))] if safe != "0" else []
            for start, stop, whole in (*parts, (safe, size, frozenset[int]())):
                with self.body.loop(stop, start=start) as row:
                    self.k.whole, self.k.pointers, self.k.values = whole, dict(pointers), dict(values)
                    self.k.advance(rank - 2, row.index)
                    self._short_row()
            self.k.whole, self.k.pointers, self.k.values = frozenset(), pointers, values

    def _is_light(self) -> bool:
        return weight(self.spec.instructions) <= _LIGHT

    def _short_row(self) -> None:
        for index in self.nest.stages[-2]:
            instruction(self.k, index, self.k.scalar)
        for index in self.nest.carried:
            splat(self.k, index)
        self.k.places = {slot: self.k.pointers[slot] for slot in self.k.moving}
        self._body()

    def _row_in_two_parts(self) -> None:
        """Emit a row in which no point is computed twice: the points that fill whole vectors, then the rest."""
        body, length, pointers, values = self.body, self.k.sizes[-1], self.k.pointers, self.k.values
        rest = body.value(f"and i64 {length}, {self.k.width - 1}")
        whole = body.value(f"sub i64 {length}, {rest}")
        with body.loop("2") as part:
            is_first = body.value(f"icmp eq i64 {part.index}, 0")
            size = body.value(f"select i1 {is_first}, i64 {whole}, i64 {rest}")
            with body.only_if(body.value(f"icmp sgt i64 {size}, 0")):
                self.k.pointers, self.k.values, self.k.sizes[-1] = dict(pointers), dict(values), size
                self.k.advance(self.spec.rank - 1, body.value(f"select i1 {is_first}, i64 0, i64 {whole}"))
                self._row()
        self.k.pointers, self.k.values, self.k.sizes[-1] = pointers, values, length

    # -- the innermost loop -------------------------------------------------------------------------------------------

    def _row(self) -> None:
        """Emit the innermost loop, which goes through a buffer on the stack if it is shorter than a vector."""
        body, length, width, apart = self.body, self.k.sizes[-1], self.k.width, self.k.lane_steps
        for index in self.nest.carried:
            splat(self.k, index)
        before = body.block
        short = body.value(f"icmp slt i64 {length}, {width}")
        last = body.value(f"sub i64 {length}, {width}")
        body.add(f"br i1 {short}, label %fill, label %start, !prof !1")
        body.label("fill")
        mask = self.k.lanes_below(length)
        for slot in self.k.moving:
            if slot >= self.k.first_input and slot not in self.k.indexes:
                self._fill(slot, apart.get(slot), length, mask)
        filled = body.block
        body.add("br label %start")
        body.label("start")
        bases = {
            slot: self._phi(f"ptr [{self.k.pointers[slot]}, %{before}], [%buffer{slot}, %{filled}]")
            for slot in self.k.moving
            if slot not in self.k.indexes
        } | {slot: self.k.pointers[slot] for slot in self.k.indexes if slot in self.k.moving}
        steps = {
            slot: self._phi(f"i64 [{self.k.strides[slot, self.spec.rank - 1]}, %{before}], [1, %{filled}]")
            for slot in self.k.moving
            if self.k.patterns[slot][-1] == STRIDED and slot not in self.k.indexes
        }
        self.k.lane_steps = steps | {slot: apart[slot] for slot in self.k.indexes if slot in apart}
        last = self._phi(f"i64 [{last}, %{before}], [0, %{filled}]")
        self._vectors(bases, last)
        body.add(f"br i1 {short}, label %drain, label %end, !prof !1")
        body.label("drain")
        mask = self.k.lanes_below(length)
        for slot in self.k.moving:
            if slot < self.k.first_input:
                self._drain(slot, apart.get(slot), length, mask)
        body.add("br label %end")
        body.label("end")

    def _phi(self, text: str) -> str:
        return self.body.value(f"phi {text}")

    def _fill(self, slot: int, step: str | None, length: str, mask: str) -> None:
        """Copy a short row to the buffer. A whole vector is stored, so that the load after it does not stall."""
        row = load_some(self.k, slot, self.k.pointers[slot], step, length, mask)
        kind = self.vector.type(MEMORY[self.k.dtypes[slot]])
        self.body.add(f"store {kind} {row}, ptr %buffer{slot}, align {self.k.target.vector_bytes}")

    def _drain(self, slot: int, step: str | None, length: str, mask: str) -> None:
        """Copy a short row from the buffer."""
        kind = self.vector.type(MEMORY[self.k.dtypes[slot]])
        row = self.body.value(f"load {kind}, ptr %buffer{slot}, align {self.k.target.vector_bytes}")
        store_some(self.k, slot, row, self.k.pointers[slot], step, length, mask)

    def _vectors(self, bases: dict[int, str], last: str) -> None:
        """Emit the loop over vectors; the last one starts at `last` and may overlap the one before."""
        body, before = self.body, self.body.block
        body.add("br label %vector")
        body.label("vector")
        index, following = "%i", "%i.next"
        body.add(f"{index} = phi i64 [0, %{before}], [{following}, %latch]")
        self.k.places = {
            slot: self.k.at(slot, base, index, self.k.lane_steps.get(slot)) for slot, base in bases.items()
        }
        self._body()
        body.add("br label %latch")
        body.label("latch")
        further = body.value(f"add i64 {index}, {self.k.width}")
        inside = body.value(f"icmp slt i64 {further}, {last}")
        body.add(f"{following} = select i1 {inside}, i64 {further}, i64 {last}")
        more = body.value(f"icmp slt i64 {index}, {last}")
        body.add(f"br i1 {more}, label %vector, label %finish")
        body.label("finish")

    def _body(self) -> None:
        """Emit what is computed and written in the lanes of a vector."""
        for code in self.nest.stages[self.spec.rank]:
            instruction(self.k, code, self.vector)
        for slot, result in enumerate(self.spec.outputs):
            with self.body.written_for(self.spec.instructions[result.instruction].node):
                store(self.k, slot, stored(self.k, slot, self.vector), streaming=self.spec.nontemporal)
