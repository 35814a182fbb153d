"""NumPy's reductions, scans and products of matrices as aten ops; result types are NumPy's (a sum of int32 is int64)."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from irscope.frontends.tracing.importer import code_of, refused
from irscope.frontends.tracing.ops_pointwise import all_traced, cast, copied


def axis_of(axis: Any, ndim: int) -> int:
    """Returns an axis counted from the front. Raises ArgumentError with the user's line."""
    number = axis.__index__()
    if not -ndim <= number < ndim:
        raise refused(f"axis {number} is out of bounds for an array of {ndim} dimensions", wrong_arguments=True)
    return int(number % ndim)


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Returns the given axes in ascending order; all for None."""
    given = range(ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    found = tuple(sorted(axis_of(item, ndim) for item in given))
    if len(set(found)) != len(found):
        raise refused(f"an axis is named twice in {axis}", wrong_arguments=True)
    return found


def _lenient_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Returns the axes for a reduction that lets an array without axes have a first and a last one."""
    return () if not ndim and axis in (0, -1) else axes_of(axis, ndim)


def _options(name: str, out: Any, others: dict[str, Any]) -> None:
    given = [key for key, value in others.items() if value is not None and value is not np._NoValue and value is not True]
    if out is not None or given:
        raise refused(f"np.{name} with {'out' if out is not None else given[0]}= cannot be traced", "leave it out")


def _keeps(keepdims: Any) -> bool:
    return keepdims is not np._NoValue and bool(keepdims)


def _natural(dtype: np.dtype[Any], wanted: np.dtype[Any]) -> int | None:
    """Returns the dtype argument of a sum: None if the op returns this type anyway."""
    given = np.dtype(np.int64) if dtype.kind in "biu" else dtype
    return None if wanted == given else code_of(wanted)


