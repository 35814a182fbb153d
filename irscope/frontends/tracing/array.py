"""The array that a traced function receives: it looks like NumPy's, and records the operations on it."""

from collections.abc import Iterator, Mapping
from functools import partialmethod
from typing import Any, Final

import numpy as np

from irscope.frontends.tracing.importer import Recorder, Traced, code_of, refused
from irscope.frontends.tracing.ops_arrays import FUNCTIONS, SHAPES, get_item, set_item
from irscope.frontends.tracing.ops_pointwise import apply_ufunc, as_traced, assign, cast, copied, extents_of, filled

_ARRAYS: Final = SHAPES.keys() - {"clip", "round", "around", "take", "angle"}
"""The functions that give an array where others give a number."""
_DATA: Final = "the value of an array is not known while the function is traced"
_REDUCE: Final = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any"}


class Array(Traced, np.lib.mixins.NDArrayOperatorsMixin):
    """An array without elements, whose operators, NumPy functions and methods record nodes."""

    __slots__ = ()
    device = "cpu"

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__":
            if ufunc.signature is None:
                if any(isinstance(out, Traced) and out.is_number for out in options.get("out", ())):
                    options = {key: option for key, option in options.items() if key != "out"}  # `a += 1` gives `a` another number
                return _as_given(apply_ufunc(ufunc, inputs, options), options)
            if ufunc.__name__ in ("matmul", "vecdot") and options.keys() <= {"axis"}:
                return FUNCTIONS[ufunc.__name__](*inputs, **options)
        name = _REDUCE.get(ufunc.__name__)
        if method == "reduce" and name is not None:
            return _as_given(FUNCTIONS[name](*inputs, **{"axis": 0, **options}), options)
        if method == "outer" and len(inputs) == 2:
            first = np.expand_dims(inputs[0], tuple(range(np.ndim(inputs[0]), np.ndim(inputs[0]) + np.ndim(inputs[1]))))
            return ufunc(first, inputs[1])
        raise refused(f"np.{ufunc.__name__}.{method} cannot be traced", "write it with functions of whole arrays")

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        name = function.__name__
        if function.__module__ == "numpy.linalg":
            name = f"linalg.{name}"
        found = FUNCTIONS.get(name)
        if found is None:
            raise refused(f"np.{name} cannot be traced", "write it with simpler functions")
        made = found(*args, **options)
        return made if name in _ARRAYS else _as_given(made, options)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), options: Any = None) -> Any:
        name = getattr(function, "__name__", str(function))
        raise refused(f"torch's {name} takes tensors, and tracing gives NumPy-like arrays", "irs.load(function, *tensors)")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return Namespace(self.record)

    # Refused: these need elements

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise refused(f"a traced array cannot become a NumPy array: {_DATA}", "leave the conversion out")

    def __bool__(self) -> bool:
        hint = "use np.where(condition, a, b), and decide by shapes or by arguments that are not arrays"
        raise refused(f"the control flow depends on array data, and {_DATA}", hint)

    def _turned(self, kind: str) -> Any:
        raise refused(f"an array is turned into {kind}, and {_DATA}", "keep it an array")

    __int__, __float__ = partialmethod(_turned, "an int"), partialmethod(_turned, "a float")
    __complex__ = partialmethod(_turned, "a complex number")

    def __index__(self) -> int:
        raise refused(f"an array is used as a Python number, and {_DATA}", "np.take(x, index, axis) selects by arrays")

    def item(self, *args: Any) -> Any:
        raise refused(f"an element is taken out of an array, and {_DATA}", "keep it an array")

    tolist = item
    __hash__ = None  # type: ignore[assignment]

    # Containers

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter([self[index] for index in range(len(self))])

    def __getitem__(self, key: Any) -> Any:
        found = get_item(self, key)
        if not found.shape and not (key is Ellipsis or (isinstance(key, tuple) and Ellipsis in key)):
            return self.record.number(found)
        if isinstance(key, int | slice) or (isinstance(key, tuple) and all(isinstance(k, int | slice) for k in key)):
            found.origin = (self.value, key)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        is_itself = isinstance(value, Traced) and value.origin is not None and value.origin[0] is self.value
        if is_itself and type(key) is type(value.origin[1]) and key == value.origin[1]:
            return  # the second half of `x[i] += y`: already written in place
        set_item(self, key, value)

    def __repr__(self) -> str:
        return f"<traced array {self.dtype}{list(self.shape)}>"

    # Attributes and methods as NumPy's

    T = property(FUNCTIONS["transpose"])
    mT = property(FUNCTIONS["matrix_transpose"])  # noqa: N815

    real = property(FUNCTIONS["real"], lambda self, value: assign(self.real, value))
    imag = property(FUNCTIONS["imag"], lambda self, value: assign(self.imag, value))

    def conj(self) -> Any:
        return np.conjugate(self) if self.dtype.kind == "c" else self

    conjugate = conj

    def __pow__(self, other: Any) -> Any:
        function = _power_of(self.dtype, other)
        return np.power(self, other) if function is None else function(self)

    def __ipow__(self, other: Any) -> Any:
        function = _power_of(self.dtype, other)
        return np.power(self, other, out=self) if function is None else function(self, out=self)  # type: ignore[call-overload]

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def reshape(self, *shape: Any, order: str = "C", copy: Any = None) -> Any:
        return FUNCTIONS["reshape"](self, _one(shape), order, copy=copy)

    def transpose(self, *axes: Any) -> Any:
        return FUNCTIONS["transpose"](self, extents_of(_one(axes)) if axes and axes != (None,) else None)

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        made = FUNCTIONS["astype"](self, dtype, copy=copy)
        return self.record.number(made) if self.is_number else made

    def flatten(self, order: str = "C") -> Any:
        return FUNCTIONS["ravel"](copied(self), order)

    def fill(self, value: Any) -> None:
        assign(self, value)

    def sort(self, axis: int = -1) -> None:
        assign(self, FUNCTIONS["sort"](self, axis))

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        return self


