"""The text of a kernel for CUDA: C++ without any header, which NVRTC compiles with no include directory.

Two entries share one function that computes an element. `<name>` gives each thread one element and takes any strides
and alignment. `<name>_vector` gives each thread 16 bytes of the widest tensor, and exists when every tensor steps by
one element, or not at all, along the innermost loop; the launcher may use it when pointers and outer strides are
whole vectors (`vector_lanes`).

Arguments of both, in this order: the results' pointers; for each operand a pointer, or a number as `double` or `long
long`; the extent of each loop; the strides, in elements, that the spec does not know (`stride_arguments`).
"""

from __future__ import annotations

from collections.abc import Iterator

from irscope.codegen.cuda_element import HELPERS, MEMORY, REGISTER, element_text, load_text, store_text
from irscope.codegen.kernel_spec import BROADCAST, ITEM_SIZE, STRIDED, UNIT, KernelSpec, is_float
from irscope.codegen.source import Lines, SourceText
from irscope.errors import CodegenError

__all__ = ["BLOCK", "emit_cuda", "stride_arguments", "vector_lanes"]

BLOCK = 256
"""Threads of a block."""

_VECTOR_BYTES = 16


def vector_lanes(spec: KernelSpec) -> int:
    """How many elements a thread of the vector entry computes; 0 when there is no such entry.

    >>> from irscope.codegen.kernel_spec import Instruction, Operand, Result
    >>> code = (Instruction("input", (), "float16", 0), Instruction("cast", (0,), "float32"))
    >>> vector_lanes(KernelSpec((Operand("float16", "tensor", (1,)),), code, (Result("float32", (1,), 1),), rank=1))
    4
    """
    tensors = [tensor for tensor in spec.tensors if tensor.pattern]
    if any(tensor.pattern[-1] == STRIDED for tensor in tensors) or any(
        result.pattern[-1] != UNIT for result in spec.outputs
    ):
        return 0
    return _VECTOR_BYTES // max(ITEM_SIZE[tensor.dtype] for tensor in tensors if tensor.pattern[-1] == UNIT)


def stride_arguments(spec: KernelSpec) -> Iterator[tuple[int, int]]:
    """The strides that are arguments: (tensor, loop), tensors counted with the results first."""
    for slot, tensor in enumerate(spec.tensors):
        for loop, kind in enumerate(tensor.pattern):
            if kind == STRIDED:
                yield slot, loop


def emit_cuda(spec: KernelSpec) -> SourceText:
    """The kernel as CUDA C++ text, both entries. Raises CodegenError for one with reductions."""
    if spec.reduced:
        raise CodegenError("reductions have no CUDA text yet", rule="codegen-target")
    return _Kernel(spec).source()


