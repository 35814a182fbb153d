"""Estimates of a kernel's time on one core, which decide whether threads pay off and whether stores bypass the
caches.
"""

from __future__ import annotations

from typing import Final

from irscope.codegen.kernel import ITEM_SIZE, KernelSpec, Launch
from irscope.codegen.kernel.loops import loop_nest
from irscope.ops.expr import PRIMITIVES

__all__ = ["estimated_seconds", "stores_should_stream"]

_CYCLES: Final = {"input": 1.0, "const": 0.0}
"""Cycles per vector register of float32, for ops that are not primitives; others of that kind take half a cycle."""

_HERTZ: Final = 3.0e9
_BYTES_PER_SECOND: Final = {"cache": 50.0e9, "memory": 8.0e9}
_LAST_LEVEL_CACHE: Final = 32 << 20
_LONG_ROW: Final = 2048
"""Bytes of a result's row from which its ends are negligible."""


def estimated_seconds(launch: Launch, vector_bytes: int) -> float:
    """Returns the time on one core, within a factor of two or three.

    >>> from irscope.codegen.kernel.spec import Instruction, Operand, Result
    >>> code = (Instruction("input", (), "float32", 0), Instruction("exp", (0,), "float32"))
    >>> spec = KernelSpec((Operand("float32", "tensor", (1,)),), code, (Result("float32", (1,), 1),), rank=1)
    >>> launch = Launch(spec, (100_000,), (0,), (0,), ((1,), (1,)))
    >>> 1e-5 < estimated_seconds(launch, 32) < 1e-3
    True
    """
    moved = launch.bytes_moved
    rate = _BYTES_PER_SECOND["memory" if moved > _LAST_LEVEL_CACHE else "cache"]
    return _compute_seconds(launch, vector_bytes) + moved / rate


def stores_should_stream(launch: Launch, vector_bytes: int) -> bool:
    """Checks whether results exceed the caches, memory rather than arithmetic bounds the speed, and rows are long: a cache
    line that bypasses the caches only in part costs far more than streaming saves."""
    spec = launch.spec
    everywhere = [result for result in spec.outputs if not spec.is_reduced(result)]
    if any(launch.sizes[-1] * ITEM_SIZE[result.dtype] < _LONG_ROW for result in everywhere):
        return False
    written = sum(ITEM_SIZE[result.dtype] for result in everywhere) * launch.elements
    if written <= _LAST_LEVEL_CACHE:
        return False
    return _compute_seconds(launch, vector_bytes) < 1.5 * launch.bytes_moved / _BYTES_PER_SECOND["memory"]


def _compute_seconds(launch: Launch, vector_bytes: int) -> float:
    inner_stage = loop_nest(launch.spec).stages[launch.spec.rank]
    return _cycles(launch.spec, inner_stage) * launch.elements * 4 / vector_bytes / _HERTZ


def _cycles(spec: KernelSpec, stage: tuple[int, ...]) -> float:
    """Returns the cycles for as many elements as one register holds in float32."""
    total = 1.0
    for index in stage:
        code = spec.instructions[index]
        each = PRIMITIVES[code.op].cycles if code.op in PRIMITIVES else _CYCLES.get(code.op, 0.5)
        total += each * max(ITEM_SIZE[code.dtype], 4) / 4
    return total
