"""Which loops a kernel has, and outside which of them each of its instructions can stand.

An operand that stands still along the inner loops is read, and everything that depends on it alone is computed, once
for each step of the loops outside them: a batch norm's scale is computed once per channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from irscope.codegen.kernel_spec import KernelSpec

__all__ = ["LoopNest", "collapse_loops", "loop_nest"]


@dataclass(frozen=True, slots=True)
class LoopNest:
    """Where each instruction of a spec stands."""

    spec: KernelSpec
    depths: tuple[int, ...]
    """For each instruction, how many loops enclose it."""
    stages: tuple[tuple[int, ...], ...]
    """For each depth from 0 to the rank, the instructions at that depth in order; constants are in none."""
    carried: tuple[int, ...]
    """Instructions outside the innermost loop that something inside it reads, or that are written as they are."""


def loop_nest(spec: KernelSpec) -> LoopNest:
    """The loops of a kernel: each instruction as far out as its operands allow.

    >>> from irscope.codegen.kernel_spec import Instruction, Operand, Result
    >>> inputs = (Operand("float32", "tensor", (2, 1)), Operand("float32", "tensor", (2, 0)))
    >>> code = (Instruction("input", (), "float32", 0), Instruction("input", (), "float32", 1),
    ...         Instruction("exp", (1,), "float32"), Instruction("mul", (0, 2), "float32"))
    >>> loop_nest(KernelSpec(inputs, code, (Result("float32", (2, 1), 3),), rank=2)).depths
    (2, 1, 1, 2)
    """
    depths: list[int] = []
    for code in spec.instructions:
        if code.op == "input":
            assert code.value is not None
            depths.append(spec.inputs[code.value].depth)
        else:
            depths.append(max((depths[arg] for arg in code.args), default=0))
    stages = tuple(
        tuple(i for i, code in enumerate(spec.instructions) if depths[i] == depth and code.op != "const")
        for depth in range(spec.rank + 1)
    )
    inner = {arg for i in stages[spec.rank] for arg in spec.instructions[i].args} | {
        result.instruction for result in spec.outputs
    }
    carried = tuple(sorted(i for i in inner if depths[i] < spec.rank and spec.instructions[i].op != "const"))
    return LoopNest(spec, tuple(depths), stages, carried)


def collapse_loops(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The fewest loops that visit every point: extents, and the strides of each tensor along them, outermost first.

    The loops follow the memory order of the first tensor. Extents of one vanish; neighbours that every tensor walks as
    one are merged.

    >>> collapse_loops((2, 3, 4), [(12, 4, 1), (12, 4, 1)])
    ((24,), ((1,), (1,)))
    >>> collapse_loops((2, 3, 4), [(12, 4, 1), (0, 1, 0)])
    ((2, 3, 4), ((12, 4, 1), (0, 1, 0)))
    """
    if all(size == 1 for size in shape):
        return (1,), tuple((1,) for _ in strides)
    dims = sorted((dim for dim, size in enumerate(shape) if size != 1), key=lambda dim: (-strides[0][dim], dim))
    sizes = [shape[dims[0]]]
    steps = [[tensor[dims[0]]] for tensor in strides]
    for dim in dims[1:]:
        if all(mine[-1] == tensor[dim] * shape[dim] for mine, tensor in zip(steps, strides, strict=True)):
            sizes[-1] *= shape[dim]
            for mine, tensor in zip(steps, strides, strict=True):
                mine[-1] = tensor[dim]
            continue
        sizes.append(shape[dim])
        for mine, tensor in zip(steps, strides, strict=True):
            mine.append(tensor[dim])
    return tuple(sizes), tuple(map(tuple, steps))
