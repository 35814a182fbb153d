"""Elementary functions as branch-free vector code: argument reduction and one polynomial, no tables.

`irscope.ops.accuracy.STEP_ULPS` lists the error bound of each: the largest error against higher precision in units of the last
place, over all arguments (`tests/codegen/llvm/test_math_functions.py` measures it).

NaN propagates; infinities, signed zeros, and denormal arguments and results are right. Polynomials were fitted for
this project (Chebyshev interpolation in 60 digits; Lawson-weighted least squares for float32). Nothing here may be
reassociated: `(x + magic) - magic` must round.

Two cases call the C library, one lane at a time: sin, cos and tan of arguments past 2^19, and remainders of quotients past 2^48.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Final

from irscope.codegen.llvm.builder import VectorBuilder


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format, and the constants of the algorithms in it."""

    real: str
    """The LLVM type of its numbers."""
    word: str
    """The LLVM type of their bits."""
    mantissa: int
    """Bits after the binary point."""
    bias: int
    magic: float
    """1.5 * 2^mantissa: adding and subtracting it rounds to an integer; after the addition, the low bits hold that integer."""
    smallest: float
    """The smallest normal number."""
    ln2: tuple[float, float]
    """log 2 as a short number, whose product with an exponent is exact, and the remainder."""
    exp_range: tuple[float, float]
    """The range outside which exp is 0 or infinite."""
    exp_terms: Sequence[float]
    """P in e^r = 1 + r + r^2 P(r) for |r| <= log(2)/2."""

    @property
    def bits(self) -> int:
        return 32 if self.word == "i32" else 64

    @property
    def magic_bits(self) -> int:
        return 0x4B400000 if self.bits == 32 else 0x4338000000000000


SINGLE: Final = Format(
    "float", "i32", 23, 127, 12582912.0, 2.0**-126, (0.693145751953125, 1.4286068203094172e-06), (-104.0, 89.0),
    (0.4999999403953552, 0.16666515171527863, 0.04166845604777336, 0.008369410410523415, 0.0013813161058351398),
)  # fmt: skip
DOUBLE: Final = Format(
    "double", "i64", 52, 1023, 6755399441055744.0, 2.0**-1022, (0.6931471803691238, 1.9082149292705877e-10),
    (-746.0, 710.0),
    (
        0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333325551, 0.0013888888888883332,
        0.00019841269876840357, 2.480158732699005e-05, 2.755725286336732e-06, 2.755727183153613e-07,
        2.5106262550879078e-08, 2.0915433598076003e-09,
    ),
)  # fmt: skip

_LOG_SINGLE: Final = (
    0.3333331048488617, -0.25000008940696716, 0.2000216692686081, -0.16668090224266052, 0.1421855390071869,
    -0.12403079122304916, 0.11893513053655624, -0.11694365739822388, 0.0675760880112648,
)  # fmt: skip
"""P in log(1+f) = f - f^2/2 + f^3 P(f)."""
_LOG_DOUBLE: Final = (
    0.6666666666666666, 0.4000000000000091, 0.2857142857078221, 0.22222222396552982, 0.18181795124476754,
    0.15386267672882226, 0.1326802614042874, 0.13094416666525344,
)  # fmt: skip
"""P in log(1+f) = 2s + s^3 P(s^2), s = f/(2+f)."""


_TANH: Final = (-0.33333277702331543, 0.13331331312656403, -0.05373000726103783, 0.020606176927685738, -0.005666977260261774)
"""P in tanh x = x + x^3 P(x^2), in float32."""


