"""Reads constant tensors of MLIR bit-exactly: `dense<…>`.

NumPy reads the common ones through the bindings' buffers. Element types without a buffer (bfloat16, the eight- and
four-bit types, complex numbers) are read from the text, which is exact: MLIR writes a float in decimal only if that
rounds back to the same bits, and otherwise in hexadecimal, and many elements as one string of bytes.
"""

from __future__ import annotations

import re
import struct
from math import prod
from typing import Any, Final

import numpy as np

from irscope.frontends.mlir.read.types import element_name
from irscope.ir import TensorData
from irscope.ops.expr.numpy_eval import round_to

__all__ = ["MAX_ELEMENTS", "bfloat16_bits", "dense_data", "splat_data"]

MAX_ELEMENTS: Final = 1 << 28
"""The most elements of a constant that becomes an array; a larger one stays a text."""
MAX_SPLAT: Final = 1 << 16
"""The most elements of a splat that becomes an array; a larger one stays a text."""

_STORAGE: Final = {"bfloat16": "uint16"}
_SINGLE = re.compile(r"[\w.+-]+|\([\w.+-]+,\s*[\w.+-]+\)")
_DENSE = re.compile(r"dense<(.*)> : tensor<((?:\d+x)*)(.+)>", re.DOTALL)


def dense_data(attribute: Any, text: str | None = None) -> TensorData | None:
    """Returns the elements of a dense attribute; None if there is no array type for them, and the text is kept.

    `text` is the attribute's text if the bindings cannot build the attribute.
    """
    if text is None:
        made = _by_buffer(attribute)
        if made is not None:
            return made
        text = str(attribute)
    return _by_text(text)


def _by_buffer(attribute: Any) -> TensorData | None:
    shaped = attribute.type
    element = element_name(shaped.element_type)
    shape = tuple(shaped.shape)
    if element is None or element in _STORAGE or prod(shape) > (MAX_SPLAT if attribute.is_splat else MAX_ELEMENTS):
        return None
    try:
        array = np.array(attribute)
    except (TypeError, ValueError, BufferError, RuntimeError):
        return None
    if array.shape != shape or str(array.dtype) != element:
        return None
    return TensorData(element, shape, array)


def splat_data(text: str) -> TensorData | None:
    """Returns the element of a splat constant's text as a tensor of rank 0; None for any other text.

    >>> float(splat_data("dense<0xFF800000> : tensor<99999x99999xf32>").array)
    -inf
    """
    found = _DENSE.fullmatch(text)
    if found is None or not _SINGLE.fullmatch(found.group(1)):
        return None
    return _by_text(f"dense<{found.group(1)}> : tensor<{found.group(3)}>")


def _by_text(text: str) -> TensorData | None:
    found = _DENSE.fullmatch(text)
    if found is None:
        return None
    body, dims, element_text = found.groups()
    element = element_name(element_text)
    shape = tuple(map(int, dims.split("x")[:-1]))
    if element is None or prod(shape) > (MAX_SPLAT if _SINGLE.fullmatch(body) else MAX_ELEMENTS):
        return None
    try:
        storage = np.dtype(_STORAGE.get(element, element))
    except TypeError:
        return None
    if storage.isbuiltin != 1:
        return None
    elements = _elements(body, element, storage, prod(shape))
    return None if elements is None else TensorData(element, shape, elements.reshape(shape))


def _elements(body: str, element: str, storage: np.dtype[Any], count: int) -> np.ndarray[Any, Any] | None:
    """Returns the elements in row-major order; a single one is repeated."""
    packed = re.fullmatch(r'"0x([0-9A-Fa-f]*)"', body)
    if packed is not None:
        made = np.frombuffer(bytes.fromhex(packed.group(1)), storage.newbyteorder("<")).astype(storage)
    else:
        words = re.findall(r"[\w.+-]+", body)
        if element.startswith("complex"):
            part = "float32" if element == "complex64" else "float64"
            parts = np.array([_float_bits(word, part) for word in words], f"uint{np.dtype(part).itemsize * 8}")
            made = parts.view(part).view(storage)
        elif storage.kind == "f" or element == "bfloat16":
            bits = [_float_bits(word, element) for word in words]
            made = np.array(bits, f"uint{storage.itemsize * 8}").view(storage)
        else:
            made = np.array([_integer(word) for word in words], storage)
    if made.size == 1 and count != 1:
        made = np.full(count, made[0])
    return made if made.size == count else None


def bfloat16_bits(number: float) -> int:
    """Returns the bits of the nearest bfloat16, of two the even one.

    >>> hex(bfloat16_bits(1.28906)), hex(bfloat16_bits(1 / 3)), hex(bfloat16_bits(float("-inf")))
    ('0x3fa5', '0x3eab', '0xff80')
    """
    return int(round_to(np.array(number, np.float32), "bfloat16").view(np.uint32)) >> 16


def _integer(word: str) -> int:
    return {"true": 1, "false": 0}[word] if word in ("true", "false") else int(word, 0)


def _float_bits(word: str, element: str) -> int:
    """Returns the bits of one element as a number.

    >>> hex(_float_bits("0xFF80", "bfloat16")), hex(_float_bits("1.28906", "bfloat16")), hex(_float_bits("-0.0", "float32"))
    ('0xff80', '0x3fa5', '0x80000000')
    """
    if word.startswith("0x"):
        return int(word, 16)
    if element == "bfloat16":
        return bfloat16_bits(float(word))
    kind, unsigned = {"float16": ("<e", "<H"), "float32": ("<f", "<I"), "float64": ("<d", "<Q")}[element]
    return int(struct.unpack(unsigned, struct.pack(kind, float(word)))[0])
