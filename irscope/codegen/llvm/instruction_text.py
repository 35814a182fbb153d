"""Each instruction and accumulator of a kernel spec as LLVM text over lanes.

Halves are computed as float32, bool as `i1`; in memory bool is a byte and bfloat16 a 16-bit word.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from irscope.codegen.kernel import ITEM_SIZE, Instruction, KernelSpec, accumulated_dtype, accumulators, is_float
from irscope.codegen.llvm.builder import VectorBuilder
from irscope.codegen.llvm.math_functions import DOUBLE, SINGLE, Maths
from irscope.errors import CodegenError
from irscope.ops.expr import POSITIONS, PRIMITIVES

REGISTER: Final = {
    "float32": "float", "float64": "double", "float16": "float", "bfloat16": "float", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "i8", "bool": "i1",
}  # fmt: skip
"""The LLVM type that each element type is computed in."""

MEMORY: Final = {**REGISTER, "float16": "i16", "bfloat16": "i16", "bool": "i8"}
"""The LLVM type that each element type is loaded and stored as."""

_ROUNDINGS: Final = {"floor": "llvm.floor", "ceil": "llvm.ceil", "trunc": "llvm.trunc", "round": "llvm.roundeven"}
_ORDERED: Final = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_FLOAT_BINARY: Final = {"add": "fadd contract", "sub": "fsub contract", "mul": "fmul contract", "div": "fdiv"}


def element(
    lanes: VectorBuilder, code: Instruction, args: list[str], arg_types: list[str], *, native_half: bool, exact: bool = False
) -> str:
    """Emit an instruction and return the name of its result; `args` are the names of its operands, `arg_types` their element types.
    In an `exact` kernel a product and a sum round separately.

    Raises CodegenError for an op or type that has no rule.
    """
    dtype = code.dtype
    if code.op == "const":
        return lanes.constant(REGISTER[dtype], code.number)
    if code.op == "cast":
        return _cast(lanes, args[0], arg_types[0], dtype, native_half)
    if code.op == "where":
        return lanes.select(REGISTER[dtype], *args)
    if code.op in _ORDERED or code.op == "isnan":
        return _comparison(lanes, code.op, args, arg_types[0])
    if exact and is_float(dtype) and code.op in _FLOAT_BINARY:
        alone = lanes.op(_FLOAT_BINARY[code.op].removesuffix(" contract"), REGISTER[dtype], *args)
        return _rounded(lanes, alone, dtype, native_half)
    rule = _float_op if is_float(dtype) else _integer_op
    result = rule(lanes, code.op, args, dtype)
    if result is None:
        raise CodegenError(f"no LLVM text for {code.op} on {dtype}", rule="codegen-op")
    return _rounded(lanes, result, dtype, native_half)


def _float_op(lanes: VectorBuilder, op: str, args: list[str], dtype: str) -> str | None:
    scalar = REGISTER[dtype]
    maths = Maths(lanes, DOUBLE if scalar == "double" else SINGLE)
    if op in _FLOAT_BINARY:
        return lanes.op(_FLOAT_BINARY[op], scalar, *args)
    if op in _ROUNDINGS:
        return lanes.call(_ROUNDINGS[op], scalar, args[0])
    function: Callable[..., str] | None = getattr(maths, op, None) if op in PRIMITIVES else None
    if function is not None:
        return function(*args)
    match op, args:
        case "neg", [a]:
            return lanes.op("fneg", scalar, a)
        case "fma", [a, b, c]:
            return maths.fma(a, b, c)
        case "reciprocal", [a]:
            return maths.div(maths.number(1.0), a)
        case "sign", [a]:
            positive, negative = maths.less(maths.number(0.0), a), maths.less(a, maths.number(0.0))
            return maths.pick(positive, maths.number(1.0), maths.pick(negative, maths.number(-1.0), maths.number(0.0)))
        case (("minimum" | "maximum"), [a, b]):
            first = maths.less(a, b) if op == "minimum" else maths.less(b, a)
            return maths.pick(lanes.compare("uno", scalar, a, a), a, maths.pick(first, a, b))
        case (("sin" | "cos" | "tan"), [a]):
            return maths.angle(op, a)
        case "pow", [a, b]:
            return maths.power(a, b)
    return None


def _integer_op(lanes: VectorBuilder, op: str, args: list[str], dtype: str) -> str | None:
    scalar = REGISTER[dtype]
    sign = "u" if dtype in ("uint8", "bool") else "s"
    zero = lanes.constant(scalar, 0)
    match op, args:
        case (("add" | "sub" | "mul" | "and" | "or" | "xor"), [a, b]):
            return lanes.op(op, scalar, a, b)
        case (("shl" | "shr"), [a, b]):
            return _shift(lanes, op, a, b, dtype)
        case "not", [a]:
            return lanes.op("xor", scalar, a, lanes.constant(scalar, 1 if dtype == "bool" else -1))
        case "neg", [a]:
            return lanes.op("sub", scalar, zero, a)
        case "abs", [a]:
            if sign == "u":
                return a
            return lanes.select(scalar, lanes.compare("slt", scalar, a, zero), lanes.op("sub", scalar, zero, a), a)
        case (("minimum" | "maximum"), [a, b]):
            relation = "lt" if op == "minimum" else "gt"
            return lanes.select(scalar, lanes.compare(sign + relation, scalar, a, b), a, b)
        case "sign", [a]:
            one = lanes.constant(scalar, 1)
            positive = lanes.select(scalar, lanes.compare(f"{sign}gt", scalar, a, zero), one, zero)
            if sign == "u":
                return positive
            return lanes.select(scalar, lanes.compare("slt", scalar, a, zero), lanes.constant(scalar, -1), positive)
        case (("div" | "floordiv" | "fmod" | "remainder"), [a, b]):
            return _integer_division(lanes, op, a, b, scalar, sign)
        case (("floor" | "ceil" | "trunc" | "round"), [a]):
            return a
    return None


def _shift(lanes: VectorBuilder, op: str, a: str, b: str, dtype: str) -> str:
    """Emit a shift; LLVM's own has no value for a distance of the width or more, and a negative one counts as such."""
    scalar, is_signed = REGISTER[dtype], dtype != "uint8"
    fits = lanes.compare("ult", scalar, b, lanes.constant(scalar, 8 * ITEM_SIZE[dtype]))
    if op == "shr" and is_signed:
        return lanes.op("ashr", scalar, a, lanes.select(scalar, fits, b, lanes.constant(scalar, 8 * ITEM_SIZE[dtype] - 1)))
    return lanes.select(scalar, fits, lanes.op("shl" if op == "shl" else "lshr", scalar, a, b), lanes.constant(scalar, 0))


