"""The state of a kernel while its text is emitted, and the instructions, loads, stores and loops that all kinds of kernels share."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from irscope.codegen.kernel import BROADCAST, ITEM_SIZE, STRIDED, UNIT, Instruction, KernelSpec, SourceText, is_float, reduction_nest
from irscope.codegen.kernel.loops import loop_nest
from irscope.codegen.llvm.builder import FunctionBuilder, VectorBuilder
from irscope.codegen.llvm.instruction_text import MEMORY, REGISTER, element, from_memory, to_memory
from irscope.ops.expr import PRIMITIVES, REDUCTIONS


@dataclass(frozen=True, slots=True)
class Target:
    """The properties of a processor that the text depends on."""

    vector_bytes: int = 16
    """The width of its vector registers."""
    native_half: bool = False
    """Whether it converts float16 in hardware; otherwise the conversion is emitted as bit operations."""
    masks: bool = False
    """Whether loads and stores take a mask of lanes at no cost (AVX-512); a short row is then copied in one instruction."""
    registers: int = 2
    """How many vector registers hold the lanes of one value: more registers hide more latency, until they run out."""


# Chooses the value that a kernel with several passes stores rather than rematerialises.
#
# Memory for it costs nothing in a result that is written only after the value's last use: the exponentials of
# a softmax are kept where the softmax will be.

_EXPENSIVE: Final = 20
"""LLVM instructions from which on storing a value is preferred to recomputing it."""


def kept_value(spec: KernelSpec, *, on_stack: bool) -> tuple[int, int, int, int] | None:
    """Return (instruction, first pass, last pass, result) of the most expensive value worth keeping, or None.

    The value is kept in that result, by position; -1 means on the stack, if that is allowed and rows are short enough.
    """
    if len(spec.reduced) != 1:
        return None
    nest, steps = reduction_nest(spec), spec.instructions
    written = {slot: number for number, each in enumerate(nest.passes) for slot in each.writes}
    best: tuple[tuple[int, bool], tuple[int, int, int, int]] | None = None
    for index, code in enumerate(steps):
        uses = [number for number, each in enumerate(nest.passes) if index in each.body]
        if len(uses) < 2 or code.op == "input":
            continue
        found, todo = {index}, [index]  # what recomputes it
        for here in todo:
            fresh = [arg for arg in steps[here].args if nest.varies[arg] and arg not in found]
            found.update(fresh)
            todo += fresh
        cost = weight(steps[i] for i in found if steps[i].op not in REDUCTIONS)
        if cost < _EXPENSIVE:
            continue
        fits = on_stack and spec.row_limit > 0 and REGISTER[code.dtype] != "i1"
        free = [  # results of this type that are not written before the last pass that needs the value
            slot for slot, result in enumerate(spec.outputs)
            if written.get(slot, -1) >= uses[-1] and result.pattern[-1] == UNIT
            and REGISTER[code.dtype] == MEMORY[result.dtype] and result.dtype == code.dtype
            and not (fits and spec.nontemporal)  # a result that is read again should stay in the caches
        ]  # fmt: skip
        if (free or fits) and (best is None or (cost, bool(free)) > best[0]):
            best = (cost, bool(free)), (index, uses[0], uses[-1], free[0] if free else -1)
    return best[1] if best else None


def weight(codes: Iterable[Instruction]) -> int:
    """Return the approximate number of LLVM instructions that these lower to."""
    return sum(PRIMITIVES[code.op].instructions if code.op in PRIMITIVES else 1 for code in codes)


_EPILOGUE: Final = '!1 = !{!"branch_weights", i32 1, i32 4000}\n!2 = !{i32 1}'


class KernelBuilder:
    """One kernel while its text is emitted. Its tensors are numbered: results first, then operands."""

    def __init__(self, spec: KernelSpec, target: Target, width: int) -> None:
        self.spec = spec
        self.target = target
        self.width = width
        """The lanes of a vector."""
        self.body = FunctionBuilder()
        self.scalar = VectorBuilder(self.body, 1)
        self.vector = VectorBuilder(self.body, width)
        self.sizes: list[str] = []
        """The extent of each loop."""
        self.values: dict[int, str] = {}
        """Instructions as scalars."""
        self.wide: dict[int, str] = {}
        """Instructions in every lane."""
        self.patterns = [tensor.pattern for tensor in spec.tensors]
        self.dtypes = [tensor.dtype for tensor in spec.tensors]
        self.first_input = len(spec.outputs)
        self.moving = [slot for slot, pattern in enumerate(self.patterns) if pattern and pattern[-1] != BROADCAST]
        self.indexes = [slot for slot, op in enumerate(spec.inputs, self.first_input) if op.kind == "index"]
        self.strides: dict[tuple[int, int], str] = {}
        self.lane_steps: dict[int, str] = {}
        """The stride between the lanes of a tensor, where it is neither one element nor zero."""
        self.pointers: dict[int, str] = {}
        """The current position of each tensor; for an index, its number."""
        self.places: dict[int, str] = {}
        """Where the lanes of each tensor start; for an index, the first lane's number."""
        self.some: tuple[str, str] | None = None
        """How many lanes are active, at least one, and their mask; None if all are."""
        self.whole: frozenset[int] = frozenset()
        """Tensors of which all lanes may be read nevertheless, because more of their elements follow."""

    def write(self) -> None:
        """Emit everything between the arguments and the return."""
        raise NotImplementedError

    def source(self) -> SourceText:
        self.body.lines.add(f"define void @{self.spec.name}(ptr noalias readonly %data, ptr noalias readonly %dims) #0 {{\nentry:")
        self._arguments()
        self.write()
        return self.body.source(self.spec.name, self.target.vector_bytes, _EPILOGUE)

    # -- arguments -----------------------------------------------------------------------------------------------------

    def _arguments(self) -> None:
        """Load pointers, extents and strides."""
        spec = self.spec
        for slot in range(len(self.dtypes)):
            place = self.body.value(f"getelementptr i64, ptr %data, i64 {slot}")
            operand = spec.inputs[slot - self.first_input] if slot >= self.first_input else None
            if operand is not None and operand.kind == "scalar":
                self.pointers[slot] = place
            else:
                kind = "i64" if slot in self.indexes else "ptr"
                self.pointers[slot] = self.body.value(f"load {kind}, ptr {place}, align 8")
        self.sizes = [self._dimension(loop) for loop in range(spec.rank)]
        row = 0
        for slot, pattern in enumerate(self.patterns):
            for loop, step in enumerate(pattern):
                if step == STRIDED:
                    self.strides[slot, loop] = self._dimension((row + 1) * spec.rank + loop)
            row += bool(pattern)
        last = self.spec.rank - 1
        self.lane_steps = {slot: stride for (slot, loop), stride in self.strides.items() if loop == last}

    def _dimension(self, index: int) -> str:
        place = self.body.value(f"getelementptr i64, ptr %dims, i64 {index}")
        return self.body.value(f"load i64, ptr {place}, align 8")

    def buffers(self) -> None:
        """Allocate memory on the stack for one vector of each tensor that moves along the innermost loop."""
        for slot in self.moving:
            if slot not in self.indexes:
                kind = MEMORY[self.dtypes[slot]]
                self.body.add(f"%buffer{slot} = alloca [{self.width} x {kind}], align {self.target.vector_bytes}")

    # -- positions of tensors ------------------------------------------------------------------------------------------

    def at(self, slot: int, base: str, index: str, step: str | None) -> str:
        """Return the position `index` steps further; a step of None is one element."""
        offset = index if step is None else self.body.value(f"mul i64 {index}, {step}")
        if slot in self.indexes:
            return self.body.value(f"add i64 {base}, {offset}")
        return self.body.value(f"getelementptr {MEMORY[self.dtypes[slot]]}, ptr {base}, i64 {offset}")

    def standing(self, pointers: dict[int, str], column: str) -> dict[int, str]:
        """Return where the lanes of each tensor start, given its pointers."""
        return {slot: self.at(slot, pointers[slot], column, self.lane_steps.get(slot)) for slot in self.moving}

    def advance(self, loop: int, index: str) -> None:
        """Move each tensor that moves along a loop to the loop's current step."""
        for slot, pattern in enumerate(self.patterns):
            if pattern and pattern[loop] != BROADCAST:
                self.pointers[slot] = self.at(slot, self.pointers[slot], index, self.strides.get((slot, loop)))

    def followed(self, loop: int) -> frozenset[int]:
        """Return the operands that are contiguous along the innermost loop and move along this one: more elements follow a row."""
        patterns = enumerate(self.patterns)
        found = {slot for slot, own in patterns if own and own[-1] == UNIT and own[loop] != BROADCAST}
        return frozenset(slot for slot in found if slot >= self.first_input and slot not in self.indexes)

    def staged(self, codes: Sequence[int], loops: int) -> list[list[int]]:
        """Group instructions by how many of the outermost loops must have started before they can be computed."""
        depths = loop_nest(self.spec).depths
        return [[index for index in codes if depths[index] == depth] for depth in range(loops + 1)]

    # -- parts of a vector ---------------------------------------------------------------------------------------------

    def lanes_below(self, count: str) -> str:
        numbers = ", ".join(f"i32 {lane}" for lane in range(self.width))
        limit = self.vector.splat("i32", self.body.value(f"trunc i64 {count} to i32"))
        return self.vector.compare("ult", "i32", f"<{numbers}>", limit)

    def rows_before_the_last(self, rows: str) -> str:
        """Return how many of `rows` rows, each of `some` lanes, can be read as whole vectors without reading past the end of the last
        row. Consecutive rows may be as little as one element apart."""
        assert self.some is not None
        missing = self.body.value(f"sub i64 {self.width}, {self.some[0]}")
        safe = self.body.value(f"sub i64 {rows}, {missing}")
        return self.body.value(f"select i1 {self.body.value(f'icmp sgt i64 {safe}, 0')}, i64 {safe}, i64 0")

    # Loads and stores of a kernel's tensors: a vector at a time, contiguous or strided.
    #
    # In the last vector of a row, only some lanes may exist (`some`). Then nothing outside of them is read or written: by a
    # mask where the processor has masks, otherwise through a buffer on the stack. A masked load may take twice as long as a plain
    # one (Zen 5 streams 48 GB/s with masks, 80 without), so wherever more elements follow, whole vectors are read.

    def read(self, slot: int, step: str | None) -> str:
        """Load a vector of a tensor's elements, `step` apart; None means contiguous."""
        place = self.places[slot]
        if self.some is not None and (step is not None or slot not in self.whole):
            return self.load_some(slot, place, step, *self.some)
        kind, align = MEMORY[self.dtypes[slot]], ITEM_SIZE[self.dtypes[slot]]
        wide, vector = self.vector.type(kind), "poison"
        if step is None:
            return self.body.value(f"load {wide}, ptr {place}, align {align}")
        for lane in range(self.width):
            found = self.body.value(f"load {kind}, ptr {place}, align {align}")
            vector = self.body.value(f"insertelement {wide} {vector}, {kind} {found}, i64 {lane}")
            place = self.body.value(f"getelementptr {kind}, ptr {place}, i64 {step}")
        return vector

    def store(self, slot: int, stored: str, *, streaming: bool = False) -> None:
        """Store a vector; with `streaming`, bypass the caches where it is aligned."""
        body, place, step = self.body, self.places[slot], self.lane_steps.get(slot)
        kind, align = MEMORY[self.dtypes[slot]], ITEM_SIZE[self.dtypes[slot]]
        wide = self.vector.type(kind)
        if self.some is not None:
            self.store_some(slot, stored, place, step, *self.some)
        elif step is not None:
            for lane in range(self.width):
                found = body.value(f"extractelement {wide} {stored}, i64 {lane}")
                body.add(f"store {kind} {found}, ptr {place}, align {align}")
                place = body.value(f"getelementptr {kind}, ptr {place}, i64 {step}")
        elif streaming:
            self._store_past(slot, stored, place)
        else:
            body.add(f"store {wide} {stored}, ptr {place}, align {align}")

    def _store_past(self, slot: int, stored: str, place: str) -> None:
        body, boundary = self.body, self.target.vector_bytes
        wide, align = self.vector.type(MEMORY[self.dtypes[slot]]), ITEM_SIZE[self.dtypes[slot]]
        past, near, joined = body.name("past"), body.name("near"), body.name("stored")
        offset = body.value(f"and i64 {body.value(f'ptrtoint ptr {place} to i64')}, {boundary - 1}")
        body.add(f"br i1 {body.value(f'icmp eq i64 {offset}, 0')}, label %{past}, label %{near}")
        for label, how in ((past, f"align {boundary}, !nontemporal !2"), (near, f"align {align}")):
            body.label(label)
            body.add(f"store {wide} {stored}, ptr {place}, {how}")
            body.add(f"br label %{joined}")
        body.label(joined)

    def load_some(self, slot: int, place: str, step: str | None, count: str, mask: str) -> str:
        """Load the first `count` elements, at least one, into a vector; the other lanes hold zeros."""
        kind = MEMORY[self.dtypes[slot]]
        if self.target.masks and step is None:
            return self.vector.masked_load(kind, place, ITEM_SIZE[self.dtypes[slot]], mask)
        wide = self.vector.type(kind)
        self.body.add(f"store {wide} zeroinitializer, ptr %buffer{slot}, align {self.target.vector_bytes}")
        self._copy(slot, (place, step), (f"%buffer{slot}", None), count)
        return self.body.value(f"load {wide}, ptr %buffer{slot}, align {self.target.vector_bytes}")

    def store_some(self, slot: int, stored: str, place: str, step: str | None, count: str, mask: str) -> None:
        """Store the first `count` lanes, at least one."""
        kind = MEMORY[self.dtypes[slot]]
        if self.target.masks and step is None:
            self.vector.masked_store(kind, stored, place, ITEM_SIZE[self.dtypes[slot]], mask)
        else:
            self.body.add(f"store {self.vector.type(kind)} {stored}, ptr %buffer{slot}, align {self.target.vector_bytes}")
            self._copy(slot, (f"%buffer{slot}", None), (place, step), count)

    def _copy(self, slot: int, source: tuple[str, str | None], target: tuple[str, str | None], count: str) -> None:
        kind, align = MEMORY[self.dtypes[slot]], ITEM_SIZE[self.dtypes[slot]]
        with self.body.loop(count) as loop:
            found = self.body.value(f"load {kind}, ptr {self.at(slot, source[0], loop.index, source[1])}, align {align}")
            place = self.at(slot, target[0], loop.index, target[1])
            self.body.add(f"store {kind} {found}, ptr {place}, align {align}")

    # Instructions, as scalars or in every lane of a vector, and the loops around them.

    @contextmanager
    def outer_loops(self, stages: Sequence[Sequence[int]]) -> Iterator[None]:
        """Emit the outermost loops, one fewer than stages, with the instructions of each stage inside its loop."""
        with ExitStack() as loops:
            for depth, stage in enumerate(stages):
                if depth:
                    self.advance(depth - 1, loops.enter_context(self.body.loop(self.sizes[depth - 1])).index)
                self.compute(stage, self.scalar)
            yield

    def short_rows(self, loop: int, safe: str) -> Iterator[None]:
        """Emit the loop over rows of one vector, and yield inside it: the first `safe` rows are read as whole vectors, those after them
        under the mask."""
        pointers, values = self.pointers, self.values
        parts = [("0", safe, self.followed(loop))] if safe != "0" else []
        for start, stop, whole in (*parts, (safe, self.sizes[loop], frozenset[int]())):
            with self.body.loop(stop, start=start) as row:
                self.whole, self.pointers, self.values = whole, dict(pointers), dict(values)
                self.advance(loop, row.index)
                yield
        self.whole, self.pointers, self.values = frozenset(), pointers, values

    def compute(self, indices: Iterable[int], lanes: VectorBuilder) -> None:
        """Emit instructions in this order."""
        for index in indices:
            code = self.spec.instructions[index]
            with self.body.written_for(code.node):
                if code.op == "input":
                    value = self._load(code.operand, lanes)
                elif code.op == "count":
                    value = self._count(code.dtype)
                else:
                    args = [self.operand(arg, lanes) for arg in code.args]
                    types = [self.spec.instructions[arg].dtype for arg in code.args]
                    value = element(lanes, code, args, types, native_half=self.target.native_half, exact=self.spec.exact)
            (self.values if lanes.width == 1 else self.wide)[index] = value

    def operand(self, index: int, lanes: VectorBuilder) -> str:
        """Return an instruction's value, as an operand of another."""
        code = self.spec.instructions[index]
        if code.op == "const":
            return element(lanes, code, [], [], native_half=self.target.native_half)
        return self.values[index] if lanes.width == 1 else self.wide[index]

    def stored(self, slot: int, lanes: VectorBuilder) -> str:
        """Return a result's values as they are stored in memory."""
        result = self.spec.outputs[slot]
        value = self.operand(result.instruction, lanes)
        return to_memory(lanes, value, result.dtype, native_half=self.target.native_half)

    def store_results(self) -> None:
        for slot, result in enumerate(self.spec.outputs):
            with self.body.written_for(self.spec.instructions[result.instruction].node):
                self.store(slot, self.stored(slot, self.vector), streaming=self.spec.nontemporal)

    def splat(self, index: int) -> None:
        """Copy a scalar instruction into every lane."""
        code = self.spec.instructions[index]
        with self.body.written_for(code.node):
            self.wide[index] = self.vector.splat(REGISTER[code.dtype], self.values[index])

    def _count(self, dtype: str) -> str:
        """Return how many steps the reduced loops have together."""
        steps = self.sizes[self.spec.reduced[0]]
        for loop in self.spec.reduced[1:]:
            steps = self.body.value(f"mul i64 {steps}, {self.sizes[loop]}")
        return self.scalar.convert("sitofp", "i64", REGISTER[dtype], steps)

    def _load(self, position: int, lanes: VectorBuilder) -> str:
        """Load an operand: from its pointer for one lane, from where its lanes start for many."""
        operand, slot = self.spec.inputs[position], position + self.first_input
        if operand.kind == "scalar":
            return self._number(operand.dtype, self.pointers[slot])
        step = self.lane_steps.get(slot)
        if operand.kind == "index":
            return self._index(slot, lanes, step)
        kind, align = MEMORY[operand.dtype], ITEM_SIZE[operand.dtype]
        if lanes.width == 1:
            loaded = self.body.value(f"load {kind}, ptr {self.pointers[slot]}, align {align}")
        elif operand.pattern[-1] in (UNIT, STRIDED):
            loaded = self.read(slot, step)
        else:
            first = self.body.value(f"load {kind}, ptr {self.pointers[slot]}, align {align}")
            loaded = self.vector.splat(kind, first)
        return from_memory(lanes, loaded, operand.dtype, native_half=self.target.native_half)

    def _index(self, slot: int, lanes: VectorBuilder, step: str | None) -> str:
        if lanes.width == 1:
            return self.pointers[slot]
        if self.patterns[slot][-1] == BROADCAST:
            return lanes.splat("i64", self.pointers[slot])
        numbers = ", ".join(f"i64 {lane}" for lane in range(lanes.width))
        steps = f"<{numbers}>"
        if step is not None:
            steps = lanes.op("mul", "i64", steps, lanes.splat("i64", step))
        return lanes.op("add", "i64", lanes.splat("i64", self.places[slot]), steps)

    def _number(self, dtype: str, place: str) -> str:
        """Load a number from its eight bytes."""
        kind = REGISTER[dtype]
        wide = "double" if is_float(dtype) else "i64"
        value = self.body.value(f"load {wide}, ptr {place}, align 8")
        if dtype == "bool":
            return self.scalar.compare("ne", "i64", value, "0")
        if kind == wide:
            return value
        return self.scalar.convert("fptrunc" if wide == "double" else "trunc", wide, kind, value)
