"""One op of MLIR as a rule sees it: imported operands, result types, and attributes in the form needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irscope.frontends.mlir.emit import Emitter, dtype_of, shape_of
from irscope.frontends.mlir.read.attributes import attribute_of
from irscope.ir import TensorData, TensorType, Type, Value

__all__ = ["Operation"]


class Operation:
    """The op that a rule reads; `e` is the emitter that it appends to."""

    __slots__ = ("_reading", "e", "handle", "name", "operands", "types")

    def __init__(
        self, name: str, handle: Any, operands: Sequence[Value], types: Sequence[Type], e: Emitter, reading: Any
    ) -> None:
        self.name = name
        """The op's MLIR name, such as `stablehlo.add`."""
        self.handle = handle
        """The bindings' own object."""
        self.operands = tuple(operands)
        self.types = tuple(types)
        self.e = e
        self._reading = reading

    @property
    def type(self) -> TensorType:
        """The type of the only result, which must be a tensor."""
        (type,) = self.types
        assert isinstance(type, TensorType)
        return type

    @property
    def dtype(self) -> str:
        """The element type of the first result; empty if the IR does not have it."""
        type = self.types[0] if self.types else None
        return type.dtype or "" if isinstance(type, TensorType) else ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the first result; only for ops of which `is_static` is true."""
        type = self.types[0]
        assert isinstance(type, TensorType) and type.shape is not None
        return tuple(dim for dim in type.shape if isinstance(dim, int))

    @property
    def is_static(self) -> bool:
        """Whether operands and results are tensors of known extents and element types."""
        types = [*self.types, *(value.type for value in self.operands)]
        return all(isinstance(type, TensorType) and type.is_static for type in types)

    def of(self, operands: Sequence[Value], dtype: str) -> Operation:
        """Returns the op on other operands, with a result of this element type."""
        type = TensorType(dtype, self.type.shape, () if self.type.shape == () else None)
        return Operation(self.name, self.handle, operands, [type], self.e, self._reading)

    def attr(self, name: str) -> Any:
        """Returns an attribute as the bindings' object, or its text if they cannot build one; None if the op does not
        have it."""
        return attribute_of(self.handle, name)

    def payload(self, name: str) -> Any:
        """Returns an attribute as a node carries it; None if the op does not have it."""
        attribute = self.attr(name)
        return None if attribute is None else self._reading.attributes.read(attribute)

    def text(self, name: str) -> str:
        """Returns an attribute's MLIR text; empty if the op does not have it."""
        attribute = self.attr(name)
        return "" if attribute is None else str(attribute)

    def number(self, name: str, default: int = 0) -> int:
        """Returns an integer attribute."""
        attribute = self.attr(name)
        return default if attribute is None else int(attribute.value)

    def ints(self, name: str) -> tuple[int, ...] | None:
        """Returns a list of integers in any of its forms: `array<i64: 1, 2>`, `dense<[1, 2]>`, `[1, 2]`."""
        payload = self.payload(name)
        if isinstance(payload, TensorData):
            array = payload.array
            return None if array is None else tuple(int(item) for item in np.asarray(array).reshape(-1))
        if isinstance(payload, tuple) and all(isinstance(item, int) for item in payload):
            return payload
        if isinstance(payload, str) and payload.startswith("array<"):
            inside = payload[payload.find(":") + 1 : -1] if ":" in payload else ""
            words = [word.strip() for word in inside.split(",") if word.strip()]
            return tuple({"true": 1, "false": 0}[word] if word in ("true", "false") else int(word) for word in words)
        return None

    def regions(self) -> list[Any]:
        """Returns the regions of the op."""
        return list(self.handle.regions)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{dtype_of(v)}{list(shape_of(v) or ())}' for v in self.operands)})"
