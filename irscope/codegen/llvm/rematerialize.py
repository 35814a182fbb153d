"""Chooses the value that a kernel with several passes stores rather than rematerialises.

Memory for it costs nothing in a result that is written only after the value's last use: the exponentials of
a softmax are kept where the softmax will be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from irscope.codegen.kernel import UNIT, Instruction, KernelSpec, ReductionNest, reduction_nest
from irscope.codegen.simd import MEMORY, REGISTER
from irscope.ops.expr import PRIMITIVES, REDUCTIONS

__all__ = ["kept_value", "weight"]

_EXPENSIVE: Final = 20
"""LLVM instructions from which on storing a value is preferred to recomputing it."""


def kept_value(spec: KernelSpec, *, on_stack: bool) -> tuple[int, int, int, int] | None:
    """Return (instruction, first pass, last pass, result) of the most expensive value worth keeping, or None.

    The value is kept in that result, by position; -1 means on the stack, if that is allowed and rows are short enough.
    """
    if len(spec.reduced) != 1:
        return None
    nest = reduction_nest(spec)
    best: tuple[tuple[int, bool], tuple[int, int, int, int]] | None = None
    for index, code in enumerate(spec.instructions):
        uses = [number for number, each in enumerate(nest.passes) if index in each.body]
        weight = _weight(spec, nest.varies, index) if len(uses) > 1 and code.op != "input" else 0
        fits = on_stack and spec.row_limit > 0 and REGISTER[code.dtype] != "i1"
        past_caches = fits and spec.nontemporal  # a result that is read again should stay in the caches
        slot = _free_result(spec, nest, code.dtype, uses[-1]) if weight >= _EXPENSIVE and not past_caches else None
        if weight >= _EXPENSIVE and (slot is not None or fits):
            rank = (weight, slot is not None)
            if best is None or rank > best[0]:
                best = rank, (index, uses[0], uses[-1], -1 if slot is None else slot)
    return best[1] if best else None


def _free_result(spec: KernelSpec, nest: ReductionNest, dtype: str, last: int) -> int | None:
    """Return a result of this type that is not written before the last pass that needs the value."""
    for slot, result in enumerate(spec.outputs):
        final = next((number for number, each in enumerate(nest.passes) if slot in each.writes), -1)
        is_compatible = result.pattern[-1] == UNIT and REGISTER[dtype] == MEMORY[result.dtype]
        if final >= last and is_compatible and result.dtype == dtype:
            return slot
    return None


def _weight(spec: KernelSpec, varies: tuple[bool, ...], index: int) -> int:
    """Return the approximate LLVM instructions that recompute a value."""
    found, todo = {index}, [index]
    for here in todo:
        fresh = [arg for arg in spec.instructions[here].args if varies[arg] and arg not in found]
        found.update(fresh)
        todo += fresh
    return weight(code for i in found if (code := spec.instructions[i]).op not in REDUCTIONS)


def weight(codes: Iterable[Instruction]) -> int:
    """Return the approximate number of LLVM instructions that these lower to."""
    return sum(PRIMITIVES[code.op].instructions if code.op in PRIMITIVES else 1 for code in codes)
