"""Programs of one or a few ops of StableHLO and CHLO: the functions of `jax.lax` and what is built on them, with every element type
that each takes, on the numbers where types end, and with the values that their attributes may have.

JAX itself says what each computes; a combination that JAX refuses is not a program.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import linalg

Program = tuple[str, Callable[..., Any], tuple[Any, ...]]
"""A name, a function and its arguments."""

BOOLS: Final = ("bool",)
SIGNED: Final = ("int8", "int16", "int32", "int64")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
INTEGERS: Final = SIGNED + UNSIGNED
FLOATS: Final = ("float32", "float16", "bfloat16", "float64")
COMPLEX: Final = ("complex64", "complex128")
NUMBERS: Final = FLOATS + INTEGERS + COMPLEX
ALL: Final = NUMBERS + BOOLS
_RNG: Final = np.random.default_rng(3)


def _limits(dtype: str) -> np.ndarray[Any, Any]:
    """The numbers of a type where something happens; no subnormal ones, which XLA takes for zeros."""
    if dtype == "bool":
        return np.array([False, True, True, False])
    if "int" in dtype:
        info = np.iinfo(dtype)
        near = [info.min, info.min + 1, info.max, info.max - 1, *range(-3, 4), 7, -8, 9, 15, 16, 31, 32, 63, 64, -33]
        return np.array([number for number in near if info.min <= number <= info.max], dtype)
    if dtype.startswith("complex"):
        parts = (0.0, -0.0, 1.0, -1.5, 2.25, -40.0)  # what an infinite part gives, neither StableHLO nor XLA says
        return np.array([complex(a, b) for a in parts for b in parts], dtype)
    info = jnp.finfo(dtype)
    near = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 0.25, 0.9, 7.0, 20.0, 88.0, 300.0, 1e-3, float(info.max), np.inf]
    return np.array([np.nan, *near, *(-number for number in near)]).astype(jnp.dtype(dtype))


def _some(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    """Ordinary numbers of a type, whose sums are exact or nearly so."""
    if dtype == "bool":
        return _RNG.integers(0, 2, shape).astype(bool)
    if dtype.startswith("uint"):
        return _RNG.integers(0, 9, shape).astype(dtype)
    if "int" in dtype:
        return _RNG.integers(-9, 9, shape).astype(dtype)
    made = _RNG.integers(-16, 16, shape) / 4.0
    if dtype.startswith("complex"):
        made = made + 1j * _RNG.integers(-16, 16, shape) / 4.0
    return np.asarray(made).astype(jnp.dtype(dtype))


def programs() -> Iterator[Program]:
    """All programs, in a fixed order and with the same arguments each time."""
    _RNG.bit_generator.state = np.random.default_rng(3).bit_generator.state
    for part in (
        _of_one, _of_two, _of_three, _conversions, _shapes, _slices, _gathers, _scatters, _reductions, _windows, _sorts, _products,
        _convolutions, _ffts, _linear_algebra, _control, _random, _constants,
    ):  # fmt: skip
        yield from part()


_ONE: Final = (
    "abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e bitwise_not cbrt ceil clz conj cos cosh digamma erf erf_inv erfc exp exp2 "
    "expm1 floor imag is_finite lgamma log log1p logistic neg population_count real reciprocal rsqrt sign sin sinh sqrt square tan tanh"
).split()


def _of_one() -> Iterator[Program]:
    for name, dtype in itertools.product(_ONE, ALL):
        yield f"{name} {dtype}", getattr(lax, name), (_limits(dtype),)
    for dtype in FLOATS:
        x = _limits(dtype)
        for method in lax.RoundingMethod:
            yield f"round {method.name} {dtype}", partial(lax.round, rounding_method=method), (x,)
        for bits in ((5, 10), (8, 7), (8, 23), (11, 52), (4, 3), (5, 2), (3, 0), (2, 1), (8, 1), (6, 9), (1, 5)):
            reduce = partial(lax.reduce_precision, exponent_bits=bits[0], mantissa_bits=bits[1])
            yield f"reduce_precision {bits} {dtype}", reduce, (x,)
    for dtype, power in itertools.product(NUMBERS, (-3, -2, -1, 0, 1, 2, 3, 5)):
        yield f"integer_pow {power} {dtype}", partial(lax.integer_pow, y=power), (_limits(dtype),)
    for name, dtype in itertools.product(("isinf", "isposinf", "isneginf", "isnan", "signbit", "nan_to_num", "trunc", "rint"), NUMBERS):
        yield f"jnp.{name} {dtype}", getattr(jnp, name), (_limits(dtype),)


_TWO: Final = (
    "add atan2 bitwise_and bitwise_or bitwise_xor complex div eq ge gt le lt ne max min mul nextafter pow rem shift_left "
    "shift_right_arithmetic shift_right_logical sub"
).split()


def _of_two() -> Iterator[Program]:
    for name, dtype in itertools.product(_TWO, ALL):
        one = _quotable(dtype) if name == "rem" else _limits(dtype)[:32]
        a, b = (grid.reshape(-1).copy() for grid in np.meshgrid(one, one))
        yield f"{name} {dtype}", getattr(lax, name), (a, b)
        yield f"{name} {dtype} number", partial(_with_number, getattr(lax, name), one[-3]), (one,)
    numpys = ("floor_divide", "remainder", "fmod", "power", "copysign", "heaviside", "logaddexp", "hypot")
    for name, dtype in itertools.product(numpys, NUMBERS):
        one = _quotable(dtype)[:24] if name in ("fmod", "remainder", "floor_divide") else _limits(dtype)[:24]
        a, b = (grid.reshape(-1).copy() for grid in np.meshgrid(one, one))
        yield f"jnp.{name} {dtype}", getattr(jnp, name), (a, b)
    for name, dtype in itertools.product(("igamma", "igammac", "zeta", "polygamma", "random_gamma_grad"), FLOATS):
        larger = np.abs(_some(dtype, 6)) + np.array(1.5, jnp.dtype(dtype))
        yield f"{name} {dtype}", getattr(lax, name), (larger, np.abs(_some(dtype, 6)))


def _quotable(dtype: str) -> np.ndarray[Any, Any]:
    """Limits without the largest halves: torch's own `fmod` gives NaN where such a quotient is computed in vectors."""
    one = _limits(dtype)
    return one[~(np.abs(one) > 1e4) | np.isinf(one)] if dtype in ("float16", "bfloat16") else one


