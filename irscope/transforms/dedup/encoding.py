"""Encodes types, attributes and constants for a canonical form, without the parts that a relation takes out.

The part that a relation keeps is the *skeleton*: prefix-free bytes that are distinct for distinct items, to the bit. The parts
that it takes out are *slots*: each has a kind, a place in the item and a value. Two items with equal skeletons have the same
slots, one for one, and are the same but for the values in them.
"""

import re
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

from irscope.ir import ClassType, Graph, Opaque, TensorData, TensorType, Type
from irscope.ops.type_rules import is_dense, lies_in_rows, static_shape
from irscope.transforms.dedup.piece import RANK, Relation

Role = Literal["data", "size", "layout", "dtype", "structure"]
"""The role of a constant for the op that reads it."""
_CONSTANTS: Final = RANK["constants"]
_EXTENTS: Final = RANK["extents"]
_FREE: Final = RANK["free"]
_LAYOUT: Final = RANK["layout"]
_DTYPE: Final = RANK["dtype"]


class Slot(NamedTuple):
    """A part of a type, an attribute or a constant that a relation takes out."""

    kind: Literal["constant", "extent", "size", "stride", "layout", "dtype"]
    """An `extent` is part of a tensor's type; a `size` is a number that an op takes as an extent."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used here
    """The place of the slot within the item."""
    value: Any


# --- types ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def split_type(type: Type, relation: Relation) -> tuple[str, tuple[Slot, ...]]:
    """Returns the skeleton of a type, which has the parts that the relation keeps, and the slots that it takes out.

    >>> split_type(TensorType("float32", (2, 1), (1, 1)), "extents")
    ('float32(n,1)[0]1TrueNoneNoneFalse', (Slot(kind='extent', index=0, value=2),))
    """
    rank = RANK[relation]
    if rank >= _EXTENTS and isinstance(type, ClassType):
        name, taken = split_text(type.name, relation)
        return f"ClassType(name={name!r})", taken
    if not isinstance(type, TensorType):
        return repr(type), ()  # extents inside containers are kept: repr has all fields of all parts
    dtype = type.dtype if rank < _DTYPE else ""
    end = f"{type.device}{type.requires_grad}{type.undefined}"
    slots = [Slot("dtype", 0, type.dtype)] if rank >= _DTYPE else []
    if rank < _EXTENTS or type.shape is None:
        return f"{dtype}{type.shape}{type.strides}{end}", tuple(slots)
    free = [rank >= _FREE or (isinstance(dim, int) and dim not in (0, 1)) for dim in type.shape]
    axes = list(zip(type.shape, free, strict=True))
    pattern = ["*" if rank >= _FREE or not isinstance(dim, int) else "n" if own else str(dim) for dim, own in axes]
    extents = [Slot("extent", axis, dim) for axis, (dim, own) in enumerate(axes) if own]
    layout, steps = _split_layout(type, rank)
    return f"{dtype}({','.join(pattern)}){layout}{end}", (*extents, *steps, *slots)


def _split_layout(type: TensorType, rank: int) -> tuple[str, list[Slot]]:
    """The skeleton of strides (the order of dimensions by stride, which strides are 0 or 1, and whether there are gaps), and the slots."""
    shape, strides = static_shape(type), type.strides
    is_row_major = lies_in_rows(type)
    if rank >= _LAYOUT:
        return "", [Slot("layout", 0, "row-major" if is_row_major else strides)]
    if strides is None or type.shape is None:
        return "", []
    has_no_gaps = shape is not None and is_dense(shape, strides)
    order = sorted((axis for axis, dim in enumerate(type.shape) if dim != 1), key=lambda axis: -strides[axis])
    steps = [{0: "0", 1: "1"}.get(strides[axis], "s") for axis in reversed(order)]
    skeleton = "C" if rank == _FREE and is_row_major else f"{order}{''.join(steps)}{has_no_gaps}"
    gaps = [Slot("stride", axis, step) for axis, step in enumerate(strides) if step not in (0, 1)]
    return skeleton, [] if has_no_gaps or is_row_major else gaps


# --- texts of foreign types and attributes -----------------------------------------------------------------------------

_DIMS = re.compile(r"(?<=<)((?:(?:\d+|\?)x)+)(?=[\w!(])")
"""The extents in `tensor<4x?xf32>`."""
_ELEMENT = re.compile(r"(?<=[<x])(?:[su]?i\d+|b?f\d+\w*|index)(?=[>,])")
"""The element type in `tensor<4x?xf32>`."""
_MAP = re.compile(r"affine_(?:map|set)<")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_FLOAT = re.compile(r"-?\d+\.\d+(?:[eE][+-]?\d+)?(?= : (?:b?f|tf)\d)|0x[0-9A-Fa-f]+(?= : (?:b?f|tf)\d)")


@lru_cache(maxsize=1 << 14)
def split_text(text: str, relation: Relation) -> tuple[str, tuple[Slot, ...]]:
    """Returns the skeleton and the slots of MLIR text: a type, an affine map, an attribute."""
    rank = RANK[relation]
    slots: list[Slot] = []

    def take(kind: Any, value: Any) -> str:
        slots.append(Slot(kind, len(slots), value))
        return "*"

    def dims(found: re.Match[str]) -> str:
        out = []
        for dim in found.group(1).split("x")[:-1]:
            kept = rank < _FREE and dim in ("0", "1", "?")
            out.append(dim if kept else take("extent", None if dim == "?" else int(dim)))
        return "".join(f"{dim}x" for dim in out)

    def size(found: re.Match[str]) -> str:
        number = found.group(0)
        return number if rank < _FREE and number in ("0", "1") else take("size", int(number))

    if rank >= _CONSTANTS and _FLOAT.search(text):
        text = _FLOAT.sub(lambda found: take("constant", found.group(0)), text)
    if rank >= _EXTENTS:
        text = _DIMS.sub(dims, text)
        if _MAP.match(text):
            text = _NUMBER.sub(size, text)
    if rank >= _DTYPE:
        text = _ELEMENT.sub(lambda found: take("dtype", found.group(0)), text)
    return text, tuple(slots)


# --- attributes ---------------------------------------------------------------------------------------------------------


def spell_attrs(attrs: Mapping[str, Any], relation: Relation = "alpha", symbols: Callable[[str], str] | None = None) -> bytes:
    """Returns attributes by name, as bytes that can be read back except for what the relation takes out; `symbols` spells an
    attribute that names symbols."""
    if not attrs:
        return b"0:"
    spelled = [prefixed(key) + _spell_attr(key, attrs[key], relation, symbols) for key in sorted(attrs)]
    return b"%d:" % len(attrs) + b"".join(spelled)


def _spell_attr(key: str, payload: Any, relation: Relation, symbols: Callable[[str], str] | None) -> bytes:
    """Spell an attribute, parts of which may be taken out, or be the names of symbols."""
    if RANK[relation] < _CONSTANTS and symbols is None:
        return spell_payload(payload)
    match payload:
        case str() if symbols is not None and "@" in payload and not payload.startswith('"'):
            return b"@" + prefixed(symbols(payload))
        case tuple() | list():
            return b"(%d:" % len(payload) + b"".join([_spell_attr(key, item, relation, symbols) for item in payload])
        case Mapping():
            return b"{" + spell_attrs(payload, relation, symbols)
        case str() if RANK[relation] >= _CONSTANTS:
            return b"s" + prefixed(split_text(payload, relation)[0])
        case _ if role_of_attr(key, payload) != "structure":
            return split_leaf(payload, role_of_attr(key, payload), relation)[0]
    return spell_payload(payload)


def role_of_attr(key: str, payload: Any) -> Role:
    """Returns the role of a part of an attribute. MLIR's `static_sizes` are numbers that operands may give instead; a kernel's
    `stride_classes` say how an operand steps along each loop."""
    if isinstance(payload, float | complex | TensorData):
        return "data"
    if type(payload) is int and (key == "stride_classes" or key.startswith("static_")):
        return "layout" if key == "stride_classes" else "size"
    return "structure"


# --- constants ----------------------------------------------------------------------------------------------------------


def split_leaf(payload: Any, role: Role, relation: Relation) -> tuple[bytes, tuple[Slot, ...]]:
    """Returns the skeleton of a constant, by its role for its user, and the slots that the relation takes out of it.

    >>> split_leaf(0.5, "data", "constants"), split_leaf(2, "structure", "constants")
    ((b'#float', (Slot(kind='constant', index=0, value=0.5),)), (b'i2;', ()))
    """
    if not _is_taken(payload, role, relation):
        return spell_payload(payload), ()
    if isinstance(payload, TensorData):
        skeleton, slots = split_type(TensorType(payload.dtype, tuple(payload.shape), device=payload.device), relation)
        return b"T" + prefixed(skeleton), (Slot("constant", 0, payload), *slots)
    kind: Any = "constant" if role == "data" else role
    if isinstance(payload, tuple | list):
        return b"L%d:" % len(payload), tuple([Slot(kind, place, item) for place, item in enumerate(payload)])
    name = b"N#" if role == "dtype" or RANK[relation] >= _DTYPE else b"#" + type(payload).__name__.encode()
    return name, (Slot(kind, 0, payload),)


def _is_taken(payload: Any, role: Role, relation: Relation) -> bool:
    """Whether the relation takes a constant out."""
    rank = RANK[relation]
    if role == "data" and rank >= _CONSTANTS:
        if isinstance(payload, TensorData):
            return payload.array is not None
        return type(payload) in (int, float, complex)
    if role == "size" and rank >= _EXTENTS:
        numbers = payload if isinstance(payload, tuple | list) else (payload,)
        return all(type(number) is int for number in numbers)
    if role == "layout":
        return rank >= _LAYOUT
    return role == "dtype" and rank >= _DTYPE and type(payload) is int


def spell_payload(payload: Any) -> bytes:
    """Returns a constant as bytes that can be read back, or else as its identity, which no other constant has."""
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
        case Mapping():
            return b"{" + spell_attrs(payload)
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


def is_spelled(payload: Any) -> bool:
    """Whether `spell_payload` writes a constant by its content, the same in every process, and not by its identity.

    >>> is_spelled((1, "a")), is_spelled(object())
    (True, False)
    """
    match payload:
        case tuple() | list():
            return all(map(is_spelled, payload))
        case Mapping():
            return all(map(is_spelled, payload.values()))
        case TensorData():
            return payload.array is not None
    return payload is None or isinstance(payload, bool | int | float | complex | str | Graph | Type)


def prefixed(text: str) -> bytes:
    """Returns a text as bytes with its length in front.

    >>> prefixed("aten::mul")
    b"9'aten::mul"
    """
    data = text.encode()
    return b"%d'" % len(data) + data


def digest(*parts: bytes) -> bytes:
    """Returns a digest of sixteen bytes of all parts, in this order."""
    return blake2b(b"".join(parts), digest_size=16).digest()
