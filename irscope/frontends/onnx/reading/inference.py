"""What ONNX itself says of a node's results: element types, ranks and symbolic extents, one node at a time.

`onnx.shape_inference` knows every standard op. It is asked where our own type rules leave something open, and for ops that
stay `onnx::`. What the file claims (`value_info`) is not trusted where the ops tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from irscope.errors import LoadError
from irscope.frontends.onnx.reading.types import ELEMENT_TYPES, type_of
from irscope.ir import TENSOR, ListType, OptionalType, TensorType, Type

__all__ = ["inferred", "proto_of", "schema_of_op"]

_NUMBERS: Final = {name: number for number, name in ELEMENT_TYPES.items()}
_MAX_DATA: Final = 1024
"""Elements of a known input that inference is told: shapes, axes, repeats."""
_WRONG: Final = frozenset({"STFT"})
"""Ops of which ONNX infers other extents than its own implementation gives."""


@lru_cache(maxsize=4096)
def schema_of_op(op: str, domain: str, opset: int) -> Any:
    """ONNX's schema of an op as of an opset; None for an op that it does not define."""
    import onnx

    try:
        return onnx.defs.get_schema(op, opset, "" if domain == "ai.onnx" else domain)
    except (onnx.defs.SchemaError, TypeError, OverflowError):
        return None


def proto_of(type: Type) -> Any:
    """A TypeProto of what is known; None for what ONNX has no type for."""
    import onnx

    if isinstance(type, TensorType) and type.dtype in _NUMBERS:
        shape = None if type.shape is None else list(type.shape)
        if shape is not None and any(isinstance(extent, int) and extent >= 2**63 for extent in shape):
            return None
        return onnx.helper.make_tensor_type_proto(_NUMBERS[type.dtype], shape)
    if isinstance(type, ListType) and (inner := proto_of(type.element)) is not None:
        return onnx.helper.make_sequence_type_proto(inner)
    if isinstance(type, OptionalType) and (inner := proto_of(type.element)) is not None:
        return onnx.helper.make_optional_type_proto(inner)
    return None


def inferred(
    node: Any, domain: str, opset: int, inputs: Mapping[str, tuple[Type, np.ndarray[Any, Any] | None]], ir_version: int
) -> Sequence[Type]:
    """The type of each output; a plain tensor where nothing follows. Never raises for what a node claims."""
    import onnx

    nothing = (TENSOR,) * len(node.output)
    schema = schema_of_op(node.op_type, domain, opset)
    if node.op_type in _WRONG or schema is None or any(attribute.HasField("g") for attribute in node.attribute):
        return nothing
    types = {name: proto for name, (type, _) in inputs.items() if (proto := proto_of(type)) is not None}
    known = {
        name: onnx.numpy_helper.from_array(array)
        for name, (_, array) in inputs.items()
        if array is not None and array.size <= _MAX_DATA and array.dtype.kind in "iufb"
    }
    if len(types) != len(inputs):
        return nothing
    try:
        opsets = [onnx.helper.make_opsetid("" if domain == "ai.onnx" else domain, opset)]
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, known, opset_imports=opsets, ir_version=max(ir_version, 3)
        )
    except Exception:  # its own errors have no common class
        return nothing
    return tuple(_type_of(found[name]) if name in found else TENSOR for name in node.output)


def _type_of(proto: Any) -> Type:
    try:
        return type_of(proto)
    except LoadError:  # extents beyond all memory: an op that would make them fails
        return TENSOR