def _integer_division(lanes: VectorBuilder, op: str, a: str, b: str, scalar: str, sign: str) -> str:
    """Emit a quotient that is truncated or rounded down, or a remainder with the sign of a or of b.

    The processor traps on a divisor of 0 and on the smallest number divided by -1; here the results are 0 and wrap around.
    """
    zero, one, minus = lanes.constant(scalar, 0), lanes.constant(scalar, 1), lanes.constant(scalar, -1)
    none = lanes.compare("eq", scalar, b, zero)
    flips = lanes.compare("eq", scalar, b, minus) if sign == "s" else lanes.constant("i1", 0)
    safe = lanes.select(scalar, lanes.op("or", "i1", none, flips), one, b)
    quotient = lanes.op(f"{sign}div", scalar, a, safe)
    if sign == "s":
        quotient = lanes.select(scalar, flips, lanes.op("sub", scalar, zero, a), quotient)
    quotient = lanes.select(scalar, none, zero, quotient)
    rest = lanes.op("sub", scalar, a, lanes.op("mul", scalar, quotient, b))
    if sign == "s" and op in ("floordiv", "remainder"):
        inexact = lanes.op("and", "i1", lanes.compare("ne", scalar, rest, zero), lanes.compare("ne", scalar, b, zero))
        differ = lanes.compare("slt", scalar, lanes.op("xor", scalar, rest, b), zero)
        down = lanes.op("and", "i1", inexact, differ)
        quotient = lanes.op("sub", scalar, quotient, lanes.select(scalar, down, one, zero))
        rest = lanes.op("add", scalar, rest, lanes.select(scalar, down, b, zero))
    return quotient if op in ("div", "floordiv") else lanes.select(scalar, none, zero, rest)


