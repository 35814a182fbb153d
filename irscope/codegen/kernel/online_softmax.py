"""Online softmax: the maximum of a row and its sum of `exp(x - maximum)` in one pass.

A softmax reads its row three times: for the maximum, for the sum of `exp(x - maximum)`, and to write. The first two need
only one pass. A reduction `reduce_exp` holds the largest element so far and the sum relative to it; a larger element scales
the sum by `exp(old - new)`, which is at most one, so that nothing overflows. Combining two such pairs scales the one with the
smaller maximum. It is commutative, so all threads that combine get the same result, every time.

What is given up: each rescaling rounds. It costs as much accuracy as adding an element does, so the error bound of a sum (as
many roundings as elements) holds with a factor of three. Where a row stays in registers nothing is gained.

The result of `reduce_exp` is the sum of `exp(x - maximum)`, or of `exp(x)` where the maximum is infinite: for a row of -inf it is
0, with inf in the row inf, with NaN in it NaN. So a logarithm of it may follow at once, as in `logsumexp`; for a
softmax, which subtracts infinity from itself there, NaN is added.
Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from irscope.codegen.kernel.spec import Instruction, KernelSpec, constant_bits, constant_value
from irscope.ops.expr import REDUCTIONS

__all__ = ["EXPONENTIALS", "GATHERING", "joined_parts", "use_online_softmax"]

EXPONENTIALS: Final = "reduce_exp"
GATHERING: Final = REDUCTIONS | {EXPONENTIALS}
"""The instructions that reduce their operand along the reduced loops."""


def use_online_softmax(spec: KernelSpec) -> KernelSpec:
    """Return the spec with every sum of `exp(x - maximum of x)` as one `reduce_exp`; the spec itself if it has none.

    >>> from irscope.codegen.kernel.spec import Operand, Result
    >>> code = (Instruction("input", (), "float32", 0), Instruction("reduce_max", (0,), "float32"),
    ...         Instruction("sub", (0, 1), "float32"), Instruction("exp", (2,), "float32"),
    ...         Instruction("reduce_sum", (3,), "float32"))
    >>> spec = KernelSpec((Operand("float32", "tensor", (1,)),), code, (Result("float32", (0,), 4),), 1, reduced=(0,))
    >>> [step.op for step in use_online_softmax(spec).instructions]
    ['input', 'reduce_max', 'reduce_exp', 'sub', 'add']
    """
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
    return _pruned(spec, found, at)


def joined_parts(code: list[Instruction], largest: int, part: int, dtype: str, node: int) -> int:
    """Append instructions that combine partial sums: `largest` is the maximum of each part, `part` its sum. Return the result's number."""

    def add(op: str, *args: int, kind: str = dtype, value: int | None = None) -> int:
        code.append(Instruction(op, args, kind, value, node))
        return len(code) - 1

    of_all = add("reduce_max", largest)
    smaller = add("exp", add("sub", largest, of_all))
    scale = add(
        "where", add("eq", largest, of_all, kind="bool"), add("const", value=constant_bits(1.0, dtype)), smaller
    )
    return add("reduce_sum", add("mul", part, scale))


def _from_the_largest(steps: Sequence[Instruction], code: Instruction) -> tuple[int, int, bool] | None:
    """Match a sum of `exp(x - maximum of x)`: return x, the maximum, and whether an infinite maximum is replaced by zero."""
    if code.op != "reduce_sum" or steps[code.args[0]].op != "exp":
        return None
    difference = steps[steps[code.args[0]].args[0]]
    if difference.op != "sub" or difference.dtype != code.dtype or code.dtype not in ("float32", "float64"):
        return None
    element, base = difference.args
    largest = _finite_or_zero(steps, base)
    guarded = largest is not None
    if largest is None:
        largest = base
    if steps[largest].op != "reduce_max" or steps[largest].args != (element,):
        return None
    return element, largest, guarded


def _finite_or_zero(steps: Sequence[Instruction], index: int) -> int | None:
    """Match `where(abs(m) == inf, 0, m)` and return m."""
    code = steps[index]
    if code.op != "where" or steps[code.args[0]].op != "eq":
        return None
    left, right = (steps[arg] for arg in steps[code.args[0]].args)
    is_infinite = left.op == "abs" and left.args == (code.args[2],) and _constant(right) == math.inf
    return code.args[2] if is_infinite and _constant(steps[code.args[1]]) == 0 else None


def _constant(code: Instruction) -> float | None:
    return float(constant_value(code.value, code.dtype)) if code.op == "const" and code.value is not None else None


def _pruned(spec: KernelSpec, code: Sequence[Instruction], at: Sequence[int]) -> KernelSpec:
    """Return the spec with these instructions, without those that no result needs."""
    needed = {at[result.instruction] for result in spec.outputs}
    for index in range(len(code) - 1, -1, -1):
        if index in needed:
            needed.update(code[index].args)
    place = {index: number for number, index in enumerate(sorted(needed))}
    kept = tuple(replace(code[i], args=tuple(place[arg] for arg in code[i].args)) for i in sorted(needed))
    outputs = tuple(replace(result, instruction=place[at[result.instruction]]) for result in spec.outputs)
    return replace(spec, instructions=kept, outputs=outputs)
