"""What the LLVM texts of all kinds of kernels share: arguments, the loops outside, and how an instruction is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from irscope.codegen.kernel import BROADCAST, ITEM_SIZE, NO_NODE, STRIDED, UNIT, KernelSpec, SourceText, is_float
from irscope.codegen.llvm.load_store import MemoryText
from irscope.codegen.llvm.target import Target
from irscope.codegen.simd import MEMORY, REGISTER, VectorBuilder, element, from_memory

__all__ = ["KernelText"]

_EPILOGUE: Final = '!1 = !{!"branch_weights", i32 1, i32 4000}\n!2 = !{i32 1}'


class KernelText(MemoryText):
    """One kernel while its text is written."""

    def __init__(self, spec: KernelSpec, target: Target, width: int) -> None:
        super().__init__(spec, target, width)
        self.sizes: list[str] = []
        self.values: dict[int, str] = {}
        """Instructions as scalars."""
        self.wide: dict[int, str] = {}
        """Instructions in every lane."""

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

    # -- the loops outside --------------------------------------------------------------------------------------------

    @contextmanager
    def outer_loops(self, stages: Sequence[Sequence[int]]) -> Iterator[None]:
        """The outermost loops, one less than there are stages, with the instructions of each stage behind its loop."""
        with ExitStack() as loops:
            for depth, stage in enumerate(stages):
                if depth:
                    self.advance(depth - 1, loops.enter_context(self.loop(self.sizes[depth - 1])).index)
                for index in stage:
                    self.instruction(index, self.scalar)
            yield

    def advance(self, loop: int, index: str) -> None:
        """Move each tensor that walks along a loop to its current step."""
        for slot, pattern in enumerate(self.patterns):
            if pattern and pattern[loop] != BROADCAST:
                self.pointers[slot] = self.at(slot, self.pointers[slot], index, self.strides.get((slot, loop)))

    def staged(self, codes: Sequence[int], loops: int) -> list[list[int]]:
        """Instructions by how many of the outermost loops must have started before they can be computed."""
        depths: list[int] = []
        for code in self.spec.instructions:
            if code.op == "input":
                assert code.value is not None
                depths.append(self.spec.inputs[code.value].depth)
            else:
                depths.append(max((depths[arg] for arg in code.args), default=0))
        return [[index for index in codes if depths[index] == depth] for depth in range(loops + 1)]

    # -- instructions -------------------------------------------------------------------------------------------------

    @contextmanager
    def written_for(self, node: int) -> Iterator[None]:
        """Lines that compute a node."""
        self.body.node = node
        yield
        self.body.node = NO_NODE

    def instruction(self, index: int, lanes: VectorBuilder) -> None:
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
            half, exact = self.target.native_half, self.spec.exact
            value = element(lanes, code, args, types, native_half=half, exact=exact)
        (self.values if lanes.width == 1 else self.wide)[index] = value
        self.body.node = NO_NODE

    def operand(self, index: int, lanes: VectorBuilder) -> str:
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

    def load(self, position: int, lanes: VectorBuilder) -> str:
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
            loaded = self.load_apart(slot, step)
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
        """A number from its eight bytes."""
        kind = REGISTER[dtype]
        wide = "double" if is_float(dtype) else "i64"
        value = self.body.value(f"load {wide}, ptr {place}, align 8")
        if dtype == "bool":
            return self.scalar.compare("ne", "i64", value, "0")
        if kind == wide:
            return value
        return self.scalar.convert("fptrunc" if wide == "double" else "trunc", wide, kind, value)
