"""How a kernel's text loads and stores the elements of its tensors: a vector at a time, side by side or apart.

Of the last vector of a row only some lanes may be there (`some`): then nothing outside of them is read or written, by a
mask where the processor has them, and else through a buffer on the stack. Reading under a mask may take twice as long as
reading (Zen 5 streams 48 GB/s with masks, 80 without), so wherever more elements follow, whole vectors are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from irscope.codegen.kernel import BROADCAST, ITEM_SIZE, UNIT, KernelSpec
from irscope.codegen.llvm.control_flow import FlowText
from irscope.codegen.llvm.target import Target
from irscope.codegen.simd import MEMORY, VectorBuilder

__all__ = ["MemoryText"]


class MemoryText(FlowText):
    """A function over tensors, which are numbered: results first, then operands."""

    def __init__(self, spec: KernelSpec, target: Target, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.target = target
        self.width = width
        self.scalar = VectorBuilder(self.body, 1)
        self.vector = VectorBuilder(self.body, self.width)
        self.patterns = [tensor.pattern for tensor in spec.tensors]
        self.dtypes = [tensor.dtype for tensor in spec.tensors]
        self.first_input = len(spec.outputs)
        self.moving = [slot for slot, pattern in enumerate(self.patterns) if pattern and pattern[-1] != BROADCAST]
        self.indexes = [slot for slot, op in enumerate(spec.inputs, self.first_input) if op.kind == "index"]
        self.strides: dict[tuple[int, int], str] = {}
        self.pointers: dict[int, str] = {}
        """Where each tensor stands; of an index, its number."""
        self.places: dict[int, str] = {}
        """Where the lanes of each tensor start; of an index, the first lane's number."""
        self.some: tuple[str, str] | None = None
        """How many lanes there are, at least one, and their mask; None if all are."""
        self.whole: frozenset[int] = frozenset()
        """Tensors of which all lanes may be read even so: more of their elements follow."""

    def buffers(self) -> None:
        """Memory on the stack for one vector of each tensor that moves along the innermost loop."""
        for slot in self.moving:
            if slot not in self.indexes:
                kind = MEMORY[self.dtypes[slot]]
                self.body.add(f"%buffer{slot} = alloca [{self.width} x {kind}], align {self.target.vector_bytes}")

    def at(self, slot: int, base: str, index: str, step: str | None) -> str:
        """A place `index` steps further; a step of None is one element."""
        offset = index if step is None else self.body.value(f"mul i64 {index}, {step}")
        if slot in self.indexes:
            return self.body.value(f"add i64 {base}, {offset}")
        return self.body.value(f"getelementptr {MEMORY[self.dtypes[slot]]}, ptr {base}, i64 {offset}")

    def lane_step(self, slot: int) -> str | None:
        """How far apart the lanes of a tensor lie; None if side by side, or if it stands still."""
        return self.strides.get((slot, self.spec.rank - 1))

    def followed(self, loop: int) -> frozenset[int]:
        """Operands that lie side by side and walk along a loop: behind a row of one lies its next row."""
        patterns = enumerate(self.patterns)
        found = {slot for slot, own in patterns if own and own[-1] == UNIT and own[loop] != BROADCAST}
        return frozenset(slot for slot in found if slot >= self.first_input and slot not in self.indexes)

    def rows_before_the_last(self, rows: str) -> str:
        """How many of so many rows, each of `some` lanes, can be read as whole vectors and still end before the last of them
        does. Rows may follow one another after as little as one element."""
        assert self.some is not None
        missing = self.body.value(f"sub i64 {self.width}, {self.some[0]}")
        safe = self.body.value(f"sub i64 {rows}, {missing}")
        return self.body.value(f"select i1 {self.body.value(f'icmp sgt i64 {safe}, 0')}, i64 {safe}, i64 0")

    # -- vectors ------------------------------------------------------------------------------------------------------

    def load_row(self, slot: int) -> str:
        """A vector of elements side by side."""
        if self.some is not None and slot not in self.whole:
            return self.load_some(slot, self.places[slot], None, *self.some)
        kind = self.vector.type(MEMORY[self.dtypes[slot]])
        return self.body.value(f"load {kind}, ptr {self.places[slot]}, align {ITEM_SIZE[self.dtypes[slot]]}")

    def load_apart(self, slot: int, step: str) -> str:
        """A vector of elements that stand apart."""
        place = self.places[slot]
        if self.some is not None:
            return self.load_some(slot, place, step, *self.some)
        kind = MEMORY[self.dtypes[slot]]
        wide, vector = self.vector.type(kind), "poison"
        for lane in range(self.width):
            found = self.body.value(f"load {kind}, ptr {place}, align {ITEM_SIZE[self.dtypes[slot]]}")
            vector = self.body.value(f"insertelement {wide} {vector}, {kind} {found}, i64 {lane}")
            place = self.body.value(f"getelementptr {kind}, ptr {place}, i64 {step}")
        return vector

    def store(self, slot: int, stored: str, *, streaming: bool = False) -> None:
        """Store a vector; past the caches only where it is aligned."""
        place, step = self.places[slot], self.lane_step(slot)
        if self.some is not None:
            self.store_some(slot, stored, place, step, *self.some)
        elif step is not None:
            self._store_apart(slot, stored, place, step)
        elif streaming:
            self._store_past(slot, stored, place)
        else:
            kind, align = self.vector.type(MEMORY[self.dtypes[slot]]), ITEM_SIZE[self.dtypes[slot]]
            self.body.add(f"store {kind} {stored}, ptr {place}, align {align}")

    def _store_apart(self, slot: int, stored: str, place: str, step: str) -> None:
        body, kind = self.body, MEMORY[self.dtypes[slot]]
        for lane in range(self.width):
            found = body.value(f"extractelement {self.vector.type(kind)} {stored}, i64 {lane}")
            body.add(f"store {kind} {found}, ptr {place}, align {ITEM_SIZE[self.dtypes[slot]]}")
            place = body.value(f"getelementptr {kind}, ptr {place}, i64 {step}")

    def _store_past(self, slot: int, stored: str, place: str) -> None:
        body, boundary = self.body, self.target.vector_bytes
        wide, align = self.vector.type(MEMORY[self.dtypes[slot]]), ITEM_SIZE[self.dtypes[slot]]
        past, near, joined = body.name("past"), body.name("near"), body.name("stored")
        offset = body.value(f"and i64 {body.value(f'ptrtoint ptr {place} to i64')}, {boundary - 1}")
        body.add(f"br i1 {body.value(f'icmp eq i64 {offset}, 0')}, label %{past}, label %{near}")
        body.label(past)
        body.add(f"store {wide} {stored}, ptr {place}, align {boundary}, !nontemporal !2")
        body.add(f"br label %{joined}")
        body.label(near)
        body.add(f"store {wide} {stored}, ptr {place}, align {align}")
        body.add(f"br label %{joined}")
        body.label(joined)

    # -- parts of a vector --------------------------------------------------------------------------------------------

    def lanes_below(self, count: str) -> str:
        """The mask of the first `count` lanes."""
        numbers = ", ".join(f"i32 {lane}" for lane in range(self.width))
        limit = self.vector.splat("i32", self.body.value(f"trunc i64 {count} to i32"))
        return self.vector.compare("ult", "i32", f"<{numbers}>", limit)

    def load_some(self, slot: int, place: str, step: str | None, count: str, mask: str) -> str:
        """The first `count` elements, at least one, in a vector; the other lanes hold zeros."""
        wide, align = self.vector.type(MEMORY[self.dtypes[slot]]), ITEM_SIZE[self.dtypes[slot]]
        if self.target.masks and step is None:
            lanes = self.vector.type("i1")
            args = (("ptr", place), ("i32", str(align)), (lanes, mask), (wide, "zeroinitializer"))
            return self.body.value(self._masked("load", slot, wide, args))
        self.body.add(f"store {wide} zeroinitializer, ptr %buffer{slot}, align {self.target.vector_bytes}")
        self._copy(slot, (place, step), (f"%buffer{slot}", None), count)
        return self.body.value(f"load {wide}, ptr %buffer{slot}, align {self.target.vector_bytes}")

    def store_some(self, slot: int, stored: str, place: str, step: str | None, count: str, mask: str) -> None:
        """Store the first `count` lanes, at least one."""
        wide, align = self.vector.type(MEMORY[self.dtypes[slot]]), ITEM_SIZE[self.dtypes[slot]]
        if self.target.masks and step is None:
            args = ((wide, stored), ("ptr", place), ("i32", str(align)), (self.vector.type("i1"), mask))
            self.body.add(self._masked("store", slot, "void", args))
            return
        self.body.add(f"store {wide} {stored}, ptr %buffer{slot}, align {self.target.vector_bytes}")
        self._copy(slot, (f"%buffer{slot}", None), (place, step), count)

    def _masked(self, word: str, slot: int, result: str, args: Sequence[tuple[str, str]]) -> str:
        """A call of LLVM's load or store under a mask."""
        kind = MEMORY[self.dtypes[slot]]
        symbol = f"llvm.masked.{word}.v{self.width}{ {'float': 'f32', 'double': 'f64'}.get(kind, kind) }.p0"
        self.body.declarations.add(f"declare {result} @{symbol}({', '.join(type for type, _ in args)})")
        return f"call {result} @{symbol}({', '.join(f'{type} {value}' for type, value in args)})"

    def _copy(self, slot: int, source: tuple[str, str | None], target: tuple[str, str | None], count: str) -> None:
        kind, align = MEMORY[self.dtypes[slot]], ITEM_SIZE[self.dtypes[slot]]
        with self.loop(count) as loop:
            found = self.body.value(
                f"load {kind}, ptr {self.at(slot, source[0], loop.index, source[1])}, align {align}"
            )
            place = self.at(slot, target[0], loop.index, target[1])
            self.body.add(f"store {kind} {found}, ptr {place}, align {align}")
