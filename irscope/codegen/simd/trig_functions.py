"""Sine, cosine, tangent and power as vector code; `irscope.codegen.simd.math_functions` describes bounds and method.

Angles are reduced to a quarter turn with pi/2 in two or three parts (Cody and Waite), in double precision for both
formats. That is exact enough up to 2^19; larger arguments are rare, and go to the C library.
"""

from __future__ import annotations

from math import inf, nan
from typing import Final

from irscope.codegen.simd.math_functions import DOUBLE, SINGLE, Format, Maths
from irscope.codegen.simd.vector_builder import VectorBuilder

__all__ = ["angle_function", "power"]

_LARGE: Final = 524288.0
_TWO_OVER_PI: Final = 0.6366197723675814
_HALF_PI: Final = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)

_SIN: Final = {
    "float": (-0.1666666666381008, 0.008333331857164982, -0.0001984007727607258, 2.7248701708232046e-06),
    "double": (
        -0.16666666666666666, 0.008333333333333331, -0.00019841269841264968, 2.755731921926441e-06,
        -2.5052106206531682e-08, 1.605852751943773e-10, -7.586455940017973e-13,
    ),
}  # fmt: skip
"""S in sin r = r + r^3 S(r^2)."""
_COS: Final = {
    "float": (0.041666666664283473, -0.001388888765737401, 2.4800592482329196e-05, -2.7299937534284773e-07),
    "double": (
        0.041666666666666664, -0.0013888888888888887, 2.4801587301584594e-05, -2.755731922136126e-07,
        2.0876755776671767e-09, -1.1470458608341428e-11, 4.745737811425911e-14,
    ),
}  # fmt: skip
"""C in cos r = 1 - r^2/2 + r^4 C(r^2)."""

_TWO_THIRDS: Final = (0.6666666666666666, 3.700743415417188e-17)
_LOG_TAIL: Final = tuple(2.0 / odd for odd in range(5, 27, 2))
"""P in log(1+f) = 2s + 2/3 s^3 + s^5 P(s^2), s = f/(2+f), where s^2 is below 0.03."""


def angle_function(kind: str, lanes: VectorBuilder, form: Format, x: str) -> str:
    """Emit `sin`, `cos` or `tan` of the value named `x`."""
    maths = Maths(lanes, form)
    r, quarter = _reduced(lanes, form, x)
    z = maths.mul(r, r)
    sine = maths.fma(maths.mul(r, z), maths.polynomial(z, _SIN[form.real]), r)
    tail = maths.mul(maths.mul(z, z), maths.polynomial(z, _COS[form.real]))
    cosine = maths.add(maths.fma(z, maths.number(-0.5), maths.number(1.0)), tail)
    if kind == "tan":
        odd = _bit(lanes, quarter, 1)
        usual = maths.div(
            maths.pick(odd, lanes.op("fneg", form.real, cosine), sine), maths.pick(odd, sine, cosine)
        )
    else:
        turned = quarter if kind == "sin" else lanes.op("add", "i64", quarter, lanes.constant("i64", 1))
        value = maths.pick(_bit(lanes, turned, 1), cosine, sine)
        usual = maths.pick(_bit(lanes, turned, 2), lanes.op("fneg", form.real, value), value)
    if kind != "cos":
        usual = maths.pick(maths.equal(x, maths.number(0.0)), x, usual)
    large = lanes.compare("ogt", form.real, maths.abs(x), maths.number(_LARGE))
    return lanes.rarely(form.real, large, usual, lambda: lanes.call(f"llvm.{kind}", form.real, x))


def power(lanes: VectorBuilder, form: Format, x: str, y: str) -> str:
    """Emit x to the y, with C's rules for zeros, infinities, NaN and negative x."""
    maths, wide = Maths(lanes, form), Maths(lanes, DOUBLE)
    if form is DOUBLE:
        result = _positive_power(wide, maths.abs(x), y)
    else:
        magnitude = lanes.convert("fpext", "float", "double", maths.abs(x))
        exponent = wide.mul(wide.log(magnitude), lanes.convert("fpext", "float", "double", y))
        result = lanes.convert("fptrunc", "double", "float", wide.exp(exponent))
    zero, one = maths.number(0.0), maths.number(1.0)
    halved = maths.mul(y, maths.number(0.5))
    fractional = lanes.compare("une", form.real, lanes.call("llvm.trunc", form.real, y), y)
    half_fractional = lanes.compare("une", form.real, lanes.call("llvm.trunc", form.real, halved), halved)
    odd = lanes.select("i1", fractional, lanes.constant("i1", 0), half_fractional)
    result = maths.pick(odd, maths.with_sign(result, x), result)
    negative = lanes.op("and", "i1", maths.less(x, zero), lanes.compare("ogt", form.real, x, maths.number(-inf)))
    result = maths.pick(lanes.op("and", "i1", negative, fractional), maths.number(nan), result)
    endless = maths.equal(maths.abs(y), maths.number(inf))
    unit = lanes.op("and", "i1", maths.equal(x, maths.number(-1.0)), endless)
    trivial = lanes.op("or", "i1", maths.equal(x, one), lanes.op("or", "i1", maths.equal(y, zero), unit))
    return maths.pick(trivial, one, result)


