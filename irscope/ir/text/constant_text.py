"""Reads and prints constants inside `[value=…]`: numbers, strings, tensors, containers."""

import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from math import prod
from typing import Any, Final

import numpy as np

from irscope._base.frozen import FrozenDict
from irscope.errors import ParseError
from irscope.ir.payload import Opaque, TensorData
from irscope.ir.text.lexer import Cursor, quote
from irscope.ir.text.type_text import annotation, parse_type, read_type
from irscope.ir.types import BOOL, COMPLEX, DTYPES, FLOAT, DictType, ListType, OptionalType, TensorType, TupleType, Type

# A short text for constant tensors of many elements: `<Tensor CPULongType{20} eNpjYKAO…>`.
#
# After the type come the elements, row by row, each with its lowest byte first, compressed by zlib and encoded
# in URL-safe base64. That keeps every bit. It is used for tensors that irscope created itself:
# those of a frontend print as the frontend prints them, which for many elements is `<Tensor>`, so that a model with its
# weights stays a text of some pages.

MAX_PACKED: Final = 1 << 12
"""The most elements that are written, or as many as take `_MOST_BYTES`; more are not read either, whatever a text claims."""

_MOST_BYTES: Final = 1 << 15

PACKED: Final = re.compile(r"<Tensor ([A-Z]\w*?)Type\{([\d,]*)\} ([\w\-=]+)>")
"""A packed tensor: device and element type, extents, elements."""


def packed(array: np.ndarray[Any, Any]) -> str:
    """The elements encoded as letters.

    >>> len(packed(np.zeros(1000))) < 99, unpacked(packed(np.arange(3)), (3,), np.dtype("int64"))
    (True, array([0, 1, 2]))
    """
    little = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    return urlsafe_b64encode(zlib.compress(little.tobytes(), 9)).decode("ascii")


def unpacked(letters: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
    """The array that `packed` encoded; None if the letters do not encode an array of this shape and type."""
    size = prod(shape) * dtype.itemsize
    if prod(shape) > MAX_PACKED and size > _MOST_BYTES:
        return None
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(urlsafe_b64decode(letters), size + 1)
    except (Error, ValueError, zlib.error):
        return None
    if len(content) != size or not stream.eof or stream.unused_data:
        return None
    return np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


# Reads and prints constant tensors: `{0.5}` for one element, ` 1  2 [ CPUFloatType{2} ]` for few, `<Tensor>` for many, or
# packed (`packed`) if the elements are known and do not belong to a frontend.
#
# torch rounds to four digits; we print as many as the elements need. `{0.5}` states neither dtype nor shape: they
# are those of the value's type, and without such a type the constant stays a text.

MAX_SHOWN = 10
"""Tensors with more elements are not printed element by element, as in torch."""

_REAL = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|inf|nan)"
_BODY = rf"(?:\s|{_REAL}(?![\w.])|\(\d+(?:,\d+)*,\.,\.\)\s*=|\*|Columns\s+\d+\s+(?:to|and)\s+\d+|\([^()\[\]\n]*\))*+"
TENSOR_START = re.compile(rf"{_BODY}\[ ([A-Z]\w*?)Type\{{([\d,]*)\}}([^\[\]]*)\]")
"""A whole printed tensor: numbers, then `[ CPUFloatType{2,3} ]`."""

_BRACED = re.compile(rf"\{{\s*(?:({_REAL})|\(({_REAL}),({_REAL})\)|({_REAL})([+-]{_REAL})j)\s*\}}")
_SCALE = re.compile(rf"^\s*({_REAL})\s*\*")
_LABEL = re.compile(r"\([^()]*\)\s*=|Columns\s+\d+\s+(?:to|and)\s+\d+")
_DEVICES = {"CPU": "cpu", "CUDA": "cuda", "XPU": "xpu", "MPS": "mps", "HIP": "hip", "Meta": "meta"}
_DTYPE_OF = {word: dtype for dtype, word in DTYPES.items()}
_BIT_PATTERNS = {"bfloat16": np.uint16}
"""dtypes that NumPy lacks, and the integers that hold their bits."""


