"""Every NumPy function, method and operator that a trace takes, on every element type and on the values where meanings differ.

What is swept is listed by irscope's own tables, so that a new function is swept as soon as it is traced; `CALLS` has the
arguments of those that take more than arrays. NumPy itself is the judge: element type, shape, and each value within the
roundings that `allowed` states. A case that NumPy refuses must be refused, and no other error than irscope's may come out.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np

import irscope as irs
from irscope.frontends.tracing.array import Array
from irscope.frontends.tracing.ops_arrays import FUNCTIONS, SHAPES
from irscope.frontends.tracing.ops_pointwise import UFUNCS
from tests.oracles.counts import Counts, difference, outcome

DTYPES: Final = tuple("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split())
NUMBERS: Final = (
    True, False, 0, 1, 2, -1, 3, 300, 0.1, 1e300, 0.5, -0.5, 2.0, -1.5, -1.0, 0.0, -0.0, float("nan"), float("inf"), 1j, 2 - 1j,
)  # fmt: skip
"""Python's numbers, which take the type of the array where their kind allows it."""

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One call on arrays; `ulps` is how far a float may be off, None for a sum of many."""

    name: str
    function: Function
    arrays: tuple[np.ndarray[Any, Any], ...]
    ulps: float | None = 0

    def __str__(self) -> str:
        return f"{self.name} of {', '.join(f'{array.dtype}{list(array.shape)}' for array in self.arrays)}"


def values(dtype: str) -> np.ndarray[Any, Any]:
    """The values of a type at which functions have their own rules."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        given = [0, 1, 2, 3, 7, 12, high, high - 1] + ([-1, -2, -3, -7, low, low + 1] if low else [])
        return np.array(given, kind)
    if kind.kind == "f":
        of = np.finfo(kind)
        given = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 0.1, 7.25, np.inf, of.max, of.tiny, of.smallest_subnormal]
        return np.array([*given, *(-each for each in given), np.nan], kind)
    parts = [0.0, -0.0, 1.0, -1.5, 2.5, np.inf, -np.inf, np.nan]
    return np.array([complex(a, b) for a in parts for b in parts], kind)