def _comparison(lanes: VectorBuilder, op: str, args: list[str], dtype: str) -> str:
    scalar = REGISTER[dtype]
    if op == "isnan":
        return lanes.compare("uno", scalar, args[0], args[0]) if is_float(dtype) else lanes.constant("i1", 0)
    if is_float(dtype):
        return lanes.compare(_ORDERED[op], scalar, *args)
    sign = "" if op in ("eq", "ne") else "u" if dtype in ("uint8", "bool") else "s"
    return lanes.compare(sign + op, scalar, *args)


def _cast(lanes: VectorBuilder, a: str, source: str, target: str, native_half: bool) -> str:
    here, there = REGISTER[source], REGISTER[target]
    if target == "bool":
        predicate = "une" if is_float(source) else "ne"
        return a if here == "i1" else lanes.compare(predicate, here, a, lanes.constant(here, 0))
    if is_float(source) and is_float(target):
        if here != there:
            a = lanes.convert("fpext" if there == "double" else "fptrunc", here, there, a)
        return a if ITEM_SIZE[source] == 2 and source == target else _rounded(lanes, a, target, native_half)
    if is_float(target):
        a = lanes.convert("uitofp" if source in ("bool", "uint8") else "sitofp", here, there, a)
        return _rounded(lanes, a, target, native_half)
    if is_float(source):
        wide = "i64" if there == "i64" else "i32"
        a = lanes.saturate(here, wide, a)
        return a if wide == there else lanes.convert("trunc", wide, there, a)
    if ITEM_SIZE[source] == ITEM_SIZE[target] and here != "i1":
        return a
    if here == "i1" or ITEM_SIZE[source] < ITEM_SIZE[target]:
        return lanes.convert("zext" if source in ("bool", "uint8") else "sext", here, there, a)
    return lanes.convert("trunc", here, there, a)


def _rounded(lanes: VectorBuilder, a: str, dtype: str, native_half: bool) -> str:
    """Round a register value to a half type and back; leave every other type unchanged."""
    if dtype not in ("float16", "bfloat16"):
        return a
    return from_memory(lanes, to_memory(lanes, a, dtype, native_half=native_half), dtype, native_half=native_half)


def from_memory(lanes: VectorBuilder, a: str, dtype: str, *, native_half: bool) -> str:
    """Convert a value loaded as `MEMORY[dtype]` to its register value."""
    if dtype == "bool":
        return lanes.compare("ne", "i8", a, lanes.constant("i8", 0))
    if dtype == "bfloat16":
        wide = lanes.convert("zext", "i16", "i32", a)
        return lanes.convert("bitcast", "i32", "float", lanes.op("shl", "i32", wide, lanes.constant("i32", 16)))
    if dtype == "float16":
        if native_half:
            return lanes.convert("fpext", "half", "float", lanes.convert("bitcast", "i16", "half", a))
        return _half_to_single(lanes, a)
    return a


