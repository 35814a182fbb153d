"""Rules of elementwise ops of StableHLO and CHLO, and how some differ from torch's op of the same name.

Integer division by zero returns -1, with the dividend as remainder, in XLA, and stops a torch program: if the divisor
is not a constant, it is guarded. A float beyond the range of the integer type becomes the largest or smallest integer,
and NaN 0, where torch leaves that to the machine: the conversion is guarded, unless a clamp before it bounds the float.
`sign` keeps NaN and the sign of zero. `round_nearest_afz` rounds halves away from zero, torch to even. Comparisons by
total order are torch's if the program has reduced a float to one zero and one NaN before, as JAX does.
"""

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from irscope.frontends.emit import CODES, MOST_CIRCLE
from irscope.frontends.mlir.importer import Emitter, Operation, dtype_of, producer
from irscope.frontends.mlir.types import attribute_of
from irscope.ir import INT, TensorData, TensorType, Value

FLOATS: Final = frozenset({"float16", "bfloat16", "float32", "float64"})
INTEGERS: Final = frozenset({f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)})
SIGNED: Final = frozenset(dtype for dtype in INTEGERS if dtype[0] != "u")
COMPLEX: Final = frozenset({"complex64", "complex128"})
_NUMBERS: Final = FLOATS | INTEGERS | COMPLEX
ELEMENTS: Final = _NUMBERS | {"bool"}
"""The element types that torch computes with, and pads."""
_BITS: Final = INTEGERS | {"bool"}

_Rule = Callable[[Operation], Value | None]
"""The rule of an op with one result."""


def simple(aten: str, accepted: frozenset[str], *rest: Any) -> _Rule:
    """Returns the rule of an op that is the same as one of torch's for these element types; `rest` are further arguments."""
    return partial(_simple, aten, accepted, rest)


def _simple(aten: str, accepted: frozenset[str], rest: tuple[Any, ...], op: Operation) -> Value | None:
    if any(dtype_of(value) not in accepted for value in op.operands):
        return None
    return op.e.op(aten, *op.operands, *rest, type=op.type)


def _quotient(accepted: frozenset[str], aten: str, rest: tuple[Any, ...], op: Operation) -> Value | None:
    """A quotient or remainder of integers, or of other numbers of these types, which torch divides in the same way."""
    if op.dtype in INTEGERS:
        return divided(op, aten, *rest)
    return op.e.op(aten, *op.operands, type=op.type) if op.dtype in accepted else None


def divided(op: Operation, aten: str, *rest: Any) -> Value:
    """Emits an integer quotient or remainder as in XLA: by 0 the result has all bits set, or is the dividend; the
    smallest number by -1 does not trap."""
    e, (a, b) = op.e, op.operands
    known, whole = e.known.get(b), splat(e, b)
    if known is not None and op.shape == () and whole not in (None, 0, -1) and not op.dtype.startswith("u"):
        return e.op(aten, a, whole, *rest, type=op.type)
    if known is not None and not np.any(known == 0) and not np.any(known == (-1 if known.dtype.kind == "i" else 0)):
        return e.op(aten, a, b, *rest, type=op.type)
    one = e.scalar(1, op.dtype)
    zero = e.op("eq", b, 0)
    if op.dtype.startswith("u"):
        safe = e.op("where", zero, one, b)
        made = e.op(aten, a, safe, *rest, type=op.type)
    else:
        minus = e.op("eq", b, -1)
        safe = e.op("where", e.op("bitwise_or", zero, minus), one, b)
        made = e.op(aten, a, safe, *rest, type=op.type)
        other = e.op("neg", a) if aten == "div" else e.op("mul", a, e.scalar(0, op.dtype))
        made = e.op("where", minus, other, made, type=op.type)
    all_bits = np.iinfo(op.dtype).max if op.dtype.startswith("u") else -1
    by_zero = e.scalar(all_bits, op.dtype) if aten == "div" else a
    return e.op("where", zero, by_zero, made, type=op.type)


def _abs(op: Operation) -> Value | None:
    (x,) = op.operands
    if dtype_of(x) not in COMPLEX:
        return op.e.op("abs", x, type=op.type) if op.dtype in FLOATS | INTEGERS else None
    return op.e.op("hypot", op.e.op("real", x), op.e.op("imag", x), type=op.type)


