"""Which value a kernel with several passes should store rather than compute again.

Memory for it costs nothing where a result will be written anyway, later than the value is needed: the exponentials of
a softmax are kept where the softmax will be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from irscope.codegen.kernel import UNIT, Instruction, KernelSpec, ReductionNest, reduction_nest
from irscope.codegen.simd import MEMORY, REGISTER
from irscope.ops.expr import PRIMITIVES, REDUCTIONS

__all__ = ["kept_value", "weight"]

_DEAR: Final = 20
"""Instructions of LLVM above which a value is rather stored than computed again."""


def kept_value(spec: KernelSpec, *, on_stack: bool) -> tuple[int, int, int, int] | None:
    """(instruction, first pass, last pass, result) of the dearest value worth keeping, or None.

    The result, by position, is where it is kept; -1 means the stack, if that is allowed and rows are short enough.
    """
    if len(spec.reduced) != 1:
        return None
    nest = reduction_nest(spec)
    best: tuple[tuple[int, bool], tuple[int, int, int, int]] | None = None
    for index, code in enumerate(spec.instructions):
        uses = [number for number, each in enumerate(nest.passes) if index in each.body]
        weight = _weight(spec, nest.varies, index) if len(uses) > 1 and code.op != "input" else 0
        fits = on_stack and spec.row_limit > 0 and REGISTER[code.dtype] != "i1"
        past_caches = fits and spec.nontemporal  # a result that is read again had better stay in them
        slot = _free_result(spec, nest, code.dtype, uses[-1]) if weight >= _DEAR and not past_caches else None
        if weight >= _DEAR and (slot is not None or fits):
            rank = (weight, slot is not None)
            if best is None or rank > best[0]:
                best = rank, (index, uses[0], uses[-1], -1 if slot is None else slot)
    return best[1] if best else None


def _free_result(spec: KernelSpec, nest: ReductionNest, dtype: str, last: int) -> int | None:
    """A result of this type that is not written before the last pass that needs the value."""
    for slot, result in enumerate(spec.outputs):
        final = next((number for number, each in enumerate(nest.passes) if slot in each.writes), -1)
        lies_well = result.pattern[-1] == UNIT and REGISTER[dtype] == MEMORY[result.dtype]
        if final >= last and lies_well and result.dtype == dtype:
            return slot
    return None


def _weight(spec: KernelSpec, varies: tuple[bool, ...], index: int) -> int:
    """Instructions of LLVM to compute a value again."""
    found, todo = {index}, [index]
    for here in todo:
        fresh = [arg for arg in spec.instructions[here].args if varies[arg] and arg not in found]
        found.update(fresh)
        todo += fresh
    return weight(code for i in found if (code := spec.instructions[i]).op not in REDUCTIONS)


def weight(codes: Iterable[Instruction]) -> int:
    """Instructions of LLVM that these become, roughly."""
    return sum(PRIMITIVES[code.op].instructions if code.op in PRIMITIVES else 1 for code in codes)