def to_memory(lanes: VectorBuilder, a: str, dtype: str, *, native_half: bool) -> str:
    """Convert a register value to `MEMORY[dtype]`, rounded to nearest, ties to even."""
    if dtype == "bool":
        return lanes.convert("zext", "i1", "i8", a)
    if dtype == "bfloat16":
        number = partial(lanes.constant, "i32")
        bits = lanes.convert("bitcast", "float", "i32", a)
        odd = lanes.op("and", "i32", lanes.op("lshr", "i32", bits, number(16)), number(1))
        up = lanes.op("add", "i32", lanes.op("add", "i32", bits, odd), number(0x7FFF))
        word = lanes.op("lshr", "i32", up, number(16))
        word = lanes.select("i32", lanes.compare("uno", "float", a, a), number(0x7FC0), word)
        return lanes.convert("trunc", "i32", "i16", word)
    if dtype == "float16":
        if native_half:
            return lanes.convert("bitcast", "half", "i16", lanes.convert("fptrunc", "float", "half", a))
        return _single_to_half(lanes, a)
    return a


def _half_to_single(lanes: VectorBuilder, a: str) -> str:
    """Convert by a multiplication by 2^112, which also normalizes denormals."""
    number = partial(lanes.constant, "i32")
    word = lanes.convert("zext", "i16", "i32", a)
    magnitude = lanes.op("shl", "i32", lanes.op("and", "i32", word, number(0x7FFF)), number(13))
    moved = lanes.op("fmul", "float", lanes.convert("bitcast", "i32", "float", magnitude), lanes.constant("float", 2.0**112))
    bits = lanes.convert("bitcast", "float", "i32", moved)
    special = lanes.compare("uge", "i32", magnitude, number(0x0F800000))
    bits = lanes.select("i32", special, lanes.op("or", "i32", magnitude, number(0x7F800000)), bits)
    sign = lanes.op("shl", "i32", lanes.op("and", "i32", word, number(0x8000)), number(16))
    return lanes.convert("bitcast", "i32", "float", lanes.op("or", "i32", bits, sign))


def _single_to_half(lanes: VectorBuilder, a: str) -> str:
    """Round normal results by adding half a unit to the bits, denormal ones by adding 0.5, whose last place is theirs."""
    number = partial(lanes.constant, "i32")
    bits = lanes.convert("bitcast", "float", "i32", a)
    magnitude = lanes.op("and", "i32", bits, number(0x7FFFFFFF))
    sign = lanes.op("and", "i32", lanes.op("lshr", "i32", bits, number(16)), number(0x8000))
    odd = lanes.op("and", "i32", lanes.op("lshr", "i32", magnitude, number(13)), number(1))
    shifted = lanes.op("add", "i32", lanes.op("add", "i32", magnitude, number(-0x38000000 + 0xFFF)), odd)
    normal = lanes.op("lshr", "i32", shifted, number(13))
    small = lanes.op("fadd", "float", lanes.convert("bitcast", "i32", "float", magnitude), lanes.constant("float", 0.5))
    denormal = lanes.op("sub", "i32", lanes.convert("bitcast", "float", "i32", small), number(0x3F000000))
    word = lanes.select("i32", lanes.compare("ult", "i32", magnitude, number(0x38800000)), denormal, normal)
    word = lanes.select("i32", lanes.compare("uge", "i32", magnitude, number(0x47800000)), number(0x7C00), word)
    word = lanes.select("i32", lanes.compare("ugt", "i32", magnitude, number(0x7F800000)), number(0x7E00), word)
    return lanes.convert("trunc", "i32", "i16", lanes.op("or", "i32", word, sign))


# The accumulators of a reduction in LLVM text, and how they are combined: lane by lane, and at the end across the lanes.


def kinds(spec: KernelSpec, index: int) -> tuple[str, ...]:
    """Return the LLVM types of a reduction's accumulators, in one lane."""
    return tuple(REGISTER[dtype] for dtype, _ in accumulators(spec, index))


def first_values(spec: KernelSpec, index: int, lanes: VectorBuilder) -> tuple[str, ...]:
    """Return the initial values of a reduction's accumulators."""
    return tuple(lanes.constant(REGISTER[dtype], value) for dtype, value in accumulators(spec, index))


