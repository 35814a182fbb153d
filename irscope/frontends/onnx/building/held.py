"""The meaning of one name of a model: a value of the graph, known elements, or integers of the graph.

ONNX computes shapes with int64 tensors (Shape, Gather, Concat, Reshape), where `aten::` has plain integers. `items`
keeps such a tensor as its integers, so that `aten::reshape` gets `[%n, 3, -1]` and not a tensor that must be unpacked
again. The tensor itself is built only if an op needs one, in the block that needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irscope.ir import TENSOR, TensorType, Type, Value
from irscope.ir.payload import element_name

__all__ = ["Held", "Item"]

Item = int | Value
"""An integer: known, or an `int` of the graph."""


@dataclass(eq=False, slots=True)
class Held:
    """The meaning of one name. At least one of `value`, `array`, `items` and `load` is set."""

    value: Value | None = None
    array: np.ndarray[Any, Any] | None = None
    """The elements, if they are in the model."""
    items: tuple[Item, ...] | None = None
    """The elements of an integer tensor of rank 0 or 1."""
    is_scalar: bool = False
    """Whether the rank of `items` is 0."""
    name: str = ""
    dtype: str = "int64"
    """The element type of `items`."""
    load: Callable[[], np.ndarray[Any, Any]] | None = None
    """Reads the elements of a large initialiser when they are first needed."""
    is_weight: bool = False
    """Whether it is an initialiser, and so a bound input even if small; of rank 0 it is a constant."""
    told: Type = field(default=TENSOR)
    """The type of a tensor that is not a value yet."""

    @property
    def type(self) -> Type:
        """The type of the tensor as far as it is known."""
        if self.value is not None:
            return self.value.type
        if self.array is not None:
            return TensorType(element_name(self.array), self.array.shape)
        if self.items is not None:
            return TensorType(self.dtype, () if self.is_scalar else (len(self.items),))
        return self.told

    def known(self) -> np.ndarray[Any, Any] | None:
        """Returns the elements if all are known, else None."""
        if self.array is None and self.load is not None:
            self.array, self.load = self.load(), None
        if self.array is None and self.items is not None and all(isinstance(item, int) for item in self.items):
            flat = np.array(self.items, self.dtype)
            self.array = flat.reshape(()) if self.is_scalar else flat
        return self.array
