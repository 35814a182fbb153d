"""NumPy's elementwise functions as aten ops, with NumPy's element types made explicit by casts.

`ufunc.resolve_dtypes` is NumPy's own promotion, Python numbers included: operands are cast to the types of the loop that
NumPy would run, so that the op has nothing left to promote.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from irscope.frontends.tracing.importer import Recorder, Traced, code_of, refuse_if, refused

Number = bool | int | float | complex

_PLAIN: Final[Mapping[str, str]] = {
    "negative": "neg", "conjugate": "conj_physical", "absolute": "abs", "fabs": "abs", "sign": "sign", "sqrt": "sqrt", "square": "square",
    "reciprocal": "reciprocal", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round", "invert": "bitwise_not",
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "floor_divide": "floor_divide",
    "remainder": "remainder", "fmod": "fmod", "power": "pow", "float_power": "pow", "arctan2": "atan2",
    "hypot": "hypot", "maximum": "maximum", "minimum": "minimum", "fmax": "fmax",
    "fmin": "fmin", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
}  # fmt: skip
"""Functions that compute in the type of their result."""

_PREDICATES: Final[Mapping[str, str]] = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "logical_not": "logical_not", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite",
}  # fmt: skip
"""Functions that compute in the type of their operands and return bools."""

_COMPARISONS: Final = frozenset("equal not_equal less less_equal greater greater_equal".split())

_TAKES_NUMBER: Final = frozenset(
    "add sub mul div remainder fmod pow eq ne lt le gt ge floor_divide bitwise_left_shift bitwise_right_shift".split()
)
"""Ops whose second operand may be a Python number."""
_MIRRORED: Final[Mapping[str, str]] = {"add": "add", "mul": "mul", "eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""The equivalent op when the operands are swapped."""


UFUNCS: Final = (*_PLAIN, *_PREDICATES, "positive", "matmul", "vecdot")
"""The names of NumPy's universal functions that are traced."""


