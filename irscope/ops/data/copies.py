"""The ops that copy elements without computing: clone, casts, in-place stores, and the functional variants of stores."""

from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from irscope.ir import TensorType
from irscope.ops.expr import conversion, lift
from irscope.ops.expr.elementwise import elementwise
from irscope.ops.numpy_layout import Array, array_type, channels_last_copy, laid_out_like, numpy_dtype, type_suggests_channels_last
from irscope.ops.op import define
from irscope.ops.type_rules import Abstract, Unknown, broadcast, dtype_name, mismatch, refined, static_shape, to_real

_memory: Final = partial(define, category="memory")


def _clone(self: TensorType, memory_format: Abstract = None) -> TensorType:
    return laid_out_like(self, self.dtype, memory_format)


def _to(
    self: TensorType, dtype: Abstract = None, other: TensorType | None = None, device: Abstract = None, copy: Abstract = False,
    memory_format: Abstract = None, **rest: Abstract,
) -> TensorType:  # fmt: skip
    target = dtype_name(dtype, self.dtype) if other is None else other.dtype
    where = device if isinstance(device, str) else self.device if device is None else None
    where = where if other is None else other.device
    stays = (device is None and other is None) or (where is not None and where == self.device)
    same = target == self.dtype and target is not None and copy is False
    if same and stays:  # torch only checks which of the formats the tensor resembles most
        last = type_suggests_channels_last(self)
        if memory_format not in (None, 1) and (last is None or isinstance(memory_format, Unknown)):
            return self.with_(strides=None)
        if memory_format in (None, 1) or last == (memory_format in (2, 3)):
            return self
    result = laid_out_like(self, target, memory_format)
    if memory_format not in (None, 1) and copy is not True and (same or None in (target, self.dtype)):
        result = result.with_(strides=None)  # a tensor that has the format already is returned as it is
    return result.with_(device=where)


def _written(self: TensorType, **rest: Abstract) -> TensorType:
    return self


def _copied_into(self: TensorType, src: Abstract = None, **rest: Abstract) -> TensorType:
    if isinstance(src, TensorType) and src.shape is not None and self.shape is not None:
        joined = broadcast(self.shape, src.shape)
        known = static_shape(self)
        if known is not None and joined is not None and len(joined) != len(known):
            raise mismatch(f"copy_ cannot fit {src} into {self}", rule="broadcast")
    return self


def _clone_array(self: Array, memory_format: int | None = None) -> Array:
    if memory_format in (2, 3):
        return channels_last_copy(self).copy("K")
    return self.copy(_order(self, memory_format))


def _order(self: Array, memory_format: int | None) -> Literal["C", "K"]:
    strides = self.strides if self.size else array_type(self).strides
    return "C" if memory_format == 0 or 0 in strides else "K"  # type: ignore[operator]


def _to_array(
    self: Array, dtype: Any = None, other: Array | None = None, copy: bool = False, memory_format: int | None = None, **rest: Any
) -> Array:
    target = numpy_dtype(dtype, self.dtype) if other is None else other.dtype
    wanted = memory_format not in (2, 3) or type_suggests_channels_last(array_type(self)) is True
    if target == self.dtype and not copy and wanted:
        return self
    if memory_format not in (2, 3):
        with np.errstate(all="ignore"):
            return self.astype(target, _order(self, memory_format))
    return cast(_clone_array(self, memory_format), target)


def cast(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return the elements in another type; a float out of range of an integer type wraps silently, as it does in torch."""
    with np.errstate(all="ignore"):
        return array.astype(dtype, copy=False)


def _store(self: Array, value: Any) -> Array:
    if isinstance(value, np.ndarray) and np.may_share_memory(self, value):
        value = value.copy()
    with np.errstate(all="ignore"):
        self[...] = value
    return self


_COPIES = (
    _memory("aten::clone", type_rule=_clone, reference=_clone_array, expression=conversion),
    _memory(
        "aten::conj_physical",
        type_rule=lambda self: self if self.dtype and to_real(self.dtype) == self.dtype else refined(self.dtype, self.shape),
        reference=lambda self: np.conjugate(self) if self.dtype.kind == "c" else self,
    ),
    _memory("aten::lift_fresh_copy", type_rule=_clone, reference=_clone_array),
    define("aten::lift_fresh", category="view", type_rule=_written, reference=lambda self: self),
    _memory(
        *(f"aten::to.{overload}" for overload in "device dtype other dtype_layout prim_Device prim_dtype prim_other".split()),
        type_rule=_to,
        reference=_to_array,
        expression=conversion,
    ),
    _memory(
        "aten::_to_copy",
        type_rule=lambda self, **arguments: _to(self, **{**arguments, "copy": True}),
        reference=lambda self, **arguments: _to_array(self, **{**arguments, "copy": True}),
        expression=conversion,
    ),
    _memory("aten::type_as", type_rule=_to, reference=_to_array, expression=conversion),
    _memory(
        *("aten::copy_", "aten::copy_.Tensor", "aten::copy_.int", "aten::copy_.float"),
        type_rule=_copied_into,
        reference=lambda self, src=None, other=None, **rest: _store(self, src if other is None else other),
    ),
    _memory("aten::fill_.Scalar", "aten::fill_.Tensor", type_rule=_written, reference=_store),
    _memory("aten::zero_", type_rule=_written, reference=lambda self: _store(self, 0)),
)


# Functional variants of stores: the value of a tensor after `copy_`, `fill_`, `zero_`, or after a write through one of its views.
#
# The first three use only element type, shape and layout of the tensor that would be written, never its elements.


def _in_place_of(self: TensorType, **rest: Abstract) -> TensorType:
    """Return the type of a copy of a tensor; its strides are unknown for one with gaps, where torch keeps them and NumPy does not."""
    copy = laid_out_like(self, self.dtype)
    return copy if copy.strides == self.strides else copy.with_(strides=None)


def _with_part(self: Array, src: Array, dim: int, part: int | slice) -> Array:
    result = self.copy("K")
    result[(slice(None),) * (dim % self.ndim) + (part,)] = src
    return result


_functional: Final = partial(
    elementwise, numpy=lambda self, value=0, **rest: np.full_like(self, value), in_place=False, layout="like-first"
)
(_COPY,) = _functional("aten::copy", operands="self =src", expr=lambda self, src, **rest: src)

_STORES: Final = (
    replace(_COPY, category="memory", type_rule=_in_place_of),
    *_functional("aten::fill.Scalar", "aten::fill.Tensor", operands="self =value", expr=lambda self, value: value),
    *_functional("aten::zero", operands="self", expr=lambda x: lift(0, x.dtype)),
    _memory("aten::select_scatter", type_rule=_in_place_of, reference=lambda self, src, dim, index: _with_part(self, src, dim, index)),
    _memory(
        "aten::slice_scatter",
        type_rule=_in_place_of,
        reference=lambda self, src, dim=0, start=None, end=None, step=1: _with_part(self, src, dim, slice(start, end, step)),
    ),
)

OPS = (*_COPIES, *_STORES)
