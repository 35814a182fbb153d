"""Constants in the form that a running program uses, and type checks of values at run time."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from irscope.ir import BOOL, FLOAT, INT, NONE, DictType, ListType, Opaque, OptionalType, TensorData, TensorType, TupleType, Type, UnionType

_PYTHON_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,), "float": (float,), "complex": (complex,), "str": (str,), "bool": (bool,), "Scalar": (int, float, complex),
    "NoneType": (type(None),),
}  # fmt: skip


def unpacked(payload: Any, kind: Type, tensor: Callable[[TensorData], Any]) -> Any:
    """Returns a constant's payload as the running program has it: lists are lists, and `tensor` converts tensors.

    >>> from irscope.ir.types import INT, ListType
    >>> unpacked((1, 2), OptionalType(ListType(INT)), tensor=str), unpacked(1, FLOAT, tensor=str)
    ([1, 2], 1.0)
    """
    if isinstance(kind, OptionalType):
        kind = kind.element
    match payload:
        case TensorData():
            return tensor(payload)
        case Opaque(_, original):
            return original
        case tuple():
            element = kind.element if isinstance(kind, ListType) else NONE
            kinds = kind.elements if isinstance(kind, TupleType) else (element,) * len(payload)
            items = tuple(unpacked(item, inner, tensor) for item, inner in zip(payload, kinds, strict=True))
            return items if isinstance(kind, TupleType) else list(items)
        case int() if kind == BOOL:
            return bool(payload)
        case int() if kind == FLOAT:
            return float(payload)
    return payload


def elements(data: TensorData) -> np.ndarray[Any, Any]:
    """Returns the elements of a constant tensor that has them; bfloat16, which NumPy lacks, as float32."""
    assert data.array is not None
    return (data.array.astype(np.uint32) << 16).view(np.float32) if data.dtype == "bfloat16" else data.array


def is_a(value: Any, type: Type) -> bool:
    """Checks whether a value is of a type, as TorchScript does; checks every element of a container."""
    match type:
        case TensorType():
            return hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, np.generic)
        case OptionalType(element):
            return value is None or is_a(value, element)
        case UnionType(members):
            return any(is_a(value, member) for member in members)
        case ListType(element):
            return isinstance(value, list) and all(is_a(item, element) for item in value)
        case DictType(_, element):
            return isinstance(value, dict) and all(is_a(item, element) for item in value.values())
        case TupleType(kinds):
            same = isinstance(value, tuple) and len(value) == len(kinds)
            return same and all(is_a(item, element) for item, element in zip(value, kinds, strict=True))
    if type == INT and isinstance(value, bool):
        return False
    if str(type) == "Device":  # torch's own, or its name where there is no torch
        return isinstance(value, str) or value.__class__.__name__ == "device"
    return isinstance(value, _PYTHON_TYPES.get(str(type), ()))
