"""The ops that select elements by their values: sorting, the largest few, the positions of nonzero elements."""

from functools import partial
from typing import Final

import numpy as np

from irscope.ir import TENSOR, Dim, ListType, TensorType
from irscope.ops.numpy_layout import Array, laid_out_like
from irscope.ops.op import define
from irscope.ops.type_rules import Abstract, Unknown, fresh, mismatch, refined, wrap_dim

_memory: Final = partial(define, category="memory")


def _where_positions(condition: TensorType) -> Abstract:
    if condition.shape is None:
        return Unknown(ListType(TENSOR))
    return [TensorType("int64", (None,))] * max(len(condition.shape), 1)


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


def _repeat_interleave(self: TensorType, repeats: Abstract, dim: Abstract = None, **rest: Abstract) -> TensorType:
    if self.shape is None or isinstance(dim, Unknown):
        return TensorType(self.dtype)
    shape = (self.numel,) if dim is None else self.shape
    axis = wrap_dim(dim or 0, len(shape), op="repeat_interleave")
    here = shape[axis]
    size = here * repeats if isinstance(here, int) and isinstance(repeats, int) else None
    return refined(self.dtype, (*shape[:axis], size, *shape[axis + 1 :]))


def _one_hot_array(self: Array, num_classes: int = -1) -> Array:
    count = int(self.max()) + 1 if num_classes < 0 else num_classes
    return np.asarray(self[..., None] == np.arange(count), np.int64)


def _topk_arrays(self: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    values, indices = _sort_arrays(self, dim=dim, descending=largest)
    if not self.ndim:
        return values, indices
    part = (slice(None),) * (dim % self.ndim) + (slice(k),)
    return np.ascontiguousarray(values[part]), np.ascontiguousarray(indices[part])


def _sort_arrays(self: Array, dim: int = -1, descending: bool = False, stable: bool | None = None) -> tuple[Array, Array]:
    if not self.ndim:
        return self.copy(), np.zeros((), np.int64)
    flipped = np.flip(self, dim) if descending else self
    order = np.argsort(flipped, axis=dim, kind="stable")
    values = np.take_along_axis(flipped, order, axis=dim)
    if descending:  # flipped twice, so that equal elements keep their order
        order = np.flip(self.shape[dim] - 1 - order, dim)
        values = np.flip(values, dim)
    return values.copy(), order.astype(np.int64)


OPS = (
    _memory(
        "aten::nonzero",
        type_rule=lambda self: refined("int64", (None, self.rank)),
        reference=lambda self: np.argwhere(self).astype(np.int64),
    ),
    _memory("aten::where", type_rule=_where_positions, reference=lambda condition: list(np.nonzero(np.atleast_1d(condition)))),
    _memory(
        "aten::masked_select",
        type_rule=lambda self, mask: refined(self.dtype, (None,)),
        reference=lambda self, mask: np.broadcast_to(self, np.broadcast_shapes(self.shape, mask.shape))[
            np.broadcast_to(mask, np.broadcast_shapes(self.shape, mask.shape))
        ],
    ),
    _memory("aten::one_hot", type_rule=_one_hot, reference=_one_hot_array),
    _memory("aten::topk", type_rule=_topk, reference=_topk_arrays),
    _memory(
        "aten::sort",
        "aten::sort.stable",
        type_rule=lambda self, **rest: tuple(laid_out_like(self, dtype) for dtype in (self.dtype, "int64")),
        reference=_sort_arrays,
    ),
    _memory(
        "aten::argsort",
        "aten::argsort.stable",
        type_rule=lambda self, **rest: laid_out_like(self, "int64"),
        reference=lambda self, **arguments: _sort_arrays(self, **arguments)[1],
    ),
    _memory(
        "aten::repeat_interleave.self_int",
        "aten::repeat_interleave.self_Tensor",
        type_rule=_repeat_interleave,
        reference=lambda self, repeats, dim=None, **rest: np.repeat(self, repeats, axis=dim),
    ),
)