def read_braced(cursor: Cursor, found: re.Match[str], type: Type | None) -> TensorData | Opaque:
    """Read `{0.5}`: the only element of a tensor, whose dtype and shape come from its value's type."""
    if not isinstance(type, TensorType) or type.dtype is None or type.numel != 1 or type.shape is None:
        return Opaque("".join(found.group().split()))
    real, *pair = (found.group(1), *(group for group in found.groups()[1:] if group is not None))
    elements: list[Any] = [complex(*map(float, pair))] if pair else [_number(real)]
    shape = tuple(dim for dim in type.shape if isinstance(dim, int))
    return _tensor(cursor, elements, type.dtype, shape, type.device or "cpu") or Opaque(found.group())


def read_tensor(cursor: Cursor, found: re.Match[str]) -> TensorData | Opaque:
    """Read ` 0.1  2 [ CPUFloatType{2} ]`; for an unknown layout or dtype, only the text is kept."""
    word, sizes, rest = found.groups()
    text, layout = " ".join(found.group().split()), _layout(word, sizes)
    if layout is None or rest.strip():
        return Opaque(text)
    device, dtype, shape = layout
    body = found.group().partition("[ ")[0]
    scale = _SCALE.match(body)
    factor = float(scale.group(1)) if scale else 1
    words = _LABEL.sub(" ", body[scale.end() :] if scale else body).split()
    is_complex = dtype.startswith("complex")  # torch prints only the real parts of these
    is_split = "Columns" in body and any(size != 1 for size in shape[:-1])  # then the rows are not in order
    if is_complex or is_split or any("(" in word or "*" in word for word in words):
        return TensorData(dtype, shape, None, device)
    elements = [_number(word) * factor if scale else _number(word) for word in words]
    return _tensor(cursor, elements, dtype, shape, device) or Opaque(text)


def read_packed(cursor: Cursor, found: re.Match[str]) -> TensorData:
    """Read `<Tensor CPULongType{20} eNpj…>`."""
    word, sizes, letters = found.groups()
    layout = _layout(word, sizes)
    if layout is None:
        cursor.wrong(f"{word!r} is not a device and an element type", found.start())
    device, dtype, shape = layout
    try:
        array = unpacked(letters, shape, _own_type(dtype))
    except TypeError:
        array = None
    if array is None:
        cursor.wrong(f"these letters are not the elements of a {dtype} tensor of shape {list(shape)}", found.start())
    return TensorData(dtype, shape, array, device)


def _layout(word: str, sizes: str) -> tuple[str, str, tuple[int, ...]] | None:
    """Return device, element type and shape of a tensor by its type as torch prints it: `CPULongType`, and `2, 3`."""
    prefix = next((name for name in _DEVICES if word.startswith(name)), "")
    dtype = _DTYPE_OF.get(word.removeprefix(prefix))
    if dtype is None or not prefix or any(len(size) > 18 for size in sizes.split(",")):
        return None
    return _DEVICES[prefix], dtype, tuple(int(size) for size in sizes.split(",") if size)


def _number(text: str) -> int | float:
    """A number as torch prints it: without a point if all elements are whole, even -0.0."""
    if text == "-0":
        return -0.0
    return int(text) if text.lstrip("+-").isdigit() and len(text) < 30 else float(text)


def _tensor(cursor: Cursor, elements: list[Any], dtype: str, shape: tuple[int, ...], device: str) -> TensorData | None:
    """The tensor of these elements; None if they do not fit its dtype. Raises ParseError if there are too many or too few."""
    if prod(shape) != len(elements):
        cursor.wrong(f"a tensor of shape {list(shape)} has {prod(shape)} elements, and {len(elements)} are written")
    try:
        if dtype in _BIT_PATTERNS:
            with np.errstate(all="ignore"):
                array = _to_bfloat16(np.array(elements, np.float32).reshape(shape))
        else:  # a number that is too large becomes infinite, as in torch
            own = _own_type(dtype)
            if own.kind in "iu" and not all(np.iinfo(own).min <= each <= np.iinfo(own).max for each in elements):
                return None  # NumPy 1 would wrap it around
            with np.errstate(all="ignore"):
                array = np.array(elements, own).reshape(shape)
    except (TypeError, ValueError, OverflowError):
        return None
    return TensorData(dtype, shape, array, device)


