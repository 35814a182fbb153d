"""The text of a kernel for LLVM: nested loops, the innermost over vectors written out as vectors.

`void kernel(ptr data, ptr dims)`: `data` holds a pointer for each result, then for each operand a pointer or, for a
number, eight bytes (float64 or int64); `dims` holds the extent of each loop, then the strides of each result and of
each tensor operand (int64, in elements). Any part of an iteration space is thus itself a call with other pointers and
extents.

A row whose length is not a multiple of the vector ends with a vector that overlaps the one before; a row shorter than
one vector goes through a buffer on the stack. So there is one copy of the arithmetic and no scalar remainder loop; the
price is that **a result must not overlap an operand**. Pointers need the alignment of their elements only.

The text needs no optimisation pass: LLVM's code generator alone gives full speed, in a third of the time.
"""

from __future__ import annotations

from typing import Final

from irscope.codegen.element_text import MEMORY, REGISTER, element, from_memory, to_memory
from irscope.codegen.kernel_spec import BROADCAST, ITEM_SIZE, STRIDED, UNIT, KernelSpec, is_float
from irscope.codegen.lanes import Body, Lanes
from irscope.codegen.llvm_columns import MOST_LANES, ColumnKernel
from irscope.codegen.llvm_kernel import Target
from irscope.codegen.llvm_rows import WEIGHT, RowKernel
from irscope.codegen.loop_nest import loop_nest
from irscope.codegen.source import NO_NODE, SourceText

__all__ = ["GENERIC", "Target", "emit_llvm", "vector_width"]


GENERIC: Final = Target()
"""Any 64-bit processor."""

_HEAVY: Final = 2500
"""Vector instructions of the machine in one loop above which compiling would take more than about 0.1 s."""

_EPILOGUE: Final = '!1 = !{!"branch_weights", i32 1, i32 4000}\n!2 = !{i32 1}'


def vector_width(spec: KernelSpec, target: Target) -> int:
    """The lanes of the inner loop: the target's number of registers of the widest element type that is computed with.

    Fewer registers in a kernel of many instructions, because the time to compile grows with both; and no more lanes
    than the rows are long, where the spec knows that they are short.

    >>> from irscope.codegen.kernel_spec import Instruction, Operand, Result
    >>> code = (Instruction("input", (), "float32", 0), Instruction("exp", (0,), "float32"))
    >>> spec = KernelSpec((Operand("float32", "tensor", (1,)),), code, (Result("float32", (1,), 1),), rank=1)
    >>> vector_width(spec, Target(vector_bytes=64))
    32
    """
    widest = max((ITEM_SIZE[code.dtype] for code in spec.instructions), default=4)
    weight = sum(WEIGHT.get(code.op, 1) for code in spec.instructions)
    registers = target.registers
    while registers > 1 and weight * registers > _HEAVY:
        registers //= 2
    width = registers * target.vector_bytes // max(widest, 4)
    if spec.by_columns:
        width = min(width, MOST_LANES)
        return spec.row_limit or width
    return min(width, spec.row_limit or width)


def emit_llvm(spec: KernelSpec, target: Target = GENERIC) -> SourceText:
    """The kernel as LLVM IR text (LLVM 20 or later)."""
    if spec.reduced:
        kind = ColumnKernel if spec.by_columns else RowKernel
        return kind(spec, target, vector_width(spec, target)).source()
    return _Kernel(spec, target).source()


