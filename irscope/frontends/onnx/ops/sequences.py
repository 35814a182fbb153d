"""Builders of ops on sequences, which are lists of tensors, and optionals. An op that changes a sequence returns a new
list."""

from __future__ import annotations

from irscope.frontends.onnx.building.call import Call, Result
from irscope.frontends.onnx.building.held import Held
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.ir import BOOL, INT, NONE, TENSOR, ListType, OptionalType, Value

__all__ = ["OPS"]

OPS: Table = {}


@op(OPS, "SequenceEmpty")
def _empty(call: Call) -> Value:
    return call.emit.op("prim::ListConstruct", type=ListType(TENSOR))


@op(OPS, "SequenceConstruct")
def _construct(call: Call) -> Value:
    return call.emit.list([call.any(index) for index in range(len(call.inputs))], TENSOR)


@op(OPS, "SequenceAt")
def _at(call: Call) -> Value:
    sequence = _list(call, 0)
    assert isinstance(sequence.type, ListType)
    return call.op("__getitem__", sequence, call.items(1)[0], type=sequence.type.element)


@op(OPS, "SequenceLength")
def _length(call: Call) -> Result:
    return Held(items=(call.op("len", _list(call, 0), type=INT),), is_scalar=True)


@op(OPS, "SequenceInsert")
def _insert(call: Call) -> Value:
    sequence, item = _list(call, 0), call.any(1)
    place = call.items(2)[0] if call.has(2) else None
    copy = call.op("list", sequence, type=ListType(TENSOR))
    if place is None:
        call.emit.ops("append", 1, copy, item, types=(ListType(TENSOR),))
    else:
        call.emit.ops("insert", 0, copy, place, item, types=())
    return copy


@op(OPS, "SequenceErase")
def _erase(call: Call) -> Value:
    place = call.items(1)[0] if call.has(1) else -1
    copy = call.op("list", _list(call, 0), type=ListType(TENSOR))
    call.emit.ops("pop", 1, copy, place, types=(TENSOR,))
    return copy


@op(OPS, "ConcatFromSequence")
def _concat(call: Call) -> Value:
    return call.op("stack" if call.integer("new_axis", 0) else "cat", _list(call, 0), call.integer("axis"))


@op(OPS, "SplitToSequence")
def _split(call: Call) -> Value:
    x, axis = call.any(0), call.axis("axis", 0)
    if not call.has(1):
        if not call.integer("keepdims", 1):
            return call.op("unbind", x, axis, type=ListType(TENSOR))
        return call.op("split", x, 1, axis, type=ListType(TENSOR))
    if call.rank(1) == 0:
        return call.op("split", x, call.items(1)[0], axis, type=ListType(TENSOR))
    return call.op("split_with_sizes", x, call.items(1), axis, type=ListType(TENSOR))


def _list(call: Call, index: int) -> Value:
    found = call.any(index)
    if not isinstance(found.type, ListType):
        raise call.refuse(f"its input {index} is not a sequence")
    return found


@op(OPS, "Optional")
def _optional(call: Call) -> Result:
    if not call.has(0):
        raise call.refuse("it creates an optional value without an element")
    return call.held(0)


@op(OPS, "OptionalHasElement")
def _has_element(call: Call) -> Result:
    import numpy as np

    if not call.has(0):
        return Held(array=np.array(False))
    if not isinstance(call.type(), OptionalType):
        return Held(array=np.array(True))
    there = call.op("__isnot__", call.any(0), call.emit.constant(None, NONE), type=BOOL)
    return call.op("tensor", there, 11, None, False)


@op(OPS, "OptionalGetElement")
def _get_element(call: Call) -> Result:
    type = call.type()
    if not isinstance(type, OptionalType):
        return call.held(0)
    return call.op("prim::unchecked_unwrap_optional", call.any(0), type=type.element)
