"""The CUDA entries of a kernel with reductions.

A team of threads computes a **cell**: a row, or a tile of columns side by side. Its members step through the reduced
loops, `team` vectors at a time, and combine their accumulators after each pass (`reduction_nest`). In a row, the lanes of
a vector are steps of the innermost reduced loop. In columns they are different columns, and what is computed once per
step of the kept loops is computed once per lane.

A held row is read once, in its first pass: the values that later passes need stay in arrays `k…` that the compiler keeps
in registers, because every loop over them is unrolled. No thread exits early, because all must take part when a team combines.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

from irscope.codegen.cuda.instruction_text import MEMORY, REGISTER, UNSIGNED, literal, load_text
from irscope.codegen.cuda.kernel_base import EntryText
from irscope.codegen.cuda.schedule import Schedule, new_in_pass
from irscope.codegen.kernel import EXPONENTIALS, KernelSpec, Pass, accumulated_dtype, accumulators, is_float, reduction_nest
from irscope.ops.expr import POSITIONS

# The accumulators of a reduction on a GPU and the statements that combine them, in a thread or across threads.
#
# As on the CPU, argmax and argmin have two accumulators (what is compared, and its index), every
# accumulator starts with a neutral value, and combining two is commutative: ties go to
# the smaller index, and NaN wins over all numbers. So all threads of a team end with the same bits.

_PLACE: Final = """template <class T> static __device__ __forceinline__ void NAME(T& a, i64& i, T b, i64 j) {
  if (b BEATS a || (b != b && a == a) || ((b == a || (b != b && a != a)) && j < i)) { a = b; i = j; }
}"""
_POWERS: Final = """template <class T> static __device__ __forceinline__ void NAME(T& m, T& s, T b MORE) {
  const T d = m - b, e = power(d < 0 ? d : -d);
  s = b > m ? times_plus(s, e, (T)SUM) : times_plus((T)SUM, e, s);
  m = greatest(m, b);
}"""
"""Combines two pairs of a largest element and the sum of exponentials relative to it: the one with the smaller maximum is scaled."""

JOIN_HELPERS: Final = {
    "other": """static __device__ __forceinline__ float other(float v, int d) { return __shfl_xor_sync(0xffffffffu, v, d); }
static __device__ __forceinline__ double other(double v, int d) { return __shfl_xor_sync(0xffffffffu, v, d); }
static __device__ __forceinline__ i64 other(i64 v, int d) { return __shfl_xor_sync(0xffffffffu, v, d); }
template <class T> static __device__ __forceinline__ T other(T v, int d) {
  return (T)__shfl_xor_sync(0xffffffffu, (int)v, d);
}""",
    "take_largest": _PLACE.replace("NAME", "take_largest").replace("BEATS", ">"),
    "take_smallest": _PLACE.replace("NAME", "take_smallest").replace("BEATS", "<"),
    "power": """static __device__ __forceinline__ float power(float x) { return expf(x); }
static __device__ __forceinline__ double power(double x) { return exp(x); }
static __device__ __forceinline__ float times_plus(float a, float b, float c) { return fmaf(a, b, c); }
static __device__ __forceinline__ double times_plus(double a, double b, double c) { return fma(a, b, c); }""",
    "take_power": _POWERS.replace("NAME", "take_power").replace("MORE", "").replace("SUM", "1"),
    "take_powers": _POWERS.replace("NAME", "take_powers").replace("MORE", ", T t").replace("SUM", "t"),
}
"""Functions that the text of a reduction uses."""


def kinds(spec: KernelSpec, index: int) -> tuple[str, ...]:
    """Return the C++ types of a reduction's accumulators."""
    return tuple(REGISTER[dtype] for dtype, _ in accumulators(spec, index))


