"""The views of a part of a tensor: select, slice, narrow, diagonals, windows, and explicit strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irscope.ir import Dim, TensorType
from irscope.ops.checked_views import judged_view, strided_view
from irscope.ops.data.views import dims_of
from irscope.ops.typing import Abstract, Array, Unknown, as_dims, known_ints, mismatch, refined, wrap_dim

__all__ = ["OPS", "narrowed"]


def _select(self: TensorType, dim: Abstract, index: Abstract) -> TensorType:
    if self.shape is None:
        return refined(self.dtype, None)
    rank = len(self.shape)
    if isinstance(dim, Unknown):
        return refined(self.dtype, (None,) * (rank - 1))
    axis = wrap_dim(dim, rank, op="select")
    if not rank:
        raise mismatch("select needs a tensor of at least one dimension", rule="rank")
    here = self.shape[axis]
    if isinstance(index, int) and isinstance(here, int) and not -here <= index < here:
        raise mismatch(f"index {index} is outside dimension {dim} of {self}", rule="index-range")
    return dims_of(self, [other for other in range(rank) if other != axis])


def narrowed(self: TensorType, axis: int, size: Dim, step: int | None = 1) -> TensorType:
    """Return the type of a part of a tensor along one dimension, `step` elements apart (None: not known)."""
    assert self.shape is not None
    shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
    if self.strides is None or step is None:
        return refined(self.dtype, shape)
    return refined(self.dtype, shape, (*self.strides[:axis], self.strides[axis] * step, *self.strides[axis + 1 :]))


def _slice(
    self: TensorType, dim: Abstract = 0, start: Abstract = None, end: Abstract = None, step: Abstract = 1
) -> TensorType:
    if self.shape is None or isinstance(dim, Unknown):
        return refined(self.dtype, self.shape and (None,) * len(self.shape))
    axis = wrap_dim(dim, len(self.shape), op="slice")
    if not self.shape:
        raise mismatch("slice needs a tensor of at least one dimension", rule="rank")
    if isinstance(step, int) and step < 1:
        raise mismatch(f"the step of a slice is {step}; torch takes only steps of at least 1", rule="slice-step")
    size = _slice_size(self.shape[axis], start, end, step)
    return narrowed(self, axis, size, step if isinstance(step, int) else None)


def _slice_size(extent: Dim, start: Abstract, end: Abstract, step: Abstract) -> Dim:
    if any(isinstance(bound, Unknown) for bound in (start, end, step)):
        return None
    if isinstance(extent, int):
        return len(range(extent)[slice(start, end, step)])
    everything = start in (None, 0) and (end is None or end >= 2**62) and step == 1
    return extent if everything else None


def _narrow(self: TensorType, dim: Abstract, start: Abstract, length: Abstract) -> TensorType:
    if self.shape is None or isinstance(dim, Unknown):
        return refined(self.dtype, None)
    if not self.shape:
        raise mismatch("narrow needs a tensor of at least one dimension", rule="rank")
    axis = wrap_dim(dim, len(self.shape), op="narrow")
    here = self.shape[axis]
    if isinstance(length, int) and isinstance(here, int):
        first = start if isinstance(start, int) else 0
        if not (
            0 <= length <= here and -here <= first <= here and (first + here if first < 0 else first) + length <= here
        ):
            what = f"narrow from {start} to {length} elements is not within dimension {dim} of {self}"
            raise mismatch(what, rule="index-range")
    return narrowed(self, axis, length if isinstance(length, int) else None)


def _diagonal(self: TensorType, offset: Abstract = 0, dim1: Abstract = 0, dim2: Abstract = 1) -> TensorType:
    if self.shape is None or not all(isinstance(item, int) for item in (offset, dim1, dim2)):
        return refined(self.dtype, None)
    rank = len(self.shape)
    a, b = wrap_dim(dim1, rank, op="diagonal"), wrap_dim(dim2, rank, op="diagonal")
    rest = dims_of(self, [axis for axis in range(rank) if axis not in (a, b)])
    rows, columns = self.shape[a], self.shape[b]
    size: Dim = None
    if isinstance(rows, int) and isinstance(columns, int):
        size = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    strides = (
        None if self.strides is None or rest.strides is None else (*rest.strides, self.strides[a] + self.strides[b])
    )
    return refined(self.dtype, (*(rest.shape or ()), size), strides)


def _as_strided(self: TensorType, size: Abstract, stride: Abstract, storage_offset: Abstract = None) -> TensorType:
    sizes, strides = as_dims(size), known_ints(stride)
    if sizes is not None and strides is not None and len(sizes) != len(strides):
        raise mismatch(f"{len(sizes)} sizes and {len(strides)} strides make no view", rule="view-bounds")
    return refined(self.dtype, sizes, strides)


def _unfold(self: TensorType, dimension: Abstract, size: Abstract, step: Abstract) -> TensorType:
    if self.shape is None or not all(isinstance(item, int) for item in (dimension, size, step)):
        return refined(self.dtype, None)
    axis = wrap_dim(dimension, len(self.shape), op="unfold")
    here = self.shape[axis] if self.shape else 1
    if step < 1 or size < 0 or (isinstance(here, int) and size > here):
        raise mismatch(
            f"windows of {size}, {step} apart, do not fit dimension {dimension} of {self}", rule="index-range"
        )
    if not self.shape:
        return refined(self.dtype, (size,), None if self.strides is None else (1,))
    windows = narrowed(self, axis, (here - size) // step + 1 if isinstance(here, int) else None, step)
    strides = None if self.strides is None or windows.strides is None else (*windows.strides, self.strides[axis])
    return refined(self.dtype, (*(windows.shape or ()), size), strides)


def _select_array(self: Array, dim: int, index: int) -> Array:
    return self[(slice(None),) * (dim % self.ndim) + (index, ...)]


def _slice_array(self: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    return self[(slice(None),) * (dim % self.ndim) + (slice(start, end, step),)]


def _narrow_array(self: Array, dim: int, start: Any, length: int) -> Array:
    first = int(start) + self.shape[dim] if int(start) < 0 else int(start)
    return _slice_array(self, dim, first, first + length)


def _diagonal_array(self: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    seen = np.diagonal(self, offset, dim1, dim2)
    seen.flags.writeable = self.flags.writeable
    return seen


def _as_strided_array(
    self: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Array:
    """Return a strided view; as in torch, `storage_offset` counts from the start of the array's memory."""
    offset = None if storage_offset is None else int(storage_offset) * self.itemsize
    if min(stride, default=0) < 0:
        raise mismatch(f"as_strided takes no negative stride: {list(stride)}", rule="view-bounds")
    return strided_view(self, size, [step * self.itemsize for step in stride], offset)


def _unfold_array(self: Array, dimension: int, size: int, step: int) -> Array:
    if not self.ndim:
        return strided_view(self, (size,), (self.itemsize,), op="unfold")
    row = self.reshape(1) if self.ndim == 0 else self  # torch treats a 0-d tensor as a vector of one element
    windows = np.lib.stride_tricks.sliding_window_view(row, size, axis=dimension, writeable=True)
    windows = _slice_array(windows, dimension % row.ndim, None, None, step)
    return windows if self.ndim else windows.reshape(size) if size else windows[0]


OPS = (
    judged_view("aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", rule=_select, array=_select_array),
    judged_view(
        "aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, "
        "SymInt step=1) -> Tensor(a)",
        rule=_slice, array=_slice_array,
    ),
    judged_view(
        "aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)",
        "aten::narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)",
        rule=_narrow, array=_narrow_array,
    ),
    judged_view(
        "aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
        rule=_diagonal, array=_diagonal_array,
    ),
    judged_view(
        "aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
        rule=_as_strided, array=_as_strided_array,
    ),
    judged_view(
        "aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)", rule=_as_strided, array=_as_strided_array
    ),
    judged_view(
        "aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
        rule=_unfold, array=_unfold_array,
    ),
)
