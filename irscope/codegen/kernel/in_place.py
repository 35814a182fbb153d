"""Kernels that write a result over an operand that nobody needs afterwards.

**What must hold.** Say that the result and the operand begin at one address. The kernel is right if no element of the operand
is read after another value was written there. Of a plan of one or more launches, which run one after the other:

1. *No launch after the one that writes the result reads the operand.* Those before it are over when the writing begins.
2. *In the launch that writes it, whoever reads the operand steps through it as the result is stepped through*: same strides, same
   first place, elements of one size. Then point p reads exactly the bytes that point p writes. No point writes where
   another does (a result is stored once), so none but p itself writes what p reads. A stencil, a broadcast or a turned operand has
   other strides than the result, and is refused.
3. *At a point, all reads come before all writes, and no point is computed twice.* The text of a pointwise kernel loads a vector of
   every operand before it stores one of any result, LLVM keeps that order (pointers are loaded from memory, so that it must take
   them for aliases), and threads share out the points. But a row that is no multiple of the vector would end with a vector that
   overlaps the one before, and read what that one wrote; `KernelSpec.in_place` asks for a text that ends rows another way. A
   kernel that reads in tiles overlaps them too, and a reduction passes over its rows more than once: both are refused.

Lanes that lie behind the end of a row may be read from what another thread writes; nothing is computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from irscope.codegen.kernel.spec import ITEM_SIZE, Launch, LaunchPlan

__all__ = ["may_overwrite", "overwriting"]


def may_overwrite(plan: LaunchPlan, output: int, operand: int) -> bool:
    """Whether an output of a group may lie where an input of it lies, if nothing else reads that one afterwards."""
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
    """Which bytes a tensor takes at each point, counted from where it begins."""
    offset = launch.offsets[slot] if launch.offsets else 0
    return launch.strides[slot], offset, ITEM_SIZE[launch.spec.tensors[slot].dtype]


def overwriting(plan: LaunchPlan, taken: Mapping[int, int]) -> LaunchPlan:
    """The plan with these outputs in place of these inputs, as far as they may be."""
    pairs = tuple((output, operand) for output, operand in taken.items() if may_overwrite(plan, output, operand))
    writes = {output for output, _ in pairs}
    launches = [
        replace(launch, spec=replace(launch.spec, in_place=True)) if writes.intersection(launch.writes) else launch
        for launch in plan.launches
    ]
    return replace(plan, launches=tuple(launches), in_place=pairs)
