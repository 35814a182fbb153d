"""NumPy's functions of whole arrays as aten ops: reductions, scans and products, whose result types are NumPy's (a sum of int32 is int64),
and those that rearrange, join, select and copy; NumPy's views are views in the graph."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from irscope.frontends.tracing.importer import Traced, code_of, refuse_if, refused
from irscope.frontends.tracing.ops_pointwise import (
    all_traced,
    as_traced,
    assign,
    broadcast,
    cast,
    complex_of,
    copied,
    extents_of,
    filled,
    is_plain_number,
    number_of,
    recorder_of,
)


def axis_of(axis: Any, ndim: int) -> int:
    """Returns an axis counted from the front. Raises ArgumentError with the user's line."""
    number = axis.__index__()
    refuse_if(not -ndim <= number < ndim, f"axis {number} is out of bounds for an array of {ndim} dimensions", wrong_arguments=True)
    return int(number % ndim)


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Returns the given axes in ascending order; all for None."""
    given = range(ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    found = tuple(sorted(axis_of(item, ndim) for item in given))
    refuse_if(len(set(found)) != len(found), f"an axis is named twice in {axis}", wrong_arguments=True)
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
    refuse_if(any(a.shape[place] == 0 for place in axes), "the largest of no elements does not exist", wrong_arguments=True)
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
    refuse_if(not a.ndim or not b.ndim, "matmul does not take numbers", "multiply by a number with *", wrong_arguments=True)
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
    refuse_if(not np.ndim(a) or not np.ndim(b), "vecdot takes vectors, not numbers", "multiply them with *", wrong_arguments=True)
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
    wrong = len(set(output)) < len(output) or not set(output) <= {*inputs} - {","}
    refuse_if(wrong, f"{subscripts!r} names an axis of the result twice, or one that no array has", wrong_arguments=True)
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
        return _extreme("amax" if ord > 0 else "amin", size, axis, keepdims=keepdims)
    if ord == 0:
        return sum_(cast(x != 0, size.dtype), axis, keepdims=keepdims)
    summed = sum_(size if ord == 1 else size**ord, axis, keepdims=keepdims)
    return summed if ord == 1 else summed ** (1 / ord)


# Functions that rearrange, join, select and copy.


def view_of(op: str, array: Any, *operands: Any) -> Any:
    """Records a view, which has the same memory; that of a number is an array of its own."""
    array = copied(array) if array.is_number else array
    made = array.record.op(f"aten::{op}", array, *operands, root=array.root)
    made.read_only = array.read_only or op == "expand"
    return made


def reshape(a: Any, shape: Any = None, order: Any = "C", *, newshape: Any = None, copy: Any = None) -> Any:
    if order != "C":
        raise refused(f"reshape in order {order!r} cannot be traced", "transpose first")
    extents = extents_of(newshape if shape is None else shape)
    if extents.count(-1) == 1:
        rest = math.prod(extent for extent in extents if extent != -1)
        missing = a.size // rest if rest else 0
        extents = tuple(missing if extent == -1 else extent for extent in extents)
    if math.prod(extents) != a.size or min(extents, default=0) < 0:
        raise refused(f"an array of shape {a.shape} cannot be reshaped to {extents}", wrong_arguments=True)
    return view_of("reshape", copied(a) if copy else a, extents)


def transpose(a: Any, axes: Any = None) -> Any:
    return view_of("permute", a, tuple(reversed(range(a.ndim)) if axes is None else [axis_of(axis, a.ndim) for axis in axes]))


def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    order = list(range(a.ndim))
    first, second = axis_of(axis1, a.ndim), axis_of(axis2, a.ndim)
    order[first], order[second] = order[second], order[first]
    return view_of("permute", a, tuple(order))


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    sources = [axis_of(axis, a.ndim) for axis in extents_of(source)]
    places = [axis_of(axis, a.ndim) for axis in extents_of(destination)]
    order = [axis for axis in range(a.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return view_of("permute", a, tuple(order))


def expand_dims(a: Any, axis: Any) -> Any:
    given = extents_of(axis)
    rank = a.ndim + len(given)
    for place in sorted(axis_of(item, rank) for item in given):
        a = view_of("unsqueeze", a, place)
    return a


def squeeze(a: Any, axis: Any = None) -> Any:
    places = [i for i, extent in enumerate(a.shape) if extent == 1] if axis is None else axes_of(axis, a.ndim)
    for place in reversed(places):
        refuse_if(a.shape[place] != 1, f"axis {place} has {a.shape[place]} elements and cannot be squeezed", wrong_arguments=True)
        a = view_of("squeeze", a, place)
    return a


def broadcast_to(a: Any, shape: Any, subok: Any = False) -> Any:
    wanted = extents_of(shape)
    refuse_if(broadcast(a.shape, wanted) != wanted, f"shape {a.shape} cannot be broadcast to {wanted}", wrong_arguments=True)
    return a if a.shape == wanted else view_of("expand", a, wanted, False)


def broadcast_arrays(*arrays: Any, subok: Any = False) -> tuple[Any, ...]:
    given = all_traced(*arrays)
    shape = broadcast(*(array.shape for array in given))
    return tuple(broadcast_to(array, shape) for array in given)


def ravel(a: Any, order: Any = "C") -> Any:
    return reshape(a, -1, order)


def flip(m: Any, axis: Any = None) -> Any:
    made = m.record.op("aten::flip", m, axes_of(axis, m.ndim))
    m.record.note_copied_view()
    return made


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    places = extents_of(axis)
    shifts = extents_of(shift) * (1 if isinstance(shift, tuple | list) else len(places))
    axes = tuple(axis_of(place, a.ndim) for place in places)
    return a.record.op("aten::roll", a, shifts, axes)


def _promoted(name: str, arrays: Any, out: Any, others: Mapping[str, Any]) -> list[Any]:
    """Casts the arrays that a function joins to their common element type."""
    if out is not None or others.get("dtype") is not None:
        raise refused(f"np.{name} with out= or dtype= cannot be traced", "cast the result")
    given = all_traced(*arrays)
    result = np.result_type(*(array.dtype for array in given))
    return [cast(array, result) for array in given]


def concatenate(arrays: Any, axis: Any = 0, out: Any = None, **others: Any) -> Any:
    given = _promoted("concatenate", arrays, out, others)
    if axis is None:
        given, axis = [ravel(array) for array in given], 0
    place = axis_of(axis, given[0].ndim)
    mixed = len({array.ndim for array in given}) > 1  # torch's `cat` takes an empty vector beside any
    refuse_if(mixed, f"{_of_shapes(given)} cannot be joined along axis {place}", wrong_arguments=True)
    return given[0].record.op("aten::cat", given, place)


def stack(arrays: Any, axis: Any = 0, out: Any = None, **others: Any) -> Any:
    given = _promoted("stack", arrays, out, others)
    refuse_if(len({array.shape for array in given}) > 1, f"{_of_shapes(given)} cannot be stacked", wrong_arguments=True)
    return given[0].record.op("aten::stack", given, axis_of(axis, given[0].ndim + 1))


def _of_shapes(given: Sequence[Any]) -> str:
    return f"arrays of shapes {', '.join(str(array.shape) for array in given)}"


def split(a: Any, indices_or_sections: Any, axis: Any = 0) -> list[Any]:
    place = axis_of(axis, a.ndim)
    extent = a.shape[place]
    if isinstance(indices_or_sections, int):
        if extent % indices_or_sections:
            raise refused(f"{extent} elements cannot be split into {indices_or_sections} equal parts", wrong_arguments=True)
        cuts = list(range(0, extent + 1, extent // indices_or_sections)) if extent else [0] * (indices_or_sections + 1)
    else:
        cuts = [0, *(int(cut) for cut in indices_or_sections), extent]
    before = (slice(None),) * place
    return [a[(*before, slice(start, stop))] for start, stop in pairwise(cuts)]


def unstack(a: Any, *, axis: Any = 0) -> tuple[Any, ...]:
    place = axis_of(axis, a.ndim)
    return tuple(a[(*(slice(None),) * place, index)] for index in range(a.shape[place]))


def tile(a: Any, reps: Any) -> Any:
    times = extents_of(reps)
    return a.record.op("aten::repeat", a, (1,) * (a.ndim - len(times)) + times)


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    if not isinstance(repeats, int):
        raise refused("np.repeat with a count for each element cannot be traced", "give one number")
    if axis is None or not a.ndim:
        a, axis = ravel(a), 0
    place = axis_of(axis, a.ndim)
    wide = broadcast_to(expand_dims(a, place + 1), (*a.shape[: place + 1], repeats, *a.shape[place + 1 :]))
    return reshape(copied(wide), (*a.shape[:place], a.shape[place] * repeats, *a.shape[place + 1 :]))


def _triangle(op: str, m: Any, k: int = 0) -> Any:
    return m.record.op(f"aten::{op}", m, int(k))


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        raise refused("where without values has a result whose shape depends on data", "use where(condition, x, y)")
    record = recorder_of((condition, x, y))
    condition = as_bool(as_traced(record, condition))
    values = [value if is_plain_number(value) else as_traced(record, value) for value in (x, y)]
    result = np.result_type(*(value.dtype if isinstance(value, Traced) else value for value in values))
    with np.errstate(all="ignore"):  # may wrap around
        numbers = [v if isinstance(v, Traced) else np.asarray(v).astype(result) for v in values]
    given = [cast(as_traced(record, v), result) for v in numbers]
    return record.op("aten::where", condition, *given)


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    if out is not None:
        raise refused("np.clip with out= cannot be traced", "assign the result")
    record = recorder_of((a, low, high))
    a = as_traced(record, a)
    if a.dtype.kind in "iu":  # NumPy ignores a limit beyond the type
        limits = np.iinfo(a.dtype)
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    if all(limit is None or (is_plain_number(limit) and not isinstance(limit, complex)) for limit in (low, high)):
        numbers = [limit for limit in (low, high) if limit is not None]
        if not numbers:
            return copied(a)
        result = np.result_type(a.dtype, *numbers)
        low, high = (None if limit is None else number_of(limit, result) for limit in (low, high))
        return record.op("aten::clamp", cast(a, result), low, high)
    lowered = a if low is None else np.maximum(a, low)
    return lowered if high is None else np.minimum(lowered, high)


def round_(a: Any, decimals: int = 0, out: Any = None) -> Any:
    if out is not None:
        raise refused("np.round with out= cannot be traced", "assign the result")
    if a.dtype.kind in "iu" and decimals >= 0:
        return copied(a)
    if not decimals or a.dtype.kind == "b":
        return np.rint(a, **({"out": a} if decimals else {}))
    if a.dtype.kind == "c":
        return complex_of(round_(a.real, decimals), round_(a.imag, decimals))
    scale = 10.0 ** abs(decimals)
    return cast(np.rint(a * scale) / scale if decimals > 0 else np.rint(a / scale) * scale, a.dtype)


def astype(x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Any:
    return copied(x) if copy and np.dtype(dtype) == x.dtype else cast(x, dtype)


def real(val: Any) -> Any:
    return view_of("real", val) if val.dtype.kind == "c" else val


def imag(val: Any) -> Any:
    if val.dtype.kind == "c":
        return view_of("imag", val)
    made = filled(val.record, val.shape, 0, val.dtype)
    made.read_only = True
    return made


def angle(z: Any, deg: Any = False) -> Any:
    turned = np.arctan2(z.imag, z.real) if z.dtype.kind == "c" else np.arctan2(0, z)
    return turned * (180 / np.pi) if deg else turned


def size(a: Any, axis: Any = None) -> int:
    return int(a.size if axis is None else a.shape[axis_of(axis, a.ndim)])


def full_like(a: Any, fill_value: Any, dtype: Any = None, **others: Any) -> Any:
    return filled(a.record, a.shape if others.get("shape") is None else others["shape"], fill_value, dtype or a.dtype)


def _number_like(number: int, a: Any, dtype: Any = None, **others: Any) -> Any:
    return full_like(a, number, dtype, **others)


def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    if axis is None or not a.ndim:
        a, axis = ravel(a), 0
    taken = a[(*(slice(None),) * axis_of(axis, a.ndim), indices)]
    return copied(taken) if taken.root is a.root else taken  # unlike `a[1]`, a copy


SHAPES: Final[dict[str, Callable[..., Any]]] = {
    "reshape": reshape, "transpose": transpose, "permute_dims": transpose, "swapaxes": swapaxes, "moveaxis": moveaxis,
    "matrix_transpose": partial(swapaxes, axis1=-1, axis2=-2), "expand_dims": expand_dims, "squeeze": squeeze,
    "broadcast_to": broadcast_to, "broadcast_arrays": broadcast_arrays, "ravel": ravel, "flip": flip, "roll": roll,
    "concatenate": concatenate, "concat": concatenate, "stack": stack, "split": split, "unstack": unstack,
    "tile": tile, "repeat": repeat, "tril": partial(_triangle, "tril"), "triu": partial(_triangle, "triu"), "where": where,
    "clip": clip, "round": round_, "around": round_, "astype": astype, "full_like": full_like, "take": take,
    "zeros_like": partial(_number_like, 0), "ones_like": partial(_number_like, 1), "empty_like": partial(_number_like, 0),
    "real": real, "imag": imag, "angle": angle,
    "copy": lambda a, order="K", subok=False: copied(a),
    "shape": lambda a: a.shape, "ndim": lambda a: a.ndim, "size": size,
    "result_type": lambda *given: np.result_type(*(getattr(g, "dtype", g) for g in given)),
}  # fmt: skip
"""Those that rearrange, join, select and copy, by their NumPy names."""
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
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
    **SHAPES,
}  # fmt: skip
"""All functions by their NumPy names, and the array API's where they differ."""