def _with_number(function: Any, number: Any, x: Any) -> Any:
    return function(x, jnp.full(x.shape, number))


def _of_three() -> Iterator[Program]:
    for dtype in ALL:
        x, low, high = _limits(dtype), _some(dtype), _some(dtype)
        yield f"clamp {dtype}", lax.clamp, (low, x, high)
        yield f"clamp tensors {dtype}", lax.clamp, (_some(dtype, *x.shape), x, _some(dtype, *x.shape))
        yield f"select {dtype}", lax.select, (_some("bool", *x.shape), x, x[::-1].copy())
        yield f"select_n {dtype}", lax.select_n, (np.arange(len(x), dtype="int32") % 3, x, x[::-1].copy(), _some(dtype, *x.shape))
        yield f"where number {dtype}", lambda c, x: jnp.where(c, x, x[0]), (_some("bool", *x.shape), x)
    for dtype in FLOATS:
        a = np.abs(_some(dtype, 5)) + np.array(0.5, jnp.dtype(dtype))
        yield f"betainc {dtype}", lax.betainc, (a, a[::-1].copy(), np.linspace(0.1, 0.9, 5).astype(a.dtype))


def _conversions() -> Iterator[Program]:
    small = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "int4", "uint4")
    for source, target in itertools.product(ALL, ALL + small):
        yield f"convert {source} {target}", _converted(target), (_limits(source),)
        if target in ALL:
            ratio = max(1, jnp.dtype(target).itemsize // jnp.dtype(source).itemsize)
            given = _limits(source)[: 4 * ratio].reshape(-1, ratio) if ratio > 1 and len(_limits(source)) >= 4 * ratio else _limits(source)
            yield f"bitcast {source} {target}", partial(lax.bitcast_convert_type, new_dtype=jnp.dtype(target)), (given,)


def _converted(target: str) -> Callable[[Any], Any]:
    def convert(x: Any) -> Any:
        made = lax.convert_element_type(x, jnp.dtype(target))
        return made if target in ALL else lax.convert_element_type(made, jnp.float32 if "float" in target else jnp.int32)

    return convert


def _shapes() -> Iterator[Program]:
    for dtype in ALL:
        x, y = _some(dtype, 3, 4), _some(dtype, 3, 2)
        forms: dict[str, Any] = {
            "broadcast": lambda x: lax.broadcast(x, (2, 1)),
            "broadcast_in_dim": lambda x: lax.broadcast_in_dim(x, (3, 5, 4), (0, 2)),
            "broadcast turned": lambda x: lax.broadcast_in_dim(x, (4, 2, 3), (2, 0)),
            "expand_dims": lambda x: lax.expand_dims(x, (0, 3)),
            "reshape": lambda x: lax.reshape(x, (2, 6), (1, 0)),
            "rev": lambda x: lax.rev(x, (0, 1)),
            "transpose": lambda x: lax.transpose(x, (1, 0)),
            "squeeze": lambda x: lax.squeeze(lax.slice(x, (0, 0), (1, 4)), (0,)),
            "tile": lambda x: jnp.tile(x, (2, 3)),
            "roll": lambda x: jnp.roll(x, 2, axis=1),
            "triu": jnp.triu, "diag": lambda x: jnp.diag(x[:, 0]),
            "empty": lambda x: x[:0], "empty sum": lambda x: jnp.sum(x[:0], 0), "empty max": lambda x: jnp.max(x[:0], 1),
        }  # fmt: skip
        for name, function in forms.items():
            yield f"{name} {dtype}", function, (x,)
        yield f"concatenate {dtype}", lambda x, y: lax.concatenate([x, y, x], 1), (x, y)
        for low, high, inner in ((1, 2, 0), (-1, 1, 0), (0, 0, 2), (-1, -2, 1), (2, -3, 1)):
            config = ((low, high, inner), (0, 1, 0))
            yield f"pad {config} {dtype}", lambda x, fill, config=config: lax.pad(x, fill, config), (x, _some(dtype))
            yield f"pad zero {config} {dtype}", lambda x, config=config: lax.pad(x, jnp.zeros((), x.dtype), config), (x,)
        for axis in (0, 1):
            yield f"iota {axis} {dtype}", lambda axis=axis, dtype=dtype: lax.broadcasted_iota(jnp.dtype(dtype), (3, 4), axis), ()


def _slices() -> Iterator[Program]:
    for dtype in ("float32", "int8", "uint32", "bfloat16", "complex64", "bool"):
        x = _some(dtype, 5, 6)
        yield f"slice {dtype}", lambda x: lax.slice(x, (1, 0), (5, 6), (2, 3)), (x,)
        yield f"split {dtype}", lambda x: lax.split(x, (1, 2, 3), axis=1), (x,)
        for start, index in itertools.product((0, 2, -1, -9, 4, 100), ("int32", "int64", "uint8", "int8")):
            at = np.array(start % 256 if index == "uint8" else start, index)
            yield f"dynamic_slice {start} {index} {dtype}", lambda x, i: lax.dynamic_slice(x, (i, jnp.zeros_like(i)), (2, 4)), (x, at)
            yield f"dynamic_slice known {start} {dtype}", lambda x, at=at: lax.dynamic_slice(x, (at, at), (2, 4)), (x,)
            new = _some(dtype, 2, 3)
            yield f"dynamic_update_slice {start} {index} {dtype}", lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)), (x, new, at)
            yield f"dynamic_index {start} {dtype}", lambda x, i: lax.dynamic_index_in_dim(x, i, 1, keepdims=False), (x, at)


