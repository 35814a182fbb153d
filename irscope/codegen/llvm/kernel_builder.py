"""What is known of a kernel while its text is written, and its frame: arguments, and where its tensors stand.

Each kind of kernel has such a builder and writes by it, as do the functions of `load_store` and `instructions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from irscope.codegen.kernel import BROADCAST, STRIDED, UNIT, KernelSpec, SourceText
from irscope.codegen.llvm.target import Target
from irscope.codegen.simd import MEMORY, FunctionBuilder, VectorBuilder

__all__ = ["KernelBuilder"]

_EPILOGUE: Final = '!1 = !{!"branch_weights", i32 1, i32 4000}\n!2 = !{i32 1}'


class KernelBuilder:
    """One kernel while its text is written. Its tensors are numbered: results first, then operands."""

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
        """How far apart the lanes of a tensor lie, where they do not lie side by side or stand still."""
        self.pointers: dict[int, str] = {}
        """Where each tensor stands; of an index, its number."""
        self.places: dict[int, str] = {}
        """Where the lanes of each tensor start; of an index, the first lane's number."""
        self.some: tuple[str, str] | None = None
        """How many lanes there are, at least one, and their mask; None if all are."""
        self.whole: frozenset[int] = frozenset()
        """Tensors of which all lanes may be read even so: more of their elements follow."""
        self.reader: Callable[[int, str | None], str] | None = None
        """How a kind of kernel reads a vector in its own way: which tensor, and how far apart its lanes lie."""

    def source(self, write: Callable[[], None]) -> SourceText:
        """The finished text; `write` writes everything between the arguments and the return."""
        spec, lines = self.spec, self.body.lines
        lines.add(f"define void @{spec.name}(ptr noalias readonly %data, ptr noalias readonly %dims) #0 {{\nentry:")
        self._arguments()
        write()
        self.body.add("ret void")
        lines.add("}")
        for declaration in sorted(self.body.declarations):
            lines.add(declaration)
        width = self.target.vector_bytes * 8
        lines.add(f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}" "min-legal-vector-width"="{width}" }}')
        lines.add(_EPILOGUE)
        return lines.source(spec.name, "llvm")

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
        """Memory on the stack for one vector of each tensor that moves along the innermost loop."""
        for slot in self.moving:
            if slot not in self.indexes:
                kind = MEMORY[self.dtypes[slot]]
                self.body.add(f"%buffer{slot} = alloca [{self.width} x {kind}], align {self.target.vector_bytes}")

    # -- where tensors stand -------------------------------------------------------------------------------------------

    def at(self, slot: int, base: str, index: str, step: str | None) -> str:
        """A place `index` steps further; a step of None is one element."""
        offset = index if step is None else self.body.value(f"mul i64 {index}, {step}")
        if slot in self.indexes:
            return self.body.value(f"add i64 {base}, {offset}")
        return self.body.value(f"getelementptr {MEMORY[self.dtypes[slot]]}, ptr {base}, i64 {offset}")

    def advance(self, loop: int, index: str) -> None:
        """Move each tensor that walks along a loop to its current step."""
        for slot, pattern in enumerate(self.patterns):
            if pattern and pattern[loop] != BROADCAST:
                self.pointers[slot] = self.at(slot, self.pointers[slot], index, self.strides.get((slot, loop)))

    def followed(self, loop: int) -> frozenset[int]:
        """Operands that lie side by side and walk along a loop: behind a row of one lies its next row."""
        patterns = enumerate(self.patterns)
        found = {slot for slot, own in patterns if own and own[-1] == UNIT and own[loop] != BROADCAST}
        return frozenset(slot for slot in found if slot >= self.first_input and slot not in self.indexes)

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

    # -- parts of a vector ---------------------------------------------------------------------------------------------

    def lanes_below(self, count: str) -> str:
        """The mask of the first `count` lanes."""
        numbers = ", ".join(f"i32 {lane}" for lane in range(self.width))
        limit = self.vector.splat("i32", self.body.value(f"trunc i64 {count} to i32"))
        return self.vector.compare("ult", "i32", f"<{numbers}>", limit)

    def rows_before_the_last(self, rows: str) -> str:
        """How many of so many rows, each of `some` lanes, can be read as whole vectors and still end before the last of them
        does. Rows may follow one another after as little as one element."""
        assert self.some is not None
        missing = self.body.value(f"sub i64 {self.width}, {self.some[0]}")
        safe = self.body.value(f"sub i64 {rows}, {missing}")
        return self.body.value(f"select i1 {self.body.value(f'icmp sgt i64 {safe}, 0')}, i64 {safe}, i64 0")