def _sign(op: Operation) -> Value | None:
    (x,) = op.operands
    if op.dtype in INTEGERS:
        return op.e.op("sign", x)
    if op.dtype not in FLOATS:
        return None
    nonzero = op.e.op("gt", op.e.op("abs", x), 0)
    return op.e.op("where", nonzero, op.e.op("sign", x), x, type=op.type)


def _round_away(op: Operation) -> Value | None:
    if op.dtype not in FLOATS:
        return None
    e, (x,) = op.e, op.operands
    whole = e.op("trunc", x)
    up = e.cast(e.op("ge", e.op("abs", e.op("sub", x, whole, 1)), 0.5), op.dtype)
    away = e.op("where", e.op("lt", x, 0), e.op("neg", up), up)
    rounded = e.op("add", whole, away, 1)
    return e.op("where", e.op("eq", x, whole), x, rounded, type=op.type)


def _cube_root(op: Operation) -> Value | None:
    if op.dtype not in FLOATS:
        return None
    e, (x,) = op.e, op.operands
    root = e.op("pow", e.op("abs", x), 1 / 3)
    signed = e.op("where", e.op("lt", x, 0), e.op("neg", root), root)
    return e.op("where", e.op("eq", x, 0), x, signed, type=op.type)


def _power(op: Operation) -> Value | None:
    if op.dtype in FLOATS:
        return op.e.op("pow", *op.operands, type=op.type)
    known = op.e.known.get(op.operands[1])
    if op.dtype not in INTEGERS or known is None or np.any(known < 0):
        return None  # torch raises for negative powers of integers
    return op.e.op("pow", *op.operands, type=op.type)


_DIRECTIONS: Final = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


def _compare(op: Operation) -> Value | None:
    word = op.text("comparison_direction").rpartition(" ")[2].rstrip(">")
    dtype = dtype_of(op.operands[0])
    if dtype not in ELEMENTS:
        return None
    if dtype in COMPLEX and word not in ("EQ", "NE"):
        return _compare_pairs(op, word, *op.operands)
    if "TOTALORDER" in op.text("compare_type") and dtype not in _BITS:
        return _compare_in_total_order(op, word)
    return op.e.op(_DIRECTIONS[word], *op.operands, type=op.type)


def _compare_pairs(op: Operation, word: str, a: Value, b: Value) -> Value:
    """Compares complex numbers by their real parts, and where these are equal by their imaginary parts."""
    e, kind = op.e, op.of((), "bool").type
    (x, u), (y, v) = ([e.op(name, side) for name in ("real", "imag")] for side in (a, b))
    first, second = e.op(_DIRECTIONS[word], x, y, type=kind), e.op(_DIRECTIONS[word], u, v, type=kind)
    return e.op("where", e.op("eq", x, y, type=kind), second, first, type=kind)


def _extreme(aten: str, word: str, op: Operation) -> Value | None:
    """A maximum or minimum; of complex numbers XLA compares the real parts only, StableHLO pairs."""
    if op.dtype not in COMPLEX:
        return _simple(aten, FLOATS | _BITS, (), op)
    return op.e.op("where", _compare_pairs(op, word, *op.operands), *op.operands, type=op.type)


def _compare_in_total_order(op: Operation, word: str) -> Value | None:
    """Compares floats with one zero and one NaN, which comes last, as JAX prepares them; other floats by their bits."""
    if not all(has_one_zero_and_nan(operand) for operand in op.handle.operands):
        return _compare_by_bits(op, word)
    e, (a, b) = op.e, op.operands
    if word in ("GT", "GE"):
        a, b, word = b, a, {"GT": "LT", "GE": "LE"}[word]
    plain = e.op(_DIRECTIONS[word], a, b)
    a_is_nan, b_is_nan = e.op("ne", a, a), e.op("ne", b, b)
    if word == "LE":
        return e.op("bitwise_or", plain, b_is_nan, type=op.type)
    if word == "LT":
        last = e.op("bitwise_and", e.op("bitwise_not", a_is_nan), b_is_nan)
        return e.op("bitwise_or", plain, last, type=op.type)
    both = e.op("bitwise_and", a_is_nan, b_is_nan)
    if word == "EQ":
        return e.op("bitwise_or", plain, both, type=op.type)
    return e.op("bitwise_and", plain, e.op("bitwise_not", both), type=op.type)


