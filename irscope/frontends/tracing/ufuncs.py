"""NumPy's elementwise functions as aten ops, with NumPy's element types made explicit by casts.

`ufunc.resolve_dtypes` is NumPy's own promotion, Python numbers included: operands are cast to the types of the loop that
NumPy would run, so that the op has nothing left to promote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from irscope.frontends.tracing.record import Recorder, Traced, code_of, refused

__all__ = [
    "apply_ufunc",
    "as_traced",
    "assign",
    "broadcast",
    "cast",
    "copied",
    "is_plain_number",
    "recorder_of",
]

Number = bool | int | float | complex

_PLAIN: Final[Mapping[str, str]] = {
    "negative": "neg", "absolute": "abs", "fabs": "abs", "sign": "sign", "sqrt": "sqrt", "square": "square",
    "reciprocal": "reciprocal", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round", "invert": "bitwise_not",
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "floor_divide": "floor_divide",
    "remainder": "remainder", "fmod": "fmod", "power": "pow", "float_power": "pow", "arctan2": "atan2",
    "hypot": "hypot", "maximum": "maximum", "minimum": "minimum", "fmax": "fmax",
    "fmin": "fmin", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
}  # fmt: skip
"""Functions that compute in the type of their result."""

_PREDICATES: Final[Mapping[str, str]] = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "logical_not": "logical_not", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite",
}  # fmt: skip
"""Functions that compute in the type of their operands and return bools."""

_SHIFTS: Final[Mapping[str, str]] = {"left_shift": "mul", "right_shift": "floor_divide"}
"""Shifts by a number of bits, as a product or quotient with a power of two."""

_TAKES_NUMBER: Final = frozenset("add sub mul div remainder fmod pow eq ne lt le gt ge floor_divide".split())
"""Ops whose second operand may be a Python number."""
_MIRRORED: Final[Mapping[str, str]] = {
    "add": "add", "mul": "mul", "eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le",
}  # fmt: skip
"""The equivalent op when the operands are swapped."""


def apply_ufunc(ufunc: np.ufunc, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Returns `ufunc(*inputs, **options)` as an array of the trace."""
    record = recorder_of(inputs)
    name = ufunc.__name__
    out, dtype = options.get("out"), options.get("dtype")
    unknown = [
        key for key, value in options.items() if key not in ("out", "dtype", "casting", "order") and value is not True
    ]
    if unknown:
        raise refused(f"np.{name} with {unknown[0]}= cannot be traced", "use np.where on the result")
    if name == "positive":
        result = copied(as_traced(record, inputs[0]))
    elif name in _SHIFTS:
        result = _shifted(as_traced(record, inputs[0]), name, inputs[1])
    elif name not in _PLAIN and name not in _PREDICATES:
        raise refused(f"there is no op for np.{name}", "write it with simpler functions")
    else:
        result = _elementwise(record, ufunc, [_operand(record, given) for given in inputs], dtype)
    target = out[0] if isinstance(out, tuple) else out
    if target is None:
        return result
    assign(target, result, "same_kind")
    return target


def _elementwise(record: Recorder, ufunc: np.ufunc, operands: list[Traced | Number], dtype: Any) -> Any:
    kinds = [o.dtype if isinstance(o, Traced) else np.dtype(bool) if isinstance(o, bool) else type(o) for o in operands]
    signature = {} if dtype is None else {"signature": (None,) * len(operands) + (np.dtype(dtype),)}
    *wanted, result = ufunc.resolve_dtypes((*kinds, None), **signature)  # type: ignore[arg-type]
    name = ufunc.__name__
    if name in _PLAIN and name not in ("absolute",):
        wanted = [result for _ in wanted]
    shape = broadcast(*(o.shape for o in operands if isinstance(o, Traced)))
    cast_operands = [cast(o, w) if isinstance(o, Traced) else o for o, w in zip(operands, wanted, strict=True)]
    op = _PLAIN.get(name) or _PREDICATES[name]
    if op == "pow":
        _check_power(cast_operands, result)
    op, given = _arranged(record, op, cast_operands, wanted)
    return record.op(f"aten::{op}", *given, dtype=result, shape=shape)


