"""Text of strangers on its way out: every place where names, scopes, paths and constants leave irscope escapes them here.

A model's strings are anyone's. `printable` makes what cannot be seen visible, for terminals and files: control characters,
lone surrogates, marks that turn the writing direction, line ends other than a newline. The others also keep text from being
read as markup, as script, or as DOT. Each is applied once, where the output is put together; what is passed around before
that is the text itself.
"""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any, Final

__all__ = ["LONGEST", "in_dot", "in_markup", "in_script", "marked", "one_line", "printable", "shortened"]

LONGEST: Final = 20_000
"""Letters of a line that is shown; nobody reads more of a constant, and browsers give up at some millions."""

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
_HIDDEN_IN_JSON: Final = re.compile(
    r"\\[^u]|\\u00[0189][0-9a-f]|\\u007f|[<>&]|[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef"
    "\ufeff\ufffe\uffff]"
)


def printable(text: str) -> str:
    r"""Text in which everything can be seen and encoded; newlines and tabs stay.

    >>> print(printable("a\x1b[31m\udc80\u202e"))
    a\x1b[31m\udc80\u202e
    """
    return text if text.isascii() and text.isprintable() else _HIDDEN.sub(_visible, text)


def one_line(text: str) -> str:
    r"""The same for a place where a line end would begin something else.

    >>> print(one_line("a\nb"))
    a\nb
    """
    return printable(text).replace("\n", "\\n")


def marked(line: str, column: int) -> str:
    r"""A line with a caret under this column, counted from 1, where that stands once the line is printed; nothing for no line.

    >>> print(printable(marked("a\x1b[0m?", 6)))
    a\x1b[0m?
            ^
    """
    return f"{line}\n{' ' * len(printable(line[: column - 1]))}^" if line else ""


def shortened(text: str, most: int = LONGEST) -> str:
    """Text of at most so many letters, and how many more there are.

    >>> shortened("abcdefgh", 3)
    'abc… 5 more letters'
    """
    return text if len(text) <= most else f"{text[:most]}… {len(text) - most:,} more letters"


def in_markup(text: str) -> str:
    """Text for HTML and SVG, between tags and in attributes.

    >>> in_markup('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return escape(printable(text))


def in_script(value: Any) -> str:
    r"""JSON for a script element, or for a message: nothing in it ends the element or begins a comment, and all of it can be
    encoded.

    >>> print(in_script("<!--<script>\x00"))
    "\u003c!--\u003cscript\u003e\\x00"
    """
    return _HIDDEN_IN_JSON.sub(_in_json, json.dumps(value, ensure_ascii=False, separators=(",", ":")))


_LONGEST_IN_DOT: Final = 1500


def in_dot(text: str) -> str:
    r"""A string of Graphviz's language; the quote, the backslash and the line end mean something in it.

    Its reader takes no string of more than 16,384 bytes, so that a long name is cut.

    >>> print(in_dot('say "a\\b"'))
    "say \"a\\b\""
    """
    return '"' + shortened(printable(text), _LONGEST_IN_DOT).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _visible(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _in_json(found: re.Match[str]) -> str:
    text = found.group()
    if text in "<>&":
        return f"\\u{ord(text):04x}"
    if text.startswith("\\u"):
        return f"\\\\x{text[-2:]}"
    if text.startswith("\\"):
        return "\\\\x0d" if text == "\\r" else "\\\\x08" if text == "\\b" else "\\\\x0c" if text == "\\f" else text
    return f"\\{_visible(found)}"
