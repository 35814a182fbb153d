"""How types, attributes and constants are written into a canonical form: prefix-free, and told apart to the bit."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, Literal

from irscope.ir import Graph, Opaque, TensorData, TensorType, Type, walk

__all__ = ["RELATIONS", "Relation", "prefixed", "spell_attrs", "spell_payload", "spell_type"]

Relation = Literal["text", "alpha", "order", "extents"]
RELATIONS: Final[tuple[Relation, ...]] = ("text", "alpha", "order", "extents")
"""From the finest to the coarsest."""


def spell_type(type: Type, relation: Relation) -> str:
    """A type as far as the relation looks at it."""
    if relation != "extents" or not any(isinstance(part, TensorType) for part in walk(type)):
        return _spell_exact(type)
    if not isinstance(type, TensorType):
        return repr(type)  # extents inside containers are kept: repr tells all fields of all parts
    if type.shape is None:
        return _spell_exact(type)
    pattern = ["1" if dim == 1 else "n" if isinstance(dim, int) else "*" for dim in type.shape]
    return f"{type.dtype}({','.join(pattern)}){_stride_order(type)}{type.device}{type.requires_grad}{type.undefined}"


def _spell_exact(type: Type) -> str:
    if isinstance(type, TensorType):
        return f"{type.dtype}{type.shape}{type.strides}{type.device}{type.requires_grad}{type.undefined}"
    return repr(type)


def _stride_order(type: TensorType) -> str:
    """The dimensions from the largest step to the smallest, which steps are 0 or 1, and whether there are gaps."""
    if type.strides is None or type.shape is None:
        return ""
    extents = [dim if isinstance(dim, int) else 0 for dim in type.shape]
    order = sorted((axis for axis, extent in enumerate(extents) if extent != 1), key=lambda axis: -type.strides[axis])  # type: ignore[index]
    steps, dense, step = [], True, 1
    for axis in reversed(order):
        dense = dense and type.strides[axis] == step
        step *= extents[axis]
        steps.append({0: "0", 1: "1"}.get(type.strides[axis], "s"))
    return f"{order}{''.join(steps)}{dense}"


def spell_attrs(attrs: Mapping[str, Any]) -> bytes:
    """Attributes by name, as bytes that can be read back."""
    if not attrs:
        return b"0:"
    return b"%d:" % len(attrs) + b"".join([prefixed(key) + spell_payload(attrs[key]) for key in sorted(attrs)])


def spell_payload(payload: Any) -> bytes:
    """A constant as bytes that can be read back, or that no other constant has."""
    match payload:
        case None:
            return b"N"
        case bool():
            return b"T" if payload else b"F"
        case int():
            return b"i%d;" % payload
        case float():
            return b"f" + struct.pack(">d", payload)
        case complex():
            return b"c" + struct.pack(">dd", payload.real, payload.imag)
        case str():
            return b"s" + prefixed(payload)
        case tuple() | list():
            return b"(%d:" % len(payload) + b"".join(map(spell_payload, payload))
        case TensorData() if payload.array is not None:
            head = f"{payload.dtype}{payload.shape}{payload.device}"
            return b"t" + prefixed(head) + blake2b(payload.array.tobytes(), digest_size=32).digest()
        case Graph():
            return b"g"  # its body is listed with the blocks
        case Type():
            return b"y" + prefixed(repr(payload))
        case Opaque() if payload.original is not None:
            return b"o%d;" % id(payload.original)
    return b"o%d;" % id(payload)


def prefixed(text: str) -> bytes:
    """A text with its length in front.

    >>> prefixed("aten::mul")
    b"9'aten::mul"
    """
    data = text.encode()
    return b"%d'" % len(data) + data
