"""How a reduction takes in more elements on a GPU: in a thread, across the lanes of a warp, and through shared memory.

As on the processor, argmax and argmin are held in two accumulators (what is compared, and its index), every
accumulator starts with a value that changes nothing, and joining two does not depend on which comes first: of equals
the smaller index wins, NaN wins over all numbers. So all threads of a team end with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from irscope.codegen.cuda.instruction_text import REGISTER, literal
from irscope.codegen.kernel import EXPONENTIALS, KernelSpec, accumulated_dtype, is_float, neutral_value
from irscope.ops.expr import POSITIONS

__all__ = ["JOIN_HELPERS", "first_values", "gathered", "joined", "kinds"]

_UNSIGNED: Final = {"int64": "unsigned long long"}

_POWERS: Final = """template <class T> static __device__ __forceinline__ void NAME(T& m, T& s, T b MORE) {
  const T d = m - b, e = power(d < 0 ? d : -d);
  s = b > m ? times_plus(s, e, (T)SUM) : times_plus((T)SUM, e, s);
  m = greatest(m, b);
}"""
"""A largest element and the sum of exponentials from there, joined with others: the smaller of the two scales its sum."""

JOIN_HELPERS: Final = {
    "other": """static __device__ __forceinline__ float other(float v, int d) { return __shfl_xor_sync(0xffffffffu, v, d); }
static __device__ __forceinline__ double other(double v, int d) { return __shfl_xor_sync(0xffffffffu, v, d); }
static __device__ __forceinline__ i64 other(i64 v, int d) { return __shfl_xor_sync(0xffffffffu, v, d); }
template <class T> static __device__ __forceinline__ T other(T v, int d) {
  return (T)__shfl_xor_sync(0xffffffffu, (int)v, d);
}""",
    "take_largest": """template <class T> static __device__ __forceinline__ void take_largest(T& a, i64& i, T b, i64 j) {
  if (b > a || (b != b && a == a) || ((b == a || (b != b && a != a)) && j < i)) { a = b; i = j; }
}""",
    "take_smallest": """template <class T> static __device__ __forceinline__ void take_smallest(T& a, i64& i, T b, i64 j) {
  if (b < a || (b != b && a == a) || ((b == a || (b != b && a != a)) && j < i)) { a = b; i = j; }
}""",
    "power": """static __device__ __forceinline__ float power(float x) { return expf(x); }
static __device__ __forceinline__ double power(double x) { return exp(x); }
static __device__ __forceinline__ float times_plus(float a, float b, float c) { return fmaf(a, b, c); }
static __device__ __forceinline__ double times_plus(double a, double b, double c) { return fma(a, b, c); }""",
    "take_power": _POWERS.replace("NAME", "take_power").replace("MORE", "").replace("SUM", "1"),
    "take_powers": _POWERS.replace("NAME", "take_powers").replace("MORE", ", T t").replace("SUM", "t"),
}
"""Functions that the text of a reduction uses."""


def kinds(spec: KernelSpec, index: int) -> tuple[str, ...]:
    """The C++ types of a reduction's accumulators."""
    own, op = REGISTER[accumulated_dtype(spec, index)], spec.instructions[index].op
    return (own, "i64") if op in POSITIONS else (own, own) if op == EXPONENTIALS else (own,)


def first_values(spec: KernelSpec, index: int) -> tuple[str, ...]:
    """What a reduction's accumulators start with."""
    op, dtype = spec.instructions[index].op, accumulated_dtype(spec, index)
    if op == EXPONENTIALS:  # the least number, from which -inf is infinitely far
        return literal(float(np.finfo(dtype).min), dtype), literal(0.0, dtype)
    first = literal(neutral_value(op, dtype), dtype)
    return (first, "9223372036854775807ll") if op in POSITIONS else (first,)


def gathered(spec: KernelSpec, index: int, held: Sequence[str]) -> str:
    """A reduction's result, from its accumulators."""
    if spec.instructions[index].op != EXPONENTIALS:
        return held[-1]
    infinite = literal(float("inf"), accumulated_dtype(spec, index))
    return f"({held[0]} == {infinite} ? {infinite} : {held[1]})"


def joined(spec: KernelSpec, index: int, held: Sequence[str], more: Sequence[str], helpers: set[str]) -> str:
    """The statement that takes further values into the accumulators."""
    op, dtype = spec.instructions[index].op, accumulated_dtype(spec, index)
    kind = REGISTER[dtype]
    if op in POSITIONS:
        name = "take_largest" if op == "reduce_argmax" else "take_smallest"
        helpers.add(name)
        return f"{name}({held[0]}, {held[1]}, {more[0]}, {more[1]});"
    if op == EXPONENTIALS:
        name = "take_power" if len(more) == 1 else "take_powers"
        helpers.update(("greatest", "power", name))
        return f"{name}({', '.join((*held, *more))});"
    if op in ("reduce_max", "reduce_min"):
        name = "greatest" if op == "reduce_max" else "least"
        helpers.add(name)
        return f"{held[0]} = {name}({held[0]}, {more[0]});"
    sign = {"reduce_sum": "+", "reduce_prod": "*", "reduce_any": "|", "reduce_all": "&"}[op]
    if is_float(dtype) or op in ("reduce_any", "reduce_all"):
        return f"{held[0]} = {held[0]} {sign} {more[0]};"
    wide = _UNSIGNED.get(dtype, "unsigned")
    return f"{held[0]} = ({kind})(({wide}){held[0]} {sign} ({wide}){more[0]});"
