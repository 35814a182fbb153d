"""The ops that rearrange elements into new tensors: joining, repeating, flipping, padding, grids."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from irscope.ir import TENSOR, ListType, TensorType
from irscope.ops.expr.elementwise import result_type
from irscope.ops.numpy_layout import Array, array_type, channels_last_copy, in_format, laid_out_like, type_suggests_channels_last
from irscope.ops.op import define
from irscope.ops.type_rules import (
    Abstract,
    Unknown,
    as_dims,
    channels_last_strides,
    fresh,
    known_ints,
    mismatch,
    promote_types,
    refined,
    same_dim,
    static_shape,
    suggests_channels_last,
    to_complex,
    wrap_dim,
)

_memory: Final = partial(define, category="memory")


def _of_parts(real: TensorType, imag: TensorType) -> TensorType:
    dtype = None if real.dtype is None or real.dtype != imag.dtype else to_complex(real.dtype)
    return result_type(dtype, (real, imag))


def _of_part_arrays(real: Array, imag: Array) -> Array:
    made = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real, np.complex64))
    made.real, made.imag = real, imag
    return made


def _cat(tensors: Abstract, dim: Abstract = 0) -> TensorType:
    if isinstance(tensors, Unknown) or not tensors:
        return TENSOR
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = promote_types(dtype, tensor.dtype) if dtype is not None and tensor.dtype is not None else None
    if any(tensor.shape is None for tensor in tensors) or isinstance(dim, Unknown):
        return TensorType(dtype)
    parts = _parts(tensors)
    shape = list(parts[0].shape or ())
    axis = wrap_dim(dim, len(shape), op="cat")
    sizes = [shape[axis]]
    for part in parts[1:]:
        here = part.shape or ()
        if len(here) != len(shape):
            raise mismatch(f"cat joins tensors of one rank, not {parts[0]} and {part}", rule="cat-shapes")
        sizes.append(here[axis])
        for other in set(range(len(shape))) - {axis}:
            what = f"cat along {dim} of {parts[0]} and {part}: dimension {other} differs"
            shape[other] = same_dim(shape[other], here[other], what=what, rule="cat-shapes")
    known = known_ints(sizes)
    shape[axis] = None if known is None else sum(known)
    return in_format(dtype, shape, *map(type_suggests_channels_last, tensors))


def _parts(tensors: Sequence[TensorType]) -> Sequence[TensorType]:
    """Return the tensors without the empty vectors, which cat skips whatever the rank of the others."""
    some = [tensor for tensor in tensors if tensor.shape != (0,)] or list(tensors)
    ranks = {tensor.rank for tensor in some}
    return [tensor for tensor in some if tensor.shape != (None,)] if len(ranks) == 2 and 1 in ranks else some


def _stack(tensors: Abstract, dim: Abstract = 0) -> TensorType:
    """Infer the layout as torch does: it joins along the dimension after the new one and splits that in two, or along a new last
    dimension."""
    if isinstance(tensors, Unknown) or not tensors or isinstance(dim, Unknown):
        return TENSOR
    lifted = []
    for tensor in tensors:
        if tensor.shape is None:
            return TensorType(tensor.dtype)
        axis = wrap_dim(dim, len(tensor.shape) + 1, op="stack")
        strides = (*tensor.strides, 1) if tensor.strides is not None and axis == len(tensor.shape) else None
        lifted.append(TensorType(tensor.dtype, (*tensor.shape[:axis], 1, *tensor.shape[axis:]), strides))
    joined = _cat(lifted, dim)
    if axis == len(tensors[0].shape):
        return joined
    formats = [type_suggests_channels_last(tensor) for tensor in tensors]
    shape = static_shape(refined(joined.dtype, joined.shape))
    if False in formats:
        return fresh(joined.dtype, joined.shape)
    if None in formats or shape is None:
        return refined(joined.dtype, joined.shape)
    count, size = shape[axis : axis + 2]
    steps = channels_last_strides((*shape[:axis], count * size, *shape[axis + 2 :]))
    return refined(joined.dtype, shape, (*steps[:axis], steps[axis] * size, *steps[axis:]))


def _stack_arrays(tensors: Sequence[Array], dim: int = 0) -> Array:
    rank = tensors[0].ndim
    axis = dim % (rank + 1)
    if axis == rank:
        return _cat_arrays([tensor[..., None] for tensor in tensors], axis)
    shape = (*tensors[0].shape[:axis], len(tensors), *tensors[0].shape[axis:])
    return _cat_arrays(tensors, axis).reshape(shape)


def _repeat(self: TensorType, repeats: Abstract) -> TensorType:
    counts = as_dims(repeats)
    if self.shape is None or counts is None:
        return TensorType(self.dtype)
    if len(counts) < len(self.shape):
        raise mismatch(f"repeat({counts}) names fewer dimensions than {self} has", rule="repeat-dims")
    shape = (1,) * (len(counts) - len(self.shape)) + self.shape
    return fresh(self.dtype, [a * b if isinstance(a, int) and isinstance(b, int) else None for a, b in zip(shape, counts, strict=True)])


def _rolled(self: TensorType, shifts: Abstract, dims: Abstract = ()) -> TensorType:
    """Infer the layout as torch does: for each axis it swaps two parts and joins them as `cat` does. Without axes the tensor is rolled
    flat, and one without elements is copied."""
    axes, amounts = known_ints(dims), known_ints(shifts)
    shape = static_shape(self)
    if axes is None or amounts is None or shape is None:
        return refined(self.dtype, self.shape)
    if not axes:
        return fresh(self.dtype, shape)
    if 0 in shape:
        return laid_out_like(self, self.dtype)
    here = self
    for axis, amount in zip(axes, amounts, strict=False):
        at = wrap_dim(axis, len(shape), op="roll")
        start = -amount % shape[at]
        parts = [(*shape[:at], size, *shape[at + 1 :]) for size in (shape[at] - start, start)]
        here = in_format(self.dtype, shape, *(type_suggests_channels_last(TensorType(self.dtype, part, here.strides)) for part in parts))
    return here


def _padded(self: TensorType, pad: Abstract, mode: Abstract = "constant", value: Abstract = None) -> TensorType:
    margins = known_ints(pad)
    if self.shape is None or margins is None:
        return TensorType(self.dtype, self.shape and (None,) * len(self.shape))
    if len(margins) > 2 * len(self.shape) or len(margins) % 2:
        raise mismatch(f"pad takes two margins a dimension; {margins} does not fit {self}", rule="pad-length")
    shape = list(self.shape)
    for index in range(len(margins) // 2):
        here = shape[-1 - index]
        shape[-1 - index] = here + margins[2 * index] + margins[2 * index + 1] if isinstance(here, int) else None
    if mode != "constant":
        return refined(self.dtype, shape)
    if max(margins, default=0) <= 0:  # a copy of the remaining part, with its layout
        return laid_out_like(refined(self.dtype, shape, self.strides), self.dtype)
    return in_format(self.dtype, shape, type_suggests_channels_last(self))


def _meshgrid(tensors: Abstract, indexing: Abstract = "ij") -> Abstract:
    if isinstance(tensors, Unknown) or any(tensor.numel is None for tensor in tensors):
        return Unknown(ListType(TENSOR)) if isinstance(tensors, Unknown) else [TensorType(t.dtype) for t in tensors]
    order = list(range(len(tensors)))
    if indexing != "ij":
        order[:2] = order[:2][::-1]
    shape = [tensors[axis].numel for axis in order]
    grids = []
    for own, tensor in enumerate(tensors):
        step = tensor.strides[0] if tensor.strides else 1 if tensor.shape == () else None
        grids.append(refined(tensor.dtype, shape, None if step is None or 1 in shape else [step * (axis == own) for axis in order]))
    return grids


def _cat_arrays(tensors: Sequence[Array], dim: int = 0) -> Array:
    parts = [tensor for tensor in tensors if tensor.shape != (0,)] or list(tensors)
    joined: Array = np.concatenate(parts, axis=dim)
    if joined.ndim not in (4, 5):
        return np.ascontiguousarray(joined)
    strides = [array_type(part).strides or () for part in parts]
    if all(suggests_channels_last(part.shape, steps) for part, steps in zip(parts, strides, strict=True)):
        return channels_last_copy(joined)
    return np.ascontiguousarray(joined)


def _roll_array(self: Array, shifts: Any, dims: Any = ()) -> Array:
    axes = tuple(dims) if isinstance(dims, list | tuple) else (dims,)
    amounts = tuple(shifts) if isinstance(shifts, list | tuple) else (shifts,)
    return np.roll(self, amounts, axes) if axes else np.roll(self, amounts[0])


def _pad_array(self: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Array:
    margins = [(0, 0)] * (self.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    most = {"reflect": -1, "circular": 0}.get(mode)
    for (before, after), size in zip(margins, self.shape, strict=True):  # torch refuses these
        left = size + before + after - 1 if mode in ("reflect", "replicate") else size + min(before, 0) + min(after, 0)
        if (before or after) and (left < 0 or (most is not None and max(before, after, 0) > max(size + most, 0))):
            raise ValueError(f"margins of {before} and {after} do not fit an extent of {size}")
    if mode in ("reflect", "replicate"):
        for axis, (before, after) in enumerate(margins):
            if before or after:
                self = self.take(_padded_positions(self.shape[axis], before, after, mode), axis)
        return self.copy()
    inside = self[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(margins, self.shape, strict=True))]
    outside = [(max(a, 0), max(b, 0)) for a, b in margins]
    if mode == "constant":
        return np.pad(inside, outside, constant_values=value or 0)
    return np.pad(inside, outside, mode="wrap")


def _padded_positions(size: int, before: int, after: int, mode: str) -> Array:
    """Return the source position of each element of a padded dimension; an element that a negative margin cuts off can still be
    the edge."""
    positions = np.arange(-before, size + after)
    if mode == "replicate":
        return positions.clip(0, size - 1)
    return np.where(positions < 0, -positions, np.where(positions < size, positions, 2 * (size - 1) - positions))


OPS = (
    *(_memory(f"aten::{name}", type_rule=_cat, reference=_cat_arrays) for name in ("cat", "concat")),
    _memory("aten::stack", type_rule=_stack, reference=_stack_arrays),
    _memory(
        "aten::repeat",
        type_rule=_repeat,
        reference=lambda self, repeats: np.tile(self, repeats).reshape(
            [a * b for a, b in zip((1,) * (len(repeats) - self.ndim) + self.shape, repeats, strict=True)]
        ),
    ),
    _memory(
        "aten::flip",
        type_rule=lambda self, **rest: laid_out_like(self, self.dtype),
        reference=lambda self, dims: np.flip(self, tuple(dims) if isinstance(dims, list | tuple) else dims).copy(),
    ),
    _memory("aten::roll", type_rule=_rolled, reference=_roll_array),
    *(
        _memory(
            f"aten::{name}",
            type_rule=lambda self, **rest: fresh(self.dtype, self.shape),
            reference=lambda self, diagonal=0, part=part: part(self, diagonal),
        )
        for name, part in (("tril", np.tril), ("triu", np.triu))
    ),
    *(_memory(f"aten::{name}", type_rule=_padded, reference=_pad_array) for name in ("pad", "constant_pad_nd")),
    _memory("aten::complex", type_rule=_of_parts, reference=_of_part_arrays),
    define(
        "aten::meshgrid",
        "aten::meshgrid.indexing",
        category="view",
        type_rule=_meshgrid,
        reference=lambda tensors, indexing="ij": list(np.meshgrid(*tensors, indexing=indexing, copy=False)),
    ),
)
