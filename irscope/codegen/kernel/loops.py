"""The loops of a kernel, the passes that it makes over them, and the memory traffic and operations per point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final, NamedTuple

from irscope.codegen.kernel.spec import BROADCAST, Instruction, KernelSpec, constant_bits, is_float, needed_by, trimmed
from irscope.ir import ITEM_SIZE
from irscope.ops.expr import NO_OPERATION, POSITIONS, REDUCTIONS

# The loops of a kernel, and the outermost depth at which each of its instructions can be computed.
#
# An operand that is invariant along the inner loops is read once per step of the loops around them, and everything that depends
# on it alone is computed there too: a batch norm's scale is computed once per channel.


class LoopNest(NamedTuple):
    """The loop depth of each instruction of a spec."""

    depths: tuple[int, ...]
    """For each instruction, how many loops enclose it."""
    stages: tuple[tuple[int, ...], ...]
    """For each depth from 0 to the rank, the instructions at that depth in order; constants are in none."""
    carried: tuple[int, ...]
    """Instructions outside the innermost loop that are used inside it, or that are results themselves."""


def loop_nest(spec: KernelSpec) -> LoopNest:
    """Return the loop nest of a kernel, with each instruction as far out as its operands allow."""
    depths: list[int] = []
    for code in spec.instructions:
        if code.op == "input":
            depths.append(spec.inputs[code.operand].depth)
        else:
            depths.append(max((depths[arg] for arg in code.args), default=0))
    stages = tuple(
        tuple(i for i, code in enumerate(spec.instructions) if depths[i] == depth and code.op != "const") for depth in range(spec.rank + 1)
    )
    inner = {arg for i in stages[spec.rank] for arg in spec.instructions[i].args} | {result.instruction for result in spec.outputs}
    carried = tuple(sorted(i for i in inner if depths[i] < spec.rank and spec.instructions[i].op != "const"))
    return LoopNest(tuple(depths), stages, carried)


def collapse_loops(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return the fewest loops that visit every point: extents, and the strides of each tensor along them, outermost first.

    The loops follow the memory order of the first tensor. Extents of one are dropped; adjacent loops that every tensor
    traverses as one are merged.
    """
    if all(size == 1 for size in shape):
        return (1,), tuple((1,) for _ in strides)
    dims = sorted((dim for dim, size in enumerate(shape) if size != 1), key=lambda dim: (-strides[0][dim], dim))
    loops = _merged(dims, shape, strides)
    return tuple(size for size, _ in loops), tuple(zip(*(steps for _, steps in loops), strict=True))


