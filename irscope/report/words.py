"""Short texts for types and amounts, the same in every view."""

from __future__ import annotations

from irscope._base.words import byte_count, plural
from irscope.ir import DictType, ListType, OptionalType, TensorType, TupleType, Type
from irscope.runtime.timer import time_words

__all__ = ["amount", "byte_count", "duration", "plural", "short_type"]

_SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int16": "i16",
    "int8": "i8", "uint8": "u8", "bool": "bool", "complex64": "c64", "complex128": "c128",
}  # fmt: skip


def short_type(type: Type) -> str:
    """A type in a few characters.

    >>> short_type(TensorType("float32", (1, 3, None)))
    'f32[1, 3, ?]'
    """
    match type:
        case TensorType():
            dims = (
                "" if type.shape is None else f"[{', '.join('?' if dim is None else str(dim) for dim in type.shape)}]"
            )
            return (_SHORT.get(type.dtype, type.dtype) if type.dtype else "tensor") + dims
        case ListType(element):
            return f"{short_type(element)} list"
        case OptionalType(element):
            return f"{short_type(element)} or none"
        case DictType(key, value):
            return f"{short_type(key)} → {short_type(value)}"
        case TupleType(elements) if elements:
            return f"({', '.join(map(short_type, elements))})"
    return str(type)


def duration(milliseconds: float) -> str:
    """A time with the unit that keeps it readable.

    >>> duration(0.0123), duration(1234.5)
    ('12.3 µs', '1.23 s')
    """
    return time_words(milliseconds * 1e6)


def amount(count: int) -> str:
    """A count with thousands separated.

    >>> amount(2816)
    '2,816'
    """
    return f"{count:,}"
