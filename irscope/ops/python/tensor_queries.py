"""The ops that query a tensor (size, rank, strides, one element), and control: constants, attributes, checks and casts of types."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from irscope.ir import ANY, INT, Dim, ListType, TensorType
from irscope.ops.numpy_layout import Array, array_type
from irscope.ops.op import Op, define, define_positional
from irscope.ops.traits import NARROWS
from irscope.ops.type_rules import DTYPE_CODES, Abstract, Unknown, is_channels_last, is_contiguous, mismatch, static_shape, wrap_dim

# The control ops: constants, attributes, and checks and casts of types.
#
# Their meaning depends on their blocks, attributes or number of results, so an interpreter
# (`irscope.analysis.shapes`, `irscope.runtime.reference`) handles them by name. This module defines their category and effect.


def _same(*given: Abstract, **named: Abstract) -> Abstract:
    (value,) = (*given, *named.values())
    return Unknown(ANY) if isinstance(value, Unknown) else value


def _asserted(self: Any, assert_msg: str = "") -> None:
    if not self.item():
        raise ValueError(assert_msg or "an assertion of the program does not hold")


_CONTROL = (
    define(
        "aten::_assert_async", "aten::_assert_async.msg", category="other", type_rule=lambda self, assert_msg="": (), reference=_asserted
    ),
    *(Op(f"prim::{name}", (), "control", "pure") for name in ("Constant", "Uninitialized", "isinstance")),
    Op("prim::GetAttr", (), "control", "view"),
    *(define_positional(name, lambda x: x, category="control", type_rule=_same, keep=lambda schema: True) for name in sorted(NARROWS)),
)


# The ops that query a tensor: size, rank, strides, element type, device, the value of a single element.

_CODES: Final = {name: code for code, name in DTYPE_CODES.items()}


def _number(dim: Dim) -> Abstract:
    return dim if isinstance(dim, int) else Unknown(INT)


def _size(self: TensorType, dim: Abstract = None) -> Abstract:
    if self.shape is None:
        return Unknown(ListType(INT)) if dim is None else Unknown(INT)
    if dim is None:
        return [_number(size) for size in self.shape]
    if isinstance(dim, Unknown):
        return Unknown(INT)
    if not self.shape:
        raise mismatch(f"size({dim}) of a tensor without dimensions", rule="dimension-range")
    return _number(self.shape[wrap_dim(dim, len(self.shape), op="size")])


def _stride(self: TensorType, dim: Abstract = None) -> Abstract:
    if self.strides is None or isinstance(dim, Unknown):
        return Unknown(ListType(INT)) if dim is None else Unknown(INT)
    return list(self.strides) if dim is None else self.strides[wrap_dim(dim, len(self.strides), op="stride")]


def _is_contiguous(self: TensorType, memory_format: Abstract = 0) -> Abstract:
    shape = static_shape(self)
    if shape is None or self.strides is None or isinstance(memory_format, Unknown):
        return Unknown(ANY)
    return is_channels_last(shape, self.strides) if memory_format in (2, 3) else is_contiguous(shape, self.strides)


def _ask(*overloads: str, reference: Callable[..., Any], rule: Callable[..., Abstract] = lambda **arguments: Unknown(ANY)) -> Op:
    return define(*overloads, category="scalar", type_rule=rule, reference=reference)


def _fact_op(overload: str, function: Callable[[TensorType], Abstract], reference: Callable[..., Any]) -> Op:
    """Return an op that queries the only tensor that it reads, whatever its name."""

    def rule(**arguments: Abstract) -> Abstract:
        found = function(next(iter(arguments.values())))
        return Unknown(ANY) if found is None else found

    return _ask(overload, rule=rule, reference=lambda **arguments: reference(next(iter(arguments.values()))))


def _element(overload: str, function: Callable[[Any], Any]) -> Op:
    def reference(**arguments: Any) -> Any:
        (array,) = arguments.values()
        return function(array.item())

    return _ask(overload, reference=reference)


_FACTS: Final[Mapping[str, tuple[Callable[[TensorType], Abstract], Callable[[Array], Any]]]] = {
    "prim::shape(Tensor a) -> int[]": (lambda a: None if a.shape is None else _size(a), lambda a: list(a.shape)),
    "aten::dim": (lambda a: a.rank, lambda a: a.ndim),
    "prim::ndim(Tensor a) -> int": (lambda a: a.rank, lambda a: a.ndim),
    "aten::numel": (lambda a: a.numel, lambda a: a.size),
    "aten::sym_numel": (lambda a: a.numel, lambda a: a.size),
    "aten::len.Tensor": (lambda a: a.shape[0] if a.shape and isinstance(a.shape[0], int) else None, len),
    "prim::dtype": (lambda a: _CODES.get(a.dtype or ""), lambda a: _CODES[str(a.dtype)]),
    "prim::device": (lambda a: a.device, lambda a: "cpu"),
    "prim::layout": (lambda a: 0, lambda a: 0),
    "prim::is_cpu": (lambda a: a.device and a.device == "cpu", lambda a: True),
    "prim::is_cuda": (lambda a: a.device and a.device.startswith("cuda"), lambda a: False),
    "prim::requires_grad": (lambda a: None, lambda a: False),
    "prim::is_quantized": (lambda a: None, lambda a: False),
    "aten::is_floating_point": (lambda a: a.dtype and "float" in a.dtype, lambda a: a.dtype.kind == "f"),
    "aten::is_complex": (lambda a: a.dtype and "complex" in a.dtype, lambda a: a.dtype.kind == "c"),
    "aten::element_size": (lambda a: None, lambda a: a.itemsize),
}
"""What an op asks of its only operand: what the operand's type says (None if nothing), and what the array says."""

_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "aten::item": lambda value: value, "aten::ScalarImplicit": lambda value: value,
    "aten::IntImplicit": int, "aten::FloatImplicit": float, "aten::ComplexImplicit": complex,
    "aten::Int.Tensor": int, "aten::Float.Tensor": float, "aten::Bool.Tensor": bool, "aten::is_nonzero": bool,
}  # fmt: skip
"""What an op makes of the only element of its only operand."""


_QUERIES = (
    *(
        _ask(f"aten::{name}", f"aten::{name}.int", rule=rule, reference=lambda self, dim=None, rule=rule: rule(array_type(self), dim))
        for name, rule in (("size", _size), ("sym_size", _size), ("stride", _stride), ("sym_stride", _stride))
    ),
    *(_fact_op(overload, *answers) for overload, answers in _FACTS.items()),
    *(_element(overload, function) for overload, function in _VALUES.items()),
    _ask(
        "aten::is_contiguous", "aten::is_contiguous.memory_format", rule=_is_contiguous,
        reference=lambda self, memory_format=0: _is_contiguous(array_type(self), memory_format),
    ),
    _ask("aten::equal", reference=lambda self, other: bool(np.array_equal(self, other))),
    _ask(
        "aten::allclose",
        reference=lambda self, other, rtol, atol, equal_nan: bool(np.allclose(self, other, rtol, atol, equal_nan)),
    ),
)  # fmt: skip

OPS: Final = (*_CONTROL, *_QUERIES)
