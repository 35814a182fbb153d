"""Cheaper instructions on a GPU for values that are rounded to half precision.

A GELU of halves is bound by the instructions of its erf and not by memory: `erff` takes some 25. Where `1 + erf(z)` is used
only in products and quotients, and their result is rounded to a half, its relative error is passed on unchanged, and the half
has only 8 or 11 bits. For negative z it is `erfc(-z)`, which a product of `exp(-z * z)` and a polynomial of `1 / (1 + p |z|)`
approximates to 2.4e-4 (bfloat16, four coefficients) or 3.2e-5 (float16, five) over the whole range, a twelfth to an eighth of
the half's last place. That is closer to the exact value than `1 + erf(z)` in float32, of which cancellation leaves nothing
for z below -4. The exponential is scaled by 2**64, which the coefficients undo, so that it can be computed
without the instructions for denormals and is still right over the range of bfloat16 results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from irscope.codegen.kernel import Instruction, KernelSpec, constant_value

__all__ = ["HALF_HELPERS", "ONE_PLUS_ERF", "cheaper_for_halves"]

ONE_PLUS_ERF: Final = {"bfloat16": "one_plus_erf_bfloat16", "float16": "one_plus_erf_float16"}
"""By element type, the instruction (and the function in the text) that is exact enough for it."""

_COEFFICIENTS: Final = {
    "bfloat16": (0.425, (0.23705392, 0.2734721, 0.07649328, 0.41322085)),
    "float16": (0.535, (0.30096486, 0.31576887, 0.17760733, 0.38647902, -0.18085177)),
}
"""p, and the coefficients from the first power on; fitted to the largest relative error."""

_TEXT: Final = """static __device__ __forceinline__ float NAME(float z) {
  const float a = fabsf(z), b = fmaf(P, a, 1.0f), c = fmaf(z * z, -1.442695041f, 64.0f);
  float t, e;
#ifdef __CUDA_ARCH__
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(b));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(c));
#else
  t = 1.0f / b; e = exp2f(c);
#endif
  const float r = POLYNOMIAL * t * e;
  return z < 0.0f ? r : 2.0f - r;
}"""

_KEEPING: Final = ("mul", "div", "neg", "abs")
"""Ops that pass a relative error on unchanged."""


def _text(dtype: str) -> str:
    p, coefficients = _COEFFICIENTS[dtype]
    *rest, last = [f"{value * 2.0**-64!r}f" for value in coefficients]
    text = last
    for value in reversed(rest):
        text = f"fmaf({text}, t, {value})"
    return _TEXT.replace("NAME", ONE_PLUS_ERF[dtype]).replace("POLYNOMIAL", text).replace("P,", f"{p}f,")


HALF_HELPERS: Final = {ONE_PLUS_ERF[dtype]: _text(dtype) for dtype in ONE_PLUS_ERF}
"""Device functions of these instructions, by name."""


def cheaper_for_halves(spec: KernelSpec) -> KernelSpec:
    """Return the spec with the instructions above where they are exact enough; the spec itself if that is nowhere."""
    steps = spec.instructions
    users: list[list[int]] = [[] for _ in steps]
    for index, code in enumerate(steps):
        for arg in code.args:
            users[arg].append(index)
    written = {result.instruction for result in spec.outputs}
    found = list(steps)
    for index, code in enumerate(steps):
        erf = _erf_of(steps, code)
        target = None if erf is None else _rounded_to(steps, users, written, index)
        if erf is not None and target is not None:
            found[index] = replace(code, op=ONE_PLUS_ERF[target], args=steps[erf].args)
    if found == list(steps):
        return spec
    return _without_the_unused(replace(spec, instructions=tuple(found)))


def _erf_of(steps: Sequence[Instruction], code: Instruction) -> int | None:
    """Match `1 + erf(…)` in float32 and return the erf."""
    if code.op != "add" or code.dtype != "float32":
        return None
    for one, other in (code.args, code.args[::-1]):
        first = steps[one]
        if first.op == "const" and first.value is not None and constant_value(first.value, first.dtype) == 1:
            return other if steps[other].op == "erf" else None
    return None


def _rounded_to(
    steps: Sequence[Instruction], users: Sequence[Sequence[int]], written: set[int], start: int
) -> str | None:
    """Return the most exact half type to which the uses of a value are rounded; None if one of them is not rounded to a half."""
    todo, seen, halves = [start], {start}, set()
    while todo:
        index = todo.pop()
        if index in written or not users[index]:
            return None
        for user in users[index]:
            code = steps[user]
            if code.op == "cast" and code.dtype in ONE_PLUS_ERF:
                halves.add(code.dtype)
            elif code.op not in _KEEPING or code.dtype != "float32":
                return None
            elif user not in seen:
                seen.add(user)
                todo.append(user)
    return "float16" if "float16" in halves else "bfloat16"


def _without_the_unused(spec: KernelSpec) -> KernelSpec:
    """Drop the instructions that no result needs; inputs stay, because a launch passes them."""
    needed = {result.instruction for result in spec.outputs}
    for index in range(len(spec.instructions) - 1, -1, -1):
        if index in needed:
            needed.update(spec.instructions[index].args)
    kept = [i for i, code in enumerate(spec.instructions) if i in needed or code.op == "input"]
    place = {index: number for number, index in enumerate(kept)}
    steps = [spec.instructions[index] for index in kept]
    return replace(
        spec, instructions=tuple(replace(code, args=tuple(place[arg] for arg in code.args)) for code in steps),
        outputs=tuple(replace(result, instruction=place[result.instruction]) for result in spec.outputs),
    )  # fmt: skip