def _own_type(dtype: str) -> np.dtype[Any]:
    """NumPy's own dtype for such elements. Raises TypeError for a type that NumPy knows only while `ml_dtypes` is loaded."""
    found = np.dtype(_BIT_PATTERNS.get(dtype, dtype))
    if found.isbuiltin != 1:
        raise TypeError(f"NumPy has no {dtype}")
    return found


def _to_bfloat16(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The upper halves of float32 numbers, rounded to even."""
    bits = array.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(array), np.uint64(0x7FC0), rounded).astype(np.uint16)


def tensor_text(tensor: TensorData, type: Type | None) -> str:
    """The tensor as a text that reads back to the same elements, or `<Tensor>` for a frontend's tensor with many elements."""
    array = tensor.array
    holding = str(np.dtype(_BIT_PATTERNS[tensor.dtype])) if tensor.dtype in _BIT_PATTERNS else tensor.dtype
    if array is None or tensor.dtype not in _DTYPE_OF.values() or str(array.dtype) != holding or array.dtype.isbuiltin != 1:
        return "<Tensor>"
    if array.size > MAX_SHOWN or _has_other_nans(tensor.dtype, array):
        return _packed_text(tensor, array)
    if tensor.dtype == "bfloat16":
        array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    words = [_element_text(element) for element in array.reshape(-1)]
    is_one = len(words) == 1 and isinstance(type, TensorType) and type.dtype == tensor.dtype and type.shape == tensor.shape
    if array.dtype.kind == "c":
        return f"{{{words[0]}}}" if is_one else _packed_text(tensor, array)
    if is_one and (type.device or "cpu") == tensor.device:  # type: ignore[union-attr]
        return f"{{{words[0]}}}"
    return f"{''.join(f' {word}' for word in words)} [ {_type_word(tensor)} ]"


def _has_other_nans(dtype: str, array: np.ndarray[Any, Any]) -> bool:
    """Whether some element is a NaN with other bits than the NaN that `nan` reads back to."""
    if dtype == "bfloat16":
        return bool(np.any(((array & 0x7FFF) > 0x7F80) & (array != 0x7FC0)))
    if array.dtype.kind != "f":
        return False
    nans = array[np.isnan(array)]
    return bool(nans.tobytes() != np.full(nans.shape, np.nan, array.dtype).tobytes())


def _packed_text(tensor: TensorData, array: np.ndarray[Any, Any]) -> str:
    is_ours = tensor.original is None and (array.size <= MAX_PACKED or array.nbytes <= _MOST_BYTES)
    return f"<Tensor {_type_word(tensor)} {packed(array)}>" if is_ours else "<Tensor>"


def _type_word(tensor: TensorData) -> str:
    """Device, element type and extents, as in `CPUFloatType{2,3}`."""
    prefix = next((prefix for prefix, device in _DEVICES.items() if device == tensor.device.partition(":")[0]), "CPU")
    return f"{prefix}{DTYPES[tensor.dtype]}Type{{{','.join(map(str, tensor.shape))}}}"


def _element_text(element: Any) -> str:
    if isinstance(element, np.complexfloating):
        return f"({_element_text(element.real)},{_element_text(element.imag)})"
    if isinstance(element, np.bool_):
        return str(int(element))
    text = str(element)
    return text[:-2] if text.endswith(".0") and text != "-0.0" else text.removesuffix("0") if text == "-0.0" else text


# Reads and prints constants inside `[value=…]`: numbers, strings, small tensors, containers.
#
# TorchScript prints some constants in forms that cannot be read back directly: large tensors (`<Tensor>`), objects, non-ASCII
# bytes. The first are kept as sizes without elements, the second as `Opaque` text, and the third are decoded. Numbers that
# we print are exact.

_FLOAT = r"(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|inf|nan)"
_NUMBER = re.compile(rf"([+-]?{_FLOAT})(?:([+-]{_FLOAT})?(j))?(?=\s*(?:[,\])}}:]|$))")
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
    if (found := cursor.match(_NUMBER)) is not None:
        if len(found.group()) > _MAX_DIGITS:
            cursor.wrong("this number has too many digits", found.start())
        first, second, imaginary = found.groups()
        if imaginary:
            return complex(float(first), float(second)) if second else complex(0.0, float(first))
        return int(first) if first.lstrip("+-").isdigit() else float(first)
    if cursor.at('"'):
        return cursor.string()
    if (found := cursor.match(TENSOR_START)) is not None:
        return read_tensor(cursor, found)
    if (found := cursor.match(PACKED)) is not None:
        return read_packed(cursor, found)
    if (found := cursor.match(_BRACED)) is not None:
        return read_braced(cursor, found, type)
    if cursor.take("{"):
        return _read_dict(cursor, type, key)
    if cursor.at("[<Tensors>]") or _OTHER_TENSOR.match(cursor.text, cursor.pos) or cursor.at("[<Graphs>]"):
        return _read_opaque(cursor)
    for opening, closing in ("[]", "()"):
        if cursor.take(opening):
            return tuple([_read(cursor, wanted, key) for _, wanted in zip(cursor.row(closing), _item_types(type), strict=False)])
    if cursor.match(_ANNOTATE):
        inner = read_type(cursor)
        cursor.expect(",")
        payload = _read(cursor, inner, key)
        cursor.expect(")")
        return payload
    return _read_word(cursor, type, key)


def _item_types(type: Type | None) -> Iterator[Type | None]:
    """The types of the items of a list or tuple, without an end: the last one repeats."""
    while isinstance(type, OptionalType):
        type = type.element
    types: tuple[Type | None, ...] = (type.element,) if isinstance(type, ListType) else type.elements if isinstance(type, TupleType) else ()
    return chain(types, repeat(types[-1] if types else None))


def _read_dict(cursor: Cursor, type: Type | None, key: str) -> FrozenDict[Any, Any]:
    key_type, value_type = (type.key, type.value) if isinstance(type, DictType) else (None, None)
    entries: list[tuple[Any, Any]] = []
    for start in cursor.row("}"):
        entry = _read(cursor, key_type, key)
        if not isinstance(entry, str | int | float | complex | bool):
            cursor.wrong("the key of a dict is a string or a number", start)
        cursor.expect(":")
        entries.append((entry, _read(cursor, value_type, key)))
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
        return tuple(map(typed, payload, _item_types(type)))
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
            while isinstance(type, OptionalType):
                type = type.element
            if not payload and isinstance(type, ListType):
                return f"annotate({annotation(type)}, [])"
            inside = ", ".join([constant_text(item, wanted, nested=True) for item, wanted in zip(payload, _item_types(type), strict=False)])
            return f"({inside})" if isinstance(type, TupleType) else f"[{inside}]"
        case Mapping():
            if not payload and isinstance(type, DictType):
                return f"annotate({annotation(type)}, {{}})"
            types = (type.key, type.value) if isinstance(type, DictType) else (None, None)
            pairs = [[constant_text(part, of, nested=True) for part, of in zip(item, types, strict=True)] for item in payload.items()]
            return f"{{{', '.join(map(': '.join, pairs))}}}"
        case None | Type():
            return str(payload)
    return f"<{payload.__class__.__name__}>"  # an object without a text form, such as a Graph


def _float_text(number: float) -> str:
    text = repr(number)
    return text[:-1] if text.endswith(".0") else text
