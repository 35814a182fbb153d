"""Elementary functions: the stated error bounds hold over the whole range, and special arguments give what C's
functions give.
"""

from typing import Any

import numpy as np
import pytest

from irscope.codegen.kernel.spec import Instruction, KernelSpec, Launch, LaunchPlan, Operand, Result
from irscope.ops.accuracy import STEP_ULPS
from irscope.ops.expr import PRIMITIVES
from irscope.runtime.cpu.device import CpuDevice

pytest.importorskip("llvmlite")

Array = np.ndarray[Any, Any]

FUNCTIONS = [op for op, row in PRIMITIVES.items() if row.of == "floats" and any(row.ulps) and op not in ("pow", "reciprocal")]
"""Those of one number that may be inexact; where NumPy has no such function, `exact` has."""

SPECIAL = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, 200.0, -200.0, 2.0**-149, 3e38, -3e38, 0.5)


def apply(device: CpuDevice, op: str, *arrays: Array) -> Array:
    dtype = str(arrays[0].dtype)
    inputs = [Instruction("input", (), dtype, i) for i in range(len(arrays))]
    code = (*inputs, Instruction(op, tuple(range(len(arrays))), dtype))
    spec = KernelSpec((Operand(dtype, "tensor", (1,)),) * len(arrays), code, (Result(dtype, (1,), len(arrays)),), 1)
    launch = Launch(spec, (arrays[0].size,), tuple(range(len(arrays))), (0,), ((1,),) * (len(arrays) + 1))
    out = np.empty_like(arrays[0])
    device.prepare(LaunchPlan((launch,), (), len(arrays)))([out.ctypes.data], [array.ctypes.data for array in arrays])
    return out


def exact(op: str, *arrays: Array) -> Array:
    """The result in a wider format."""
    wide = np.float64 if arrays[0].dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        args = [array.astype(wide) for array in arrays]
        if op == "sigmoid":
            e = np.exp(-np.abs(args[0]))
            return np.where(args[0] < 0, e, wide(1)) / (1 + e)
        if op == "rsqrt":
            return 1 / np.sqrt(args[0])
        if op == "pow":
            return np.power(*args)
        if op == "erf":
            return _erf(args[0])
        return np.asarray(getattr(np, PRIMITIVES[op].numpy)(args[0]))


def _erf(x: Array) -> Array:
    if x.dtype == np.float64:
        special = pytest.importorskip("scipy.special")
        return np.asarray(special.erf(x))
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workprec(80):
        values = np.array([np.longdouble(mpmath.nstr(mpmath.erf(mpmath.mpf(float(v))), 25)) for v in x])
    return np.where(x == 0, x, values)  # mpmath has no -0


def ulps(found: Array, want: Array) -> Array:
    """The distance in units of the last place of the result; 0 where both are the same infinity or NaN."""
    kind = found.dtype
    with np.errstate(all="ignore"):
        rounded = want.astype(kind)
        unit = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, np.finfo(kind).max))).astype(want.dtype)
        off = np.abs(found.astype(want.dtype) - want) / unit
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    return np.where(same, np.minimum(np.where(np.isfinite(off), off, 0), 0.5), off)


