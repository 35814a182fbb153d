"""Reads and prints constants inside `[value=…]`: numbers, strings, small tensors, containers.

TorchScript prints some constants in forms that cannot be read back directly: large tensors (`<Tensor>`), objects, non-ASCII
bytes. The first are kept as sizes without elements, the second as `Opaque` text, and the third are decoded. Numbers that
we print are exact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from irscope._base.frozen import FrozenDict
from irscope.errors import ParseError
from irscope.ir.payload import Opaque, TensorData
from irscope.ir.text.lexer import Cursor, quote
from irscope.ir.text.packed_tensor import PACKED
from irscope.ir.text.tensor_text import (
    TENSOR_START,
    is_scalar_like,
    read_braced,
    read_packed,
    read_tensor,
    tensor_text,
)
from irscope.ir.text.type_text import annotation, parse_type, read_type
from irscope.ir.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    DictType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
)

__all__ = ["constant_text", "read_constant", "typed"]

_REAL = r"(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|inf|nan)"
_NUMBER = re.compile(rf"([+-]?{_REAL})(?:([+-]{_REAL})?(j))?(?=\s*(?:[,\])}}:]|$))")
_OTHER_TENSOR = re.compile(r"\[ [A-Z]\w*Type\{")
_ANNOTATE = re.compile(r"annotate\(")
_WORD = re.compile(r"[A-Za-z_][\w.]*")
_KEYWORDS = {"None": None, "True": True, "False": False}
_MAX_DIGITS = 400


def read_constant(cursor: Cursor, type: Type | None, *, key: str = "value") -> Any:
    """The payload that starts at the cursor.

    `type` is that of the node's result, if it has one: it decides whether the text `0` is 0, 0.0 or False. Under
    another key than `value`, a word is a type (`types=[int, Float(2)]`).
    """
    return typed(_read(cursor, type, key), type) if key == "value" else _read(cursor, None, key)


def _read(cursor: Cursor, type: Type | None, key: str) -> Any:
    cursor.enter()
    payload = _read_one(cursor, type, key)
    cursor.depth -= 1
    return payload


def _read_one(cursor: Cursor, type: Type | None, key: str) -> Any:
    found = cursor.match(_NUMBER)
    if found is not None:
        return _number(cursor, found)
    if cursor.at('"'):
        return cursor.string()
    if TENSOR_START.match(cursor.text, cursor.pos):
        return read_tensor(cursor)
    if PACKED.match(cursor.text, cursor.skip()):
        return read_packed(cursor)
    if cursor.at("{"):
        return read_braced(cursor, type) if is_scalar_like(cursor) else _read_dict(cursor, type, key)
    if cursor.at("[<Tensors>]") or _OTHER_TENSOR.match(cursor.text, cursor.pos) or cursor.at("[<Graphs>]"):
        return _read_opaque(cursor)
    if cursor.take("["):
        return _read_row(cursor, "]", _element_types(type), key)
    if cursor.take("("):
        return _read_row(cursor, ")", _element_types(type), key)
    if cursor.match(_ANNOTATE):
        inner = read_type(cursor)
        cursor.expect(",")
        payload = _read(cursor, inner, key)
        cursor.expect(")")
        return payload
    return _read_word(cursor, type, key)


def _number(cursor: Cursor, found: re.Match[str]) -> int | float | complex:
    first, second, imaginary = found.groups()
    if len(found.group()) > _MAX_DIGITS:
        cursor.wrong("this number has too many digits", found.start())
    if imaginary:
        return complex(float(first), float(second)) if second else complex(0.0, float(first))
    return int(first) if first.lstrip("+-").isdigit() else float(first)


def _element_types(type: Type | None) -> tuple[Type, ...]:
    """The types of the items of a list or tuple; the last one repeats."""
    match type:
        case OptionalType(element):
            return _element_types(element)
        case ListType(element):
            return (element,)
        case TupleType(elements):
            return elements
    return ()


def _types_of(type: Type | None, count: int) -> tuple[Type | None, ...]:
    """The types of `count` elements of a list or tuple."""
    types: tuple[Type | None, ...] = _element_types(type) or (None,)
    return (types + types[-1:] * count)[:count]


def _read_row(cursor: Cursor, end: str, types: tuple[Type, ...], key: str) -> tuple[Any, ...]:
    items: list[Any] = []
    while not cursor.at(end):
        items.append(_read(cursor, types[min(len(items), len(types) - 1)] if types else None, key))
        if not cursor.take(","):
            break
    cursor.expect(end, ",")
    return tuple(items)


def _read_dict(cursor: Cursor, type: Type | None, key: str) -> FrozenDict[Any, Any]:
    cursor.expect("{")
    key_type, value_type = (type.key, type.value) if isinstance(type, DictType) else (None, None)
    entries: list[tuple[Any, Any]] = []
    while not cursor.at("}"):
        start = cursor.pos
        entry = _read(cursor, key_type, key)
        if not isinstance(entry, str | int | float | complex | bool):
            cursor.wrong("the key of a dict is a string or a number", start)
        cursor.expect(":")
        entries.append((entry, _read(cursor, value_type, key)))
        if not cursor.take(","):
            break
    cursor.expect("}", ",")
    return FrozenDict(entries)


def _read_word(cursor: Cursor, type: Type | None, key: str) -> Any:
    start = cursor.pos
    word = cursor.match(_WORD)
    if word is not None and word.group() in _KEYWORDS and not cursor.at("::"):
        return _KEYWORDS[word.group()]
    cursor.pos = start
    if word is not None and key != "value":
        text = cursor.balanced()
        try:
            return parse_type(text)
        except ParseError:
            return Opaque(" ".join(text.split()))
    if cursor.at("<Tensor>") and isinstance(type, TensorType) and type.is_static:
        cursor.take("<Tensor>")
        assert type.dtype is not None  # static
        shape = tuple(dim for dim in type.shape or () if isinstance(dim, int))
        return TensorData(type.dtype, shape, None, type.device or "cpu")
    return _read_opaque(cursor)


def _read_opaque(cursor: Cursor) -> Opaque:
    """Read any text up to the comma or bracket that ends it; brackets and strings inside it are balanced."""
    text = cursor.balanced()
    if not text:
        cursor.fail("a constant")
    return Opaque(" ".join(text.split()))


def typed(payload: Any, type: Type | None) -> Any:
    """The payload converted to its type: TorchScript prints a float `3e16` without a point and a bool as 0 or 1.

    >>> typed(1, BOOL), typed((1, 2.5), ListType(FLOAT))
    (True, (1.0, 2.5))
    """
    if isinstance(payload, int) and not isinstance(payload, bool):
        if type == FLOAT:
            return float(payload) if abs(payload) < 1 << 1023 else payload
        if type == BOOL and payload in (0, 1):
            return bool(payload)
    if isinstance(payload, int | float) and not isinstance(payload, bool) and type == COMPLEX:
        return complex(payload) if abs(payload) < 1 << 1023 or payload != payload else payload
    if isinstance(type, OptionalType):
        return typed(payload, type.element)
    if isinstance(payload, tuple) and isinstance(type, ListType | TupleType):
        types = _types_of(type, len(payload))
        return tuple(typed(item, wanted) for item, wanted in zip(payload, types, strict=True))
    if isinstance(payload, FrozenDict) and isinstance(type, DictType):
        return FrozenDict({typed(key, type.key): typed(value, type.value) for key, value in payload.items()})
    return payload


def constant_text(payload: Any, type: Type | None = None, *, nested: bool = False) -> str:
    """The payload as TorchScript prints it, but with exact numbers where torch rounds.

    >>> constant_text(1.0), constant_text(True, BOOL), constant_text((1, 2)), constant_text((), ListType(FLOAT))
    ('1.', '1', '[1, 2]', 'annotate(List[float], [])')
    """
    match payload:
        case bool():
            return str(int(payload)) if type == BOOL and not nested else str(payload)
        case int() | np.integer():
            return str(payload)
        case float() | np.floating():
            return _float_text(float(payload))
        case complex():
            imaginary = _float_text(payload.imag)
            return f"{_float_text(payload.real)}{'' if imaginary[0] == '-' else '+'}{imaginary}j"
        case str():
            return quote(payload)
        case TensorData():
            return tensor_text(payload, type)
        case Opaque(text):
            return " ".join(text.split()) or "<>"
        case tuple() | list():
            return _row_text(payload, type)
        case Mapping():
            return _dict_text(payload, type)
        case None | Type():
            return str(payload)
    return f"<{payload.__class__.__name__}>"  # an object without a text form, such as a Graph


def _float_text(number: float) -> str:
    text = repr(number)
    return text[:-1] if text.endswith(".0") else text


def _row_text(items: tuple[Any, ...] | list[Any], type: Type | None) -> str:
    while isinstance(type, OptionalType):
        type = type.element
    types = _types_of(type, len(items))
    if not items and isinstance(type, ListType):
        return f"annotate({annotation(type)}, [])"
    inside = ", ".join(constant_text(item, wanted, nested=True) for item, wanted in zip(items, types, strict=True))
    return f"({inside})" if isinstance(type, TupleType) else f"[{inside}]"


def _dict_text(entries: Mapping[Any, Any], type: Type | None) -> str:
    key_type, value_type = (type.key, type.value) if isinstance(type, DictType) else (None, None)
    if not entries and isinstance(type, DictType):
        return f"annotate({annotation(type)}, {{}})"
    inside = ", ".join(
        f"{constant_text(key, key_type, nested=True)}: {constant_text(value, value_type, nested=True)}"
        for key, value in entries.items()
    )
    return f"{{{inside}}}"