def tame(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    """Numbers whose sums and products round little; integers of all sizes."""
    rng = np.random.default_rng(0)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if kind.kind in "iu":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
    made = rng.uniform(-2, 2, shape)
    return np.asarray(made + 1j * rng.uniform(-2, 2, shape) if kind.kind == "c" else made).astype(kind)


def laid_out(dtype: str) -> list[np.ndarray[Any, Any]]:
    """Arrays of the ranks and fillings that reductions and rearrangements have rules for."""
    made = [tame(dtype, 3, 4), tame(dtype, 5), tame(dtype), np.zeros((2, 0), dtype), np.zeros(0, dtype), np.zeros((2, 3), dtype)]
    made += [np.repeat(tame(dtype, 2, 1), 4, 1), tame(dtype, 2, 3, 2)]
    if np.dtype(dtype).kind in "fc":
        with_nan, with_infinity = tame(dtype, 3, 4), tame(dtype, 3, 4)
        with_nan[1, 2] = with_nan[2, 0] = np.nan
        with_infinity[0, 1], with_infinity[1, 1], with_infinity[1, 2] = np.inf, -np.inf, -np.inf
        made += [with_nan, with_infinity, -np.zeros(3, dtype)]
    return made


# What is asked

EXACT: Final = frozenset(
    """negative positive absolute fabs sign square reciprocal floor ceil trunc rint invert conjugate add subtract multiply divide
    floor_divide remainder fmod maximum minimum fmax fmin bitwise_and bitwise_or bitwise_xor left_shift right_shift equal
    not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not isnan isinf isfinite sqrt
    """.split()
)
"""Functions whose result is rounded at most once, so that no bit may differ."""


def allowed(name: str) -> float:
    """How many units in the last place a function may be off: what our kernels and NumPy's own loops state."""
    if name in ("maximum", "minimum", "fmax", "fmin"):
        return 0.25  # of 0.0 and -0.0 NumPy's own loops take one in vectors and the other elsewhere
    return 0 if name in EXACT else 12


def ulps_of(name: str) -> float | None:
    if name == "clip":
        return 0.25
    return 0 if name in SHAPES and name not in ("round", "around", "angle") else None


def unary(dtype: str) -> Iterator[Case]:
    x = values(dtype)
    for given in (x, x[:0], np.asarray(x[0])):
        for name in UFUNCS:
            if getattr(np, name).nin == 1:
                zeros = name == "reciprocal" and x.dtype.kind in "biu"  # NumPy's 1 / 0 depends on the processor
                yield Case(name, getattr(np, name), (given[given != 0],) if zeros else (given,), allowed(name))
    for name in UFUNCS:
        ufunc = getattr(np, name)
        if ufunc.nin == 1:
            yield Case(f"{name}(dtype=float64)", lambda x, f=ufunc: f(x, dtype=np.float64), (tame(dtype, 4),), allowed(name))


def binary(first: str, second: str) -> Iterator[Case]:
    x, y = values(first)[:, None], values(second)
    for name in UFUNCS:
        ufunc = getattr(np, name)
        if ufunc.nin == 2 and ufunc.signature is None:
            yield Case(name, ufunc, (x, y), allowed(name))


def numbers(dtype: str) -> Iterator[Case]:
    x = values(dtype)
    for name in UFUNCS:
        ufunc = getattr(np, name)
        if ufunc.nin != 2 or ufunc.signature is not None:
            continue
        for number in NUMBERS:
            yield Case(f"{name}(x, {number})", lambda x, f=ufunc, n=number: f(x, n), (x,), allowed(name))
            yield Case(f"{name}({number}, x)", lambda x, f=ufunc, n=number: f(n, x), (x,), allowed(name))


_BINARY: Final = "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor lt le eq ne gt ge".split()
_UNARY: Final = "neg pos abs invert".split()


def operators(dtype: str) -> Iterator[Case]:
    """Python's operators, whose meaning NumPy changes for some numbers (`x ** 2`), and in place."""
    x = values(dtype)
    for name in _UNARY:
        yield Case(f"operator.{name}", getattr(operator, name), (x,))
    for name in _BINARY:
        function, written = getattr(operator, name), getattr(operator, f"i{name.rstrip('_')}", None)
        ulps = 12 if name == "pow" else 0
        yield Case(f"operator.{name}", function, (x[:, None], x), ulps)
        for number in NUMBERS:
            yield Case(f"operator.{name}(x, {number})", lambda x, f=function, n=number: f(x, n), (x,), ulps)
            yield Case(f"operator.{name}({number}, x)", lambda x, f=function, n=number: f(n, x), (x,), ulps)
            if written is not None:
                yield Case(f"operator.i{name}(x, {number})", lambda x, f=written, n=number: f(x.copy(), n), (x,), ulps)


def _reductions() -> dict[str, list[Any]]:
    axes: list[Any] = [{}, {"axis": 0}, {"axis": -1}, {"axis": 1, "keepdims": True}, {"keepdims": True}]
    more: list[Any] = [*axes, {"axis": (0, 1)}, {"axis": ()}]
    types: list[Any] = [{"dtype": kind} for kind in ("float32", "float64", "int64", "complex128", "int8")]
    less: list[Any] = [{"ddof": 1}, {"ddof": 9}, {"axis": 0, "ddof": 1}, {"ddof": 0.5}]
    scans: list[Any] = [{}, {"axis": 0}, {"axis": -1}, {"axis": 0, "dtype": "float64"}, {"axis": 0, "dtype": "int16"}]
    orders: list[Any] = [{"kind": "stable", **given} for given in ({}, {"axis": 0}, {"axis": None})]  # equal elements in order
    norms: list[Any] = [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, lambda f, x: f(x.ravel(), ord=2)]
    norms += [{"ord": order, "axis": -1} for order in (0, 1, 3, -2, 0.5, np.inf, -np.inf)]
    found = dict.fromkeys("max min amax amin any all count_nonzero".split(), more)
    found |= dict.fromkeys("sum prod mean".split(), more + types) | dict.fromkeys(("var", "std"), more + types + less)
    found |= dict.fromkeys(("argmax", "argmin"), axes) | dict.fromkeys(("cumsum", "cumprod"), scans)
    return found | {"sort": [{}, *orders], "argsort": orders, "linalg.norm": norms}


CALLS: Final[dict[str, Sequence[Any]]] = {
    **_reductions(),
    "dot": [lambda f, x: f(x, x.T), lambda f, x: f(x, 2)], "matmul": [lambda f, x: f(x, x.T)],
    "outer": [lambda f, x: f(x.ravel(), x.ravel())], "vecdot": [lambda f, x: f(x, x), lambda f, x: f(x, x, axis=0)],
    "einsum": [lambda f, x: f("ij,kj->ik", x, x), lambda f, x: f("ij->j", x), lambda f, x: f("ij", x)],
    "reshape": [lambda f, x: f(x, -1), lambda f, x: f(x, (1, *x.shape))], "transpose": [{}, lambda f, x: f(x, (1, 0))],
    "permute_dims": [{"axes": (1, 0)}], "swapaxes": [lambda f, x: f(x, 0, -1)], "moveaxis": [lambda f, x: f(x, 0, -1)],
    "expand_dims": [{"axis": 0}, {"axis": (0, -1)}], "squeeze": [{}, lambda f, x: f(x[None], axis=0)],
    "broadcast_to": [lambda f, x: f(x, (2, *x.shape))], "broadcast_arrays": [lambda f, x: f(x, x[..., None])[0]],
    "roll": [{"shift": 1}, {"shift": -2, "axis": 0}, {"shift": (1, 2), "axis": (0, 1)}],
    "flip": [{}, {"axis": 0}], "concatenate": [lambda f, x: f([x, x * 2], axis=0), lambda f, x: f([x, x], axis=None)],
    "concat": [lambda f, x: f([x, x > 0], axis=-1)], "stack": [lambda f, x: f([x, x]), lambda f, x: f([x, x > 0], axis=-1)],
    "split": [lambda f, x: f(x, 1)[0], lambda f, x: f(x, [1, 2])[1]], "unstack": [lambda f, x: f(x[None])[0]],
    "tile": [{"reps": 2}, {"reps": (2, 1)}], "repeat": [{"repeats": 2}, {"repeats": 2, "axis": 0}],
    "tril": [{}, {"k": -1}], "triu": [{}, {"k": 1}],
    "where": [lambda f, x, n=n: f(x > 0, n, x) for n in NUMBERS] + [lambda f, x: f(x, x, True)],
    "clip": [lambda f, x, n=n: f(x, *n) for n in ((0, 1), (None, 2), (-0.5, 0.5), (-1, None), (0, 300), (5, 1), (True, 2))]
            + [lambda f, x: f(x, x, 1)],
    "round": [{}, {"decimals": 1}, {"decimals": -1}], "around": [{"decimals": 2}],
    "astype": [lambda f, x, t=t: f(x, t) for t in DTYPES], "full_like": [{"fill_value": 1}, {"fill_value": 2.5, "dtype": "float32"}],
    "take": [lambda f, x: f(x, [0, 1], axis=0), lambda f, x: f(x, 0, axis=-1), lambda f, x: f(x, [0])],
    "empty_like": [lambda f, x: f(x).shape == x.shape], "shape": [lambda f, x: [*f(x), 0]],
    "size": [{}, {"axis": 0}], "result_type": [lambda f, x: np.zeros(1, f(x, 1.0)) + x],
    "angle": [{}, {"deg": True}],
}  # fmt: skip
"""The calls of a function: options by name, or what is done with it and an array. A function without an entry takes an array."""


def _numpys(name: str) -> Function | None:
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found  # type: ignore[no-any-return]


def calls(dtype: str) -> Iterator[Case]:
    """The functions of arrays, with their options."""
    for x in laid_out(dtype):
        for name in FUNCTIONS:
            function = _numpys(name)
            if function is not None:  # else of the array API, and not in this NumPy
                for place, call in enumerate(CALLS.get(name, [{}])):
                    said = f"np.{name} {call if isinstance(call, dict) else place}"
                    if _has_meaning(call, x, name):
                        yield Case(said, _asked(function, call), (x,), ulps_of(name))


def members(dtype: str) -> Iterator[Case]:
    """The methods and attributes of an array."""
    for x in laid_out(dtype):
        for name in sorted(dir(Array)):
            if name.startswith("_") or name in _NOT_CALLED or not hasattr(np.ndarray, name):
                continue
            if not callable(getattr(np.ndarray, name)):
                yield Case(f"x.{name}", lambda x, n=name: getattr(x, n), (x,), 0)
                continue
            for place, call in enumerate(CALLS.get(name, [{}])):
                method = lambda x, *args, n=name, **options: getattr(x, n)(*args, **options)  # noqa: E731
                said = f"x.{name} {call if isinstance(call, dict) else place}"
                if _has_meaning(call, x, name):
                    yield Case(said, _asked(method, call), (x,), ulps_of(name))


def _has_meaning(call: Any, x: np.ndarray[Any, Any], name: str) -> bool:
    """Whether NumPy's result does not depend on the processor: NaN and infinities as integers, complex products of them in BLAS."""
    into_integers = isinstance(call, dict) and np.dtype(call.get("dtype", float)).kind == "i"
    wide = x.dtype.kind in "iu" and x.dtype.itemsize == 8
    if into_integers and (name == "std" or (name == "var" and wide) or (name in ("mean", "var") and not x.size)):
        return False  # the root of a variance that has wrapped around, squares beyond every integer, a mean of nothing
    return bool(np.isfinite(x).all()) or not (into_integers or (name == "vecdot" and x.dtype.kind == "c") or name == "astype")


def _asked(function: Function, call: Any) -> Function:
    if isinstance(call, dict):
        return lambda x: function(x, **call)
    return lambda x: call(function, x)


_NOT_CALLED: Final = frozenset("item tolist fill sort to_device device record root value origin read_only dtype shape".split())


# The judge


def sweep(cases: Iterable[Case], found: Counts, *, fused: bool = True) -> None:
    """Counts each case run op by op, and once more as a part of a program of many kernels."""
    for _, alike in groupby(cases, key=lambda case: [id(array) for array in case.arrays]):
        right = [case for case in alike if _is_right(case, found)]
        for start in range(0, len(right) if fused else 0, 40):
            _check_fused(right[start : start + 40], found)


def _is_right(case: Case, found: Counts) -> bool:
    """Counts a case run op by op; tells whether it ran and is right."""
    wanted = _by_numpy(case)
    try:
        graph = irs.trace(case.function, *case.arrays)
        got = irs.compile(graph)(*(array.copy() for array in case.arrays))
    except Exception as error:
        ended, told = outcome(error)
        found.add("passed" if ended == "refused" and isinstance(wanted, Exception) else ended, told, str(case))
        return False
    said = f"NumPy raises {wanted!r}" if isinstance(wanted, Exception) else _difference(got, wanted, case)
    found.add("wrong" if said else "passed", said, str(case))
    return not said


def _check_fused(cases: Sequence[Case], found: Counts) -> None:
    arrays = cases[0].arrays
    graph = irs.trace(lambda *given: tuple(case.function(*given) for case in cases), *arrays)
    results = irs.compile(irs.fuse(graph, min_size=1))(*(array.copy() for array in arrays))
    for case, got in zip(cases, results, strict=True):
        said = _difference(got, _by_numpy(case), case)
        found.add("wrong" if said else "passed", f"fused: {said}" if said else "", str(case))


def _by_numpy(case: Case) -> Any:
    try:
        with np.errstate(all="ignore"):
            return case.function(*(array.copy() for array in case.arrays))
    except Exception as error:
        return error


def _difference(got: Any, wanted: Any, case: Case) -> str:
    """Says how a result differs from NumPy's; empty if it does not."""
    if not isinstance(wanted, np.ndarray | np.generic):
        return "" if got == wanted and type(got) is type(wanted) else f"{got!r} for {wanted!r}"

    def near(got: Any, wanted: Any) -> Any:
        scale = np.abs(wanted)
        if wanted.dtype.kind == "f":
            return _close(got, wanted, scale, case)
        return _close(got.real, wanted.real, scale, case) & _close(got.imag, wanted.imag, scale, case)

    return difference(got, wanted, near)


def _close(got: Any, wanted: Any, scale: Any, case: Case) -> Any:
    """Where two floats are equal within the roundings of the case, zeros with their signs."""
    of = np.finfo(wanted.dtype)
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    if case.ulps == 0:
        return same & ((wanted != 0) | (np.signbit(got) == np.signbit(wanted)))
    with np.errstate(all="ignore"):
        if case.ulps is None:
            size = max((float(np.abs(array[np.isfinite(array)]).max(initial=1)) for array in case.arrays), default=1.0)
            room = 64 * of.eps * max(size, 1) ** 2 + 32 * of.eps * scale
        else:
            room = (1 if wanted.dtype == np.float16 else case.ulps) * np.maximum(of.eps * scale, of.smallest_subnormal)
        return same | (np.abs(got.astype(np.float64) - wanted) <= room)