class _Kernel:
    """One kernel while its text is written. Tensors are numbered: results first, then operands."""

    def __init__(self, spec: KernelSpec, target: Target) -> None:
        self.spec = spec
        self.target = target
        self.nest = loop_nest(spec)
        self.width = vector_width(spec, target)
        self.body = Body()
        self.scalar = Lanes(self.body, 1)
        self.vector = Lanes(self.body, self.width)
        self.patterns = [tensor.pattern for tensor in spec.tensors]
        self.dtypes = [tensor.dtype for tensor in spec.tensors]
        self.first_input = len(spec.outputs)
        self.sizes: list[str] = []
        self.strides: dict[tuple[int, int], str] = {}
        self.pointers: dict[int, str] = {}
        self.values: dict[int, str] = {}
        """Instructions computed outside the innermost loop."""
        self.wide: dict[int, str] = {}
        """Instructions as the innermost loop sees them, in every lane."""
        self.mask = ""
        self.places: dict[int, str] = {}
        self.steps: dict[int, str] = {}
        self.moving = [slot for slot, pattern in enumerate(self.patterns) if pattern and pattern[-1] != BROADCAST]

    def source(self) -> SourceText:
        spec, lines = self.spec, self.body.lines
        lines.add(f"define void @{spec.name}(ptr noalias readonly %data, ptr noalias readonly %dims) #0 {{\nentry:")
        self._arguments()
        self._compute(0)
        self._outer_loops()
        lines.add("}")
        for declaration in sorted(self.body.declarations):
            lines.add(declaration)
        width = self.target.vector_bytes * 8
        lines.add(f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}" "min-legal-vector-width"="{width}" }}')
        lines.add(_EPILOGUE)
        return lines.source(spec.name, "llvm")

    # -- arguments ----------------------------------------------------------------------------------------------------

    def _arguments(self) -> None:
        spec = self.spec
        for slot in range(len(self.dtypes)):
            place = self.body.value(f"getelementptr i64, ptr %data, i64 {slot}")
            operand = spec.inputs[slot - self.first_input] if slot >= self.first_input else None
            if operand is not None and operand.kind == "scalar":
                self.pointers[slot] = place
            else:
                self.pointers[slot] = self.body.value(f"load ptr, ptr {place}, align 8")
        self.sizes = [self._dimension(loop) for loop in range(spec.rank)]
        row = 0
        for slot, pattern in enumerate(self.patterns):
            for loop, kind in enumerate(pattern):
                if kind == STRIDED:
                    self.strides[slot, loop] = self._dimension((row + 1) * spec.rank + loop)
            row += bool(pattern)

        for slot in self.moving:
            self.body.add(
                f"%buffer{slot} = alloca [{self.width} x {MEMORY[self.dtypes[slot]]}], align {self.target.vector_bytes}"
            )

    def _dimension(self, index: int) -> str:
        place = self.body.value(f"getelementptr i64, ptr %dims, i64 {index}")
        return self.body.value(f"load i64, ptr {place}, align 8")

    # -- loops --------------------------------------------------------------------------------------------------------

    def _outer_loops(self) -> None:
        body, outer = self.body, self.spec.rank - 1
        steps: list[tuple[str, str]] = []
        for loop in range(outer):
            index, following, before = f"%row{loop}", f"%next{loop}", body.block
            body.add(f"br label %head{loop}")
            body.label(f"head{loop}")
            body.add(f"{index} = phi i64 [0, %{before}], [{following}, %step{loop}]")
            more = body.value(f"icmp slt i64 {index}, {self.sizes[loop]}")
            leave = f"step{loop - 1}" if loop else "done"
            body.add(f"br i1 {more}, label %body{loop}, label %{leave}")
            body.label(f"body{loop}")
            self._advance(loop, index)
            self._compute(loop + 1)
            steps.append((index, following))
        self._row()
        if outer:
            body.add(f"br label %step{outer - 1}")
        for loop in reversed(range(outer)):
            body.label(f"step{loop}")
            body.add(f"{steps[loop][1]} = add i64 {steps[loop][0]}, 1")
            body.add(f"br label %head{loop}")
        if outer:
            body.label("done")
        body.add("ret void")

    def _advance(self, loop: int, index: str) -> None:
        """Move each tensor that walks along this loop to its current step."""
        for slot, pattern in enumerate(self.patterns):
            if pattern and pattern[loop] != BROADCAST:
                offset = self.body.value(f"mul i64 {index}, {self.strides[slot, loop]}")
                kind = MEMORY[self.dtypes[slot]]
                self.pointers[slot] = self.body.value(f"getelementptr {kind}, ptr {self.pointers[slot]}, i64 {offset}")

    def _compute(self, depth: int) -> None:
        """The instructions of one depth outside the innermost loop."""
        if depth == self.spec.rank:
            return
        for index in self.nest.stages[depth]:
            self._instruction(index, self.scalar)

    # -- the innermost loop -------------------------------------------------------------------------------------------

    def _row(self) -> None:
        """One run of the innermost loop, over a buffer on the stack if it is shorter than a vector."""
        body, length, width = self.body, self.sizes[-1], self.width
        for index in self.nest.carried:
            body.node = self.spec.instructions[index].node
            self.wide[index] = self.vector.splat(REGISTER[self.spec.instructions[index].dtype], self.values[index])
        body.node = NO_NODE
        before = body.block
        short = body.value(f"icmp slt i64 {length}, {width}")
        last = body.value(f"sub i64 {length}, {width}")
        body.add(f"br i1 {short}, label %fill, label %start, !prof !1")
        body.label("fill")
        self._mask(length)
        for slot in self.moving:
            if slot >= self.first_input:
                self._copy(
                    self.pointers[slot], self.strides.get((slot, self.spec.rank - 1)), f"%buffer{slot}", None, slot
                )
        filled = body.block
        body.add("br label %start")
        body.label("start")
        bases = {
            slot: self._either(f"ptr [{self.pointers[slot]}, %{before}], [%buffer{slot}, %{filled}]")
            for slot in self.moving
        }
        steps = {
            slot: self._either(f"i64 [{self.strides[slot, self.spec.rank - 1]}, %{before}], [1, %{filled}]")
            for slot in self.moving
            if self.patterns[slot][-1] == STRIDED
        }
        last = self._either(f"i64 [{last}, %{before}], [0, %{filled}]")
        self._vectors(bases, steps, last)
        body.add(f"br i1 {short}, label %drain, label %end, !prof !1")
        body.label("drain")
        self._mask(length)
        for slot in self.moving:
            if slot < self.first_input:
                self._copy(
                    f"%buffer{slot}", None, self.pointers[slot], self.strides.get((slot, self.spec.rank - 1)), slot
                )
        body.add("br label %end")
        body.label("end")

    def _either(self, text: str) -> str:
        return self.body.value(f"phi {text}")

    def _copy(self, source: str, source_step: str | None, target: str, target_step: str | None, slot: int) -> None:
        """Copy the row's elements: all at once where the target has masks, else one by one; a step of None is one
        element.
        """
        if self.target.masks and source_step is None and target_step is None:
            self._copy_masked(source, target, slot)
            return
        if slot >= self.first_input:
            empty = f"{self.vector.type(MEMORY[self.dtypes[slot]])} zeroinitializer"
            self.body.add(f"store {empty}, ptr {target}, align {self.target.vector_bytes}")
        body, kind, label, before = self.body, MEMORY[self.dtypes[slot]], self.body.name("copy"), self.body.block
        align = ITEM_SIZE[self.dtypes[slot]]
        following = f"%{body.name('next')}"
        body.add(f"br label %{label}")
        body.label(label)
        index = self._either(f"i64 [0, %{before}], [{following}, %{label}]")
        element = body.value(f"load {kind}, ptr {self._at(kind, source, index, source_step)}, align {align}")
        body.add(f"store {kind} {element}, ptr {self._at(kind, target, index, target_step)}, align {align}")
        body.add(f"{following} = add i64 {index}, 1")
        more = body.value(f"icmp slt i64 {following}, {self.sizes[-1]}")
        body.add(f"br i1 {more}, label %{label}, label %{label}.end")
        body.label(f"{label}.end")

    def _mask(self, length: str) -> None:
        """Note the mask of the lanes that a short row has."""
        if self.target.masks:
            lanes = ", ".join(f"i32 {lane}" for lane in range(self.width))
            count = self.vector.splat("i32", self.body.value(f"trunc i64 {length} to i32"))
            self.mask = self.vector.compare("ult", "i32", f"<{lanes}>", count)

    def _copy_masked(self, source: str, target: str, slot: int) -> None:
        """To the buffer a whole vector is stored, so that the load behind it need not wait for memory."""
        body, kind, align = self.body, MEMORY[self.dtypes[slot]], ITEM_SIZE[self.dtypes[slot]]
        wide, lanes = self.vector.type(kind), f"{self.vector.type('i1')} {self.mask}"
        suffix = f"v{self.width}{ {'float': 'f32', 'double': 'f64'}.get(kind, kind) }.p0"
        if slot >= self.first_input:
            body.declarations.add(
                f"declare {wide} @llvm.masked.load.{suffix}(ptr, i32, {self.vector.type('i1')}, {wide})"
            )
            arguments = f"ptr {source}, i32 {align}, {lanes}, {wide} zeroinitializer"
            row = body.value(f"call {wide} @llvm.masked.load.{suffix}({arguments})")
            body.add(f"store {wide} {row}, ptr {target}, align {self.target.vector_bytes}")
            return
        body.declarations.add(f"declare void @llvm.masked.store.{suffix}({wide}, ptr, i32, {self.vector.type('i1')})")
        row = body.value(f"load {wide}, ptr {source}, align {self.target.vector_bytes}")
        body.add(f"call void @llvm.masked.store.{suffix}({wide} {row}, ptr {target}, i32 {align}, {lanes})")

    def _at(self, kind: str, base: str, index: str, step: str | None) -> str:
        offset = index if step is None else self.body.value(f"mul i64 {index}, {step}")
        return self.body.value(f"getelementptr {kind}, ptr {base}, i64 {offset}")

    def _vectors(self, bases: dict[int, str], steps: dict[int, str], last: str) -> None:
        """The loop over vectors; the last one starts at `last` and may overlap the one before."""
        body, before = self.body, self.body.block
        body.add("br label %vector")
        body.label("vector")
        index, following = "%i", "%i.next"
        body.add(f"{index} = phi i64 [0, %{before}], [{following}, %latch]")
        places = {
            slot: self._at(MEMORY[self.dtypes[slot]], base, index, steps.get(slot)) for slot, base in bases.items()
        }
        self.places, self.steps = places, steps
        for code in self.nest.stages[self.spec.rank]:
            self._instruction(code, self.vector)
        for slot, result in enumerate(self.spec.outputs):
            body.node = self.spec.instructions[result.instruction].node
            stored = to_memory(
                self.vector,
                self._operand(result.instruction, self.vector),
                result.dtype,
                native_half=self.target.native_half,
            )
            self._store(slot, stored, places[slot], steps.get(slot))
        body.node = NO_NODE
        body.add("br label %latch")
        body.label("latch")
        further = body.value(f"add i64 {index}, {self.width}")
        inside = body.value(f"icmp slt i64 {further}, {last}")
        body.add(f"{following} = select i1 {inside}, i64 {further}, i64 {last}")
        more = body.value(f"icmp slt i64 {index}, {last}")
        body.add(f"br i1 {more}, label %vector, label %finish")
        body.label("finish")

    def _store(self, slot: int, stored: str, place: str, step: str | None) -> None:
        body, kind, align = self.body, MEMORY[self.dtypes[slot]], ITEM_SIZE[self.dtypes[slot]]
        wide = self.vector.type(kind)
        if step is not None:
            for lane in range(self.width):
                element = body.value(f"extractelement {wide} {stored}, i64 {lane}")
                body.add(f"store {kind} {element}, ptr {place}, align {align}")
                place = body.value(f"getelementptr {kind}, ptr {place}, i64 {step}")
            return
        if not self.spec.nontemporal:
            body.add(f"store {wide} {stored}, ptr {place}, align {align}")
            return
        boundary, past, near, joined = (
            self.target.vector_bytes,
            body.name("past"),
            body.name("near"),
            body.name("stored"),
        )
        offset = body.value(f"and i64 {body.value(f'ptrtoint ptr {place} to i64')}, {boundary - 1}")
        body.add(f"br i1 {body.value(f'icmp eq i64 {offset}, 0')}, label %{past}, label %{near}")
        body.label(past)
        body.add(f"store {wide} {stored}, ptr {place}, align {boundary}, !nontemporal !2")
        body.add(f"br label %{joined}")
        body.label(near)
        body.add(f"store {wide} {stored}, ptr {place}, align {align}")
        body.add(f"br label %{joined}")
        body.label(joined)

    # -- instructions -------------------------------------------------------------------------------------------------

    def _instruction(self, index: int, lanes: Lanes) -> None:
        code = self.spec.instructions[index]
        self.body.node = code.node
        if code.op == "input":
            assert code.value is not None
            value = self._load(code.value, lanes)
        else:
            args = [self._operand(arg, lanes) for arg in code.args]
            types = [self.spec.instructions[arg].dtype for arg in code.args]
            value = element(lanes, code, args, types, native_half=self.target.native_half)
        (self.values if lanes.width == 1 else self.wide)[index] = value
        self.body.node = NO_NODE

    def _operand(self, index: int, lanes: Lanes) -> str:
        code = self.spec.instructions[index]
        if code.op == "const":
            return element(lanes, code, [], [], native_half=self.target.native_half)
        return self.values[index] if lanes.width == 1 else self.wide[index]

    def _load(self, position: int, lanes: Lanes) -> str:
        operand, slot = self.spec.inputs[position], position + self.first_input
        if operand.kind == "scalar":
            return self._scalar(operand.dtype, self.pointers[slot])
        kind, align = MEMORY[operand.dtype], ITEM_SIZE[operand.dtype]
        if lanes.width == 1:
            loaded = self.body.value(f"load {kind}, ptr {self.pointers[slot]}, align {align}")
        elif operand.pattern[-1] == UNIT:
            loaded = self.body.value(f"load {lanes.type(kind)}, ptr {self.places[slot]}, align {align}")
        else:
            loaded = self._gathered(kind, align, self.places[slot], self.steps[slot])
        return from_memory(lanes, loaded, operand.dtype, native_half=self.target.native_half)

    def _gathered(self, kind: str, align: int, place: str, step: str) -> str:
        wide, vector = self.vector.type(kind), "poison"
        for lane in range(self.width):
            element = self.body.value(f"load {kind}, ptr {place}, align {align}")
            vector = self.body.value(f"insertelement {wide} {vector}, {kind} {element}, i64 {lane}")
            place = self.body.value(f"getelementptr {kind}, ptr {place}, i64 {step}")
        return vector

    def _scalar(self, dtype: str, place: str) -> str:
        """A number from its eight bytes."""
        kind = REGISTER[dtype]
        wide = "double" if is_float(dtype) else "i64"
        value = self.body.value(f"load {wide}, ptr {place}, align 8")
        if dtype == "bool":
            return self.scalar.compare("ne", "i64", value, "0")
        return (
            value
            if kind == wide
            else self.scalar.convert("fptrunc" if wide == "double" else "trunc", wide, kind, value)
        )
