"""Constant payloads of nodes that are more than a number: tensors, and objects of which only the text is known."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from irscope.ir.core import Graph, Node, Value
from irscope.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DTYPES,
    FLOAT,
    INT,
    NONE,
    STR,
    ClassType,
    DictType,
    ListType,
    PrimitiveType,
    TensorType,
    TupleType,
    Type,
)  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class TensorData:
    """A constant tensor, compared by element type, shape and bytes."""

    dtype: str
    """Our name of the element type; `bfloat16` data is stored in `array` as uint16 bits."""
    shape: tuple[int, ...]
    array: np.ndarray[Any, Any] | None
    """The elements; None if only the size is known (`value=<Tensor>` in a text)."""
    device: str = "cpu"
    original: Any = None
    """The frontend's own tensor, so that running it needs no copy."""

    @staticmethod
    def of(array: np.ndarray[Any, Any], *, device: str = "cpu") -> "TensorData":
        """The payload of a NumPy array."""
        return TensorData(str(array.dtype), array.shape, array, device)

    def _key(self) -> tuple[object, ...]:
        content = id(self) if self.array is None else np.ascontiguousarray(self.array).tobytes()
        return (self.dtype, self.shape, self.device, content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorData) and (self is other or self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, slots=True)
class Opaque:
    """A payload of which only the printed text is known, such as `<__torch__.M object at 0x7f>`."""

    text: str
    original: Any = None
    """The frontend's own object, if there is one."""


class _NotConstant:
    def __repr__(self) -> str:
        return "NOT_CONSTANT"


NOT_CONSTANT: Final = _NotConstant()
"""The result of `constant_of` for a value that is computed."""


def constant_value(node: Node) -> Any:
    """The payload of a `prim::Constant` as a Python value: TorchScript stores a bool as 0 or 1, and None as no attribute."""
    payload = node.attrs.get("value")
    if payload is None or not node.outputs or node.outputs[0].type.__class__ is not PrimitiveType:
        return payload
    name = node.outputs[0].type.name  # runs for every constant, and comparing types costs more
    if name == NONE.name:
        return None
    return bool(payload) if name == BOOL.name and isinstance(payload, int) else payload


def constant_of(graph: Graph, value: Value) -> Any:
    """The payload of a value that a `prim::Constant` produces; otherwise `NOT_CONSTANT`.

    Lists in constants are tuples here. `irscope.analysis.shapes` also finds constants that follow by computation.
    """
    node = graph.producer.get(value)
    return constant_value(node) if node is not None and node.op == "prim::Constant" else NOT_CONSTANT


_PLAIN: Final = {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX, str: STR, type(None): NONE}


def argument_type(argument: Any) -> Type:
    """The type of an argument that a user passes to a program: a tensor of any array library, a number, a container."""
    for kind, type_ in _PLAIN.items():
        if isinstance(argument, kind):
            return type_
    match argument:
        case tuple():
            return TupleType(tuple(map(argument_type, argument)))
        case list():
            return ListType(argument_type(argument[0]) if argument else ANY)
        case dict():
            key, value = next(iter(argument.items()), (None, None))
            return DictType(argument_type(key), argument_type(value)) if argument else DictType(ANY, ANY)
    try:
        if hasattr(argument, "dtype") and hasattr(argument, "shape"):
            return _tensor_type(argument)
    except RuntimeError:  # a nested tensor of torch's
        return ClassType(f"{type(argument).__name__} without a shape")
    return ClassType(type(argument).__name__)


def element_name(tensor: Any) -> str:
    """Our name of an array's element type; NumPy stores strings as objects, and in three types of their own.

    >>> element_name(np.array(["a"])), element_name(np.zeros(1, np.float16))
    ('string', 'float16')
    """
    return "string" if getattr(tensor.dtype, "kind", " ") in "OUST" else str(tensor.dtype).removeprefix("torch.")


def _tensor_type(tensor: Any) -> TensorType | ClassType:
    """The type of a NumPy, torch, CuPy or JAX array; a ClassType if the IR does not know its element type."""
    dtype = element_name(tensor)
    if dtype not in DTYPES:
        return ClassType(f"{type(tensor).__name__} of {dtype}")
    device = getattr(tensor, "device", "cpu")
    grad = getattr(tensor, "requires_grad", None)
    return TensorType(
        dtype, tuple(int(dim) for dim in tensor.shape), _steps(tensor),
        device if isinstance(device, str) else str(getattr(device, "type", "cpu")), True if grad else None,
    )  # fmt: skip


def _steps(tensor: Any) -> tuple[int, ...] | None:
    """Strides in elements; None for an array that has none, such as a sparse one."""
    if callable(getattr(tensor, "stride", None)):
        try:
            return tuple(tensor.stride())
        except RuntimeError:
            return None
    if getattr(tensor, "strides", None) is None:
        return None
    return tuple(step // tensor.itemsize for step in tensor.strides)
