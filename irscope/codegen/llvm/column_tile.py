"""A tile of columns side by side: the values that each column holds while a kernel goes over its rows.

Everything with one value per column (accumulators, and values computed from them) is in an array on the stack, one vector for
each vector of the tile. The last vector of a row of columns overlaps the one before and computes the same values again.
Where the spec says that rows are short, there is one vector and a mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from irscope.codegen.kernel import BROADCAST
from irscope.codegen.llvm.instructions import instruction, splat
from irscope.codegen.llvm.kernel_builder import KernelBuilder
from irscope.codegen.simd import REGISTER, kinds
from irscope.ops.expr import REDUCTIONS

__all__ = ["ColumnTile", "Tile"]


@dataclass(frozen=True, slots=True)
class Tile:
    """Vectors `start` to below `stop` of a row of columns; the last of all starts at column `last`."""

    start: str
    stop: str
    last: str


class ColumnTile:
    """The tiles of a kernel whose innermost loop runs over columns, and the vectors of the one being emitted."""

    def __init__(self, k: KernelBuilder, most_vectors: int) -> None:
        self.k, self.spec, self.body, self.vector = k, k.spec, k.body, k.vector
        self.short = bool(k.spec.row_limit)
        self.most_vectors = 1 if self.short else most_vectors
        self.lies = self._differing()
        """For each instruction, whether it differs from column to column."""
        self.memory: dict[tuple[int, int], str] = {}
        """The array of a tile's values of an instruction, by (instruction, part)."""
        self.tile = Tile("0", "1", "0")
        self.number = "0"
        """The vector of the tile that is being emitted."""
        self.column = "0"
        """The column where it starts."""

    def _differing(self) -> list[bool]:
        found: list[bool] = []
        for code in self.spec.instructions:
            if code.op == "input":
                assert code.value is not None
                pattern = self.spec.inputs[code.value].pattern
                found.append(bool(pattern) and pattern[-1] != BROADCAST)
            else:
                found.append(code.op in REDUCTIONS or any(found[arg] for arg in code.args))
        return found

    @contextmanager
    def tiles(self) -> Iterator[None]:
        """Emit the loop over tiles; without columns there is no tile."""
        body, length = self.body, self.k.sizes[-1]
        if self.short:
            self.k.some = (length, self.k.lanes_below(length))
            with self.body.only_if(body.value(f"icmp sgt i64 {length}, 0")):
                yield
            return
        last = body.value(f"sub i64 {length}, {self.k.width}")
        count = body.value(f"sdiv i64 {body.value(f'add i64 {length}, {self.k.width - 1}')}, {self.k.width}")
        with self.body.loop(count, step=self.most_vectors) as tile:
            stop = self.body.least(body.value(f"add i64 {tile.index}, {self.most_vectors}"), count)
            self.tile = Tile(tile.index, stop, last)
            yield

    @contextmanager
    def each_vector(self) -> Iterator[None]:
        """Emit the loop over the vectors of the tile."""
        if self.short:
            yield
            return
        with self.body.loop(self.tile.stop, start=self.tile.start) as vector:
            self.number = vector.index
            self.column = self.body.least(self.body.value(f"mul i64 {vector.index}, {self.k.width}"), self.tile.last)
            yield

    def stand(self) -> None:
        """Move to the columns of the vector."""
        self.k.places = self.standing(self.k.pointers)
        self.k.wide = {}

    def standing(self, pointers: dict[int, str]) -> dict[int, str]:
        """Return where the lanes of each tensor start, given its pointers."""
        k = self.k
        return {slot: k.at(slot, pointers[slot], self.column, k.lane_steps.get(slot)) for slot in k.moving}

    # -- one value per column -----------------------------------------------------------------------------------------

    def is_stored(self, index: int, varies: Sequence[bool]) -> bool:
        """Whether an instruction is computed once per column and read later."""
        code = self.spec.instructions[index]
        once = not varies[index] and self.lies[index]
        return once and code.op not in REDUCTIONS and code.op not in ("input", "const")

    def array(self, kind: str) -> str:
        """Allocate memory on the stack for one value per column."""
        name, wide = f"%{self.body.name('tile')}", self.vector.type(kind)
        self.body.add(f"{name} = alloca [{self.most_vectors} x {wide}], align {self.k.target.vector_bytes}")
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
        size = max(self.k.width * bits // 8, 1)
        return min(self.k.target.vector_bytes, size & -size)

    def _slot(self, array: str, kind: str) -> str:
        if self.short:
            return array
        offset = self.body.value(f"sub i64 {self.number}, {self.tile.start}")
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
        if index in self.k.wide or code.op == "const":
            return
        if not self.lies[index]:
            splat(self.k, index)
        elif code.op == "input":
            instruction(self.k, index, self.vector)
        else:
            with self.body.written_for(code.node):
                kind = REGISTER[code.dtype]
                kept = code.op not in REDUCTIONS
                self.k.wide[index] = self.kept_in(self.memory[index, 0], kind) if kept else self.held(index)[-1]