# Reading and writing parts of a traced array: `x[i, 2:8, None, ..., -1]`, and integer arrays on one axis.


def get_item(array: Any, key: Any) -> Any:
    """Returns `array[key]`: a view, or a copy if the key holds an array of integers."""
    return _taken(array, _expanded(array, key))


def set_item(array: Any, key: Any, value: Any) -> None:
    """Performs `array[key] = value` in place: other views of the same memory see the write."""
    items = _expanded(array, key)
    if any(_is_array(item) for item in items):
        mask = next((item for item in items if _is_array(item) and np.asarray(getattr(item, "dtype", item)).dtype == bool), None)
        hint = "np.where(mask, value, x) does it for masks" if mask is not None else "build the result with np.where or np.stack"
        raise refused("an array is written through an array of indices", hint)
    if any(isinstance(item, slice) and (item.step or 1) < 0 for item in items):
        raise refused("a reversed slice is written", "write the slice forwards, and reverse the value")
    assign(_taken(array, items), value)


def _expanded(array: Any, key: Any) -> list[Any]:
    """Returns the key with one item for each axis, and None where an axis is inserted."""
    items = list(key) if isinstance(key, tuple) else [key]
    for place, item in enumerate(items):
        if isinstance(item, list):
            items[place] = np.asarray(item)
    used = sum(item is not None and item is not Ellipsis for item in items)
    refuse_if(used > array.ndim, f"{used} indices are given for an array of {array.ndim} dimensions", wrong_arguments=True)
    places = [place for place, item in enumerate(items) if item is Ellipsis]
    refuse_if(len(places) > 1, "an index has at most one ellipsis", wrong_arguments=True)
    where = places[0] if places else len(items)
    return [*items[:where], *(slice(None) for _ in range(array.ndim - used)), *items[where + 1 :]]


