"""What the arguments of a program must be: the types of its inputs, looked at closely once for each layout."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import numpy as np

from irscope.errors import ArgumentError
from irscope.ir.core import Value
from irscope.ir.payload import argument_type
from irscope.ir.types import BOOL, FLOAT, INT, NONE, STR, TensorType, Type

__all__ = ["Check", "check_of"]

_NoneType: Final = type(None)
Check = Callable[[Any, dict[str, int]], None]


_KINDS: Final[Mapping[Type, tuple[Any, ...]]] = {
    INT: (int,), FLOAT: (float, int), BOOL: (bool,), STR: (str,), NONE: (_NoneType,),
}  # fmt: skip


def check_of(value: Value, name: str) -> Check | None:
    """What an argument must be: for a tensor all that its type says. The dictionary has the extents of symbols."""
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
    """The check of one tensor, which remembers what it has accepted: looking closely takes microseconds."""
    if not type.is_static:
        return lambda argument, symbols: _check_tensor(type, name, argument, symbols)
    accepted: set[Hashable] = set()

    def check(argument: Any, symbols: dict[str, int]) -> None:
        step = getattr(argument, "stride", None)
        seen = None
        if step is not None:
            seen = (argument.dtype, argument.shape, step())
        elif isinstance(argument, np.ndarray):
            seen = (argument.dtype, argument.shape, argument.strides)
        if seen is None or seen not in accepted:
            _check_tensor(type, name, argument, symbols)
            accepted.add(seen)

    return check


def _check_tensor(type: TensorType, name: str, argument: Any, symbols: dict[str, int]) -> None:
    if not hasattr(argument, "dtype") or not hasattr(argument, "shape"):
        raise _wrong(name, type, argument)
    dtype = str(argument.dtype).removeprefix("torch.")
    if type.dtype is not None and dtype != type.dtype:
        raise _wrong(name, type, argument)
    if type.shape is None:
        return
    shape = tuple(argument.shape)
    if len(shape) != len(type.shape):
        raise _wrong(name, type, argument)
    for wanted, given in zip(type.shape, shape, strict=True):
        if wanted is not None and given != (symbols.setdefault(wanted, given) if isinstance(wanted, str) else wanted):
            raise _wrong(name, type, argument)
    if type.strides is not None:
        given_type = argument_type(argument)
        assert isinstance(given_type, TensorType)
        steps = zip(shape, type.strides, given_type.strides or type.strides, strict=True)
        if any(size > 1 and wanted != given for size, wanted, given in steps) and 0 not in shape:
            raise _wrong(name, type, argument)


def _wrong(name: str, type: Type, argument: Any) -> ArgumentError:
    return ArgumentError(
        f"the argument for %{name} is {argument_type(argument)}, and the program was loaded for {type}",
        hint="load it again with example arguments like these",
    )
