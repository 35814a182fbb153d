"""The LLVM text of a kernel: pointwise, with transposed operands, row by row, or by columns.

`void kernel(ptr data, ptr dims)`: `data` holds a pointer for each result, then for each operand a pointer or, for a
number, eight bytes (float64 or int64); `dims` holds the extent of each loop, then the strides of each result and of
each tensor operand (int64, in elements). So any part of an iteration space is a call of the same kernel with other pointers
and extents.

**A result must not overlap an operand**, unless the spec is `in_place`. Pointers need the alignment of their elements only.

The text needs no optimisation pass: LLVM's code generator alone gives full speed, in a third of the time.
"""

from collections.abc import Sequence
from typing import Final

from irscope.codegen.kernel import ITEM_SIZE, STRIDED, TILE_ROWS, UNIT, KernelSpec, SourceText
from irscope.codegen.kernel.loops import loop_nest
from irscope.codegen.llvm.builder import VectorBuilder
from irscope.codegen.llvm.column_reduction import MOST_LANES, ColumnKernel
from irscope.codegen.llvm.instruction_text import MEMORY
from irscope.codegen.llvm.kernel_base import KernelBuilder, Target, weight
from irscope.codegen.llvm.row_reduction import RowKernel

# The text of a pointwise kernel: nested loops, the innermost over vectors in LLVM's vector types.
#
# A row whose length is not a multiple of the vector ends with a vector that overlaps the one before. A row that turns out
# shorter than one vector goes through a buffer on the stack; where all rows are known to be short, each is one masked vector.
# So there is no scalar remainder loop, and only one copy of the arithmetic, except for light work on short rows. The price is that
# **a result must not overlap an operand**. Where it may (`KernelSpec.in_place`), a row is split in two: whole vectors, and the rest,
# which is shorter than one and goes through the buffer.

_LIGHT: Final = 60
"""LLVM instructions per point up to which the kernel is memory-bound."""


class PointwiseKernel:
    """A pointwise kernel, with every instruction as far out as its operands allow."""

    def __init__(self, k: KernelBuilder) -> None:
        self.k, self.spec, self.body, self.vector = k, k.spec, k.body, k.vector
        self.nest = loop_nest(k.spec)

    def write(self) -> None:
        self.k.buffers()
        if self.spec.rank > 1 and 0 < self.spec.row_limit <= self.k.width:
            self._short_rows()
            return
        with self.k.outer_loops(self.nest.stages[: self.spec.rank]):
            if self.spec.in_place:
                self._row_in_two_parts()
            else:
                self._row()

    # -- rows of one vector -------------------------------------------------------------------------------------------

    def _short_rows(self) -> None:
        """Emit the last two loops where a row is shorter than a vector: rows that can be read as whole vectors, then the last ones
        under the mask. With much work per point, all are read under the mask, so that the arithmetic is emitted once."""
        length, rank = self.k.sizes[-1], self.spec.rank
        with self.body.only_if(self.body.value(f"icmp sgt i64 {length}, 0")), self.k.outer_loops(self.nest.stages[: rank - 1]):
            self.k.some = (length, self.k.lanes_below(length))
            is_light = weight(self.spec.instructions) <= _LIGHT
            for _ in self.k.short_rows(rank - 2, self.k.rows_before_the_last(self.k.sizes[rank - 2]) if is_light else "0"):
                self._before_the_row()
                self.k.places = {slot: self.k.pointers[slot] for slot in self.k.moving}
                self._body()

    def _before_the_row(self) -> None:
        """Emit what is computed once a row."""
        for index in self.nest.stages[-2]:
            self.k.instruction(index, self.k.scalar)
        for index in self.nest.carried:
            self.k.splat(index)

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
        kinds = [self.vector.type(MEMORY[dtype]) for dtype in self.k.dtypes]
        for index in self.nest.carried:
            self.k.splat(index)
        before = body.block
        short = body.value(f"icmp slt i64 {length}, {width}")
        last = body.value(f"sub i64 {length}, {width}")
        body.add(f"br i1 {short}, label %fill, label %start, !prof !1")
        body.label("fill")
        mask = self.k.lanes_below(length)
        for slot in self.k.moving:
            if (
                slot >= self.k.first_input and slot not in self.k.indexes
            ):  # stored as a whole vector, so that the load after it does not stall
                row = self.k.load_some(slot, self.k.pointers[slot], apart.get(slot), length, mask)
                body.add(f"store {kinds[slot]} {row}, ptr %buffer{slot}, align {self.k.target.vector_bytes}")
        filled = body.block
        body.add("br label %start")
        body.label("start")
        bases = {
            slot: body.value(f"phi ptr [{self.k.pointers[slot]}, %{before}], [%buffer{slot}, %{filled}]")
            for slot in self.k.moving
            if slot not in self.k.indexes
        } | {slot: self.k.pointers[slot] for slot in self.k.indexes if slot in self.k.moving}
        steps = {
            slot: body.value(f"phi i64 [{self.k.strides[slot, self.spec.rank - 1]}, %{before}], [1, %{filled}]")
            for slot in self.k.moving
            if self.k.patterns[slot][-1] == STRIDED and slot not in self.k.indexes
        }
        self.k.lane_steps = steps | {slot: apart[slot] for slot in self.k.indexes if slot in apart}
        last = body.value(f"phi i64 [{last}, %{before}], [0, %{filled}]")
        self._vectors(bases, last)
        body.add(f"br i1 {short}, label %drain, label %end, !prof !1")
        body.label("drain")
        mask = self.k.lanes_below(length)
        for slot in self.k.moving:
            if slot < self.k.first_input:
                row = body.value(f"load {kinds[slot]}, ptr %buffer{slot}, align {self.k.target.vector_bytes}")
                self.k.store_some(slot, row, self.k.pointers[slot], apart.get(slot), length, mask)
        body.add("br label %end")
        body.label("end")

    def _vectors(self, bases: dict[int, str], last: str) -> None:
        """Emit the loop over vectors; the last one starts at `last` and may overlap the one before."""
        body, before = self.body, self.body.block
        body.add("br label %vector")
        body.label("vector")
        index, following = "%i", "%i.next"
        body.add(f"{index} = phi i64 [0, %{before}], [{following}, %latch]")
        self.k.places = {slot: self.k.at(slot, base, index, self.k.lane_steps.get(slot)) for slot, base in bases.items()}
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
            self.k.instruction(code, self.vector)
        self.k.store_results()


