"""One ONNX node as its op's builder sees it: inputs, attributes, and the means to append `aten::` nodes.

A request that cannot be met raises `Refused`, and the node stays an `onnx::` op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from irscope.frontends.emit import CODES, Emitter, Refused
from irscope.frontends.onnx.building.held import Held, Item
from irscope.frontends.onnx.building.values import Values
from irscope.frontends.onnx.reading.types import COMPUTED
from irscope.ir import INT, Dim, TensorType, Type, Value

__all__ = ["Call", "Result", "extents_of"]

Result = Value | Held
"""What a builder returns for one output."""

_REQUIRED: Final = object()


class Call:
    """A node, with the meanings of its inputs."""

    def __init__(self, values: Values, node: Any, inputs: Sequence[Held | None], opset: int) -> None:
        self.values = values
        self.node = node
        self.inputs = inputs
        self.opset = opset
        """The version of the op's domain that the model uses."""
        self.emit: Emitter = values.emit
        self.attributes = {attribute.name: attribute for attribute in node.attribute}
        self.outputs = len(node.output)

    # Inputs

    def has(self, index: int) -> bool:
        """Check whether an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def held(self, index: int) -> Held:
        """Return an input. Raises Refused if it is not given."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise Refused(f"its input {index} is not given")
        return found

    def x(self, index: int = 0) -> Value:
        """Return an input as a tensor. Raises Refused for an element type that `aten::` ops do not compute with."""
        made = self.any(index)
        dtype = self.dtype(index)
        if dtype not in COMPUTED:
            raise Refused(f"its input {index} has element type {dtype or 'unknown'}, which aten:: ops do not compute with")
        return made

    def any(self, index: int = 0) -> Value:
        """Return an input of any type as a value."""
        return self.values.value_of(self.held(index))

    def xs(self) -> list[Value]:
        """Return all inputs as tensors."""
        return [self.x(index) for index in range(len(self.inputs))]

    def type(self, index: int = 0) -> Type:
        return self.held(index).type

    def dtype(self, index: int = 0) -> str | None:
        """Return the element type of an input; None if it is not known."""
        type = self.type(index)
        return type.dtype if isinstance(type, TensorType) else None

    def shape(self, index: int = 0) -> tuple[Dim, ...]:
        """Return the extents of an input. Raises Refused if its rank is not known."""
        return shape_of(self.type(index), f"its input {index}")

    def rank(self, index: int = 0) -> int:
        return len(self.shape(index))

    def axis(self, name: str, default: int | None = None, index: int = 0, extra: int = 0) -> int:
        """Return an axis attribute of an input, counted from the front."""
        return self.wrap(self.integer(name, default), self.rank(index) + extra)

    def wrap(self, axis: int, rank: int) -> int:
        if not -rank <= axis < max(rank, 1):
            raise Refused(f"there is no axis {axis} in rank {rank}")
        return axis % rank if rank else 0

    def known(self, index: int) -> np.ndarray[Any, Any]:
        """Return the elements of an input. Raises Refused if they are not in the model."""
        found = self.held(index).known()
        if found is None:
            raise Refused(f"the elements of its input {index} are known only at run time")
        return found

    def known_ints(self, index: int) -> list[int]:
        """Return the elements of an input of integers, as `known` does."""
        return [int(item) for item in self.known(index).reshape(-1)]

    def items(self, index: int) -> list[Item]:
        """Return the integers in an input of rank 0 or 1, read from the tensor at run time if they are not in the
        model."""
        return list(self.values.items_of(self.held(index), f"its input {index}"))

    def number(self, index: int) -> Any:
        """Return the one element of an input, as a known number or a value of the graph."""
        held = self.held(index)
        known = held.known()
        if known is not None and known.size == 1:
            return known.reshape(()).item()
        if held.items is not None and len(held.items) == 1:
            return held.items[0]
        value = self.x(index)
        if self.type(index) == TensorType(self.dtype(index), (1,)):
            value = self.emit.op("select", value, 0, 0)
        dtype = self.dtype(index) or ""
        op = "Bool" if dtype == "bool" else "Float" if "float" in dtype else "Int"
        return self.emit.op(op, value)

    # Attributes

    def attr(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return an attribute as a Python value, with text decoded; the default if the node omits it."""
        found = self.attributes.get(name)
        if found is None:
            if default is _REQUIRED:
                raise Refused(f"its attribute {name} is not given")
            return default
        return self.values.attribute(found)

    def integer(self, name: str, default: int | None = None) -> int:
        found = self.attr(name, _REQUIRED if default is None else default)
        if not isinstance(found, int):
            raise Refused(f"its attribute {name} is not a whole number")
        return found

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        found = self.attr(name, _REQUIRED if default is None else default)
        if not isinstance(found, list | tuple) or not all(isinstance(item, int) for item in found):
            raise Refused(f"its attribute {name} is not a list of whole numbers")
        return list(found)

    def text(self, name: str, default: str) -> str:
        return str(self.attr(name, default))

    # Appending

    def op(self, op: str, *operands: Any, type: Type | None = None) -> Value:
        """Append `aten::op` with one result."""
        return self.emit.op(op, *operands, type=type)

    def ops(self, op: str, count: int, *operands: Any) -> tuple[Value, ...]:
        """Append `aten::op` with several results."""
        return self.emit.ops(op, count, *operands)

    def cast(self, x: Value, dtype: str) -> Value:
        """Return a tensor cast to an element type; itself if it has that type."""
        if isinstance(x.type, TensorType) and x.type.dtype == dtype:
            return x
        return self.op("to", x, CODES[dtype], False, False, None)

    def scalar(self, number: float | int | bool, dtype: str) -> Value:
        """Return a constant tensor of rank 0."""
        return self.values.constant(np.array(number, numpy_type(dtype)))

    def size(self, x: Value, axis: int) -> Item:
        """Return one extent: a number if it is known."""
        shape = extents_of(x)
        if shape is not None and isinstance(extent := shape[axis], int):
            return extent
        made = self.op("size", x, axis, type=INT)
        if shape is not None and isinstance(symbol := shape[axis], str):
            self.emit.symbols[made] = symbol
        return made

    def rank_of(self, x: Value) -> int:
        return len(shape_of(x.type, "an intermediate tensor"))

    def refuse(self, why: str) -> Refused:
        return Refused(why)


def extents_of(x: Value) -> tuple[Dim, ...] | None:
    """Return the extents of a tensor; None if its rank is not known."""
    return x.type.shape if isinstance(x.type, TensorType) else None


def shape_of(type: Type, what: str) -> tuple[Dim, ...]:
    """Return the extents of a tensor. Raises Refused if its rank is not known."""
    if not isinstance(type, TensorType) or type.shape is None:
        raise Refused(f"the rank of {what} is not known")
    return type.shape


def numpy_type(dtype: str) -> np.dtype[Any]:
    """Return NumPy's type for constants; bfloat16 is from `ml_dtypes`, which onnx installs."""
    if dtype == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(dtype)
