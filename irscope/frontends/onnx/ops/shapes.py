"""Builders of ops on shapes as numbers (Shape, Size), of Concat, mostly of such numbers, and of tensors of a given
shape."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from irscope.frontends.emit import CODES
from irscope.frontends.onnx.building.call import Call, Result
from irscope.frontends.onnx.building.held import Held, Item
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.frontends.onnx.reading.types import COMPUTED, ELEMENT_TYPES, FLOATS
from irscope.ir import INT, TENSOR, TensorType, Value
from irscope.ir.payload import element_name

__all__ = ["OPS"]

OPS: Table = {}
_LARGEST: Final = 1 << 20
"""The most elements of an identity matrix that becomes a weight."""


@op(OPS, "Shape")
def _shape(call: Call) -> Result:
    rank = call.rank()
    start, end, _ = slice(call.integer("start", 0), call.attr("end", None)).indices(rank)
    x = call.any(0)
    return Held(items=tuple(call.size(x, axis) for axis in range(start, max(start, end))))


@op(OPS, "Size")
def _size(call: Call) -> Result:
    x = call.any(0)
    known = x.type.numel if isinstance(x.type, TensorType) else None
    return Held(items=(call.op("numel", x, type=INT) if known is None else known,), is_scalar=True)


@op(OPS, "Concat")
def _concat(call: Call) -> Result:
    rows = [_row(held) for held in call.inputs]
    if all(row is not None for row in rows) and any(held is not None and held.items is not None for held in call.inputs):
        return Held(items=tuple(item for row in rows if row is not None for item in row), dtype=call.dtype() or "int64")
    tensors = [call.any(index) for index in range(len(call.inputs))]
    return call.op("cat", call.emit.list(tensors, TENSOR), call.axis("axis"))


def _row(held: Held | None) -> tuple[Item, ...] | None:
    """Returns the integers of a vector that needs no tensor; None for any other operand."""
    if held is None or held.is_scalar:
        return None
    if held.items is not None:
        return held.items
    known = held.array
    few = known is not None and known.ndim == 1 and known.size <= 16 and known.dtype.kind == "i"
    return tuple(int(item) for item in np.asarray(known)) if few else None


@op(OPS, "NonZero")
def _non_zero(call: Call) -> Value:
    return call.op("t", call.op("nonzero", call.x()))


@op(OPS, "EyeLike")
def _eye_like(call: Call) -> Value:
    dtype = ELEMENT_TYPES.get(call.integer("dtype"), "") if "dtype" in call.attributes else str(call.dtype())
    if dtype not in CODES:
        raise call.refuse(f"it makes elements of type {dtype}, which aten:: ops do not compute with")
    rows, columns = (call.size(call.any(0), axis) for axis in (0, 1))
    if not (isinstance(rows, int) and isinstance(columns, int) and rows * columns <= _LARGEST):
        raise call.refuse("the shape is not known, or too large to be stored")
    return call.values.value_of(Held(array=np.eye(rows, columns, call.integer("k", 0), dtype), name=call.node.output[0]))


@op(OPS, "Trilu")
def _trilu(call: Call) -> Value:
    """Keeps a triangle; the diagonal's number may be computed."""
    diagonal = call.number(1) if call.has(1) else 0
    return call.op("triu" if call.integer("upper", 1) else "tril", call.x(), diagonal)


@op(OPS, "ConstantOfShape")
def _constant_of_shape(call: Call) -> Result:
    value = np.asarray(call.attr("value", np.zeros(1, np.float32))).reshape(-1)[:1]
    dtype = element_name(value)
    if dtype not in COMPUTED or not value.size:
        raise call.refuse(f"it makes elements of type {dtype}, which aten:: ops do not compute with")
    sizes = call.items(0)
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) == len(sizes) and len(sizes) <= 1 and 0 < prod(known) <= 16 and value.dtype.kind == "i":
        return Held(array=np.full(tuple(known), value[0]))
    return call.op("full", sizes, value[0].item(), CODES[dtype], None, None, None)


@op(OPS, "Range")
def _range(call: Call) -> Value:
    dtype = str(call.dtype())
    start, end, step = (call.number(index) for index in range(3))
    if dtype not in FLOATS and dtype not in ("int16", "int32", "int64"):
        raise call.refuse(f"it makes elements of type {dtype}, which aten:: ops do not compute with")
    return call.op("arange", start, end, step, CODES[dtype], None, None, None)
