"""Each instruction of a kernel spec as a CUDA C++ expression, cheaper where the value is rounded to half precision.

Without headers there is no `__half`: halves are stored as 16-bit words, and are converted by one instruction on
the device. The text outside `__CUDA_ARCH__` is plain C++ with the same meaning, so that a C++ compiler can check the
text.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from irscope.codegen.kernel import ITEM_SIZE, Instruction, KernelSpec, is_float, trimmed
from irscope.errors import CodegenError

# Cheaper instructions on a GPU for values that are rounded to half precision.
#
# A GELU of halves is bound by the instructions of its erf and not by memory: `erff` takes some 25. Where `1 + erf(z)` is used
# only in products and quotients, and their result is rounded to a half, its relative error is passed on unchanged, and the half
# has only 8 or 11 bits. For negative z it is `erfc(-z)`, which a product of `exp(-z * z)` and a polynomial of `1 / (1 + p |z|)`
# approximates to 2.4e-4 (bfloat16, four coefficients) or 3.2e-5 (float16, five) over the whole range, a twelfth to an eighth of
# the half's last place. That is closer to the exact value than `1 + erf(z)` in float32, of which cancellation leaves nothing
# for z below -4. The exponential is scaled by 2**64, which the coefficients undo, so that it can be computed
# without the instructions for denormals and is still right over the range of bfloat16 results.

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
        for one, erf in (code.args, code.args[::-1]) if code.op == "add" and code.dtype == "float32" else ():
            is_found = steps[one].op == "const" and steps[one].number == 1 and steps[erf].op == "erf"
            if is_found and (target := _rounded_to(steps, users, written, index)):
                found[index] = replace(code, op=ONE_PLUS_ERF[target], args=steps[erf].args)
    if found == list(steps):
        return spec
    inputs = (index for index, code in enumerate(steps) if code.op == "input")  # a launch passes all of them
    kept, place = trimmed(found, (*written, *inputs))
    return replace(spec, instructions=kept, outputs=tuple(replace(each, instruction=place[each.instruction]) for each in spec.outputs))


def _rounded_to(steps: Sequence[Instruction], users: Sequence[Sequence[int]], written: set[int], start: int) -> str | None:
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


REGISTER: Final = {
    "float32": "float", "float64": "double", "float16": "float", "bfloat16": "float", "int64": "i64", "int32": "int",
    "int16": "short", "int8": "signed char", "uint8": "unsigned char", "bool": "bool",
}  # fmt: skip
MEMORY: Final = {**REGISTER, "float16": "unsigned short", "bfloat16": "unsigned short", "bool": "unsigned char"}

UNSIGNED: Final = {
    "int64": "unsigned long long", "int32": "unsigned", "int16": "unsigned", "int8": "unsigned", "uint8": "unsigned",
    "bool": "unsigned",
}  # fmt: skip
"""The types in which integer arithmetic is done, so that it wraps around."""

_INFIX: Final = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_UNCONTRACTED: Final = {"add": "__{}add_rn({}, {})", "sub": "__{}sub_rn({}, {})", "mul": "__{}mul_rn({}, {})"}
"""Arithmetic that is never contracted into a multiply-add."""
_CALLS: Final = {
    "exp", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "erf", "floor", "ceil",
    "trunc", "pow", "fmod", "fma",
}  # fmt: skip
_OWN: Final = {
    "minimum": "least", "maximum": "greatest", "remainder": "python_remainder", "sigmoid": "sigmoid", "sign": "sign",
}  # fmt: skip

_PAIRS: Final = """template <int N> static __device__ __forceinline__ Pack<unsigned short, N> packed_NAME(const float* f) {
  Pack<unsigned short, N> p;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    unsigned r; asm("cvt.rn.TYPE.f32 %0, %1, %2;" : "=r"(r) : "f"(f[i + 1]), "f"(f[i]));
    p.e[i] = (unsigned short)r; p.e[i + 1] = (unsigned short)(r >> 16);
  }
#else
  for (int i = 0; i < N; i++) p.e[i] = to_NAME(f[i]);
#endif
  return p;
}"""
"""Rounds two floats by one instruction from compute capability 8.0 on."""

_EXTREME: Final = """template <class T> static __device__ __forceinline__ T NAME(T a, T b) {
  return a != a ? a : a BEATS b ? a : b;
}
static __device__ __forceinline__ float NAME(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float c; asm("WORD.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c;
#else
  return a != a ? a : a BEATS b ? a : b;
#endif
}"""

HELPERS: Final = {
    "quotient": """static __device__ __forceinline__ i64 quotient(i64 a, i64 b) {
  if (((unsigned long long)a | (unsigned long long)b) >> 32) return a / b;
  return (unsigned)a / (unsigned)b;
}""",
    "Pack": "template <class T, int N> struct __align__(sizeof(T) * N) Pack { T e[N]; };\ntypedef Pack<unsigned, 4> uint4_words;",
    "load_once": """template <class P> static __device__ __forceinline__ P load_once(const P* at) {
#ifdef __CUDA_ARCH__
  if (sizeof(P) == 16) {
    uint4_words w;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(w.e[0]), "=r"(w.e[1]), "=r"(w.e[2]), "=r"(w.e[3]) : "l"(at));
    return *(P*)&w;
  }
#endif
  return *at;
}""",
    "store_past": """template <class P> static __device__ __forceinline__ void store_past(P* at, const P& value) {
#ifdef __CUDA_ARCH__
  if (sizeof(P) == 16) {
    const uint4_words& w = *(const uint4_words*)&value;
    asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};"
                 :: "l"(at), "r"(w.e[0]), "r"(w.e[1]), "r"(w.e[2]), "r"(w.e[3]) : "memory");
    return;
  }
