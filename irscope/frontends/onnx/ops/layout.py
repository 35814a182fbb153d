"""Builders of ops that change a tensor's shape: reshapes, permutations, new and dropped axes, repeats."""

from __future__ import annotations

from typing import Any

from irscope.frontends.onnx.building.call import Call, Result, extents_of
from irscope.frontends.onnx.building.held import Held, Item
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.ir import BOOL, INT, TENSOR, ListType, TensorType, Value

__all__ = ["OPS"]

OPS: Table = {}


@op(OPS, "Reshape")
def _reshape(call: Call) -> Result:
    held = call.held(0)
    target = call.held(1).known()
    if held.items is not None and target is not None and target.size <= 1:  # to a vector of one element, or to a scalar
        return Held(items=held.items, is_scalar=target.size == 0, dtype=held.dtype)
    computed = call.held(1).items is None and target is None
    sizes = call.items(1)
    x = call.any(0)
    if not call.integer("allowzero", 0):
        sizes = [_kept(call, x, axis, size, computed) for axis, size in enumerate(sizes)]
    return call.op("reshape", x, sizes)


def _kept(call: Call, x: Value, axis: int, size: Item, computed: bool) -> Item:
    """Replaces a size of zero, which means the operand's own extent.

    A size that is the extent of some tensor is used unchanged: it is zero only if there are no elements to move.
    """
    if isinstance(size, int):
        return size if size else _own(call, x, axis)
    return _own_if_zero(call, x, axis, size) if computed else size


def _own(call: Call, x: Value, axis: int) -> Item:
    shape = extents_of(x)
    if shape is not None and axis >= len(shape):
        raise call.refuse(f"the operand has no axis {axis} to take the extent of")
    return call.size(x, axis)


def _own_if_zero(call: Call, x: Value, axis: int, size: Value) -> Item:
    rank = x.type.rank if isinstance(x.type, TensorType) else None
    if rank is None or axis >= rank:
        return size
    emit = call.emit
    is_zero = emit.op("eq", size, 0, type=BOOL)
    with emit.block() as own:
        own.returns([emit.value(call.size(x, axis))])
    with emit.block() as given:
        given.returns([size])
    return emit.node("prim::If", (is_zero,), (INT,), blocks=(own, given))[0]


@op(OPS, "Flatten")
def _flatten(call: Call) -> Value:
    axis, rank = call.integer("axis", 1), call.rank()
    axis = axis + rank if axis < 0 else axis
    x = call.any(0)
    if axis == 0:
        return call.op("reshape", x, [1, -1] if _has_elements(x) else [1, call.op("numel", x)])
    if axis == rank:
        return call.op("reshape", x, [-1, 1])
    if rank == 2:
        return call.op("reshape", x, [call.size(x, 0), call.size(x, 1)])
    rows, columns = _product(call, x, range(axis)), _product(call, x, range(axis, rank))
    return call.op("reshape", x, [rows, columns])


def _product(call: Call, x: Value, axes: range) -> Item:
    found: Item = 1
    for axis in axes:
        size = call.size(x, axis)
        if isinstance(found, int) and isinstance(size, int):
            found *= size
        else:
            found = size if found == 1 else call.op("mul", found, size)
    return found


def _has_elements(x: Value) -> bool:
    return isinstance(x.type, TensorType) and bool(x.type.numel)


@op(OPS, "Transpose")
def _transpose(call: Call) -> Value:
    order = call.attr("perm", None)
    order = list(reversed(range(call.rank()))) if order is None else order
    return call.op("permute", call.any(0), order)


@op(OPS, "Squeeze")
def _squeeze(call: Call) -> Result:
    return _squeezed(call, call.attr("axes", None))


@op(OPS, "Squeeze", since=13)
def _squeeze_13(call: Call) -> Result:
    return _squeezed(call, call.items(1) if call.has(1) else None)


def _squeezed(call: Call, axes: Any) -> Result:
    held = call.held(0)
    if held.items is not None and not held.is_scalar and len(held.items) == 1:
        return Held(items=held.items, is_scalar=True, dtype=held.dtype)
    x = call.any(0)
    if axes is None:
        return call.op("squeeze", x)
    if not axes:
        return x
    shape = extents_of(x)
    for axis in axes:
        extent = shape[axis] if shape is not None and isinstance(axis, int) and -len(shape) <= axis < len(shape) else 1
        if isinstance(extent, int) and extent != 1:
            raise call.refuse(f"axis {axis} has {extent} elements and cannot be dropped")
    return call.op("squeeze", x, list(axes))


