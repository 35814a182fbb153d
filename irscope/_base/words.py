"""Words: numbers with their nouns and units, warnings at the caller's line, and untrusted text escaped wherever it leaves irscope."""

import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from html import escape
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = []


# Numbers with their nouns and units, and warnings that point at the caller's line.

T = TypeVar("T")


def plural(count: int, noun: str, many: str = "") -> str:
    """A number and its noun, in the plural (with an s, or as `many`) unless the number is one.

    >>> plural(1, "node"), plural(1200, "node"), plural(0, "class", "classes")
    ('1 node', '1,200 nodes', '0 classes')
    """
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def each(count: int, noun: str, many: str = "") -> str:
    """A number of things as the subject of a singular sentence.

    >>> [f"{each(count, 'group')} is a piece" for count in (0, 1, 2)]
    ['no group is a piece', 'the one group is a piece', 'each of the 2 groups is a piece']
    """
    if count < 2:
        return f"{'the one' if count else 'no'} {noun}"
    return f"each of the {plural(count, noun, many)}"


def listed(things: Sequence[T], name: Callable[[T], str] = str, most: int = 8) -> str:
    """The names of the first things, and the number of the rest, so that a sentence stays short.

    >>> listed("abc"), listed(range(2000), hex, 2)
    ('a, b, c', '0x0, 0x1 and 1,998 more')
    """
    more = f" and {len(things) - most:,} more" if len(things) > most else ""
    return ", ".join(map(name, things[:most])) + more


def byte_count(count: float) -> str:
    """An amount of memory with a decimal prefix, in three digits.

    >>> byte_count(800), byte_count(-1_500_000), byte_count(2.5e15)
    ('800 B', '-1.5 MB', '2,500 TB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count * 1000:,.0f} TB"


_ANY: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def by_position(signature: Signature, call: str = "irs.load") -> str:
    """How to give a function example arguments that it takes by name alone; empty if it needs none.

    >>> by_position(Signature([Parameter("x", Parameter.POSITIONAL_ONLY), Parameter("k", Parameter.KEYWORD_ONLY)]))
    'k is taken by name, and example arguments go by position: irs.load(lambda x, k: f(x, k=k), x, k)'
    """
    needed = [each for each in signature.parameters.values() if each.default is each.empty and each.kind not in _ANY]
    named = [each.name for each in needed if each.kind is each.KEYWORD_ONLY]
    names = ", ".join(each.name for each in needed)
    given = ", ".join(f"{each.name}={each.name}" if each.name in named else each.name for each in needed)
    verb = "is" if len(named) == 1 else "are"
    how = f"{listed(named)} {verb} taken by name, and example arguments go by position"
    return f"{how}: {call}(lambda {names}: f({given}), {names})" if named else ""


def time_words(ns: float) -> str:
    """Formats nanoseconds with a readable unit.

    >>> time_words(1234.0), time_words(-12_345_678.0), time_words(1.5e12)
    ('1.23 µs', '-12.3 ms', '1,500 s')
    """
    if abs(ns) < 999.5e3:
        return f"{ns / 1e3:.3g} µs"
    if abs(ns) < 999.5e6:
        return f"{ns / 1e6:.3g} ms"
    return f"{ns / 1e9:.3g} s" if abs(ns) < 999.5e9 else f"{ns / 1e9:,.0f} s"


_OURS = f"{Path(__file__).parents[1]}{os.sep}"


def warn_caller(message: str) -> None:
    """Emit a UserWarning at the innermost line outside this package.

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warn_caller("look out")
    >>> str(told[0].message)
    'look out'
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


# Escapes untrusted text on output: names, scopes, paths and constants are escaped here wherever they leave irscope.
#
# A model's strings may come from anyone. `printable` makes invisible characters visible, for terminals and files: control
# characters, lone surrogates, marks that change the writing direction, line ends other than a newline. The other functions also
# prevent text from being read as markup, as script, or as DOT. Each is applied once, when the output is assembled; before
# that the raw text is passed around.

LONGEST: Final = 20_000
"""The most letters shown of a line; a longer constant is not readable, and browsers fail at some millions."""

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
_HIDDEN_IN_JSON: Final = re.compile(
    r"\\[^u]|\\u00[0189][0-9a-f]|\\u007f|[<>&]|[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef"
    "\ufeff\ufffe\uffff]"
)


def printable(text: str) -> str:
    r"""The text with every character visible and encodable; newlines and tabs stay.

    >>> print(printable("a\x1b[31m\udc80\u202e"))
    a\x1b[31m\udc80\u202e
    """
    return text if text.isascii() and text.isprintable() else _HIDDEN.sub(_visible, text)


def one_line(text: str) -> str:
    r"""The same for output in which a newline would start something else.

    >>> print(one_line("a\nb"))
    a\nb
    """
    return printable(text).replace("\n", "\\n")


def marked(line: str, column: int) -> str:
    r"""A line with a caret under a column, counted from 1, as it is after `printable`; an empty text for an empty line.

    >>> print(printable(marked("a\x1b[0m?", 6)))
    a\x1b[0m?
            ^
    """
    return f"{line}\n{' ' * len(printable(line[: column - 1]))}^" if line else ""


def shortened(text: str, most: int = LONGEST) -> str:
    """The text cut to at most `most` letters, with the number of letters left out.

    >>> shortened("abcdefgh", 3)
    'abc… 5 more letters'
    """
    return text if len(text) <= most else f"{text[:most]}… {len(text) - most:,} more letters"


def in_markup(text: str) -> str:
    """The text for HTML and SVG, between tags and in attributes.

    >>> in_markup('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return escape(printable(text))


def in_script(value: Any) -> str:
    r"""JSON for a script element, or for a message: nothing in it ends the element or begins a comment, and all of it is
    encodable.

    >>> print(in_script("<!--<script>\x00"))
    "\u003c!--\u003cscript\u003e\\x00"
    """
    return _HIDDEN_IN_JSON.sub(_in_json, json.dumps(value, ensure_ascii=False, separators=(",", ":")))


_LONGEST_IN_DOT: Final = 1500


def in_dot(text: str) -> str:
    r"""The text as a string of Graphviz's language, in which quote, backslash and newline have a meaning.

    Graphviz reads no string of more than 16,384 bytes, so a long name is cut.

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