def joined(spec: KernelSpec, index: int, held: Sequence[str], more: Sequence[str], helpers: set[str]) -> str:
    """Return the statement that accumulates further values."""
    op, dtype = spec.instructions[index].op, accumulated_dtype(spec, index)
    kind = REGISTER[dtype]
    if op in POSITIONS:
        name = "take_largest" if op == "reduce_argmax" else "take_smallest"
        helpers.add(name)
        return f"{name}({held[0]}, {held[1]}, {more[0]}, {more[1]});"
    if op == EXPONENTIALS:
        name = "take_power" if len(more) == 1 else "take_powers"
        helpers.update(("greatest", "power", name))
        return f"{name}({', '.join((*held, *more))});"
    if op in ("reduce_max", "reduce_min"):
        name = "greatest" if op == "reduce_max" else "least"
        helpers.add(name)
        return f"{held[0]} = {name}({held[0]}, {more[0]});"
    sign = {"reduce_sum": "+", "reduce_prod": "*", "reduce_any": "|", "reduce_all": "&"}[op]
    if is_float(dtype) or op in ("reduce_any", "reduce_all"):
        return f"{held[0]} = {held[0]} {sign} {more[0]};"
    wide = UNSIGNED[dtype]
    return f"{held[0]} = ({kind})(({wide}){held[0]} {sign} ({wide}){more[0]});"


# Emits the code that combines the accumulators of a team: in a thread, across lanes by shuffles, and through shared memory.
#
# Every reduction has its own shared memory, so that one barrier in each pass is enough. All threads end with the
# same value, and all must take part.

_WARP: Final = 32


