"""The ops whose result is a view of the whole tensor with other extents and strides.

The type rules are exact: shape, strides, and which of the "view if you can" ops must copy. For a view that starts at its
argument's first element, the NumPy reference is that same rule, applied to the array's own strides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irscope.ir import INT, ITEM_SIZE, Dim, TensorType
from irscope.ops.checked_views import strided_view
from irscope.ops.schema.define import define
from irscope.ops.typing import (
    Abstract,
    Array,
    Unknown,
    array_type,
    as_dims,
    channels_last_copy,
    channels_last_strides,
    contiguous_strides,
    dtype_name,
    fresh,
    is_channels_last,
    is_contiguous,
    known_ints,
    mismatch,
    numpy_dtype,
    refined,
    static_shape,
    to_complex,
    to_real,
    view_strides,
    wrap_dim,
)

__all__ = ["OPS", "dims_of", "reshaped"]


def _seen_as(rule: Callable[..., TensorType]) -> Callable[..., Array]:
    """Return the reference of a view that starts at its argument's first element."""

    def reference(self: Array, **arguments: Any) -> Array:
        arguments = {name: array_type(a) if isinstance(a, np.ndarray) else a for name, a in arguments.items()}
        type = rule(array_type(self), **arguments)
        assert type.shape is not None
        assert type.strides is not None
        shape = [dim for dim in type.shape if isinstance(dim, int)]
        if view_is_copy(self, rule, type):
            return np.ascontiguousarray(self).reshape(shape)
        return strided_view(self, shape, [step * self.itemsize for step in type.strides], op="a view")

    return reference


def view_is_copy(self: Array, rule: Callable[..., TensorType], result: TensorType) -> bool:
    """Whether a "view if you can" op must copy this array."""
    if rule not in _MAY_COPY:
        return False
    before, after = array_type(self), static_shape(result)
    assert before.strides is not None
    assert after is not None
    return view_strides(self.shape, before.strides, after) is None


def _target(self: TensorType, size: Abstract) -> tuple[Dim, ...] | None:
    """Return the extents that `view` is asked for, with -1 resolved."""
    dims = as_dims(size)
    if dims is None:
        return None
    count, given = self.numel, 1
    for dim in dims:
        given = given * dim if isinstance(dim, int) and dim != -1 else given
    complete = all(isinstance(dim, int) for dim in dims)
    if complete and count is not None and (given != count if -1 not in dims else given == 0 or count % given):
        raise mismatch(f"{_shape_text(self.shape)}, {count} elements, cannot be seen as {_shape_text(dims)}", rule="view-size")
    rest = count // given if complete and count is not None and given else None
    return tuple(rest if dim == -1 else dim for dim in dims)


def _shape_text(shape: Sequence[Dim] | None) -> str:
    return "(" + ", ".join("*" if dim is None else str(dim) for dim in shape or ()) + ")"


def _view(self: TensorType, size: Abstract = None, dtype: Abstract = None) -> TensorType:
    if dtype is not None:
        return _reinterpreted(self, dtype_name(dtype, None))
    target = _target(self, size)
    before, after = static_shape(self), static_shape(refined(None, target))
    if before is None or after is None or self.strides is None:
        return refined(self.dtype, target)
    strides = view_strides(before, self.strides, after)
    if strides is None:
        raise mismatch(f"{self} cannot be seen as {_shape_text(target)} without a copy; use reshape", rule="view-strides")
    return refined(self.dtype, after, strides)


