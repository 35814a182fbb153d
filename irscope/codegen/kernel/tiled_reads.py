"""Tiled reads for operands of a pointwise launch that are contiguous along an outer loop.

An operand that steps by one element along an outer loop, and far along the innermost, costs a cache line for every
element when the loops run in order. Read in square tiles, each line is used whole. The outer loops of a pointwise
kernel may be in any order, so the one along which the operand is contiguous becomes the last but one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from irscope.codegen.kernel.spec import STRIDED, UNIT, Launch, Operand

__all__ = ["with_tiled_reads"]

_MOST: Final = 4
"""The most operands whose tiles fit into a near cache together."""


def with_tiled_reads(launch: Launch, rows: int, columns: int) -> Launch:
    """Return the launch with the spec of a kernel that reads in tiles, if that pays; the two loops must have at least
    `rows` and `columns` steps.

    >>> from irscope.codegen.kernel.spec import Instruction, KernelSpec, Result
    >>> spec = KernelSpec((Operand("float32", "tensor", (2, 2)),), (Instruction("input", (), "float32", 0),),
    ...                   (Result("float32", (2, 1), 0),), 2)
    >>> launch = Launch(spec, (100, 200), (0,), (0,), ((200, 1), (1, 100)))
    >>> with_tiled_reads(launch, 16, 64).spec.inputs[0].pattern
    (1, 2)
    """
    spec = launch.spec
    is_plain = not (spec.reduced or spec.row_limit) and all(result.pattern[-1] == UNIT for result in spec.outputs)
    loop = _contiguous_along(launch, rows) if is_plain and launch.sizes[-1] >= columns else None
    if loop is None:
        return launch
    order = [*(other for other in range(spec.rank - 1) if other != loop), loop, spec.rank - 1]
    strides = [_ordered(own, order) for own in launch.strides]
    inputs, outputs = strides[len(spec.outputs) :], strides[: len(spec.outputs)]
    turned = replace(
        spec,
        inputs=tuple(_marked(each, own, order) for each, own in zip(spec.inputs, inputs, strict=True)),
        outputs=tuple(replace(each, pattern=_ordered(each.pattern, order)) for each in spec.outputs),
    )
    return replace(launch, spec=turned, sizes=_ordered(launch.sizes, order), strides=(*outputs, *inputs))


def _contiguous_along(launch: Launch, rows: int) -> int | None:
    """Return the outer loop along which most strided operands are contiguous, if it has at least `rows` steps."""
    found: Counter[int] = Counter()
    strides = launch.strides[len(launch.spec.outputs) :]
    for operand, own in zip(launch.spec.inputs, strides, strict=True):
        if operand.kind == "tensor" and operand.pattern[-1] == STRIDED:
            found.update([loop for loop, step in enumerate(own[:-1]) if step == 1 and launch.sizes[loop] >= rows][:1])
    best = min(found, key=lambda loop: (-found[loop], loop), default=None)
    return best if best is not None and found[best] <= _MOST else None


def _marked(operand: Operand, strides: Sequence[int], order: Sequence[int]) -> Operand:
    pattern = _ordered(operand.pattern, order)
    if operand.kind == "tensor" and pattern[-1] == STRIDED and strides[-2] == 1:
        pattern = (*pattern[:-2], UNIT, STRIDED)
    return replace(operand, pattern=pattern)


def _ordered(own: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    return tuple(own[loop] for loop in order) if own else ()