def sum_(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Any:
    _options("sum", out, others)
    result = np.sum(np.zeros(1, a.dtype), dtype=dtype).dtype
    axes, keep = _lenient_axes(axis, a.ndim), _keeps(keepdims)
    if not axes:
        return np.add(cast(a, result), 0)
    return a.record.op("aten::sum", a, axes, keep, _natural(a.dtype, result))


def prod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Any:
    _options("prod", out, others)
    result = np.prod(np.zeros(1, a.dtype), dtype=dtype).dtype
    a, axes = cast(a, result), _lenient_axes(axis, a.ndim)
    return _one_by_one("aten::prod", a, axes, _keeps(keepdims), code_of(result)) if axes else np.multiply(a, 1)


def _one_by_one(op: str, a: Any, axes: Sequence[int], keep: bool, *rest: Any) -> Any:
    """Reduces several axes with an op that reduces one: the last first, so that the others keep their numbers."""
    for place in reversed(axes):
        a = a.record.op(op, a, place, keep, *rest)
    return a


def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Any:
    _options("mean", out, others)
    result = np.mean(np.zeros(1, a.dtype), dtype=dtype).dtype
    axes, keep = axes_of(axis, a.ndim), _keeps(keepdims)
    if not axes or result.kind in "iu":
        return cast(sum_(a, axis, result, keepdims=keepdims) / _count(a, axes), result)
    a = cast(a, result)
    return a.record.op("aten::mean", a, axes, keep, None)


def _extreme(op: str, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Any:
    _options(op, out, others)
    axes, keep = _lenient_axes(axis, a.ndim), _keeps(keepdims)
    if not axes:
        return copied(a)
    if any(a.shape[place] == 0 for place in axes):
        raise refused("the largest of no elements does not exist", wrong_arguments=True)
    return a.record.op(f"aten::{op}", a, axes, keep)


def _count(a: Any, axes: Sequence[int]) -> int:
    return math.prod(a.shape[place] for place in axes)


def _spread(
    op: str, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, **others: Any
) -> Any:  # fmt: skip
    correction = others.pop("correction", np._NoValue)
    _options(op, out, others)
    result = np.var(np.zeros(2, a.dtype), dtype=dtype).dtype
    axes, keep = axes_of(axis, a.ndim), _keeps(keepdims)
    less = ddof if correction is np._NoValue else correction
    if axes and result.kind == "f" and (a.dtype.kind != "c" or dtype is None):
        a = a if a.dtype.kind == "c" else cast(a, result)
        return a.record.op(f"aten::{op}", a, axes, less, keep)
    spread = _variance(a, axes, dtype, less, keep, result)
    if op == "var":
        return spread
    if result.kind in "iu" and spread.shape:
        raise refused(f"a root of {result} cannot be written into {result}", "leave dtype= out", wrong_arguments=True)
    return cast(np.sqrt(spread), result)


def _variance(a: Any, axes: tuple[int, ...], dtype: Any, less: Any, keep: bool, result: np.dtype[Any]) -> Any:
    """Computes a variance step by step, each in the type that NumPy chooses: no op has a `dtype` with that meaning."""
    count = _count(a, axes)
    summed = np.dtype(np.float64) if dtype is None and a.dtype.kind in "biu" else dtype
    centre = sum_(a, axes, summed, keepdims=True)
    rest = a - cast(centre / count, centre.dtype)
    return cast(sum_(_squared_size(rest), axes, summed, keepdims=keep) / max(count - less, 0), result)


def _squared_size(a: Any) -> Any:
    return np.square(a.real) + np.square(a.imag) if a.dtype.kind == "c" else np.square(a)


def _place_of_extreme(op: str, a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    _options(op, out, {})
    keep, axes = _keeps(keepdims), _lenient_axes(axis, a.ndim)
    place = axes[0] if axes and axis is not None else None
    made = a.record.op(f"aten::{op}", a, place, keep and axis is not None)
    return made.record.op("aten::reshape", made, (1,) * a.ndim) if keep and axis is None else made


def _quantifier(op: str, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Any:
    _options(op, out, others)
    axes, keep = _lenient_axes(axis, a.ndim), _keeps(keepdims)
    return _one_by_one(f"aten::{op}", as_bool(a), axes, keep) if axes else copied(as_bool(a))


def as_bool(a: Any) -> Any:
    """Returns a mask of the nonzero elements."""
    return a if a.dtype == bool else a.record.op("aten::ne", a, 0)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return sum_(as_bool(a), axis, keepdims=keepdims)


def _scan(op: str, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    _options(op, out, {})
    result = getattr(np, op)(np.zeros(1, a.dtype), dtype=dtype).dtype
    if axis is None or not _lenient_axes(axis, a.ndim):
        a, axis = a.record.op("aten::reshape", a, (-1,), root=a.root), 0
    return a.record.op(f"aten::{op}", a, axis_of(axis, a.ndim), _natural(a.dtype, result))


def _sorted(a: Any, axis: Any) -> list[Any]:
    if axis is None or (not a.ndim and not _lenient_axes(axis, 0)):
        a, axis = a.record.op("aten::reshape", a, (-1,)), 0
    return list(a.record.ops("aten::sort", 2, a, True, axis_of(axis, a.ndim), False))


def sort(a: Any, axis: Any = -1, **others: Any) -> Any:
    if axis is not None:
        axis_of(axis, a.ndim)
    _options("sort", None, {key: value for key, value in others.items() if key not in ("kind", "stable")})
    return _sorted(a, axis)[0]


def argsort(a: Any, axis: Any = -1, **others: Any) -> Any:
    _options("argsort", None, {key: value for key, value in others.items() if key not in ("kind", "stable")})
    return _sorted(a, axis)[1]


def matmul(a: Any, b: Any) -> Any:
    a, b = all_traced(a, b)
    if not a.ndim or not b.ndim:
        raise refused("matmul does not take numbers", "multiply by a number with *", wrong_arguments=True)
    result = np.matmul.resolve_dtypes((a.dtype, b.dtype, None))[-1]
    return a.record.op("aten::matmul", cast(a, result), cast(b, result))


def dot(a: Any, b: Any, out: Any = None) -> Any:
    _options("dot", out, {})
    a, b = all_traced(a, b)
    if not a.ndim or not b.ndim:
        return a * b
    if b.ndim > 2 or (a.ndim > 2 and b.ndim > 1):
        raise refused("np.dot of arrays with more than two axes cannot be traced", "use np.matmul or np.einsum")
    return matmul(a, b)


def outer(a: Any, b: Any, out: Any = None) -> Any:
    _options("outer", out, {})
    a, b = all_traced(a, b)
    return a.reshape(-1, 1) * b.reshape(1, -1)


def vecdot(a: Any, b: Any, axis: Any = -1) -> Any:
    if not np.ndim(a) or not np.ndim(b):
        raise refused("vecdot takes vectors, not numbers", "multiply them with *", wrong_arguments=True)
    a, b = all_traced(a, b)
    return sum_(np.conjugate(a) * b, axis, dtype=np.result_type(a.dtype, b.dtype))


def einsum(subscripts: Any, *operands: Any, **others: Any) -> Any:
    _options("einsum", None, {key: value for key, value in others.items() if key != "optimize"})
    arrays = all_traced(*operands)
    if not isinstance(subscripts, str) or "." in subscripts:
        raise refused("np.einsum is traced from a text without '...' only", "name every axis")
    result = np.result_type(*(array.dtype for array in arrays))
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    if not arrow:
        output = "".join(sorted(letter for letter in set(inputs) if letter != "," and inputs.count(letter) == 1))
    given = [cast(array, result) for array in arrays]
    return arrays[0].record.op("aten::einsum", f"{inputs}->{output}", given, None)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    axes = axes_of(axis, x.ndim)
    x = x if x.dtype.kind in "fc" else cast(x, np.float64)
    if ord is None or (ord == 2 and len(axes) == 1):
        return np.sqrt(sum_(_squared_size(x), axis, keepdims=keepdims))
    if len(axes) != 1 or not isinstance(ord, int | float):
        raise refused("only the Euclidean norm of matrices can be traced", "np.linalg.norm(x, ord, axis=0) is that of vectors")
    size = np.abs(x)
    if math.isinf(ord):
        return REDUCTIONS["max" if ord > 0 else "min"](size, axis, keepdims=keepdims)
    if ord == 0:
        return sum_(cast(x != 0, size.dtype), axis, keepdims=keepdims)
    summed = sum_(size if ord == 1 else size**ord, axis, keepdims=keepdims)
    return summed if ord == 1 else summed ** (1 / ord)


REDUCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "sum": sum_, "prod": prod, "mean": mean, "max": partial(_extreme, "amax"), "min": partial(_extreme, "amin"),
    "amax": partial(_extreme, "amax"), "amin": partial(_extreme, "amin"),
    **{
        name: partial(function, name)
        for function, names in ((_spread, ("var", "std")), (_place_of_extreme, ("argmax", "argmin")), (_quantifier, ("any", "all")),
                                (_scan, ("cumsum", "cumprod")))
        for name in names
    },
    "count_nonzero": count_nonzero, "sort": sort, "argsort": argsort, "dot": dot, "outer": outer, "einsum": einsum, "linalg.norm": norm,
    "vecdot": vecdot, "matmul": matmul,
}  # fmt: skip
"""The functions by their NumPy names."""