def _compare_by_bits(op: Operation, word: str) -> Value | None:
    """Compares any floats in total order: as integers, with all bits but the sign flipped for negative floats."""
    integers = _SAME_WIDTH.get(dtype_of(op.operands[0]))
    if integers is None:
        return None
    e, limits = op.e, np.iinfo(integers)
    keys = []
    for operand in op.operands:
        bits = e.op("view", operand, CODES[integers])
        signs = e.op("bitwise_and", e.op("__rshift__", bits, limits.bits - 1), int(limits.max))
        keys.append(e.op("bitwise_xor", bits, signs))
    return e.op(_DIRECTIONS[word], *keys, type=op.type)


_SAME_WIDTH: Final = {"float16": "int16", "float32": "int32", "float64": "int64"}
"""The integer type of a float's bits; torch cannot shift those of bfloat16."""


def _clamp(op: Operation) -> Value | None:
    low, x, high = op.operands
    if op.dtype not in FLOATS | INTEGERS:
        return None
    made = op.e.op("minimum", op.e.op("maximum", x, low), high, type=op.type)
    least, most = splat(op.e, low), splat(op.e, high)
    if least is not None and most is not None:
        op.e.bounds[made] = (float(min(least, most)), float(most))
    return made


def _convert(op: Operation) -> Value | None:
    source = dtype_of(op.operands[0])
    if source not in ELEMENTS or op.dtype not in ELEMENTS or (source in COMPLEX and op.dtype not in COMPLEX):
        return None
    if source in FLOATS and op.dtype in INTEGERS:
        return _whole(op)
    return op.e.cast(op.operands[0], op.dtype)


_DIGITS: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""The significand bits of each float type."""


def _whole(op: Operation) -> Value:
    """Converts a float to an integer: out of range it is the largest or smallest of the type; NaN becomes 0."""
    e, (x,), limits = op.e, op.operands, np.iinfo(op.dtype)
    known, (low, high) = e.known.get(x), e.bounds.get(x, (-np.inf, np.inf))
    if known is not None and known.size and known.dtype.kind == "f" and np.all(np.isfinite(known)):
        low, high = float(known.min()), float(known.max())
    else:
        x = e.op("nan_to_num", x, 0.0, float("inf"), float("-inf"))
    end = int(limits.max) + 1
    if (low, high) != (-np.inf, np.inf) and low >= limits.min and high < end:
        return e.cast(x, op.dtype)
    if (end - 1).bit_length() <= _DIGITS[dtype_of(x)]:
        return e.cast(e.op("clamp", x, float(limits.min), float(limits.max)), op.dtype)
    largest, smallest = (e.scalar(limit, op.dtype) for limit in (limits.max, limits.min))
    made = e.op("where", e.op("ge", x, float(end)), largest, e.cast(x, op.dtype))
    return e.op("where", e.op("lt", x, float(limits.min)), smallest, made)


_PRECISIONS: Final = {(8, 7): "bfloat16", (5, 10): "float16", (8, 23): "float32", (11, 52): "float64"}


def _reduce_precision(op: Operation) -> Value | None:
    # with fewer bits for the exponent it is no conversion there and back: it makes what is too small for a normal number 0, and
    # a conversion of float64 rounds to float32 first
    bits = {name: exponent for (exponent, _), name in _PRECISIONS.items()}
    exponent = op.number("exponent_bits")
    wanted = _PRECISIONS.get((exponent, op.number("mantissa_bits")))
    if wanted is None or op.dtype not in FLOATS or exponent < bits[op.dtype]:
        return None
    return op.e.cast(op.e.cast(op.operands[0], wanted), op.dtype)


def _digamma(op: Operation) -> Value | None:
    """Torch's digamma, but NaN at zero, as at all other poles."""
    if op.dtype not in FLOATS:
        return None
    e, (x,) = op.e, op.operands
    pole = e.scalar(float("nan"), op.dtype)
    return e.op("where", e.op("eq", x, 0), pole, e.op("digamma", x), type=op.type)


def _infinite(number: float) -> _Rule:
    return lambda op: op.e.op("eq", op.operands[0], number, type=op.type) if dtype_of(op.operands[0]) in FLOATS else None


def _functions(names: str, accepted: frozenset[str]) -> dict[str, _Rule]:
    """Returns rules of functions of one or two operands, from `mlir=aten` words."""
    pairs = (word.partition("=") for word in names.split())
    return {name: simple(aten or name.partition(".")[2], accepted) for name, _, aten in pairs}