def _is_array(item: Any) -> bool:
    return isinstance(item, Traced | np.ndarray) and not (item.ndim == 0 and isinstance(item, np.ndarray))


def _taken(array: Any, items: list[Any]) -> Any:
    """Applies the items one after another; `place` is the next axis of the result."""
    _check_arrays(items)
    place = 0
    for item in items:
        if item is None:
            array = view_of("unsqueeze", array, place)
            place += 1
        elif isinstance(item, slice):
            array = _sliced(array, place, item)
            place += 1
        elif _is_array(item):
            array = _gathered(array, place, item)
            place += item.ndim
        else:
            array = _selected(array, place, item)
    return array


def _check_arrays(items: list[Any]) -> None:
    """Refuses several index arrays, and an array apart from a number: NumPy would then move the array's axis to the front."""
    arrays = [place for place, item in enumerate(items) if _is_array(item)]
    refuse_if(len(arrays) > 1, "an index holds several arrays", "index one axis at a time")
    if not arrays:
        return
    numbers = [place for place, item in enumerate(items) if item is not None and not isinstance(item, slice)]
    if numbers != list(range(numbers[0], numbers[-1] + 1)):
        raise refused("an index has an array and a number that are not side by side", "index one axis at a time")


def _selected(array: Any, place: int, item: Any) -> Any:
    try:
        index = item.__index__()
    except (AttributeError, TypeError):
        raise refused(f"an index of type {type(item).__name__} cannot be traced", wrong_arguments=True) from None
    extent = array.shape[place]
    if isinstance(item, bool | np.bool_):
        raise refused("True or False as an index cannot be traced", "use np.expand_dims")
    if not -extent <= index < extent:
        raise refused(f"index {index} is out of bounds for axis {place} with {extent} elements", wrong_arguments=True)
    return view_of("select", array, place, index % extent)


def _sliced(array: Any, place: int, item: slice) -> Any:
    extent = array.shape[place]
    start, stop, step = item.indices(extent)
    length = len(range(start, stop, step))
    if step < 0:
        first = start + (length - 1) * step
        forwards = _sliced(array, place, slice(first, start + 1, -step) if length else slice(0, 0))
        made = array.record.op("aten::flip", forwards, (place,))
        array.record.note_copied_view()
        return made
    if (start, step, length) == (0, 1, extent):
        return view_of("slice", array, place, 0, extent, 1) if item != slice(None) else array
    return view_of("slice", array, place, start, max(start, stop), step)


def _gathered(array: Any, place: int, item: Any) -> Any:
    indices = as_traced(array.record, item)
    refuse_if(indices.dtype == bool, "a mask as an index has a result whose shape depends on data", "use np.where(mask, x, other)")
    refuse_if(indices.dtype.kind not in "iu", f"indices must be integers, not {indices.dtype}", wrong_arguments=True)
    return array.record.op("aten::index", array, [None] * place + [indices])
