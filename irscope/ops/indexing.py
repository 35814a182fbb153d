"""The ops that pick elements, or store into picked ones, by positions that are themselves tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irscope.ir.types import TENSOR, Dim, ListType, TensorType
from irscope.ops.arrays import laid_out_like
from irscope.ops.define import define
from irscope.ops.type_rules import Abstract, Unknown, broadcast, fresh, mismatch, refined, wrap_dim

__all__ = ["OPS"]

Array = np.ndarray[Any, Any]


def _embedding(weight: TensorType, indices: TensorType, **rest: Abstract) -> TensorType:
    if weight.shape is None or indices.shape is None:
        return TensorType(weight.dtype)
    if len(weight.shape) != 2:
        raise mismatch(f"embedding takes a matrix of vectors, not {weight}", rule="rank")
    return fresh(weight.dtype, (*indices.shape, weight.shape[1]))


def _index(self: TensorType, indices: Abstract) -> TensorType:
    if self.shape is None or isinstance(indices, Unknown) or any(isinstance(index, Unknown) for index in indices):
        return TensorType(self.dtype)
    if any(index is not None and (index.shape is None or index.dtype in ("bool", "uint8", None)) for index in indices):
        return TensorType(self.dtype)
    if len(indices) > len(self.shape):
        raise mismatch(f"{len(indices)} indices are too many for {self}", rule="index-count")
    places = [place for place, index in enumerate(indices) if index is not None]
    picked = broadcast(*(indices[place].shape for place in places)) or ()
    rest = [dim for place, dim in enumerate(self.shape) if place not in places]
    together = not places or places[-1] - places[0] + 1 == len(places)
    at = places[0] if places and together else 0
    return refined(self.dtype, (*rest[:at], *picked, *rest[at:]))


def _index_select(self: TensorType, dim: Abstract, index: TensorType) -> TensorType:
    if self.shape is None or isinstance(dim, Unknown):
        return TensorType(self.dtype)
    axis = wrap_dim(dim, len(self.shape), op="index_select")
    if not self.shape:
        return fresh(self.dtype, ())
    return fresh(self.dtype, (*self.shape[:axis], index.numel, *self.shape[axis + 1 :]))


def _gather(self: TensorType, dim: Abstract, index: TensorType, **rest: Abstract) -> TensorType:
    if self.shape is not None and index.shape is not None and max(len(self.shape), 1) != max(len(index.shape), 1):
        raise mismatch(f"gather needs an index of the tensor's rank: {self} and {index}", rule="rank")
    return fresh(self.dtype, index.shape)


def _scattered(self: TensorType, **rest: Abstract) -> TensorType:
    return laid_out_like(self, self.dtype)


def _same(self: TensorType, **rest: Abstract) -> TensorType:
    return self


def _nonzero(self: TensorType) -> TensorType:
    return refined("int64", (None, None if self.shape is None else len(self.shape)))


def _where_positions(condition: TensorType) -> Abstract:
    if condition.shape is None:
        return Unknown(ListType(TENSOR), "the rank of the condition is not known")
    return [TensorType("int64", (None,))] * max(len(condition.shape), 1)


def _masked_select(self: TensorType, mask: TensorType) -> TensorType:
    return refined(self.dtype, (None,))


def _one_hot(self: TensorType, num_classes: Abstract = -1) -> TensorType:
    if self.shape is None:
        return TensorType("int64")
    count = num_classes if isinstance(num_classes, int) and num_classes >= 0 else None
    return fresh("int64", (*self.shape, count))


def _topk(self: TensorType, k: Abstract, dim: Abstract = -1, **rest: Abstract) -> tuple[TensorType, TensorType]:
    if self.shape is None or isinstance(dim, Unknown):
        return TensorType(self.dtype), TensorType("int64")
    axis = wrap_dim(dim, len(self.shape), op="topk")
    shape: list[Dim] = list(self.shape)
    if shape:
        here = shape[axis]
        if isinstance(k, int) and isinstance(here, int) and k > here:
            raise mismatch(f"topk of {k} is more than dimension {dim} of {self} has", rule="index-range")
        shape[axis] = k if isinstance(k, int) else None
    return refined(self.dtype, shape), refined("int64", shape)


def _sort(self: TensorType, **rest: Abstract) -> tuple[TensorType, TensorType]:
    values = laid_out_like(self, self.dtype)
    return values, values.with_(dtype="int64")


def _argsort(self: TensorType, **rest: Abstract) -> TensorType:
    return laid_out_like(self, "int64")


def _repeat_interleave(self: TensorType, repeats: Abstract, dim: Abstract = None, **rest: Abstract) -> TensorType:
    if self.shape is None or isinstance(dim, Unknown):
        return TensorType(self.dtype)
    shape = (self.numel,) if dim is None else self.shape
    axis = wrap_dim(dim or 0, len(shape), op="repeat_interleave")
    here = shape[axis]
    size = here * repeats if isinstance(here, int) and isinstance(repeats, int) else None
    return refined(self.dtype, (*shape[:axis], size, *shape[axis + 1 :]))


def _pick(indices: Sequence[Array | None]) -> tuple[Any, ...]:
    """Torch's indices as NumPy's: None takes the whole dimension, a byte mask is a mask."""
    return tuple(
        slice(None) if index is None else index.astype(np.bool_) if index.dtype == np.uint8 else index for index in indices
    )


def _index_array(self: Array, indices: Sequence[Array | None]) -> Array:
    return np.asarray(self[_pick(indices)])


def _index_put_(self: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False, **rest: Any) -> Array:
    if accumulate:
        np.add.at(self, _pick(indices), values)
    else:
        self[_pick(indices)] = values
    return self


def _index_put(self: Array, **arguments: Any) -> Array:
    return _index_put_(self.copy("K"), **arguments)


def _gather_array(self: Array, dim: int, index: Array, **rest: Any) -> Array:
    if self.ndim == 0:
        return self.reshape(1)[np.atleast_1d(index)].reshape(index.shape)
    return self[_along(self, dim, index)]


def _along(self: Array, dim: int, index: Array) -> tuple[Any, ...]:
    """The positions that an index tensor means: itself along `dim`, its own coordinates elsewhere."""
    places: list[Any] = list(np.ogrid[tuple(slice(size) for size in index.shape)])
    places[dim] = index
    return tuple(places)


def _scatter_(self: Array, dim: int, index: Array, src: Any = None, value: Any = None, reduce: str = "", **rest: Any) -> Array:
    seen, index = (self, index) if self.ndim else (self.reshape(1), np.atleast_1d(index))
    stored = value if src is None else src[tuple(slice(size) for size in index.shape)] if src.ndim else src
    places = _along(seen, dim, index)
    if reduce in ("add", "sum"):
        np.add.at(seen, places, stored)
    elif reduce in ("multiply", "prod"):
        np.multiply.at(seen, places, stored)
    else:
        seen[places] = stored
    return self


def _scatter(self: Array, **arguments: Any) -> Array:
    return _scatter_(self.copy("K"), **arguments)


def _scatter_add_(self: Array, dim: int, index: Array, src: Array) -> Array:
    return _scatter_(self, dim, index, src, reduce="add")


def _index_fill_(self: Array, dim: int, index: Array, value: Any) -> Array:
    self[(slice(None),) * (dim % max(self.ndim, 1)) + (index,)] = value
    return self


def _index_copy_(self: Array, dim: int, index: Array, source: Array) -> Array:
    return _index_fill_(self, dim, index, source)


def _index_add_(self: Array, dim: int, index: Array, source: Array, alpha: Any = 1) -> Array:
    np.add.at(self, (slice(None),) * (dim % max(self.ndim, 1)) + (index,), source * alpha)
    return self


def _topk_arrays(self: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    values, indices = _sort_arrays(self, dim=dim, descending=largest)
    if not self.ndim:
        return values, indices
    part = (slice(None),) * (dim % self.ndim) + (slice(k),)
    return np.ascontiguousarray(values[part]), np.ascontiguousarray(indices[part])


def _sort_arrays(self: Array, dim: int = -1, descending: bool = False, stable: bool | None = None) -> tuple[Array, Array]:
    if not self.ndim:
        return self.copy(), np.zeros((), np.int64)
    turned = np.flip(self, dim) if descending else self
    order = np.argsort(turned, axis=dim, kind="stable")
    values = np.take_along_axis(turned, order, axis=dim)
    if descending:  # turned around twice, so that equal elements keep their order
        order = np.flip(self.shape[dim] - 1 - order, dim)
        values = np.flip(values, dim)
    return values.copy(), order.astype(np.int64)


def _repeat_array(self: Array, repeats: Any, dim: int | None = None, **rest: Any) -> Array:
    return np.repeat(self, repeats, axis=dim)


def _one_hot_array(self: Array, num_classes: int = -1) -> Array:
    count = int(self.max()) + 1 if num_classes < 0 else num_classes
    return (self[..., None] == np.arange(count)).astype(np.int64)


def _where_arrays(condition: Array) -> list[Array]:
    return list(np.nonzero(np.atleast_1d(condition)))


_INDEX_PUT = "Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"

OPS = (
    define(
        "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
        "bool sparse=False) -> Tensor",
        category="memory", type_rule=_embedding, reference=lambda weight, indices, **rest: weight[indices],
    ),
    define(
        "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
        "aten::index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor",
        category="memory", type_rule=_index, reference=_index_array,
    ),
    define(
        f"aten::index_put_(Tensor(a!) self, {_INDEX_PUT}(a!)",
        "aten::index_put_.hacked_twin(Tensor(a!) self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)",
        category="memory", type_rule=_same, reference=_index_put_,
    ),
    define(f"aten::index_put(Tensor self, {_INDEX_PUT}", category="memory", type_rule=_scattered, reference=_index_put),
    define(
        "aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", category="memory", type_rule=_index_select,
        reference=lambda self, dim, index: np.take(self, index.reshape(-1) if self.ndim else 0, axis=dim if self.ndim else None),
    ),
    define(
        "aten::index_fill_.int_Scalar(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)",
        "aten::index_fill_.int_Tensor(Tensor(a!) self, int dim, Tensor index, Tensor value) -> Tensor(a!)",
        category="memory", type_rule=_same, reference=_index_fill_,
    ),
    define(
        "aten::index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) -> Tensor(a!)",
        category="memory", type_rule=_same, reference=_index_copy_,
    ),
    define(
        "aten::index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor(a!)",
        category="memory", type_rule=_same, reference=_index_add_,
    ),
    define(
        "aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
        category="memory", type_rule=_scattered,
        reference=lambda self, **arguments: _index_add_(self.copy("K"), **arguments),
    ),
    define(
        "aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
        category="memory", type_rule=_gather, reference=_gather_array,
    ),
    define(
        "aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
        "aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
        "aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
        "aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
        category="memory", type_rule=_scattered, reference=_scatter,
    ),
    define(
        "aten::scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)",
        "aten::scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)",
        "aten::scatter_.reduce(Tensor(a!) self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor(a!)",
        "aten::scatter_.value_reduce(Tensor(a!) self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor(a!)",
        category="memory", type_rule=_same, reference=_scatter_,
    ),
    define(
        "aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
        category="memory", type_rule=_scattered, reference=lambda self, **arguments: _scatter_add_(self.copy("K"), **arguments),
    ),
    define(
        "aten::scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)",
        category="memory", type_rule=_same, reference=_scatter_add_,
    ),
    define(
        "aten::nonzero(Tensor self) -> Tensor", category="memory", type_rule=_nonzero,
        reference=lambda self: np.argwhere(self).astype(np.int64),
    ),
    define("aten::where(Tensor condition) -> Tensor[]", category="memory", type_rule=_where_positions, reference=_where_arrays),
    define(
        "aten::masked_select(Tensor self, Tensor mask) -> Tensor", category="memory", type_rule=_masked_select,
        reference=lambda self, mask: np.broadcast_to(self, np.broadcast_shapes(self.shape, mask.shape))[
            np.broadcast_to(mask, np.broadcast_shapes(self.shape, mask.shape))
        ],
    ),
    define("aten::one_hot(Tensor self, int num_classes=-1) -> Tensor", category="memory", type_rule=_one_hot, reference=_one_hot_array),
    define(
        "aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
        category="memory", type_rule=_topk, reference=_topk_arrays,
    ),
    define(
        "aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
        "aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
        category="memory", type_rule=_sort, reference=_sort_arrays,
    ),
    define(
        "aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
        "aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
        category="memory", type_rule=_argsort, reference=lambda self, **arguments: _sort_arrays(self, **arguments)[1],
    ),
    define(
        "aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
        "aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
        category="memory", type_rule=_repeat_interleave, reference=_repeat_array,
    ),
)