_MODES: Final = ("clip", "fill", "promise_in_bounds")


def _gathers() -> Iterator[Program]:
    for dtype in ALL:
        x, rows = _some(dtype, 5, 6), np.array([[0, 4], [2, 2], [3, 1]], "int32")
        yield f"take {dtype}", lambda x, i: jnp.take(x, i, axis=1), (x, rows)
        yield f"take_along_axis {dtype}", lambda x, i: jnp.take_along_axis(x, i, 0), (x, rows)
        yield f"index pairs {dtype}", lambda x, i: x[i[:, 0], i[:, 1]], (x, rows)
        yield f"index vmap {dtype}", lambda x, i: jax.vmap(lambda row, at: row[at])(x[:3], i), (x, rows)
        yield f"index slices {dtype}", lambda x, i: jax.vmap(lambda at: lax.dynamic_slice(x, (at, 0), (2, 3)))(i[:, 0]), (x, rows)
    for mode, dtype, index in itertools.product(_MODES, ("float32", "int8", "uint32", "bool", "complex64"), ("int32", "int64", "uint8")):
        far = np.array([0, 4, 5, 99, 120], index) if mode != "promise_in_bounds" else np.array([0, 4, 3], index)
        if index != "uint8" and mode != "promise_in_bounds":
            far = np.concatenate([far, np.array([-1, -5, -6, -99], index)])
        yield f"get {mode} {index} {dtype}", lambda x, i, mode=mode: x.at[i].get(mode=mode), (_some(dtype, 5, 3), far)


