"""Tensors made of numbers: constants of a shape, ranges."""

from __future__ import annotations

from math import prod

import numpy as np

from irscope.frontends.onnx.building.call import Call, Result
from irscope.frontends.onnx.building.held import Held
from irscope.frontends.onnx.ops.table import Table, op
from irscope.frontends.onnx.reading.types import CODES, COMPUTED, FLOATS
from irscope.ir import Value
from irscope.ir.payload import element_name

__all__ = ["OPS"]

OPS: Table = {}


@op(OPS, "ConstantOfShape")
def _constant_of_shape(call: Call) -> Result:
    value = np.asarray(call.attr("value", np.zeros(1, np.float32))).reshape(-1)[:1]
    dtype = element_name(value)
    if dtype not in COMPUTED or not value.size:
        raise call.refuse(f"it makes elements of type {dtype}")
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
        raise call.refuse(f"it makes elements of type {dtype}")
    return call.op("arange", start, end, step, CODES[dtype], None, None, None)