def _arranged(record: Recorder, op: str, operands: list[Any], types: Sequence[np.dtype[Any]]) -> tuple[str, list[Any]]:
    """Returns the op and its operands, with a Python number where the op takes one, and a constant array where it does
    not."""
    if len(operands) == 1:
        return op, operands
    first, second = operands
    if not isinstance(first, Traced) and op in _MIRRORED:
        op, first, second = _MIRRORED[op], second, first
    if not isinstance(first, Traced) and op == "sub" and types[0] != np.dtype(bool):
        return "rsub", [second, _number(first, types[0]), 1]
    if not isinstance(first, Traced) and op != "pow":
        first = _filled(record, first, types[0])
    elif not isinstance(first, Traced):
        first = _number(first, types[0])
    if not isinstance(second, Traced):
        plain = op in _TAKES_NUMBER and types[1].kind in "iufc"
        second = _number(second, types[1]) if plain else _filled(record, second, types[1])
    return op, [first, second, 1] if op in ("add", "sub") else [first, second]


def _shifted(array: Any, name: str, bits: Any) -> Any:
    if isinstance(bits, Traced | np.ndarray) or array.dtype.kind not in "iu":
        raise refused("a shift by an array, or of values that are not integers, cannot be traced", "multiply by a power of two")
    if isinstance(bits, np.generic):
        array = cast(array, np.result_type(array.dtype, bits.dtype))
    if not 0 <= bits < 8 * array.dtype.itemsize - 1:
        raise refused(f"a shift of {array.dtype} by {bits} bits leaves nothing", wrong_arguments=True)
    return array.record.op(f"aten::{_SHIFTS[name]}", array, 1 << int(bits), dtype=array.dtype, shape=array.shape)


def _check_power(operands: Sequence[Any], result: np.dtype[Any]) -> None:
    exponent = operands[1]
    if result.kind in "iu" and isinstance(exponent, int) and exponent < 0:
        raise ValueError("Integers to negative integer powers are not allowed.")


def _number(given: Any, dtype: np.dtype[Any]) -> Number:
    """Converts a number for an element type. Raises OverflowError for one that does not fit, as NumPy does."""
    if dtype.kind == "c":
        return complex(given)
    if dtype.kind == "f":
        return float(given)
    number = int(dtype.type(given))
    return bool(number) if dtype.kind == "b" else number


def _filled(record: Recorder, given: Number, dtype: np.dtype[Any]) -> Any:
    return record.array(dtype.type(given))


def _operand(record: Recorder, given: Any) -> Traced | Number:
    """Returns an operand as an array of the trace; plain Python numbers stay, since they promote as numbers."""
    found: Traced | Number = given if is_plain_number(given) else as_traced(record, given)
    return found


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
    return array.record.op("aten::to", array, code_of(dtype), False, False, None, dtype=dtype, shape=array.shape)


def copied(array: Any) -> Any:
    """Returns a fresh array with the same elements."""
    return array.record.op("aten::clone", array, None, dtype=array.dtype, shape=array.shape)


def assign(target: Any, source: Any, casting: Any = "unsafe") -> None:
    """Writes elements into an array, as `target[...] = source` does: its views and its base see the write."""
    if not isinstance(target, Traced):
        raise refused("the result is written into a NumPy array", "assign it to a name instead of out= or +=")
    record = target.record
    if target.read_only:
        raise refused("an array that was broadcast is written", "write into a .copy()", wrong_arguments=True)
    if record.copied_view:
        what = f"an array is written after a view that the graph copies was taken at {record.copied_view}"
        raise refused(what, "write first, or make the reversed array with .copy()")
    source = as_traced(record, source)
    if not np.can_cast(source.dtype, target.dtype, casting):
        what = f"{source.dtype} cannot be written into {target.dtype} by the casting rule {casting!r}"
        raise refused(what, "cast it with .astype", wrong_arguments=True)
    if broadcast(source.shape, target.shape) != target.shape:
        raise refused(f"shape {source.shape} does not fit into {target.shape}", wrong_arguments=True)
    if source.root is target.root:  # NumPy buffers when the two overlap
        source = copied(source)
    record.op("aten::copy_", target, source, False, dtype=target.dtype, shape=target.shape, root=target.root)
