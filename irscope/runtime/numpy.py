"""Kernels evaluated by NumPy, instruction by instruction: what runs where no compiler is installed.

It takes the same plans as the processor's device, on the same addresses, and gives the same results up to rounding;
it needs several times as long, because every instruction makes an array.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from irscope.codegen.flatten import to_expressions
from irscope.codegen.kernel_spec import ITEM_SIZE, KernelSpec, Launch, LaunchPlan
from irscope.codegen.llvm_text import GENERIC, emit_llvm
from irscope.codegen.source import SourceText
from irscope.ops.expression import Expr, evaluate
from irscope.runtime.base import Availability

__all__ = ["NumpyDevice", "NumpyKernel", "NumpyPlan"]

Array = np.ndarray[Any, Any]

_STORAGE: Final = {**{dtype: dtype for dtype in ITEM_SIZE}, "bfloat16": "uint16"}


@dataclass(frozen=True, eq=False)
class NumpyKernel:
    """A spec as expressions, one for each result."""

    spec: KernelSpec
    compile_seconds: float
    results: tuple[Expr, ...]
    from_disk: bool = False

    def __call__(self, launch: Launch, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        """Evaluate on addresses of first elements, and numbers."""
        operands = launch.strides[len(launch.writes):]
        values: list[Any] = []
        for operand, position, strides in zip(self.spec.inputs, launch.reads, operands, strict=True):
            if operand.kind == "scalar":
                values.append(inputs[position])
            else:
                values.append(
                    _widened(_array(int(inputs[position]), operand.dtype, launch.sizes, strides), operand.dtype)
                )
        for index, (result, expr) in enumerate(zip(self.spec.outputs, self.results, strict=True)):
            target = _array(outputs[launch.writes[index]], result.dtype, launch.sizes, launch.strides[index])
            target[...] = _narrowed(evaluate(expr, values), result.dtype)


class NumpyDevice:
    """NumPy as a device; always there.

    >>> print(NumpyDevice().availability())
    yes: NumPy evaluates kernels op by op, several times slower than compiled ones
    """

    name = "numpy"

    def __repr__(self) -> str:
        return f"<{self.name}: {self.availability()}>"

    def availability(self) -> Availability:
        """Always."""
        return Availability(True, "NumPy evaluates kernels op by op, several times slower than compiled ones")

    def source(self, spec: KernelSpec) -> SourceText:
        """The LLVM text, for reading: NumPy has no text of its own."""
        return emit_llvm(spec, GENERIC)

    def compile(self, spec: KernelSpec) -> NumpyKernel:
        """The spec as expressions."""
        start = time.perf_counter()
        steps = to_expressions(spec.instructions)
        results = tuple(steps[result.instruction] for result in spec.outputs)
        return NumpyKernel(spec, time.perf_counter() - start, results)

    def prepare(self, plan: LaunchPlan) -> NumpyPlan:
        """Every kernel of a plan."""
        return NumpyPlan(plan, tuple(self.compile(launch.spec) for launch in plan.launches))


@dataclass(frozen=True, eq=False)
class NumpyPlan:
    """A launch plan ready to be evaluated."""

    plan: LaunchPlan
    kernels: tuple[NumpyKernel, ...]

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        """Run on addresses of first elements (and numbers); see `irscope.runtime.base.PreparedPlan`."""
        for kernel, launch in zip(self.kernels, self.plan.launches, strict=True):
            if launch.elements:
                kernel(launch, outputs, inputs)


def _array(address: int, dtype: str, sizes: Sequence[int], strides: Sequence[int]) -> Array:
    """The memory at an address as an array; strides in elements, none negative."""
    item = ITEM_SIZE[dtype]
    span = item * (1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)))
    memory = np.frombuffer(memoryview((ctypes.c_uint8 * span).from_address(address)), np.uint8)
    return np.ndarray(tuple(sizes), _STORAGE[dtype], memory, 0, tuple(stride * item for stride in strides))


def _widened(array: Array, dtype: str) -> Array:
    """bfloat16 words as the float32 numbers that they stand for."""
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else array


def _narrowed(array: Array, dtype: str) -> Array:
    """float32 numbers with zeros in their low halves as bfloat16 words."""
    return (np.ascontiguousarray(array).view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else array