class ReductionText(EntryText):
    """An entry in which teams of threads reduce rows or columns, depending on the spec."""

    def __init__(self, spec: KernelSpec, schedule: Schedule, width: int, repeat: int, helpers: set[str]) -> None:
        super().__init__(spec, schedule, width, repeat, helpers)
        self.nest = reduction_nest(spec)
        self.columns = spec.by_columns
        self.lanes = width if self.columns else 1
        """How many results of each reduction a thread has."""
        self.kept = [loop for loop in range(spec.rank) if loop not in spec.reduced]
        self._declared: set[int] = set()
        """The operands that were loaded once for a cell."""

    def shared_memory(self) -> None:
        """Declare the shared memory through which warps, or rows of threads, combine."""
        team, side = self.schedule.team, self.schedule.side
        if team == 1 or (not self.columns and team <= _WARP):
            return
        cells = self.schedule.cells
        size = f"[{cells}][{team}][{self.width}][{side}]" if self.columns else f"[{team // _WARP}]"
        for each in self.nest.passes:
            for index in each.reductions:
                for part, kind in enumerate(kinds(self.spec, index)):
                    self.add(f"__shared__ {kind} m{index}_{part}{size};")

    def join(self, each: Pass) -> None:
        """Combine the accumulators, so that all threads of a team end with the result of the whole team."""
        spec, team = self.spec, self.schedule.team
        if not self.columns and self.width > 1:
            for index in each.reductions:
                with self.each_lane(1):
                    self._take(index, "0", self._parts(index, "a{0}_{1}[e]"))
        if self.columns and team > 1 and each.reductions:
            self._join_columns(each)
        elif not self.columns and team > 1:
            for index in each.reductions:
                self._across_lanes(index, min(team, _WARP))
            if team > _WARP and each.reductions:
                self._across_warps(each)
        for index in each.reductions:
            node = spec.instructions[index].node
            lane = "0" if self.lanes == 1 else "e"
            held = self._parts(index, f"a{{0}}_{{1}}[{lane}]")
            value = held[-1]
            if spec.instructions[index].op == EXPONENTIALS:
                infinite = literal(float("inf"), accumulated_dtype(spec, index))
                value = f"({held[0]} == {infinite} ? {infinite} : {held[1]})"
            if self.lanes == 1:
                self.add(f"const {kinds(spec, index)[-1]} t{index} = {value};", node=node)
                value = f"t{index}"
            self.names[index] = value

    def _parts(self, index: int, name: str) -> list[str]:
        """Return the names of a reduction's accumulators, in which {0} is its number and {1} that of the accumulator."""
        return [name.format(index, part) for part in range(len(kinds(self.spec, index)))]

    def _take(self, index: int, lane: str, more: Sequence[str]) -> None:
        text = joined(self.spec, index, self._parts(index, f"a{{0}}_{{1}}[{lane}]"), more, self.helpers)
        self.add(text, node=self.spec.instructions[index].node)

    def _across_lanes(self, index: int, lanes: int) -> None:
        self.helpers.add("other")
        with self.braces(f"for (int d = {lanes // 2}; d; d >>= 1)", unrolled=True):
            for part, kind in enumerate(kinds(self.spec, index)):
                self.add(f"const {kind} o{part} = other(a{index}_{part}[0], d);")
            self._take(index, "0", self._parts(index, "o{1}"))

    def _across_warps(self, each: Pass) -> None:
        """Combine through shared memory, of which every reduction has its own, so that one barrier is enough."""
        warps = self.schedule.team // _WARP
        with self.braces(f"if (threadIdx.x % {_WARP} == 0)"):
            for index in each.reductions:
                for part in self._parts(index, "{0}_{1}"):
                    self.add(f"m{part}[threadIdx.x / {_WARP}] = a{part}[0];")
        self.add("__syncthreads();")
        for index in each.reductions:
            for part in self._parts(index, "{0}_{1}"):
                self.add(f"a{part}[0] = m{part}[threadIdx.x % {warps}];")
            self._across_lanes(index, warps)

    def _join_columns(self, each: Pass) -> None:
        with self.each_lane():
            for index in each.reductions:
                for part in self._parts(index, "{0}_{1}"):
                    self.add(f"m{part}[own][t][e][lane] = a{part}[e];")
        self.add("__syncthreads();")
        with self.each_lane():
            for index in each.reductions:
                for part in self._parts(index, "{0}_{1}"):
                    self.add(f"a{part}[e] = m{part}[own][0][e][lane];")
                with self.braces(f"for (int o = 1; o < {self.schedule.team}; o++)"):
                    self._take(index, "e", self._parts(index, "m{0}_{1}[own][o][e][lane]"))

    def write(self, name: str) -> None:
        """Emit the whole entry."""
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
        """Emit which row or tile this thread's team has, and its pointers."""
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
            kind = f"{MEMORY[tensor.dtype]}* __restrict__ const"
            if slot < self.first_input:
                part = " + (i64)blockIdx.y * part_results" if schedule.partial else ""
                self.add(f"{kind} r{slot} = y{slot} + {self.offset(slot, self.kept)}{part};")
            elif tensor.has_memory:
                i = slot - self.first_input
                self.add(f"const {kind} p{i} = x{i} + {self.offset(slot, self.kept)};")

    def _extent(self) -> None:
        """Emit the range of vectors of the reduced loops that this block has."""
        steps = " * ".join(f"n{loop}" for loop in self.spec.reduced)
        if self.width > 1 and not self.columns:
            steps = f"{steps} / {self.width}"
        if self.schedule.whole:
            return
        if not self.schedule.partial:
            self.add(f"const {self.step} begin = 0, end = live ? {steps} : 0;")
            return
        self.add("const i64 wanted = (i64)(blockIdx.y + 1) * part_steps;")
        self.add(f"const {self.step} begin = wanted - part_steps, end = !live ? 0 : wanted < {steps} ? wanted : {steps};")

    # -- once per cell ------------------------------------------------------------------------------------------------

    def _plan_passes(self) -> None:
        """Determine what each pass computes, and which values stay in registers from one pass to the next."""
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

    def _once(self, indices: Sequence[int]) -> None:
        """Emit instructions with one value per step of the kept loops."""
        for index in indices:
            if self.spec.instructions[index].op == "input":
                self._once_input(index)
            else:
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
        self.names[index] = f"t{index}" if self.lanes == 1 else f"t{index}[e]"

    def _once_input(self, index: int) -> None:
        code = self.spec.instructions[index]
        slot, operand = self.first_input + code.operand, self.spec.inputs[code.operand]
        if operand.kind == "scalar":
            self.names[index] = self.scalar_value(slot)
        elif operand.kind == "index":
            self._declare_once(index, f"x{code.value} + {self.offset(slot, self.kept, index=self.columns)}")
        else:
            wide = self.columns and self.is_vector(slot)
            word = f"b{code.value}"
            text = f"*(const {self.memory_type(slot)}*)p{code.value}" if wide else f"*p{code.value}"
            if slot not in self._declared:
                kind = self.memory_type(slot) if wide else MEMORY[operand.dtype]
                self.add(f"const {kind} {word} = {text};", node=code.node)
                self._declared.add(slot)
            self._declare_once(index, self.in_register(slot, word) if wide else f"({load_text(word, operand.dtype, self.helpers)})")

    def _write_once(self) -> None:
        slots = [slot for slot, result in enumerate(self.spec.outputs) if self.spec.is_reduced(result)]
        with self.braces("if (live && t == 0)") if slots else nullcontext():
            for slot in slots:
                if self.columns and self.is_vector(slot):
                    self.declare_word(slot)
                    with self.each_lane():
                        self.set_word(slot)
                    self.store_word(slot, f"r{slot}")
                else:
                    self.add(f"*r{slot} = {self.stored(slot)};", node=self.spec.instructions[self.spec.outputs[slot].instruction].node)

    # -- one pass -----------------------------------------------------------------------------------------------------

    def _pass(self, number: int, each: Pass) -> None:
        fresh, _ = self.bodies[number]
        schedule, spec = self.schedule, self.spec
        self.add(f"// pass {number + 1} of {len(self.nest.passes)}")
        for index in each.reductions:
            for part, (dtype, first) in enumerate(accumulators(spec, index)):
                values = ", ".join([literal(first, dtype)] * self.width)
                self.add(f"{REGISTER[dtype]} a{index}_{part}[{self.width}] = {{{values}}};", node=spec.instructions[index].node)
        read = [spec.instructions[i].operand for i in fresh if spec.instructions[i].op == "input"]
        operands = [i for i in dict.fromkeys(read) if spec.inputs[i].kind == "tensor"]
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
        """Emit some vectors of each thread, of which only those before `end` exist; without an end all do.

        The first pass loads all vectors before it computes. Later ones find them in a cache and load one at a time, which needs
        fewer registers.
        """
        fresh, read = self.bodies[number]
        for i in operands:
            self.add(f"{self.memory_type(self.first_input + i)} v{i}[{repeat}];")
        if operands and number == 0:
            with self._each_vector(repeat, end):
                for i in operands:
                    self._load(i)
        with self._each_vector(repeat, end):
            for i in operands if number else ():
                self._load(i)
            self._point(fresh, read, each)

    @contextmanager
    def _each_vector(self, repeat: int, end: str) -> Iterator[None]:
        """Emit a loop over some vectors of a thread, with the steps of the reduced loops of each."""
        team = self.schedule.team
        guard = f" if (first + u * {team} < {end})" if end else ""
        with self.braces(f"for (int u = 0; u < {repeat}; u++){guard}", unrolled=True):
            self.add(f"const {self.step} j = first + u * {team};")
            loops = self.spec.reduced
            point = f"j * {self.width}" if self.width > 1 and not self.columns else "j"
            if len(loops) > 1:
                self.add(f"const {self.step} point = {point};")
                self.split_steps(loops, "point", f"n{loops[-1]}")
            else:
                self.add(f"const {self.step} i{loops[0]} = {point};")
            yield

    def _load(self, i: int) -> None:
        slot = self.first_input + i
        self.add(f"v{i}[u] = {self.loaded(slot, self.offset(slot, self.spec.reduced), f'p{i}')};")

    def _point(self, fresh: Sequence[int], read: Sequence[int], each: Pass) -> None:
        """Emit a vector of elements: compute, keep, accumulate and store."""
        spec = self.spec
        for index in read:
            self.names[index] = f"k{index}[u][{'e' if self.width > 1 else '0'}]"
        for slot in each.writes:
            self.declare_word(slot)
        with self.each_element():
            for index in fresh:
                self._instruction(index)
            for index in each.reductions:
                self._take(index, "e" if self.width > 1 else "0", [self.names[arg] for arg in spec.instructions[index].args])
            for slot in each.writes:
                self.set_word(slot)
        with self.braces("if (live)") if self.schedule.whole and each.writes else nullcontext():
            for slot in each.writes:
                self.store_word(slot, f"r{slot} + {self.offset(slot, spec.reduced)}")

    def _instruction(self, index: int) -> None:
        code, spec = self.spec.instructions[index], self.spec
        if code.op == "input":
            slot = self.first_input + code.operand
            if spec.inputs[code.operand].kind == "index":
                text = f"x{code.value} + {self.offset(slot, range(spec.rank), index=True)}"
            else:
                text = self.in_register(slot, f"v{code.value}[u]")
        else:
            text = self.value_text(index)
        self.add(f"const {REGISTER[code.dtype]} t{index} = {text};", node=code.node)
        self.names[index] = f"t{index}"
        if index in self.carried:
            self.add(f"k{index}[u][{'e' if self.width > 1 else '0'}] = t{index};", node=code.node)
