"""Turns the meanings of a model's names into values of the graph, where an op needs them, and reads attributes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from irscope.errors import LoadError
from irscope.frontends.emit import CODES, Emitter, Refused
from irscope.frontends.onnx.building.held import Held, Item
from irscope.frontends.onnx.reading.tensors import dense_of, elements_of
from irscope.ir import INT, TensorData, TensorType, Value
from irscope.ir.payload import element_name

__all__ = ["Values"]

_SMALL: Final = 16
"""The most elements of a constant node; a larger constant becomes a bound input."""


class Values:
    """The inputs bound so far, and the folder of files with external elements."""

    def __init__(self, emit: Emitter, folder: Path | None) -> None:
        self.emit = emit
        self.folder = folder
        self.bound: dict[Value, Any] = {}

    def value_of(self, held: Held) -> Value:
        """Returns the tensor, created here if it does not exist yet."""
        if held.value is not None:
            return held.value
        array = held.known()
        if array is None:
            assert held.items is not None
            return self.tensor_of(held)
        if array.size > _SMALL or (held.is_weight and array.ndim):
            held.value = self.emit.input(held.name, TensorType(element_name(array), array.shape))
            self.bound[held.value] = array
            return held.value
        return self.constant(array)

    def constant(self, array: np.ndarray[Any, Any]) -> Value:
        """Returns a small constant tensor."""
        dtype = element_name(array)
        held = array.view(np.uint16) if dtype == "bfloat16" else array
        return self.emit.constant(TensorData(dtype, array.shape, held), TensorType(dtype, array.shape))

    def tensor_of(self, held: Held) -> Value:
        """Returns integers of the graph as a tensor."""
        assert held.items is not None
        code = CODES[held.dtype]
        if held.is_scalar:
            return self.emit.op("tensor", held.items[0], code, None, False, type=TensorType(held.dtype, ()))
        listed = self.emit.list(held.items, INT)
        return self.emit.op("tensor", listed, code, None, False, type=TensorType(held.dtype, (len(held.items),)))

    def items_of(self, held: Held, what: str) -> Sequence[Item]:
        """Returns the elements of an integer tensor of rank 0 or 1 and known length as integers of the graph."""
        if held.items is not None:
            return held.items
        known = held.known()
        if known is not None:
            if known.ndim > 1 or known.dtype.kind not in "iu":
                raise Refused(f"{what} is not a list of whole numbers")
            return [int(item) for item in known.reshape(-1)]
        type = held.type
        if not isinstance(type, TensorType) or type.shape is None or len(type.shape) > 1:
            raise Refused(f"{what} is not known to have rank 0 or 1")
        value = self.value_of(held)
        if not type.shape:
            return [self.emit.op("Int", value, type=INT)]
        (length,) = type.shape
        if not isinstance(length, int) or length > 64:
            raise Refused(f"the length of {what} is not known, or more than 64")
        taken = [self.emit.op("select", value, 0, index) for index in range(length)]
        return [self.emit.op("Int", item, type=INT) for item in taken]

    def attribute(self, proto: Any) -> Any:
        """Returns an attribute's value as a Python value; tensors as arrays."""
        import onnx

        kind = proto.type
        if kind == onnx.AttributeProto.TENSOR:
            return elements_of(proto.t, self.folder, f"the attribute {proto.name!r}")
        if kind == onnx.AttributeProto.TENSORS:
            return [elements_of(item, self.folder, f"the attribute {proto.name!r}") for item in proto.tensors]
        if kind == onnx.AttributeProto.SPARSE_TENSOR:
            return dense_of(proto.sparse_tensor, self.folder, f"the attribute {proto.name!r}")
        try:
            found = onnx.helper.get_attribute_value(proto)
        except (ValueError, NotImplementedError) as error:
            raise LoadError(f"the attribute {proto.name!r} cannot be read: {error}") from None
        if isinstance(found, bytes):
            return _text(found, proto.name)
        if kind in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
            return list(found)
        if kind == onnx.AttributeProto.STRINGS:
            return [_text(item, proto.name) for item in found]
        return found


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoadError(f"the attribute {name!r} is not UTF-8 text: {error.reason} at byte {error.start}") from None