_ELEMENTWISE: Final[Mapping[str, _Rule]] = {
    **_functions(
        "stablehlo.ceil stablehlo.floor stablehlo.round_nearest_even=round stablehlo.is_finite=isfinite stablehlo.atan2 "
        "stablehlo.logistic=sigmoid chlo.erf chlo.erfc chlo.erf_inv=erfinv chlo.lgamma chlo.is_inf=isinf "
        "chlo.acos chlo.acosh chlo.asin chlo.asinh chlo.atan chlo.atanh chlo.cosh chlo.sinh chlo.tan",
        FLOATS,
    ),
    **_functions(
        "stablehlo.cosine=cos stablehlo.sine=sin stablehlo.tan stablehlo.tanh stablehlo.exponential=exp "
        "stablehlo.exponential_minus_one=expm1 stablehlo.log stablehlo.log_plus_one=log1p stablehlo.rsqrt stablehlo.sqrt",
        FLOATS | COMPLEX,
    ),
    "stablehlo.abs": _abs,
    "stablehlo.negate": simple("neg", _NUMBERS),
    "stablehlo.sign": _sign,
    "stablehlo.cbrt": _cube_root,
    "stablehlo.round_nearest_afz": _round_away,
    "stablehlo.not": simple("bitwise_not", _BITS),
    "stablehlo.and": lambda op: counted(op) or _simple("bitwise_and", _BITS, (), op),
    "stablehlo.or": simple("bitwise_or", _BITS),
    "stablehlo.xor": simple("bitwise_xor", _BITS),
    "stablehlo.add": lambda op: counted(op) or (op.e.op("add", *op.operands, 1, type=op.type) if op.dtype in ELEMENTS else None),
    "stablehlo.subtract": lambda op: counted(op) or (op.e.op("sub", *op.operands, 1, type=op.type) if op.dtype in _NUMBERS else None),
    "stablehlo.multiply": simple("mul", ELEMENTS),
    "stablehlo.divide": partial(_quotient, _NUMBERS, "div", ("trunc",)),
    "stablehlo.remainder": lambda op: counted(op) or _quotient(FLOATS, "fmod", (), op),
    "stablehlo.power": _power,
    "stablehlo.maximum": partial(_extreme, "maximum", "GT"),
    "stablehlo.minimum": partial(_extreme, "minimum", "LT"),
    "stablehlo.compare": lambda op: counted(op) or _compare(op),
    "stablehlo.clamp": _clamp,
    "stablehlo.select": lambda op: (
        counted(op) or (op.e.op("where", *op.operands, type=op.type) if op.dtype in ELEMENTS else None)
    ),
    "stablehlo.convert": lambda op: counted(op) or _convert(op),
    "stablehlo.real": simple("real", COMPLEX),
    "stablehlo.imag": simple("imag", COMPLEX),
    "stablehlo.complex": simple("complex", frozenset({"float32", "float64"})),
    "chlo.next_after": simple("nextafter", frozenset({"float32", "float64"})),
    "stablehlo.reduce_precision": _reduce_precision,
    "chlo.digamma": _digamma,
    "chlo.square": lambda op: op.e.op("mul", op.operands[0], op.operands[0], type=op.type) if op.dtype in _NUMBERS else None,
    "chlo.is_pos_inf": _infinite(float("inf")),
    "chlo.is_neg_inf": _infinite(float("-inf")),
}  # fmt: skip
"""The rule of each op."""


def splat(e: Emitter, value: Value) -> float | int | bool | None:
    """Returns the one number that all elements of a value are known to have, else None."""
    known = e.known.get(value)
    if known is None or known.size == 0:
        return None
    first = known.reshape(-1)[0]
    return first.item() if np.all(known == first) else None


# Rules of shifts, and of the bits of numbers as numbers of another type.
#
# StableHLO shifts out all bits if the distance is the width or more; torch does the same.

_SHIFTED: Final = frozenset({"uint8", "int8", "int16", "int32", "int64"})
"""The element types that torch shifts."""


