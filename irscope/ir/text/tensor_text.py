"""Reads and prints constant tensors: `{0.5}` for one element, ` 1  2 [ CPUFloatType{2} ]` for few, `<Tensor>` for many, or
packed (`packed_tensor`) if the elements are known and do not belong to a frontend.

torch rounds to four digits; we print as many as the elements need. `{0.5}` states neither dtype nor shape: they
are those of the value's type, and without such a type the constant stays a text.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from irscope.ir.payload import Opaque, TensorData
from irscope.ir.text.lexer import Cursor
from irscope.ir.text.packed_tensor import MAX_PACKED, PACKED, packed, unpacked
from irscope.ir.types import DTYPES, TensorType, Type

__all__ = ["MAX_SHOWN", "TENSOR_START", "is_scalar_like", "read_braced", "read_packed", "read_tensor", "tensor_text"]

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


def is_scalar_like(cursor: Cursor) -> bool:
    """Whether `{0.5}` or `{(1,2)}` comes next, rather than a dict."""
    return _BRACED.match(cursor.text, cursor.skip()) is not None


def read_braced(cursor: Cursor, type: Type | None) -> TensorData | Opaque:
    """Read `{0.5}`: the only element of a tensor, whose dtype and shape come from its value's type."""
    found = cursor.match(_BRACED)
    assert found is not None  # is_scalar_like said so
    if not isinstance(type, TensorType) or type.dtype is None or type.numel != 1 or type.shape is None:
        return Opaque("".join(found.group().split()))
    real, *pair = (found.group(1), *(group for group in found.groups()[1:] if group is not None))
    elements: list[Any] = [complex(*map(float, pair))] if pair else [_number(real)]
    shape = tuple(dim for dim in type.shape if isinstance(dim, int))
    return _tensor(cursor, elements, type.dtype, shape, type.device or "cpu") or Opaque(found.group())


def read_tensor(cursor: Cursor) -> TensorData | Opaque:
    """Read ` 0.1  2 [ CPUFloatType{2} ]`; for an unknown layout or dtype, only the text is kept."""
    start = cursor.skip()
    found = cursor.match(TENSOR_START)
    assert found is not None  # the caller matched it
    word, sizes, rest = found.groups()
    prefix = next((name for name in _DEVICES if word.startswith(name)), "")
    dtype = _DTYPE_OF.get(word.removeprefix(prefix))
    text = " ".join(found.group().split())
    if dtype is None or not prefix or rest.strip() or any(len(size) > 18 for size in sizes.split(",")):
        return Opaque(text)
    shape = tuple(int(size) for size in sizes.split(",") if size)
    body = cursor.text[start : found.end()].partition("[ ")[0]
    scale = _SCALE.match(body)
    factor = float(scale.group(1)) if scale else 1
    words = _LABEL.sub(" ", body[scale.end() :] if scale else body).split()
    is_complex = dtype.startswith("complex")  # torch prints only the real parts of these
    is_split = "Columns" in body and any(size != 1 for size in shape[:-1])  # then the rows are not in order
    if is_complex or is_split or any("(" in word or "*" in word for word in words):
        return TensorData(dtype, shape, None, _DEVICES[prefix])
    elements = [_number(word) * factor if scale else _number(word) for word in words]
    return _tensor(cursor, elements, dtype, shape, _DEVICES[prefix]) or Opaque(text)


def read_packed(cursor: Cursor) -> TensorData:
    """Read `<Tensor CPULongType{20} eNpj…>`."""
    start = cursor.skip()
    found = cursor.match(PACKED)
    assert found is not None  # the caller matched it
    word, sizes, letters = found.groups()
    prefix = next((name for name in _DEVICES if word.startswith(name)), "")
    dtype = _DTYPE_OF.get(word.removeprefix(prefix))
    if dtype is None or not prefix or any(len(size) > 18 for size in sizes.split(",")):
        cursor.wrong(f"{word!r} is not a device and an element type", start)
    shape = tuple(int(size) for size in sizes.split(",") if size)
    try:
        array = unpacked(letters, shape, _own_type(dtype))
    except TypeError:
        array = None
    if array is None:
        cursor.wrong(f"these letters are not the elements of a {dtype} tensor of shape {list(shape)}", start)
    return TensorData(dtype, shape, array, _DEVICES[prefix])


def _number(text: str) -> int | float:
    """A number as torch prints it: without a point if all elements are whole, even -0.0."""
    if text == "-0":
        return -0.0
    return int(text) if text.lstrip("+-").isdigit() and len(text) < 30 else float(text)


def _tensor(cursor: Cursor, elements: list[Any], dtype: str, shape: tuple[int, ...], device: str) -> TensorData | None:
    """The tensor of these elements; None if they do not fit its dtype. Raises ParseError if there are too many or too few."""
    count = 1
    for size in shape:
        count *= size
    if count != len(elements):
        cursor.wrong(f"a tensor of shape {list(shape)} has {count} elements, and {len(elements)} are written")
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
    if array is None or tensor.dtype not in _DTYPE_OF.values() or not _is_plain(tensor):
        return "<Tensor>"
    if array.size > MAX_SHOWN or _has_other_nans(tensor.dtype, array):
        return _packed_text(tensor, array)
    if tensor.dtype == "bfloat16":
        array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    words = [_element_text(element) for element in array.reshape(-1)]
    if array.dtype.kind == "c":
        fits = isinstance(type, TensorType) and type.dtype == tensor.dtype and type.shape == tensor.shape
        return f"{{{words[0]}}}" if fits and len(words) == 1 else _packed_text(tensor, array)
    refined = isinstance(type, TensorType) and type.dtype == tensor.dtype and type.shape == tensor.shape
    if refined and len(words) == 1 and (type.device or "cpu") == tensor.device:  # type: ignore[union-attr]
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
    is_ours = tensor.original is None and array.size <= MAX_PACKED
    return f"<Tensor {_type_word(tensor)} {packed(array)}>" if is_ours else "<Tensor>"


def _type_word(tensor: TensorData) -> str:
    """Device, element type and extents, as in `CPUFloatType{2,3}`."""
    prefix = next((prefix for prefix, device in _DEVICES.items() if device == tensor.device.partition(":")[0]), "CPU")
    return f"{prefix}{DTYPES[tensor.dtype]}Type{{{','.join(map(str, tensor.shape))}}}"


def _is_plain(tensor: TensorData) -> bool:
    """Whether the array's dtype is the one that represents the tensor's dtype, and NumPy's own."""
    expected = str(np.dtype(_BIT_PATTERNS[tensor.dtype])) if tensor.dtype in _BIT_PATTERNS else tensor.dtype
    return tensor.array is not None and str(tensor.array.dtype) == expected and tensor.array.dtype.isbuiltin == 1


def _element_text(element: Any) -> str:
    if isinstance(element, np.complexfloating):
        return f"({_element_text(element.real)},{_element_text(element.imag)})"
    if isinstance(element, np.bool_):
        return str(int(element))
    text = str(element)
    return text[:-2] if text.endswith(".0") and text != "-0.0" else text.removesuffix("0") if text == "-0.0" else text
