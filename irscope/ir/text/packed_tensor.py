"""A short text for constant tensors of many elements: `<Tensor CPULongType{20} eNpjYKAO…>`.

After the type come the elements, row by row, each with its lowest byte first, compressed by zlib and encoded
in URL-safe base64. That keeps every bit. It is used for tensors that irscope created itself:
those of a frontend print as the frontend prints them, which for many elements is `<Tensor>`, so that a model with its
weights stays a text of some pages.
"""

from __future__ import annotations

import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from math import prod
from typing import Any, Final

import numpy as np

__all__ = ["MAX_PACKED", "PACKED", "packed", "unpacked"]

MAX_PACKED: Final = 1 << 12
"""The most elements that are written; more are not read either, whatever a text claims."""

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
    if prod(shape) > MAX_PACKED:
        return None
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(urlsafe_b64decode(letters), size + 1)
    except (Error, ValueError, zlib.error):
        return None
    if len(content) != size or not stream.eof or stream.unused_data:
        return None
    return np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype).reshape(shape)