# The text of a pointwise kernel that reads some operands in tiles, because they are contiguous along another loop.
#
# A tile has `TILE_ROWS` rows and as many columns as a vector of the kernel has lanes. A tile of a transposed operand is read
# column by column, a register of rows at a time, and transposed on its way to the stack. Then the rows of the tile are computed
# as in any pointwise kernel. So both reads and writes of memory come in stretches of a few cache lines.
#
# The last tile of a row, and the last one down, overlap the one before. So a result must not overlap an operand, and the
# kernel needs at least a vector of columns and a register of rows (`least_rows`).

_ACROSS: Final = 8
"""The most columns that are transposed at once: more would take more registers, and longer to compile."""


def least_rows(spec: KernelSpec, target: Target) -> int:
    """Return how many rows are read at once: the lanes of a register of the widest operand, of 4 bytes at least."""
    widest = max((ITEM_SIZE[operand.dtype] for operand in spec.inputs if operand.kind == "tensor"), default=4)
    return target.vector_bytes // max(widest, 4)


class TurnedKernel(PointwiseKernel):
    """A pointwise kernel with outer loops, then tiles of the last two loops, then the rows of a tile."""

    def __init__(self, k: KernelBuilder) -> None:
        super().__init__(k)
        k.reader = self._read
        self.turned = [slot for slot in k.moving if k.patterns[slot][-2] == UNIT]
        self.rows = least_rows(k.spec, k.target)
        """How many rows are read at once."""
        self.row = ""
        """The row of the tile that is being computed."""

    def write(self) -> None:
        for slot in self.turned:
            kind, size = MEMORY[self.k.dtypes[slot]], TILE_ROWS * self.k.width
            self.body.add(f"%turned{slot} = alloca [{size} x {kind}], align {self.k.target.vector_bytes}")
        rows, columns = self.k.sizes[-2:]
        height = self.body.least(rows, str(TILE_ROWS))
        last_row = self.body.value(f"sub i64 {rows}, {height}")
        last_column = self.body.value(f"sub i64 {columns}, {self.k.width}")
        with (
            self.k.outer_loops(self.nest.stages[: self.spec.rank - 1]),
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
            self._before_the_row()
            self.k.places = {slot: self.k.at(slot, self.k.pointers[slot], column, self.k.lane_steps.get(slot)) for slot in self.k.moving}
            self._body()
        self.k.pointers, self.k.values = pointers, values

    def _read(self, slot: int, step: str | None) -> str:
        """Load a row of a transposed tile, or a vector of any other operand."""
        if slot not in self.turned:
            return self.k.load_vector(slot, step)
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
                    self.body.add(f"store <{columns} x {kind}> {own}, ptr {place}, align {ITEM_SIZE[self.k.dtypes[slot]]}")

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


GENERIC: Final = Target()
"""Any 64-bit processor."""

_LANES_OF_ROWS: Final = {8: 8, 16: 16, 32: 32, 64: 16, 256: 32}
"""For rows no longer than the key, a number of lanes that leaves few of them empty."""
_HEAVY: Final = 2500
"""Machine vector instructions in one loop above which compiling would take more than about 0.1 s."""


def vector_width(spec: KernelSpec, target: Target) -> int:
    """Return the lanes of the inner loop: the elements of the widest computed type that the target's number of registers holds.

    A kernel of many instructions uses fewer registers, because the time to compile grows with both. Where the spec says that
    rows are short, there are no more lanes than a row has elements.

    >>> from irscope.codegen.kernel.spec import Instruction, Operand, Result
    >>> code = (Instruction("input", (), "float32", 0), Instruction("exp", (0,), "float32"))
    >>> spec = KernelSpec((Operand("float32", "tensor", (1,)),), code, (Result("float32", (1,), 1),), rank=1)
    >>> vector_width(spec, Target(vector_bytes=64))
    32
    """
    widest = max((ITEM_SIZE[code.dtype] for code in spec.instructions), default=4)
    each, registers = weight(spec.instructions), target.registers
    while registers > 1 and each * registers > _HEAVY:
        registers //= 2
    width = registers * target.vector_bytes // max(widest, 4)
    if spec.by_columns:
        return spec.row_limit or min(width, MOST_LANES)
    return min(width, _LANES_OF_ROWS.get(spec.row_limit, width))


def emit_llvm(spec: KernelSpec, target: Target = GENERIC) -> SourceText:
    """Return the kernel as LLVM IR text (LLVM 20 or later)."""
    kernel = KernelBuilder(spec, target, vector_width(spec, target))
    if spec.reduced:
        return kernel.source((ColumnKernel if spec.by_columns else RowKernel)(kernel).write)
    return kernel.source((TurnedKernel if spec.is_turned else PointwiseKernel)(kernel).write)
