"""The ops that allocate a tensor from numbers: empty, zeros, full, arange; and those that copy another's size."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from irscope.ir import INT, TensorType
from irscope.ops.expr import Expr, NoExpression, lift, require_known
from irscope.ops.numpy_layout import Array, laid_out_like, numpy_dtype
from irscope.ops.op import Op, define
from irscope.ops.type_rules import Abstract, Unknown, as_dims, channels_last_strides, dtype_name, fresh, operand_of, static_shape

_memory: Final = partial(define, category="memory")


def default_dtype(value: Abstract) -> str | None:
    """Return the element type that torch gives a number: whole numbers are int64, others the default float32.

    >>> default_dtype(True), default_dtype(2), default_dtype(2.0)
    ('bool', 'int64', 'float32')
    """
    if isinstance(value, list | tuple):
        return default_dtype(value[0]) if value else "float32"
    return operand_of(value).dtype


def _made(size: Abstract, dtype: Abstract, default: str | None, device: Abstract) -> TensorType:
    """Return the type of a new tensor of these extents, of the default element type if none is given."""
    made = fresh(dtype_name(dtype, default), as_dims(size))
    return made.with_(device=device) if isinstance(device, str) else made


def _sized(size: Abstract, dtype: Abstract = None, device: Abstract = None, memory_format: Abstract = None, **rest: Abstract) -> TensorType:
    result = _made(size, dtype, "float32", device)
    shape = static_shape(result)
    if memory_format in (2, 3) and shape is not None:
        return result.with_(strides=channels_last_strides(shape))
    return result.with_(strides=None) if isinstance(memory_format, Unknown) else result


def _like(
    self: TensorType, dtype: Abstract = None, device: Abstract = None, memory_format: Abstract = None, **rest: Abstract
) -> TensorType:
    made = laid_out_like(self, dtype_name(dtype, self.dtype), memory_format)
    return made.with_(device=device) if isinstance(device, str) else made


def _arange(
    end: Abstract, start: Abstract = 0, step: Abstract = 1, dtype: Abstract = None, device: Abstract = None, **rest: Abstract
) -> TensorType:
    kinds = {default_dtype(bound) for bound in (start, end, step)}
    default = "float32" if "float32" in kinds else None if None in kinds else "int64"
    known = not any(isinstance(bound, Unknown) for bound in (start, end, step))
    return _made([_count(start, end, step) if known else Unknown(INT)], dtype, default, device)


def _count(start: float, end: float, step: float) -> int:
    if all(isinstance(bound, int) for bound in (start, end, step)):
        return max(-int((start - end) // step), 0)
    return max(math.ceil((end - start) / step), 0)


def _tensor(data: Abstract = None, t: Abstract = None, dtype: Abstract = None, device: Abstract = None, **rest: Abstract) -> TensorType:
    value = t if data is None else data
    shape: list[int] = []
    while isinstance(value, list | tuple):
        shape.append(len(value))
        value = value[0] if value else 0.0
    if isinstance(value, Unknown) and default_dtype(value) is None:  # a list of unknown length
        return TensorType(dtype_name(dtype, None))
    return _made(shape, dtype, default_dtype(value), device)


def _filled(value: Any = None, *, like: bool = False) -> Callable[..., Array]:
    """Return the reference of `zeros` and others of one number, or of `full`: `like` another tensor, if only in its type."""

    def reference(self: Any = None, size: Any = None, fill_value: Any = value, dtype: Any = None, **rest: Any) -> Array:
        given = fill_value.item() if isinstance(fill_value, np.ndarray) else fill_value
        if like and size is None:
            return np.full_like(self, given, numpy_dtype(dtype, self.dtype))
        return np.full(
            tuple(size), given, numpy_dtype(dtype, self.dtype if like else np.float32 if value is not None else default_dtype(given))
        )

    return reference


def _arange_array(end: Any, start: Any = 0, step: Any = 1, dtype: Any = None, **rest: Any) -> Array:
    default = np.float32 if any(isinstance(bound, float) for bound in (start, end, step)) else np.int64
    return np.asarray(start + np.arange(_count(start, end, step)) * step, numpy_dtype(dtype, default))


def _tensor_array(data: Any = None, t: Any = None, dtype: Any = None, **rest: Any) -> Array:
    value = t if data is None else data
    found = np.asarray(value)
    default = np.float32 if found.dtype == np.float64 and found.size != 0 else found.dtype
    return np.array(value, numpy_dtype(dtype, np.float32 if found.size == 0 else default))


def _constant(value: Any = None) -> Callable[..., Expr]:
    """Return the expression of a new tensor that is like another and is filled with one number."""

    def expression(self: Expr, size: Any = None, fill_value: Any = value, dtype: Any = None, device: Any = None, **rest: Any) -> Expr:
        if device is not None:
            raise NoExpression("the elements may be on another device")
        target = dtype_name(require_known(dtype, "the element type"), self.dtype)
        if target is None or target.startswith(("complex", "float8", "q")):
            raise NoExpression(f"kernels do not compute with {target}")
        return lift(fill_value, target)

    return expression


def _family(word: str, value: Any) -> tuple[Op, ...]:
    """Define ops like `zeros`, `zeros_like` and `new_zeros`, or `full`, which takes a number. The contents of `empty` are unspecified;
    the reference fills in 0."""

    def full(size: Abstract, fill_value: Abstract, dtype: Abstract = None, device: Abstract = None, **rest: Abstract) -> TensorType:
        return _made(size, dtype, default_dtype(fill_value), device)

    def new(self: TensorType, size: Abstract, dtype: Abstract = None, device: Abstract = None, **rest: Abstract) -> TensorType:
        return _made(size, dtype, self.dtype, device)

    name, expression = (f"{word}.memory_format", None) if word == "empty" else (word, _constant(value))
    return (
        _memory(f"aten::{name}", type_rule=full if value is None else _sized, reference=_filled(value)),
        _memory(f"aten::{word}_like", type_rule=_like, reference=_filled(value, like=True), expression=expression),
        _memory(f"aten::new_{word}", type_rule=new, reference=_filled(value, like=True), expression=expression),
    )


OPS = (
    *(op for word, value in (("empty", 0), ("zeros", 0), ("ones", 1), ("full", None)) for op in _family(word, value)),
    _memory("aten::arange", "aten::arange.start", "aten::arange.start_step", type_rule=_arange, reference=_arange_array),
    _memory(
        "aten::linspace",
        type_rule=lambda start, end, steps, dtype=None, device=None, **rest: _made(steps, dtype, "float32", device),
        reference=lambda start, end, steps, dtype=None, **rest: np.linspace(float(start), float(end), steps).astype(
            numpy_dtype(dtype, np.float32)
        ),
    ),
    _memory(
        "aten::eye",
        "aten::eye.m",
        type_rule=lambda n, m=None, dtype=None, device=None, **rest: _made([n, n if m is None else m], dtype, "float32", device),
        reference=lambda n, m=None, dtype=None, **rest: np.eye(n, m, dtype=numpy_dtype(dtype, np.float32)),
    ),
    _memory(
        *(f"aten::tensor{overload}" for overload in (".bool", ".float", ".int", ".complex", "")), type_rule=_tensor, reference=_tensor_array
    ),
    _memory(
        "aten::scalar_tensor",
        type_rule=lambda s, dtype=None, device=None, **rest: _made([], dtype, "float32", device),
        reference=lambda s, dtype=None, **rest: np.array(s, numpy_dtype(dtype, np.float32)),
    ),
    _memory(
        "prim::NumToTensor.Scalar",
        "prim::NumToTensor.bool",
        type_rule=lambda a: fresh({"float32": "float64"}.get(default_dtype(a) or "", default_dtype(a)), ()),
        reference=lambda a: np.array(a),
    ),
)