def _power_of(dtype: np.dtype[Any], exponent: Any) -> np.ufunc | None:
    """Returns the function that NumPy's `**` stands for, where it gives another result than `np.power`."""
    if type(exponent) is int:
        is_square = exponent == 2 and dtype.kind == "b"
        return np.square if is_square else np.reciprocal if exponent == -1 and dtype.kind == "c" else None
    is_root = type(exponent) is float and exponent == 0.5
    return np.sqrt if is_root and (dtype.kind == "c" or dtype == np.float16) else None


def _as_given(made: Any, options: Mapping[str, Any]) -> Any:
    """Returns the result of a function; without `out=`, one without axes is a number."""
    is_number = isinstance(made, Traced) and not made.shape and options.get("out") is None
    return made.record.number(made) if is_number else made


def _one(given: tuple[Any, ...]) -> Any:
    return given[0] if len(given) == 1 else given


def _method(name: str) -> Any:
    function = FUNCTIONS[name]

    def method(self: Array, *args: Any, **options: Any) -> Any:
        made = function(self, *args, **options)
        return made if name in _ARRAYS and not self.is_number else _as_given(made, options)

    method.__name__ = name
    return method


for _name in (
    "sum prod mean max min var std argmax argmin any all cumsum cumprod argsort dot swapaxes squeeze ravel repeat round copy take clip"
).split():
    setattr(Array, _name, _method(_name))


# The array namespace of a traced array (`xp = x.__array_namespace__()`): the array API's names, and NumPy's for the rest.

_OTHER_NAMES: Final[Mapping[str, str]] = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "pow": "power", "bitwise_invert": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "bool": "bool_",
}  # fmt: skip
"""The array API's names of NumPy functions that older NumPy names differently."""
_ARRAY_API: Final = frozenset("permute_dims matrix_transpose concat unstack astype vecdot".split())
"""Functions of the array API that older NumPy does not have."""


class Namespace:
    """Array creation functions that record nodes; functions of arrays are NumPy's, which dispatch to the arrays."""

    def __init__(self, record: Recorder) -> None:
        self._record = record

    def __getattr__(self, name: str) -> Any:
        if name in _ARRAY_API:
            return FUNCTIONS[name]
        return getattr(np, _OTHER_NAMES.get(name, name))

    def __repr__(self) -> str:
        return "<the array namespace of a trace>"

    def asarray(self, obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
        made = as_traced(self._record, obj)
        return made if dtype is None else cast(made, dtype)

    def _numbers(self, number: int, shape: Any, *, dtype: Any = np.float64, device: Any = None) -> Any:
        return filled(self._record, shape, number, dtype or np.float64)

    zeros, empty, ones = partialmethod(_numbers, 0), partialmethod(_numbers, 0), partialmethod(_numbers, 1)

    def full(self, shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
        if isinstance(fill_value, Traced):
            return FUNCTIONS["copy"](FUNCTIONS["broadcast_to"](fill_value, shape))
        return filled(self._record, shape, fill_value, dtype)

    def arange(self, start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
        first, end = (0, start) if stop is None else (start, stop)
        like = np.arange(first, end, step, dtype=dtype)
        if like.dtype.kind in "iu" and any(number != int(number) for number in (first, end, step)):
            return as_traced(self._record, like)  # torch rounds these first, NumPy the elements
        operands = (first, end, step, code_of(like.dtype), None, None, None)
        return self._record.op("aten::arange", *operands)

    def linspace(self, start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True) -> Any:
        kind = np.dtype(dtype or np.float64)
        end = stop if endpoint else stop - (stop - start) / num
        operands = (float(start), float(end), num, code_of(kind), None, None, None)
        return self._record.op("aten::linspace", *operands)

    def eye(self, rows: int, columns: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
        if k:
            return as_traced(self._record, np.eye(rows, columns, k, dtype=dtype or np.float64))
        shape, kind = (rows, rows if columns is None else columns), np.dtype(dtype or np.float64)
        return self._record.op("aten::eye", *shape, code_of(kind), None, None, None)