class _Kernel:
    """One kernel while its text is written."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.tensors = spec.tensors
        self.first_input = len(spec.outputs)
        self.helpers: set[str] = set()
        self.lines = Lines()

    def source(self) -> SourceText:
        self._element()
        self._entry_for_any()
        if vector_lanes(self.spec):
            self._entry_for_vectors()
        whole = Lines()
        whole.add("typedef long long i64;")
        for name, text in HELPERS.items():
            if name in self.helpers:
                whole.add(text)
        whole.extend(self.lines)
        return whole.source(self.spec.name, "cuda")

    # -- one element --------------------------------------------------------------------------------------------------

    def _element(self) -> None:
        """The function from loaded operands to what is stored."""
        spec, lines = self.spec, self.lines
        params = [f"{REGISTER[operand.dtype]} a{i}" for i, operand in enumerate(spec.inputs)]
        params += [f"{MEMORY[result.dtype]}& r{i}" for i, result in enumerate(spec.outputs)]
        lines.add(f"static __device__ __forceinline__ void element({', '.join(params)}) {{")
        names: list[str] = []
        for index, code in enumerate(spec.instructions):
            text = element_text(
                code,
                [names[arg] for arg in code.args],
                [spec.instructions[arg].dtype for arg in code.args],
                self.helpers,
            )
            if code.op in ("input", "const"):
                names.append(text)
                continue
            names.append(f"t{index}")
            lines.add(f"  const {REGISTER[code.dtype]} t{index} = {text};", node=code.node)
        for i, result in enumerate(spec.outputs):
            stored = store_text(names[result.instruction], result.dtype, self.helpers)
            lines.add(f"  r{i} = {stored};", node=spec.instructions[result.instruction].node)
        lines.add("}")

    # -- entries ------------------------------------------------------------------------------------------------------

    def _signature(self, name: str) -> str:
        params = [f"{MEMORY[result.dtype]}* __restrict__ y{i}" for i, result in enumerate(self.spec.outputs)]
        for i, operand in enumerate(self.spec.inputs):
            if operand.kind == "scalar":
                params.append(f"{'double' if is_float(operand.dtype) else 'i64'} x{i}")
            else:
                params.append(f"const {MEMORY[operand.dtype]}* __restrict__ x{i}")
        params += [f"i64 n{loop}" for loop in range(self.spec.rank)]
        params += [f"i64 s{slot}_{loop}" for slot, loop in stride_arguments(self.spec)]
        return f'extern "C" __global__ void __launch_bounds__({BLOCK}) {name}({", ".join(params)}) {{'

    def _indices(self, inner: str) -> None:
        """From the thread's number to the step of each loop; the innermost counts to `inner`."""
        lines, rank = self.lines, self.spec.rank
        extents = [f"n{loop}" for loop in range(rank - 1)] + [inner]
        lines.add(f"  const i64 point = (i64)blockIdx.x * {BLOCK} + threadIdx.x;")
        lines.add(f"  if (point < {' * '.join(extents)}) {{")
        rest = "point"
        for loop in range(rank - 1, 0, -1):
            self.helpers.add("quotient")
            lines.add(
                f"    const i64 q{loop} = quotient({rest}, {extents[loop]}),"
                f" i{loop} = {rest} - q{loop} * {extents[loop]};"
            )
            rest = f"q{loop}"
        lines.add(f"    const i64 i0 = {rest};")

    def _offset(self, slot: int, loops: range) -> str:
        pattern, terms = self.tensors[slot].pattern, []
        for loop in loops if pattern else ():
            kind = pattern[loop]
            if kind != BROADCAST:
                terms.append(f"i{loop}" if kind == UNIT else f"i{loop} * s{slot}_{loop}")
        return " + ".join(terms) or "0"

    def _entry_for_any(self) -> None:
        spec, lines = self.spec, self.lines
        lines.add(self._signature(spec.name))
        self._indices(f"n{spec.rank - 1}")
        loops = range(spec.rank)
        args = [self._loaded(i, f"x{i}[{self._offset(self.first_input + i, loops)}]") for i in range(len(spec.inputs))]
        args += [f"y{i}[{self._offset(i, loops)}]" for i in range(len(spec.outputs))]
        lines.add(f"    element({', '.join(args)});")
        lines.add("  }")
        lines.add("}")

    def _loaded(self, i: int, place: str) -> str:
        operand = self.spec.inputs[i]
        if operand.kind == "scalar":
            return f"({REGISTER[operand.dtype]})x{i}"
        return load_text(place, operand.dtype, self.helpers)

    def _entry_for_vectors(self) -> None:
        spec, lines, width = self.spec, self.lines, vector_lanes(self.spec)
        inner = spec.rank - 1
        self.helpers.add("Pack")
        lines.add(self._signature(f"{spec.name}_vector"))
        self._indices(f"(n{inner} / {width})")
        loops = range(inner)
        args: list[str] = []
        for i, operand in enumerate(spec.inputs):
            if operand.kind == "scalar" or operand.pattern[-1] == BROADCAST:
                place = f"x{i}" if operand.kind == "scalar" else f"x{i}[{self._offset(self.first_input + i, loops)}]"
                lines.add(f"    const {REGISTER[operand.dtype]} a{i} = {self._loaded(i, place)};")
                args.append(f"a{i}")
                continue
            pack = f"Pack<{MEMORY[operand.dtype]}, {width}>"
            base = self._offset(self.first_input + i, loops)
            lines.add(f"    const {pack} v{i} = *(const {pack}*)(x{i} + {base} + i{inner} * {width});")
            args.append(load_text(f"v{i}.e[e]", operand.dtype, self.helpers))
        for i, result in enumerate(spec.outputs):
            lines.add(f"    Pack<{MEMORY[result.dtype]}, {width}> w{i};")
            args.append(f"w{i}.e[e]")
        lines.add("#pragma unroll")
        lines.add(f"    for (int e = 0; e < {width}; e++) element({', '.join(args)});")
        for i, result in enumerate(spec.outputs):
            pack = f"Pack<{MEMORY[result.dtype]}, {width}>"
            lines.add(f"    *({pack}*)(y{i} + {self._offset(i, loops)} + i{inner} * {width}) = w{i};")
        lines.add("  }")
        if spec.rank == 1:
            self._remainder(width)
        lines.add("}")

    def _remainder(self, width: int) -> None:
        """The elements behind the last whole vector of the only loop, by the first threads of the first block."""
        spec, lines = self.spec, self.lines
        lines.add(f"  if (blockIdx.x == 0 && threadIdx.x < n0 % {width}) {{")
        lines.add(f"    const i64 i0 = n0 / {width} * {width} + threadIdx.x;")
        args = [
            self._loaded(i, f"x{i}[{self._offset(self.first_input + i, range(1))}]") for i in range(len(spec.inputs))
        ]
        args += [f"y{i}[i0]" for i in range(len(spec.outputs))]
        lines.add(f"    element({', '.join(args)});")
        lines.add("  }")
