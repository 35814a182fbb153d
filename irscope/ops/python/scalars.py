"""Arithmetic, comparisons and conversions of Python numbers, bools and strings.

TorchScript has an overload for each pair of operand types; one function does the same for all of them. The type
rule computes the value where the operands are known.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from irscope.ir import ANY, NONE, NUMBER, OptionalType, PrimitiveType, UnionType
from irscope.ops.python.numbers import (
    divided,
    floor_divided,
    modulo,
    of_64_bits,
    power,
    real_function,
    shifted,
    whole,
    wrapped,
)
from irscope.ops.python.result_size import RESULT_SIZES, too_much
from irscope.ops.python.texts import ends_with, find, formatted, percent_formatted, shown, starts_with
from irscope.ops.schema import Op, define_positional
from irscope.ops.typing import Abstract, Unknown, is_known

__all__ = ["OPS", "evaluated"]


def evaluated(function: Callable[..., Any], size: Callable[..., int] | None = None) -> Callable[..., Abstract]:
    """Return a type rule that computes the value where every operand is known; otherwise its result is unknown, of the declared type.

    `size` returns the size that the result would have; a result that is too large is not computed.
    """

    def rule(*given: Abstract, **named: Abstract) -> Abstract:
        operands = (*given, *named.values())
        if not is_known(operands):
            return Unknown(ANY)
        try:
            because = too_much(size(*operands)) if size is not None else ""
            result = function(*operands) if not because else Unknown(ANY, because)
        except (ArithmeticError, ValueError, TypeError, LookupError, MemoryError) as error:
            return Unknown(ANY, f"it fails: {error}")
        return Unknown(ANY, "it leaves the 64 bits of an int") if _too_wide(result) else result

    return rule


def _too_wide(value: Any) -> bool:
    return type(value) is int and not -(2**63) <= value < 2**63


def _range_length(low: int, high: int, step: int) -> int:
    return len(range(low, high, step))


def _derive_index(index: int, start: int, step: int) -> int:
    return int(wrapped(start + index * step))


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
    return True if other.type == NONE else None if _is_variable(other) else False


def _is_variable(value: Unknown) -> bool:
    return isinstance(value.type, PrimitiveType) and value.type.name in ("t", "t1", "t2", "AnyType")


def _is_rule(*given: Abstract, **named: Abstract) -> Abstract:
    answer = _none_or_not(*given, *named.values())
    return Unknown(ANY) if answer is None else answer


def _isnot_rule(*given: Abstract, **named: Abstract) -> Abstract:
    answer = _none_or_not(*given, *named.values())
    return Unknown(ANY) if answer is None else not answer


def _equal(a: Any, b: Any) -> bool:
    return bool(a == b)


def _smallest(*operands: Any) -> Any:
    return _of_lists(min, operands)


def _largest(*operands: Any) -> Any:
    return _of_lists(max, operands)


def _of_lists(choose: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    if len(operands) == 2 and not isinstance(operands[0], list | tuple):
        float_result = any(isinstance(operand, float) for operand in operands)
        found = choose(*operands)
        return float(found) if float_result else found
    return choose(*operands)


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
    "aten::gcd": math.gcd,
    "aten::eq": _equal,
    "aten::ne": operator.ne,
    "aten::lt": operator.lt,
    "aten::le": operator.le,
    "aten::gt": operator.gt,
    "aten::ge": operator.ge,
    "aten::__and__": operator.and_,
    "aten::__or__": operator.or_,
    "aten::__xor__": operator.xor,
    "aten::__not__": operator.not_,
    "aten::__lshift__": shifted(operator.lshift),
    "aten::__rshift__": shifted(operator.rshift),
    "aten::Int": whole(int),
    "aten::Float": float,
    "aten::Bool": bool,
    "aten::Complex": complex,
    "aten::ceil": whole(math.ceil),
    "aten::floor": whole(math.floor),
    "aten::round": lambda a: float(round(a)),
    "prim::min": _smallest,
    "prim::max": _largest,
    "aten::copysign": math.copysign,
    "aten::factorial": math.factorial,
    "aten::isnan": math.isnan,
    "aten::isinf": math.isinf,
    "aten::isfinite": math.isfinite,
    "aten::__range_length": _range_length,
    "aten::__derive_index": _derive_index,
    "aten::str": shown,
    "aten::format": formatted,
    "aten::percentFormat": percent_formatted,
    "aten::upper": str.upper,
    "aten::lower": str.lower,
    "aten::startswith": starts_with,
    "aten::endswith": ends_with,
    "aten::join": lambda text, parts: text.join(parts),
    "aten::strip": lambda text, *chars: text.strip(*chars),
    "aten::replace": lambda text, *rest: text.replace(*rest),
    "aten::find": find,
    "aten::ord": ord,
    "aten::chr": chr,
    "aten::bin": bin,
    "aten::isdigit": str.isdigit,
    "aten::device": lambda kind, *index: ":".join(map(str, (kind, *index))),
}

_MATH: Final = (
    "sqrt",
    "log",
    "log10",
    "log1p",
    "exp",
    "expm1",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "atan2",
    "erf",
    "erfc",
    "gamma",
    "lgamma",
    "degrees",
    "radians",
)


def _is_none_op(name: str, rule: Callable[..., Any], function: Callable[..., Any]) -> Op:
    return define_positional(name, function, category="scalar", type_rule=rule, keep=lambda schema: True)


def _scalar(name: str, function: Callable[..., Any]) -> Op:
    return define_positional(name, function, category="scalar", type_rule=evaluated(function, RESULT_SIZES.get(name)))


OPS = (
    *(_scalar(name, function) for name, function in _FUNCTIONS.items()),
    *(_scalar(f"aten::{name}", real_function(name)) for name in _MATH),
    _is_none_op("aten::__is__", _is_rule, _is),
    _is_none_op("aten::__isnot__", _isnot_rule, lambda a, b: not _is(a, b)),
)