def _scatters() -> Iterator[Program]:
    kinds = ("set", "add", "subtract", "multiply", "divide", "power", "min", "max")
    for kind, dtype in itertools.product(kinds, ALL):
        x, i, u = _some(dtype, 5, 3), np.array([0, 4, 4, 1]), _some(dtype, 4, 3)
        yield f"at.{kind} {dtype}", lambda x, i, u, kind=kind: getattr(x.at[i], kind)(u), (x, i, u)
        yield f"at.{kind} slice {dtype}", lambda x, u, kind=kind: getattr(x.at[1:4, 1:], kind)(u[:3, 1:]), (x, u)
        yield f"at.{kind} pairs {dtype}", lambda x, i, u, kind=kind: getattr(x.at[i, i % 3], kind)(u[:, 0]), (x, i, u)
    for kind, mode, dtype in itertools.product(("set", "add", "max"), ("clip", "drop"), ("float32", "int8", "uint16", "uint64")):
        far = np.array([0, -1, 5, 99, -99, 2])
        yield f"at.{kind} {mode} {dtype}", lambda x, i, u, kind=kind, mode=mode: getattr(x.at[i], kind)(u, mode=mode), (
            _some(dtype, 5, 2), far, _some(dtype, 6, 2),
        )  # fmt: skip
    for dtype in ("float32", "int32", "uint8"):
        x, i, u = _some(dtype, 4, 6), np.array([1, 0, 3, 2]), _some(dtype, 4, 2)
        yield f"scatter vmap {dtype}", lambda x, i, u: jax.vmap(lambda row, at, new: row.at[at].add(new[0]))(x, i, u), (x, i, u)
        yield f"at.apply {dtype}", lambda x, i: x.at[i].apply(lambda y: y * 2), (x, i)
        yield f"segment_sum {dtype}", lambda x, i: jax.ops.segment_sum(x, i, 5), (x, i)
        yield f"segment_max {dtype}", lambda x, i: jax.ops.segment_max(x, i, 5), (x, i)


_FOLDS: Final = ("sum", "prod", "max", "min", "all", "any", "argmax", "argmin", "mean", "var", "ptp")


def _reductions() -> Iterator[Program]:
    for name, dtype, axis in itertools.product(_FOLDS, ALL, (0, 1, None)):
        yield f"jnp.{name} {axis} {dtype}", partial(getattr(jnp, name), axis=axis), (_some(dtype, 3, 5),)
    for name, dtype in itertools.product(("max", "min", "argmax", "argmin"), FLOATS + INTEGERS):
        x = _limits(dtype)
        yield f"jnp.{name} limits {dtype}", lambda x, name=name: getattr(jnp, name)(jnp.stack([x, x[::-1], jnp.roll(x, 3)]), axis=0), (x,)
    for name, dtype, reverse in itertools.product(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), ALL, (False, True)):
        yield f"{name} {reverse} {dtype}", partial(getattr(lax, name), axis=1, reverse=reverse), (_some(dtype, 2, 5),)
    for name, dtype in itertools.product(("add", "mul", "max", "min", "bitwise_and", "bitwise_or", "bitwise_xor"), ALL):
        function = getattr(lax, name)
        given = _some(dtype, 3, 4), _some(dtype)
        yield f"reduce {name} {dtype}", lambda x, z, function=function: lax.reduce(x, z, function, (1,)), given
    for dtype in ("float32", "int32"):
        yield (
            f"reduce pairs {dtype}",
            lambda x, y: lax.reduce((x, y), (x[0, 0], y[0, 0]), lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (0,)),
            (_some(dtype, 3, 4), _some(dtype, 3, 4)),
        )
    for index in ("int32", "int64", "uint8", "int8"):
        yield f"argmax {index}", lambda x, index=index: lax.argmax(x, 1, jnp.dtype(index)), (_some("float32", 3, 5),)


