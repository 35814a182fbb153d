"""Numbers, bools and strings as TorchScript computes with them: arithmetic as in C, bounded results, formats and searches."""

import cmath
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from irscope._base.words import plural
from irscope.ir import ANY, NONE, NUMBER, OptionalType, PrimitiveType, UnionType
from irscope.ops.op import Op, define_positional
from irscope.ops.type_rules import Abstract, Unknown, is_known

# Arithmetic on numbers as in TorchScript: that of C, where Python's would raise, grow or become complex.
#
# An undefined float result is NaN or infinite, as IEEE 754 defines; ints have 64 bits and wrap around. Operations that torch refuses
# (an int divided by zero, zero to a negative power, the conversion of a float too large for an int) raise. Tested against torch 2.13.

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
_NUMPY: Final = {"asin": "arcsin", "acos": "arccos", "acosh": "arccosh", "atanh": "arctanh"}
_FAILS: Final = (ValueError, OverflowError, ZeroDivisionError)


def of_64_bits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operator whose ints wrap around in 64 bits.

    >>> of_64_bits(lambda a, b: a * b)(2**62, 6), of_64_bits(lambda a, b: a * b)(0.5, 6)
    (-9223372036854775808, 3.0)
    """

    def run(*operands: Any) -> Any:
        return wrapped(function(*operands))

    return run


def wrapped(value: Any) -> Any:
    """Return an int wrapped to 64 bits; any other value unchanged."""
    if value.__class__ is not int or _LEAST <= value <= _MOST:
        return value
    return (value - _LEAST) % 2**64 + _LEAST


def whole(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a conversion to int that raises OverflowError if the result needs more than 64 bits."""

    def run(value: Any) -> Any:
        found = function(value)
        if wrapped(found) is not found:
            raise OverflowError(f"{value} does not fit into an int of 64 bits")
        return found

    return run


def shifted(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Return a shift by 0 to 63 bits; others are undefined in C++ and are refused."""

    def run(value: int, bits: int) -> int:
        if not 0 <= bits < 64:
            raise ValueError(f"a shift by {bits} bits is undefined")
        return int(wrapped(function(value, bits)))

    return run


def divided(a: Any, b: Any) -> Any:
    """Compute a division whose result is a float.

    >>> divided(1, 0), divided(-1.0, 0), divided(1, 2)
    (inf, -inf, 0.5)
    """
    try:
        return a / b
    except ZeroDivisionError:
        return a / b if isinstance(a, complex) or isinstance(b, complex) else _float("divide", a, b)


def floor_divided(a: Any, b: Any) -> Any:
    if isinstance(a, float) or isinstance(b, float):
        return _float("floor", _float("divide", a, b))
    return wrapped(a // b)


def modulo(a: Any, b: Any) -> Any:
    if isinstance(a, float) or isinstance(b, float):
        return _float("fmod", _float("fmod", a, b) + b, b)
    return a % b


def power(a: Any, b: Any) -> Any:
    """Compute TorchScript's `**`, a float for two ints; only traced code has `pow.int_to_int`, which is not."""
    if isinstance(a, complex) or isinstance(b, complex):
        return a**b
    if not a and b < 0:
        raise ZeroDivisionError("zero cannot be raised to a negative power")
    try:
        return math.pow(a, b)
    except _FAILS:
        return _float("power", a, b)


def real_function(name: str) -> Callable[..., Any]:
    """Return a function of Python's `math`, or of `cmath` for complex numbers, with C's result where Python raises.

    >>> real_function("log")(0.0), real_function("acos")(2.0), real_function("cosh")(-1000.0), real_function("gamma")(-0.0)
    (-inf, nan, inf, -inf)
    """
    real, complex_ = getattr(math, name), getattr(cmath, name, None)

    def function(*operands: Any) -> Any:
        if complex_ is not None and isinstance(operands[0], complex):
            return complex_(*operands)
        try:
            return real(*operands)
        except _FAILS:
            return _beyond(name, *map(float, operands))

    return function


def _beyond(name: str, *operands: float) -> float:
    if name == "lgamma":
        return math.inf
    if name == "gamma":
        pole = operands[0] == 0.0
        return math.copysign(math.inf, operands[0]) if pole or operands[0] > 0 else math.nan
    if name == "remainder":
        return math.nan
    if name == "log" and len(operands) == 2:
        return _float("divide", _float("log", operands[0]), _float("log", operands[1]))
    return _float(_NUMPY.get(name, name), *operands)


def _float(name: str, *operands: Any) -> float:
    with np.errstate(all="ignore"):
        return float(getattr(np, name)(*(np.float64(operand) for operand in operands)))


# Bounds the size of the result of an op on numbers, strings and lists, before it is computed.
#
# `"ab" * 100_000_000_000` is one line of a program that may never run; a compiler that folds it runs out of memory. Sizes
# are characters, elements, or bytes of an int, and are never underestimated.

MOST_AHEAD: Final = 1 << 16
"""The largest result that is computed before the program runs."""

_FACTORIAL: Final = 1000


def size_of(value: Any) -> int:
    """Return the characters of a string, the elements of a container at any depth, the bytes of an int; 1 for anything else.

    >>> size_of("abc"), size_of([1, ["ab"]]), size_of(2**80), size_of(0.5)
    (3, 5, 11, 1)
    """
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list | tuple):
        return len(value) + sum(size_of(item) for item in value if isinstance(item, str | list | tuple))
    return 1 if not isinstance(value, int) or isinstance(value, bool) else value.bit_length() // 8 + 1