def _shift(aten: str, op: Operation) -> Value | None:
    """A shift. Of a type that torch does not shift, it is a product or a quotient with a power of two if the distance is constant,
    and computed in int64 otherwise."""
    if op.dtype not in INTEGERS:
        return None
    known, bits = op.e.known.get(op.operands[1]), np.iinfo(op.dtype).bits
    if op.dtype not in _SHIFTED and known is not None and known.size and np.all(known < bits):
        power = TensorData.of(np.left_shift(np.ones(known.shape, op.dtype), known.astype(op.dtype)))
        by = op.e.constant(power, TensorType(op.dtype, known.shape, None if known.shape else ()))
        return op.e.op("div", op.operands[0], by, "floor") if aten == "__rshift__" else op.e.op("mul", op.operands[0], by)
    if op.dtype in _SHIFTED or bits == 64:
        return op.e.op(aten, *op.operands, type=op.type)
    wide = op.e.op(aten, *(op.e.cast(value, "int64") for value in op.operands))
    return op.e.cast(op.e.op("bitwise_and", wide, (1 << bits) - 1), op.dtype)


def _bitcast(op: Operation) -> Value | None:
    """The same bits as elements of another type of the same width."""
    source = dtype_of(op.operands[0])
    plain = (FLOATS | INTEGERS) - {"bfloat16"}
    if not {source, op.dtype} <= plain or np.dtype(source).itemsize != np.dtype(op.dtype).itemsize:
        return None
    return op.e.op("view", op.operands[0], CODES[op.dtype], type=op.type)


def shift_right_logical(op: Operation) -> Value | None:
    """A shift that brings in zeros; a signed number is shifted by one first and then has no sign."""
    if op.dtype.startswith("u"):
        return _shift("__rshift__", op)
    if op.dtype not in _SHIFTED:
        return None
    e, (x, by) = op.e, op.operands
    half = e.op("bitwise_and", e.op("__rshift__", x, 1, type=op.type), int(np.iinfo(op.dtype).max))
    rest = e.op("__rshift__", half, e.op("sub", by, 1, 1), type=op.type)
    return e.op("where", e.op("eq", by, 0, type=op.type.with_(dtype="bool")), x, rest, type=op.type)


_BROADCASTING: Final = (
    "add", "and", "atan2", "compare", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder", "select",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor",
)  # fmt: skip


def _broadcasting(rule: _Rule, op: Operation) -> Value | None:
    """Restricts a rule to operands that broadcast as in NumPy."""
    return rule(op) if op.is_static and not op.text("broadcast_dimensions") else None


_OWN: Final[Mapping[str, _Rule]] = {
    "stablehlo.shift_left": partial(_shift, "__lshift__"),
    "stablehlo.shift_right_arithmetic": lambda op: _shift("__rshift__", op) if op.dtype[:1] != "u" else None,
    "stablehlo.shift_right_logical": shift_right_logical,
    "stablehlo.bitcast_convert": _bitcast,
}
RULES: Final[Mapping[str, _Rule]] = {
    **_ELEMENTWISE,
    **_OWN,
    **{f"chlo.broadcast_{name}": partial(_broadcasting, {**_ELEMENTWISE, **_OWN}[f"stablehlo.{name}"]) for name in _BROADCASTING},
}
"""The rule of each op."""


# Recognises the small region of a reduction, sort or scatter as an expression.
#
# Nothing is guessed: the region is written out as one text over its parameters (`add(a0,a1)`), and only texts that are
# known to correspond to an op of torch are accepted.

_MAX_OPS: Final = 64
_MAX_TEXT: Final = 4096

KINDS: Final = {
    "add": "add", "multiply": "mul", "maximum": "max", "minimum": "min", "and": "and", "or": "or",
    "arith.addf": "add", "arith.addi": "add", "arith.mulf": "mul", "arith.muli": "mul", "arith.maximumf": "max", "arith.maxsi": "max",
    "arith.minimumf": "min", "arith.minsi": "min", "arith.andi": "and", "arith.ori": "or",
}  # fmt: skip


def expressions(region: Any) -> list[str] | None:
    """Returns the results of a region of one block as texts; None if it is too large or has nested regions.

    Constants are written with their elements, so that nothing is omitted, those from outside of the region, too; conversions
    and types of scalars are implied by the operands' types, which the ops determine.
    """
    blocks = list(region.blocks)
    if len(blocks) != 1 or len(blocks[0].operations) > _MAX_OPS:
        return None
    text: dict[Any, str] = {argument: f"a{i}" for i, argument in enumerate(blocks[0].arguments)}
    operations = [op.operation for op in blocks[0].operations]
    for op in operations[:-1]:
        for operand in op.operands:
            outer = producer(operand, "arith.constant") if operand not in text else None
            if outer is not None:
                text[operand] = f"arith.constant{_word('value', attribute_of(outer, 'value'))}()"
        if len(op.regions) or any(operand not in text for operand in op.operands):
            return None
        inside = ",".join(text[operand] for operand in op.operands)
        words = [_word(name, attribute_of(op, name)) for name in sorted(getattr(a, "name", a) for a in op.attributes)]
        head = f"{op.name.removeprefix('stablehlo.')}{''.join(words)}"
        for number, result in enumerate(op.results):
            text[result] = f"{head}({inside})" + (f"#{number}" if number else "")
            if len(text[result]) > _MAX_TEXT:
                return None
    end = operations[-1]
    if any(operand not in text for operand in end.operands):
        return None
    return [text[operand] for operand in end.operands]


