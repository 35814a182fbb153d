"""The text of a kernel whose innermost loop is kept: columns side by side, gathered from row to row.

Columns are taken in tiles whose accumulators fit the first-level cache. Within a tile, `_ROWS` rows at a time are
gathered in registers, vector by vector, and then added to the tile's accumulators in memory: whole lines are read in
the order in which they lie, and the rounding errors of a long sum grow with the number of blocks, not of rows.

The last vector of a row of columns overlaps the one before and computes the same once more. Where the spec says that
rows are short, there is one vector and a mask; a row that is not known to be short is longer than `MOST_LANES`.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from irscope.codegen.element_text import MEMORY, REGISTER, to_memory
from irscope.codegen.gather_text import first_values, kinds, taken_in
from irscope.codegen.kept_value import kept_value
from irscope.codegen.kernel_spec import BROADCAST, KernelSpec
from irscope.codegen.llvm_kernel import KernelText
from irscope.codegen.llvm_target import Target
from irscope.codegen.reduction_nest import Pass, reduction_nest
from irscope.codegen.source import NO_NODE
from irscope.ops.expression import REDUCTIONS

__all__ = ["MOST_LANES", "ColumnKernel"]

MOST_LANES: Final = 32
_ROWS: Final = 16
_TILE: Final = 1024


class ColumnKernel(KernelText):
    """Kept loops outside, then tiles of the innermost loop, then the reduced loops, then vectors of a tile."""

    def __init__(self, spec: KernelSpec, target: Target, width: int) -> None:
        super().__init__(spec, target, width)
        self.short = bool(spec.row_limit)
        self.kept = None if self.short else _kept_value(spec)
        self.nest = reduction_nest(spec, self.kept and self.kept[:3])
        self.vectors = 1 if self.short else max(_TILE // width, 1)
        """The most vectors that a tile has."""
        self.lies = self._lying()
        self.memory: dict[tuple[int, int], str] = {}
        """Where a tile's values of an instruction are: (instruction, part) to the array."""
        self.column = ""
        self.fresh = ""
        """The mask of the lanes to be written, where that are not all."""
        self.gathered_now: dict[int, list[str]] = {}
        """What each reduction gathered over a few rows."""

    def _lying(self) -> list[bool]:
        """Which instructions differ from column to column."""
        found: list[bool] = []
        for code in self.spec.instructions:
            if code.op == "input":
                assert code.value is not None
                pattern = self.spec.inputs[code.value].pattern
                found.append(bool(pattern) and pattern[-1] != BROADCAST)
            else:
                found.append(code.op in REDUCTIONS or any(found[arg] for arg in code.args))
        return found

    def write(self) -> None:
        """The kept loops around the tiles."""
        self.buffers()
        for index, code in enumerate(self.spec.instructions):
            for part, kind in enumerate(kinds(self.spec, index) if code.op in REDUCTIONS else ()):
                self._array(index, part, kind)
            if self._is_stored(index):
                self._array(index, 0, REGISTER[code.dtype])
        first = [index for index in self.nest.passes[0].before if not self.lies[index]]
        with self.outer_loops(self.staged(first, self.spec.reduced[0])):
            self._columns()

    def _array(self, index: int, part: int, kind: str) -> None:
        name = self.memory[index, part] = f"%{self.body.name('tile')}"
        wide = self.vector.type(kind)
        self.body.add(f"{name} = alloca [{self.vectors} x {wide}], align {self.target.vector_bytes}")

    def _is_stored(self, index: int) -> bool:
        """Whether an instruction is computed once per column and read later."""
        code = self.spec.instructions[index]
        once = not self.nest.varies[index] and self.lies[index]
        return once and code.op not in REDUCTIONS and code.op not in ("input", "const")

    # -- tiles --------------------------------------------------------------------------------------------------------

    def _columns(self) -> None:
        body, length = self.body, self.sizes[-1]
        if self.short:
            self.some = (length, self.lanes_below(length))
            with self.only_if(body.value(f"icmp sgt i64 {length}, 0")):
                self._tile("0", "1", "0")
            return
        last = body.value(f"sub i64 {length}, {self.width}")
        count = body.value(f"sdiv i64 {body.value(f'add i64 {length}, {self.width - 1}')}, {self.width}")
        with self.loop(count, step=self.vectors) as tile:
            stop = self.least(body.value(f"add i64 {tile.index}, {self.vectors}"), count)
            self._tile(tile.index, stop, last)

    def _tile(self, start: str, stop: str, last: str) -> None:
        for number, each in enumerate(self.nest.passes):
            for index in each.before if number else ():
                if not self.lies[index]:
                    self.instruction(index, self.scalar)
            with self.loop(stop, start=start) as vector:
                self._between(each.before, vector.index, start, last)
                for index in each.reductions:
                    self._hold(index, first_values(self.spec, index, self.vector), vector.index, start)
            self._pass(number, each, start, stop, last)
        with self.loop(stop, start=start) as vector:
            self._between(self.nest.after, vector.index, start, last)
            for slot, result in enumerate(self.spec.outputs):
                if self.spec.is_reduced(result):
                    self._fetch(result.instruction, vector.index, start)
                    self._write(slot)

    def _place(self, vector: str, last: str) -> None:
        """Move to the columns of a vector."""
        column = "0" if self.short else self.least(self.body.value(f"mul i64 {vector}, {self.width}"), last)
        self.column = column
        loop = self.spec.rank - 1
        self.places = {
            slot: self.at(slot, self.pointers[slot], column, self.strides.get((slot, loop))) for slot in self.moving
        }
        self.wide = {}

    def _between(self, codes: tuple[int, ...], vector: str, start: str, last: str) -> None:
        """What is computed once per column, between two passes."""
        self._place(vector, last)
        for index in codes:
            if self.lies[index] and self._is_stored(index):
                for arg in self.spec.instructions[index].args:
                    self._fetch(arg, vector, start)
                self.instruction(index, self.vector)
                self._keep(index, 0, REGISTER[self.spec.instructions[index].dtype], self.wide[index], vector, start)

    def _fetch(self, index: int, vector: str, start: str) -> None:
        """Have an instruction that does not change from row to row in every lane."""
        code = self.spec.instructions[index]
        if index in self.wide or code.op == "const":
            return
        if not self.lies[index]:
            self.splat(index)
        elif code.op == "input":
            self.instruction(index, self.vector)
        else:
            self.body.node = code.node
            self.wide[index] = self._held(index, vector, start)[-1]
            self.body.node = NO_NODE

    # -- a pass over the rows of a tile -------------------------------------------------------------------------------

    def _pass(self, number: int, each: Pass, start: str, stop: str, last: str) -> None:
        if not each.body and not each.reductions and not each.writes:
            return
        pointers, inner = dict(self.pointers), self.spec.reduced[-1]
        with ExitStack() as loops:
            for loop in self.spec.reduced[:-1]:
                self.advance(loop, loops.enter_context(self.loop(self.sizes[loop])).index)
            block = loops.enter_context(self.loop(self.sizes[inner], step=_ROWS))
            end = self.least(self.body.value(f"add i64 {block.index}, {_ROWS}"), self.sizes[inner])
            vector = loops.enter_context(self.loop(stop, start=start))
            self._place(vector.index, last)
            for index in each.carried:
                self._fetch(index, vector.index, start)
            if self.kept is not None and self.kept[0] in each.body:
                self.fresh = self._fresh_lanes(vector.index)
            self._block(number, each, block.index, end)
            self.fresh = ""
            for index in each.reductions:
                held = self._held(index, vector.index, start)
                self.body.node = self.spec.instructions[index].node
                found = taken_in(self.spec, index, self.vector, held, self.gathered_now[index])
                self._hold(index, tuple(found), vector.index, start)
        self.pointers = pointers

    def _block(self, number: int, each: Pass, start: str, stop: str) -> None:
        """A vector of columns over a few rows."""
        carry = [
            (self.vector.type(kind), first)
            for index in each.reductions
            for kind, first in zip(kinds(self.spec, index), first_values(self.spec, index, self.vector), strict=True)
        ]
        pointers, places, wide = dict(self.pointers), dict(self.places), dict(self.wide)
        with self.loop(stop, start=start, carry=carry) as row:
            self._row(row.index)
            for index in each.body:
                if self.kept is not None and self.kept[0] == index:
                    self._keep_or_find(number)
                else:
                    self.instruction(index, self.vector)
            names = iter(row.carried)
            for index in each.reductions:
                code = self.spec.instructions[index]
                self.body.node = code.node
                held = [next(names) for _ in kinds(self.spec, index)]
                more = [self.operand(arg, self.vector) for arg in code.args]
                row.following += taken_in(self.spec, index, self.vector, held, more)
            for slot in each.writes:
                self._write(slot)
            self.body.node = NO_NODE
        self.pointers, self.places, self.wide = pointers, places, wide
        names = iter(row.carried)
        self.gathered_now = {index: [next(names) for _ in kinds(self.spec, index)] for index in each.reductions}

    def _keep_or_find(self, number: int) -> None:
        """The value that is dear: computed and stored in its first pass, read from there in later ones."""
        assert self.kept is not None
        index, first, _, slot = self.kept
        if number == first:
            self.instruction(index, self.vector)
        self.body.node = self.spec.instructions[index].node
        if number == first:
            self.store(slot, self._blended(slot, self.wide[index], self.load_row(slot)))
        else:
            self.wide[index] = self.load_row(slot)
        self.body.node = NO_NODE

    def _blended(self, slot: int, stored: str, old: str) -> str:
        return self.vector.select(MEMORY[self.dtypes[slot]], self.fresh, stored, old)

    def _fresh_lanes(self, vector: str) -> str:
        """The lanes that the vector before did not have: in the others, results stand where the kept values were."""
        wanted = self.body.value(f"mul i64 {vector}, {self.width}")
        seen = self.body.value(f"sub i64 {wanted}, {self.column}")
        below = self.lanes_below(seen)
        return self.vector.op("xor", "i1", below, self.vector.constant("i1", 1))

    def _row(self, index: str) -> None:
        """Move to a row."""
        loop = self.spec.reduced[-1]
        for slot, pattern in enumerate(self.patterns):
            if pattern and pattern[loop] != BROADCAST:
                step = self.strides[slot, loop]
                self.pointers[slot] = self.at(slot, self.pointers[slot], index, step)
                if slot in self.places:
                    self.places[slot] = self.at(slot, self.places[slot], index, step)

    # -- memory -------------------------------------------------------------------------------------------------------

    def _hold(self, index: int, values: tuple[str, ...], vector: str, start: str) -> None:
        for part, (kind, value) in enumerate(zip(kinds(self.spec, index), values, strict=True)):
            self._keep(index, part, kind, value, vector, start)

    def _held(self, index: int, vector: str, start: str) -> list[str]:
        code = self.spec.instructions[index]
        own = kinds(self.spec, index) if code.op in REDUCTIONS else (REGISTER[code.dtype],)
        found = []
        for part, kind in enumerate(own):
            place = self._slot(index, part, kind, vector, start)
            found.append(
                self.body.value(f"load {self.vector.type(kind)}, ptr {place}, align {self.target.vector_bytes}")
            )
        return found

    def _keep(self, index: int, part: int, kind: str, value: str, vector: str, start: str) -> None:
        place = self._slot(index, part, kind, vector, start)
        self.body.add(f"store {self.vector.type(kind)} {value}, ptr {place}, align {self.target.vector_bytes}")

    def _slot(self, index: int, part: int, kind: str, vector: str, start: str) -> str:
        offset = self.body.value(f"sub i64 {vector}, {start}")
        wide = self.vector.type(kind)
        return self.body.value(f"getelementptr {wide}, ptr {self.memory[index, part]}, i64 {offset}")

    def _write(self, slot: int) -> None:
        result = self.spec.outputs[slot]
        self.body.node = self.spec.instructions[result.instruction].node
        value = self.operand(result.instruction, self.vector)
        stored = to_memory(self.vector, value, result.dtype, native_half=self.target.native_half)
        if self.fresh and self.kept is not None and slot == self.kept[3]:
            stored = self._blended(slot, stored, self.wide[self.kept[0]])
        self.store(slot, stored)
        self.body.node = NO_NODE


def _kept_value(spec: KernelSpec) -> tuple[int, int, int, int] | None:
    """A value to keep in a result, if later passes only write, and only that result: the lanes that two vectors share
    hold something else by then, which must not be gathered, and must not reach another result."""
    found = kept_value(spec, on_stack=False)
    if found is None:
        return None
    index, first, _, slot = found
    later = [each for each in reduction_nest(spec, found[:3]).passes[first + 1 :] if index in each.body]
    return None if any(each.reductions or set(each.writes) - {slot} for each in later) else found
