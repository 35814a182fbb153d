"""Parts of tensors: Slice, Split, Pad."""

from __future__ import annotations

from typing import Final

from irscope.frontends.onnx.building.call import Call, Result
from irscope.frontends.onnx.building.held import Held, Item
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.ir import TENSOR, ListType, TensorType, Value

__all__ = ["OPS"]

OPS: Table = {}
_FAR: Final = 2**62
_LONGEST: Final = 1 << 20
"""Places along an axis that are worked out one by one."""


@op(OPS, "Slice")
def _slice(call: Call) -> Result:
    starts, ends = call.integers("starts"), call.integers("ends")
    axes = call.integers("axes", list(range(len(starts))))
    return _sliced(call, list(starts), list(ends), list(axes), [1 for _ in starts])


@op(OPS, "Slice", since=10)
def _slice_10(call: Call) -> Result:
    starts, ends = call.items(1), call.items(2)
    axes = call.items(3) if call.has(3) else [*range(len(starts))]
    steps: list[Item] = call.items(4) if call.has(4) else [1 for _ in starts]
    return _sliced(call, starts, ends, axes, steps)


def _sliced(call: Call, starts: list[Item], ends: list[Item], axes: list[Item], steps: list[Item]) -> Result:
    held = call.held(0)
    plain = [item for item in (*starts, *ends, *steps) if isinstance(item, int)]
    if held.items is not None and not held.is_scalar and len(starts) == 1 and len(plain) == 3:
        return Held(items=held.items[slice(*plain)], dtype=held.dtype)
    x = call.any(0)
    if not all(isinstance(step, int) for step in steps):
        raise call.refuse("its steps are known only at run time")
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        x = _one(call, x, start, end, axis, int(step))  # type: ignore[arg-type]
    return x


def _one(call: Call, x: Value, start: Item, end: Item, axis: Item, step: int) -> Value:
    if step > 0:
        return call.op("slice", x, axis, _near(start), _near(end), step)
    if step == 0:
        raise call.refuse("its step is zero")
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(axis, int)):
        raise call.refuse("its step is negative, and its start or end is known only at run time")
    size = call.size(x, axis)
    if not isinstance(size, int):
        if start == -1 and end <= -_FAR and step == -1:
            return call.op("flip", x, [axis])
        raise call.refuse("its step is negative, along an axis of unknown extent")
    places = range(size)[slice(start, end, step)]
    forwards = range(places[-1], places[0] + 1, -step) if places else range(0)
    taken = call.op("slice", x, axis, forwards.start, forwards.stop, -step)
    return call.op("flip", taken, [axis])


def _near(place: Item) -> Item:
    """A place within int64, whatever stands for the end."""
    return min(max(place, -_FAR), 2**63 - 1) if isinstance(place, int) else place


@op(OPS, "Split")
def _split(call: Call) -> list[Value]:
    return _parts(call, call.attr("split", None))


@op(OPS, "Split", since=13)
def _split_13(call: Call) -> list[Value]:
    return _parts(call, call.items(1) if call.has(1) else None)


def _parts(call: Call, sizes: list[Item] | None) -> list[Value]:
    x, axis = call.any(0), call.axis("axis", 0)
    extent = call.size(x, axis)
    if sizes is None:
        count = call.outputs
        if isinstance(extent, int):
            each = -(-extent // count)
            sizes = [min(each, max(0, extent - each * index)) for index in range(count)]
        elif call.opset >= 18:
            raise call.refuse("the extent of the axis that is split is not known")
        else:
            sizes = [call.op("floordiv", extent, count)] * count
    listed = call.emit.op("split_with_sizes", x, sizes, axis, type=ListType(TENSOR))
    types = [_part_type(x, axis, size) for size in sizes]
    return list(call.emit.ops("prim::ListUnpack", len(sizes), listed, types=types))


def _part_type(x: Value, axis: int, size: Item) -> TensorType:
    assert isinstance(x.type, TensorType)
    shape = x.type.shape
    extent = size if isinstance(size, int) else None
    return TensorType(x.type.dtype, None if shape is None else (*shape[:axis], extent, *shape[axis + 1 :]))


@op(OPS, "Pad")
def _pad(call: Call) -> Value:
    return _padded(call, list(call.integers("pads")), list(range(call.rank())), call.attr("value", 0.0))


@op(OPS, "Pad", since=11)
def _pad_11(call: Call) -> Value:
    axes = [call.wrap(axis, call.rank()) for axis in call.known_ints(3)] if call.has(3) else list(range(call.rank()))
    value = call.number(2) if call.has(2) else 0
    return _padded(call, call.items(1), axes, value)


def _padded(call: Call, pads: list[Item], axes: list[int], value: float | Value) -> Value:
    """ONNX has all starts, then all ends; `aten::` has the last axis first, a start and an end each."""
    x, mode = call.x(), call.text("mode", "constant")
    if len(pads) != 2 * len(axes):
        raise call.refuse(f"it has {len(pads)} pads for {len(axes)} axes")
    both = dict(zip(axes, zip(pads, pads[len(axes) :], strict=False), strict=True))
    if mode == "constant":
        flat = [item for axis in reversed(range(call.rank())) for item in both.get(axis, (0, 0))]
        return call.op("constant_pad_nd", x, flat, value)
    if not all(isinstance(item, int) for item in pads):
        raise call.refuse("the value it pads with is known only at run time")
    for axis, (before, after) in both.items():
        x = _mirrored(call, x, axis, int(before), int(after), mode)  # type: ignore[arg-type]
    return x


def _mirrored(call: Call, x: Value, axis: int, before: int, after: int, mode: str) -> Value:
    """Axis by axis, by picking the places that the padding repeats."""
    size = call.size(x, axis)
    if not before and not after:
        return x
    if not isinstance(size, int) or size == 0 or -before > size or -after > size or size + before + after > _LONGEST:
        raise call.refuse("the extent of an axis that it pads is not known, or too large")
    places = [_source(place, size, mode) for place in range(-before, size + after)]
    if None in places:
        raise call.refuse(f"its mode is {mode}")
    import numpy as np

    index = call.values.value_of(Held(array=np.array(places, np.int64), name=""))
    return call.op("index_select", x, axis, index)


def _source(place: int, size: int, mode: str) -> int | None:
    """Which element stands at a place beyond the ends."""
    if mode == "edge":
        return min(max(place, 0), size - 1)
    if mode == "wrap":
        return place % size
    if mode != "reflect":
        return None
    period = max(2 * (size - 1), 1)
    place %= period
    return place if place < size else period - place
