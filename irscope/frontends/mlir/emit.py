"""Appends nodes while a program is imported, each with the location and name of the op that it comes from.

`Emitter` adds to `GraphBuilder` what the rules need: one constant per block, `aten` ops with the types
of their results, and blocks that remember their constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from irscope._base.frozen import EMPTY
from irscope.frontends.mlir.read.dense import bfloat16_bits
from irscope.frontends.mlir.read.places import Place
from irscope.ir import DEVICE, TENSOR, GraphBuilder, ListType, TensorData, TensorType, Type, Value, payload_type
from irscope.ir.builder import BlockBuilder
from irscope.ops.typing import DTYPE_CODES

__all__ = ["Emitter", "dtype_of", "shape_of"]

_EXACT = frozenset({TensorData, int, bool, str, type(None)})
"""Payload types whose equal values are interchangeable; for floats and containers only the text distinguishes zeros and
NaNs."""
_CODES = {dtype: code for code, dtype in DTYPE_CODES.items()}


def dtype_of(value: Value) -> str:
    """Returns the element type of a tensor value; empty if the IR does not have it."""
    return value.type.dtype or "" if isinstance(value.type, TensorType) else ""


def shape_of(value: Value) -> tuple[int, ...] | None:
    """Returns the extents of a tensor value; None unless all are known."""
    shape = value.type.shape if isinstance(value.type, TensorType) else None
    if shape is None or not all(isinstance(dim, int) for dim in shape):
        return None
    return tuple(dim for dim in shape if isinstance(dim, int))


class Emitter:
    """Appends to the innermost open block; `place` is the location of the op being read."""

    def __init__(self, name: str) -> None:
        self.build = GraphBuilder(name)
        self.place = Place(None, "", "")
        self._constants: list[dict[Any, Value]] = [{}]
        self.known: dict[Value, np.ndarray[Any, Any]] = {}
        """The elements of constant values, as arrays that broadcast to them."""
        self.bounds: dict[Value, tuple[float, float]] = {}
        """Lower and upper bounds of all elements of a value that are not NaN."""
        self.counts: dict[Value, int] = {}
        """The dimension along which a tensor counts 0, 1, 2, …."""

    def node(
        self, op: str, inputs: Sequence[Value], types: Sequence[Type], attrs: Mapping[str, Any] = EMPTY,
        blocks: Sequence[BlockBuilder] = (),
    ) -> tuple[Value, ...]:  # fmt: skip
        """Appends a node of any op."""
        location, name, scope = self.place
        return self.build.structured(
            op, inputs, types, blocks, names=[name] * len(types), attrs=attrs, location=location, scope=scope
        )

    def aten(self, op: str, *given: Any, type: Type) -> Value:
        """Appends `aten::op` with a result of this type; plain Python arguments become constants, in lists too."""
        inputs = [item if isinstance(item, Value) else self._argument(item) for item in given]
        return self.node(op if "::" in op else f"aten::{op}", inputs, (type,))[0]

    def tensor(self, op: str, *given: Any, dtype: str, shape: Sequence[int]) -> Value:
        """Appends as `aten` does, with a result of this element type and these extents."""
        return self.aten(op, *given, type=TensorType(dtype, tuple(shape), None if shape else ()))

    def like(self, op: str, value: Value, *given: Any, dtype: str = "") -> Value:
        """Appends as `aten` does, on `value` and more, with the extents of `value` and its element type or another."""
        assert isinstance(value.type, TensorType)
        kind = TensorType(dtype or value.type.dtype, value.type.shape, () if value.type.shape == () else None)
        return self.aten(op, value, *given, type=kind)

    def cast(self, value: Value, dtype: str) -> Value:
        """Converts the elements; returns the value itself if they have this type."""
        return value if dtype_of(value) == dtype else self.like("prims::convert_element_type", value, _CODES[dtype], dtype=dtype)

    def constant(self, payload: Any, type: Type | None = None) -> Value:
        """Returns a constant, one per block."""
        kind = payload_type(payload) if type is None else type
        key = (kind, payload.__class__, payload if payload.__class__ in _EXACT else repr(payload))
        for table in reversed(self._constants):
            found: Value | None = table.get(key)
            if found is not None:
                return found
        made = self._constants[-1][key] = self.build.constant(payload, kind)
        if isinstance(payload, TensorData) and payload.array is not None and payload.dtype != "bfloat16":
            self.known[made] = payload.array
        return made

    def scalar(self, number: float, dtype: str) -> Value:
        """Returns a constant tensor of rank 0."""
        made = np.array(bfloat16_bits(number), np.uint16) if dtype == "bfloat16" else np.array(number, dtype)
        return self.constant(TensorData(dtype, (), made), TensorType(dtype, (), ()))

    def constant_zeros(self, rank: int) -> Value:
        """Returns a single int64 0 of this rank."""
        data = TensorData.of(np.zeros((1,) * rank, np.int64))
        return self.constant(data, TensorType("int64", (1,) * rank, None if rank else ()))

    def elements(self, value: Value) -> np.ndarray[Any, Any] | None:
        """Returns the elements of a constant value as an array that broadcasts to it, if they are known."""
        return self.known.get(value)

    def mark(self) -> tuple[int, dict[Any, Value]]:
        """Returns the position in the innermost open block, for `go_back`."""
        return self.build.length, dict(self._constants[-1])

    def go_back(self, mark: tuple[int, dict[Any, Value]]) -> None:
        """Removes what was appended to the innermost open block since the mark; it must not have users."""
        self.build.cut(mark[0])
        self._constants[-1] = mark[1]

    @property
    def device(self) -> Value:
        """The device of a new tensor: the CPU, which a runtime takes for its own device."""
        return self.constant("cpu", DEVICE)

    @staticmethod
    def code(dtype: str) -> int:
        """Returns torch's number of an element type."""
        return _CODES[dtype]

    @contextmanager
    def block(self, types: Sequence[tuple[str, Type]] = ()) -> Iterator[BlockBuilder]:
        """Opens a block with constants of its own."""
        self._constants.append({})
        try:
            with self.build.block(types) as inner:
                yield inner
        finally:
            self._constants.pop()

    def _argument(self, item: Any) -> Value:
        if isinstance(item, list | tuple) and any(isinstance(part, Value) for part in item):
            parts = [part if isinstance(part, Value) else self._argument(part) for part in item]
            kind = TENSOR if isinstance(parts[0].type, TensorType) else parts[0].type
            return self.node("prim::ListConstruct", parts, (ListType(kind),))[0]
        return self.constant(tuple(item) if isinstance(item, list) else item)
