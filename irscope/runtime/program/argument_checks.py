"""Checks of a program's arguments against the types of its inputs, in full once for each layout."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import numpy as np

from irscope.errors import ArgumentError
from irscope.ir import BOOL, FLOAT, INT, NONE, STR, TensorType, Type, Value, argument_type
from irscope.ir.payload import element_name

__all__ = ["Check", "check_of"]

_NoneType: Final = type(None)
Check = Callable[[Any, dict[str, int]], None]


_KINDS: Final[Mapping[Type, tuple[Any, ...]]] = {
    INT: (int,), FLOAT: (float, int), BOOL: (bool,), STR: (str,), NONE: (_NoneType,),
}  # fmt: skip


def check_of(value: Value, name: str) -> Check | None:
    """Returns the check of an argument: for a tensor all that its type says. The dictionary maps symbols to extents."""
    type = value.type
    if isinstance(type, TensorType):
        return _tensor_check(type, name)
    wanted = _KINDS.get(type)
    if wanted is None:
        return None

    def check(argument: Any, symbols: dict[str, int]) -> None:
        if not isinstance(argument, wanted) or (type == INT and isinstance(argument, bool)):
            raise _wrong(name, type, argument)

    return check


def _tensor_check(type: TensorType, name: str) -> Check:
    """Returns the check of one tensor, which remembers the layouts it has accepted: a full check takes microseconds."""
    if not type.is_static:
        return lambda argument, symbols: _check_tensor(type, name, argument, symbols)
    accepted: set[Hashable] = set()

    def check(argument: Any, symbols: dict[str, int]) -> None:
        seen = _layout(argument)
        if seen is None or seen not in accepted:
            _check_tensor(type, name, argument, symbols)
            if seen is not None:
                accepted.add(seen)

    return check


def _layout(argument: Any) -> Hashable:
    """Returns all that a check looks at; None for an argument that is not a tensor, or has no strides."""
    step = getattr(argument, "stride", None)
    try:
        if step is not None:
            return (argument.dtype, argument.shape, step())
    except RuntimeError:  # a sparse tensor, or a nested one
        return None
    if not isinstance(argument, np.ndarray):
        return None
    return (argument.dtype, argument.shape, argument.strides, argument.__class__)


def _check_tensor(type: TensorType, name: str, argument: Any, symbols: dict[str, int]) -> None:
    if not _is_tensor(argument):
        raise _wrong(name, type, argument)
    dtype = element_name(argument)
    _check_storage(name, argument, dtype)
    if type.dtype is not None and dtype != type.dtype:
        raise _wrong(name, type, argument)
    if type.shape is None:
        return
    given_type = argument_type(np.asarray(argument) if isinstance(argument, np.generic) else argument)  # some are floats, too
    if not isinstance(given_type, TensorType) or given_type.shape is None or len(given_type.shape) != len(type.shape):
        raise _wrong(name, type, argument)
    shape = tuple(argument.shape)
    for wanted, given in zip(type.shape, shape, strict=True):
        if wanted is not None and given != (symbols.setdefault(wanted, given) if isinstance(wanted, str) else wanted):
            raise _wrong(name, type, argument)
    if type.strides is not None:
        steps = zip(shape, type.strides, given_type.strides or type.strides, strict=True)
        if any(size > 1 and wanted != given for size, wanted, given in steps) and 0 not in shape:
            raise _wrong(name, type, argument)


def _check_storage(name: str, argument: Any, dtype: str) -> None:
    """Refuses tensors whose elements are not laid out by strides, are quantized, or are masked."""
    layout = str(getattr(argument, "layout", ""))
    if layout.startswith("torch.") and layout != "torch.strided":
        way = "x.to_dense()"
        what = f"laid out as {layout}, not by strides"
    elif dtype in _QUANTIZED:
        way = "x.dequantize()"
        what = f"quantized to {dtype}"
    elif isinstance(argument, np.ma.MaskedArray):
        way = "x.filled(number), or x.data"
        what = "with a mask"
    else:
        return
    raise ArgumentError(
        f"the argument for %{name} is a tensor {what}, and programs run on dense tensors of plain numbers",
        rule="argument-storage",
        hint=f"pass {way}",
    )


_QUANTIZED: Final = frozenset({"quint8", "qint8", "qint32", "quint4x2", "quint2x4"})


def _is_tensor(argument: Any) -> bool:
    """Checks whether an argument has an element type and a shape: a nested tensor has none."""
    try:
        return hasattr(argument, "dtype") and hasattr(argument, "shape")
    except RuntimeError:
        return False


def _wrong(name: str, type: Type, argument: Any) -> ArgumentError:
    return ArgumentError(
        f"the argument for %{name} is {argument_type(argument)}, and the program was loaded for {type}",
        hint="load it again with example arguments like these",
    )
