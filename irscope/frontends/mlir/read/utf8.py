"""Detects names that are not UTF-8 before the bindings are asked for them.

MLIR's names are bytes. Some of jaxlib's functions that return one as a string (of a location, of an entry in a
dictionary) end the process if it is not UTF-8, as in damaged bytecode. MLIR prints such bytes by number.
"""

from __future__ import annotations

import re

__all__ = ["check_utf8", "unescaped"]

_ESCAPED = re.compile(rb"\\(\\|[0-9A-F]{2})")
"""A byte that MLIR prints by number: any that is not printable ASCII."""


def check_utf8(printed: object) -> None:
    """Raises UnicodeDecodeError if MLIR's text of an object has bytes that are not UTF-8.

    >>> check_utf8(r'loc("gr\\C3\\B6\\C3\\9Fe.py":1:2)')
    """
    text = str(printed)
    if "\\" in text:
        unescaped(text)


def unescaped(text: str) -> str:
    """Decodes the bytes that MLIR prints by number. Raises UnicodeDecodeError if they are not UTF-8.

    >>> unescaped(r"gr\\C3\\B6\\C3\\9Fe \\22x\\22")
    'größe "x"'
    """
    return _ESCAPED.sub(_byte, text.encode()).decode()


def _byte(escaped: re.Match[bytes]) -> bytes:
    return b"\\" if escaped[1] == b"\\" else bytes.fromhex(escaped[1].decode())
