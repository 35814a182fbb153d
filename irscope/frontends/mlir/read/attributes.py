"""Converts MLIR's attributes to payloads of a node: readable, frozen, and injective (distinct attributes stay
distinct).

A 64-bit integer becomes an int, a 64-bit float a float, an array a tuple, a dictionary a mapping, a dense tensor a
tensor. Everything else is its MLIR text (`1 : i32`, `affine_map<(d0) -> (d0)>`, `@f`, `unit`). A string is kept without
quotes if it cannot be mistaken for such a text, and with them otherwise.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.frontends.mlir.read.dense import dense_data
from irscope.frontends.mlir.read.properties import Properties
from irscope.frontends.mlir.read.resources import Resources
from irscope.frontends.mlir.read.utf8 import check_utf8

__all__ = ["AttributeReader", "attribute_of", "is_plain_string"]

_PLAIN = re.compile(r"[A-Za-z_][\w./ -]*")
_WORDS = re.compile(r"(?:[su]?i|b?f|tf)\d+\w*|index|none|unit|true|false|inf|nan", re.IGNORECASE)
_MAX_DEPTH: Final = 64


class AttributeReader:
    """Reads the attributes of one context, each once."""

    def __init__(self, ir: Any, resources: Resources, properties: Properties) -> None:
        self._ir = ir
        self._resources = resources
        self._properties = properties
        self._known: dict[Any, Any] = {}
        self._maps: dict[tuple[Any, ...], FrozenDict[str, Any]] = {}

    def of(self, operation: Any, skip: frozenset[str] = frozenset()) -> Any:
        """Returns the attributes of an op by name, properties included, in MLIR's order, which is alphabetical."""
        names = self._names(operation)
        made = {name: self.read(attribute_of(operation, name)) for name in names if name not in skip}
        return FrozenDict(made) if made else EMPTY

    def has_any(self, operation: Any) -> bool:
        """Checks whether an op has attributes or properties."""
        return len(operation.attributes) > 0 or len(self._properties.names(operation)) > 0

    def _names(self, operation: Any) -> list[str]:
        attributes, others = operation.attributes, self._properties.names(operation)
        listed = [getattr(entry, "name", entry) for entry in attributes] if len(attributes) else []
        return sorted((*listed, *others)) if others else listed

    def read(self, attribute: Any) -> Any:
        """Converts one attribute; a text if the bindings could not build the attribute."""
        if isinstance(attribute, str):
            made = dense_data(None, attribute)
            return attribute if made is None else made
        try:
            return self._known[attribute]
        except KeyError:
            made = self._known[attribute] = self._read(attribute, 0)
            return made

    def _read(self, attribute: Any, depth: int) -> Any:
        ir = self._ir
        if depth > _MAX_DEPTH:
            return str(attribute)
        if isinstance(attribute, ir.BoolAttr):
            return bool(attribute.value)
        if isinstance(attribute, ir.IntegerAttr):
            return int(attribute.value) if str(attribute.type) == "i64" else str(attribute)
        if isinstance(attribute, ir.FloatAttr):
            value = float(attribute.value)
            return value if str(attribute.type) == "f64" and math.isfinite(value) else str(attribute)
        if isinstance(attribute, ir.StringAttr):
            return _string(attribute)
        if isinstance(attribute, ir.ArrayAttr):
            return tuple(self._read(item, depth + 1) for item in _items(attribute))
        if isinstance(attribute, ir.DenseI64ArrayAttr):
            return tuple(attribute)
        if isinstance(attribute, ir.DictAttr):
            check_utf8(attribute)
            return FrozenDict({
                attribute[i].name: self._read(attribute[i].attr, depth + 1) for i in range(len(attribute))
            })
        if isinstance(attribute, ir.DenseElementsAttr):
            made = dense_data(attribute)
            return str(attribute) if made is None else made
        text = str(attribute)
        made = self._resources.data(text) if text.startswith("dense_resource<") else None
        return text if made is None else made


def attribute_of(operation: Any, name: str) -> Any:
    """Returns one attribute, or None if the op does not have it; its text if the bindings cannot cast it (dense complex
    numbers)."""
    try:
        return operation.attributes.get(name)
    except (TypeError, ValueError) as error:
        found = re.search(r"Attribute\((.*)\)\)$", str(error), re.DOTALL)
        return found.group(1) if found is not None else f"<{name}>"


def _items(attribute: Any) -> list[Any]:
    try:
        return list(attribute)
    except (TypeError, ValueError):
        return []


def _string(attribute: Any) -> str:
    """Returns a string attribute, in quotes if it could be the text of another attribute.

    >>> class Quoted: value = "@f"
    >>> _string(Quoted())
    '"@f"'
    """
    text = attribute.value
    if isinstance(text, bytes):  # not UTF-8
        return str(attribute)
    return text if is_plain_string(text) else json.dumps(text)


def is_plain_string(text: str) -> bool:
    """Checks whether a kept text is an unquoted string: no other attribute has such a text.

    >>> is_plain_string("lapack_sgetrf"), is_plain_string("unit"), is_plain_string("76 : ui8")
    (True, False, False)
    """
    return bool(_PLAIN.fullmatch(text)) and not _WORDS.fullmatch(text)
