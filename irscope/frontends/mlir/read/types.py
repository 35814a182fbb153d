"""Converts MLIR's types to the IR's.

A tensor of an element type that the IR has is a `TensorType`; so is a plain number, as a tensor of rank 0, which keeps
its width (`f32` is `Float()`). `index` is an `int`. Torch-mlir's types are torch's (`!torch.list<int>` is `int[]`).
Everything else keeps MLIR's spelling, with a `!` before it: `!hal.buffer_view`, `!memref<4xf32>`, `!tensor<4xf32,
"encoding">`, and for a function's `!function<(f32) -> f32>`. The analyses assume nothing about what such a type refers to.
"""

from __future__ import annotations

import re
from typing import Any, Final

from irscope.ir import (
    ANY,
    BOOL,
    DEVICE,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    ClassType,
    DictType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
)  # fmt: skip

__all__ = ["ELEMENTS", "TypeReader", "element_name", "torch_type"]

ELEMENTS: Final = {
    "si8": "int8", "si16": "int16", "si32": "int32", "si64": "int64",  # torch-mlir's spelling; the last of a name is written
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


_PYTHON: Final[dict[str, Type]] = {
    "int": INT, "float": FLOAT, "bool": BOOL, "str": STR, "none": NONE, "number": NUMBER, "Device": DEVICE, "Generator": GENERATOR,
    "any": ANY,
}  # fmt: skip
_TENSOR: Final = re.compile(r"(?:\[((?:\?|\d+)(?:\s*,\s*(?:\?|\d+))*|)\]|\*|unk)(?:,\s*(.+))?")


def torch_type(text: str) -> Type | None:
    """Returns the type that torch-mlir spells so; None if there is none.

    >>> str(torch_type("!torch.vtensor<[4,?],f32>")), str(torch_type("!torch.list<optional<int>>"))
    ('Float(4, *)', 'int?[]')
    """
    name, _, inside = text.removeprefix("!").removeprefix("torch.").partition("<")
    inside = inside[:-1]
    if name in _PYTHON and not inside:
        return _PYTHON[name]
    if name in ("vtensor", "tensor"):
        return _torch_tensor(inside)
    parts = [torch_type(part) for part in _apart(inside)]
    known = [part for part in parts if part is not None]
    if not known or len(known) != len(parts):
        return None
    if name == "tuple":
        return TupleType(tuple(known))
    if name == "dict" and len(known) == 2:
        return DictType(*known)
    kind = {"list": ListType, "optional": OptionalType}.get(name)
    return kind(known[0]) if kind is not None and len(known) == 1 else None


def _torch_tensor(inside: str) -> TensorType | None:
    found = _TENSOR.fullmatch(inside)
    if found is None:
        return None if inside else TENSOR
    dims, element = found.groups()
    dtype = None if element in (None, "unk") else ELEMENTS.get(element)
    if dtype is None and element not in (None, "unk"):
        return None
    if dims is None:
        return TensorType(dtype)
    shape = tuple(None if dim.strip() == "?" else int(dim) for dim in dims.split(",") if dim.strip())
    return TensorType(dtype, shape, None if shape else ())


def _apart(text: str) -> list[str]:
    """Returns the parts of a list of types, between commas that are not inside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<[(") - (letter in ">])")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


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
        if text.startswith("!torch."):
            made = torch_type(text)
            if made is not None:
                return made
        return ClassType(text if text.startswith("!") else f"!{text}")
