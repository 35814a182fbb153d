"""Emits what a kernel that works row by row does at the points of one vector.

A value that is expensive and needed again in a later pass (the exponentials of a softmax) is kept: in the row of a result of its
type that is written only in that later pass, if there is one, else in a row on the stack, if rows are known to
be short enough for that.

A long row that is only reduced is read in several places at once: each register of a vector covers its own part of the row,
because the processor can then follow as many streams.
"""

from __future__ import annotations

from irscope.codegen.kernel import BROADCAST, ITEM_SIZE, NO_NODE, UNIT, Pass, reduction_nest
from irscope.codegen.llvm.instructions import instruction, stored
from irscope.codegen.llvm.kernel_builder import KernelBuilder
from irscope.codegen.llvm.load_store import load_vector, store
from irscope.codegen.llvm.rematerialize import kept_value
from irscope.codegen.simd import MEMORY, REGISTER
from irscope.ops.expr import POSITIONS

__all__ = ["RowPoints"]


class RowPoints:
    """The innermost body of a kernel whose innermost loop is reduced."""

    def __init__(self, k: KernelBuilder) -> None:
        self.k, self.spec, self.body, self.vector = k, k.spec, k.body, k.vector
        k.reader = self._read
        spec, width = k.spec, k.width
        self.kept = kept_value(spec, on_stack=True) if not 0 < spec.row_limit <= width else None
        self.nest = reduction_nest(spec, self.kept and self.kept[:3])
        self.single = len(spec.reduced) == 1 and 0 < spec.row_limit <= width
        """Whether a row is one vector, so that values computed in one pass are still in registers in the next."""
        self.apart: list[str] = []
        """While a vector is read in several places: the offset of each register from the first, in elements."""

    def make_room(self) -> None:
        """Allocate memory on the stack for a value kept there."""
        if self.kept is not None and self.kept[3] < 0:
            kind = REGISTER[self.spec.instructions[self.kept[0]].dtype]
            room = self.spec.row_limit + self.k.width
            self.body.add(f"%row = alloca [{room} x {kind}], align {self.k.target.vector_bytes}")

    def registers(self, each: Pass) -> int:
        """Return how many parts of a row a vector may cover in a pass: one per register, if nothing depends on positions."""
        codes = [self.spec.instructions[index] for index in (*each.body, *each.reductions)]
        read = [self.spec.inputs[code.value] for code in codes if code.op == "input" and code.value is not None]
        along = [operand for operand in read if operand.pattern and operand.pattern[-1] != BROADCAST]
        item = max([ITEM_SIZE[code.dtype] for code in codes] + [4])
        is_free = (
            len(self.spec.reduced) == self.spec.rank  # with many rows, few are long
            and not self.spec.row_limit
            and bool(each.reductions)
            and not each.writes
            and not any(code.op in POSITIONS for code in codes)
            and (self.kept is None or self.kept[0] not in each.body)
            and all(operand.kind == "tensor" and operand.pattern[-1] == UNIT for operand in along)
            and all(ITEM_SIZE[operand.dtype] == item for operand in along)
        )
        return self.k.width * item // self.k.target.vector_bytes if is_free else 1

    def point(self, number: int, each: Pass, index: str, some: tuple[str, str] | None) -> None:
        """Emit what is computed and written at the points of a vector."""
        k = self.k
        k.some = some
        k.places = {slot: k.at(slot, k.pointers[slot], index, k.lane_steps.get(slot)) for slot in k.moving}
        for code in each.body:
            if self.single and code in k.wide:
                continue
            if self.kept is None or code != self.kept[0]:
                instruction(k, code, self.vector)
            elif number > self.kept[1]:
                self._load_kept(code, self.kept[3], index)
            else:
                instruction(k, code, self.vector)
                self._keep(code, self.kept[3], index)
        for slot in each.writes:
            result = self.spec.outputs[slot]
            self.body.node = self.spec.instructions[result.instruction].node
            self._store(slot, stored(k, slot, self.vector))
            self.body.node = NO_NODE

    def _keep(self, code: int, slot: int, index: str) -> None:
        """Store a value for later passes; on the stack always as a whole vector."""
        if slot >= 0:
            self._store(slot, self.k.wide[code])
            return
        kind = REGISTER[self.spec.instructions[code].dtype]
        place = self.body.value(f"getelementptr {kind}, ptr %row, i64 {index}")
        self.body.add(
            f"store {self.vector.type(kind)} {self.k.wide[code]}, ptr {place}, align {self._room_alignment()}"
        )

    def _load_kept(self, code: int, slot: int, index: str) -> None:
        self.body.node = self.spec.instructions[code].node
        if slot >= 0:
            self.k.wide[code] = self._read(slot, None)
        else:
            kind = REGISTER[self.spec.instructions[code].dtype]
            place = self.body.value(f"getelementptr {kind}, ptr %row, i64 {index}")
            self.k.wide[code] = self.body.value(
                f"load {self.vector.type(kind)}, ptr {place}, align {self._room_alignment()}"
            )
        self.body.node = NO_NODE

    def _room_alignment(self) -> int:
        """Return the alignment of a kept vector: whole vectors follow one another from an aligned start."""
        assert self.kept is not None
        item = ITEM_SIZE[self.spec.instructions[self.kept[0]].dtype]
        return min(self.k.target.vector_bytes, self.k.width * max(item, 1))

    def _read(self, slot: int, step: str | None) -> str:
        """Load a vector: contiguous, or one contiguous stretch per register (`apart`), or strided."""
        if step is None and self.k.target.masks and slot in self.k.whole:
            row = load_vector(self.k, slot, step)
            # its second use keeps LLVM from folding the load into a masked instruction, which would make it a masked load again
            kind = self.vector.type(MEMORY[self.k.dtypes[slot]])
            self.body.add(f"store {kind} {row}, ptr %buffer{slot}, align {self.k.target.vector_bytes}")
            return row
        if step is not None or not self.apart:
            return load_vector(self.k, slot, step)
        kind, lanes = MEMORY[self.k.dtypes[slot]], self.k.width // len(self.apart)
        parts = []
        for offset in self.apart:
            place = self.k.at(slot, self.k.places[slot], offset, None)
            parts.append(
                self.body.value(f"load <{lanes} x {kind}>, ptr {place}, align {ITEM_SIZE[self.k.dtypes[slot]]}")
            )
        while len(parts) > 1:
            lanes *= 2
            order = ", ".join(f"i32 {lane}" for lane in range(lanes))
            half = f"<{lanes // 2} x {kind}>"
            parts = [
                self.body.value(f"shufflevector {half} {one}, {half} {other}, <{lanes} x i32> <{order}>")
                for one, other in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def _store(self, slot: int, value: str) -> None:
        again = self.kept is not None and self.kept[3] == slot
        store(self.k, slot, value, streaming=self.spec.nontemporal and not again)
