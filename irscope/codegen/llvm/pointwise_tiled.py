"""The text of a pointwise kernel that reads some operands in tiles, because they are contiguous along another loop.

A tile has `TILE_ROWS` rows and as many columns as a vector of the kernel has lanes. A tile of a transposed operand is read
column by column, a register of rows at a time, and transposed on its way to the stack. Then the rows of the tile are computed
as in any pointwise kernel. So both reads and writes of memory come in stretches of a few cache lines.

The last tile of a row, and the last one down, overlap the one before. So a result must not overlap an operand, and the
kernel needs at least a vector of columns and a register of rows (`least_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from irscope.codegen.kernel import ITEM_SIZE, TILE_ROWS, UNIT, KernelSpec
from irscope.codegen.kernel.loop_nest import loop_nest
from irscope.codegen.llvm.instructions import instruction, outer_loops, splat, stored
from irscope.codegen.llvm.kernel_builder import KernelBuilder
from irscope.codegen.llvm.load_store import load_vector, store
from irscope.codegen.llvm.target import Target
from irscope.codegen.simd import MEMORY, VectorBuilder

__all__ = ["TurnedKernel", "least_rows"]

_ACROSS: Final = 8
"""The most columns that are transposed at once: more would take more registers, and longer to compile."""


def least_rows(spec: KernelSpec, target: Target) -> int:
    """Return how many rows are read at once: the lanes of a register of the widest operand, of 4 bytes at least."""
    widest = max((ITEM_SIZE[operand.dtype] for operand in spec.inputs if operand.kind == "tensor"), default=4)
    return target.vector_bytes // max(widest, 4)


class TurnedKernel:
    """A pointwise kernel with outer loops, then tiles of the last two loops, then the rows of a tile."""

    def __init__(self, k: KernelBuilder) -> None:
        self.k, self.spec, self.body, self.vector = k, k.spec, k.body, k.vector
        k.reader = self._read
        self.nest = loop_nest(k.spec)
        self.turned = [slot for slot in k.moving if k.patterns[slot][-2] == UNIT]
        self.rows = least_rows(k.spec, k.target)
        """How many rows are read at once."""
        self.row = ""
        """The row of the tile that is being computed."""

    def write(self) -> None:
        """Emit all loops."""
        for slot in self.turned:
            kind, size = MEMORY[self.k.dtypes[slot]], TILE_ROWS * self.k.width
            self.body.add(f"%turned{slot} = alloca [{size} x {kind}], align {self.k.target.vector_bytes}")
        rows, columns = self.k.sizes[-2:]
        height = self.body.least(rows, str(TILE_ROWS))
        last_row = self.body.value(f"sub i64 {rows}, {height}")
        last_column = self.body.value(f"sub i64 {columns}, {self.k.width}")
        with (
            outer_loops(self.k, self.nest.stages[: self.spec.rank - 1]),
            self.body.loop(rows, step=TILE_ROWS) as down,
            self.body.loop(columns, step=self.k.width) as across,
        ):
            self._tile(self.body.least(down.index, last_row), height, self.body.least(across.index, last_column))

    # -- one tile -----------------------------------------------------------------------------------------------------

    def _tile(self, row: str, height: str, column: str) -> None:
        pointers, values = self.k.pointers, self.k.values
        for slot in self.turned:
            place = self.k.at(slot, pointers[slot], row, None)
            self._transpose(slot, self.k.at(slot, place, column, self.k.lane_steps.get(slot)), height)
        with self.body.loop(height) as line:
            self.row, self.k.pointers, self.k.values = line.index, dict(pointers), dict(values)
            self.k.advance(self.spec.rank - 2, self.body.value(f"add i64 {row}, {line.index}"))
            for index in self.nest.stages[-2]:
                instruction(self.k, index, self.k.scalar)
            for index in self.nest.carried:
                splat(self.k, index)
            self.k.places = {
                slot: self.k.at(slot, self.k.pointers[slot], column, self.k.lane_steps.get(slot))
                for slot in self.k.moving
            }
            for index in self.nest.stages[-1]:
                instruction(self.k, index, self.vector)
            self._write()
        self.k.pointers, self.k.values = pointers, values

    def _write(self) -> None:
        for slot, result in enumerate(self.spec.outputs):
            with self.body.written_for(self.spec.instructions[result.instruction].node):
                store(self.k, slot, stored(self.k, slot, self.vector), streaming=self.spec.nontemporal)

    def _read(self, slot: int, step: str | None) -> str:
        """Load a row of a transposed tile, or a vector of any other operand."""
        if slot not in self.turned:
            return load_vector(self.k, slot, step)
        kind = MEMORY[self.k.dtypes[slot]]
        place = self._in_tile(slot, self.row, "0")
        return self.body.value(f"load {self.vector.type(kind)}, ptr {place}, align {ITEM_SIZE[self.k.dtypes[slot]]}")

    # -- transposition ------------------------------------------------------------------------------------------------

    def _transpose(self, slot: int, corner: str, height: str) -> None:
        """Transpose a tile into rows, in memory on the stack."""
        kind, rows, step = MEMORY[self.k.dtypes[slot]], self.rows, self.k.lane_steps.get(slot)
        wide, columns = VectorBuilder(self.body, rows).type(kind), min(rows, self.k.width, _ACROSS)
        last = self.body.value(f"sub i64 {height}, {rows}")
        with self.body.loop(str(self.k.width), step=columns) as column, self.body.loop(height, step=rows) as row:
            line, lines = self.body.least(row.index, last), []
            place = self.k.at(slot, self.k.at(slot, corner, column.index, step), line, None)
            for _ in range(columns):
                lines.append(self.body.value(f"load {wide}, ptr {place}, align {ITEM_SIZE[self.k.dtypes[slot]]}"))
                place = self.k.at(slot, place, "1", step)
            for number, turned in enumerate(self._transposed(wide, lines, rows)):
                for part in range(0, rows, columns):
                    place = self._in_tile(slot, self.body.value(f"add i64 {line}, {number + part}"), column.index)
                    own = self._picked(wide, turned, "poison", range(part, part + columns))
                    self.body.add(
                        f"store <{columns} x {kind}> {own}, ptr {place}, align {ITEM_SIZE[self.k.dtypes[slot]]}"
                    )

    def _transposed(self, wide: str, lines: list[str], lanes: int) -> list[str]:
        """Transpose columns into rows, one square at a time: blocks off the diagonal are swapped, in ever smaller
        sizes. A line becomes the rows of its number, one in each square."""
        block = len(lines) // 2
        while block:
            low = [lane + lanes - block if lane & block else lane for lane in range(lanes)]
            high = [lane + lanes if lane & block else lane + block for lane in range(lanes)]
            for first in (line for line in range(len(lines)) if not line & block):
                one, other = lines[first], lines[first + block]
                lines[first] = self._picked(wide, one, other, low)
                lines[first + block] = self._picked(wide, one, other, high)
            block //= 2
        return lines

    def _picked(self, wide: str, one: str, other: str, lanes: Sequence[int]) -> str:
        order = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.body.value(f"shufflevector {wide} {one}, {wide} {other}, <{len(lanes)} x i32> <{order}>")

    def _in_tile(self, slot: int, row: str, column: str) -> str:
        offset = self.body.value(f"mul i64 {row}, {self.k.width}")
        offset = self.body.value(f"add i64 {offset}, {column}")
        return self.body.value(f"getelementptr {MEMORY[self.k.dtypes[slot]]}, ptr %turned{slot}, i64 {offset}")
