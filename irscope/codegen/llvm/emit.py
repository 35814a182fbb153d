"""The LLVM text of a kernel: pointwise, with transposed operands, row by row, or by columns.

`void kernel(ptr data, ptr dims)`: `data` holds a pointer for each result, then for each operand a pointer or, for a
number, eight bytes (float64 or int64); `dims` holds the extent of each loop, then the strides of each result and of
each tensor operand (int64, in elements). So any part of an iteration space is a call of the same kernel with other pointers
and extents.

**A result must not overlap an operand**, unless the spec is `in_place`. Pointers need the alignment of their elements only.

The text needs no optimisation pass: LLVM's code generator alone gives full speed, in a third of the time.
"""

from __future__ import annotations

from typing import Final

from irscope.codegen.kernel import ITEM_SIZE, KernelSpec, SourceText
from irscope.codegen.llvm.column_reduction import MOST_LANES, ColumnKernel
from irscope.codegen.llvm.kernel_builder import KernelBuilder
from irscope.codegen.llvm.pointwise import PointwiseKernel
from irscope.codegen.llvm.pointwise_tiled import TurnedKernel, least_rows
from irscope.codegen.llvm.rematerialize import weight
from irscope.codegen.llvm.row_reduction import RowKernel
from irscope.codegen.llvm.target import Target

__all__ = ["GENERIC", "Target", "emit_llvm", "least_rows", "vector_width"]

GENERIC: Final = Target()
"""Any 64-bit processor."""

_LANES_OF_ROWS: Final = {8: 8, 16: 16, 32: 32, 64: 16, 256: 32}
"""For rows no longer than the key, a number of lanes that leaves few of them empty."""
_HEAVY: Final = 2500
"""Machine vector instructions in one loop above which compiling would take more than about 0.1 s."""


def vector_width(spec: KernelSpec, target: Target) -> int:
    """Return the lanes of the inner loop: the elements of the widest computed type that the target's number of registers holds.

    A kernel of many instructions uses fewer registers, because the time to compile grows with both. Where the spec says that
    rows are short, there are no more lanes than a row has elements.

    >>> from irscope.codegen.kernel.spec import Instruction, Operand, Result
    >>> code = (Instruction("input", (), "float32", 0), Instruction("exp", (0,), "float32"))
    >>> spec = KernelSpec((Operand("float32", "tensor", (1,)),), code, (Result("float32", (1,), 1),), rank=1)
    >>> vector_width(spec, Target(vector_bytes=64))
    32
    """
    widest = max((ITEM_SIZE[code.dtype] for code in spec.instructions), default=4)
    each, registers = weight(spec.instructions), target.registers
    while registers > 1 and each * registers > _HEAVY:
        registers //= 2
    width = registers * target.vector_bytes // max(widest, 4)
    if spec.by_columns:
        return spec.row_limit or min(width, MOST_LANES)
    return min(width, _LANES_OF_ROWS.get(spec.row_limit, width))


def emit_llvm(spec: KernelSpec, target: Target = GENERIC) -> SourceText:
    """Return the kernel as LLVM IR text (LLVM 20 or later)."""
    kernel = KernelBuilder(spec, target, vector_width(spec, target))
    if spec.reduced:
        return kernel.source((ColumnKernel if spec.by_columns else RowKernel)(kernel).write)
    return kernel.source((TurnedKernel if spec.is_turned else PointwiseKernel)(kernel).write)
