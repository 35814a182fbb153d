"""The LLVM text of a kernel: pointwise, with transposed operands, row by row, or by columns.

`void kernel(ptr data, ptr dims)`: `data` holds a pointer for each result, then for each operand a pointer or, for a
number, eight bytes (float64 or int64); `dims` holds the extent of each loop, then the strides of each result and of
each tensor operand (int64, in elements). So any part of an iteration space is a call of the same kernel with other pointers
and extents.

**A result must not overlap an operand**, unless the spec is `in_place`. Pointers need the alignment of their elements only.

The text needs no optimisation pass: LLVM's code generator alone gives full speed, in a third of the time.
"""

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


class PointwiseKernel(KernelBuilder):
    """A pointwise kernel, with every instruction as far out as its operands allow."""

    def __init__(self, spec: KernelSpec, target: Target, width: int) -> None:
        super().__init__(spec, target, width)
        self.nest = loop_nest(spec)

    def write(self) -> None:
        self.buffers()
        if self.spec.rank > 1 and 0 < self.spec.row_limit <= self.width:
            self._short_rows()
            return
        with self.outer_loops(self.nest.stages[: self.spec.rank]):
            if self.spec.in_place:
                self._row_in_two_parts()
            else:
                self._row()

    # -- rows of one vector -------------------------------------------------------------------------------------------

    def _short_rows(self) -> None:
        """Emit the last two loops where a row is shorter than a vector: rows that can be read as whole vectors, then the last ones
        under the mask. With much work per point, all are read under the mask, so that the arithmetic is emitted once."""
        length, rank = self.sizes[-1], self.spec.rank
        with self.body.only_if(self.body.value(f"icmp sgt i64 {length}, 0")), self.outer_loops(self.nest.stages[: rank - 1]):
            self.some = (length, self.lanes_below(length))
            is_light = weight(self.spec.instructions) <= _LIGHT
            for _ in self.short_rows(rank - 2, self.rows_before_the_last(self.sizes[rank - 2]) if is_light else "0"):
                self._before_the_row()
                self.places = {slot: self.pointers[slot] for slot in self.moving}
                self._body()

    def _before_the_row(self) -> None:
        """Emit what is computed once a row."""
        self.compute(self.nest.stages[-2], self.scalar)
        for index in self.nest.carried:
            self.splat(index)

    def _row_in_two_parts(self) -> None:
        """Emit a row in which no point is computed twice: the points that fill whole vectors, then the rest."""
        body, length, pointers, values = self.body, self.sizes[-1], self.pointers, self.values
        rest = body.value(f"and i64 {length}, {self.width - 1}")
        whole = body.value(f"sub i64 {length}, {rest}")
        with body.loop("2") as part:
            is_first = body.value(f"icmp eq i64 {part.index}, 0")
            size = body.value(f"select i1 {is_first}, i64 {whole}, i64 {rest}")
            with body.only_if(body.value(f"icmp sgt i64 {size}, 0")):
                self.pointers, self.values, self.sizes[-1] = dict(pointers), dict(values), size
                self.advance(self.spec.rank - 1, body.value(f"select i1 {is_first}, i64 0, i64 {whole}"))
                self._row()
        self.pointers, self.values, self.sizes[-1] = pointers, values, length

    # -- the innermost loop -------------------------------------------------------------------------------------------

    def _row(self) -> None:
        """Emit the innermost loop, which goes through a buffer on the stack if it is shorter than a vector."""
        body, length, width, apart = self.body, self.sizes[-1], self.width, self.lane_steps
        kinds = [self.vector.type(MEMORY[dtype]) for dtype in self.dtypes]
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
                # stored as a whole vector, so that the load after it does not stall
                row = self.load_some(slot, self.pointers[slot], apart.get(slot), length, mask)
                body.add(f"store {kinds[slot]} {row}, ptr %buffer{slot}, align {self.target.vector_bytes}")
        filled = body.block
        body.add("br label %start")
        body.label("start")
        bases = {
            slot: body.value(f"phi ptr [{self.pointers[slot]}, %{before}], [%buffer{slot}, %{filled}]")
            for slot in self.moving
            if slot not in self.indexes
        } | {slot: self.pointers[slot] for slot in self.indexes if slot in self.moving}
        steps = {
            slot: body.value(f"phi i64 [{self.strides[slot, self.spec.rank - 1]}, %{before}], [1, %{filled}]")
            for slot in self.moving
            if self.patterns[slot][-1] == STRIDED and slot not in self.indexes
        }
        self.lane_steps = steps | {slot: apart[slot] for slot in self.indexes if slot in apart}
        last = body.value(f"phi i64 [{last}, %{before}], [0, %{filled}]")
        self._vectors(bases, last)
        body.add(f"br i1 {short}, label %drain, label %end, !prof !1")
        body.label("drain")
        mask = self.lanes_below(length)
        for slot in self.moving:
            if slot < self.first_input:
                row = body.value(f"load {kinds[slot]}, ptr %buffer{slot}, align {self.target.vector_bytes}")
                self.store_some(slot, row, self.pointers[slot], apart.get(slot), length, mask)
        body.add("br label %end")
        body.label("end")

    def _vectors(self, bases: dict[int, str], last: str) -> None:
        """Emit the loop over vectors; the last one starts at `last` and may overlap the one before."""
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
        """Emit what is computed and written in the lanes of a vector."""
        self.compute(self.nest.stages[self.spec.rank], self.vector)
        self.store_results()


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

    def __init__(self, spec: KernelSpec, target: Target, width: int) -> None:
        super().__init__(spec, target, width)
        self.turned = [slot for slot in self.moving if self.patterns[slot][-2] == UNIT]
        self.rows = least_rows(spec, target)
        """How many rows are read at once."""
        self.row = ""
        """The row of the tile that is being computed."""

    def write(self) -> None:
        for slot in self.turned:
            kind, size = MEMORY[self.dtypes[slot]], TILE_ROWS * self.width
            self.body.add(f"%turned{slot} = alloca [{size} x {kind}], align {self.target.vector_bytes}")
        rows, columns = self.sizes[-2:]
        height = self.body.least(rows, str(TILE_ROWS))
        last_row = self.body.value(f"sub i64 {rows}, {height}")
        last_column = self.body.value(f"sub i64 {columns}, {self.width}")
        with (
            self.outer_loops(self.nest.stages[: self.spec.rank - 1]),
            self.body.loop(rows, step=TILE_ROWS) as down,
            self.body.loop(columns, step=self.width) as across,
        ):
            self._tile(self.body.least(down.index, last_row), height, self.body.least(across.index, last_column))

    # -- one tile -----------------------------------------------------------------------------------------------------

    def _tile(self, row: str, height: str, column: str) -> None:
        pointers, values = self.pointers, self.values
        for slot in self.turned:
            place = self.at(slot, pointers[slot], row, None)
            self._transpose(slot, self.at(slot, place, column, self.lane_steps.get(slot)), height)
        with self.body.loop(height) as line:
            self.row, self.pointers, self.values = line.index, dict(pointers), dict(values)
            self.advance(self.spec.rank - 2, self.body.value(f"add i64 {row}, {line.index}"))
            self._before_the_row()
            self.places = self.standing(self.pointers, column)
            self._body()
        self.pointers, self.values = pointers, values

    def read(self, slot: int, step: str | None) -> str:
        """Load a row of a transposed tile, or a vector of any other operand."""
        if slot not in self.turned:
            return super().read(slot, step)
        wide, place = self.vector.type(MEMORY[self.dtypes[slot]]), self._in_tile(slot, self.row, "0")
        return self.body.value(f"load {wide}, ptr {place}, align {ITEM_SIZE[self.dtypes[slot]]}")

    # -- transposition ------------------------------------------------------------------------------------------------

    def _transpose(self, slot: int, corner: str, height: str) -> None:
        """Transpose a tile into rows, in memory on the stack."""
        kind, rows, step = MEMORY[self.dtypes[slot]], self.rows, self.lane_steps.get(slot)
        wide, columns = VectorBuilder(self.body, rows).type(kind), min(rows, self.width, _ACROSS)
        last = self.body.value(f"sub i64 {height}, {rows}")
        with self.body.loop(str(self.width), step=columns) as column, self.body.loop(height, step=rows) as row:
            line, lines = self.body.least(row.index, last), []
            place = self.at(slot, self.at(slot, corner, column.index, step), line, None)
            for _ in range(columns):
                lines.append(self.body.value(f"load {wide}, ptr {place}, align {ITEM_SIZE[self.dtypes[slot]]}"))
                place = self.at(slot, place, "1", step)
            for number, turned in enumerate(self._transposed(wide, lines, rows)):
                for part in range(0, rows, columns):
                    place = self._in_tile(slot, self.body.value(f"add i64 {line}, {number + part}"), column.index)
                    own = self.body.shuffled(wide, turned, "poison", range(part, part + columns))
                    self.body.add(f"store <{columns} x {kind}> {own}, ptr {place}, align {ITEM_SIZE[self.dtypes[slot]]}")

    def _transposed(self, wide: str, lines: list[str], lanes: int) -> list[str]:
        """Transpose columns into rows, one square at a time: blocks off the diagonal are swapped, in ever smaller
        sizes. A line becomes the rows of its number, one in each square."""
        block = len(lines) // 2
        while block:
            low = [lane + lanes - block if lane & block else lane for lane in range(lanes)]
            high = [lane + lanes if lane & block else lane + block for lane in range(lanes)]
            for first in (line for line in range(len(lines)) if not line & block):
                one, other = lines[first], lines[first + block]
                lines[first] = self.body.shuffled(wide, one, other, low)
                lines[first + block] = self.body.shuffled(wide, one, other, high)
            block //= 2
        return lines

    def _in_tile(self, slot: int, row: str, column: str) -> str:
        offset = self.body.value(f"add i64 {self.body.value(f'mul i64 {row}, {self.width}')}, {column}")
        return self.body.value(f"getelementptr {MEMORY[self.dtypes[slot]]}, ptr %turned{slot}, i64 {offset}")


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
    kind: type[KernelBuilder] = TurnedKernel if spec.is_turned else PointwiseKernel
    if spec.reduced:
        kind = ColumnKernel if spec.by_columns else RowKernel
    return kind(spec, target, vector_width(spec, target)).source()
