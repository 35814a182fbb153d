"""The ops that cut a tensor into a list of views: chunk, split, unbind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irscope.ir import TENSOR, ListType, TensorType
from irscope.ops.checked_views import judged_view, strided_view
from irscope.ops.data.view_parts import narrowed
from irscope.ops.pieces import MOST_PIECES, chunks_of, pieces_at, pieces_of, sections_of
from irscope.ops.schema.define import define
from irscope.ops.typing import Abstract, Array, Unknown, at, broadcast, known_ints, mismatch, wrap_dim

__all__ = ["OPS"]

_SOME = Unknown(ListType(TENSOR), "how many pieces there are is not known")
_MANY = Unknown(ListType(TENSOR), f"there are more than {MOST_PIECES:,} pieces")


def _cut(self: TensorType, dim: int, sizes: Sequence[int] | None) -> Abstract:
    if sizes is None:
        return _MANY
    assert self.shape is not None
    axis = wrap_dim(dim, len(self.shape), op="split")
    return [narrowed(self, axis, size) for size in sizes]


def _extent(self: TensorType, dim: Abstract) -> int | None:
    if self.shape is None or isinstance(dim, Unknown):
        return None
    if not self.shape:
        raise mismatch("a tensor without dimensions cannot be cut", rule="rank")
    here = self.shape[wrap_dim(dim, len(self.shape), op="split")]
    return here if isinstance(here, int) else None


def _chunk(self: TensorType, chunks: Abstract, dim: Abstract = 0) -> Abstract:
    extent = _extent(self, dim)
    if extent is None or isinstance(chunks, Unknown):
        return _SOME
    if chunks < 1:
        raise mismatch(f"chunk takes at least 1 chunk, not {chunks}", rule="split-sizes")
    return _cut(self, dim, chunks_of(extent, chunks))


def _split(self: TensorType, split_size: Abstract, dim: Abstract = 0) -> Abstract:
    if isinstance(split_size, list | tuple):
        return _split_sizes(self, split_size, dim)
    extent = _extent(self, dim)
    if extent is None or isinstance(split_size, Unknown):
        return _SOME
    if split_size < 0 or (split_size == 0 and extent):
        raise mismatch(f"split cannot cut {extent} elements into pieces of {split_size}", rule="split-sizes")
    return _cut(self, dim, pieces_of(extent, split_size))


def _split_sizes(self: TensorType, split_sizes: Abstract, dim: Abstract = 0) -> Abstract:
    sizes = known_ints(split_sizes)
    if self.shape is None or sizes is None or isinstance(dim, Unknown):
        return _SOME
    extent = _extent(self, dim)
    if extent is not None and (sum(sizes) != extent or min(sizes, default=0) < 0):
        raise mismatch(f"pieces of {sizes} do not add up to dimension {dim} of {self}", rule="split-sizes")
    return _cut(self, dim, sizes)


def _split_named(
    self: TensorType, split_size: Abstract = None, dim: Abstract = 0, split_sizes: Abstract = None
) -> Abstract:
    return _split(self, split_size if split_sizes is None else split_sizes, dim)


def _unbind(self: TensorType, dim: Abstract = 0) -> Abstract:
    extent = _extent(self, dim)
    if extent is None:
        return _SOME
    if extent > MOST_PIECES:
        return _MANY
    assert self.shape is not None
    axis = wrap_dim(dim, len(self.shape), op="unbind")
    strides = None if self.strides is None else (*self.strides[:axis], *self.strides[axis + 1 :])
    return [TensorType(self.dtype, (*self.shape[:axis], *self.shape[axis + 1 :]), strides)] * extent


def _tensor_split(self: TensorType, sections: Abstract = None, dim: Abstract = 0, indices: Abstract = None) -> Abstract:
    extent = _extent(self, dim)
    given = sections if indices is None else known_ints(indices)
    if extent is None or given is None or isinstance(given, Unknown):
        return _SOME
    if not isinstance(given, int):
        return _cut(self, dim, pieces_at(extent, given))
    if given < 1:
        raise mismatch(f"tensor_split takes at least 1 section, not {given}", rule="split-sizes")
    return _cut(self, dim, sections_of(extent, given))


def _broadcast_tensors(tensors: Abstract) -> Abstract:
    if isinstance(tensors, Unknown):
        return _SOME
    shape = broadcast(*(tensor.shape for tensor in tensors))
    return [TensorType(tensor.dtype, shape, tensor.strides if tensor.shape == shape else None) for tensor in tensors]


def _cut_array(self: Array, dim: int, sizes: Sequence[int]) -> list[Array]:
    before = (slice(None),) * (dim % self.ndim)
    ends = np.cumsum(sizes).tolist()
    return [at(self, *before, slice(end - size, end)) for end, size in zip(ends, sizes, strict=True)]


def _split_array(self: Array, split_size: Any = None, dim: int = 0, split_sizes: Any = None) -> list[Array]:
    sizes = split_size if split_sizes is None else split_sizes
    return _cut_array(self, dim, (pieces_of(self.shape[dim], sizes, None) or ()) if isinstance(sizes, int) else sizes)


def _unbind_array(self: Array, dim: int = 0) -> list[Array]:
    before = (slice(None),) * (dim % self.ndim)
    return [at(self, *before, index, ...) for index in range(self.shape[dim])]


def _tensor_split_array(self: Array, sections: Any = None, dim: int = 0, indices: Any = None) -> list[Array]:
    return np.array_split(self, sections if indices is None else indices, axis=dim)


def _broadcast_arrays(tensors: Sequence[Array]) -> list[Array]:
    shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    return [
        strided_view(t, seen.shape, seen.strides, op="broadcast_tensors")
        for t, seen in ((t, np.broadcast_to(t, shape)) for t in tensors)
    ]


OPS = (
    judged_view(
        "aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
        rule=_chunk, array=lambda self, chunks, dim=0: _cut_array(self, dim, chunks_of(self.shape[dim], chunks, None) or ()),
    ),
    judged_view(
        "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
        "aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
        "aten::split(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]",
        rule=_split_named, array=_split_array,
    ),
    judged_view(
        "aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
        rule=_split_sizes, array=_split_array,
    ),
    judged_view("aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", rule=_unbind, array=_unbind_array),
    judged_view(
        "aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]",
        "aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
        rule=_tensor_split, array=_tensor_split_array,
    ),
    define(
        "aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]",
        category="view",
        type_rule=_broadcast_tensors,
        reference=_broadcast_arrays,
    ),
)
