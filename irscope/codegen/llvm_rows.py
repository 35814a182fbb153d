"""The text of a kernel whose innermost loop is reduced: row by row, each row in as many passes as it needs.

A pass walks a row in whole vectors, with an accumulator in every lane, and ends with one masked vector. Every
`_CHUNK` vectors the accumulators are added to others in memory, so that the rounding errors of a long sum grow with
the number of chunks and the length of a chunk, not with their product.

A long row that is only gathered is read in several places at once: each register of a vector has a part of the row to
itself. The processor then follows as many streams, and reads memory a tenth to a fifth faster than one after the other.

What is dear to compute and needed in a later pass again (the exponentials of a softmax) is kept: in the row of a result
that is written only in that later pass, if there is one of its type; else in a row on the stack, if rows are known to
be short enough for that.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from irscope.codegen.element_text import MEMORY, REGISTER, to_memory
from irscope.codegen.gather_text import across_lanes, first_values, kinds, taken_in
from irscope.codegen.kept_value import kept_value
from irscope.codegen.kernel_spec import BROADCAST, ITEM_SIZE, UNIT, KernelSpec
from irscope.codegen.llvm_kernel import KernelText, Target
from irscope.codegen.reduction_nest import Pass, reduction_nest
from irscope.codegen.source import NO_NODE
from irscope.ops.expression import POSITIONS

__all__ = ["RowKernel"]

_CHUNK: Final = 128
_LONG: Final = 1 << 18
"""Elements of a row from which it is read in several places; a shorter one may lie in a near cache."""


class RowKernel(KernelText):
    """Kept loops outside, reduced loops inside."""

    def __init__(self, spec: KernelSpec, target: Target, width: int) -> None:
        super().__init__(spec, target, width)
        self.kept = kept_value(spec, on_stack=True) if not 0 < spec.row_limit <= width else None
        self.nest = reduction_nest(spec, self.kept and self.kept[:3])
        self.accumulators: dict[int, list[str]] = {}
        self.some: tuple[str, str] | None = None
        """Of the last vector: how many lanes there are, and their mask."""
        self.single = len(spec.reduced) == 1 and 0 < spec.row_limit <= width
        """Whether a row is one vector: what was computed in one pass is still there in the next."""
        self.apart: list[str] = []
        """While a vector is read in several places: how many elements behind its first register each one lies."""

    def write(self) -> None:
        """The kept loops around one row."""
        for slot in self.moving:
            if slot not in self.indexes:
                self.buffer(slot)
        if self.single:
            self.some = (self.sizes[-1], self.lanes_below(self.sizes[-1]))
        else:
            self._make_room()
        first = self.nest.passes[0].before
        depths = self.depths()
        with ExitStack() as loops:
            for depth in range(self.spec.reduced[0] + 1):
                if depth:
                    self.advance(depth - 1, loops.enter_context(self.loop(self.sizes[depth - 1])).index)
                for index in first:
                    if depths[index] == depth:
                        self.instruction(index, self.scalar)
            self._row()

    def _make_room(self) -> None:
        """Memory on the stack for accumulators, and for a row of what is kept."""
        for index in sorted(i for each in self.nest.passes for i in each.reductions):
            held = []
            for kind in kinds(self.spec, index):
                held.append(f"%{self.body.name('held')}")
                wide = self.vector.type(kind)
                self.body.add(f"{held[-1]} = alloca {wide}, align {self.target.vector_bytes}")
            self.accumulators[index] = held
        if self.kept is not None and self.kept[3] < 0:
            kind = REGISTER[self.spec.instructions[self.kept[0]].dtype]
            room = self.spec.row_limit + self.width
            self.body.add(f"%row = alloca [{room} x {kind}], align {self.target.vector_bytes}")

    def _row(self) -> None:
        self.wide = {}
        for number, each in enumerate(self.nest.passes):
            for index in each.before if number else ():
                self.instruction(index, self.scalar)
            self._pass(number, each)
        for index in self.nest.after:
            self.instruction(index, self.scalar)
        for slot, result in enumerate(self.spec.outputs):
            if self.spec.is_reduced(result):
                self.body.node = self.spec.instructions[result.instruction].node
                value = self.operand(result.instruction, self.scalar)
                stored = to_memory(self.scalar, value, result.dtype, native_half=self.target.native_half)
                self.body.add(f"store {MEMORY[result.dtype]} {stored}, ptr {self.pointers[slot]}")
                self.body.node = NO_NODE

    # -- one pass -----------------------------------------------------------------------------------------------------

    def _pass(self, number: int, each: Pass) -> None:
        for index in each.carried:
            self.splat(index)
        if self.single:
            self._only_vector(number, each)
            return
        for index in each.reductions:
            self._hold(index, first_values(self.spec, index, self.vector))
        pointers = dict(self.pointers)
        with ExitStack() as loops:
            for loop in self.spec.reduced[:-1]:
                self.advance(loop, loops.enter_context(self.loop(self.sizes[loop])).index)
            self._run(number, each)
        self.pointers = pointers
        for index in each.reductions:
            self.body.node = self.spec.instructions[index].node
            self.values[index] = across_lanes(self.spec, index, self.vector, self._held(index))
            self.body.node = NO_NODE

    def _only_vector(self, number: int, each: Pass) -> None:
        assert self.some is not None
        self._point(number, each, "0", self.some)
        for index in each.reductions:
            held = list(first_values(self.spec, index, self.vector))
            found = self._taken_in(index, held, self.some[1])
            self.body.node = self.spec.instructions[index].node
            self.values[index] = across_lanes(self.spec, index, self.vector, found)
            self.body.node = NO_NODE

    def _run(self, number: int, each: Pass) -> None:
        """The innermost loop once: whole vectors, then the rest."""
        body, length = self.body, self.sizes[-1]
        full = body.value(f"and i64 {length}, {-self.width}")
        registers = self._registers(each) if each.reductions else 1
        if registers > 1:
            is_long = body.value(f"icmp sge i64 {length}, {_LONG}")
            with self.only_if(is_long):
                lanes = self.width // registers
                part = body.value(f"udiv i64 {full}, {registers}")
                self.apart = [body.value(f"mul i64 {part}, {place}") for place in range(registers)]
                self._chunks(number, each, part, lanes)
                self.apart = []
            with self.only_if(body.value(f"xor i1 {is_long}, true")):
                self._chunks(number, each, full, self.width)
        elif each.reductions:
            self._chunks(number, each, full, self.width)
        else:
            self._vectors(number, each, "0", full, self.width)
        rest = body.value(f"sub i64 {length}, {full}")
        with self.only_if(body.value(f"icmp sgt i64 {rest}, 0")):
            mask = self.lanes_below(rest)
            self._point(number, each, full, (rest, mask))
            for index in each.reductions:
                self._hold(index, self._taken_in(index, self._held(index), mask))

    def _registers(self, each: Pass) -> int:
        """Over how many parts of a row a vector may spread in a pass: its registers, if nothing asks for its place."""
        codes = [self.spec.instructions[index] for index in (*each.body, *each.reductions)]
        read = [self.spec.inputs[code.value] for code in codes if code.op == "input" and code.value is not None]
        along = [operand for operand in read if operand.pattern and operand.pattern[-1] != BROADCAST]
        item = max([ITEM_SIZE[code.dtype] for code in codes] + [4])
        is_free = (
            len(self.spec.reduced) == self.spec.rank  # of many rows few are long
            and not each.writes
            and not any(code.op in POSITIONS for code in codes)
            and (self.kept is None or self.kept[0] not in each.body)
            and all(operand.kind == "tensor" and operand.pattern[-1] == UNIT for operand in along)
            and all(ITEM_SIZE[operand.dtype] == item for operand in along)
        )
        return self.width * item // self.target.vector_bytes if is_free else 1

    def _chunks(self, number: int, each: Pass, end: str, step: int) -> None:
        """Gather up to `end` in whole vectors, chunk by chunk."""
        stride = _CHUNK * step
        with self.loop(end, step=stride) as chunk:
            stop = self.least(self.body.value(f"add i64 {chunk.index}, {stride}"), end)
            self._vectors(number, each, chunk.index, stop, step)

    def _vectors(self, number: int, each: Pass, start: str, stop: str, step: int) -> None:
        carry = [
            (self.vector.type(kind), first)
            for index in each.reductions
            for kind, first in zip(kinds(self.spec, index), first_values(self.spec, index, self.vector), strict=True)
        ]
        with self.loop(stop, start=start, step=step, carry=carry) as loop:
            self._point(number, each, loop.index, None)
            names = iter(loop.carried)
            for index in each.reductions:
                held = [next(names) for _ in kinds(self.spec, index)]
                loop.following += self._taken_in(index, held, None)
        names = iter(loop.carried)
        for index in each.reductions:
            found = [next(names) for _ in kinds(self.spec, index)]
            self.body.node = self.spec.instructions[index].node
            self._hold(index, taken_in(self.spec, index, self.vector, self._held(index), found))
            self.body.node = NO_NODE

    def _taken_in(self, index: int, held: list[str], mask: str | None) -> list[str]:
        code = self.spec.instructions[index]
        self.body.node = code.node
        found = taken_in(
            self.spec, index, self.vector, held, [self.operand(arg, self.vector) for arg in code.args], mask
        )
        self.body.node = NO_NODE
        return found

    def _hold(self, index: int, values: tuple[str, ...] | list[str]) -> None:
        for place, kind, value in zip(self.accumulators[index], kinds(self.spec, index), values, strict=True):
            self.body.add(f"store {self.vector.type(kind)} {value}, ptr {place}, align {self.target.vector_bytes}")

    def _held(self, index: int) -> list[str]:
        return [
            self.body.value(f"load {self.vector.type(kind)}, ptr {place}, align {self.target.vector_bytes}")
            for place, kind in zip(self.accumulators[index], kinds(self.spec, index), strict=True)
        ]

    # -- one vector ---------------------------------------------------------------------------------------------------

    def _point(self, number: int, each: Pass, index: str, some: tuple[str, str] | None) -> None:
        """A vector of elements; of the last one only `some` lanes, (count, mask)."""
        last = self.spec.rank - 1
        self.some = some
        self.places = {
            slot: self.at(slot, self.pointers[slot], index, self.strides.get((slot, last))) for slot in self.moving
        }
        for code in each.body:
            if self.single and code in self.wide:
                continue
            if self.kept is None or code != self.kept[0]:
                self.instruction(code, self.vector)
            elif number > self.kept[1]:
                self._load_kept(code, self.kept[3], index)
            else:
                self.instruction(code, self.vector)
                self._keep(code, self.kept[3], index)
        for slot in each.writes:
            result = self.spec.outputs[slot]
            self.body.node = self.spec.instructions[result.instruction].node
            value = self.operand(result.instruction, self.vector)
            self._store(slot, to_memory(self.vector, value, result.dtype, native_half=self.target.native_half))
            self.body.node = NO_NODE

    def _keep(self, code: int, slot: int, index: str) -> None:
        """Store what later passes need: on the stack always a whole vector."""
        if slot >= 0:
            self._store(slot, self.wide[code])
            return
        kind = REGISTER[self.spec.instructions[code].dtype]
        place = self.body.value(f"getelementptr {kind}, ptr %row, i64 {index}")
        self.body.add(f"store {self.vector.type(kind)} {self.wide[code]}, ptr {place}, align {self._room_alignment()}")

    def _load_kept(self, code: int, slot: int, index: str) -> None:
        self.body.node = self.spec.instructions[code].node
        if slot >= 0:
            self.wide[code] = self.load_row(slot)
        else:
            kind = REGISTER[self.spec.instructions[code].dtype]
            place = self.body.value(f"getelementptr {kind}, ptr %row, i64 {index}")
            self.wide[code] = self.body.value(
                f"load {self.vector.type(kind)}, ptr {place}, align {self._room_alignment()}"
            )
        self.body.node = NO_NODE

    def _room_alignment(self) -> int:
        """Whole vectors follow one another from an aligned start."""
        assert self.kept is not None
        item = ITEM_SIZE[self.spec.instructions[self.kept[0]].dtype]
        return min(self.target.vector_bytes, self.width * max(item, 1))

    def load_row(self, slot: int) -> str:
        """A vector of elements side by side, or those of them that there are."""
        if self.some is not None:
            return self.load_some(slot, self.places[slot], None, *self.some)
        if not self.apart:
            return super().load_row(slot)
        kind, lanes = MEMORY[self.dtypes[slot]], self.width // len(self.apart)
        parts = []
        for offset in self.apart:
            place = self.at(slot, self.places[slot], offset, None)
            parts.append(self.body.value(f"load <{lanes} x {kind}>, ptr {place}, align {ITEM_SIZE[self.dtypes[slot]]}"))
        while len(parts) > 1:
            lanes *= 2
            order = ", ".join(f"i32 {lane}" for lane in range(lanes))
            half = f"<{lanes // 2} x {kind}>"
            parts = [
                self.body.value(f"shufflevector {half} {one}, {half} {other}, <{lanes} x i32> <{order}>")
                for one, other in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def gathered(self, kind: str, align: int, place: str, step: str) -> str:
        """A vector of elements that stand apart, or those of them that there are."""
        if self.some is None:
            return super().gathered(kind, align, place, step)
        slot = next(slot for slot, found in self.places.items() if found == place)
        return self.load_some(slot, place, step, *self.some)

    def _store(self, slot: int, stored: str) -> None:
        place, step = self.places[slot], self.strides.get((slot, self.spec.rank - 1))
        if self.some is not None:
            self.store_some(slot, stored, place, step, *self.some)
        else:
            again = self.kept is not None and self.kept[3] == slot
            self.store(slot, stored, place, step, streaming=self.spec.nontemporal and not again)