def _windows() -> Iterator[Program]:
    strides, gaps = ((1, 1), (2, 1)), ((1, 1), (1, 2))
    types = ("float32", "float16", "bfloat16", "int8", "int32", "uint8", "uint32")
    for name, dtype in itertools.product(("add", "mul", "max", "min"), types):
        function = getattr(lax, name)
        if name in ("max", "min"):
            info = np.iinfo(dtype) if "int" in dtype else None
            start: Any = (-np.inf if name == "max" else np.inf) if info is None else (info.min if name == "max" else info.max)
        else:
            start = 0 if name == "add" else 1
        for stride, base, window, padding in itertools.product(strides, gaps, gaps, ("VALID", "SAME", ((1, 0), (0, 2)))):
            yield (
                f"reduce_window {name} {dtype} {stride} {base} {window} {padding}",
                partial(_windowed, function, start, stride, base, window, padding),
                (_some(dtype, 4, 5),),
            )
        yield (
            f"reduce_window other start {name} {dtype}",
            partial(_windowed, function, 3, (1, 1), (1, 1), (1, 1), ((1, 1), (0, 0))),
            (_some(dtype, 4, 5),),
        )
    for padding, stride in itertools.product(("VALID", "SAME"), ((1, 1), (2, 2))):
        pooled = partial(_windowed, lax.max, -np.inf, stride, (1, 1), (1, 1), padding)
        yield f"grad of max pool {padding} {stride}", jax.grad(lambda x, pooled=pooled: (pooled(x) ** 2).sum()), (_some("float32", 5, 6),)
        mean = partial(_windowed, lax.add, 0.0, stride, (1, 1), (1, 1), padding)
        yield f"grad of mean pool {padding} {stride}", jax.grad(lambda x, mean=mean: (mean(x) ** 2).sum()), (_some("float32", 5, 6),)


def _windowed(function: Any, start: Any, stride: Any, base: Any, window: Any, padding: Any, x: Any) -> Any:
    return lax.reduce_window(x, np.array(start, x.dtype), function, (2, 3), stride, padding, base, window)


def _sorts() -> Iterator[Program]:
    for dtype in ALL:
        x = _limits(dtype)
        x = np.concatenate([x, x[::-1]])
        other = np.arange(len(x), dtype="int32")
        yield f"sort {dtype}", lax.sort, (x,)
        yield f"sort 2d {dtype}", lambda x: lax.sort(x, dimension=0), (_some(dtype, 4, 3),)
        yield f"sort with {dtype}", lambda x, y: lax.sort((x, y), num_keys=1), (x, other)
        yield f"sort two keys {dtype}", lambda x, y: lax.sort((x, y), num_keys=2), (x, other[::-1] % 3)
        yield f"argsort {dtype}", jnp.argsort, (x,)
        yield f"sort down {dtype}", lambda x: jnp.sort(x, descending=True), (x,)
        yield f"top_k {dtype}", lambda x: lax.top_k(x, 5), (x,)
        yield f"unique {dtype}", lambda x: jnp.unique(x, size=6), (_some(dtype, 9),)
        yield f"searchsorted {dtype}", lambda x: jnp.searchsorted(jnp.sort(x), x), (_some(dtype, 9),)
    for dtype in FLOATS:
        yield f"approx_max_k {dtype}", lambda x: lax.approx_max_k(x, 3), (_some(dtype, 4, 16),)
        yield f"approx_min_k {dtype}", lambda x: lax.approx_min_k(x, 3), (_some(dtype, 4, 16),)
        yield f"median {dtype}", jnp.median, (_some(dtype, 9),)


def _products() -> Iterator[Program]:
    for dtype in ALL:
        yield f"dot {dtype}", lax.dot, (_some(dtype, 3, 4), _some(dtype, 4, 5))
        yield f"dot vectors {dtype}", lax.dot, (_some(dtype, 4), _some(dtype, 4))
        dims = (((1, 3), (2, 0)), ((0,), (1,)))
        given = _some(dtype, 2, 3, 2, 4), _some(dtype, 4, 2, 3, 5)
        yield f"dot_general {dtype}", lambda a, b, dims=dims: lax.dot_general(a, b, dims), given
        yield f"dot_general empty {dtype}", lambda a, b: lax.dot(a[:, :0], b[:0]), (_some(dtype, 3, 4), _some(dtype, 4, 5))
    for source, target in (("int8", "int32"), ("uint8", "int32"), ("bfloat16", "float32"), ("float16", "float32"), ("float32", "float64")):
        yield f"dot {source} into {target}", lambda a, b, target=target: lax.dot(a, b, preferred_element_type=jnp.dtype(target)), (
            _limits(source)[:8].reshape(2, 4) if "int" in source else _some(source, 2, 4), _some(source, 4, 3),
        )  # fmt: skip
    for form in ("ij,jk->ik", "bij,bjk->bik", "ij->ji", "ii->i", "ij,ij->", "i,j->ij", "abc,cd,d->ab"):
        extents = {"a": 2, "b": 2, "c": 4, "d": 3, "i": 3, "j": 3, "k": 4}
        sizes = [tuple(extents[letter] for letter in part) for part in form.split("->")[0].split(",")]
        yield f"einsum {form}", lambda *xs, form=form: jnp.einsum(form, *xs), tuple(_some("float32", *size) for size in sizes)
    yield "ragged_dot", lax.ragged_dot, (_some("float32", 6, 4), _some("float32", 3, 4, 5), np.array([1, 3, 2], "int32"))