def _word(name: str, attribute: Any) -> str:
    if name == "comparison_direction":
        return "." + str(attribute).rpartition(" ")[2].rstrip(">")
    if name == "compare_type":
        kind = str(attribute).rpartition(" ")[2].rstrip(">")
        return ".TOTALORDER" if kind == "TOTALORDER" else ""
    if name in ("fastmath", "overflowFlags"):  # which say what may be assumed
        return ""
    return f"[{name}={attribute}]"


def reducer(region: Any) -> str | None:
    """Returns `add`, `mul`, `max`, `min`, `and` or `or` if the region combines its two parameters this way, else None."""
    texts = expressions(region)
    if texts is None or len(texts) != 1:
        return None
    name, _, operands = texts[0].partition("(")
    return KINDS.get(name) if operands in ("a0,a1)", "a1,a0)") else None


def keeps_new(region: Any) -> bool:
    """Checks whether the region of a scatter returns the update, whatever the old element is."""
    return expressions(region) == ["a1"]


def selects_largest(region: Any) -> str | None:
    """Returns `argmax` or `argmin` if the region selects one of two (value, index) pairs that way, else None. NaN must
    come before all other values, and of equal values the one with the smaller index."""
    texts = expressions(region)
    for name, sign in (("argmax", "GT"), ("argmin", "LT")):
        wins = f"or(compare.{sign}(a0,a2),compare.NE(a0,a0))"
        pick = f"or({wins},and(compare.EQ(a0,a2),compare.LT(a1,a3)))"
        if texts == [f"select({wins},a0,a2)", f"select({pick},a1,a3)"]:
            return name
    return None


