"""What the LLVM texts of all kinds of kernels share: arguments, loops, and how an element is loaded and stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from irscope.codegen.element_text import MEMORY, REGISTER, element, from_memory
from irscope.codegen.kernel_spec import BROADCAST, ITEM_SIZE, STRIDED, UNIT, KernelSpec, is_float
from irscope.codegen.lanes import Body, Lanes
from irscope.codegen.source import NO_NODE, SourceText

__all__ = ["KernelText", "Loop", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """What the text should know of the processor."""

    vector_bytes: int = 16
    """The width of its vector registers."""
    native_half: bool = False
    """Whether it converts float16 in hardware; otherwise the conversion is spelt out in bits."""
    masks: bool = False
    """Whether loads and stores take a mask of lanes at no cost (AVX-512); a short row is then copied at one stroke."""
    registers: int = 2
    """How many vector registers hold the lanes of one value: more hide more latency, until registers run out."""


_EPILOGUE: Final = '!1 = !{!"branch_weights", i32 1, i32 4000}\n!2 = !{i32 1}'


@dataclass(slots=True)
class Loop:
    """A loop while its body is written."""

    index: str
    carried: list[str]
    """The values that go from step to step, as the body sees them; behind the loop, their last ones."""
    following: list[str] = field(default_factory=list)
    """What the body hands on to the next step."""


class KernelText:
    """One kernel while its text is written. Tensors are numbered: results first, then operands."""

    def __init__(self, spec: KernelSpec, target: Target, width: int) -> None:
        self.spec = spec
        self.target = target
        self.width = width
        self.body = Body()
        self.scalar = Lanes(self.body, 1)
        self.vector = Lanes(self.body, self.width)
        self.patterns = [tensor.pattern for tensor in spec.tensors]
        self.dtypes = [tensor.dtype for tensor in spec.tensors]
        self.first_input = len(spec.outputs)
        self.sizes: list[str] = []
        self.strides: dict[tuple[int, int], str] = {}
        self.pointers: dict[int, str] = {}
        """Where each tensor stands; of an index, its number."""
        self.values: dict[int, str] = {}
        """Instructions as scalars."""
        self.wide: dict[int, str] = {}
        """Instructions in every lane."""
        self.places: dict[int, str] = {}
        """Where the lanes of each tensor start; of an index, the first lane's number."""
        self.moving = [slot for slot, pattern in enumerate(self.patterns) if pattern and pattern[-1] != BROADCAST]
        self.indexes = [slot for slot, op in enumerate(spec.inputs, self.first_input) if op.kind == "index"]

    def source(self) -> SourceText:
        """The finished text."""
        spec, lines = self.spec, self.body.lines
        lines.add(f"define void @{spec.name}(ptr noalias readonly %data, ptr noalias readonly %dims) #0 {{\nentry:")
        self.arguments()
        self.write()
        self.body.add("ret void")
        lines.add("}")
        for declaration in sorted(self.body.declarations):
            lines.add(declaration)
        width = self.target.vector_bytes * 8
        lines.add(f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}" "min-legal-vector-width"="{width}" }}')
        lines.add(_EPILOGUE)
        return lines.source(spec.name, "llvm")

    def write(self) -> None:
        """Everything between the arguments and the return."""
        raise NotImplementedError

    # -- arguments ----------------------------------------------------------------------------------------------------

    def arguments(self) -> None:
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

    def _dimension(self, index: int) -> str:
        place = self.body.value(f"getelementptr i64, ptr %dims, i64 {index}")
        return self.body.value(f"load i64, ptr {place}, align 8")

    def buffer(self, slot: int) -> None:
        """Memory on the stack for one vector of a tensor."""
        kind = MEMORY[self.dtypes[slot]]
        self.body.add(f"%buffer{slot} = alloca [{self.width} x {kind}], align {self.target.vector_bytes}")

    # -- loops --------------------------------------------------------------------------------------------------------

    @contextmanager
    def loop(
        self, stop: str, *, start: str = "0", step: int = 1, carry: Sequence[tuple[str, str]] = ()
    ) -> Iterator[Loop]:
        """Count from `start` to below `stop`; `carry` gives type and first value of what goes from step to step."""
        body = self.body
        head, inside, latch, done = (body.name(word) for word in ("head", "inside", "latch", "done"))
        index, following = f"%{body.name('i')}", f"%{body.name('next')}"
        before = body.block
        body.add(f"br label %{head}")
        body.label(head)
        body.add(f"{index} = phi i64 [{start}, %{before}], [{following}, %{latch}]")
        carried = [f"%{body.name('carried')}" for _ in carry]
        handed = [f"%{body.name('handed')}" for _ in carry]
        for name, after, (kind, first) in zip(carried, handed, carry, strict=True):
            body.add(f"{name} = phi {kind} [{first}, %{before}], [{after}, %{latch}]")
        more = body.value(f"icmp slt i64 {index}, {stop}")
        body.add(f"br i1 {more}, label %{inside}, label %{done}")
        body.label(inside)
        made = Loop(index, carried)
        yield made
        body.add(f"br label %{latch}")
        body.label(latch)
        body.add(f"{following} = add i64 {index}, {step}")
        for after, (kind, _), value in zip(handed, carry, made.following, strict=True):
            body.add(f"{after} = select i1 true, {kind} {value}, {kind} {value}")
        body.add(f"br label %{head}")
        body.label(done)

    @contextmanager
    def only_if(self, condition: str) -> Iterator[None]:
        """Code that runs only if a condition holds."""
        body = self.body
        inside, done = body.name("then"), body.name("joined")
        body.add(f"br i1 {condition}, label %{inside}, label %{done}")
        body.label(inside)
        yield
        body.add(f"br label %{done}")
        body.label(done)

    def least(self, a: str, b: str) -> str:
        """The smaller of two numbers."""
        return self.body.value(f"select i1 {self.body.value(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def advance(self, loop: int, index: str) -> None:
        """Move each tensor that walks along a loop to its current step."""
        for slot, pattern in enumerate(self.patterns):
            if pattern and pattern[loop] != BROADCAST:
                self.pointers[slot] = self.at(slot, self.pointers[slot], index, self.strides.get((slot, loop)))

    def at(self, slot: int, base: str, index: str, step: str | None) -> str:
        """A place `index` steps further; a step of None is one element."""
        offset = index if step is None else self.body.value(f"mul i64 {index}, {step}")
        if slot in self.indexes:
            return self.body.value(f"add i64 {base}, {offset}")
        return self.body.value(f"getelementptr {MEMORY[self.dtypes[slot]]}, ptr {base}, i64 {offset}")

    # -- instructions -------------------------------------------------------------------------------------------------

    def instruction(self, index: int, lanes: Lanes) -> None:
        """Compute one instruction."""
        code = self.spec.instructions[index]
        self.body.node = code.node
        if code.op == "input":
            assert code.value is not None
            value = self.load(code.value, lanes)
        elif code.op == "count":
            value = self.count(code.dtype)
        else:
            args = [self.operand(arg, lanes) for arg in code.args]
            types = [self.spec.instructions[arg].dtype for arg in code.args]
            value = element(lanes, code, args, types, native_half=self.target.native_half)
        (self.values if lanes.width == 1 else self.wide)[index] = value
        self.body.node = NO_NODE

    def operand(self, index: int, lanes: Lanes) -> str:
        """An instruction's value, for another one to read."""
        code = self.spec.instructions[index]
        if code.op == "const":
            return element(lanes, code, [], [], native_half=self.target.native_half)
        return self.values[index] if lanes.width == 1 else self.wide[index]

    def splat(self, index: int) -> None:
        """A scalar instruction in every lane."""
        code = self.spec.instructions[index]
        self.body.node = code.node
        self.wide[index] = self.vector.splat(REGISTER[code.dtype], self.values[index])
        self.body.node = NO_NODE

    def count(self, dtype: str) -> str:
        """How many steps the reduced loops have together."""
        steps = self.sizes[self.spec.reduced[0]]
        for loop in self.spec.reduced[1:]:
            steps = self.body.value(f"mul i64 {steps}, {self.sizes[loop]}")
        return self.scalar.convert("sitofp", "i64", REGISTER[dtype], steps)

    def depths(self) -> list[int]:
        """For each instruction, how many loops must have started before it can be computed."""
        found: list[int] = []
        for code in self.spec.instructions:
            if code.op == "input":
                assert code.value is not None
                found.append(self.spec.inputs[code.value].depth)
            else:
                found.append(max((found[arg] for arg in code.args), default=0))
        return found

    def load(self, position: int, lanes: Lanes) -> str:
        """An operand: from where it stands in one lane, from its place in many."""
        operand, slot = self.spec.inputs[position], position + self.first_input
        if operand.kind == "scalar":
            return self._number(operand.dtype, self.pointers[slot])
        step = self.lane_step(slot)
        if operand.kind == "index":
            return self._index(slot, lanes, step)
        kind, align = MEMORY[operand.dtype], ITEM_SIZE[operand.dtype]
        if lanes.width == 1:
            loaded = self.body.value(f"load {kind}, ptr {self.pointers[slot]}, align {align}")
        elif operand.pattern[-1] == UNIT:
            loaded = self.load_row(slot)
        elif operand.pattern[-1] == STRIDED:
            assert step is not None
            loaded = self.gathered(kind, align, self.places[slot], step)
        else:
            first = self.body.value(f"load {kind}, ptr {self.pointers[slot]}, align {align}")
            loaded = self.vector.splat(kind, first)
        return from_memory(lanes, loaded, operand.dtype, native_half=self.target.native_half)

    def lane_step(self, slot: int) -> str | None:
        """How far apart the lanes of a tensor lie; None if side by side, or if it stands still."""
        return self.strides.get((slot, self.spec.rank - 1))

    def load_row(self, slot: int) -> str:
        """A vector of elements side by side."""
        kind = self.vector.type(MEMORY[self.dtypes[slot]])
        return self.body.value(f"load {kind}, ptr {self.places[slot]}, align {ITEM_SIZE[self.dtypes[slot]]}")

    def gathered(self, kind: str, align: int, place: str, step: str) -> str:
        """A vector of elements that stand apart."""
        wide, vector = self.vector.type(kind), "poison"
        for lane in range(self.width):
            found = self.body.value(f"load {kind}, ptr {place}, align {align}")
            vector = self.body.value(f"insertelement {wide} {vector}, {kind} {found}, i64 {lane}")
            place = self.body.value(f"getelementptr {kind}, ptr {place}, i64 {step}")
        return vector

    def scattered(self, slot: int, stored: str, place: str, step: str) -> None:
        """Store a vector to elements that stand apart."""
        body, kind = self.body, MEMORY[self.dtypes[slot]]
        for lane in range(self.width):
            found = body.value(f"extractelement {self.vector.type(kind)} {stored}, i64 {lane}")
            body.add(f"store {kind} {found}, ptr {place}, align {ITEM_SIZE[self.dtypes[slot]]}")
            place = body.value(f"getelementptr {kind}, ptr {place}, i64 {step}")

    def store(self, slot: int, stored: str, place: str, step: str | None, *, streaming: bool = False) -> None:
        """Store a vector; past the caches only where it is aligned."""
        body, kind, align = self.body, MEMORY[self.dtypes[slot]], ITEM_SIZE[self.dtypes[slot]]
        wide = self.vector.type(kind)
        if step is not None:
            self.scattered(slot, stored, place, step)
            return
        if not streaming:
            body.add(f"store {wide} {stored}, ptr {place}, align {align}")
            return
        boundary = self.target.vector_bytes
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

    def _index(self, slot: int, lanes: Lanes, step: str | None) -> str:
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
        """A number from its eight bytes."""
        kind = REGISTER[dtype]
        wide = "double" if is_float(dtype) else "i64"
        value = self.body.value(f"load {wide}, ptr {place}, align 8")
        if dtype == "bool":
            return self.scalar.compare("ne", "i64", value, "0")
        if kind == wide:
            return value
        return self.scalar.convert("fptrunc" if wide == "double" else "trunc", wide, kind, value)

    # -- parts of a vector --------------------------------------------------------------------------------------------

    def lanes_below(self, count: str) -> str:
        """The mask of the first `count` lanes."""
        numbers = ", ".join(f"i32 {lane}" for lane in range(self.width))
        limit = self.vector.splat("i32", self.body.value(f"trunc i64 {count} to i32"))
        return self.vector.compare("ult", "i32", f"<{numbers}>", limit)

    def load_some(self, slot: int, place: str, step: str | None, count: str, mask: str) -> str:
        """The first `count` elements, at least one, in a vector; the other lanes hold zeros."""
        body, kind = self.body, MEMORY[self.dtypes[slot]]
        wide = self.vector.type(kind)
        if self.target.masks and step is None:
            symbol = f"llvm.masked.load.{self._suffix(kind)}.p0"
            lanes = self.vector.type("i1")
            body.declarations.add(f"declare {wide} @{symbol}(ptr, i32, {lanes}, {wide})")
            align = ITEM_SIZE[self.dtypes[slot]]
            return body.value(
                f"call {wide} @{symbol}(ptr {place}, i32 {align}, {lanes} {mask}, {wide} zeroinitializer)"
            )
        body.add(f"store {wide} zeroinitializer, ptr %buffer{slot}, align {self.target.vector_bytes}")
        self._copy(slot, (place, step), (f"%buffer{slot}", None), count)
        return body.value(f"load {wide}, ptr %buffer{slot}, align {self.target.vector_bytes}")

    def store_some(self, slot: int, stored: str, place: str, step: str | None, count: str, mask: str) -> None:
        """Store the first `count` lanes, at least one."""
        body, kind = self.body, MEMORY[self.dtypes[slot]]
        wide = self.vector.type(kind)
        if self.target.masks and step is None:
            symbol = f"llvm.masked.store.{self._suffix(kind)}.p0"
            lanes = self.vector.type("i1")
            body.declarations.add(f"declare void @{symbol}({wide}, ptr, i32, {lanes})")
            align = ITEM_SIZE[self.dtypes[slot]]
            body.add(f"call void @{symbol}({wide} {stored}, ptr {place}, i32 {align}, {lanes} {mask})")
            return
        body.add(f"store {wide} {stored}, ptr %buffer{slot}, align {self.target.vector_bytes}")
        self._copy(slot, (f"%buffer{slot}", None), (place, step), count)

    def _copy(self, slot: int, source: tuple[str, str | None], target: tuple[str, str | None], count: str) -> None:
        kind, align = MEMORY[self.dtypes[slot]], ITEM_SIZE[self.dtypes[slot]]
        with self.loop(count) as loop:
            found = self.body.value(
                f"load {kind}, ptr {self.at(slot, source[0], loop.index, source[1])}, align {align}"
            )
            place = self.at(slot, target[0], loop.index, target[1])
            self.body.add(f"store {kind} {found}, ptr {place}, align {align}")

    def _suffix(self, kind: str) -> str:
        return f"v{self.width}{ {'float': 'f32', 'double': 'f64'}.get(kind, kind) }"
