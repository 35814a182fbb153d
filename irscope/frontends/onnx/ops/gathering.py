"""Builders of gathers, scatters and other ops that read or write at indices in a tensor."""

from __future__ import annotations

from irscope.frontends.onnx.building.call import Call, Result
from irscope.frontends.onnx.building.held import Held
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.ir import TENSOR, ListType, OptionalType, TensorType, Value

__all__ = ["OPS"]

OPS: Table = {}


def _places(call: Call, index: Value, x: Value, axis: int) -> Value:
    """Returns indices counted from the front; negative ones count from the end."""
    size = call.size(x, axis)
    held = call.inputs[1]
    known = held.known() if held is not None else None
    if known is not None and (known >= 0).all():
        return index
    return call.op("where", call.op("lt", index, 0), call.op("add", index, size), index)


@op(OPS, "Gather")
def _gather(call: Call) -> Result:
    axis, data = call.axis("axis", 0), call.held(0)
    known = call.held(1).known()
    if data.items is not None and known is not None and known.ndim <= 1 and known.size <= 16:
        picked = [data.items[int(place)] for place in known.reshape(-1)]
        return Held(items=tuple(picked), is_scalar=known.ndim == 0, dtype=data.dtype)
    x = call.any(0)
    if known is not None and known.ndim == 0:
        return call.op("select", x, axis, int(known))
    index = call.x(1)
    rank = call.rank(1)
    if rank == 1:
        return call.op("index_select", x, axis, _places(call, index, x, axis))
    if axis == 0 and call.rank(0) == 2:
        return call.op("embedding", x, _places(call, index, x, 0), -1, False, False)
    flat = call.op("reshape", _places(call, index, x, axis), [-1])
    taken = call.op("index_select", x, axis, flat)
    if rank == 0:
        return call.op("squeeze", taken, axis)
    sizes = [call.size(x, i) for i in range(call.rank(0))]
    around = [call.size(index, i) for i in range(rank)]
    return call.op("reshape", taken, [*sizes[:axis], *around, *sizes[axis + 1 :]])


@op(OPS, "GatherElements")
def _gather_elements(call: Call) -> Value:
    x, index, axis = call.x(0), call.x(1), call.axis("axis", 0)
    return call.op("gather", x, axis, call.cast(_places(call, index, x, axis), "int64"), False)


@op(OPS, "ScatterElements", "Scatter")
def _scatter_elements(call: Call) -> Value:
    x, index, updates, axis = call.x(0), call.x(1), call.x(2), call.axis("axis", 0)
    places = call.cast(_places(call, index, x, axis), "int64")
    reduction = call.text("reduction", "none")
    if reduction == "none":
        return call.op("scatter", x, axis, places, updates)
    if reduction == "add":
        return call.op("scatter_add", x, axis, places, updates)
    names = {"mul": "prod", "max": "amax", "min": "amin"}
    if reduction not in names:
        raise call.refuse(f"it reduces by {reduction}")
    return call.op("scatter_reduce", x, axis, places, updates, names[reduction], True)


def _columns(call: Call, index: Value, lead: int) -> list[Value | None]:
    """Splits indices along their last axis into one tensor per axis of the data, after `lead` axes that are taken
    whole."""
    shape = index.type.shape if isinstance(index.type, TensorType) else None
    last = shape[-1] if shape else None
    if not isinstance(last, int):
        raise call.refuse("the last extent of its indices is not known")
    return [None] * lead + [call.op("select", index, -1, place) for place in range(last)]


def _indices(call: Call, columns: list[Value | None]) -> Value:
    emit = call.emit
    values = [emit.constant(None) if column is None else column for column in columns]
    return emit.ops("prim::ListConstruct", 1, *values, types=(ListType(OptionalType(TENSOR)),))[0]


@op(OPS, "GatherND")
def _gather_nd(call: Call) -> Value:
    if call.integer("batch_dims", 0):
        raise call.refuse("it has batch axes")
    x, index = call.any(0), call.x(1)
    columns = _columns(call, index, 0)
    return call.op("index", x, _indices(call, columns), type=_gathered_type(call, len(columns)))


def _gathered_type(call: Call, taken: int) -> TensorType:
    return TensorType(call.dtype(0), (*call.shape(1)[:-1], *call.shape(0)[taken:]))


@op(OPS, "ScatterND")
def _scatter_nd(call: Call) -> Value:
    """At repeated indices the last write wins, or the updates are added; other reductions have no `aten::` op."""
    reduction = call.text("reduction", "none")
    if reduction not in ("none", "add"):
        raise call.refuse(f"it reduces by {reduction}")
    x, index, updates = call.x(0), call.x(1), call.x(2)
    listed = _indices(call, _columns(call, index, 0))
    return call.op("index_put", x, listed, updates, reduction == "add", type=x.type)


@op(OPS, "OneHot")
def _one_hot(call: Call) -> Value:
    depth, values = call.items(1)[0], call.x(2)
    index = call.cast(call.x(0), "int64")
    rank = call.rank()
    axis = call.axis("axis", -1, 0, extra=1)
    folded = call.op("where", call.op("lt", index, 0), call.op("add", index, depth), index)
    classes = call.op("arange", 0, depth, 1, 4, None, None, None)
    shape = [1] * rank + [-1]
    shape = [*shape[:axis], -1, *[1] * (rank - axis)]
    hit = call.op("eq", call.op("unsqueeze", folded, axis), call.op("reshape", classes, shape))
    off, on = (call.op("select", values, 0, place) for place in (0, 1))
    return call.op("where", hit, on, off)


@op(OPS, "Compress")
def _compress(call: Call) -> Value:
    x, mask = call.any(0), call.x(1)
    if "axis" not in call.attributes:
        x, axis = call.op("reshape", x, [-1]), 0
    else:
        axis = call.axis("axis")
    places = call.op("reshape", call.op("nonzero", mask), [-1])
    return call.op("index_select", x, axis, places)


@op(OPS, "TopK", since=10)
def _top_k(call: Call) -> tuple[Value, ...]:
    """Uses a stable sort, which returns the first of equal elements; `aten::topk` may return any."""
    x, k, axis = call.x(0), call.items(1)[0], call.axis("axis", -1)
    found = call.ops("sort", 2, x, True, axis, bool(call.integer("largest", 1)))
    return tuple(call.op("slice", part, axis, 0, k, 1) for part in found)


@op(OPS, "ReverseSequence")
def _reverse_sequence(call: Call) -> Value:
    """Gathers by indices: within its length, each row is read from its end."""
    x, lengths = call.x(0), call.x(1)
    time, batch = call.integer("time_axis", 0), call.integer("batch_axis", 1)
    if {time, batch} != {0, 1}:
        raise call.refuse("its axes are not 0 and 1")
    size, rank = call.size(x, time), call.rank()
    steps = call.op("reshape", call.op("arange", 0, size, 1, 4, None, None, None), _along(rank, time))
    ends = call.op("reshape", lengths, _along(rank, batch))
    backwards = call.op("sub", call.op("sub", ends, 1), steps)
    places = call.op("where", call.op("lt", steps, ends), backwards, steps)
    shape = [call.size(x, axis) for axis in range(rank)]
    return call.op("gather", x, time, call.op("expand", places, shape, False), False)


def _along(rank: int, axis: int) -> list[int]:
    return [-1 if i == axis else 1 for i in range(rank)]