def is_lexicographic(region: Any) -> tuple[int, bool] | None:
    """Returns by how many keys a sort compares, and whether the largest comes first; None if it is not certain.

    Floats must be compared as JAX does, with one zero and one NaN, which is the largest: that is torch's order, too.
    """
    texts = expressions(region)
    if texts is None or len(texts) != 1:
        return None
    arguments = list(region.blocks[0].arguments)
    for keys in range(1, len(arguments) // 2 + 1):
        types = [str(argument.type) for argument in arguments[: 2 * keys : 2]]
        for sign, largest_first in (("LT", False), ("GT", True)):
            if texts[0] == _order(types, sign):
                return keys, largest_first
    return None


def _order(types: list[str], sign: str) -> str:
    """Returns the text of a lexicographic comparison of keys of these types."""
    made = ""
    for key, type in reversed(list(enumerate(types))):
        a, b, order = f"a{2 * key}", f"a{2 * key + 1}", ""
        if "f" in type.rpartition("<")[2]:
            a, b, order = _one_zero_and_nan(a, type), _one_zero_and_nan(b, type), ".TOTALORDER"
        less = f"compare{order}.{sign}({a},{b})"
        made = f"or({less},and(compare{order}.EQ({a},{b}),{made}))" if made else less
    return made


def _one_zero_and_nan(argument: str, type: str) -> str:
    element = type.removeprefix("tensor<").removesuffix(">")
    zero = f"constant[value=dense<0.000000e+00> : tensor<{element}>]()"
    nan = f"constant[value=dense<{NANS.get(element, '?')}> : tensor<{element}>]()"
    plain = f"select(compare.EQ({argument},{zero}),{zero},{argument})"
    return f"select(compare.NE({argument},{argument}),{nan},{plain})"


def has_one_zero_and_nan(value: Any) -> bool:
    """Checks whether a value is produced by JAX's selects that leave one zero and one NaN of a float."""
    outer = producer(value, "stablehlo.select")
    if outer is None:
        return False
    is_nan, nan, rest = outer.operands
    inner = producer(rest, "stablehlo.select")
    if inner is None or not _is_constant(nan, tuple(NANS.values())):
        return False
    is_zero, zero, x = inner.operands
    return (
        _is_constant(zero, ("0.000000e+00",))
        and _compares(is_nan, "NE", x, lambda other: other == x)
        and _compares(is_zero, "EQ", x, lambda other: _is_constant(other, ("0.000000e+00",)))
    )


def _is_constant(value: Any, words: tuple[str, ...]) -> bool:
    spread = producer(value, "stablehlo.broadcast_in_dim")
    made = producer(spread.operands[0] if spread is not None else value, "stablehlo.constant")
    return made is not None and str(made.attributes["value"]).startswith(tuple(f"dense<{word}>" for word in words))


def _compares(value: Any, sign: str, x: Any, is_other: Callable[[Any], bool]) -> bool:
    made = producer(value, "stablehlo.compare")
    if made is None or sign not in str(made.attributes["comparison_direction"]):
        return False
    left, right = made.operands
    return bool(left == x) and is_other(right)


NANS: Final = {"f32": "0x7FC00000", "f64": "0x7FF8000000000000", "f16": "0x7E00", "bf16": "0x7FC0"}


# Follows the counter of a loop through the arithmetic of indices: sums with constants, and JAX's test for a negative index.


def counted(op: Operation) -> Value | None:
    """Returns the result of an op on a loop's counter as one more number of the loop, or as the constant that the counter's bounds
    decide, or constants; None where none of the operands is one, or the result is another."""
    e = op.e
    if not op.is_static or op.shape != ():
        return None
    known = {value: array.item() for value in op.operands if (array := e.known.get(value)) is not None and array.dtype.kind in "iub"}
    if op.name == "stablehlo.select":
        return op.operands[1 if known[op.operands[0]] else 2] if op.operands[0] in known else None
    if op.name == "stablehlo.and":
        decided = next((value for value in op.operands if known.get(value) is False), None)
        others = [value for value in op.operands if known.get(value) is not True]
        return decided or (others[0] if len(others) == 1 else None)
    if op.name == "stablehlo.compare" and known.keys() >= set(op.operands):
        by = known[op.operands[0]] - known[op.operands[1]]
        return _decided(op, by, by)
    if not any(value in e.numbers for value in op.operands):
        return None
    if op.name == "stablehlo.convert":
        number, low, high = e.numbers[op.operands[0]]
        return _as_number(op, number, low, high)
    a, b = op.operands
    constant = e.known.get(b if a in e.numbers else a)
    if constant is None or constant.dtype.kind not in "iu":
        return None
    by = int(constant.item())
    number, low, high = e.numbers[a if a in e.numbers else b]
    if op.name == "stablehlo.compare":
        return _decided(op, low - by, high - by) if a in e.numbers else _decided(op, by - high, by - low)
    if op.name == "stablehlo.remainder":
        is_circle = a in e.numbers and low >= 0 and 0 < by <= MOST_CIRCLE
        return _as_number(op, e.op("remainder", number, by, type=INT), 0, min(by - 1, high)) if is_circle else None
    if op.name == "stablehlo.add":
        return _as_number(op, e.op("add", number, by, type=INT), low + by, high + by)
    if a in e.numbers:
        return _as_number(op, e.op("sub", number, by, type=INT), low - by, high - by)
    return _as_number(op, e.op("sub", by, number, type=INT), by - high, by - low)


def _as_number(op: Operation, number: Value, low: int, high: int) -> Value | None:
    """Returns a number of a loop as a tensor of the op's type; None if the type does not hold it."""
    if op.dtype not in INTEGERS or low < np.iinfo(op.dtype).min or high > np.iinfo(op.dtype).max:
        return None
    made = op.e.cast(op.e.op("prim::NumToTensor", number), op.dtype)
    op.e.numbers[made] = number, low, high
    return made


def _decided(op: Operation, low: int, high: int) -> Value | None:
    """Returns how a difference within these bounds compares with 0, if all of them do alike."""
    direction = op.text("comparison_direction")
    tests = {"LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge, "EQ": operator.eq, "NE": operator.ne}
    found = [test for name, test in tests.items() if name in direction]
    if len(found) != 1 or found[0](low, 0) != found[0](high, 0) or (found[0] in (operator.eq, operator.ne) and low <= 0 <= high != low):
        return None
    return op.e.scalar(found[0](low, 0), "bool")
