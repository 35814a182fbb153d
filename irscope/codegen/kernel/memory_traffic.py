"""Memory traffic and operations of a kernel per point of its iteration space, derived from its spec alone: the same for every device."""

from __future__ import annotations

from typing import NamedTuple

from irscope.codegen.kernel.reduction_passes import reduction_nest
from irscope.codegen.kernel.spec import BROADCAST, ITEM_SIZE, KernelSpec
from irscope.ops.expr import NO_OPERATION

__all__ = ["Traffic", "bytes_per_point", "operations_per_point", "traffic_of"]


class Traffic(NamedTuple):
    """Bytes read from and written to memory per point."""

    read: float
    written: float


def traffic_of(spec: KernelSpec, *, held: bool) -> Traffic:
    """Return the bytes per point of the tensors that move along every loop, which dominate the traffic of large kernels.

    A tensor that several passes read counts once per pass, unless a row is `held` from pass to pass (in registers or a cache).

    >>> from irscope.codegen.kernel.spec import Instruction, Operand, Result
    >>> code = (Instruction("input", (), "float32", 0), Instruction("exp", (0,), "float32"))
    >>> spec = KernelSpec((Operand("float32", "tensor", (1,)),), code, (Result("float32", (1,), 1),), rank=1)
    >>> traffic_of(spec, held=True)
    Traffic(read=4.0, written=4.0)
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


def bytes_per_point(spec: KernelSpec, *, held: bool) -> float:
    """Return the bytes that `traffic_of` counts, reads and writes together."""
    return sum(traffic_of(spec, held=held))


def _full(pattern: tuple[int, ...]) -> bool:
    return all(kind != BROADCAST for kind in pattern)


def operations_per_point(spec: KernelSpec) -> int:
    """Return the number of operations per point, without those done once per row; an exponential counts as one."""
    moves: list[bool] = []
    for code in spec.instructions:
        if code.op == "input":
            assert code.value is not None
            operand = spec.inputs[code.value]
            moves.append(any(kind != BROADCAST for kind in operand.pattern[-1:]) or not spec.reduced)
        else:
            moves.append(not code.op.startswith("reduce_") and any(moves[arg] for arg in code.args))
    counted = [
        code.op not in NO_OPERATION
        and (moves[i] or (code.op.startswith("reduce_") and any(moves[arg] for arg in code.args)))
        for i, code in enumerate(spec.instructions)
    ]
    return sum(counted)
