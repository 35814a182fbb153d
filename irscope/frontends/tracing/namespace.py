"""The array namespace of a traced array (`xp = x.__array_namespace__()`): the array API's names, and NumPy's for the
rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from irscope.frontends.tracing.record import Recorder, Traced, code_of
from irscope.frontends.tracing.reductions import REDUCTIONS
from irscope.frontends.tracing.shapes import SHAPES
from irscope.frontends.tracing.ufuncs import as_traced, cast, filled

__all__ = ["Namespace"]

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
            return REDUCTIONS.get(name) or SHAPES[name]
        return getattr(np, _OTHER_NAMES.get(name, name))

    def __repr__(self) -> str:
        return "<the array namespace of a trace>"

    def asarray(self, obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
        made = as_traced(self._record, obj)
        return made if dtype is None else cast(made, dtype)

    def zeros(self, shape: Any, *, dtype: Any = np.float64, device: Any = None) -> Any:
        return filled(self._record, shape, 0, dtype or np.float64)

    empty = zeros

    def ones(self, shape: Any, *, dtype: Any = np.float64, device: Any = None) -> Any:
        return filled(self._record, shape, 1, dtype or np.float64)

    def full(self, shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
        if isinstance(fill_value, Traced):
            return SHAPES["copy"](SHAPES["broadcast_to"](fill_value, shape))
        return filled(self._record, shape, fill_value, dtype)

    def arange(self, start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
        first, end = (0, start) if stop is None else (start, stop)
        like = np.arange(first, end, step, dtype=dtype)
        operands = (first, end, step, code_of(like.dtype), None, None, None)
        return self._record.op("aten::arange", *operands, dtype=like.dtype, shape=like.shape)

    def linspace(
        self, start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
    ) -> Any:
        kind = np.dtype(dtype or np.float64)
        end = stop if endpoint else stop - (stop - start) / num
        operands = (float(start), float(end), num, code_of(kind), None, None, None)
        return self._record.op("aten::linspace", *operands, dtype=kind, shape=(num,))

    def eye(
        self, rows: int, columns: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
    ) -> Any:
        if k:
            return as_traced(self._record, np.eye(rows, columns, k, dtype=dtype or np.float64))
        shape, kind = (rows, rows if columns is None else columns), np.dtype(dtype or np.float64)
        return self._record.op("aten::eye", *shape, code_of(kind), None, None, None, dtype=kind, shape=shape)
