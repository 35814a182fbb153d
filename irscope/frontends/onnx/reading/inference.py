"""ONNX's own inference of a node's results: element types, ranks and symbolic extents, one node at a time.

`onnx.shape_inference` knows every standard op. It is used where irscope's type rules leave something open, and for ops
that stay `onnx::`. Claims of the file (`value_info`) are not trusted where the ops determine the type.

It is C++ that reads past the end of a shape for an axis out of range (LayerNormalization), for a negative number of
axes (GatherND), for fewer parts than outputs (Split), and builds a shape of 2^40 extents (Expand). So it is not called
for a node whose numbers are not in range.
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
_WORDS: Final = {"float32": "float", "float64": "double"}
"""The element types that ONNX's schemas call differently."""
_MAX_DATA: Final = 1024
"""The most elements of a known input that inference receives: shapes, axes, repeats."""
_WRONG: Final = frozenset({"STFT", "AveragePool", "LpPool", "MaxPool"})
"""Ops for which ONNX infers extents that differ from its own or onnxruntime's results: windows that are dilated with SAME
padding, or that would start in the padding."""


@lru_cache(maxsize=4096)
def schema_of_op(op: str, domain: str, opset: int) -> Any:
    """Returns ONNX's schema of an op in an opset; None for an op that it does not define."""
    import onnx

    try:
        return onnx.defs.get_schema(op, opset, "" if domain == "ai.onnx" else domain)
    except (onnx.defs.SchemaError, TypeError, OverflowError):
        return None


def proto_of(type: Type) -> Any:
    """Returns a type as a TypeProto; None if ONNX has no such type."""
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
    """Returns the type of each output: as ONNX infers it, else the element type that the op's schema ties to its operands, or
    a plain tensor. Never raises, whatever the node claims."""
    schema = schema_of_op(node.op_type, domain, opset)
    if schema is None:
        return (TENSOR,) * len(node.output)
    found = _by_inference(node, schema, domain, opset, inputs, ir_version)
    tied = _element_types(node, schema, [inputs[name][0] if name else None for name in node.input])
    return [
        type.with_(dtype=dtype) if isinstance(type, TensorType) and type.dtype is None else type
        for type, dtype in zip(found, tied, strict=True)
    ]


def _by_inference(
    node: Any, schema: Any, domain: str, opset: int, inputs: Mapping[str, tuple[Type, np.ndarray[Any, Any] | None]], ir_version: int
) -> Sequence[Type]:
    import onnx

    nothing = (TENSOR,) * len(node.output)
    has_body = any(attribute.HasField("g") for attribute in node.attribute)
    if has_body or not is_sound(node, schema, [type for type, _ in inputs.values()]):
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
    types_found = [_type_of(found[name]) if name in found else TENSOR for name in node.output]
    return [_of_its_rank(type) for type in types_found] if node.op_type in _WRONG else types_found


def _of_its_rank(type: Type) -> Type:
    return type.with_(shape=(None,) * type.rank) if isinstance(type, TensorType) and type.rank is not None else type


def _element_types(node: Any, schema: Any, operands: Sequence[Type | None]) -> Sequence[str | None]:
    """Returns the element type of each output that has that of an operand, or only one possible type; None for others."""
    names = {f"tensor({_WORDS.get(name, name)})": name for name in _NUMBERS}
    allowed = {item.type_param_str: item.allowed_type_strs for item in schema.type_constraints}
    bound = names | {word: names[texts[0]] for word, texts in allowed.items() if len(texts) == 1 and texts[0] in names}
    for index, type in enumerate(operands):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)] if schema.inputs else None
        if formal is None or not formal.is_homogeneous or not isinstance(type, TensorType) or type.dtype is None:
            continue
        if all(text.startswith("tensor(") for text in allowed.get(formal.type_str, ())):
            bound.setdefault(formal.type_str, type.dtype)
    formals = [schema.outputs[min(index, len(schema.outputs) - 1)] for index in range(len(node.output))] if schema.outputs else []
    return [bound.get(formal.type_str) if formal.is_homogeneous else None for formal in formals] or [None] * len(node.output)


def is_sound(node: Any, schema: Any, operands: Sequence[Type]) -> bool:
    """Checks whether the attributes have the declared types and all numbers, axes included, are in range.

    Every axis must be one of the first operand's, or for Unsqueeze of its result; other numbers may be negative only if
    that has a meaning for their attribute.
    """
    if len(node.output) > schema.max_output or not schema.min_input <= len(node.input) <= schema.max_input:
        return False
    if any(isinstance(type, TensorType) and _is_long_row(type) for type in operands):
        return False
    ranks = [type.rank for type in operands if isinstance(type, TensorType)]
    least = min((rank for rank in ranks[:1] if rank is not None), default=0) if None not in ranks[:1] else 0
    for attribute in node.attribute:
        declared = schema.attributes.get(attribute.name)
        if declared is None or int(getattr(declared.type, "value", declared.type)) != attribute.type:
            return False
        numbers = [attribute.i, *attribute.ints]
        if "axis" in attribute.name or "axes" in attribute.name or attribute.name == "perm":
            room = least + (len(attribute.ints) if node.op_type == "Unsqueeze" else 0)
            if not all(-room <= number < max(room, 1) for number in numbers):
                return False
            continue
        if min(numbers) < (-(2**31) if attribute.name in _SIGNED else 0) or max(numbers) > 2**31:
            return False
        if attribute.name == "num_outputs" and attribute.i != len(node.output):
            return False
    return True


def _is_long_row(type: TensorType) -> bool:
    """Checks whether an operand is an integer vector that is longer than any shape."""
    extent = type.shape[0] if type.shape is not None and len(type.shape) == 1 else 0
    return type.dtype in ("int64", "int32") and isinstance(extent, int) and extent > _MAX_DATA


_SIGNED: Final = frozenset({"start", "end", "k", "pads", "starts", "ends", "value_int", "value_ints", "shape", "default_int64"})


def _type_of(proto: Any) -> Type:
    try:
        return type_of(proto)
    except LoadError:  # extents beyond any memory: an op that computes such a tensor fails
        return TENSOR
