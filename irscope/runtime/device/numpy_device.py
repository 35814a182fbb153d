"""Kernels evaluated by NumPy, instruction by instruction, for machines without a compiler.

The device takes the same plans as the processor's, on the same addresses, and computes the same results up to rounding;
it takes several times as long, because every instruction allocates an array.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from irscope.codegen.kernel import ITEM_SIZE, KernelSpec, Launch, LaunchPlan, SourceText
from irscope.codegen.llvm import GENERIC, emit_llvm
from irscope.ops.expr import POSITIONS, REDUCTIONS, Expr, apply, const, evaluate, reduce_array
from irscope.runtime.device.protocol import Availability, Device, HostKernel, PreparedPlan

Array = np.ndarray[Any, Any]

_STORAGE: Final = {dtype: dtype for dtype in ITEM_SIZE} | {"bfloat16": "uint16"}


@dataclass(frozen=True, eq=False)
class NumpyKernel(HostKernel):
    """A spec, interpreted."""

    spec: KernelSpec
    compile_seconds: float
    from_disk: bool = False

    def __call__(self, launch: Launch, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        """Evaluates the spec on addresses of first elements, and numbers."""
        spec, first = self.spec, len(launch.writes)
        offsets = launch.offsets or (0,) * len(launch.strides)
        operands: list[Any] = []
        for slot, operand in enumerate(spec.inputs, first):
            if operand.kind == "index":
                operands.append(_index(launch.sizes, launch.strides[slot], offsets[slot]))
                continue
            given: Any = inputs[launch.reads[slot - first]]
            if operand.kind == "tensor":
                given = _array(int(given), operand.dtype, launch.sizes, launch.strides[slot], offsets[slot])
                if operand.dtype == "bfloat16":  # words, as the float32 numbers that they encode
                    given = (given.astype(np.uint32) << 16).view(np.float32)
            operands.append(given)
        with np.errstate(all="ignore"):
            values = self._values(launch, operands)
        for slot, result in enumerate(spec.outputs):
            sizes = [1 if loop in spec.reduced and spec.is_reduced(result) else size for loop, size in enumerate(launch.sizes)]
            target = _array(outputs[launch.writes[slot]], result.dtype, sizes, launch.strides[slot], offsets[slot])
            found = np.asarray(values[result.instruction])
            if result.dtype == "bfloat16":  # float32 numbers with zeros in their low halves
                found = (np.ascontiguousarray(found).view(np.uint32) >> 16).astype(np.uint16)
            target[...] = found

    def _values(self, launch: Launch, operands: Sequence[Any]) -> list[Array]:
        """Returns each instruction's result at every point; reductions keep their loops with extent 1."""
        values: list[Array] = []
        gathered_elements = prod(launch.sizes[loop] for loop in self.spec.reduced)
        for code in self.spec.instructions:
            args = [values[arg] for arg in code.args]
            if code.op == "input":
                values.append(evaluate(Expr("input", (), code.dtype, 0), [operands[code.operand]]))
            elif code.op == "const":
                values.append(evaluate(const(code.number, code.dtype), []))
            elif code.op == "count":
                values.append(np.asarray(gathered_elements, code.dtype))
            elif code.op in REDUCTIONS:
                values.append(self._gathered(launch, code.op, args, code.dtype))
            else:
                values.append(apply(code.op, args, code.dtype))
        return values

    def _gathered(self, launch: Launch, op: str, args: Sequence[Array], dtype: str) -> Array:
        loops = self.spec.reduced
        wide = [np.broadcast_to(arg, launch.sizes) for arg in args]
        if op not in POSITIONS:
            return reduce_array(op, wide[0], loops).astype("float32" if dtype == "bfloat16" else dtype)
        kept = [loop for loop in range(self.spec.rank) if loop not in loops]
        rows = [arg.transpose(*kept, *loops).reshape(*(launch.sizes[loop] for loop in kept), -1) for arg in wide]
        order = np.argsort(rows[1], axis=-1, kind="stable")
        found = reduce_array(op, np.take_along_axis(rows[0], order, -1), (len(kept),))
        index = np.take_along_axis(np.take_along_axis(rows[1], order, -1), found, -1)
        return np.expand_dims(index[..., 0], loops)


class NumpyDevice(Device):
    """NumPy as a device; always available."""

    name = "numpy"

    def availability(self) -> Availability:
        return Availability(True, "NumPy evaluates kernels op by op, several times slower than compiled ones")

    def source(self, spec: KernelSpec) -> SourceText:
        """Returns the LLVM text, for reading: NumPy has no text of its own."""
        return emit_llvm(spec, GENERIC)

    def compile(self, spec: KernelSpec) -> NumpyKernel:
        """Wraps the spec itself: there is nothing to compile."""
        return NumpyKernel(spec, 0.0)

    def prepare(self, plan: LaunchPlan) -> "NumpyPlan":
        """Wraps every kernel of a plan."""
        return NumpyPlan(plan, tuple(self.compile(launch.spec) for launch in plan.launches))


@dataclass(frozen=True, eq=False)
class NumpyPlan(PreparedPlan):
    """A launch plan ready to be evaluated."""

    plan: LaunchPlan
    kernels: tuple[NumpyKernel, ...]

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        """Runs on addresses of first elements (and numbers); see `irscope.runtime.device.protocol.PreparedPlan`."""
        for kernel, launch in zip(self.kernels, self.plan.launches, strict=True):
            if launch.kept_elements:
                kernel(launch, outputs, inputs)


def _array(address: int, dtype: str, sizes: Sequence[int], strides: Sequence[int], offset: int) -> Array:
    """Returns the memory at an address as an array; strides and offset are in elements, none negative."""
    item = ITEM_SIZE[dtype]
    if 0 in sizes:
        return np.empty(tuple(sizes), _STORAGE[dtype])
    span = item * (1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)))
    memory = np.frombuffer(memoryview((ctypes.c_uint8 * span).from_address(address + offset * item)), np.uint8)
    return np.ndarray(tuple(sizes), _STORAGE[dtype], memory, 0, tuple(stride * item for stride in strides))


def _index(sizes: Sequence[int], strides: Sequence[int], offset: int) -> Array:
    """Returns the number of each point, counted by these strides."""
    found = np.full((1,) * len(sizes), offset, np.int64)
    for loop, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        steps = np.arange(size, dtype=np.int64) * stride
        found = found + steps.reshape([-1 if other == loop else 1 for other in range(len(sizes))])
    return found
