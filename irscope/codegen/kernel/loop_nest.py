"""The loops of a kernel, and the outermost depth at which each of its instructions can be computed.

An operand that is invariant along the inner loops is read once per step of the loops around them, and everything that depends
on it alone is computed there too: a batch norm's scale is computed once per channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from irscope.codegen.kernel.spec import KernelSpec

__all__ = ["LoopNest", "arrange_loops", "collapse_loops", "loop_nest"]


@dataclass(frozen=True, slots=True)
class LoopNest:
    """The loop depth of each instruction of a spec."""

    spec: KernelSpec
    depths: tuple[int, ...]
    """For each instruction, how many loops enclose it."""
    stages: tuple[tuple[int, ...], ...]
    """For each depth from 0 to the rank, the instructions at that depth in order; constants are in none."""
    carried: tuple[int, ...]
    """Instructions outside the innermost loop that are used inside it, or that are results themselves."""


def loop_nest(spec: KernelSpec) -> LoopNest:
    """Return the loop nest of a kernel, with each instruction as far out as its operands allow.

    >>> from irscope.codegen.kernel.spec import Instruction, Operand, Result
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
    """Return the fewest loops that visit every point: extents, and the strides of each tensor along them, outermost first.

    The loops follow the memory order of the first tensor. Extents of one are dropped; adjacent loops that every tensor
    traverses as one are merged.

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


def arrange_loops(
    extents: Sequence[int], first_reduced: int | None, strides: Sequence[Sequence[int]], results: int
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Return the loops of a kernel: extents, the strides of each tensor along them, and which loops are reduced.

    The axes from `first_reduced` on are reduced; None means a kernel without reductions. The first `results` tensors
    are written, the others read. The axis along which most elements are adjacent in memory becomes the innermost loop.

    >>> arrange_loops((8, 4), 1, [(1, 0), (4, 1)], 1)
    ((8, 4), ((1, 0), (4, 1)), (1,))
    >>> arrange_loops((8, 4), 1, [(1, 0), (1, 8)], 1)
    ((4, 8), ((0, 1), (8, 1)), (0,))
    """
    if first_reduced is None:
        return (*collapse_loops(extents, strides), ())
    weights = [prod(size for size, step in zip(extents, own, strict=True) if step) for own in strides]
    guide = max(range(len(strides)), key=lambda tensor: (weights[tensor], tensor >= results, -tensor))
    axes = [axis for axis, size in enumerate(extents) if size != 1]
    inner = max(axes, key=lambda axis: _adjacency(axis, strides, weights, guide), default=None)
    kept = _in_order([axis for axis in axes if axis < first_reduced], strides[guide], inner)
    dropped = _in_order([axis for axis in axes if axis >= first_reduced], strides[guide], inner)
    outside, rows = _merged(kept, extents, strides), _merged(dropped, extents, strides) or [(1, (0,) * len(strides))]
    columns = [outside.pop()] if inner is not None and inner < first_reduced else []
    loops = [*outside, *rows, *columns]
    reduced = tuple(range(len(outside), len(outside) + len(rows)))
    return tuple(size for size, _ in loops), tuple(zip(*(steps for _, steps in loops), strict=True)), reduced


def _adjacency(
    axis: int, strides: Sequence[Sequence[int]], weights: Sequence[int], guide: int
) -> tuple[int, int, int]:
    """Rank an axis by how many elements are adjacent in memory along it; ties go to the smaller stride, then to the last axis."""
    side_by_side = sum(weight for own, weight in zip(strides, weights, strict=True) if own[axis] == 1)
    return side_by_side, -strides[guide][axis] if strides[guide][axis] else -(1 << 62), axis


def _in_order(axes: Sequence[int], guide: Sequence[int], inner: int | None) -> list[int]:
    return sorted(axes, key=lambda axis: (axis == inner, -guide[axis], axis))


def _merged(
    axes: Sequence[int], extents: Sequence[int], strides: Sequence[Sequence[int]]
) -> list[tuple[int, tuple[int, ...]]]:
    """Return these axes as loops, each an extent and a stride per tensor; adjacent axes that every tensor traverses as one are merged."""
    loops: list[tuple[int, tuple[int, ...]]] = []
    for axis in axes:
        steps = tuple(own[axis] for own in strides)
        if loops and all(before == step * extents[axis] for before, step in zip(loops[-1][1], steps, strict=True)):
            loops[-1] = (loops[-1][0] * extents[axis], steps)
        else:
            loops.append((extents[axis], steps))
    return loops
