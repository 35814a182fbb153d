"""Reads the blobs at the end of a file, `{-# dialect_resources: … #-}`, that `dense_resource<name>` refers to.

The bindings do not expose them, so they are read from the module's text, once, when the first one is needed.
"""

from __future__ import annotations

import re
from functools import partial
from math import prod
from typing import Any

import numpy as np

from irscope.frontends.mlir.read.dense import MAX_ELEMENTS
from irscope.frontends.mlir.read.types import element_name
from irscope.ir import TensorData

__all__ = ["Resources"]

_BLOB = re.compile(r'([\w.$-]+|"(?:[^"\\]|\\.)*"):\s*"0x([0-9A-Fa-f]*)"')
_NAMED = re.compile(r"dense_resource<(.*)> : (?:tensor|vector)<((?:\d+x)*)(.+)>", re.DOTALL)
_ALIGNMENT = 4
"""The number of bytes before the data, which hold its alignment."""


class Resources:
    """The blobs of one module."""

    def __init__(self, root: Any) -> None:
        self._text = partial(str, root)
        self._found: dict[str, str] | None = None

    def data(self, text: str) -> TensorData | None:
        """Returns the data of an attribute's text; None if there is no such blob, or its size differs."""
        named = _NAMED.fullmatch(text)
        if named is None:
            return None
        name, dims, element = named.group(1), named.group(2), element_name(named.group(3))
        shape = tuple(map(int, dims.split("x")[:-1]))
        letters = self._blobs().get(name)
        if letters is None or element is None or prod(shape) > MAX_ELEMENTS:
            return None
        try:
            storage = np.dtype("uint16" if element == "bfloat16" else element)
            content = bytes.fromhex(letters)[_ALIGNMENT:]
        except (TypeError, ValueError):
            return None
        if storage.isbuiltin != 1 or len(content) != prod(shape) * storage.itemsize:
            return None
        return TensorData(element, shape, np.frombuffer(content, storage.newbyteorder("<")).astype(storage).reshape(shape))

    def _blobs(self) -> dict[str, str]:
        if self._found is None:
            _, _, section = self._text().rpartition("{-#")
            self._found = dict(_BLOB.findall(section))
        return self._found