def apply_ufunc(ufunc: np.ufunc, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Returns `ufunc(*inputs, **options)` as an array of the trace."""
    record = recorder_of(inputs)
    name = ufunc.__name__
    out, dtype = options.get("out"), options.get("dtype")
    unknown = [key for key, value in options.items() if key not in ("out", "dtype", "casting", "order") and value is not True]
    refuse_if(unknown, f"np.{name} with {', '.join(unknown[:1])}= cannot be traced", "use np.where on the result")
    refuse_if(name not in UFUNCS, f"there is no op for np.{name}", "write it with simpler functions")
    result = _elementwise(record, ufunc, inputs, dtype)
    target = out[0] if isinstance(out, tuple) else out
    if target is None:
        return result
    assign(target, result, "same_kind")
    return target


def _elementwise(record: Recorder, ufunc: np.ufunc, inputs: Sequence[Any], dtype: Any) -> Any:
    # plain Python numbers stay, since they promote as numbers
    operands: list[Traced | Number] = [given if is_plain_number(given) else as_traced(record, given) for given in inputs]
    name, *wanted, result = ufunc.__name__, *_loop(ufunc, operands, dtype)
    given = [cast(o, w) if isinstance(o, Traced) else o for o, w in zip(operands, wanted, strict=True)]
    if name in ("positive", "conjugate") and (name == "positive" or result.kind != "c"):
        return given[0] if given[0] is not inputs[0] else copied(given[0])
    constant = _decided(ufunc, operands)
    if constant is not None:
        return filled(record, broadcast(*(o.shape for o in given if isinstance(o, Traced))), constant, bool)

    def plain(*parts: Any) -> Any:
        op, arranged = _arranged(record, _PLAIN.get(name) or _PREDICATES[name], list(parts), wanted)
        return record.op(f"aten::{op}", *arranged)

    own = DIFFERENT.get(name)
    return plain(*given) if own is None else own(plain, given, inputs)


def _loop(ufunc: np.ufunc, operands: Sequence[Traced | Number], dtype: Any) -> list[np.dtype[Any]]:
    """Returns the types of the operands and of the result in the loop that NumPy would run."""
    kinds = [o.dtype if isinstance(o, Traced) else np.dtype(bool) if isinstance(o, bool) else type(o) for o in operands]
    signature = {} if dtype is None else {"signature": (None,) * len(operands) + (np.dtype(dtype),)}
    try:
        *wanted, result = ufunc.resolve_dtypes((*kinds, None), **signature)  # type: ignore[arg-type]
    except TypeError as error:
        raise refused(str(error), "cast with .astype", wrong_arguments=True) from None
    if ufunc.__name__ in _PLAIN and ufunc.__name__ != "absolute":
        wanted = [result for _ in wanted]
    return [*wanted, result]


def _decided(ufunc: np.ufunc, operands: Sequence[Traced | Number]) -> bool | None:
    """Returns what a comparison of integers with a Python integer outside of their type gives for all of them; None for others."""
    numbers = [o for o in operands if not isinstance(o, Traced)]
    arrays = [o for o in operands if isinstance(o, Traced) and o.dtype.kind in "iu"]
    if ufunc.__name__ not in _COMPARISONS or not arrays or len(numbers) != 1 or not isinstance(numbers[0], int):
        return None
    limits = np.iinfo(arrays[0].dtype)
    if limits.min <= numbers[0] <= limits.max:
        return None
    return bool(ufunc(*(0 if isinstance(o, Traced) else 1 if numbers[0] > 0 else -1 for o in operands)))


def _arranged(record: Recorder, op: str, operands: list[Any], types: Sequence[np.dtype[Any]]) -> tuple[str, list[Any]]:
    """Returns the op and its operands, with a Python number where the op takes one, and a constant array where it does not."""
    if len(operands) == 1:
        return op, operands
    first, second = operands
    if not isinstance(first, Traced) and op in _MIRRORED:
        op, first, second = _MIRRORED[op], second, first
    if not isinstance(first, Traced) and op == "sub" and types[0] != np.dtype(bool):
        return "rsub", [second, number_of(first, types[0]), 1]
    if not isinstance(first, Traced) and op != "pow":
        first = _filled(record, first, types[0])
    elif not isinstance(first, Traced):
        first = number_of(first, types[0])
    if not isinstance(second, Traced):
        plain = op in _TAKES_NUMBER and types[1].kind in "iufc"
        second = number_of(second, types[1]) if plain else _filled(record, second, types[1])
    return op, [first, second, 1] if op in ("add", "sub") else [first, second]


def number_of(given: Any, dtype: np.dtype[Any]) -> Number:
    """Converts a number for an element type. Raises ArgumentError for one that does not fit, where NumPy raises too.

    A float is rounded where the op would not do so: torch computes halves with numbers as they are.
    """
    try:
        with np.errstate(all="ignore"):
            rounded = dtype.type(given)
    except (OverflowError, TypeError, ValueError) as error:
        raise refused(str(error), "choose another element type with .astype", wrong_arguments=True) from None
    if dtype.kind == "c":
        return complex(given)
    if dtype.kind == "f":
        return float(rounded) if dtype.itemsize == 2 or not np.isfinite(rounded) else float(given)
    return bool(rounded) if dtype.kind == "b" else int(rounded)


def _filled(record: Recorder, given: Number, dtype: np.dtype[Any]) -> Any:
    return record.array(dtype.type(number_of(given, dtype)))


def is_plain_number(given: Any) -> bool:
    """Checks for a plain Python number, which takes the type of the array it is combined with."""
    return isinstance(given, bool | int | float | complex) and not isinstance(given, np.generic)


def as_traced(record: Recorder, given: Any) -> Any:
    """Returns an array of the trace; a NumPy array or number from outside the trace is recorded first."""
    if isinstance(given, Traced):
        return given
    if isinstance(given, list | tuple) and any(isinstance(item, Traced) for item in given):
        raise refused("a list of arrays is used as one array", "put them together with np.stack")
    if not isinstance(given, np.ndarray | np.generic | bool | int | float | complex | list | tuple):
        kind = type(given).__name__
        raise refused(f"an object of type {kind} is used as an array", "use arrays and numbers", wrong_arguments=True)
    return record.array(given)


def recorder_of(things: Sequence[Any]) -> Recorder:
    """Returns the recorder of the trace that these arrays belong to."""
    stack = list(things)
    while stack:
        thing = stack.pop()
        if isinstance(thing, Traced):
            return thing.record
        if isinstance(thing, list | tuple):
            stack.extend(thing)
    raise AssertionError("a function of the trace is called without one of its arrays")


def all_traced(*given: Any) -> list[Any]:
    """Returns operands, of which one is of a trace, as arrays of that trace."""
    record = recorder_of(given)
    return [as_traced(record, each) for each in given]


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the common shape. Raises ArgumentError with the user's line."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        joined = " and ".join(map(str, shapes))
        raise refused(f"shapes {joined} do not broadcast together", wrong_arguments=True) from None


def cast(array: Any, dtype: Any) -> Any:
    """Returns the array in another element type; the same array if it already has it."""
    dtype = np.dtype(dtype)
    if array.dtype == dtype:
        return array
    if array.dtype == np.float64 and dtype == np.float16:
        return half_of(array)
    return array.record.op("aten::to", array, code_of(dtype), False, False, None)


def copied(array: Any) -> Any:
    """Returns a fresh array with the same elements."""
    return array.record.op("aten::clone", array, None)


def filled(record: Recorder, shape: Any, value: Any, dtype: Any = None) -> Any:
    """Returns a new array filled with one number."""
    extents = extents_of(shape)
    kind = np.asarray(value).dtype if dtype is None else np.dtype(dtype)
    number = number_of(value, kind)
    return record.op("aten::full", extents, number, code_of(kind), None, None, None)


def extents_of(shape: Any) -> tuple[int, ...]:
    """Returns a shape argument as a tuple of numbers."""
    return tuple(int(extent) for extent in shape) if isinstance(shape, tuple | list) else (int(shape),)


def assign(target: Any, source: Any, casting: Any = "unsafe") -> None:
    """Writes elements into an array, as `target[...] = source` does: its views and its base see the write."""
    if not isinstance(target, Traced):
        raise refused("the result is written into a NumPy array", "assign it to a name instead of out= or +=")
    record = target.record
    refuse_if(target.read_only, "an array that was broadcast is written", "write into a .copy()", wrong_arguments=True)
    if record.copied_view:
        what = f"an array is written after a view that the graph copies was taken at {record.copied_view}"
        raise refused(what, "write first, or make the reversed array with .copy()")
    source = as_traced(record, source)
    if not np.can_cast(source.dtype, target.dtype, casting):
        what = f"{source.dtype} cannot be written into {target.dtype} by the casting rule {casting!r}"
        raise refused(what, "cast it with .astype", wrong_arguments=True)
    if broadcast(source.shape, target.shape) != target.shape:
        raise refused(f"shape {source.shape} does not fit into {target.shape}", wrong_arguments=True)
    record.keep_numbers(target.root)
    if source.root is target.root:  # NumPy buffers when the two overlap
        source = copied(source)
    record.op("aten::copy_", target, source, False, root=target.root)


# Elementwise functions that NumPy and torch compute differently, made of ops that mean NumPy's.
#
# NumPy's sign of NaN is NaN, and that of a complex number the number of size 1 in its direction; a reciprocal of integers is an
# integer; an integer divided by zero is 0; a remainder of 0 has the sign of the divisor; an integer has no negative powers. NumPy
# rounds a float64 to float16 once, torch to float32 first.

Plain = Callable[..., Any]
"""Records torch's op of the function on operands of the types that NumPy's loop takes."""


def _sign(plain: Plain, operands: Sequence[Any], given: Sequence[Any]) -> Any:
    (x,) = operands
    if x.dtype.kind == "f":
        return np.where(np.isnan(x), x, plain(x))
    if x.dtype.kind != "c":
        return plain(x)
    direction = x.record.op("aten::sgn", x)
    real, imaginary = [np.sign(np.where(np.isinf(part), part, 0)) for part in (x.real, x.imag)]
    return np.where((real != 0) != (imaginary != 0), complex_of(real, imaginary), direction)


def complex_of(real: Any, imaginary: Any) -> Any:
    """Records the complex numbers of these parts, as they are: a sum would make NaN of an infinite one."""
    return real.record.op("aten::complex", real, imaginary)


def _reciprocal(plain: Plain, operands: Sequence[Any], given: Sequence[Any]) -> Any:
    """NumPy's result for an integer 0 depends on the processor; here it is 0."""
    (x,) = operands
    if x.dtype.kind == "c":  # as NumPy, divide by the larger part first
        real, imaginary = x.real, x.imag
        wide = abs(imaginary) <= abs(real)
        ratio = np.where(wide, imaginary / real, real / imaginary)
        scale = np.where(wide, real + imaginary * ratio, real * ratio + imaginary)
        return complex_of(np.where(wide, 1 / scale, ratio / scale), np.where(wide, -ratio, -1) / scale)
    if x.dtype.kind == "f":
        return plain(x)
    ones = (x == 1).astype(x.dtype)
    return ones if x.dtype.kind == "u" else ones - (x == -1).astype(x.dtype)


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
