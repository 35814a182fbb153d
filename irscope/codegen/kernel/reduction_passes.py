"""The passes that a kernel makes over its reduced loops.

A reduction's result is known only when the loops have ended, so its users need another pass: a softmax takes
three, for the maximum, for the sum of the exponentials, and to write; two if `online_softmax` has rewritten it.
Instructions that vary along the reduced loops are recomputed in each pass that needs them. All others have one
value per step of the kept loops, and are computed between two passes, as early as possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from irscope.codegen.kernel.online_softmax import GATHERING
from irscope.codegen.kernel.spec import BROADCAST, KernelSpec

__all__ = ["Pass", "ReductionNest", "reduction_nest"]


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

    >>> from irscope.codegen.kernel.spec import Instruction, Operand, Result
    >>> code = (Instruction("input", (), "float32", 0), Instruction("reduce_max", (0,), "float32"),
    ...         Instruction("sub", (0, 1), "float32"))
    >>> spec = KernelSpec((Operand("float32", "tensor", (2, 1)),), code, (Result("float32", (2, 1), 2),), 2, reduced=(1,))
    >>> [(each.body, each.reductions, each.carried) for each in reduction_nest(spec).passes]
    [((0,), (1,), ()), ((0, 2), (), (1,))]
    """
    varies: list[bool] = []
    levels: list[int] = []
    for code in spec.instructions:
        level = max((levels[arg] for arg in code.args), default=0)
        if code.op == "input":
            assert code.value is not None
            pattern = spec.inputs[code.value].pattern
            varies.append(any(pattern[loop] != BROADCAST for loop in spec.reduced if pattern))
        else:
            varies.append(code.op not in GATHERING and any(varies[arg] for arg in code.args))
        levels.append(level + 1 if code.op in GATHERING else level)
    written = [slot for slot, result in enumerate(spec.outputs) if not spec.is_reduced(result)]
    needed = _needed(spec, (result.instruction for result in spec.outputs), ())
    count = max(
        [levels[i] for i in needed if spec.instructions[i].op in GATHERING]
        + [levels[spec.outputs[slot].instruction] + 1 for slot in written]
    )
    once = [i for i in sorted(needed) if not varies[i] and spec.instructions[i].op not in GATHERING | {"const"}]
    passes = []
    for number in range(count):
        reductions = tuple(
            i for i in sorted(needed) if spec.instructions[i].op in GATHERING and levels[i] == number + 1
        )
        writes = tuple(slot for slot in written if levels[spec.outputs[slot].instruction] == number)
        stored: tuple[int, ...] = ()
        if kept_in_memory is not None and kept_in_memory[1] < number <= kept_in_memory[2]:
            stored = (kept_in_memory[0],)
        roots = {arg for i in reductions for arg in spec.instructions[i].args}
        roots |= {spec.outputs[slot].instruction for slot in writes}
        inside = _needed(spec, roots, (*stored, *(i for i, moves in enumerate(varies) if not moves)))
        body = tuple(i for i in sorted(inside) if varies[i])
        reads = roots | {arg for i in body if i not in stored for arg in spec.instructions[i].args}
        carried = tuple(i for i in sorted(reads) if not varies[i] and spec.instructions[i].op != "const")
        passes.append(Pass(tuple(i for i in once if levels[i] == number), body, reductions, writes, carried))
    return ReductionNest(spec, tuple(varies), tuple(passes), tuple(i for i in once if levels[i] >= count))


def _needed(spec: KernelSpec, roots: Iterable[int], ends: Iterable[int]) -> set[int]:
    """Return the instructions that the roots need, without those that only the `ends` need."""
    found, closed = set(roots), set(ends)
    for index in range(len(spec.instructions) - 1, -1, -1):
        if index in found and index not in closed:
            found.update(spec.instructions[index].args)
    return found