def _sum(*operands: Any) -> int:
    return sum(map(size_of, operands))


def _product(a: Any, b: Any) -> int:
    """Return the size of a repeated string or list; for two numbers, the sum of their sizes."""
    for many, times in ((a, b), (b, a)):
        if isinstance(many, str | list | tuple):
            return size_of(many) * max(0, times) if isinstance(times, int) else size_of(many)
    return size_of(a) + size_of(b)


def _formatted(text: Any, *operands: Any) -> int:
    """Return a bound for formatted text: every number in the text, and every int operand, may be a width or a precision."""
    widths = [int(digits[:18]) for digits in re.findall(r"\d+", text)] if isinstance(text, str) else []
    given = [abs(operand) for operand in operands if isinstance(operand, int)] if "*" in str(text)[:MOST_AHEAD] else []
    fields = 1 + max(str(text).count("{"), str(text).count("%"))
    return _sum(text, *operands) * fields + 20 * len(operands) + sum(widths) + sum(given)


RESULT_SIZES: Final[Mapping[str, Callable[..., int]]] = {
    "aten::add": _sum,
    "aten::mul": _product,
    "aten::__lshift__": lambda a, bits: size_of(a) + (max(0, bits) // 8 if isinstance(bits, int) else 0),
    "aten::factorial": lambda a: MOST_AHEAD + 1 if isinstance(a, int) and a > _FACTORIAL else 1,
    "aten::format": _formatted,
    "aten::percentFormat": _formatted,
    "aten::join": lambda text, parts: size_of(parts) + size_of(text) * (len(parts) if isinstance(parts, list | tuple) else 1),
    "aten::replace": lambda text, old="", new="", *_: size_of(text) + (size_of(text) + 1) * size_of(new),
    "prim::rangelist": lambda n: max(0, n) if isinstance(n, int) else 1,
}
"""The size of an op's result, by op; the results of other ops are not larger than their operands."""


# Strings as TorchScript formats and searches them, which differs from Python in details.
#
# Only `{}` is a placeholder in a format text, so that it cannot access attributes of operands, as Python's `"{0.__class__}"` can.
# Floats have 17 digits, or end in a point; strings in lists have no quotes. The bounds of a search are those of C++. Tested
# against torch 2.13.


def shown(value: Any) -> str:
    """Return a value as TorchScript prints it.

    >>> shown(2.0), shown(0.1), shown([True, None]), shown((1, "a")), shown(("a",)), shown({"k": [1e300]})
    ('2.', '0.10000000000000001', '[True, None]', '(1, a)', '(a,)', '{k: [1.0000000000000001e+300]}')
    """
    if isinstance(value, float):
        is_plain = math.isfinite(value) and abs(value) < 2**63 and value.is_integer()
        return f"{int(value)}." if is_plain else f"{value:.17g}"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))}{',' * (len(value) == 1)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{shown(key)}: {shown(item)}' for key, item in value.items())}}}"
    return str(value)


def formatted(text: str, *operands: Any) -> str:
    """Return the text with each `{}` replaced by an operand; surplus operands are ignored.

    >>> formatted("{} of {:>5}", 1, 2)
    '1 of {:>5}'
    """
    parts = text.split("{}")
    if len(parts) - 1 > len(operands):
        raise ValueError(f"the text has {plural(len(parts) - 1, 'place')} and {plural(len(operands), 'operand')}")
    return "".join(part + told for part, told in zip(parts, [*map(shown, operands[: len(parts) - 1]), ""], strict=True))


def percent_formatted(text: str, *operands: Any) -> str:
    """Return the text with each `%d`, `%s` and so on replaced by an operand; a single tuple stands for its members.

    >>> percent_formatted("%d%% %s %f", (3, "of", 0.5))
    '3% of 0.500000'
    """
    given = iter(operands[0] if len(operands) == 1 and isinstance(operands[0], tuple) else operands)

    def told(found: re.Match[str]) -> str:
        if not found[1]:
            raise ValueError(f"the text {text!r} ends in %")
        return "%" if found[1] == "%" else _specified(found[1], given, text)

    made = re.sub("%(.?)", told, text, flags=re.DOTALL)
    if next(given, None) is not None:
        raise ValueError(f"the text {text!r} has fewer places than operands")
    return made


def _specified(kind: str, given: Iterator[Any], text: str) -> str:
    try:
        value = next(given)
    except StopIteration:
        raise ValueError(f"the text {text!r} has more places than operands") from None
    if kind in "di" and isinstance(value, int | float):
        return str(int(value))
    if kind in "eEfF" and isinstance(value, int | float):
        return f"%{kind}" % value
    if kind == "c" and isinstance(value, int):
        return chr(value)
    if kind == "s" or (kind == "c" and isinstance(value, str)):
        return shown(value)
    raise ValueError(f"%{kind} cannot format {shown(value)}")


def find(text: str, part: str, start: int = 0, end: int = -1) -> int:
    """Return the index of a part between two bounds; -1 if it is not found.

    >>> find("banana", "an", 2), find("banana", "an", 2, 4), find("banana", "an", -6, -1)
    (3, -1, 1)
    """
    start, end = _ends(text, start, end)
    found = text[start:end].find(part)
    return found if found < 0 else found + start


def _between(text: str, start: int, end: int) -> str:
    """Return the part between two bounds; an end before the start means no end."""
    start, end = _ends(text, start, end)
    return text[start:end] if end >= start else text[start:]


def _ends(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the bounds of a search; a negative bound counts from the end."""
    start = max(0, len(text) + start) if start < 0 else start
    if start > len(text):
        raise ValueError(f"the search starts at {start}, after the end of the text of {len(text)} characters")
    return start, max(0, len(text) + end + 1) if end < 0 else end


# Arithmetic, comparisons and conversions of Python numbers, bools and strings.
#
# TorchScript has an overload for each pair of operand types; one function does the same for all of them. The type
# rule computes the value where the operands are known.


def evaluated(function: Callable[..., Any], size: Callable[..., int] | None = None) -> Callable[..., Abstract]:
    """Return a type rule that computes the value where every operand is known; otherwise its result is unknown, of the declared type.

    `size` returns the size that the result would have; a result that is too large is not computed.
    """

    def rule(*given: Abstract, **named: Abstract) -> Abstract:
        operands = (*given, *named.values())
        if not is_known(operands):
            return Unknown(ANY)
        try:
            result = Unknown(ANY) if size is not None and size(*operands) > MOST_AHEAD else function(*operands)
        except (ArithmeticError, ValueError, TypeError, LookupError, MemoryError):
            return Unknown(ANY)
        return result if wrapped(result) is result else Unknown(ANY)

    return rule


def _is(a: Any, b: Any) -> bool:
    return a is b if a is None or b is None or not isinstance(a, bool | int | float | str) else a == b


def _none_or_not(a: Abstract, b: Abstract) -> bool | None:
    """Whether `a is b`; None where that is not known, for example when one is None and the other may be."""
    if a is not None and b is not None:
        return _is(a, b) if is_known(a) and is_known(b) else None
    other = b if a is None else a
    if not isinstance(other, Unknown):
        return other is None
    if isinstance(other.type, OptionalType | UnionType) or other.type in (ANY, NUMBER):
        return None
    is_variable = isinstance(other.type, PrimitiveType) and other.type.name in ("t", "t1", "t2", "AnyType")
    return True if other.type == NONE else None if is_variable else False


def _identity_rule(wanted: bool) -> Callable[..., Abstract]:
    def rule(*given: Abstract, **named: Abstract) -> Abstract:
        answer = _none_or_not(*given, *named.values())
        return Unknown(ANY) if answer is None else answer is wanted

    return rule


def _chosen(choose: Callable[..., Any]) -> Callable[..., Any]:
    """Return `min` or `max`, of two numbers a float if either is one, or of one or two lists."""

    def function(*operands: Any) -> Any:
        found = choose(*operands)
        is_float = len(operands) == 2 and not isinstance(operands[0], list | tuple) and any(isinstance(each, float) for each in operands)
        return float(found) if is_float else found

    return function


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "aten::add": of_64_bits(operator.add),
    "aten::sub": of_64_bits(operator.sub),
    "aten::mul": of_64_bits(operator.mul),
    "aten::div": divided,
    "aten::floordiv": floor_divided,
    "aten::remainder": modulo,
    "aten::fmod": real_function("fmod"),
    "aten::mathremainder": real_function("remainder"),
    "aten::pow": power,
    "aten::neg": of_64_bits(operator.neg),
    "aten::divmod": divmod,
    "prim::abs": of_64_bits(abs),
    "aten::eq": lambda a, b: bool(a == b),
    **{f"aten::{name}": getattr(operator, name) for name in "ne lt le gt ge __and__ __or__ __xor__ __not__".split()},
    "aten::__lshift__": shifted(operator.lshift),
    "aten::__rshift__": shifted(operator.rshift),
    "aten::Int": whole(int),
    "aten::Float": float,
    "aten::Bool": bool,
    "aten::Complex": complex,
    "aten::ceil": whole(math.ceil),
    "aten::floor": whole(math.floor),
    "aten::round": lambda a: float(round(a)),
    "prim::min": _chosen(min),
    "prim::max": _chosen(max),
    **{f"aten::{name}": getattr(math, name) for name in "gcd copysign factorial isnan isinf isfinite".split()},
    "aten::__range_length": lambda low, high, step: len(range(low, high, step)),
    "aten::__derive_index": of_64_bits(lambda index, start, step: start + index * step),
    "aten::str": shown,
    "aten::format": formatted,
    "aten::percentFormat": percent_formatted,
    **{f"aten::{name}": getattr(str, name) for name in ("upper", "lower", "isdigit")},
    "aten::startswith": lambda text, part, start=0, end=-1: _between(text, start, end).startswith(part),
    "aten::endswith": lambda text, part, start=0, end=-1: _between(text, start, end).endswith(part),
    "aten::join": lambda text, parts: text.join(parts),
    "aten::strip": lambda text, *chars: text.strip(*chars),
    "aten::replace": lambda text, *rest: text.replace(*rest),
    "aten::find": find,
    "aten::ord": ord,
    "aten::chr": chr,
    "aten::bin": bin,
    "aten::device": lambda kind, *index: ":".join(map(str, (kind, *index))),
}

_MATH: Final = """
    sqrt log log10 log1p exp expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 erf erfc gamma lgamma degrees radians
""".split()


def _scalar(name: str, function: Callable[..., Any]) -> Op:
    return define_positional(name, function, category="scalar", type_rule=evaluated(function, RESULT_SIZES.get(name)))


OPS = (
    *(_scalar(name, function) for name, function in _FUNCTIONS.items()),
    *(_scalar(f"aten::{name}", real_function(name)) for name in _MATH),
    *(
        define_positional(name, function, category="scalar", type_rule=_identity_rule(wanted), keep=lambda schema: True)
        for name, function, wanted in (("aten::__is__", _is, True), ("aten::__isnot__", lambda a, b: not _is(a, b), False))
    ),
)
