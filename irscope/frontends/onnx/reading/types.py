"""Converts ONNX's types: element types, shapes with symbolic extents, sequences, optionals, maps.

An element type that no `aten::` op computes with (float8, int4, strings) keeps its own name. A symbolic extent
keeps its name, written so that it is valid in a type: `past + 1` becomes `past___1`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any, Final

from irscope.errors import LoadError
from irscope.ir import TENSOR, DictType, Dim, ListType, OptionalType, TensorType, Type

__all__ = ["COMPUTED", "ELEMENT_TYPES", "FLOATS", "INTEGERS", "merged", "type_of"]

ELEMENT_TYPES: Final[Mapping[int, str]] = dict(
    enumerate(
        "float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64 complex64 complex128 bfloat16 "
        "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz uint4 int4 float4_e2m1fn float8_e8m0fnu uint2 int2 "
        "float6_e2m3fn float6_e3m2fn".split(),
        start=1,
    )
)
"""ONNX's number of each element type, and the IR's name."""

FLOATS: Final = frozenset({"float32", "float64", "float16", "bfloat16"})
INTEGERS: Final = frozenset({"int64", "int32", "int16", "int8", "uint8"})
COMPUTED: Final = FLOATS | INTEGERS | {"bool"}
"""The element types that `aten::` ops compute with; an op on others stays `onnx::`."""

_NOT_A_NAME: Final = re.compile(r"\W")


def type_of(proto: Any) -> Type:
    """Returns the type that a TypeProto describes; a plain tensor if it is empty."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return _tensor(proto.tensor_type)
    if kind == "sequence_type":
        return ListType(type_of(proto.sequence_type.elem_type))
    if kind == "optional_type":
        return OptionalType(type_of(proto.optional_type.elem_type))
    if kind == "map_type":
        key = TensorType(ELEMENT_TYPES.get(proto.map_type.key_type), ())
        return DictType(key, type_of(proto.map_type.value_type))
    if kind == "sparse_tensor_type":
        return _tensor(proto.sparse_tensor_type)
    return TENSOR


def _tensor(proto: Any) -> TensorType:
    shape = tuple(map(_extent, proto.shape.dim)) if proto.HasField("shape") else None
    if shape is not None and prod(extent for extent in shape if isinstance(extent, int) and extent) >= 1 << 60:
        raise LoadError(f"a tensor of shape {list(shape)} is larger than any memory", hint="the model is damaged: export it again")
    return TensorType(ELEMENT_TYPES.get(proto.elem_type), shape)


def _extent(dim: Any) -> Dim:
    kind = dim.WhichOneof("value")
    if kind == "dim_value":
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    if kind == "dim_param" and dim.dim_param and not dim.dim_param.startswith("unk__"):
        return symbol(dim.dim_param)
    return None


def symbol(text: str) -> str:
    """Returns a valid name for an extent, with each invalid character written as `_`.

    >>> symbol("batch size"), symbol("2n")
    ('batch_size', '_2n')
    """
    name = _NOT_A_NAME.sub("_", text)
    return f"_{name}" if name[:1].isdigit() else name


def merged(found: Type, told: Type) -> Type:
    """Returns the type that follows from the ops, completed by ONNX's own inference where it is open.

    >>> str(merged(TensorType("float32", (None, 3)), TensorType("float32", ("n", 3))))
    'Float(n, 3)'
    """
    if not isinstance(found, TensorType):
        return found
    if not isinstance(told, TensorType):
        return found
    dtype = found.dtype or told.dtype
    if found.shape is None:
        return found.with_(dtype=dtype, shape=told.shape)
    if told.shape is None or len(told.shape) != len(found.shape):
        return found.with_(dtype=dtype)
    pairs = zip(found.shape, told.shape, strict=True)
    return found.with_(dtype=dtype, shape=tuple(b if a is None else a for a, b in pairs))