def _convolutions() -> Iterator[Program]:
    for dtype in ("float32", "float16", "bfloat16", "float64", "int8", "int32", "complex64"):
        x, w = _some(dtype, 2, 4, 6, 5), _some(dtype, 4, 4, 3, 2)
        pads = ("VALID", "SAME", ((1, 2), (-1, 1)))
        for stride, pad, left, right in itertools.product(((1, 1), (2, 1)), pads, ((1, 1), (2, 1)), ((1, 1), (1, 2))):
            yield (
                f"conv {dtype} {stride} {pad} {left} {right}",
                partial(lax.conv_general_dilated, window_strides=stride, padding=pad, lhs_dilation=left, rhs_dilation=right),
                (x, w),
            )
        for groups in (2, 4):
            yield (
                f"conv groups {groups} {dtype}",
                partial(lax.conv_general_dilated, window_strides=(1, 1), padding="SAME", feature_group_count=groups),
                (x, _some(dtype, 4, 4 // groups, 3, 2)),
            )
        yield (
            f"conv batch groups {dtype}",
            partial(lax.conv_general_dilated, window_strides=(1, 1), padding="SAME", batch_group_count=2),
            (x, w),
        )
        turned = partial(lax.conv_transpose, strides=(2, 2), padding="SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
        yield f"conv transpose {dtype}", turned, (x, w)
    for layout in (("NHWC", "HWIO", "NHWC"), ("NHWC", "OIHW", "NCHW"), ("CHWN", "IHWO", "NCHW"), ("HNWC", "WHIO", "NHCW")):
        sizes = {"N": 2, "H": 6, "W": 5, "C": 4, "I": 4, "O": 3}
        kernel = {**sizes, "H": 3, "W": 2}
        yield f"conv {layout}", lambda x, w, layout=layout: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout), (
            _some("float32", *(sizes[c] for c in layout[0])), _some("float32", *(kernel[c] for c in layout[1])),
        )  # fmt: skip
    for rank in (1, 3):
        yield f"conv {rank}d", lambda x, w, rank=rank: lax.conv(x, w, (1,) * rank, "SAME"), (
            _some("float32", 2, 3, *(5, 4, 6)[:rank]), _some("float32", 2, 3, *(3, 2, 3)[:rank]),
        )  # fmt: skip


def _ffts() -> Iterator[Program]:
    names = ("fft", "ifft", "rfft", "irfft", "fft2", "rfftn", "irfft2")
    for dtype, name in itertools.product(("float32", "float64", "complex64", "complex128"), names):
        yield f"{name} {dtype}", getattr(jnp.fft, name), (_some(dtype, 2, 4, 6),)
        yield f"{name} odd {dtype}", getattr(jnp.fft, name), (_some(dtype, 3, 5, 7),)


def _linear_algebra() -> Iterator[Program]:
    for dtype in ("float32", "float64", "complex64", "complex128"):
        a = _some(dtype, 4, 4) + 6 * np.eye(4, dtype=dtype)
        p = (a @ a.conj().T).astype(dtype)
        yield f"cholesky {dtype}", linalg.cholesky, (p,)
        yield f"solve {dtype}", jnp.linalg.solve, (a, _some(dtype, 4, 2))
        yield f"inv {dtype}", jnp.linalg.inv, (a,)
        yield f"det {dtype}", jnp.linalg.det, (a,)
        yield f"eigvalsh {dtype}", jnp.linalg.eigvalsh, (p,)
        yield f"singular values {dtype}", lambda x: jnp.linalg.svd(x, compute_uv=False), (a,)
        yield f"qr {dtype}", lambda x: jnp.abs(jnp.linalg.qr(x)[1]), (a,)
        yield f"expm {dtype}", jax.scipy.linalg.expm, (a / 20,)
        for left, lower, turned, conjugated, unit in itertools.product((False, True), repeat=5):
            yield (
                f"triangular_solve {left} {lower} {turned} {conjugated} {unit} {dtype}",
                partial(
                    linalg.triangular_solve, left_side=left, lower=lower, transpose_a=turned, conjugate_a=conjugated, unit_diagonal=unit
                ),
                (a, _some(dtype, 4, 4)),
            )


def _control() -> Iterator[Program]:
    for dtype in ("float32", "int32", "uint8", "bfloat16"):
        x = _some(dtype, 4)
        for flag in (False, True):
            yield f"cond {flag} {dtype}", lambda c, x: lax.cond(c, lambda x: x * 2, lambda x: x - 1, x), (np.array(flag), x)
        for index in (-3, 0, 1, 2, 9):
            branches = [lambda x: x, lambda x: x * 2, lambda x: x - 3]
            yield f"switch {index} {dtype}", lambda i, x, branches=branches: lax.switch(i, branches, x), (np.array(index), x)
        yield f"while {dtype}", lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] + s[1]), (0, x)), (x,)
        yield f"fori {dtype}", lambda n, x: lax.fori_loop(0, n, lambda i, s: s + i.astype(s.dtype), x), (np.array(3), x)
        yield f"scan {dtype}", lambda x: lax.scan(lambda c, e: (c + e, c * 2), x[0], x), (x,)
        yield f"scan reverse {dtype}", lambda x: lax.scan(lambda c, e: (c + e, c), x[0], x, reverse=True), (x,)
        yield f"map {dtype}", lambda x: lax.map(lambda e: e * e, x), (x,)
        yield f"associative_scan {dtype}", lambda x: lax.associative_scan(jnp.add, x), (x,)
        yield f"barrier {dtype}", lambda x: lax.optimization_barrier((x, x + x)), (x,)
        yield f"jitted lambda {dtype}", lambda x: jax.jit(lambda y: y + y)(x), (x,)
        yield f"checkpoint {dtype}", lambda x: jax.checkpoint(lambda y: y * y)(x), (x,)