def taken_in(
    spec: KernelSpec, index: int, lanes: VectorBuilder, held: Sequence[str], more: Sequence[str], mask: str | None = None
) -> list[str]:
    """Emit the accumulation of further values and return the new accumulators; with a mask, only its lanes accumulate."""
    op, dtype = spec.instructions[index].op, accumulated_dtype(spec, index)
    if op in POSITIONS:
        better = _better(lanes, op[10:], dtype, held, more)
        chosen = [lanes.select(kind, better, b, a) for kind, a, b in zip(kinds(spec, index), held, more, strict=True)]
    else:
        chosen = [_joined(lanes, op, dtype, held[0], more[0])]
    if mask is None:
        return chosen
    return [lanes.select(kind, mask, b, a) for kind, a, b in zip(kinds(spec, index), held, chosen, strict=True)]


def _joined(lanes: VectorBuilder, op: str, dtype: str, held: str, more: str) -> str:
    """Emit two accumulators combined. The NaN test of a new extreme does not depend on the old one, and a NaN stays."""
    scalar, word = REGISTER[dtype], op.removeprefix("reduce_")
    if not is_float(dtype):
        name = {"sum": "add", "prod": "mul", "any": "or", "all": "and", "max": "maximum", "min": "minimum"}[word]
        made = _integer_op(lanes, name, [more, held] if word in ("max", "min") else [held, more], dtype)
        assert made is not None
        return made
    if word in ("sum", "prod"):
        return lanes.op("fadd" if word == "sum" else "fmul", scalar, held, more)
    best = lanes.select(scalar, lanes.compare("ogt" if word == "max" else "olt", scalar, more, held), more, held)
    return lanes.select(scalar, lanes.compare("uno", scalar, more, more), more, best)


def _better(lanes: VectorBuilder, word: str, dtype: str, held: Sequence[str], more: Sequence[str]) -> str:
    scalar, relation = REGISTER[dtype], "gt" if word == "max" else "lt"
    before = lanes.compare("slt", "i64", more[1], held[1])
    if not is_float(dtype):
        sign = "u" if dtype in ("uint8", "bool") else "s"
        beats, ties = (lanes.compare(sign + relation, scalar, more[0], held[0]), lanes.compare("eq", scalar, more[0], held[0]))
        return lanes.op("or", "i1", beats, lanes.op("and", "i1", ties, before))
    new, old = lanes.compare("uno", scalar, more[0], more[0]), lanes.compare("uno", scalar, held[0], held[0])
    beats = lanes.compare("o" + relation, scalar, more[0], held[0])
    first = lanes.op("and", "i1", new, lanes.op("xor", "i1", old, lanes.constant("i1", 1)))
    ties = lanes.op("or", "i1", lanes.compare("oeq", scalar, more[0], held[0]), lanes.op("and", "i1", new, old))
    return lanes.op("or", "i1", lanes.op("or", "i1", beats, first), lanes.op("and", "i1", ties, before))


def across_lanes(spec: KernelSpec, index: int, lanes: VectorBuilder, held: Sequence[str]) -> str:
    """Emit the reduction across all lanes, halving them; for argmax and argmin, return the index."""
    own, width, values = kinds(spec, index), lanes.width, list(held)
    while width > 1:
        width //= 2
        half = VectorBuilder(lanes.body, width)
        low = [_half(lanes, 2 * width, kind, value, 0) for kind, value in zip(own, values, strict=True)]
        high = [_half(lanes, 2 * width, kind, value, width) for kind, value in zip(own, values, strict=True)]
        values = taken_in(spec, index, half, low, high)
    return values[-1]


def _half(lanes: VectorBuilder, width: int, kind: str, value: str, start: int) -> str:
    if width == 2:
        return lanes.body.value(f"extractelement <2 x {kind}> {value}, i64 {start}")
    return lanes.body.shuffled(f"<{width} x {kind}>", value, "poison", range(start, start + width // 2))
