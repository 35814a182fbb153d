"""The ops that pick elements, or store into picked ones, by positions that are themselves tensors."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from irscope.ir import TensorType
from irscope.ops.numpy_layout import Array, at, laid_out_like
from irscope.ops.op import Op, define, in_place_variants
from irscope.ops.type_rules import Abstract, Unknown, broadcast, fresh, mismatch, refined, wrap_dim

_memory: Final = partial(define, category="memory")


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
    picks = index.numel != 0  # an index without elements may have any rank
    ranks = {max(len(shape), 1) for shape in (self.shape, index.shape) if shape is not None}  # a 0-d tensor counts as a vector
    if picks and len(ranks) > 1:
        raise mismatch(f"gather needs an index of the tensor's rank: {self} and {index}", rule="rank")
    return fresh(self.dtype, index.shape)


def _pick(indices: Sequence[Array | None]) -> tuple[Any, ...]:
    """Convert torch's indices to NumPy's: None takes the whole dimension, a byte mask becomes a bool mask."""
    return tuple(slice(None) if index is None else index.astype(np.bool_) if index.dtype == np.uint8 else index for index in indices)


def _index_put_(self: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False, **rest: Any) -> Array:
    if accumulate:
        np.add.at(self, _pick(indices), values)
    else:
        self[_pick(indices)] = values
    return self


def _gather_array(self: Array, dim: int, index: Array, **rest: Any) -> Array:
    if not index.size:
        return np.empty(index.shape, self.dtype)
    row, positions = np.atleast_1d(self), np.atleast_1d(index)
    return at(row, *_along(row, dim, positions)).reshape(index.shape)


def _along(self: Array, dim: int, index: Array) -> tuple[Any, ...]:
    """Return the positions that an index tensor selects: its elements along `dim`, its own coordinates elsewhere."""
    places: list[Any] = list(np.ogrid[tuple(slice(size) for size in index.shape)])
    places[dim] = index
    return tuple(places)


def _scatter_(self: Array, dim: int, index: Array, src: Any = None, value: Any = None, reduce: str = "", **rest: Any) -> Array:
    if not index.size:
        return self
    seen, index = np.atleast_1d(self), np.atleast_1d(index)  # a view: stores into the vector of one element reach `self`
    stored = value if src is None else src[tuple(slice(size) for size in index.shape)] if src.ndim else src
    places = _along(seen, dim, index)
    if reduce in ("add", "sum"):
        np.add.at(seen, places, stored)
    elif reduce in ("multiply", "prod"):
        np.multiply.at(seen, places, stored)
    else:
        seen[places] = stored
    return self


_COMBINED = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _scatter_reduce_(self: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool = True, **rest: Any) -> Array:
    if not index.size:
        return self
    seen, index, combine = np.atleast_1d(self), np.atleast_1d(index), _COMBINED[reduce]
    places = _along(seen, dim, index)
    stored = np.atleast_1d(src)[tuple(slice(size) for size in index.shape)]
    count = np.zeros(seen.shape, np.int64)
    np.add.at(count, places, 1)
    if not include_self:
        first = np.full(seen.shape, 1 if reduce == "prod" else 0, seen.dtype)
        if reduce in ("amax", "amin"):
            first[places] = stored  # any of those that are compared
        seen[count > 0] = first[count > 0]
    combine.at(seen, places, stored)
    if reduce == "mean":
        many = np.maximum(count + include_self, 1).astype(seen.dtype)
        seen[...] = seen // many if seen.dtype.kind in "iu" else seen / many
    return self


def _slices(self: Array, dim: int, index: Array) -> tuple[Array, tuple[Any, ...]]:
    """Return the tensor as a view with at least one dimension, and the slices of it that an index selects along `dim`."""
    seen = np.atleast_1d(self)
    return seen, (*[slice(None)] * (dim % seen.ndim), np.atleast_1d(index))


def _index_store_(self: Array, dim: int, index: Array, value: Any = None, source: Any = None) -> Array:
    seen, places = _slices(self, dim, index)
    seen[places] = value if source is None else source
    return self


def _index_add_(self: Array, dim: int, index: Array, source: Array, alpha: Any = 1) -> Array:
    seen, places = _slices(self, dim, index)
    if source.ndim > seen.ndim:  # NumPy's `add.at` crashes there
        raise mismatch(f"index_add: the source has {source.ndim} dimensions, and the tensor {seen.ndim}", rule="rank")
    np.add.at(seen, places, source * np.asarray(alpha).astype(source.dtype))
    return self


def _stores(*overloads: str, store: Callable[..., Array], in_rows: bool = True) -> tuple[Op, Op]:
    """Define a store into a copy of the tensor, and into the tensor itself. Torch lays most of the copies out in rows, whatever the
    layout of the tensor."""

    def rule(self: TensorType, **rest: Abstract) -> TensorType:
        return fresh(self.dtype, self.shape) if in_rows else laid_out_like(self, self.dtype)

    def functional(self: Array, **arguments: Any) -> Array:
        return store(self.copy("C" if in_rows else "K"), **arguments)

    written = _memory(*in_place_variants(overloads), type_rule=lambda self, **rest: self, reference=store)
    return _memory(*overloads, type_rule=rule, reference=functional), written


OPS = (
    _memory("aten::embedding", type_rule=_embedding, reference=lambda weight, indices, **rest: weight[indices]),
    _memory(
        "aten::index.Tensor",
        "aten::index.Tensor_hacked_twin",
        type_rule=_index,
        reference=lambda self, indices: np.asarray(self[_pick(indices)]),
    ),
    *_stores("aten::index_put", "aten::index_put.hacked_twin", store=_index_put_, in_rows=False),
    _memory(
        "aten::index_select",
        type_rule=_index_select,
        reference=lambda self, dim, index: np.take(self, index.reshape(-1) if self.ndim else 0, axis=dim if self.ndim else None),
    ),
    *_stores("aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor", store=_index_store_, in_rows=False),
    *_stores("aten::index_copy", store=_index_store_),
    *_stores("aten::index_add", store=_index_add_),
    _memory("aten::gather", type_rule=_gather, reference=_gather_array),
    *_stores(*(f"aten::scatter.{overload}" for overload in ("src", "value", "reduce", "value_reduce")), store=_scatter_),
    *_stores("aten::scatter_add", store=partial(_scatter_, reduce="add")),
    *_stores("aten::scatter_reduce.two", store=_scatter_reduce_),
)