class Maths:
    """The functions of one format over some lanes; each takes and returns the name of a value."""

    def __init__(self, lanes: VectorBuilder, form: Format) -> None:
        self.lanes = lanes
        self.form = form

    # -- shorthand ----------------------------------------------------------------------------------------------------

    def number(self, value: float) -> str:
        return self.lanes.constant(self.form.real, value)

    def whole(self, value: int) -> str:
        return self.lanes.constant(self.form.word, value)

    def add(self, a: str, b: str) -> str:
        return self.lanes.op("fadd", self.form.real, a, b)

    def sub(self, a: str, b: str) -> str:
        return self.lanes.op("fsub", self.form.real, a, b)

    def mul(self, a: str, b: str) -> str:
        return self.lanes.op("fmul", self.form.real, a, b)

    def div(self, a: str, b: str) -> str:
        return self.lanes.op("fdiv", self.form.real, a, b)

    def fma(self, a: str, b: str, c: str) -> str:
        """a*b + c, rounded once where the target can."""
        return self.lanes.call("llvm.fmuladd", self.form.real, a, b, c)

    def abs(self, a: str) -> str:
        return self.lanes.call("llvm.fabs", self.form.real, a)

    def less(self, a: str, b: str) -> str:
        return self.lanes.compare("olt", self.form.real, a, b)

    def equal(self, a: str, b: str) -> str:
        return self.lanes.compare("oeq", self.form.real, a, b)

    def pick(self, mask: str, a: str, b: str) -> str:
        return self.lanes.select(self.form.real, mask, a, b)

    def integer(self, name: str, a: str, b: str) -> str:
        return self.lanes.op(name, self.form.word, a, b)

    def bits(self, a: str) -> str:
        return self.lanes.convert("bitcast", self.form.real, self.form.word, a)

    def from_bits(self, a: str) -> str:
        return self.lanes.convert("bitcast", self.form.word, self.form.real, a)

    def polynomial(self, x: str, terms: Sequence[float]) -> str:
        """terms[0] + terms[1] x + …"""
        result = self.number(terms[-1])
        for term in reversed(terms[:-1]):
            result = self.fma(result, x, self.number(term))
        return result

    def at_least(self, x: str, low: float) -> str:
        """max(x, low); NaN stays."""
        return self.pick(self.less(x, self.number(low)), self.number(low), x)

    def at_most(self, x: str, high: float) -> str:
        """min(x, high); NaN stays."""
        return self.pick(self.less(self.number(high), x), self.number(high), x)

    def with_sign(self, magnitude: str, sign: str) -> str:
        return self.lanes.call("llvm.copysign", self.form.real, magnitude, sign)

    def head(self, a: str) -> str:
        """The upper half of the bits: with a number of as many bits, it has an exact product."""
        return self.from_bits(self.integer("and", self.bits(a), self.whole(-(1 << (12 if self.form.bits == 32 else 27)))))

    def product(self, a: str, b: str) -> tuple[str, str]:
        """a*b, and by how much that is too small, to as many bits again; exact products of halves need no fused multiply-add."""
        p, high, other = self.mul(a, b), self.head(a), self.head(b)
        low, rest = self.sub(a, high), self.sub(b, other)
        off = self.add(self.sub(self.mul(high, other), p), self.mul(high, rest))
        return p, self.add(self.add(off, self.mul(low, other)), self.mul(low, rest))

    def total(self, a: str, b: str) -> tuple[str, str]:
        """a+b, and exactly by how much that is too small."""
        s = self.add(a, b)
        part = self.sub(s, a)
        return s, self.add(self.sub(a, self.sub(s, part)), self.sub(b, part))

    def exponential_of_two(self, exponent: str) -> str:
        """2^n for an integer n within the range of normal numbers."""
        form = self.form
        return self.from_bits(self.integer("shl", self.integer("add", exponent, self.whole(form.bias)), self.whole(form.mantissa)))

    # -- exponentials -------------------------------------------------------------------------------------------------

    def reduced(self, x: str) -> tuple[str, str]:
        """(e^r - 1, n) with x = n log 2 + r; n as an integer, right for |n| < 2^20."""
        form = self.form
        shifted = self.fma(x, self.number(1.4426950408889634), self.number(form.magic))
        n = self.sub(shifted, self.number(form.magic))
        r = self.fma(n, self.number(-form.ln2[1]), self.fma(n, self.number(-form.ln2[0]), x))
        p = self.fma(self.polynomial(r, form.exp_terms), self.mul(r, r), r)
        return p, self.integer("sub", self.bits(shifted), self.whole(form.magic_bits))

    def exp(self, x: str) -> str:
        low, high = self.form.exp_range
        return self.exp_within(self.at_most(self.at_least(x, low), high))

    def exp_within(self, x: str) -> str:
        """e^x for x within the format's `exp_range`: scaled in two steps, so that denormal results round once."""
        p, n = self.reduced(x)
        half = self.integer("ashr", n, self.whole(1))
        scaled = self.mul(self.add(p, self.number(1.0)), self.exponential_of_two(half))
        return self.mul(scaled, self.exponential_of_two(self.integer("sub", n, half)))

    def exp_normal(self, x: str) -> str:
        """e^x where neither the argument nor the result can leave the normal numbers."""
        p, n = self.reduced(x)
        return self.mul(self.add(p, self.number(1.0)), self.exponential_of_two(n))

    def expm1(self, x: str) -> str:
        form = self.form
        floor = -18.0 if form.bits == 32 else -38.0
        p, n = self.reduced(self.at_most(self.at_least(x, floor), form.exp_range[1]))
        scale = self.exponential_of_two(self.integer("sub", n, self.whole(1)))
        halved = self.fma(p, scale, self.sub(scale, self.number(0.5)))
        tiny = self.less(self.abs(x), self.number(2.0 ** -(form.mantissa + 2)))  # halving would lose the last bit of a denormal
        return self.pick(tiny, x, self.add(halved, halved))

    def sigmoid(self, x: str) -> str:
        """e/(1+e) or 1/(1+e) with e = e^-|x|, so that both tails keep their precision."""
        negative = self.lanes.op("fneg", self.form.real, self.abs(x))
        e = self.exp_within(self.at_least(negative, self.form.exp_range[0]))
        top = self.pick(self.less(x, self.number(0.0)), e, self.number(1.0))
        return self.div(top, self.add(e, self.number(1.0)))

    def tanh(self, x: str) -> str:
        a = self.abs(x)
        if self.form.bits == 64:
            e = self.expm1(self.at_most(self.add(a, a), 44.0))
            return self.with_sign(self.div(e, self.add(e, self.number(2.0))), x)
        z = self.mul(x, x)
        p = self.polynomial(z, _TANH)
        small = self.fma(self.mul(p, z), a, a)
        capped = self.at_most(a, 10.0)
        e = self.exp_normal(self.add(capped, capped))
        big = self.sub(self.number(1.0), self.div(self.number(2.0), self.add(e, self.number(1.0))))
        return self.with_sign(self.pick(self.less(a, self.number(0.625)), small, big), x)

    def erf(self, x: str) -> str:
        """x + x P(x^2) near zero; 1 - e^-Q(x) (float32) or 1 - e^(-x^2) erfcx(x) (float64) beyond."""
        a, z = self.abs(x), self.mul(x, x)
        if self.form.bits == 32:
            near = self.fma(self.polynomial(z, _ERF_NEAR_SINGLE), x, x)
            capped = self.at_most(a, 4.0)
            exponent = self.mul(self.polynomial(capped, _ERF_FAR_SINGLE), capped)
            tail = self.exp_normal(self.lanes.op("fneg", "float", exponent))
            limit = 0.925
        else:
            near = self.fma(self.polynomial(z, _ERF_NEAR_DOUBLE), x, x)
            capped = self.at_most(a, 6.0)
            t = self.div(self.sub(capped, self.number(2.0)), self.add(capped, self.number(2.0)))
            scaled = self.div(self.polynomial(t, _ERF_FAR_DOUBLE), self.fma(capped, self.number(2.0), self.number(1.0)))
            tail = self.mul(self.exp_normal(self.lanes.op("fneg", "double", self.mul(capped, capped))), scaled)
            limit = 0.9
        far = self.with_sign(self.sub(self.number(1.0), tail), x)
        return self.pick(self.less(a, self.number(limit)), near, far)

    # -- logarithms ---------------------------------------------------------------------------------------------------

    def split(self, x: str) -> tuple[str, str]:
        """(f, e) with x = 2^e (1 + f), 1 + f between sqrt(1/2) and sqrt(2); x positive, denormals included."""
        form = self.form
        tiny = self.less(x, self.number(form.smallest))
        normal = self.pick(tiny, self.mul(x, self.number(2.0**form.mantissa)), x)
        bits = self.bits(normal)
        offset = 0x3F3504F3 if form.bits == 32 else 0x3FE6A09E667F3BCD
        e = self.integer("ashr", self.integer("sub", bits, self.whole(offset)), self.whole(form.mantissa))
        m = self.from_bits(self.integer("sub", bits, self.integer("shl", e, self.whole(form.mantissa))))
        exponent = self.lanes.convert("sitofp", form.word, form.real, e)
        exponent = self.sub(exponent, self.pick(tiny, self.number(form.mantissa), self.number(0.0)))
        return self.sub(m, self.number(1.0)), exponent

    def log_rest(self, f: str) -> str:
        """log(1+f) - f."""
        if self.form.bits == 32:
            ff = self.mul(f, f)
            return self.fma(self.number(-0.5), ff, self.mul(self.polynomial(f, _LOG_SINGLE), self.mul(ff, f)))
        half = self.mul(self.mul(f, f), self.number(0.5))
        s = self.div(f, self.add(f, self.number(2.0)))
        z = self.mul(s, s)
        r = self.mul(self.polynomial(z, _LOG_DOUBLE), z)
        return self.sub(self.mul(s, self.add(half, r)), half)

    def log_ends(self, x: str, result: str) -> str:
        """Fix up the result of log at infinity, at zero and below zero."""
        result = self.pick(self.equal(x, self.number(inf)), x, result)
        result = self.pick(self.equal(x, self.number(0.0)), self.number(-inf), result)
        return self.pick(self.lanes.compare("ult", self.form.real, x, self.number(0.0)), self.number(nan), result)

    def log(self, x: str) -> str:
        f, e = self.split(x)
        return self.log_ends(x, self.log_joined(f, e, self.log_rest(f)))

    def log_joined(self, f: str, e: str, rest: str) -> str:
        """e log 2 + f + rest, small parts first."""
        high, low = (0.693359375, -2.12194440054690583e-4) if self.form.bits == 32 else self.form.ln2
        return self.fma(e, self.number(high), self.add(f, self.fma(e, self.number(low), rest)))

    def log2(self, x: str) -> str:
        """Through the natural logarithm, with 1/log 2 in two parts: exact at powers of two. So is f in two parts, as the product of
        the high ones must be exact where the target has no fused multiply-add."""
        f, e = self.split(x)
        rest = self.log_rest(f)
        head = self.head(f)
        high, low = (1.4423828125, 0.00031222838896340733) if self.form.bits == 32 else (1.4426950216293335, 1.9259629911266175e-08)
        small = self.fma(f, self.number(low), self.mul(rest, self.number(1.4426950408889634)))
        small = self.fma(self.sub(f, head), self.number(high), small)
        return self.log_ends(x, self.add(e, self.fma(head, self.number(high), small)))

    def log1p(self, x: str) -> str:
        """log(u) + (x - (u-1))/u with u = 1+x rounded."""
        one = self.number(1.0)
        u = self.add(x, one)
        lost = self.pick(self.less(self.number(1.0), self.abs(x)), self.sub(one, self.sub(u, x)), self.sub(x, self.sub(u, one)))
        f, e = self.split(u)
        rest = self.add(self.log_rest(f), self.div(lost, u))
        result = self.log_ends(u, self.log_joined(f, e, rest))
        return self.pick(self.equal(x, self.number(0.0)), x, result)

    # -- roots --------------------------------------------------------------------------------------------------------

    def sqrt(self, x: str) -> str:
        return self.lanes.call("llvm.sqrt", self.form.real, x)

    def rsqrt(self, x: str) -> str:
        return self.div(self.number(1.0), self.sqrt(x))

    # -- remainders ---------------------------------------------------------------------------------------------------

    def fmod(self, x: str, y: str) -> str:
        """C's fmod, exact: |x| - q|y| in double precision, with the sign of x. The remainder of float32 is a float32."""
        wide, real = Maths(self.lanes, DOUBLE), self.form.real
        if self.form.bits == 32:
            x, y = (self.lanes.convert("fpext", "float", "double", each) for each in (x, y))
        a, b = wide.abs(x), wide.abs(y)
        quotient, limit = wide.div(a, b), wide.number(_QUOTIENTS)
        finite = self.lanes.op("and", "i1", wide.less(a, wide.number(inf)), wide.less(wide.number(0.0), b))

        def in_two_steps() -> str:
            scale = wide.pick(huge, wide.number(2.0**-64), wide.number(1.0))
            part, of = wide.mul(a, scale), wide.mul(b, scale)
            unit = wide.mul(of, wide.pick(far, limit, wide.number(1.0)))
            part = wide.rest(part, unit, wide.div(part, unit))
            result = wide.mul(wide.rest(part, of, wide.div(part, of)), wide.div(wide.number(1.0), scale))
            farther = self.lanes.compare("oge", "double", quotient, wide.number(_QUOTIENTS**2))
            farther = self.lanes.op("and", "i1", farther, finite)
            return self.lanes.rarely("double", farther, result, lambda: self.lanes.op("frem", "double", a, b))

        far = self.lanes.compare("oge", "double", quotient, limit)
        huge = wide.less(wide.number(2.0**1000), a)  # the product may overflow
        large = self.lanes.op("and", "i1", self.lanes.op("or", "i1", far, huge), finite)
        result = self.lanes.rarely("double", large, wide.rest(a, b, quotient), in_two_steps)
        result = wide.pick(wide.equal(b, wide.number(inf)), a, result)
        result = wide.with_sign(wide.pick(finite, result, wide.number(nan)), x)
        return self.lanes.convert("fptrunc", "double", "float", result) if real == "float" else result

    def rest(self, a: str, b: str, quotient: str) -> str:
        """a modulo b, of positive numbers of double precision whose quotient is below `_QUOTIENTS`.

        The quotient is rounded to the nearest integer q, so that a - q b is at most half of b, and b is split in two parts whose
        products with q are exact, as then are both differences: their bits lie between the last place of b, or of a, and 2^53
        of it.
        """
        magic = self.number(self.form.magic)
        q = self.sub(self.add(quotient, magic), magic)
        head = self.head(b)
        r = self.sub(self.sub(a, self.mul(q, head)), self.mul(q, self.sub(b, head)))
        return self.pick(self.less(r, self.number(0.0)), self.add(r, b), r)

    def remainder(self, x: str, y: str) -> str:
        """x modulo y with the sign of y."""
        rest, zero = self.fmod(x, y), self.number(0.0)
        differ = self.lanes.op("xor", "i1", self.less(rest, zero), self.less(y, zero))
        moved = self.lanes.op("and", "i1", self.lanes.compare("une", self.form.real, rest, zero), differ)
        return self.pick(moved, self.add(rest, y), rest)

    # -- sine, cosine, tangent and power ----------------------------------------------------------------------------------

    # Angles are reduced to a quarter turn with pi/2 in two or three parts (Cody and Waite), in double precision for both
    # formats. That is exact enough up to 2^19; larger arguments are rare, and go to the C library.

    def angle(self, kind: str, x: str) -> str:
        """`sin`, `cos` or `tan`."""
        r, quarter = self._quarters(x)
        z = self.mul(r, r)
        sine = self.fma(self.mul(r, z), self.polynomial(z, _SIN[self.form.real]), r)
        tail = self.mul(self.mul(z, z), self.polynomial(z, _COS[self.form.real]))
        cosine = self.add(self.fma(z, self.number(-0.5), self.number(1.0)), tail)
        if kind == "tan":
            odd = self._bit(quarter, 1)
            usual = self.div(self.pick(odd, self.lanes.op("fneg", self.form.real, cosine), sine), self.pick(odd, sine, cosine))
        else:
            turned = quarter if kind == "sin" else self.lanes.op("add", "i64", quarter, self.lanes.constant("i64", 1))
            value = self.pick(self._bit(turned, 1), cosine, sine)
            usual = self.pick(self._bit(turned, 2), self.lanes.op("fneg", self.form.real, value), value)
        if kind != "cos":
            usual = self.pick(self.equal(x, self.number(0.0)), x, usual)
        large = self.lanes.compare("ogt", self.form.real, self.abs(x), self.number(_LARGE))
        return self.lanes.rarely(self.form.real, large, usual, lambda: self.lanes.call(f"llvm.{kind}", self.form.real, x))

    def power(self, x: str, y: str) -> str:
        """x to the y, with C's rules for zeros, infinities, NaN and negative x."""
        wide = Maths(self.lanes, DOUBLE)
        if self.form is DOUBLE:
            result = self._positive_power(self.abs(x), y)
        else:
            magnitude = self.lanes.convert("fpext", "float", "double", self.abs(x))
            exponent = wide.mul(wide.log(magnitude), self.lanes.convert("fpext", "float", "double", y))
            result = self.lanes.convert("fptrunc", "double", "float", wide.exp(exponent))
        zero, one = self.number(0.0), self.number(1.0)
        halved = self.mul(y, self.number(0.5))
        fractional = self.lanes.compare("une", self.form.real, self.lanes.call("llvm.trunc", self.form.real, y), y)
        half_fractional = self.lanes.compare("une", self.form.real, self.lanes.call("llvm.trunc", self.form.real, halved), halved)
        odd = self.lanes.select("i1", fractional, self.lanes.constant("i1", 0), half_fractional)
        result = self.pick(odd, self.with_sign(result, x), result)
        negative = self.lanes.op("and", "i1", self.less(x, zero), self.lanes.compare("ogt", self.form.real, x, self.number(-inf)))
        result = self.pick(self.lanes.op("and", "i1", negative, fractional), self.number(nan), result)
        endless = self.equal(self.abs(y), self.number(inf))
        unit = self.lanes.op("and", "i1", self.equal(x, self.number(-1.0)), endless)
        trivial = self.lanes.op("or", "i1", self.equal(x, one), self.lanes.op("or", "i1", self.equal(y, zero), unit))
        return self.pick(trivial, one, result)

    def _positive_power(self, x: str, y: str) -> str:
        """e^(y log x) in double precision. An exponent of 710 carries ten bits before the point, so that the logarithm and the
        product need some 65; each is a sum of two numbers. Past 2^66, y takes every x but 1 out of range."""
        y = self.at_most(self.at_least(y, -(2.0**66)), 2.0**66)
        high, low = self._long_log(x)
        _, off = self.product(y, high)
        exponent, (least, most) = self.mul(y, self.log_ends(x, high)), DOUBLE.exp_range
        inside = self.less(self.abs(exponent), self.number(-least))
        off = self.pick(inside, self.fma(y, low, off), self.number(0.0))
        return self._long_exp(self.at_most(self.at_least(exponent, least), most), off)

    def _long_log(self, x: str) -> tuple[str, str]:
        """Return log x as a number and a rest: e log 2 + 2s + 2/3 s^3 + s^5 P(s^2), s = f/(2+f); all but the last are kept in two parts."""
        f, e = self.split(x)
        two = self.number(2.0)
        below = self.add(f, two)
        s = self.div(f, below)
        whole, part = self.product(s, below)
        lost = self.sub(f, self.sub(below, two))
        s_rest = self.div(self.sub(self.sub(self.sub(f, whole), part), self.mul(s, lost)), below)
        square, square_rest = self.product(s, s)
        square_rest = self.fma(self.add(s, s), s_rest, square_rest)
        cube, cube_rest = self.product(s, square)
        cube_rest = self.fma(s, square_rest, self.fma(s_rest, square, cube_rest))
        third, third_rest = self.product(cube, self.number(_TWO_THIRDS[0]))
        third_rest = self.fma(cube, self.number(_TWO_THIRDS[1]), self.fma(cube_rest, self.number(_TWO_THIRDS[0]), third_rest))
        tail = self.mul(self.mul(cube, square), self.polynomial(square, _LOG_TAIL))
        high, first = self.total(self.mul(e, self.number(DOUBLE.ln2[0])), self.add(s, s))
        high, second = self.total(high, third)
        small = self.add(self.fma(e, self.number(DOUBLE.ln2[1]), self.add(s_rest, s_rest)), self.add(third_rest, tail))
        return self.total(high, self.add(self.add(first, second), small))

    def _long_exp(self, x: str, off: str) -> str:
        """e^(x + off) for x within the range of exp."""
        magic, one = self.number(DOUBLE.magic), self.number(1.0)
        shifted = self.fma(x, self.number(1.4426950408889634), magic)
        n = self.sub(shifted, magic)
        r, rest = self.total(self.sub(x, self.mul(n, self.number(DOUBLE.ln2[0]))), self.mul(n, self.number(-DOUBLE.ln2[1])))
        rest = self.add(rest, off)
        curve = self.mul(self.polynomial(r, DOUBLE.exp_terms), self.mul(r, r))
        head, lost = self.total(one, r)
        rest = self.fma(rest, self.add(head, curve), self.add(lost, curve))
        exponent = self.integer("sub", self.bits(shifted), self.whole(DOUBLE.magic_bits))
        half = self.integer("ashr", exponent, self.whole(1))
        scaled = self.mul(self.add(head, rest), self.exponential_of_two(half))
        return self.mul(scaled, self.exponential_of_two(self.integer("sub", exponent, half)))

    def _quarters(self, x: str) -> tuple[str, str]:
        """Return (r, n) with x = n pi/2 + r and |r| <= pi/4; n is an i64 of which only the two low bits are valid."""
        form, wide = self.form, Maths(self.lanes, DOUBLE)
        angle = self.lanes.convert("fpext", "float", "double", x) if form is SINGLE else x
        shifted = wide.fma(angle, wide.number(_TWO_OVER_PI), wide.number(DOUBLE.magic))
        n = wide.sub(shifted, wide.number(DOUBLE.magic))
        r = angle
        for part in _HALF_PI if form is DOUBLE else _HALF_PI[:2]:
            r = wide.fma(n, wide.number(-part), r)
        if form is SINGLE:
            r = self.lanes.convert("fptrunc", "double", "float", r)
        return r, wide.bits(shifted)

    def _bit(self, value: str, bit: int) -> str:
        masked = self.lanes.op("and", "i64", value, self.lanes.constant("i64", bit))
        return self.lanes.compare("ne", "i64", masked, self.lanes.constant("i64", 0))


