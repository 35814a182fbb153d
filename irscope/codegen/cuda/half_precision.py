"""What may be computed more cheaply on a GPU because its result is rounded to a half.

A GELU of halves is bound by the instructions of its erf and not by memory: `erff` takes some 25. Where `1 + erf(z)` goes
into products and quotients alone, and from there into a half, its relative error passes on as it is, and the half has 8
or 11 bits. For negative z it is `erfc(-z)`, which a product of `exp(-z * z)` and a polynomial of `1 / (1 + p |z|)` gives
to 2.4e-4 (bfloat16, four coefficients) or 3.2e-5 (float16, five) over the whole range, a twelfth to an eighth of the
half's last place. That is nearer to the exact value than `1 + erf(z)` in float32, of which cancellation leaves nothing
from z = -4 on. The exponential is held 2**64 times too large, which the coefficients undo, so that it may be computed
without the instructions for denormals and is right where results of bfloat16 are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from irscope.codegen.kernel import Instruction, KernelSpec, constant_value

__all__ = ["HALF_HELPERS", "ONE_PLUS_ERF", "cheaper_for_halves"]

ONE_PLUS_ERF: Final = {"bfloat16": "one_plus_erf_bfloat16", "float16": "one_plus_erf_float16"}
"""The instruction, and the function in the text, by the least exact element type that it is good for."""

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
"""Ops that hand a relative error on as it is."""


def _text(dtype: str) -> str:
    p, coefficients = _COEFFICIENTS[dtype]
    *rest, last = [f"{value * 2.0**-64!r}f" for value in coefficients]
    text = last
    for value in reversed(rest):
        text = f"fmaf({text}, t, {value})"
    return _TEXT.replace("NAME", ONE_PLUS_ERF[dtype]).replace("POLYNOMIAL", text).replace("P,", f"{p}f,")


HALF_HELPERS: Final = {ONE_PLUS_ERF[dtype]: _text(dtype) for dtype in ONE_PLUS_ERF}
"""Functions that the text of a kernel uses."""


def cheaper_for_halves(spec: KernelSpec) -> KernelSpec:
    """The spec with the instructions above where they are exact enough; the spec itself if they are nowhere."""
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
    """The erf in `1 + erf`."""
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
    """The most exact half among those to which all that is made of a value is rounded; None if something is not."""
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
    """Only instructions that some result needs; inputs stay, for they are what a launch hands over."""
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
