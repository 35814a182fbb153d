"""oneDNN by torch's own ops for it: products that it computes quicker than torch's other library, and weights laid out once.

Torch multiplies float32 on a CPU with MKL, which leaves half the speed of AMD's AVX-512 unused; oneDNN does not. Its call costs some
microseconds more, so that only large products gain. Results differ by the order of a sum.

On one thread of a Zen 5 (torch 2.13), in microseconds: 128 × 256 by 256 × 1024 takes MKL 611 and oneDNN 301, 64 × 128 by 128 × 256
takes them 40 and 29, 32 × 64 by 64 × 256 11.6 and 16.9. The layout of the matrix makes no difference.

A product takes workspace of oneDNN's own at each call, 264 kB for 256 × 1024 by 1024 × 256 on two threads, so programs whose memory is
planned multiply with MKL, which takes none of torch's allocator.

A convolution reads its weight in an order of oneDNN's own, which depends on the extents and the processor, and given any other copies
the weight at each call: 58 instead of 28 µs for 3 × 3 windows of 64 channels on 2 × 4 × 4 points. A program that holds the weight
of a layer of oneDNN copies it once, and again after it was written.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Final

from irscope.ir import Node, TensorType, Type, Value
from irscope.ops.registry import bind
from irscope.ops.type_rules import channels_last_strides, static_shape
from irscope.runtime.arrays.dlpack import torch_is_there
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


def has_onednn() -> bool:
    """Checks whether torch is installed, with oneDNN for this processor."""
    if not torch_is_there():
        return False
    import torch

    return bool(torch.backends.mkldnn.is_available())


def is_product(node: Node) -> bool:
    """Checks for a product with a matrix that oneDNN computes quicker here."""
    place = _PRODUCTS.get(node.op)
    if place is None or len(node.inputs) < place + 2 or "torch" not in sys.modules:
        return False
    rows, matrix, made = (_shape(value.type) for value in (*node.inputs[place : place + 2], node.output))
    if rows is None or matrix is None or made is None or len(matrix) != 2 or len(made) < 2:
        return False
    return _is_worth_it(prod(made[:-1]), prod(matrix))


def _shape(type: Type) -> tuple[int, ...] | None:
    """Returns the extents of a tensor of float32 on a CPU; None if they are unknown."""
    is_fit = isinstance(type, TensorType) and type.dtype == "float32" and type.device in (None, "cpu")
    return static_shape(type) if is_fit and isinstance(type, TensorType) else None


def _is_worth_it(rows: int, matrix: int) -> bool:
    """Checks whether oneDNN multiplies so many rows by a matrix of so many elements quicker here."""
    return rows >= _ROWS and rows * matrix >= _WORTH_IT and _is_quicker()


def product(node: Node, function: Function, torch: Any) -> Function:
    """Returns oneDNN's function for such a product; `function` computes it where the operands are no plain tensors."""
    multiply = torch._C._get_operation_overload("mkldnn::_linear_pointwise", "")[0]
    is_wanted = torch._C._get_mkldnn_enabled

    def linear(x: Any, weight: Any, bias: Any = None) -> Any:
        if not is_wanted():
            return function(x, weight, bias)
        if bias is not None and (bias.stride() != (1,) or bias.shape != weight.shape[:1]):  # it would read beyond the memory
            return function(x, weight, bias)
        return multiply(x, weight, bias, "none", [], "")

    if node.op == "aten::linear":
        return linear
    if node.op == "aten::addmm":

        def added(bias: Any, x: Any, matrix: Any, beta: Any = 1, alpha: Any = 1) -> Any:
            if not is_wanted() or beta != 1 or alpha != 1 or bias.shape != matrix.shape[1:] or bias.stride() != (1,):
                return function(bias, x, matrix, beta, alpha)
            return multiply(x, matrix.t(), bias, "none", [], "")

        return added
    return lambda x, matrix: multiply(x, matrix.t(), None, "none", [], "") if is_wanted() else function(x, matrix)


# Convolutions, which read a weight in an order of oneDNN's own.

_LAYER: Final = "mkldnn::_convolution_pointwise"
_CONVOLUTIONS: Final = frozenset({_LAYER, "aten::conv2d", "aten::convolution", "aten::_convolution"})


def is_layer(node: Node) -> bool:
    """Checks for a layer of oneDNN (`irscope.ops.nn.onednn`), which it alone can run."""
    return node.op in (_LAYER, "mkldnn::_linear_pointwise")