def _reinterpreted(self: TensorType, dtype: str | None) -> TensorType:
    """Return the type of the same bits as elements of another type: the last dimension holds more or fewer of them."""
    if dtype is None or self.dtype is None or self.shape is None:
        return refined(dtype, None)
    old, new = ITEM_SIZE.get(self.dtype), ITEM_SIZE.get(dtype)
    if old is None or new is None:
        return refined(dtype, None)
    if old == new:
        return refined(dtype, self.shape, self.strides)
    last = self.shape[-1] if self.shape else 0
    if self.shape and not isinstance(last, int):
        return refined(dtype, (*self.shape[:-1], None))
    if not self.shape or not isinstance(last, int) or last * old % new:
        raise mismatch(f"{self} cannot be seen as elements of {dtype}", rule="view-size")
    return refined(dtype, (*self.shape[:-1], last * old // new))


def _view_array(self: Array, size: Any = None, dtype: Any = None) -> Array:
    if dtype is None:
        return _seen_as(_view)(self, size=size)
    if dtype_name(dtype, None) == "bfloat16":
        raise TypeError("NumPy has no elements of bfloat16")
    return self.view(numpy_dtype(dtype, self.dtype))


def reshaped(self: TensorType, shape: Abstract) -> TensorType:
    """Return the type of `reshape`: a view if strides allow it, otherwise a row-major copy."""
    target = _target(self, shape)
    before, after = static_shape(self), static_shape(refined(None, target))
    if before is None or after is None or self.strides is None:
        return refined(self.dtype, target)
    return refined(self.dtype, after, view_strides(before, self.strides, after) or contiguous_strides(after))


def _view_as(self: TensorType, other: TensorType) -> TensorType:
    return _view(self, other.shape) if other.shape is not None else refined(self.dtype, None)


def _reshape_as(self: TensorType, other: TensorType) -> TensorType:
    return reshaped(self, other.shape) if other.shape is not None else refined(self.dtype, None)


def _flatten(self: TensorType, start_dim: Abstract = 0, end_dim: Abstract = -1) -> TensorType:
    if self.shape is None or isinstance(start_dim, Unknown) or isinstance(end_dim, Unknown):
        return refined(self.dtype, None)
    first, last = wrap_dim(start_dim, len(self.shape), op="flatten"), wrap_dim(end_dim, len(self.shape), op="flatten")
    if not self.shape:
        return reshaped(self, [1])
    if first == last:
        return self
    inner = TensorType(None, self.shape[first : last + 1]).numel
    target = (*self.shape[:first], inner, *self.shape[last + 1 :])
    return reshaped(self, target) if static_shape(self) is not None else refined(self.dtype, target)


def _unflatten(self: TensorType, dim: Abstract, sizes: Abstract) -> TensorType:
    parts = as_dims(sizes)
    if self.shape is None or parts is None or isinstance(dim, Unknown):
        return refined(self.dtype, None)
    axis = wrap_dim(dim, len(self.shape), op="unflatten")
    inner = _target(TensorType(None, (self.shape[axis],)), sizes)
    target = (*self.shape[:axis], *(inner or ()), *self.shape[axis + 1 :])
    return _view(self, target) if all(isinstance(d, int) for d in target) else refined(self.dtype, target)


def dims_of(self: TensorType, axes: Sequence[int]) -> TensorType:
    """Return the type with only these dimensions, in this order."""
    assert self.shape is not None
    strides = None if self.strides is None else [self.strides[axis] for axis in axes]
    return refined(self.dtype, [self.shape[axis] for axis in axes], strides)


def _squeeze(self: TensorType, dim: Abstract = None) -> TensorType:
    if self.shape is None or isinstance(dim, Unknown):
        return refined(self.dtype, None)
    rank = len(self.shape)
    given = range(rank) if dim is None else known_ints(dim)
    if given is None:
        return refined(self.dtype, None)
    axes = {wrap_dim(axis, rank, op="squeeze") for axis in given}
    if len(axes) != len(given):
        raise mismatch(f"squeeze names a dimension of {self} twice: {list(given)}", rule="squeeze-dims")
    if any(not isinstance(self.shape[axis], int) for axis in axes if rank):
        return refined(self.dtype, None)
    return dims_of(self, [axis for axis in range(rank) if axis not in axes or self.shape[axis] != 1])


def _unsqueeze(self: TensorType, dim: Abstract) -> TensorType:
    if self.shape is None:
        return refined(self.dtype, None)
    rank = len(self.shape)
    if isinstance(dim, Unknown):
        return refined(self.dtype, (None,) * (rank + 1))
    axis = wrap_dim(dim, rank + 1, op="unsqueeze")
    shape = (*self.shape[:axis], 1, *self.shape[axis:])
    if self.strides is None:
        return refined(self.dtype, shape)
    here = self.shape[axis] if axis < rank else 1
    step = here * self.strides[axis] if axis < rank and isinstance(here, int) else 1
    if not isinstance(here, int):
        return refined(self.dtype, shape)
    return refined(self.dtype, shape, (*self.strides[:axis], step, *self.strides[axis:]))


def _transpose(self: TensorType, dim0: Abstract, dim1: Abstract) -> TensorType:
    if self.shape is None:
        return refined(self.dtype, None)
    rank = len(self.shape)
    if isinstance(dim0, Unknown) or isinstance(dim1, Unknown):
        return refined(self.dtype, (None,) * rank)
    a, b = wrap_dim(dim0, rank, op="transpose"), wrap_dim(dim1, rank, op="transpose")
    if not rank:
        return self
    axes = list(range(rank))
    axes[a], axes[b] = axes[b], axes[a]
    return dims_of(self, axes)


def _swapaxes(self: TensorType, axis0: Abstract, axis1: Abstract) -> TensorType:
    return _transpose(self, axis0, axis1)


def _t(self: TensorType) -> TensorType:
    if self.shape is None:
        return refined(self.dtype, None)
    if len(self.shape) > 2:
        raise mismatch(f"t() takes a matrix, not {self}", rule="rank")
    return dims_of(self, range(len(self.shape))[::-1])


def _reversed(self: TensorType) -> TensorType:
    return refined(self.dtype, None) if self.shape is None else dims_of(self, range(len(self.shape))[::-1])


def _matrix_t(self: TensorType) -> TensorType:
    return _transpose(self, -2, -1) if self.shape != () else dims_of(self, ())  # a 0-d tensor is returned as it is


def _permute(self: TensorType, dims: Abstract) -> TensorType:
    order = known_ints(dims)
    if self.shape is None or order is None:
        return refined(self.dtype, self.shape and (None,) * len(self.shape))
    axes = [wrap_dim(dim, len(self.shape), op="permute") for dim in order]
    if sorted(axes) != list(range(len(self.shape))):
        raise mismatch(
            f"permute({order}) does not name each of the {len(self.shape)} dimensions once", rule="permute-dims"
        )
    return dims_of(self, axes)


def _movedim(self: TensorType, source: Abstract, destination: Abstract) -> TensorType:
    sources, targets = known_ints(source), known_ints(destination)
    if self.shape is None or sources is None or targets is None:
        return refined(self.dtype, None)
    rank = len(self.shape)
    pairs = sorted(
        (wrap_dim(t, rank, op="movedim"), wrap_dim(s, rank, op="movedim"))
        for s, t in zip(sources, targets, strict=True)
    )
    if rank == 0:  # its one dimension is there only to be named
        return dims_of(self, [])
    axes = [axis for axis in range(rank) if axis not in {s for _, s in pairs}]
    for target, axis in pairs:
        axes.insert(target, axis)
    return dims_of(self, axes)


def _expand(self: TensorType, size: Abstract, implicit: Abstract = False) -> TensorType:
    dims = as_dims(size)
    if dims is None or self.shape is None:
        return refined(self.dtype, dims and [None if dim == -1 else dim for dim in dims])
    offset = len(dims) - len(self.shape)
    if offset < 0:
        raise mismatch(f"{self} has more dimensions than expand's {_shape_text(dims)}", rule="expand-size")
    if -1 in dims[:offset]:
        raise mismatch(f"expand's -1 keeps an extent, and {self} has none there: {_shape_text(dims)}", rule="expand-size")
    shape = [*dims[:offset], *map(_expand_dim, self.shape, dims[offset:])]
    return refined(self.dtype, shape, _expand_strides(self, shape))


def _expand_dim(old: Dim, new: Dim) -> Dim:
    if new == -1:
        return old
    if isinstance(old, int) and old != 1 and isinstance(new, int) and new != old:
        raise mismatch(f"expand makes {old} into {new}; only an extent of 1 can grow", rule="expand-size")
    return old if new is None and old != 1 else new


def _expand_strides(self: TensorType, shape: Sequence[Dim]) -> list[int] | None:
    if self.strides is None or not all(isinstance(dim, int) for dim in shape):
        return None
    assert self.shape is not None
    rank, old_rank = len(shape), len(self.shape)
    strides = [0] * rank
    for axis in range(rank - 1, -1, -1) if old_rank else ():
        old = axis - (rank - old_rank)
        following = shape[axis + 1] if axis + 1 < rank else 1
        assert isinstance(following, int)
        before = self.shape[old] if old >= 0 else 1
        step = self.strides[old] if old >= 0 else following * strides[axis + 1]
        strides[axis] = step if before == shape[axis] else 0
    return strides


def _expand_as(self: TensorType, other: TensorType) -> TensorType:
    return (
        refined(self.dtype, None)
        if other.shape is None
        else _expand(self, [d if isinstance(d, int) else Unknown(INT) for d in other.shape])
    )


def _same(self: TensorType) -> TensorType:
    return self


def _part(self: TensorType) -> TensorType:
    """Return the type of the real or the imaginary parts, every second number in the memory of complex ones."""
    if self.dtype is None or to_real(self.dtype) == self.dtype:
        return self if self.dtype is not None else refined(None, self.shape)
    strides = None if self.strides is None else [2 * step for step in self.strides]
    return refined(to_real(self.dtype), self.shape, strides)


def _pairs(self: TensorType) -> TensorType:
    part = _part(self)
    return refined(
        part.dtype if part.dtype != self.dtype else None,
        None if part.shape is None else (*part.shape, 2),
        None if part.strides is None else (*part.strides, 1),
    )


def _pairs_array(self: Array) -> Array:
    if self.dtype.kind != "c":
        raise TypeError(f"an array of {self.dtype} has no imaginary parts")
    return self[..., None].view(to_real(str(self.dtype)))


def _joined(self: TensorType) -> TensorType:
    dtype = None if self.dtype is None else to_complex(self.dtype)
    if self.shape is None:
        return refined(dtype, None)
    if not self.shape or (isinstance(self.shape[-1], int) and self.shape[-1] != 2):
        raise mismatch(f"view_as_complex takes pairs of numbers along the last dimension, not {self}", rule="view-size")
    strides = None if self.strides is None or any(step % 2 for step in self.strides[:-1]) else self.strides[:-1]
    return refined(dtype, self.shape[:-1], strides and [step // 2 for step in strides])


def _joined_array(self: Array) -> Array:
    return self.view(np.result_type(self, np.complex64))[..., 0]


def _contiguous(self: TensorType, memory_format: Abstract = 0) -> TensorType:
    shape = static_shape(self)
    if shape is None or self.strides is None or isinstance(memory_format, Unknown):
        # a row-major tensor is returned as it is, and then extents below 2 may have any stride
        known = memory_format == 0 and shape is not None and min(shape, default=2) > 1
        return fresh(self.dtype, self.shape) if known else refined(self.dtype, self.shape)
    if memory_format in (2, 3):
        return self if is_channels_last(shape, self.strides) else refined(self.dtype, shape, channels_last_strides(shape))
    return self if is_contiguous(shape, self.strides) else fresh(self.dtype, shape)


_MAY_COPY = (reshaped, _reshape_as, _flatten)


def _contiguous_array(self: Array, memory_format: int = 0) -> Array:
    type = array_type(self)
    assert type.strides is not None
    if memory_format == 0:
        return self if is_contiguous(self.shape, type.strides) else np.ascontiguousarray(self).reshape(self.shape)
    if memory_format == 1 or is_channels_last(self.shape, type.strides):
        return self
    return channels_last_copy(self)


def _geometric(*texts: str, rule: Callable[..., TensorType]) -> Any:
    return define(*texts, category="view", type_rule=rule, reference=_seen_as(rule))


OPS = (
    define(
        "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
        "aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
        category="view",
        type_rule=_view,
        reference=_view_array,
    ),
    _geometric("aten::_unsafe_view(Tensor(a) self, SymInt[] size) -> Tensor(a)", rule=_view),
    _geometric("aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)", rule=_view_as),
    _geometric("aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", rule=reshaped),
    _geometric("aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", rule=_reshape_as),
    _geometric("aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", rule=_flatten),
    _geometric("aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", rule=_unflatten),
    _geometric(
        "aten::squeeze(Tensor(a) self) -> Tensor(a)",
        "aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
        "aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
        rule=_squeeze,
    ),
    _geometric("aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", rule=_unsqueeze),
    _geometric("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", rule=_transpose),
    _geometric("aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", rule=_transpose),
    _geometric("aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)", rule=_swapaxes),
    _geometric("aten::t(Tensor(a) self) -> Tensor(a)", rule=_t),
    _geometric("aten::numpy_T(Tensor(a) self) -> Tensor(a)", rule=_reversed),
    _geometric("aten::mT(Tensor(a) self) -> Tensor(a)", rule=_matrix_t),
    _geometric("aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)", rule=_permute),
    _geometric(
        "aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
        "aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
        rule=_movedim,
    ),
    _geometric("aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", rule=_expand),
    _geometric("aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)", rule=_expand),
    _geometric("aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", rule=_expand_as),
    define("aten::detach(Tensor(a) self) -> Tensor(a)", category="view", type_rule=_same, reference=lambda self: self),
    define(
        "aten::detach_(Tensor(a!) self) -> Tensor(a!)",
        category="view",
        type_rule=_same,
        reference=lambda self: self,
    ),
    define(
        "aten::alias(Tensor(a) self) -> Tensor(a)", category="view", type_rule=_same, reference=lambda self: self[...]
    ),
    define("aten::real(Tensor(a) self) -> Tensor(a)", category="view", type_rule=_part, reference=lambda self: self.real),
    define("aten::imag(Tensor(a) self) -> Tensor(a)", category="view", type_rule=_part, reference=lambda self: self.imag),
    define("aten::view_as_real(Tensor(a) self) -> Tensor(a)", category="view", type_rule=_pairs, reference=_pairs_array),
    define("aten::view_as_complex(Tensor(a) self) -> Tensor(a)", category="view", type_rule=_joined, reference=_joined_array),
    define(
        "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
        category="view",
        type_rule=_contiguous,
        reference=_contiguous_array,
    ),
)