def _positive_power(maths: Maths, x: str, y: str) -> str:
    """Emit e^(y log x) in double precision. An exponent of 710 carries ten bits before the point, so that the logarithm and the
    product need some 65; each is a sum of two numbers. Past 2^66, y takes every x but 1 out of range."""
    y = maths.at_most(maths.at_least(y, -(2.0**66)), 2.0**66)
    high, low = _long_log(maths, x)
    _, off = maths.product(y, high)
    exponent, (least, most) = maths.mul(y, maths.log_ends(x, high)), DOUBLE.exp_range
    inside = maths.less(maths.abs(exponent), maths.number(-least))
    off = maths.pick(inside, maths.fma(y, low, off), maths.number(0.0))
    return _long_exp(maths, maths.at_most(maths.at_least(exponent, least), most), off)


def _long_log(maths: Maths, x: str) -> tuple[str, str]:
    """Return log x as a number and a rest: e log 2 + 2s + 2/3 s^3 + s^5 P(s^2), s = f/(2+f); all but the last are kept in two parts."""
    f, e = maths.split(x)
    two = maths.number(2.0)
    below = maths.add(f, two)
    s = maths.div(f, below)
    whole, part = maths.product(s, below)
    lost = maths.sub(f, maths.sub(below, two))
    s_rest = maths.div(maths.sub(maths.sub(maths.sub(f, whole), part), maths.mul(s, lost)), below)
    square, square_rest = maths.product(s, s)
    square_rest = maths.fma(maths.add(s, s), s_rest, square_rest)
    cube, cube_rest = maths.product(s, square)
    cube_rest = maths.fma(s, square_rest, maths.fma(s_rest, square, cube_rest))
    third, third_rest = maths.product(cube, maths.number(_TWO_THIRDS[0]))
    third_rest = maths.fma(cube, maths.number(_TWO_THIRDS[1]), maths.fma(cube_rest, maths.number(_TWO_THIRDS[0]), third_rest))
    tail = maths.mul(maths.mul(cube, square), maths.polynomial(square, _LOG_TAIL))
    high, first = maths.total(maths.mul(e, maths.number(DOUBLE.ln2[0])), maths.add(s, s))
    high, second = maths.total(high, third)
    small = maths.add(maths.fma(e, maths.number(DOUBLE.ln2[1]), maths.add(s_rest, s_rest)), maths.add(third_rest, tail))
    return maths.total(high, maths.add(maths.add(first, second), small))


def _long_exp(maths: Maths, x: str, off: str) -> str:
    """Emit e^(x + off) for x within the range of exp."""
    magic, one = maths.number(DOUBLE.magic), maths.number(1.0)
    shifted = maths.fma(x, maths.number(1.4426950408889634), magic)
    n = maths.sub(shifted, magic)
    r, rest = maths.total(maths.sub(x, maths.mul(n, maths.number(DOUBLE.ln2[0]))), maths.mul(n, maths.number(-DOUBLE.ln2[1])))
    rest = maths.add(rest, off)
    curve = maths.mul(maths.polynomial(r, DOUBLE.exp_terms), maths.mul(r, r))
    head, lost = maths.total(one, r)
    rest = maths.fma(rest, maths.add(head, curve), maths.add(lost, curve))
    exponent = maths.integer("sub", maths.bits(shifted), maths.whole(DOUBLE.magic_bits))
    half = maths.integer("ashr", exponent, maths.whole(1))
    scaled = maths.mul(maths.add(head, rest), maths.exponential_of_two(half))
    return maths.mul(scaled, maths.exponential_of_two(maths.integer("sub", exponent, half)))


def _reduced(lanes: VectorBuilder, form: Format, x: str) -> tuple[str, str]:
    """Return (r, n) with x = n pi/2 + r and |r| <= pi/4; n is an i64 of which only the two low bits are valid."""
    wide = Maths(lanes, DOUBLE)
    angle = lanes.convert("fpext", "float", "double", x) if form is SINGLE else x
    shifted = wide.fma(angle, wide.number(_TWO_OVER_PI), wide.number(DOUBLE.magic))
    n = wide.sub(shifted, wide.number(DOUBLE.magic))
    r = angle
    for part in _HALF_PI if form is DOUBLE else _HALF_PI[:2]:
        r = wide.fma(n, wide.number(-part), r)
    if form is SINGLE:
        r = lanes.convert("fptrunc", "double", "float", r)
    return r, wide.bits(shifted)


def _bit(lanes: VectorBuilder, value: str, bit: int) -> str:
    masked = lanes.op("and", "i64", value, lanes.constant("i64", bit))
    return lanes.compare("ne", "i64", masked, lanes.constant("i64", 0))
