"""Kernels that write a result over an operand that is not read afterwards.

**What must hold.** Suppose that the result and the operand start at the same address. The kernel is right if no element of the
operand is read after another value was written there. For a plan of one or more launches, which run one after the other:

1. *No launch after the one that writes the result reads the operand.* Earlier launches have finished when the writing begins.
2. *In the launch that writes the result, every read of the operand has the access pattern of the result*: same strides, same
   offset, same element size. Then point p reads exactly the bytes that point p writes. No two points write the same place
   (a result is stored once), so only p itself writes what p reads. A stencil, a broadcast or a transposed operand has
   other strides than the result, and is refused.
3. *At a point, all reads come before all writes, and no point is computed twice.* The text of a pointwise kernel loads a vector of
   every operand before it stores one of any result. LLVM keeps that order: the pointers are loaded from memory, so it must assume
   that they alias. Threads partition the points. But where the row length is not a multiple of the vector width, the last vector
   would overlap the one before, and read what that one wrote; `KernelSpec.in_place` asks for a text that ends rows another way. A
   kernel that reads in tiles has overlapping tiles too, and a reduction passes over its rows more than once: both are refused.

Lanes behind the end of a row may read what another thread writes; nothing is computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from irscope.codegen.kernel.spec import ITEM_SIZE, Launch, LaunchPlan

__all__ = ["may_overwrite", "overwriting"]


def may_overwrite(plan: LaunchPlan, output: int, operand: int) -> bool:
    """Whether an output of a group may overwrite one of its inputs, provided that nothing outside the group reads that input
    afterwards."""
    writers = [index for index, launch in enumerate(plan.launches) if output in launch.writes]
    if len(writers) != 1:
        return False
    (writer,) = writers
    launch = plan.launches[writer]
    if launch.spec.reduced or launch.spec.is_turned or any(operand in later.reads for later in plan.launches[writer + 1 :]):
        return False
    results = len(launch.writes)
    own = _walk(launch, launch.writes.index(output))
    readers = [results + place for place, read in enumerate(launch.reads) if read == operand]
    return all(_walk(launch, slot) == own for slot in readers)


def _walk(launch: Launch, slot: int) -> tuple[object, ...]:
    """Return what determines the bytes of a tensor that each point accesses, relative to its start: strides, offset, element size."""
    offset = launch.offsets[slot] if launch.offsets else 0
    return launch.strides[slot], offset, ITEM_SIZE[launch.spec.tensors[slot].dtype]


def overwriting(plan: LaunchPlan, taken: Mapping[int, int]) -> LaunchPlan:
    """Return the plan with these outputs (keys) written over these inputs, for each pair that allows it."""
    pairs = tuple((output, operand) for output, operand in taken.items() if may_overwrite(plan, output, operand))
    writes = {output for output, _ in pairs}
    launches = [
        replace(launch, spec=replace(launch.spec, in_place=True)) if writes.intersection(launch.writes) else launch
        for launch in plan.launches
    ]
    return replace(plan, launches=tuple(launches), in_place=pairs)
