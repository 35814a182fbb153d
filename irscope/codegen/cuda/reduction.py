"""The CUDA entries of a kernel with reductions.

A team of threads takes a **cell**: a row, or a tile of columns side by side. Its members step through the reduced
loops, `team` vectors at a time, and join what they gathered after each pass (`reduction_passes`). In a row, the lanes of
a vector are steps of the innermost reduced loop; in columns they are different columns, and what is computed once per
step of the kept loops is computed once per lane.

A held row is read once, in its first pass: what later passes need of it stays in arrays `k…` that the compiler keeps
in registers, because every loop over them is unrolled. No thread leaves early: all must be there when a team joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from irscope.codegen.cuda.instruction_text import MEMORY, REGISTER
from irscope.codegen.cuda.reduction_text import first_values, joined, kinds
from irscope.codegen.cuda.schedule import Schedule, new_in_pass
from irscope.codegen.cuda.thread_team import TeamText
from irscope.codegen.kernel import KernelSpec, Pass

__all__ = ["RowsText"]


class RowsText(TeamText):
    """Rows or columns, as the spec has it."""

    def __init__(self, spec: KernelSpec, schedule: Schedule, width: int, repeat: int, helpers: set[str]) -> None:
        super().__init__(spec, schedule, width, repeat, helpers)
        self.kept = [loop for loop in range(spec.rank) if loop not in spec.reduced]

    def write(self, name: str) -> None:
        """The whole entry."""
        with self.entry(name):
            self.shared_memory()
            self._cell()
            self._plan_passes()
            for number, each in enumerate(self.nest.passes):
                self._once(each.before)
                self._pass(number, each)
            self._once(self.nest.after)
            self._write_once()

    # -- places -------------------------------------------------------------------------------------------------------

    def _cell(self) -> None:
        """Which row or tile this thread's team has, and where it lies."""
        schedule, spec = self.schedule, self.spec
        if self.columns:
            last, wide = spec.rank - 1, schedule.side * self.width
            turn = f"threadIdx.x / {schedule.side}"
            self.add(f"const int lane = threadIdx.x % {schedule.side}, t = {turn} % {schedule.team};")
            self.add(f"const int own = {turn} / {schedule.team};")
            self.add(f"const {self.step} tiles = (n{last} + {wide - 1}) / {wide};")
            self.add(f"const {self.step} tile = ({self.step})blockIdx.x * {schedule.cells} + own;")
            self.add(f"{self.step} outer = {self.quotient('tile', 'tiles')};")
            self.add(f"{self.step} i{last} = (tile - outer * tiles) * {wide} + lane * {self.width};")
            outside = " * ".join(f"n{loop}" for loop in self.kept[:-1]) or "1"
            self.add(f"const bool live = i{last} < n{last} && outer < {outside};")
            self.add(f"if (!live) i{last} = outer = 0;")
            self.split_steps(self.kept[:-1], "outer", f"n{self.kept[-2]}" if len(self.kept) > 1 else "1")
        else:
            rows = schedule.cells
            cells = " * ".join(f"n{loop}" for loop in self.kept) or "1"
            self.add(f"const int t = threadIdx.x % {schedule.team};" if schedule.team > 1 else "const int t = 0;")
            first = f" * {rows} + threadIdx.x / {schedule.team}" if rows > 1 else ""
            self.add(f"{self.step} cell = ({self.step})blockIdx.x{first};")
            self.add(f"const bool live = cell < {cells};")
            if self.kept:
                self.add("if (!live) cell = 0;")
                self.split_steps(self.kept, "cell", f"n{self.kept[-1]}")
        self._extent()
        for slot, tensor in enumerate(self.tensors):
            if slot < self.first_input:
                part = " + (i64)blockIdx.y * part_results" if schedule.partial else ""
                self.add(f"{self._pointer_type(slot)} r{slot} = y{slot} + {self.offset(slot, self.kept)}{part};")
            elif tensor.has_memory:
                i = slot - self.first_input
                self.add(f"{self._pointer_type(slot)} p{i} = x{i} + {self.offset(slot, self.kept)};")

    def _pointer_type(self, slot: int) -> str:
        kind = MEMORY[self.tensors[slot].dtype]
        return f"{kind}* __restrict__ const" if slot < self.first_input else f"const {kind}* __restrict__ const"

    def _extent(self) -> None:
        """How many vectors of the reduced loops there are, and which of them are this block's."""
        steps = " * ".join(f"n{loop}" for loop in self.spec.reduced)
        if self.width > 1 and not self.columns:
            steps = f"{steps} / {self.width}"
        if self.schedule.whole:
            return
        if not self.schedule.partial:
            self.add(f"const {self.step} begin = 0, end = live ? {steps} : 0;")
            return
        self.add("const i64 wanted = (i64)(blockIdx.y + 1) * part_steps;")
        self.add(
            f"const {self.step} begin = wanted - part_steps, end = !live ? 0 : wanted < {steps} ? wanted : {steps};"
        )

    def _steps(self) -> None:
        """The steps of the reduced loops at vector number `j`."""
        loops, wide = list(self.spec.reduced), self.width > 1 and not self.columns
        point = f"j * {self.width}" if wide else "j"
        if len(loops) > 1:
            self.add(f"const {self.step} point = {point};")
            self.split_steps(loops, "point", f"n{loops[-1]}")
        else:
            self.add(f"const {self.step} i{loops[0]} = {point};")

    # -- once per cell ------------------------------------------------------------------------------------------------

    def _plan_passes(self) -> None:
        """What is computed anew in each pass, and what is kept in registers from one to the next."""
        self.bodies: list[tuple[list[int], list[int]]] = []
        known: set[int] = set()
        for each in self.nest.passes:
            body = new_in_pass(self.nest, each, known)
            self.bodies.append(body)
            if self.schedule.held:
                known |= set(body[0])
        self.carried = {i for _, read in self.bodies for i in read}
        for index in sorted(self.carried):
            kind = REGISTER[self.spec.instructions[index].dtype]
            self.add(f"{kind} k{index}[{self.repeat}][{self.width}];")

    def _lane(self, name: str) -> str:
        return f"{name}[e]" if self.lanes > 1 else name

    def _once(self, indices: Sequence[int]) -> None:
        """Instructions with one value per step of the kept loops."""
        for index in indices:
            code = self.spec.instructions[index]
            if code.op == "input":
                self._once_input(index)
                continue
            self._declare_once(index, self.value_text(index))

    def _declare_once(self, index: int, text: str) -> None:
        code = self.spec.instructions[index]
        kind = REGISTER[code.dtype]
        if self.lanes == 1:
            self.add(f"const {kind} t{index} = {text};", node=code.node)
        else:
            self.add(f"{kind} t{index}[{self.lanes}];", node=code.node)
            with self.each_lane():
                self.add(f"t{index}[e] = {text};", node=code.node)
        self.names[index] = self._lane(f"t{index}")

    def _once_input(self, index: int) -> None:
        code = self.spec.instructions[index]
        assert code.value is not None
        slot, operand = self.first_input + code.value, self.spec.inputs[code.value]
        if operand.kind == "scalar":
            self.names[index] = self.scalar_value(slot)
        elif operand.kind == "index":
            self._declare_once(index, f"x{code.value} + {self.offset(slot, self.kept, index=self.columns)}")
        else:
            wide = self.columns and self.is_vector(slot)
            word = f"b{code.value}"
            text = f"*(const {self.memory_type(slot)}*)p{code.value}" if wide else f"*p{code.value}"
            if f" {word} " not in self._declared:
                kind = self.memory_type(slot) if wide else self._word(slot)
                self.add(f"const {kind} {word} = {text};", node=code.node)
                self._declared += f" {word} "
            self._declare_once(index, self.in_register(slot, word) if wide else self._single(slot, word))

    _declared = ""

    def _word(self, slot: int) -> str:
        width, self.width = self.width, 1
        kind = self.memory_type(slot)
        self.width = width
        return kind

    def _single(self, slot: int, word: str) -> str:
        width, self.width = self.width, 1
        text = self.in_register(slot, word)
        self.width = width
        return text

    def _write_once(self) -> None:
        slots = [slot for slot, result in enumerate(self.spec.outputs) if self.spec.is_reduced(result)]
        if not slots:
            return
        with self.braces("if (live && t == 0)"):
            for slot in slots:
                node = self.spec.instructions[self.spec.outputs[slot].instruction].node
                if self.columns and self.is_vector(slot):
                    self.declare_word(slot)
                    with self.each_lane():
                        self.set_word(slot)
                    self.store_word(slot, f"r{slot}")
                else:
                    self.add(f"*r{slot} = {self.stored(slot)};", node=node)

    # -- one pass -----------------------------------------------------------------------------------------------------

    def _pass(self, number: int, each: Pass) -> None:
        fresh, _ = self.bodies[number]
        schedule, spec = self.schedule, self.spec
        self.add(f"// pass {number + 1} of {len(self.nest.passes)}")
        for index in each.reductions:
            for part, (kind, first) in enumerate(zip(kinds(spec, index), first_values(spec, index), strict=True)):
                values = ", ".join([first] * self.width)
                self.add(f"{kind} a{index}_{part}[{self.width}] = {{{values}}};", node=spec.instructions[index].node)
        operands = list(dict.fromkeys(self.spec.instructions[i].value or 0 for i in fresh if self._is_load(i)))
        if schedule.held:
            with self.braces(""):
                self.add("const int first = t;")
                self._vectors(number, each, operands, self.repeat, "" if schedule.whole else "end")
        else:
            team, last = schedule.team, self.repeat - 1
            self.add(f"{self.step} first{number} = begin + t;")
            if last:
                head = f"for (; first{number} + {last * team} < end; first{number} += {team * self.repeat})"
                with self.braces(head):
                    self.add(f"const {self.step} first = first{number};")
                    self._vectors(number, each, operands, self.repeat, "")
            with self.braces(f"for (; first{number} < end; first{number} += {team})"):
                self.add(f"const {self.step} first = first{number};")
                self._vectors(number, each, operands, 1, "")
        self.join(each)

    def _vectors(self, number: int, each: Pass, operands: Sequence[int], repeat: int, end: str) -> None:
        """Some vectors of each thread, of which those before `end` are there; without an end all are.

        The first pass loads all before it computes; later ones find them in a cache, and need fewer registers.
        """
        fresh, read = self.bodies[number]
        for i in operands:
            self.add(f"{self.memory_type(self.first_input + i)} v{i}[{repeat}];")
        if operands and number == 0:
            with self._each_vector(repeat, end):
                self._steps()
                for i in operands:
                    self._load(i)
        with self._each_vector(repeat, end):
            self._steps()
            for i in operands if number else ():
                self._load(i)
            self._point(fresh, read, each)

    def _each_vector(self, repeat: int, end: str) -> Any:
        team = self.schedule.team
        guard = f" if (first + u * {team} < {end})" if end else ""
        outer = self.braces(f"for (int u = 0; u < {repeat}; u++){guard}", unrolled=True)
        return _Both(outer, lambda: self.add(f"const {self.step} j = first + u * {team};"))

    def _is_load(self, index: int) -> bool:
        code = self.spec.instructions[index]
        return code.op == "input" and code.value is not None and self.spec.inputs[code.value].kind == "tensor"

    def _load(self, i: int) -> None:
        slot = self.first_input + i
        self.add(f"v{i}[u] = {self.loaded(slot, self.offset(slot, self.spec.reduced), f'p{i}')};")

    def _point(self, fresh: Sequence[int], read: Sequence[int], each: Pass) -> None:
        """A vector of elements: computed, kept, gathered and written."""
        spec = self.spec
        for index in read:
            self.names[index] = f"k{index}[u][{'e' if self.width > 1 else '0'}]"
        for slot in each.writes:
            self.declare_word(slot)
        with self.each_lane() if self.width > 1 else nullcontext():
            for index in fresh:
                self._instruction(index)
            for index in each.reductions:
                code = spec.instructions[index]
                lane = "e" if self.width > 1 else "0"
                held = [f"a{index}_{part}[{lane}]" for part in range(len(kinds(spec, index)))]
                more = [self.names[arg] for arg in code.args]
                self.add(joined(spec, index, held, more, self.helpers), node=code.node)
            for slot in each.writes:
                self.set_word(slot)
        with self.braces("if (live)") if self.schedule.whole and each.writes else nullcontext():
            for slot in each.writes:
                self.store_word(slot, f"r{slot} + {self.offset(slot, spec.reduced)}")

    def _instruction(self, index: int) -> None:
        code, spec = self.spec.instructions[index], self.spec
        if code.op == "input":
            assert code.value is not None
            slot = self.first_input + code.value
            if spec.inputs[code.value].kind == "index":
                text = f"x{code.value} + {self.offset(slot, range(spec.rank), index=True)}"
            else:
                text = self.in_register(slot, f"v{code.value}[u]")
        else:
            text = self.value_text(index)
        self.add(f"const {REGISTER[code.dtype]} t{index} = {text};", node=code.node)
        self.names[index] = f"t{index}"
        if index in self.carried:
            self.add(f"k{index}[u][{'e' if self.width > 1 else '0'}] = t{index};", node=code.node)


class _Both:
    """A block whose first lines are always the same."""

    def __init__(self, block: Any, first: Any) -> None:
        self.block = block
        self.first = first

    def __enter__(self) -> None:
        self.block.__enter__()
        self.first()

    def __exit__(self, *raised: object) -> None:
        self.block.__exit__(*raised)
