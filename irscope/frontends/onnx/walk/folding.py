"""Folds arithmetic on shapes while the model is read: known integers are computed, others stay integers of the graph.

`Reshape(x, Concat(Gather(Shape(x), 0), [-1]))` is ONNX's form of `x.reshape(x.shape[0], -1)`. Only short vectors of
integers and flags are considered. Entirely known operands are computed by ONNX's own reference implementation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from irscope.frontends.onnx.building.call import Call
from irscope.frontends.onnx.building.held import Held, Item
from irscope.ir import INT, TensorType, Value

__all__ = ["folded"]

_MAX: Final = 64
_BOUNDED: Final = frozenset(
    """
    Abs Add And Cast CastLike Concat Div Equal Gather Greater GreaterOrEqual Less LessOrEqual Max Min Mod Mul Neg Not Or
    ReduceMax ReduceMin ReduceProd ReduceSum Reshape Sign Slice Squeeze Sub Transpose Unsqueeze Where Xor""".split()
)
"""Ops whose results are not larger than their operands broadcast together."""
_ON_NUMBERS: Final[Mapping[str, str]] = {"Add": "add", "Sub": "sub", "Mul": "mul", "Min": "prim::min", "Max": "prim::max"}


def folded(call: Call) -> Held | None:
    """Returns the result of an op on integers, known or of the graph; None for anything else."""
    name = call.node.op_type
    if call.outputs != 1 or not all(_is_short(held) for held in call.inputs):
        return None
    if name in _BOUNDED and call.inputs:
        known = [None if held is None else held.known() for held in call.inputs]
        if all(array is not None or held is None for array, held in zip(known, call.inputs, strict=True)):
            return _computed(call, known)
    if name == "Range":
        return _range(call)
    return _on_numbers(call, _ON_NUMBERS[name]) if name in _ON_NUMBERS else None


def _is_short(held: Held | None) -> bool:
    """Checks whether an operand is a short vector of integers or flags that needs no tensor."""
    if held is None or held.items is not None:
        return True
    type = held.type
    if held.value is not None and held.array is None:
        return False
    if not isinstance(type, TensorType) or type.dtype not in ("int64", "int32", "bool"):
        return False
    return type.numel is not None and type.numel <= _MAX


def _computed(call: Call, known: list[np.ndarray[Any, Any] | None]) -> Held | None:
    from onnx.reference import ReferenceEvaluator

    try:
        made = ReferenceEvaluator(call.node, opsets={"": call.opset})
        names = dict(zip(call.node.input, known, strict=True))
        (found,) = made.run(None, {name: array for name, array in names.items() if name})
    except Exception:  # the op itself will fail on these operands when it runs
        return None
    array = np.asarray(found)
    if array.dtype.kind not in "ib" or array.size > _MAX * _MAX:
        return None
    return Held(array=array, name=str(call.node.output[0]))


def _range(call: Call) -> Held | None:
    known = [held.known() if held is not None else None for held in call.inputs]
    if len(known) != 3 or any(array is None or array.size != 1 or array.dtype.kind != "i" for array in known):
        return None
    start, end, step = (int(array.reshape(())) for array in known if array is not None)
    if not step or len(places := range(start, end, step)) > _MAX:
        return None
    return Held(array=np.array(places, call.dtype(0) or "int64"), name=str(call.node.output[0]))


def _on_numbers(call: Call, op: str) -> Held | None:
    """Applies an op elementwise to vectors whose lengths are equal or 1."""
    rows = [_numbers(held) for held in call.inputs]
    if len(rows) != 2 or rows[0] is None or rows[1] is None:
        return None
    length = max(len(rows[0]), len(rows[1]))
    if any(len(row) not in (1, length) for row in rows if row is not None) or not rows[0] or not rows[1]:
        return None
    pairs = [(rows[0][i % len(rows[0])], rows[1][i % len(rows[1])]) for i in range(length)]
    scalar = all(held is not None and isinstance(held.type, TensorType) and held.type.shape == () for held in call.inputs)
    items = tuple(_one(call, op, a, b) for a, b in pairs)
    return Held(items=items, is_scalar=scalar, dtype=call.dtype(0) or "int64")


def _one(call: Call, op: str, a: Item, b: Item) -> Item:
    if isinstance(a, Value) or isinstance(b, Value):
        return call.op(op, a, b, type=INT)
    return {"add": a + b, "sub": a - b, "mul": a * b}.get(op, min(a, b) if op == "prim::min" else max(a, b))


def _numbers(held: Held | None) -> list[Item] | None:
    if held is None:
        return None
    if held.items is not None:
        return list(held.items)
    known = held.known()
    return None if known is None or known.ndim > 1 or known.dtype.kind != "i" else [int(item) for item in known.reshape(-1)]
