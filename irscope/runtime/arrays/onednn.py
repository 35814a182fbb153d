"""oneDNN by torch's own ops for it: products that it computes quicker than the library that torch multiplies with.

Torch multiplies float32 on a CPU with MKL, which leaves half the speed of AMD's AVX-512 unused; oneDNN does not. Its call costs some
microseconds more, so that only large products gain. Results differ by the order of a sum.

On one thread of a Zen 5 (torch 2.13), in microseconds: 128 × 256 by 256 × 1024 takes MKL 611 and oneDNN 301, 64 × 128 by 128 × 256
takes them 40 and 29, 32 × 64 by 64 × 256 11.6 and 16.9. The layout of the matrix makes no difference.
"""

from __future__ import annotations

import sys
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Final

from irscope.ir import Node, TensorType
from irscope.runtime.arrays.library import Function

_WORTH_IT: Final = 1 << 20
"""Multiplications from which a product gains; measured on Zen 5, where both take 13 µs for half as many (32 × 64 by 64 × 256)."""
_ROWS: Final = 8
"""The least rows: a product of fewer reads each weight once, and memory bounds both."""
_PRODUCTS: Final = {"aten::linear": 0, "aten::matmul": 0, "aten::mm": 0, "aten::addmm": 1}
"""Ops that multiply by a matrix, and the place of the other factor, which is before it."""


@cache
def _is_quicker() -> bool:
    """Checks for a processor on which oneDNN multiplies quicker than MKL, and a torch that has it."""
    import torch

    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        makers = {line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")}
    except OSError:  # not Linux
        makers = set()
    return makers == {"AuthenticAMD"} and torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()


def is_product(node: Node) -> bool:
    """Checks for a product with a matrix that oneDNN computes quicker here."""
    place = _PRODUCTS.get(node.op)
    if place is None or len(node.inputs) < place + 2 or "torch" not in sys.modules:
        return False
    rows, matrix, made = (value.type for value in (node.inputs[place], node.inputs[place + 1], node.output))
    for type in (rows, matrix, made):
        if not isinstance(type, TensorType) or type.dtype != "float32" or not type.is_static or type.device not in (None, "cpu"):
            return False
    assert isinstance(matrix, TensorType)
    assert isinstance(made, TensorType)
    width = made.shape[-1] if made.shape else None
    if matrix.rank != 2 or (made.rank or 0) < 2 or not isinstance(width, int) or not width:
        return False
    found = prod(extent for extent in matrix.shape or () if isinstance(extent, int))
    count = (made.numel or 0) // width
    return count >= _ROWS and count * found >= _WORTH_IT and _is_quicker()


def product(node: Node, function: Function, torch: Any) -> Function:
    """Returns oneDNN's function for such a product; `function` computes it where the operands are no plain tensors."""
    multiply = torch._C._get_operation_overload("mkldnn::_linear_pointwise", "")[0]

    def linear(x: Any, weight: Any, bias: Any = None) -> Any:
        if bias is not None and (bias.stride() != (1,) or bias.shape != weight.shape[:1]):  # it would read beyond the memory
            return function(x, weight, bias)
        return multiply(x, weight, bias, "none", [], "")

    if node.op == "aten::linear":
        return linear
    if node.op == "aten::addmm":

        def added(bias: Any, x: Any, matrix: Any, beta: Any = 1, alpha: Any = 1) -> Any:
            if beta != 1 or alpha != 1 or bias.shape != matrix.shape[1:] or bias.stride() != (1,):
                return function(bias, x, matrix, beta, alpha)
            return multiply(x, matrix.t(), bias, "none", [], "")

        return added
    return lambda x, matrix: multiply(x, matrix.t(), None, "none", [], "")