_QUOTIENTS: Final = 2.0**24
"""Below it, the product of an integer and 27 bits is exact in double precision, and the sum of both products' errors."""

_ERF_NEAR_SINGLE: Final = (
    0.12837915122509003, -0.3761247992515564, 0.11281682550907135, -0.026761721819639206, 0.004985943902283907,
    -0.0005953754880465567,
)  # fmt: skip
_ERF_FAR_SINGLE: Final = (
    1.1286485195159912, 0.6351513266563416, 0.10623687505722046, -0.023762060329318047, 0.003642457537353039,
    -0.0003228034474886954, 1.1231261851207819e-05,
)  # fmt: skip
_ERF_NEAR_DOUBLE: Final = (
    0.1283791670955126, -0.37612638903183754, 0.112837916709551, -0.026866170645124077, 0.005223977625340751,
    -0.000854832701490715, 0.00012055332519432235, -1.4925633568608262e-05, 1.646169615878246e-06,
    -1.635866756067073e-07, 1.4723494823392752e-08, -1.1652473945294949e-09, 6.495025610302581e-11,
)  # fmt: skip
_ERF_FAR_DOUBLE: Final = (
    1.2769783815525289, -0.0927638265857546, -0.16603039761540314, 0.16405128003541342, -0.05422000098024376,
    -0.008034015216738155, 0.00872265344196239, 0.0012713431071884398, -0.001456807066357511,
    -0.0004544079206788842, 0.00020632524755343125, 0.00015163400525126027, -1.5700123218515744e-06,
    -3.917987462627177e-05, -1.1787858959509783e-05, 9.15906864624081e-06,
)  # fmt: skip
"""erfcx(x) (1 + 2x) in t = (x-2)/(x+2), for x between 0.9 and 6."""

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