def arguments(op: str, dtype: str, count: int) -> Array:
    """Numbers of every size, and many from where the function is interesting."""
    rng = np.random.default_rng(7)
    word = np.uint32 if dtype == "float32" else np.uint64
    everywhere = rng.integers(0, np.iinfo(word).max, count, dtype=word, endpoint=True)
    mantissa = np.finfo(dtype).nmant
    exponents = np.arange(count, dtype=word) % word(1 << (8 * everywhere.itemsize - mantissa))  # each, with both signs
    everywhere = (everywhere >> word(8 * everywhere.itemsize - mantissa) | exponents << word(mantissa)).view(dtype)
    top = 89 if dtype == "float32" else 710
    parts = [
        everywhere, rng.uniform(-12, 12, count), rng.uniform(-1, 1, count), rng.uniform(-1.2 * top, 1.2 * top, count),
        np.exp(rng.uniform(-80, 80, count)), rng.uniform(0.5, 2, count), np.array(SPECIAL),
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        values = np.concatenate([part.astype(dtype) for part in parts])
    if op in ("log", "log2", "sqrt", "rsqrt"):
        values[::2] = np.abs(values[::2])
    return values[~np.isnan(values) | (np.arange(values.size) % 97 == 0)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_error_stays_within_the_stated_bound(device: CpuDevice, op: str, dtype: str) -> None:
    if dtype == "float64" and np.finfo(np.longdouble).nmant < 60:
        pytest.skip("no wider format than float64 here to compare with")
    slow = op == "erf" and dtype == "float64"
    x = arguments(op, dtype, 500 if slow else 40_000)
    off = ulps(apply(device, op, x), exact(op, x))
    worst = int(np.argmax(off))
    assert off[worst] <= STEP_ULPS[op][dtype == "float64"], f"{off[worst]} units at {x[worst]!r}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_power_stays_within_the_stated_bound(device: CpuDevice, dtype: str) -> None:
    rng = np.random.default_rng(3)
    base = np.concatenate([np.exp(rng.uniform(-40, 40, 40_000)), rng.uniform(-4, 4, 40_000)]).astype(dtype)
    exponent = np.concatenate([rng.uniform(-3, 3, 60_000), np.round(rng.uniform(-9, 9, 20_000))]).astype(dtype)
    near = 1 + rng.normal(0, 1e-3 if dtype == "float32" else 1e-9, 20_000)  # the exponent magnifies the error of the logarithm
    ends = np.exp(rng.uniform(-80, 80, 20_000) if dtype == "float32" else rng.uniform(-700, 700, 20_000))
    base = np.concatenate([base, near, ends, np.arange(1.0, 41.0)]).astype(dtype)
    large = rng.normal(0, 1e4 if dtype == "float32" else 1e10, 20_000)
    exponent = np.concatenate([exponent, large, rng.uniform(-1.3, 1.3, 20_000), np.tile([2.0, 3.0, 5.0, -1.0], 10)]).astype(dtype)
    off = ulps(apply(device, "pow", base, exponent), exact("pow", base, exponent))
    worst = int(np.argmax(off))
    assert off[worst] <= STEP_ULPS["pow"][dtype == "float64"], f"{off[worst]} units at {base[worst]!r}, {exponent[worst]!r}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_power_of_special_arguments_is_that_of_c(device: CpuDevice, dtype: str) -> None:
    ends = np.array([*SPECIAL, 2.0, 3.0, -2.0, -3.0, -0.5, 1e30, 16777217.0, 0.3], dtype)
    x, y = (np.ascontiguousarray(part.ravel()) for part in np.meshgrid(ends, ends))
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    found = apply(device, "pow", x, y)
    np.testing.assert_allclose(found, want, rtol=1e-6)
    assert (np.signbit(found) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_special_arguments(device: CpuDevice, op: str, dtype: str) -> None:
    x = np.array(SPECIAL * 5, dtype)
    with np.errstate(over="ignore"):
        found, want = apply(device, op, x), exact(op, x).astype(dtype)
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=0 if dtype == "float32" else 1e-300)
    signed = ~np.isnan(want)
    assert (np.signbit(found) == np.signbit(want))[signed].all()


@pytest.mark.parametrize("op", ["exp", "tanh", "sin", "pow"])
def test_a_short_row_and_a_long_one_give_the_same_numbers(device: CpuDevice, op: str) -> None:
    x = np.random.default_rng(1).uniform(0.1, 9, 1000).astype(np.float32)
    args = (x, x[::-1].copy()) if op == "pow" else (x,)
    whole = apply(device, op, *args)
    for start, stop in ((0, 1), (3, 10), (500, 531), (900, 1000)):
        part = apply(device, op, *(arg[start:stop].copy() for arg in args))
        assert (part == whole[start:stop]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["fmod", "remainder"])
def test_remainders_are_exact(device: CpuDevice, op: str, dtype: str) -> None:
    """Bit by bit those of C, from quotients below 1 to those of the largest number by the smallest."""
    x, y = dividends_and_divisors(dtype, 20_000)
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
        if op == "remainder":
            want = np.where((want != 0) & ((want < 0) != (y < 0)), want + y, want)
    found = apply(device, op, x, y)
    word = f"uint{8 * x.itemsize}"
    wrong = (found.view(word) != want.view(word)) & ~(np.isnan(found) & np.isnan(want))
    assert not wrong.any(), list(zip(x[wrong][:5], y[wrong][:5], found[wrong][:5], want[wrong][:5], strict=True))


def dividends_and_divisors(dtype: str, count: int) -> tuple[Array, Array]:
    """Any bits; quotients near integers and halves of integers, small and large; denormals; what ends the type."""
    rng, limits = np.random.default_rng(11), np.finfo(dtype)
    word = f"uint{8 * limits.dtype.itemsize}"
    x, y, z = (rng.integers(0, np.iinfo(word).max, count, word, endpoint=True).view(dtype) for _ in range(3))
    tiny, small = (rng.integers(1, 1 << bits, count, word).view(dtype) for bits in (20, 8))
    whole = rng.integers(0, 1 << rng.integers(1, 50, count)).astype(dtype)
    ends = np.array([*SPECIAL, limits.max, limits.tiny, limits.smallest_subnormal, 2.0**24, 2.0**48, 0.37, 3, 2.0**53], dtype)
    pairs = [(x, y), (tiny, small), (x, small), (rng.normal(0, 1e3, count), np.full(count, 0.37)), np.meshgrid(ends, -ends)]
    with np.errstate(all="ignore"):
        pairs += [((z * whole).astype(dtype), z), (np.nextafter(z * whole, x).astype(dtype), z), (z * (whole + 0.5), z)]
    return tuple(np.concatenate([np.asarray(pair[side], dtype).ravel() for pair in pairs]) for side in (0, 1))  # type: ignore[return-value]


@pytest.mark.long
@pytest.mark.parametrize("op", FUNCTIONS)
def test_error_of_every_float32(device: CpuDevice, op: str) -> None:
    """All 2^32 of them; a minute a function."""
    special = pytest.importorskip("scipy.special")
    step, bound, worst = 1 << 20, STEP_ULPS[op][0], 0.0
    for start in range(0, 1 << 32, step):
        x = np.arange(start, start + step, dtype=np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            wide = x.astype(np.float64)
            want = special.erf(wide) if op == "erf" else exact(op, x)
            found = apply(device, op, x)
            worst = max(worst, largest_error(found, want))
        assert worst <= bound, f"{worst} units between {x[0]!r} and {x[-1]!r}"


def largest_error(found: Array, want: Array) -> float:
    """As `ulps`, in fewer passes; of two NaN or the same infinity none."""
    off = np.abs(found - want) / np.spacing(np.abs(want.astype(np.float32)))
    rest = ~np.isfinite(off)
    strange = found[rest] != want[rest].astype(np.float32)
    assert not (strange & ~(np.isnan(found[rest]) & np.isnan(want[rest]))).any(), "another NaN or infinity"
    return float(np.max(off[~rest], initial=0.0))
