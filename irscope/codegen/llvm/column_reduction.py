"""The text of a kernel whose innermost loop is kept: columns side by side, reduced over the rows.

Columns are processed in tiles whose accumulators fit the first-level cache, and a row runs along a whole tile before the next
row: memory is read in order, as a few streams. Where the work at a point is small, up to `_TOGETHER` rows are
combined in registers before they reach the tile's accumulators. After every `_SPAN` such steps the accumulators are added
to others, so that the rounding errors of a long sum grow with the number of spans and the length of one.

Short rows are one vector, whose accumulators stay in registers for a span; a row that is not known to be short is longer
than `MOST_LANES`.

Everything with one value per column (accumulators, and values computed from them) is in an array on the stack, one vector for
each vector of the tile. The last vector of a row of columns overlaps the one before and computes the same values again.
Where the spec says that rows are short, there is one vector and a mask.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from irscope.codegen.kernel import BROADCAST, KernelSpec, Pass, reduction_nest
from irscope.codegen.llvm.instruction_text import MEMORY, REGISTER, first_values, kinds, taken_in
from irscope.codegen.llvm.kernel_base import KernelBuilder, Target, kept_value, weight
from irscope.ops.expr import REDUCTIONS

MOST_LANES: Final = 32
_TOGETHER: Final = 8
"""The most rows in a step."""
_LIGHT: Final = 16
"""Approximate LLVM instructions in a step up to which it includes more rows."""
_SPAN: Final = 128
_TILE: Final = 1024


class ColumnKernel(KernelBuilder):
    """Kept loops outside, then tiles of the innermost loop, then the reduced loops, then vectors of a tile."""

    def __init__(self, spec: KernelSpec, target: Target, width: int) -> None:
        super().__init__(spec, target, width)
        self.short = bool(spec.row_limit)
        self.most_vectors = 1 if self.short else max(_TILE // width, 1)
        self.lies: list[bool] = []
        """For each instruction, whether it differs from column to column."""
        for code in spec.instructions:
            pattern = spec.inputs[code.operand].pattern if code.op == "input" else ()
            own = pattern[-1:] not in ((), (BROADCAST,)) or code.op in REDUCTIONS
            self.lies.append(own or any(self.lies[arg] for arg in code.args))
        self.kept = None if self.short else kept_value(spec, on_stack=False)
        if self.kept is not None:
            # kept only if later passes only write, and only that result: by then the lanes that two vectors share hold something else,
            # which must not enter a reduction or another result
            index, first, _, slot = self.kept
            later = [each for each in reduction_nest(spec, self.kept[:3]).passes[first + 1 :] if index in each.body]
            self.kept = None if any(each.reductions or set(each.writes) - {slot} for each in later) else self.kept
        self.nest = reduction_nest(spec, self.kept and self.kept[:3])
        self.in_spans = self.short or len(spec.reduced) == 1
        """Whether the accumulators of the current span are separate from those of all rows before."""
        self.memory: dict[tuple[int, int], str] = {}
        """The array of a tile's values of an instruction, by (instruction, part)."""
        self.near: dict[tuple[int, int], str] = {}
        """The accumulators of the current span: arrays of the tile, or registers if rows are short."""
        self.start, self.stop, self.last = "0", "1", "0"
        """The tile's first vector, the one after its last, and the column where the last of all vectors starts."""
        self.number = "0"
        """The vector of the tile that is being emitted."""
        self.column = "0"
        """The column where it starts."""
        self.fresh = ""
        """The mask of the lanes to be written; empty for all."""

    def write(self) -> None:
        """Emit the kept loops around the tiles."""
        self.buffers()
        for index, code in enumerate(self.spec.instructions):
            for part, kind in enumerate(kinds(self.spec, index) if code.op in REDUCTIONS else ()):
                array = self.memory[index, part] = self.array(kind)
                self.near[index, part] = self.array(kind) if self.in_spans and not self.short else array
            if self.is_stored(index):
                self.memory[index, 0] = self.array(REGISTER[code.dtype])
        first = [index for index in self.nest.passes[0].before if not self.lies[index]]
        with self.outer_loops(self.staged(first, self.spec.reduced[0])), self.tiles():
            self._all_passes()

    def _all_passes(self) -> None:
        for number, each in enumerate(self.nest.passes):
            self.compute([index for index in each.before if number and not self.lies[index]], self.scalar)
            with self.each_vector():
                self.stand()
                self._between(each.before)
                for index in each.reductions:
                    self.hold(index, first_values(self.spec, index, self.vector))
                if self.in_spans:
                    self._set_near(each, self._first(each))
            if each.body or each.reductions or each.writes:
                self._pass(number, each)
        with self.each_vector():
            self.stand()
            self._between(self.nest.after)
            for slot, result in enumerate(self.spec.outputs):
                if self.spec.is_reduced(result):
                    self.fetch(result.instruction)
                    self._write(slot)

    def _between(self, codes: Sequence[int]) -> None:
        """Emit the instructions computed once per column, between two passes."""
        for index in codes:
            if self.is_stored(index):
                for arg in self.spec.instructions[index].args:
                    self.fetch(arg)
                self.compute([index], self.vector)
                self.keep(self.memory[index, 0], REGISTER[self.spec.instructions[index].dtype], self.wide[index])

    # -- a pass over the rows of a tile -------------------------------------------------------------------------------

    def _pass(self, number: int, each: Pass) -> None:
        pointers, rows = dict(self.pointers), self.sizes[self.spec.reduced[-1]]
        codes = [self.spec.instructions[index] for index in (*each.body, *each.reductions)]
        most = min(_LIGHT // weight(codes), _TOGETHER // len(self.nest.passes)) if each.reductions else 0
        together = 1 << most.bit_length() - 1 if most else 1
        with ExitStack() as loops:
            for loop in self.spec.reduced[:-1]:
                self.advance(loop, loops.enter_context(self.body.loop(self.sizes[loop])).index)
            if not (each.reductions and self.in_spans):
                self._rows(number, each, ("0", rows), together)
            else:
                length = _SPAN * together
                span = loops.enter_context(self.body.loop(rows, step=length))
                stop = self.body.least(self.body.value(f"add i64 {span.index}, {length}"), rows)
                self._span(number, each, (span.index, stop), together)
        self.pointers = pointers

    def _span(self, number: int, each: Pass, rows: tuple[str, str], together: int) -> None:
        """Reduce some rows separately from those before, add them to the total, and reset the span's accumulators."""
        self._rows(number, each, rows, together)
        with self.each_vector():
            found = iter(self._near(each))
            for index in each.reductions:
                with self.body.written_for(self.spec.instructions[index].node):
                    more = [next(found) for _ in kinds(self.spec, index)]
                    self.hold(index, taken_in(self.spec, index, self.vector, self.held(index), more))
            self._set_near(each, self._first(each))

    def _rows(self, number: int, each: Pass, rows: tuple[str, str], together: int) -> None:
        """Emit the rows from one to below another, `together` at a time. The remaining ones follow singly; with short rows, so do
        those that too few elements follow."""
        start, stop = rows
        if together > 1:
            loop, limit = self.spec.reduced[-1], stop
            if self.short:
                limit = self.body.least(stop, self.rows_before_the_last(self.sizes[loop]))
                limit = self.body.value(f"select i1 {self.body.value(f'icmp sgt i64 {limit}, {start}')}, i64 {limit}, i64 {start}")
                self.whole = self.followed(loop)
            count = self.body.value(f"and i64 {self.body.value(f'sub i64 {limit}, {start}')}, {-together}")
            even = self.body.value(f"add i64 {start}, {count}")
            self._steps(number, each, (start, even), together)
            self.whole, start = frozenset(), even
        self._steps(number, each, (start, stop), 1)

    def _steps(self, number: int, each: Pass, rows: tuple[str, str], together: int) -> None:
        start, stop = rows
        types = [self.vector.type(kind) for index in each.reductions for kind in kinds(self.spec, index)]
        carry = list(zip(types, self._near(each), strict=True)) if self.short else []
        with self.body.loop(stop, start=start, step=together, carry=carry) as step:
            if self.short:
                self._set_near(each, step.carried)
            pointers, rows_at = self.pointers, list[dict[int, str]]()  # of each row, the pointer of each tensor
            for row in range(together):
                self.pointers = dict(pointers)
                self.advance(self.spec.reduced[-1], self.body.value(f"add i64 {step.index}, {row}") if row else step.index)
                rows_at.append(self.pointers)
            self.pointers = pointers
            with self.each_vector():
                self.stand()
                self._step(number, each, rows_at)
            self.pointers = pointers
            if self.short:
                step.following = self._near(each)
        if self.short:
            self._set_near(each, step.carried)

    def _step(self, number: int, each: Pass, rows: Sequence[dict[int, str]]) -> None:
        """Emit a vector of columns in a few rows."""
        for index in each.carried:
            self.fetch(index)
        if self.kept is not None and self.kept[0] in each.body:
            # the lanes that the previous vector did not cover: in the others, results have overwritten the kept values
            wanted = self.body.value(f"mul i64 {self.number}, {self.width}")
            seen = self.body.value(f"sub i64 {wanted}, {self.column}")
            self.fresh = self.vector.op("xor", "i1", self.lanes_below(seen), self.vector.constant("i1", 1))
        wide = self.wide
        found = [self._one_row(number, each, row, dict(wide)) for row in rows]
        self.fresh, held, gathered = "", iter(self._near(each)), list[str]()
        for index in each.reductions:
            with self.body.written_for(self.spec.instructions[index].node):
                parts = [more[index] for more in found]
                while len(parts) > 1:
                    pairs = zip(parts[::2], parts[1::2], strict=True)
                    parts = [taken_in(self.spec, index, self.vector, one, other) for one, other in pairs]
                own = [next(held) for _ in kinds(self.spec, index)]
                gathered += taken_in(self.spec, index, self.vector, own, parts[0])
        self._set_near(each, gathered)

    def _one_row(self, number: int, each: Pass, row: dict[int, str], wide: dict[int, str]) -> dict[int, list[str]]:
        """Emit what is computed and written in one row; return the operands of each reduction."""
        self.pointers, self.places, self.wide = row, self.standing(row, self.column), wide
        for index in each.body:
            if self.kept is not None and self.kept[0] == index:
                self._keep_or_load(number)
            else:
                self.compute([index], self.vector)
        found = {}
        for index in each.reductions:
            code = self.spec.instructions[index]
            with self.body.written_for(code.node):
                found[index] = [self.operand(arg, self.vector) for arg in code.args]
        for slot in each.writes:
            self._write(slot)
        return found

    # -- accumulators of the current span -----------------------------------------------------------------------------

    def _first(self, each: Pass) -> list[str]:
        return [value for index in each.reductions for value in first_values(self.spec, index, self.vector)]

    def _near(self, each: Pass) -> list[str]:
        """Return the span's accumulators of all reductions of a pass, in their order."""
        found = []
        for index in each.reductions:
            with self.body.written_for(self.spec.instructions[index].node):
                for part, kind in enumerate(kinds(self.spec, index)):
                    near = self.near[index, part]
                    found.append(near if self.short else self.kept_in(near, kind))
        return found

    def _set_near(self, each: Pass, values: Sequence[str]) -> None:
        names = iter(values)
        for index in each.reductions:
            with self.body.written_for(self.spec.instructions[index].node):
                for part, kind in enumerate(kinds(self.spec, index)):
                    if self.short:
                        self.near[index, part] = next(names)
                    else:
                        self.keep(self.near[index, part], kind, next(names))

    # -- an expensive value -------------------------------------------------------------------------------------------

    def _keep_or_load(self, number: int) -> None:
        """Compute and store the kept value in its first pass, load it in later ones."""
        assert self.kept is not None
        index, first, _, slot = self.kept
        if number == first:
            self.compute([index], self.vector)
        with self.body.written_for(self.spec.instructions[index].node):
            if number == first:
                self.store(slot, self._blended(slot, self.wide[index], self.read(slot, None)))
            else:
                self.wide[index] = self.read(slot, None)

    def _blended(self, slot: int, fresh: str, old: str) -> str:
        return self.vector.select(MEMORY[self.dtypes[slot]], self.fresh, fresh, old)

    def _write(self, slot: int) -> None:
        with self.body.written_for(self.spec.instructions[self.spec.outputs[slot].instruction].node):
            value = self.stored(slot, self.vector)
            if self.fresh and self.kept is not None and slot == self.kept[3]:
                value = self._blended(slot, value, self.wide[self.kept[0]])
            self.store(slot, value)

    # -- tiles: the values that each column holds -------------------------------------------------------------------------

    @contextmanager
    def tiles(self) -> Iterator[None]:
        """Emit the loop over tiles; without columns there is no tile."""
        body, length = self.body, self.sizes[-1]
        if self.short:
            self.some = (length, self.lanes_below(length))
            with self.body.only_if(body.value(f"icmp sgt i64 {length}, 0")):
                yield
            return
        last = body.value(f"sub i64 {length}, {self.width}")
        count = body.value(f"sdiv i64 {body.value(f'add i64 {length}, {self.width - 1}')}, {self.width}")
        with self.body.loop(count, step=self.most_vectors) as tile:
            stop = self.body.least(body.value(f"add i64 {tile.index}, {self.most_vectors}"), count)
            self.start, self.stop, self.last = tile.index, stop, last
            yield

    @contextmanager
    def each_vector(self) -> Iterator[None]:
        """Emit the loop over the vectors of the tile."""
        if self.short:
            yield
            return
        with self.body.loop(self.stop, start=self.start) as vector:
            self.number = vector.index
            self.column = self.body.least(self.body.value(f"mul i64 {vector.index}, {self.width}"), self.last)
            yield

    def stand(self) -> None:
        """Move to the columns of the vector."""
        self.places, self.wide = self.standing(self.pointers, self.column), {}

    # -- one value per column -----------------------------------------------------------------------------------------

    def is_stored(self, index: int) -> bool:
        """Whether an instruction is computed once per column and read later."""
        code = self.spec.instructions[index]
        once = not self.nest.varies[index] and self.lies[index]
        return once and code.op not in REDUCTIONS and code.op not in ("input", "const")

    def array(self, kind: str) -> str:
        """Allocate memory on the stack for one value per column."""
        name, wide = f"%{self.body.name('tile')}", self.vector.type(kind)
        self.body.add(f"{name} = alloca [{self.most_vectors} x {wide}], align {self.target.vector_bytes}")
        return name

    def keep(self, array: str, kind: str, value: str) -> None:
        """Store the vector's values."""
        wide, place = self.vector.type(kind), self._slot(array, kind)
        self.body.add(f"store {wide} {value}, ptr {place}, align {self._alignment(kind)}")

    def kept_in(self, array: str, kind: str) -> str:
        """Load the vector's values."""
        wide, place = self.vector.type(kind), self._slot(array, kind)
        return self.body.value(f"load {wide}, ptr {place}, align {self._alignment(kind)}")

    def _alignment(self, kind: str) -> int:
        """Return the alignment of every vector of an array: the array is aligned, and each vector is as far from the one before as
        it is large. Vectors narrower than a register are many in one."""
        bits = {"float": 32, "double": 64}.get(kind) or int(kind.removeprefix("i"))
        size = max(self.width * bits // 8, 1)
        return min(self.target.vector_bytes, size & -size)

    def _slot(self, array: str, kind: str) -> str:
        if self.short:
            return array
        offset = self.body.value(f"sub i64 {self.number}, {self.start}")
        return self.body.value(f"getelementptr {self.vector.type(kind)}, ptr {array}, i64 {offset}")

    def hold(self, index: int, values: Sequence[str]) -> None:
        """Store a reduction's accumulators."""
        for part, (kind, value) in enumerate(zip(kinds(self.spec, index), values, strict=True)):
            self.keep(self.memory[index, part], kind, value)

    def held(self, index: int) -> list[str]:
        """Load a reduction's accumulators."""
        return [self.kept_in(self.memory[index, part], kind) for part, kind in enumerate(kinds(self.spec, index))]

    def fetch(self, index: int) -> None:
        """Make an instruction that is invariant over the rows available in every lane."""
        code = self.spec.instructions[index]
        if index in self.wide or code.op == "const":
            return
        if not self.lies[index]:
            self.splat(index)
        elif code.op == "input":
            self.compute([index], self.vector)
        else:
            with self.body.written_for(code.node):
                kind = REGISTER[code.dtype]
                kept = code.op not in REDUCTIONS
                self.wide[index] = self.kept_in(self.memory[index, 0], kind) if kept else self.held(index)[-1]
