"""Elementwise functions that NumPy and torch compute differently, made of ops that mean NumPy's.

NumPy's sign of NaN is NaN, and that of a complex number the number of size 1 in its direction; a reciprocal of integers is an
integer; an integer divided by zero is 0; a remainder of 0 has the sign of the divisor; an integer has no negative powers. NumPy
rounds a float64 to float16 once, torch to float32 first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from irscope.frontends.tracing.record import Traced, refused

__all__ = ["DIFFERENT", "complex_of", "half_of"]

Plain = Callable[..., Any]
"""Records torch's op of the function on operands of the types that NumPy's loop takes."""


def _sign(plain: Plain, operands: Sequence[Any], given: Sequence[Any]) -> Any:
    (x,) = operands
    if x.dtype.kind == "f":
        return np.where(np.isnan(x), x, plain(x))
    if x.dtype.kind != "c":
        return plain(x)
    direction = x.record.op("aten::sgn", x, dtype=x.dtype, shape=x.shape)
    real, imaginary = [np.sign(np.where(np.isinf(part), part, 0)) for part in (x.real, x.imag)]
    return np.where((real != 0) != (imaginary != 0), complex_of(real, imaginary), direction)


def complex_of(real: Any, imaginary: Any) -> Any:
    """Records the complex numbers of these parts, as they are: a sum would make NaN of an infinite one."""
    kind = np.result_type(real.dtype, np.complex64)
    return real.record.op("aten::complex", real, imaginary, dtype=kind, shape=real.shape)


def _reciprocal(plain: Plain, operands: Sequence[Any], given: Sequence[Any]) -> Any:
    """NumPy's result for an integer 0 depends on the processor; here it is 0."""
    (x,) = operands
    if x.dtype.kind == "c":
        return _complex_reciprocal(x.real, x.imag)
    if x.dtype.kind == "f":
        return plain(x)
    ones = (x == 1).astype(x.dtype)
    return ones if x.dtype.kind == "u" else ones - (x == -1).astype(x.dtype)


def _complex_reciprocal(real: Any, imaginary: Any) -> Any:
    """Divides by the larger part first, as NumPy does."""
    wide = abs(imaginary) <= abs(real)
    ratio = np.where(wide, imaginary / real, real / imaginary)
    scale = np.where(wide, real + imaginary * ratio, real * ratio + imaginary)
    return complex_of(np.where(wide, 1 / scale, ratio / scale), np.where(wide, -ratio, -1) / scale)


def _quotient(plain: Plain, operands: Sequence[Any], given: Sequence[Any]) -> Any:
    a, b = operands
    if _kind(operands) not in "iu" or _known(given[1], lambda divisor: divisor != 0):
        return plain(a, b)
    if not _is_array(b):
        return np.zeros_like(a)
    by_zero = b == 0
    return np.where(by_zero, 0, plain(a, np.where(by_zero, 1, b)))


def _remainder(plain: Plain, operands: Sequence[Any], given: Sequence[Any]) -> Any:
    b = operands[1]
    if _kind(operands) in "iu":
        return _quotient(plain, operands, given)
    rest = plain(*operands)
    if _is_array(b):
        return np.where(rest == 0, np.where(b < 0, b.dtype.type(-0.0), b.dtype.type(0.0)), rest)
    return rest + 0.0 if math.copysign(1, b) > 0 else np.where(rest == 0, -0.0, rest)


def _power(plain: Plain, operands: Sequence[Any], given: Sequence[Any]) -> Any:
    base, exponent = operands
    half = np.float16 if _is_array(base) and base.dtype == np.float16 else None
    if half is None and _kind(operands) == "f" and _known(given[1], lambda number: number == -0.5):
        return _c_power(plain, operands, given)
    signed = exponent.dtype.kind == "i" if _is_array(exponent) else True
    if _kind(operands) in "iu" and signed and not _known(given[1], lambda number: number >= 0):
        what = "integers have no negative integer powers"
        if not _is_array(given[1]):
            raise refused(what, "make the base a float, x.astype(float)", wrong_arguments=True)
        exponent.record.node("aten::_assert_async", (np.all(exponent >= 0), what), ())
    return plain(*operands)


def _c_power(plain: Plain, operands: Sequence[Any], given: Sequence[Any]) -> Any:
    """C's power of 0.5 and -0.5: torch takes a root, which differs from it at -0.0 and at -inf."""
    base, exponent = operands
    if _kind(operands) != "f" or not _is_array(base) or not _known(given[1], lambda number: np.abs(number) == 0.5):
        return plain(base, exponent)
    limit = np.where(np.asarray(given[1]) > 0, np.inf, 0).astype(base.dtype)
    return np.where(base == -np.inf, limit, plain(base + 0.0, exponent))


def half_of(x: Any) -> Any:
    """Returns the float16 nearest to each float64.

    torch rounds to float32 first, and so takes for half-way between two float16 what is only near it. There the float16 on the other
    side is right, if both roundings went to the same side. What is below 65520 must not become it, which would round to infinity.
    """
    x = np.where(np.abs(x) < 65520, np.clip(x, -65519, 65519), x * np.inf)
    single = x.astype(np.float32)
    half = single.astype(np.float16)
    rest = single - half.astype(np.float32)
    other = single + rest
    there = other.astype(np.float16)
    is_halfway = there.astype(np.float32) == other
    return np.where(is_halfway & ((x - single) * rest.astype(np.float64) > 0), there, half)


def _is_array(operand: Any) -> bool:
    return isinstance(operand, Traced)


def _kind(operands: Sequence[Any]) -> str:
    return str(next(operand.dtype.kind for operand in operands if _is_array(operand)))


def _known(given: Any, holds: Callable[[Any], Any]) -> bool:
    """Checks what holds for each element of an operand whose elements are known while the function is traced."""
    return not _is_array(given) and bool(np.all(holds(np.asarray(given))))


DIFFERENT: Final[Mapping[str, Callable[[Plain, Sequence[Any], Sequence[Any]], Any]]] = {
    "sign": _sign, "reciprocal": _reciprocal, "floor_divide": _quotient, "fmod": _quotient, "remainder": _remainder,
    "power": _power, "float_power": _c_power,
}  # fmt: skip
"""The functions by NumPy's names. Each takes torch's op, the operands in the types of NumPy's loop, and the operands as given."""