@op(OPS, "Unsqueeze")
def _unsqueeze(call: Call) -> Result:
    return _unsqueezed(call, call.integers("axes"))


@op(OPS, "Unsqueeze", since=13)
def _unsqueeze_13(call: Call) -> Result:
    return _unsqueezed(call, call.items(1))


def _unsqueezed(call: Call, axes: list[Any]) -> Result:
    held = call.held(0)
    if held.items is not None and held.is_scalar and len(axes) == 1:
        return Held(items=held.items, dtype=held.dtype)
    x = call.any(0)
    if len(axes) == 1:
        return call.op("unsqueeze", x, axes[0])
    if not all(isinstance(axis, int) for axis in axes):
        raise call.refuse("its axes are known only at run time")
    rank = call.rank() + len(axes)
    for axis in sorted(call.wrap(axis, rank) for axis in axes):
        x = call.op("unsqueeze", x, axis)
    return x


@op(OPS, "Expand")
def _expand(call: Call) -> Value:
    """Expands the operand to the shape that it and the requested one broadcast to."""
    x, sizes = call.any(0), call.items(1)
    shape = extents_of(x)
    if shape is not None:
        sizes = [*[-1] * (len(shape) - len(sizes)), *sizes]
        lead = len(sizes) - len(shape)
        made = [_broadcast(size, None if axis < lead else shape[axis - lead], axis < lead) for axis, size in enumerate(sizes)]
        if all(item is not None for item in made):
            return call.op("expand", x, made, False)
    like = call.op("zeros", sizes, 11, None, None, None)
    both = call.emit.list([x, like], TENSOR)
    joined = call.emit.op("broadcast_tensors", both, type=ListType(TENSOR))
    made_type = TensorType(call.dtype(), (None,) * max(len(sizes), len(shape or ()))) if shape is not None else TENSOR
    return call.emit.ops("prim::ListUnpack", 2, joined, types=(made_type, TENSOR))[0]


def _broadcast(wanted: Item, extent: Any, is_new: bool) -> Item | None:
    """Returns the size for `aten::expand` along an axis; None if it depends on unknown numbers."""
    if is_new:
        return wanted
    if isinstance(wanted, int):
        return -1 if wanted in (1, -1) else wanted if extent == 1 or not isinstance(extent, int) else -1
    if extent == 1:
        return wanted
    return -1 if isinstance(extent, int) else None


@op(OPS, "Tile")
def _tile(call: Call) -> Value:
    return call.op("repeat", call.any(0), call.items(1))


@op(OPS, "DepthToSpace")
def _depth_to_space(call: Call) -> Value:
    x, block = call.any(0), call.integer("blocksize")
    n, c, h, w = (call.size(x, axis) for axis in range(4))
    if not isinstance(c, int):
        raise call.refuse("the number of channels is not known")
    inner = c // (block * block)
    if call.text("mode", "DCR") == "DCR":
        split, order = [n, block, block, inner, h, w], [0, 3, 4, 1, 5, 2]
    else:
        split, order = [n, inner, block, block, h, w], [0, 1, 4, 2, 5, 3]
    tiles = call.op("permute", call.op("reshape", x, split), order)
    return call.op("reshape", tiles, [n, inner, _times(call, h, block), _times(call, w, block)])


@op(OPS, "SpaceToDepth")
def _space_to_depth(call: Call) -> Value:
    x, block = call.any(0), call.integer("blocksize")
    n, c, h, w = (call.size(x, axis) for axis in range(4))
    if not (isinstance(h, int) and isinstance(w, int)):
        raise call.refuse("height and width are not known")
    tiles = call.op("reshape", x, [n, c, h // block, block, w // block, block])
    by_block = call.text("mode", "DCR") == "DCR"
    order = call.op("permute", tiles, [0, 3, 5, 1, 2, 4] if by_block else [0, 1, 3, 5, 2, 4])
    return call.op("reshape", order, [n, _times(call, c, block * block), h // block, w // block])


def _times(call: Call, size: Item, factor: int) -> Item:
    return size * factor if isinstance(size, int) else call.op("mul", size, factor)