def _random() -> Iterator[Program]:
    for kind in ("threefry2x32", "rbg", "unsafe_rbg"):
        key = jax.random.key(3, impl=kind)
        yield f"bits {kind}", lambda key: jax.random.bits(key, (5,)), (key,)
        yield f"split {kind}", lambda key: jax.random.key_data(jax.random.split(key, 3)), (key,)
        yield f"fold_in {kind}", lambda key: jax.random.key_data(jax.random.fold_in(key, 9)), (key,)
        yield f"randint {kind}", lambda key: jax.random.randint(key, (5,), -4, 9), (key,)
        yield f"permutation {kind}", lambda key: jax.random.permutation(key, 7), (key,)
        for dtype in FLOATS:
            yield f"uniform {dtype} {kind}", lambda key, dtype=dtype: jax.random.uniform(key, (5,), jnp.dtype(dtype)), (key,)
            yield f"normal {dtype} {kind}", lambda key, dtype=dtype: jax.random.normal(key, (5,), jnp.dtype(dtype)), (key,)
        yield f"bernoulli {kind}", lambda key: jax.random.bernoulli(key, 0.4, (7,)), (key,)
        yield f"categorical {kind}", lambda key: jax.random.categorical(key, jnp.arange(4.0), shape=(6,)), (key,)
        yield f"gamma {kind}", lambda key: jax.random.gamma(key, 2.5, (3,)), (key,)


def _constants() -> Iterator[Program]:
    for dtype in ALL:
        few, many = _limits(dtype), _some(dtype, 9, 31)
        random = _RNG.normal(size=7).astype(jnp.dtype(dtype)) if dtype not in COMPLEX else (_RNG.normal(size=7) + 0.1j).astype(dtype)
        yield f"constant {dtype}", lambda few=few, many=many, random=random: (jnp.asarray(few), jnp.asarray(many), jnp.asarray(random)), ()
        yield f"constant splat {dtype}", lambda random=random, few=few: (jnp.full((40, 50), random[0]), jnp.full((3,), few[1])), ()