def layer(node: Node, function: Function) -> Function:
    """Returns the function of a layer that takes a bias of any strides; torch's takes all to be contiguous."""
    place = [*bind(node)].index("B")

    def run(*operands: Any) -> Any:
        bias = operands[place]
        if bias is not None and bias.stride() != (1,):
            operands = (*operands[:place], bias.contiguous(), *operands[place + 1 :])
        return function(*operands)

    return run


def by_torch(node: Node, torch: Any) -> Function:
    """Returns torch's ops, one by one, for a convolution with a sum or a clamp after it where no kernel runs it."""
    names = [*bind(node)]

    def run(*operands: Any) -> Any:
        given = dict(zip(names, operands, strict=True))
        margins = given["padding"]
        if len(margins) == 4:  # before and after along each axis
            given |= {"X": torch.nn.functional.pad(given["X"], [*margins[2:], *margins[:2]]), "padding": [0, 0]}
        with torch.autocast("cpu", enabled=False):
            made = torch.conv2d(*[given[name] for name in ("X", "W", "B", "stride", "padding", "dilation", "groups")])
        made = (made + given["other"] if "other" in given else made).contiguous(memory_format=torch.channels_last)
        attr = given.get("unary_attr", given.get("attr"))
        if attr == "hardtanh":
            return made.clamp(*given.get("unary_scalars", given.get("scalars", ())))
        return made.relu() if attr == "relu" else made

    return run


def prepared(
    node: Node, function: Function, constant: Callable[[Value], Any], torch: Any,
    follow: Callable[[Sequence[Any], Callable[[Any], object]], bool], *, is_lean: bool = False,
) -> Function:  # fmt: skip
    """Returns the function of a convolution for the constants of its program: a large one of windows of one point is a product, MKL's if
    the program `is_lean`, and a layer of oneDNN reads its weight in oneDNN's order. `constant` returns what is the same in each run, and
    None for all else; `follow` takes tensors and what to do when one was written, if that can be seen."""
    given = bind(node) if node.op in _CONVOLUTIONS else {}
    if not given:
        return function

    def known(name: str) -> Any:
        value = given.get(name)
        return constant(value) if isinstance(value, Value) else value

    x, weight = (given["X"], given["W"]) if node.op == _LAYER else (given["input"], given["weight"])
    window = [known(name) for name in ("padding", "stride", "dilation", "groups")]
    is_sum = "other" in given
    is_plain = not is_sum and window == [[0, 0], [1, 1], [1, 1], 1] and not known("transposed")
    if is_plain and not (is_lean and node.op == _LAYER) and _is_pointwise(x.type, weight.type, node.output.type):
        return _as_product(node, function, torch, is_lean=is_lean)
    held = constant(weight) if node.op == _LAYER and None not in window else None
    if held is None:
        return function
    shape = x.type.shape if isinstance(x.type, TensorType) and x.type.is_static else None

    def laid_out(written: Any) -> Any:
        return torch.ops.mkldnn._reorder_convolution_weight(held.detach(), *window, shape)

    laid = [laid_out(held)]  # the weight in oneDNN's order
    if not follow([held], lambda written: operator.setitem(laid, 0, laid_out(written))):
        return function
    if is_sum:
        return lambda x, other, weight, *rest: function(x, other, laid[0], *rest)
    return lambda x, weight, *rest: function(x, laid[0], *rest)


def _is_pointwise(x: Type, weight: Type, made: Type) -> bool:
    """Checks for a convolution over channels last that multiplies each point by a matrix, and is worth oneDNN's call."""
    given, kernel, result = _shape(x), _shape(weight), _shape(made)
    if given is None or kernel is None or result is None or len(given) != 4 or kernel[2:] != (1, 1):
        return False
    strides = [type.strides if isinstance(type, TensorType) else None for type in (x, made)]
    is_last = strides == [channels_last_strides(given), channels_last_strides(result)]
    return is_last and _is_worth_it(prod(result) // max(kernel[0], 1), prod(kernel))


def _as_product(node: Node, function: Function, torch: Any, *, is_lean: bool) -> Function:
    multiply = torch._C._get_operation_overload("mkldnn::_linear_pointwise", "")[0]
    if is_lean:
        multiply = lambda x, matrix, bias, *epilogue: torch._C._nn.linear(x, matrix, bias)  # noqa: E731

    def run(x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
        if bias is not None and bias.stride() != (1,):
            return function(x, weight, bias, *rest)
        epilogue = rest[4:] if node.op == _LAYER else ("none", [], "")
        return multiply(x.permute(0, 2, 3, 1), weight.reshape(weight.shape[:2]), bias, *epilogue).permute(0, 3, 1, 2)

    return run
