"""The text of a kernel whose innermost loop is reduced: row by row, each row in as many passes as it needs.

A pass traverses a row in whole vectors, with an accumulator in every lane, and ends with one masked vector. In a row that
may be long the accumulators are added to others every `_CHUNK` vectors, so that the rounding errors of a long sum grow
with the number of chunks and the length of a chunk, not with their product.

Memory is read a tenth to a fifth faster in several places at once, because the processor can follow as many streams. Where
the work at a point is small, two rows are reduced together, half of all rows apart; in a kernel that reduces a single
long row each register of a vector covers its own part of the row. The result of a row does not depend on the others.

Where several loops are reduced and the innermost one is at most a vector long (the channels of a group, channels last), a vector
is added every few cycles, less than a sum takes: several steps of the loop around it have accumulators of their own.

A value that is expensive and needed again in a later pass (the exponentials of a softmax) is kept: in the row of a result of its
type that is written only in that later pass, if there is one, else in a row on the stack, if rows are known to
be short enough for that.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Final

from irscope.codegen.kernel import BROADCAST, ITEM_SIZE, NO_NODE, UNIT, KernelSpec, Pass, reduction_nest
from irscope.codegen.llvm.builder import Carry, Loop
from irscope.codegen.llvm.instruction_text import MEMORY, REGISTER, across_lanes, first_values, kinds, taken_in
from irscope.codegen.llvm.kernel_base import KernelBuilder, Target, kept_value, weight
from irscope.ops.expr import POSITIONS

_CHUNK: Final = 128
_LONG: Final = 1 << 18
"""Elements of a row from which on it is read in several places; a shorter one may be in a near cache."""
_LIGHT: Final = 12
"""LLVM instructions per point up to which the kernel is memory-bound."""
_ACCUMULATORS: Final = 8
"""Registers of accumulators that hide how long a sum takes, where each vector would wait for the one before."""


@dataclass(slots=True)
class _Row:
    """The pointers and values of one of the rows, or steps of one row, that are reduced together."""

    pointers: dict[int, str]
    values: dict[int, str]
    wide: dict[int, str]


class RowKernel(KernelBuilder):
    """A kernel with kept loops outside and reduced loops inside."""

    def __init__(self, spec: KernelSpec, target: Target, width: int) -> None:
        super().__init__(spec, target, width)
        is_short = 0 < spec.row_limit <= width
        self.kept = None if is_short else kept_value(spec, on_stack=True)
        self.nest = reduction_nest(spec, self.kept and self.kept[:3])
        self.single = len(spec.reduced) == 1 and is_short
        """Whether a row is one vector, so that values computed in one pass are still in registers in the next."""
        self.together = 1
        """How many steps of the second innermost loop are reduced together: those that fill `_ACCUMULATORS` registers, at most four."""
        if len(spec.reduced) > 1 and is_short:
            item = max([ITEM_SIZE[code.dtype] for code in spec.instructions] + [4])
            self.together = min(4, max(1, _ACCUMULATORS * target.vector_bytes // (width * item)))
        self.is_masked = self.together > 1 and target.masks and not spec.nontemporal
        """Whether such a step is one vector under a mask, which costs nothing; otherwise a whole vector, or one through a buffer."""
        self.row = "", ""
        """The lanes of a row of one vector, and their mask."""
        self.in_chunks = not 0 < spec.row_limit <= 2 * _CHUNK * width
        self.apart: list[str] = []
        """While a vector is read in several places: the offset of each register from the first, in elements."""
        self.rows: list[_Row] = []
        """The rows that are reduced together."""

    def write(self) -> None:
        """Emit the kept loops around one row, or around two."""
        self.buffers()
        if self.single or self.is_masked:
            self.some = self.row = (self.sizes[-1], self.lanes_below(self.sizes[-1]))
        if not self.single and self.kept is not None and self.kept[3] < 0:
            kind = REGISTER[self.spec.instructions[self.kept[0]].dtype]
            room = self.spec.row_limit + self.width
            self.body.add(f"%row = alloca [{room} x {kind}], align {self.target.vector_bytes}")
        stages = self.staged(self.nest.passes[0].before, self.spec.reduced[0])
        if self._is_paired():
            with self.outer_loops(stages[:-1]):
                self._pairs(stages[-1])
        elif self.single and len(stages) > 1:
            loop = self.spec.reduced[0] - 1
            with self.outer_loops(stages[:-1]):
                # rows that can be read as whole vectors, then the last ones under the mask
                for _ in self.short_rows(loop, self.rows_before_the_last(self.sizes[loop])):
                    self.compute(stages[-1], self.scalar)
                    self._one_row()
        else:
            with self.outer_loops(stages):
                self._one_row()

    def _one_row(self) -> None:
        self.wide = {}
        self.rows = [_Row(self.pointers, self.values, self.wide)]
        self._reduce_rows()

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _is_paired(self) -> bool:
        """Whether rows are reduced in pairs: the kernel has kept loops, and one pass with little work per point."""
        (first, *others), spec = self.nest.passes, self.spec
        codes = [spec.instructions[index] for index in (*first.body, *first.reductions)]
        return (
            spec.rank > len(spec.reduced) == 1
            and not (others or first.writes or self.single)
            and len(first.reductions) <= 2
            and not any(code.op in POSITIONS for code in codes)
            and weight(codes) <= _LIGHT
        )

    def _pairs(self, stage: list[int]) -> None:
        """Emit the loop over pairs of rows, half of all rows apart; a row without a partner is paired with itself."""
        loop = self.spec.reduced[0] - 1
        size, pointers, values = self.sizes[loop], self.pointers, self.values
        half = self.body.value(f"sdiv i64 {self.body.value(f'add i64 {size}, 1')}, 2")
        with self.body.loop(half) as row:
            other = self.body.value(f"add i64 {row.index}, {half}")
            is_there = self.body.value(f"icmp slt i64 {other}, {size}")
            other = self.body.value(f"select i1 {is_there}, i64 {other}, i64 {row.index}")
            self.rows = [_Row(dict(pointers), dict(values), {}) for _ in range(2)]
            for index, _ in zip((row.index, other), self._each_row(), strict=True):
                self.advance(loop, index)
                self.compute(stage, self.scalar)
            self._reduce_rows()

    def _each_row(self) -> Iterator[_Row]:
        """Yield the rows, selecting each as the one that instructions refer to."""
        for row in self.rows:
            self.pointers, self.values, self.wide = row.pointers, row.values, row.wide
            yield row

    def _reduce_rows(self) -> None:
        for number, each in enumerate(self.nest.passes):
            for _ in self._each_row():
                self.compute(each.before if number else (), self.scalar)
                for index in each.carried:
                    self.splat(index)
            if self.single:
                self._finish(each, self._accumulated(number, each, "0", self.some, self._first(each)))
            else:
                self._pass(number, each)
        for _ in self._each_row():
            self.compute(self.nest.after, self.scalar)
            for slot, result in enumerate(self.spec.outputs):
                if self.spec.is_reduced(result):
                    with self.body.written_for(self.spec.instructions[result.instruction].node):
                        value = self.stored(slot, self.scalar)
                        self.body.add(f"store {MEMORY[result.dtype]} {value}, ptr {self.pointers[slot]}")

    # -- one pass -----------------------------------------------------------------------------------------------------

    def _pass(self, number: int, each: Pass) -> None:
        held = self._first(each)
        pointers, around = dict(self.pointers), list[Loop]()
        with ExitStack() as loops:
            for loop in self.spec.reduced[: -2 if self.together > 1 else -1]:
                carry = self._carry(each, around[-1].carried if around else held)
                inside = loops.enter_context(self.body.loop(self.sizes[loop], carry=carry))
                if around:
                    around[-1].following = inside.carried
                self.advance(loop, inside.index)
                around.append(inside)
            run = self._steps if self.together > 1 else self._run
            found = run(number, each, around[-1].carried if around else held)
            if around:
                around[-1].following = found
        self.pointers.update(pointers)
        self._finish(each, around[0].carried if around else found)

    def _steps(self, number: int, each: Pass, held: list[str]) -> list[str]:
        """Emit the two innermost loops: several steps of the outer one together, then the rest one by one."""
        body, loop, rows = self.body, self.spec.reduced[-2], self.rows
        size, (row,) = self.sizes[loop], rows
        whole = body.value(f"and i64 {size}, {-self.together}")
        self.rows = [_Row(dict(row.pointers), dict(row.values), dict(row.wide)) for _ in range(self.together)]
        start = held + self._first(each)[len(held) :]
        with body.loop(whole, step=self.together, carry=self._carry(each, start)) as several:
            for place, _ in enumerate(self._each_row()):
                self.advance(loop, body.value(f"add i64 {several.index}, {place}"))
            several.following = self._step(number, each, several.carried)
        self.rows = rows
        self.pointers, self.values, self.wide = row.pointers, row.values, row.wide
        found = several.carried[: len(held)]
        for first in range(len(held), len(start), len(held) or 1):
            found = self._merged(each, found, several.carried[first : first + len(held)])
        with body.loop(size, start=whole, carry=self._carry(each, found)) as one:
            self.advance(loop, one.index)
            one.following = self._step(number, each, one.carried)
        return one.carried

    def _step(self, number: int, each: Pass, held: list[str]) -> list[str]:
        return self._accumulated(number, each, "0", self.row, held) if self.is_masked else self._run(number, each, held)

    def _finish(self, each: Pass, held: list[str]) -> None:
        """Reduce the lanes of the accumulators to each row's results."""
        names = iter(held)
        for _ in self._each_row():
            for index in each.reductions:
                with self.body.written_for(self.spec.instructions[index].node):
                    own = [next(names) for _ in kinds(self.spec, index)]
                    self.values[index] = across_lanes(self.spec, index, self.vector, own)

    def _first(self, each: Pass) -> list[str]:
        """Return the initial accumulators of all rows: for each row all reductions, for each reduction all its parts."""
        one = [first_values(self.spec, index, self.vector) for index in each.reductions]
        return list(chain.from_iterable(one)) * len(self.rows)

    def _carry(self, each: Pass, held: list[str]) -> Carry:
        one = [self.vector.type(kind) for index in each.reductions for kind in kinds(self.spec, index)]
        return list(zip(one * len(self.rows), held, strict=True))

    def _run(self, number: int, each: Pass, held: list[str]) -> list[str]:
        """Emit the innermost loop: whole vectors, then the rest."""
        body, length = self.body, self.sizes[-1]
        full = body.value(f"and i64 {length}, {-self.width}")
        registers = self._registers(each)
        if registers > 1:
            is_long = body.value(f"icmp sge i64 {length}, {_LONG}")
            with self.body.only_if(is_long, self._carry(each, held)) as long:
                part = body.value(f"udiv i64 {full}, {registers}")
                self.apart = [body.value(f"mul i64 {part}, {place}") for place in range(registers)]
                long.following = self._vectors(number, each, part, self.width // registers, held)
                self.apart = []
            is_short = body.value(f"xor i1 {is_long}, true")
            with self.body.only_if(is_short, self._carry(each, long.joined)) as short:
                short.following = self._vectors(number, each, full, self.width, long.joined)
            held = short.joined
        else:
            held = self._vectors(number, each, full, self.width, held)
        rest = body.value(f"sub i64 {length}, {full}")
        with self.body.only_if(body.value(f"icmp sgt i64 {rest}, 0"), self._carry(each, held)) as end:
            end.following = self._accumulated(number, each, full, (rest, self.lanes_below(rest)), held)
        return end.joined

    def _vectors(self, number: int, each: Pass, end: str, step: int, held: list[str]) -> list[str]:
        """Emit whole vectors up to `end`; chunk by chunk, if there may be many to reduce."""
        if not (self.in_chunks and each.reductions):
            return self._few_vectors(number, each, ("0", end), step, held)
        stride = _CHUNK * step
        with self.body.loop(end, step=stride, carry=self._carry(each, held)) as chunk:
            stop = self.body.least(self.body.value(f"add i64 {chunk.index}, {stride}"), end)
            found = self._few_vectors(number, each, (chunk.index, stop), step, self._first(each))
            chunk.following = self._merged(each, chunk.carried, found)
        return chunk.carried

    def _few_vectors(self, number: int, each: Pass, span: tuple[str, str], step: int, held: list[str]) -> list[str]:
        start, stop = span
        with self.body.loop(stop, start=start, step=step, carry=self._carry(each, held)) as loop:
            loop.following = self._accumulated(number, each, loop.index, None, loop.carried)
        return loop.carried

    def _merged(self, each: Pass, held: list[str], more: list[str]) -> list[str]:
        """Combine two sets of accumulators."""
        one, other, found = iter(held), iter(more), list[str]()
        for _ in self.rows:
            for index in each.reductions:
                with self.body.written_for(self.spec.instructions[index].node):
                    parts = range(len(kinds(self.spec, index)))
                    own = [next(one) for _ in parts]
                    found += taken_in(self.spec, index, self.vector, own, [next(other) for _ in parts])
        return found

    # -- one vector ---------------------------------------------------------------------------------------------------

    def _accumulated(self, number: int, each: Pass, index: str, some: tuple[str, str] | None, held: list[str]) -> list[str]:
        """Return the accumulators after a vector of each row was accumulated; with `some`, (count, mask), only those lanes."""
        names, found = iter(held), list[str]()
        for _ in self._each_row():
            self._point(number, each, index, some)
            for reduction in each.reductions:
                code = self.spec.instructions[reduction]
                with self.body.written_for(code.node):
                    own = [next(names) for _ in kinds(self.spec, reduction)]
                    more = [self.operand(arg, self.vector) for arg in code.args]
                    found += taken_in(self.spec, reduction, self.vector, own, more, some and some[1])
        return found

    # -- the points of one vector -----------------------------------------------------------------------------------------

    def _registers(self, each: Pass) -> int:
        """Return how many parts of a row a vector may cover in a pass: one per register, if nothing depends on positions."""
        codes = [self.spec.instructions[index] for index in (*each.body, *each.reductions)]
        read = [self.spec.inputs[code.operand] for code in codes if code.op == "input"]
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
        return self.width * item // self.target.vector_bytes if is_free else 1

    def _point(self, number: int, each: Pass, index: str, some: tuple[str, str] | None) -> None:
        """Emit what is computed and written at the points of a vector."""
        self.some, self.places = some, self.standing(self.pointers, index)
        for code in each.body:
            if self.single and code in self.wide:
                continue
            if self.kept is None or code != self.kept[0]:
                self.compute([code], self.vector)
            else:
                self._keep_or_load(number, index)
        for slot in each.writes:
            with self.body.written_for(self.spec.instructions[self.spec.outputs[slot].instruction].node):
                self._store(slot, self.stored(slot, self.vector))

    def _keep_or_load(self, number: int, index: str) -> None:
        """Compute and store the kept value in its first pass, load it in later ones; on the stack always as a whole vector."""
        assert self.kept is not None
        code, first, _, slot = self.kept
        step = self.spec.instructions[code]
        kind, align = self.vector.type(REGISTER[step.dtype]), min(self.target.vector_bytes, self.width * ITEM_SIZE[step.dtype])
        if number <= first:
            self.compute([code], self.vector)
        with self.body.written_for(NO_NODE if number <= first else step.node):
            if slot < 0:  # whole vectors follow one another from an aligned start
                place = self.body.value(f"getelementptr {REGISTER[step.dtype]}, ptr %row, i64 {index}")
            if number > first:
                load = self.read(slot, None) if slot >= 0 else self.body.value(f"load {kind}, ptr {place}, align {align}")
                self.wide[code] = load
            elif slot >= 0:
                self._store(slot, self.wide[code])
            else:
                self.body.add(f"store {kind} {self.wide[code]}, ptr {place}, align {align}")

    def read(self, slot: int, step: str | None) -> str:
        """Load a vector: contiguous, or one contiguous stretch per register (`apart`), or strided."""
        if step is None and self.target.masks and slot in self.whole:
            row = super().read(slot, step)
            # its second use keeps LLVM from folding the load into a masked instruction, which would make it a masked load again
            kind = self.vector.type(MEMORY[self.dtypes[slot]])
            self.body.add(f"store {kind} {row}, ptr %buffer{slot}, align {self.target.vector_bytes}")
            return row
        if step is not None or not self.apart:
            return super().read(slot, step)
        kind, lanes = MEMORY[self.dtypes[slot]], self.width // len(self.apart)
        parts = []
        for offset in self.apart:
            place = self.at(slot, self.places[slot], offset, None)
            parts.append(self.body.value(f"load <{lanes} x {kind}>, ptr {place}, align {ITEM_SIZE[self.dtypes[slot]]}"))
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.body.shuffled(f"<{lanes} x {kind}>", one, other, range(2 * lanes)) for one, other in pairs]
            lanes *= 2
        return parts[0]

    def _store(self, slot: int, value: str) -> None:
        again = self.kept is not None and self.kept[3] == slot
        self.store(slot, value, streaming=self.spec.nontemporal and not again)
