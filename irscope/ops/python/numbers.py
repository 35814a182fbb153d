"""Arithmetic on numbers as in TorchScript: that of C, where Python's would raise, grow or become complex.

An undefined float result is NaN or infinite, as IEEE 754 defines; ints have 64 bits and wrap around. Operations that torch refuses
(an int divided by zero, zero to a negative power, the conversion of a float too large for an int) raise. Tested against torch 2.13.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

__all__ = ["divided", "floor_divided", "modulo", "of_64_bits", "power", "real_function", "shifted", "whole", "wrapped"]

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
        if found.__class__ is int and not _LEAST <= found <= _MOST:
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
