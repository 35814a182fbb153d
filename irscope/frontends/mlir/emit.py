"""The emitter of MLIR's rules: constants and conversions of tensors of known extents, and what is known of their elements."""

from __future__ import annotations

import numpy as np

from irscope.frontends import emit
from irscope.frontends.emit import CODES
from irscope.frontends.mlir.read.dense import bfloat16_bits
from irscope.ir import DEVICE, TensorData, TensorType, Value

__all__ = ["Emitter", "dtype_of", "shape_of"]


def dtype_of(value: Value) -> str:
    """Returns the element type of a tensor value; empty if the IR does not have it."""
    return value.type.dtype or "" if isinstance(value.type, TensorType) else ""


def shape_of(value: Value) -> tuple[int, ...] | None:
    """Returns the extents of a tensor value; None unless all are known."""
    shape = value.type.shape if isinstance(value.type, TensorType) else None
    if shape is None or not all(isinstance(dim, int) for dim in shape):
        return None
    return tuple(dim for dim in shape if isinstance(dim, int))


class Emitter(emit.Emitter):
    """Appends to the innermost open block, and remembers what bounds the elements."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.bounds: dict[Value, tuple[float, float]] = {}
        """Lower and upper bounds of all elements of a value that are not NaN."""
        self.counts: dict[Value, int] = {}
        """The dimension along which a tensor counts 0, 1, 2, …."""

    def cast(self, value: Value, dtype: str) -> Value:
        """Converts the elements; returns the value itself if they have this type."""
        return value if dtype_of(value) == dtype else self.like("prims::convert_element_type", value, CODES[dtype], dtype=dtype)

    def scalar(self, number: float, dtype: str) -> Value:
        """Returns a constant tensor of rank 0."""
        made = np.array(bfloat16_bits(number), np.uint16) if dtype == "bfloat16" else np.array(number, dtype)
        return self.constant(TensorData(dtype, (), made), TensorType(dtype, (), ()))

    def constant_zeros(self, rank: int) -> Value:
        """Returns a single int64 0 of this rank."""
        data = TensorData.of(np.zeros((1,) * rank, np.int64))
        return self.constant(data, TensorType("int64", (1,) * rank, None if rank else ()))

    @property
    def device(self) -> Value:
        """The device of a new tensor: the CPU, which a runtime takes for its own device."""
        return self.constant("cpu", DEVICE)
