"""The text that the CUDA entries of all kernels share: arguments, addresses of elements, instructions as statements.

Arguments, in this order: the results' pointers; for each operand a pointer, a number as `double` or `long long`, or
the first number of an index; the extent of each loop; the strides, in elements, that the spec does not fix
(`stride_arguments`); and for a partial kernel the steps of a part and the results of a part.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from irscope.codegen.cuda.instruction_text import HALF_HELPERS, MEMORY, REGISTER, element_text, literal, load_text, rounded, store_text
from irscope.codegen.cuda.schedule import Schedule, stride_arguments
from irscope.codegen.kernel import BROADCAST, NO_NODE, UNIT, KernelSpec, Lines, is_float


class EntryText:
    """One entry while its text is emitted."""

    def __init__(self, spec: KernelSpec, schedule: Schedule, width: int, repeat: int, helpers: set[str]) -> None:
        """`width`: elements of a vector access of this entry; `repeat`: how many of them a thread loads at once."""
        self.spec = spec
        self.schedule = schedule
        self.width = width
        self.repeat = repeat
        self.helpers = helpers
        self.tensors = spec.tensors
        self.first_input = len(spec.outputs)
        self.lines = Lines()
        self.names: dict[int, str] = {}
        """The current expression for each instruction."""
        self._indent = 1
        for index, code in enumerate(spec.instructions):
            if code.op == "const":
                self.names[index] = literal(code.number, code.dtype)

    # -- lines --------------------------------------------------------------------------------------------------------

    def add(self, text: str, *, node: int = NO_NODE) -> None:
        """Append one line, indented."""
        self.lines.add("  " * self._indent + text, node=node)

    @contextmanager
    def braces(self, head: str, *, unrolled: bool = False) -> Iterator[None]:
        """Emit a block in braces; an unrolled loop must have bounds known at compile time."""
        if unrolled:
            self.lines.add("#pragma unroll")
        self.add(f"{head} {{".strip())
        self._indent += 1
        yield
        self._indent -= 1
        self.add("}")

    def each_lane(self, first: int = 0) -> AbstractContextManager[None]:
        """Emit a loop over the lanes of a vector, from `first` on."""
        return self.braces(f"for (int e = {first}; e < {self.width}; e++)", unrolled=True)

    def each_element(self) -> AbstractContextManager[None]:
        """Emit such a loop where a vector has several lanes."""
        return self.each_lane() if self.width > 1 else nullcontext()

    @contextmanager
    def entry(self, name: str) -> Iterator[None]:
        """Emit the function around its body."""
        params = [f"{MEMORY[result.dtype]}* __restrict__ y{i}" for i, result in enumerate(self.spec.outputs)]
        for i, operand in enumerate(self.spec.inputs):
            if operand.kind == "tensor":
                params.append(f"const {MEMORY[operand.dtype]}* __restrict__ x{i}")
            else:
                params.append(f"{'double' if operand.kind == 'scalar' and is_float(operand.dtype) else 'i64'} x{i}")
        params += [f"i64 n{loop}" for loop in range(self.spec.rank)]
        params += [f"i64 s{slot}_{loop}" for slot, loop in stride_arguments(self.spec)]
        params += ["i64 part_steps", "i64 part_results"] * self.schedule.partial
        bounds = f"__launch_bounds__({self.schedule.block}, {self.schedule.least_blocks})"
        self.lines.add(f'extern "C" __global__ void {bounds} {name}({", ".join(params)}) {{')
        yield
        self.lines.add("}")

    # -- places -------------------------------------------------------------------------------------------------------

    def offset(self, slot: int, loops: Iterable[int], *, index: bool = False) -> str:
        """Return the offset of a tensor's element from its pointer, in elements, by the steps i0, i1, … of these loops.

        With `index`, the step of the innermost loop is that of lane `e`.
        """
        pattern, terms = self.tensors[slot].pattern, []
        for loop in loops if pattern else ():
            kind = pattern[loop]
            step = f"(i{loop} + e)" if index and loop == self.spec.rank - 1 and self.width > 1 else f"i{loop}"
            if kind != BROADCAST:
                terms.append(step if kind == UNIT else f"{step} * s{slot}_{loop}")
        return " + ".join(terms) or "0"

    def split_steps(self, loops: Sequence[int], rest: str, inner: str) -> None:
        """Decompose a number into the steps of these loops, the last of which has extent `inner`."""
        extents = [f"n{loop}" for loop in loops[:-1]] + [inner]
        for loop, extent in reversed(list(zip(loops[1:], extents[1:], strict=True))):
            self.add(f"const {self.step} q{loop} = {self.quotient(rest, extent)}, i{loop} = {rest} - q{loop} * ({self.step}){extent};")
            rest = f"q{loop}"
        if loops:
            self.add(f"const {self.step} i{loops[0]} = {rest};")

    @property
    def step(self) -> str:
        """The C++ type that counts steps of loops."""
        return "i64" if self.schedule.wide else "int"

    def quotient(self, a: str, b: str) -> str:
        """Return the quotient of two numbers of steps."""
        if not self.schedule.wide:
            return f"(int)((unsigned){a} / (unsigned){b})"
        self.helpers.add("quotient")
        return f"quotient({a}, {b})"

    def is_vector(self, slot: int) -> bool:
        """Whether a thread's elements of a tensor are contiguous."""
        tensor = self.tensors[slot]
        return tensor.has_memory and self.width > 1 and tensor.pattern[-1] == UNIT

    def loaded(self, slot: int, place: str, pointer: str) -> str:
        """Return a load at an offset from a pointer, in elements: of a `Pack` of contiguous elements, or of one element."""
        if not self.is_vector(slot):
            return f"{pointer}[{place}]"
        pack = self.memory_type(slot)
        if self.schedule.streaming and all(kind != BROADCAST for kind in self.tensors[slot].pattern):
            self.helpers.add("load_once")
            return f"load_once((const {pack}*)({pointer} + {place}))"
        return f"*(const {pack}*)({pointer} + {place})"

    def memory_type(self, slot: int) -> str:
        """Return the C++ type of what `loaded` loads, or what is stored."""
        kind = MEMORY[self.tensors[slot].dtype]
        if not self.is_vector(slot):
            return kind
        self.helpers.add("Pack")
        if self._in_words(slot):
            return f"Pack<unsigned, {self.width // 4}>" if self.width > 2 else "Pack<unsigned short, 1>"
        return f"Pack<{kind}, {self.width}>"

    def _in_words(self, slot: int) -> bool:
        """Whether bytes are loaded in words: of a loaded `Pack<signed char, N>`, NVRTC 13 takes the lowest byte of each word, and what is
        computed of it, for 16 bits."""
        return self.is_vector(slot) and slot >= self.first_input and self.tensors[slot].dtype == "int8"

    def store(self, slot: int, pointer: str, value: str) -> None:
        """Store a value of `memory_type`, bypassing the caches if the schedule is streaming."""
        node = self.spec.instructions[self.spec.outputs[slot].instruction].node
        if not self.is_vector(slot):
            self.add(f"*({pointer}) = {value};", node=node)
        elif self.schedule.streaming:
            self.helpers.add("store_past")
            self.add(f"store_past(({self.memory_type(slot)}*)({pointer}), {value});", node=node)
        else:
            self.add(f"*({self.memory_type(slot)}*)({pointer}) = {value};", node=node)

    # -- values -------------------------------------------------------------------------------------------------------

    def in_register(self, slot: int, word: str) -> str:
        """Return a loaded word as a value to compute with; for a vector, lane `e`."""
        if self._in_words(slot):
            return f"(signed char)({word}.e[e / 4] >> e % 4 * 8)"
        text = load_text(f"{word}.e[e]" if self.is_vector(slot) else word, self.tensors[slot].dtype, self.helpers)
        return f"({text})"

    def scalar_value(self, slot: int) -> str:
        dtype = self.tensors[slot].dtype
        text = f"x{slot - self.first_input}"
        return f"({text} != 0)" if dtype == "bool" else f"({REGISTER[dtype]}){text}"

    def value_text(self, index: int) -> str:
        """Return an instruction as an expression over the names of its operands."""
        code, spec = self.spec.instructions[index], self.spec
        if code.op == "count":
            steps = " * ".join(f"n{loop}" for loop in spec.reduced)
            return rounded(f"({REGISTER[code.dtype]})({steps})", code.dtype, self.helpers)
        if code.op in HALF_HELPERS:
            self.helpers.add(code.op)
            return f"{code.op}({self.names[code.args[0]]})"
        arg_types = [spec.instructions[arg].dtype for arg in code.args]
        names = [self.names[arg] for arg in code.args]
        return element_text(code, names, arg_types, self.helpers, exact=spec.exact)

    def declare_word(self, slot: int) -> None:
        """Declare a variable for what a thread writes to a result; contiguous halves are rounded in pairs at the end."""
        if self._in_pairs(slot):
            self.add(f"float f{slot}[{self.width}];")
        else:
            self.add(f"{self.memory_type(slot)} w{slot};")

    def set_word(self, slot: int) -> None:
        """Assign the value of an element, or of lane `e` of a vector, to that variable."""
        result = self.spec.outputs[slot]
        node = self.spec.instructions[result.instruction].node
        if self._in_pairs(slot):
            self.add(f"f{slot}[e] = {self._before_rounding(slot)};", node=node)
        else:
            self.add(f"w{slot}{'.e[e]' if self.is_vector(slot) else ''} = {self.stored(slot)};", node=node)

    def store_word(self, slot: int, pointer: str) -> None:
        """Store that variable to memory."""
        word = f"w{slot}"
        if self._in_pairs(slot):
            dtype = self.spec.outputs[slot].dtype
            name = "packed_half" if dtype == "float16" else "packed_bfloat"
            self.helpers.update((name, "to_half" if dtype == "float16" else "to_bfloat", "Pack"))
            word = f"{name}<{self.width}>(f{slot})"
        self.store(slot, pointer, word)

    def _in_pairs(self, slot: int) -> bool:
        return self.is_vector(slot) and self.tensors[slot].dtype in ("float16", "bfloat16")

    def stored(self, slot: int) -> str:
        """Return the word to write for a result."""
        return store_text(self._before_rounding(slot), self.spec.outputs[slot].dtype, self.helpers)

    def _before_rounding(self, slot: int) -> str:
        """Return the value of a result; for a cast to a half computed here, its operand, because storing rounds again anyway."""
        result = self.spec.outputs[slot]
        code, name = self.spec.instructions[result.instruction], self.names[result.instruction]
        is_half = code.op == "cast" and code.dtype == result.dtype and code.dtype in ("float16", "bfloat16")
        if is_half and name.startswith("t") and self.spec.instructions[code.args[0]].dtype == "float32":
            return self.names[code.args[0]]
        return name
