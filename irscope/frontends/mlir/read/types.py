"""Converts MLIR's types to the IR's.

A tensor of an element type that the IR has is a `TensorType`; so is a plain number, as a tensor of rank 0, which keeps
its width (`f32` is `Float()`). `index` is an `int`. Everything else keeps MLIR's spelling, with a `!` before it:
`!hal.buffer_view`, `!memref<4xf32>`, `!tensor<4xf32, "encoding">`, and for a function's `!function<(f32) -> f32>`. The
analyses assume nothing about what such a type refers to.
"""

from __future__ import annotations

from typing import Any, Final

from irscope.ir import INT, ClassType, TensorType, Type

__all__ = ["ELEMENTS", "TypeReader", "element_name"]

ELEMENTS: Final = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "i1": "bool", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
    "i4": "int4", "ui4": "uint4", "i2": "int2", "ui2": "uint2",
    "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2", "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu", "f8E4M3": "float8_e4m3", "f8E3M4": "float8_e3m4", "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f4E2M1FN": "float4_e2m1fn", "complex<f32>": "complex64", "complex<f64>": "complex128",
}  # fmt: skip
"""Maps MLIR's spelling of each element type to the IR's name."""


def element_name(type: Any) -> str | None:
    """Returns the IR's name of an element type; None if it has none: `index` elements, quantised ones.

    >>> element_name("bf16"), element_name("!quant.uniform<i8:f32, 0.1>")
    ('bfloat16', None)
    """
    return ELEMENTS.get(str(type))


class TypeReader:
    """Reads the types of one context, each once."""

    def __init__(self, ir: Any) -> None:
        self._ir = ir
        self._known: dict[Any, Type] = {}

    def __call__(self, type: Any) -> Type:
        found = self._known.get(type)
        if found is None:
            found = self._known[type] = self._read(type)
        return found

    def _read(self, type: Any) -> Type:
        ir, text = self._ir, str(type)
        if isinstance(type, ir.RankedTensorType) and type.encoding is None:
            element = element_name(type.element_type)
            if element is not None:
                shape = tuple(None if type.is_dynamic_dim(i) else type.get_dim_size(i) for i in range(type.rank))
                return TensorType(element, shape, None if shape else ())
        elif isinstance(type, ir.UnrankedTensorType):
            element = element_name(type.element_type)
            if element is not None:
                return TensorType(element)
        elif text in ELEMENTS:
            return TensorType(ELEMENTS[text], (), ())
        elif text == "index":
            return INT
        elif isinstance(type, ir.FunctionType):
            return ClassType(f"!function<{text}>")
        return ClassType(text if text.startswith("!") else f"!{text}")