#endif
  *at = value;
}""",
    "from_half": """static __device__ __forceinline__ float from_half(unsigned short h) {
#ifdef __CUDA_ARCH__
  float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f;
#else
  const unsigned m = (h & 0x7fffu) << 13, s = (h & 0x8000u) << 16;
  const unsigned moved = __float_as_uint(__uint_as_float(m) * 5.192296858534828e33f);
  const unsigned bits = m >= 0x0f800000u ? m | 0x7f800000u : moved;
  return __uint_as_float(bits | s);
#endif
}""",
    "to_half": """static __device__ __forceinline__ unsigned short to_half(float f) {
#ifdef __CUDA_ARCH__
  unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
#else
  const unsigned u = __float_as_uint(f), m = u & 0x7fffffffu, s = u >> 16 & 0x8000u;
  if (m > 0x7f800000u) return s | 0x7e00u;
  if (m >= 0x47800000u) return s | 0x7c00u;
  if (m < 0x38800000u) return s | (__float_as_uint(__uint_as_float(m) + 0.5f) - 0x3f000000u);
  return s | (m - 0x38000000u + 0xfffu + (m >> 13 & 1u)) >> 13;
#endif
}""",
    "from_bfloat": """static __device__ __forceinline__ float from_bfloat(unsigned short h) {
  return __uint_as_float((unsigned)h << 16);
}""",
    "to_bfloat": """static __device__ __forceinline__ unsigned short to_bfloat(float f) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned short h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
#else
  const unsigned u = __float_as_uint(f);
  return f != f ? 0x7fc0u : (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
#endif
}""",
    "packed_half": _PAIRS.replace("NAME", "half").replace("TYPE", "f16x2"),
    "packed_bfloat": _PAIRS.replace("NAME", "bfloat").replace("TYPE", "bf16x2"),
    "least": _EXTREME.replace("NAME", "least").replace("BEATS", "<").replace("WORD", "min"),
    "greatest": _EXTREME.replace("NAME", "greatest").replace("BEATS", ">").replace("WORD", "max"),
    "sign": """template <class T> static __device__ __forceinline__ T sign(T a) { return (T)((a > 0) - (a < 0)); }""",
    "sigmoid": """static __device__ __forceinline__ float sigmoid(float x) {
#ifdef __CUDA_ARCH__
  float r; asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(1.0f + expf(-x))); return r;
#else
  return 1.0f / (1.0f + expf(-x));
#endif
}
static __device__ __forceinline__ double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }""",
    "python_remainder": """static __device__ __forceinline__ float rest(float a, float b) { return fmodf(a, b); }