def arrange_loops(
    extents: Sequence[int], first_reduced: int | None, strides: Sequence[Sequence[int]], results: int
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Return the loops of a kernel: extents, the strides of each tensor along them, and which loops are reduced.

    The axes from `first_reduced` on are reduced; None means a kernel without reductions. The first `results` tensors
    are written, the others read. The axis along which most elements are adjacent in memory becomes the innermost loop.
    """
    if first_reduced is None:
        return (*collapse_loops(extents, strides), ())
    weights = [prod(size for size, step in zip(extents, own, strict=True) if step) for own in strides]
    guide = max(range(len(strides)), key=lambda tensor: (weights[tensor], tensor >= results, -tensor))
    axes = [axis for axis, size in enumerate(extents) if size != 1]

    def adjacency(axis: int) -> tuple[int, int, int]:
        """Rank an axis by how many elements are adjacent in memory along it; ties go to the smaller stride, then to the last axis."""
        side_by_side = sum(weight for own, weight in zip(strides, weights, strict=True) if own[axis] == 1)
        return side_by_side, -strides[guide][axis] if strides[guide][axis] else -(1 << 62), axis

    inner = max(axes, key=adjacency, default=None)
    kept = _in_order([axis for axis in axes if axis < first_reduced], strides[guide], inner)
    dropped = _in_order([axis for axis in axes if axis >= first_reduced], strides[guide], inner)
    outside, rows = _merged(kept, extents, strides), _merged(dropped, extents, strides) or [(1, (0,) * len(strides))]
    columns = [outside.pop()] if inner is not None and inner < first_reduced else []
    loops = [*outside, *rows, *columns]
    reduced = tuple(range(len(outside), len(outside) + len(rows)))
    return tuple(size for size, _ in loops), tuple(zip(*(steps for _, steps in loops), strict=True)), reduced


def _in_order(axes: Sequence[int], guide: Sequence[int], inner: int | None) -> list[int]:
    return sorted(axes, key=lambda axis: (axis == inner, -guide[axis], axis))


def _merged(axes: Sequence[int], extents: Sequence[int], strides: Sequence[Sequence[int]]) -> list[tuple[int, tuple[int, ...]]]:
    """Return these axes as loops, each an extent and a stride per tensor; adjacent axes that every tensor traverses as one are merged."""
    loops: list[tuple[int, tuple[int, ...]]] = []
    for axis in axes:
        steps = tuple(own[axis] for own in strides)
        if loops and all(before == step * extents[axis] for before, step in zip(loops[-1][1], steps, strict=True)):
            loops[-1] = (loops[-1][0] * extents[axis], steps)
        else:
            loops.append((extents[axis], steps))
    return loops


# Online softmax: the maximum of a row and its sum of `exp(x - maximum)` in one pass.
#
# A softmax reads its row three times: for the maximum, for the sum of `exp(x - maximum)`, and to write. The first two need
# only one pass. A reduction `reduce_exp` holds the largest element so far and the sum relative to it; a larger element scales
# the sum by `exp(old - new)`, which is at most one, so that nothing overflows. Combining two such pairs scales the one with the
# smaller maximum. It is commutative, so all threads that combine get the same result, every time.
#
# What is given up: each rescaling rounds. It costs as much accuracy as adding an element does, so the error bound of a sum (as
# many roundings as elements) holds with a factor of three. Where a row stays in registers nothing is gained.
#
# The result of `reduce_exp` is the sum of `exp(x - maximum)`, or of `exp(x)` where the maximum is infinite: for a row of -inf it is 0,
# with inf in the row inf, with NaN in it NaN. So a logarithm of it may follow at once, as in `logsumexp`; for a softmax, which
# subtracts infinity from itself there, NaN is added. Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax",
# 2018.

EXPONENTIALS: Final = "reduce_exp"
GATHERING: Final = REDUCTIONS | {EXPONENTIALS}
"""The instructions that reduce their operand along the reduced loops."""
_LARGEST: Final = {"float32": float.fromhex("0x1.fffffep+127"), "float64": float.fromhex("0x1.fffffffffffffp+1023")}


def accumulated_dtype(spec: KernelSpec, index: int) -> str:
    """Return the element type that a reduction compares or adds."""
    return spec.instructions[spec.instructions[index].args[0]].dtype


def neutral_value(op: str, dtype: str) -> float:
    """Return the neutral value: 0 for a sum, 1 for a product; for an extreme or its position, the value that every other beats.

    >>> neutral_value("reduce_sum", "int8"), neutral_value("reduce_max", "uint8"), neutral_value("reduce_argmin", "float32")
    (0, 0, inf)
    """
    extreme = op[-3:]
    if extreme not in ("max", "min"):
        return {"reduce_sum": 0, "reduce_prod": 1, "reduce_any": 0, "reduce_all": 1}[op]
    if is_float(dtype):
        return float("-inf") if extreme == "max" else float("inf")
    bits = 1 if dtype == "bool" else 8 * ITEM_SIZE[dtype]
    low, high = (0, 2**bits - 1) if dtype in ("uint8", "bool") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return low if extreme == "max" else high


def accumulators(spec: KernelSpec, index: int) -> tuple[tuple[str, float], ...]:
    """Return the element type and the initial value of each accumulator of a reduction.

    An argmax has two: what is compared, and its position. So has a sum of exponentials: the largest element, which starts with the least
    finite number, infinitely far above minus infinity, and the sum relative to it.
    """
    op, dtype = spec.instructions[index].op, accumulated_dtype(spec, index)
    if op == EXPONENTIALS:
        return (dtype, -_LARGEST[dtype]), (dtype, 0.0)
    own = dtype, neutral_value(op, dtype)
    return (own, ("int64", 2**63 - 1)) if op in POSITIONS else (own,)


def use_online_softmax(spec: KernelSpec) -> KernelSpec:
    """Return the spec with every sum of `exp(x - maximum of x)` as one `reduce_exp`; the spec itself if it has none."""
    found: list[Instruction] = []
    at: list[int] = []
    for code in spec.instructions:
        sum_of = _from_the_largest(spec.instructions, code)
        if sum_of is None:
            found.append(replace(code, args=tuple(at[arg] for arg in code.args)))
        else:
            element, largest, guarded = sum_of
            found.append(Instruction(EXPONENTIALS, (at[element],), code.dtype, None, code.node))
            if not guarded:  # NaN where the maximum is infinite
                found.append(Instruction("sub", (at[largest], at[largest]), code.dtype, None, code.node))
                found.append(Instruction("add", (len(found) - 2, len(found) - 1), code.dtype, None, code.node))
        at.append(len(found) - 1)
    if not any(code.op == EXPONENTIALS for code in found):
        return spec
    kept, place = trimmed(found, (at[result.instruction] for result in spec.outputs))
    outputs = tuple(replace(result, instruction=place[at[result.instruction]]) for result in spec.outputs)
    return replace(spec, instructions=kept, outputs=outputs)


def joined_parts(code: list[Instruction], largest: int, part: int, dtype: str, node: int) -> int:
    """Append instructions that combine partial sums: `largest` is the maximum of each part, `part` its sum. Return the result's number."""

    def add(op: str, *args: int, kind: str = dtype, value: int | None = None) -> int:
        code.append(Instruction(op, args, kind, value, node))
        return len(code) - 1

    of_all = add("reduce_max", largest)
    smaller = add("exp", add("sub", largest, of_all))
    scale = add("where", add("eq", largest, of_all, kind="bool"), add("const", value=constant_bits(1.0, dtype)), smaller)
    return add("reduce_sum", add("mul", part, scale))


def _from_the_largest(steps: Sequence[Instruction], code: Instruction) -> tuple[int, int, bool] | None:
    """Match a sum of `exp(x - maximum of x)`: return x, the maximum, and whether an infinite maximum is replaced by zero."""
    if code.op != "reduce_sum" or steps[code.args[0]].op != "exp":
        return None
    difference = steps[steps[code.args[0]].args[0]]
    if difference.op != "sub" or difference.dtype != code.dtype or code.dtype not in ("float32", "float64"):
        return None
    element, largest = difference.args
    choice, guarded = steps[largest], False
    if choice.op == "where" and steps[choice.args[0]].op == "eq":  # perhaps where(abs(m) == inf, 0, m)
        left, *ends = (steps[arg] for arg in (*steps[choice.args[0]].args, choice.args[1]))
        guarded = left.op == "abs" and left.args == choice.args[2:] and [_constant(end) for end in ends] == [math.inf, 0]
    if guarded:
        largest = choice.args[2]
    if steps[largest].op != "reduce_max" or steps[largest].args != (element,):
        return None
    return element, largest, guarded


def _constant(code: Instruction) -> float | None:
    return float(code.number) if code.op == "const" else None


# The passes that a kernel makes over its reduced loops.
#
# A reduction's result is known only when the loops have ended, so its users need another pass: a softmax takes
# three, for the maximum, for the sum of the exponentials, and to write; two if `use_online_softmax` has rewritten it.
# Instructions that vary along the reduced loops are recomputed in each pass that needs them. All others have one
# value per step of the kept loops, and are computed between two passes, as early as possible.


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the reduced loops."""

    before: tuple[int, ...]
    """Instructions computed once, before the pass, in order: those that the results of earlier passes made possible."""
    body: tuple[int, ...]
    """Instructions computed at every point, in order."""
    reductions: tuple[int, ...]
    """Instructions that reduce in this pass."""
    writes: tuple[int, ...]
    """The results written at every point, by position."""
    carried: tuple[int, ...]
    """Instructions from before the pass that it reads or writes at every point; no constants."""


@dataclass(frozen=True, slots=True)
class ReductionNest:
    """A kernel's passes."""

    spec: KernelSpec
    varies: tuple[bool, ...]
    """For each instruction, whether it varies along the reduced loops."""
    passes: tuple[Pass, ...]
    after: tuple[int, ...]
    """Instructions computed once, after the last pass."""


def reduction_nest(spec: KernelSpec, kept_in_memory: tuple[int, int, int] | None = None) -> ReductionNest:
    """Return the passes of a kernel with reductions.

    `kept_in_memory`, (instruction, first pass, last pass), names an instruction that is not recomputed after its
    first pass, up to the last one, because its values were stored.
    """
    varies: list[bool] = []
    levels: list[int] = []
    for code in spec.instructions:
        level = max((levels[arg] for arg in code.args), default=0)
        if code.op == "input":
            pattern = spec.inputs[code.operand].pattern
            varies.append(any(pattern[loop] != BROADCAST for loop in spec.reduced if pattern))
        else:
            varies.append(code.op not in GATHERING and any(varies[arg] for arg in code.args))
        levels.append(level + 1 if code.op in GATHERING else level)
    written = [slot for slot, result in enumerate(spec.outputs) if not spec.is_reduced(result)]
    needed = needed_by(spec.instructions, (result.instruction for result in spec.outputs))
    count = max(
        [levels[i] for i in needed if spec.instructions[i].op in GATHERING]
        + [levels[spec.outputs[slot].instruction] + 1 for slot in written]
    )
    once = [i for i in sorted(needed) if not varies[i] and spec.instructions[i].op not in GATHERING | {"const"}]
    passes = []
    for number in range(count):
        reductions = tuple(i for i in sorted(needed) if spec.instructions[i].op in GATHERING and levels[i] == number + 1)
        writes = tuple(slot for slot in written if levels[spec.outputs[slot].instruction] == number)
        stored: tuple[int, ...] = ()
        if kept_in_memory is not None and kept_in_memory[1] < number <= kept_in_memory[2]:
            stored = (kept_in_memory[0],)
        roots = {arg for i in reductions for arg in spec.instructions[i].args}
        roots |= {spec.outputs[slot].instruction for slot in writes}
        inside = needed_by(spec.instructions, roots, {*stored, *(i for i, moves in enumerate(varies) if not moves)})
        body = tuple(i for i in sorted(inside) if varies[i])
        reads = roots | {arg for i in body if i not in stored for arg in spec.instructions[i].args}
        carried = tuple(i for i in sorted(reads) if not varies[i] and spec.instructions[i].op != "const")
        passes.append(Pass(tuple(i for i in once if levels[i] == number), body, reductions, writes, carried))
    return ReductionNest(spec, tuple(varies), tuple(passes), tuple(i for i in once if levels[i] >= count))


# Memory traffic and operations of a kernel per point of its iteration space, derived from its spec alone: the same for every device.


class Traffic(NamedTuple):
    """Bytes read from and written to memory per point."""

    read: float
    written: float


def traffic_of(spec: KernelSpec, *, held: bool) -> Traffic:
    """Return the bytes per point of the tensors that move along every loop, which dominate the traffic of large kernels.

    A tensor that several passes read counts once per pass, unless a row is `held` from pass to pass (in registers or a cache).
    """
    written = sum(_full(result.pattern) * ITEM_SIZE[result.dtype] for result in spec.outputs)
    passes = reduction_nest(spec).passes if spec.reduced else ()
    read = 0
    for slot, operand in enumerate(spec.inputs):
        if operand.kind != "tensor":
            continue
        times = 1
        if passes and not held:
            reads = {i for i, code in enumerate(spec.instructions) if code.op == "input" and code.value == slot}
            times = max(1, sum(bool(reads & set(each.body)) for each in passes))
        read += times * _full(operand.pattern) * ITEM_SIZE[operand.dtype]
    return Traffic(float(read), float(written))


def _full(pattern: tuple[int, ...]) -> bool:
    return all(kind != BROADCAST for kind in pattern)


def operations_per_point(spec: KernelSpec) -> int:
    """Return the number of operations per point, without those done once per row; an exponential counts as one."""
    moves, count = list[bool](), 0
    for code in spec.instructions:
        if code.op == "input":
            pattern = spec.inputs[code.operand].pattern
            moves.append(any(kind != BROADCAST for kind in pattern[-1:]) or not spec.reduced)
        else:
            reads = any(moves[arg] for arg in code.args)
            moves.append(reads and not code.op.startswith("reduce_"))
            count += reads and code.op not in NO_OPERATION
    return count
