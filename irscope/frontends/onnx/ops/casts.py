"""Builders of casts (Cast, CastLike, BitCast), Identity and Constant."""

from __future__ import annotations

from typing import Final

import numpy as np

from irscope.frontends.emit import CODES
from irscope.frontends.onnx.building.call import Call, Result
from irscope.frontends.onnx.building.held import Held
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.frontends.onnx.reading.types import COMPUTED, ELEMENT_TYPES
from irscope.ir import ITEM_SIZE, Value

__all__ = ["OPS"]

OPS: Table = {}
_SHAPES: Final = ("int64", "int32")


@op(OPS, "Identity")
def _identity(call: Call) -> Result:
    return call.held(0)


@op(OPS, "Cast")
def _cast(call: Call) -> Result:
    return _converted(call, ELEMENT_TYPES.get(call.integer("to"), "unknown"))


@op(OPS, "CastLike")
def _cast_like(call: Call) -> Result:
    return _converted(call, call.dtype(1) or "unknown")


def _converted(call: Call, dtype: str) -> Result:
    held = call.held(0)
    if held.items is not None and dtype in _SHAPES:
        return Held(items=held.items, is_scalar=held.is_scalar, dtype=dtype)
    x = call.x()
    if dtype not in COMPUTED:
        raise call.refuse(f"it converts to {dtype}")
    if call.dtype() == "bool" or dtype != "bool":
        return call.cast(x, dtype)
    return call.op("ne", x, 0)


@op(OPS, "BitCast")
def _bit_cast(call: Call) -> Value:
    dtype = ELEMENT_TYPES.get(call.integer("to"), "unknown")
    x = call.x()
    if ITEM_SIZE.get(dtype) != ITEM_SIZE.get(str(call.dtype())) or dtype == "bool":
        raise call.refuse(f"it reinterprets {call.dtype()} as {dtype}")
    return call.op("view", x, CODES[dtype])


@op(OPS, "Constant")
def _constant(call: Call) -> Result:
    """Returns its elements, under the name of its output."""
    for name, kind in (("value_float", np.float32), ("value_int", np.int64)):
        if name in call.attributes:
            return Held(array=np.array(call.attr(name), kind))
    for name, kind in (("value_floats", np.float32), ("value_ints", np.int64)):
        if name in call.attributes:
            return Held(array=np.array(call.attr(name), kind), name=_name(call))
    for name in ("value_string", "value_strings"):
        if name in call.attributes:
            return Held(array=np.array(call.attr(name), object), name=_name(call))
    return Held(array=call.attr("sparse_value" if "sparse_value" in call.attributes else "value"), name=_name(call))


def _name(call: Call) -> str:
    return str(call.node.output[0]) if call.node.output else ""