static __device__ __forceinline__ double rest(double a, double b) { return fmod(a, b); }
static __device__ __forceinline__ i64 rest(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a % b; }
template <class T> static __device__ __forceinline__ T python_remainder(T a, T b) {
  const T r = rest(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}""",
    "whole_quotient": """static __device__ __forceinline__ i64 whole_quotient(i64 a, i64 b) {
  return b == 0 ? 0 : b == -1 ? -a : a / b;
}""",
    "whole_rest": """static __device__ __forceinline__ i64 whole_rest(i64 a, i64 b) {
  return b == 0 || b == -1 ? 0 : a % b;
}""",
}
"""Functions that the text of a kernel uses, each after those it calls; only those in use are emitted."""


def element_text(code: Instruction, args: list[str], arg_types: list[str], helpers: set[str], *, exact: bool = False) -> str:
    """Return the instruction as an expression over the names of its operands; the helpers it calls are added to `helpers`.

    In an `exact` kernel a product and a sum round separately, even if the compiler contracts them elsewhere.

    >>> element_text(Instruction("exp", (0,), "float32"), ["t0"], ["float32"], set())
    'expf(t0)'
    """
    dtype = code.dtype
    if code.op == "input":
        return f"a{code.value}"
    if code.op == "const":
        return literal(code.number, dtype)
    if code.op == "cast":
        return _cast(args[0], arg_types[0], dtype, helpers)
    if code.op == "where":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    if code.op == "isnan":
        return f"{args[0]} != {args[0]}"
    if exact and is_float(dtype) and code.op in _UNCONTRACTED:
        return rounded(_UNCONTRACTED[code.op].format("d" if dtype == "float64" else "f", *args), dtype, helpers)
    text = _float_text(code.op, args, dtype, helpers) if is_float(arg_types[0]) else _integer_text(code.op, args, dtype, helpers)
    if text is None:
        raise CodegenError(f"no CUDA text for {code.op} on {dtype}", rule="codegen-op")
    return rounded(text, dtype, helpers)


def load_text(place: str, dtype: str, helpers: set[str]) -> str:
    """Return the register value of a word in memory."""
    if dtype in ("float16", "bfloat16"):
        name = "from_half" if dtype == "float16" else "from_bfloat"
        helpers.add(name)
        return f"{name}({place})"
    return f"{place} != 0" if dtype == "bool" else place


def store_text(value: str, dtype: str, helpers: set[str]) -> str:
    if dtype in ("float16", "bfloat16"):
        name = "to_half" if dtype == "float16" else "to_bfloat"
        helpers.add(name)
        return f"{name}({value})"
    return value


def _float_text(op: str, args: list[str], dtype: str, helpers: set[str]) -> str | None:
    suffix = "" if dtype == "float64" else "f"
    if op in _INFIX:
        return f"{args[0]} {_INFIX[op]} {args[1]}"
    if op in _CALLS:
        return f"{op}{suffix}({', '.join(args)})"
    if op in _OWN:
        helpers.add(_OWN[op])
        return f"{_OWN[op]}({', '.join(args)})"
    match op:
        case "neg":
            return f"-{args[0]}"
        case "abs":
            return f"fabs{suffix}({args[0]})"
        case "round":
            return f"rint{suffix}({args[0]})"
        case "reciprocal":
            return f"1.0{suffix} / {args[0]}"
    return None


def _integer_text(op: str, args: list[str], dtype: str, helpers: set[str]) -> str | None:
    kind = REGISTER[dtype]
    if op in ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor"):
        return f"{args[0]} {_INFIX[op]} {args[1]}"
    if op in ("add", "sub", "mul"):
        wide = UNSIGNED[dtype]
        return f"({kind})(({wide}){args[0]} {_INFIX[op]} ({wide}){args[1]})"
    if op in ("minimum", "maximum", "sign"):
        helpers.add(_OWN[op])
        return f"{_OWN[op]}({', '.join(args)})"
    if op in ("div", "fmod", "remainder"):
        name = {"div": "whole_quotient", "fmod": "whole_rest", "remainder": "python_remainder"}[op]
        helpers.add(name)
        return f"({kind}){name}((i64){args[0]}, (i64){args[1]})"
    if op in ("shl", "shr"):
        # C++'s own shift has no value for a distance of the width or more, and a negative one counts as such
        (a, b), wide, bits = args, UNSIGNED[dtype], 8 * ITEM_SIZE[dtype]
        fits = f"({wide}){b} < {bits}u"
        if op == "shr" and dtype != "uint8":
            return f"({kind})({a} >> ({fits} ? (int){b} : {bits - 1}))"
        return f"({kind})({fits} ? ({wide}){a} {'<<' if op == 'shl' else '>>'} {b} : 0)"
    match op:
        case "neg":
            return f"({kind})(({UNSIGNED[dtype]})0 - ({UNSIGNED[dtype]}){args[0]})"
        case "abs":
            return f"{args[0]} < 0 ? ({kind})(({UNSIGNED[dtype]})0 - ({UNSIGNED[dtype]}){args[0]}) : {args[0]}"
        case "not":
            return f"!{args[0]}" if dtype == "bool" else f"({kind})~{args[0]}"
    return None


def _cast(arg: str, source: str, target: str, helpers: set[str]) -> str:
    if target == "bool":
        return f"{arg} != 0"
    text = arg if REGISTER[source] == REGISTER[target] else f"({REGISTER[target]}){arg}"
    if is_float(source) and target in ("int8", "int16", "uint8"):
        text = f"({REGISTER[target]})(int){arg}"
    return rounded(text, target, helpers) if source != target else text


def rounded(text: str, dtype: str, helpers: set[str]) -> str:
    """Round a float to a half type and back; leave every other type unchanged."""
    if dtype not in ("float16", "bfloat16"):
        return text
    return load_text(store_text(text, dtype, helpers), dtype, helpers)


def literal(value: float, dtype: str) -> str:
    """Return a constant that the compiler reads back as exactly this number."""
    if dtype == "bool":
        return "true" if value else "false"
    if not is_float(dtype):
        return f"({REGISTER[dtype]})({int(value)}ll)" if value != -(2**63) else "(i64)(-9223372036854775807ll - 1)"
    if REGISTER[dtype] == "double":
        bits = int(np.float64(value).view(np.uint64))
        return f"({float(value)!r})" if np.isfinite(value) else f"__longlong_as_double(0x{bits:x}ull)"
    single = np.float32(value)
    return f"({float(str(single))!r}f)" if np.isfinite(single) else f"__uint_as_float(0x{int(single.view(np.uint32)):x}u)"
