"""A cursor that advances through a text by patterns, and raises ParseError with a caret for anything unexpected."""

import re
from collections.abc import Iterator
from typing import NoReturn

from irscope._base.words import marked
from irscope.errors import ParseError

NAME = r"[\w./]+(?:::[\w./]+)*"
"""The name of a value: torch's dotted names, and the freer ones of ONNX (`onnx::Conv_12`, `/conv/Conv_output_0`)."""

KEY = re.compile(r"[\w.]+")
"""The name of an attribute; any other is written in quotes."""

_SPACE = re.compile(r"(?:\s+|#[^\n]*)*")
_WORD = re.compile(r"\w+|[^\w\s]|$")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(r'"(?:[^"\\\n]|\\.)*"|[()\[\]{},\n]')
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|[./0-3][)-7][)-7]|[0-7]{1,3}|.)", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_QUOTED = {char: f"\\{letter}" for letter, char in _PLAIN.items()} | {"\\": "\\\\", '"': '\\"'}
_UNSAFE = re.compile(r'[\\"]|[^ -~]')


class Cursor:
    """Reads a text from left to right; ignores spaces, newlines and `# comments` between words."""

    __slots__ = ("depth", "file", "pos", "text")

    MAX_DEPTH = 100
    """The maximal nesting depth of types and constants; blocks may nest without a limit."""

    def __init__(self, text: str, pos: int = 0, *, file: str = "") -> None:
        self.text = text
        self.pos = pos
        self.file = file
        self.depth = 0

    def skip(self) -> int:
        """Skips spaces and comments; returns the new position."""
        found = _SPACE.match(self.text, self.pos)
        assert found is not None  # the pattern matches the empty text
        self.pos = found.end()
        return self.pos

    def at(self, literal: str) -> bool:
        """Whether `literal` comes next."""
        return self.text.startswith(literal, self.skip())

    def take(self, literal: str) -> bool:
        """Consumes `literal` if it comes next; returns whether it did."""
        if not self.text.startswith(literal, self.skip()):
            return False
        self.pos += len(literal)
        return True

    def expect(self, literal: str, *alternatives: str) -> None:
        """Consumes `literal`, or raises ParseError that names it and the alternatives."""
        if not self.take(literal):
            self.fail(" or ".join(f"{word!r}" for word in (literal, *alternatives)))

    def row(self, end: str) -> Iterator[int]:
        """Yields the place of each part between commas, which the caller consumes, and consumes the `end` after them."""
        while not self.at(end):
            yield self.pos
            if not self.take(","):
                break
        self.expect(end, ",")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Consumes and returns the pattern's match here, if there is one."""
        found = pattern.match(self.text, self.skip())
        if found is not None:
            self.pos = found.end()
        return found

    def demand(self, pattern: re.Pattern[str], what: str) -> str:
        """The text that the pattern matches here; raises ParseError that expected `what` otherwise."""
        found = self.match(pattern)
        if found is None:
            self.fail(what)
        return found.group()

    def string(self) -> str:
        """The string literal that starts here."""
        found = self.match(_STRING)
        if found is None:
            self.fail("the closing quote of this string", found="none" if self.at('"') else None)
        return unquote(found.group())

    def balanced(self) -> str:
        """Any text up to the comma, `)`, `]` or `}` that ends it, including balanced brackets and strings."""
        start = self.skip()
        opened = 0
        for found in _BRACKET.finditer(self.text, start):
            mark = found.group()
            if mark in "([{":
                opened += 1
            elif mark in ")]}":
                opened -= 1
            if opened < 0 or (mark == "," and opened == 0) or mark == "\n":
                self.pos = found.start()
                return self.text[start : self.pos].rstrip()
        self.pos = len(self.text)
        return self.fail("a closing bracket")

    def enter(self) -> None:
        """Enters one more level of a type or constant; raises ParseError if that is too deep."""
        self.depth += 1
        if self.depth > self.MAX_DEPTH:
            self.wrong(f"types and constants nest at most {self.MAX_DEPTH} deep")

    def fail(self, expected: str, *, found: str | None = None) -> NoReturn:
        """Raises ParseError at this place: what was expected, and the word found there."""
        if found is None:
            word = _WORD.match(self.text, self.skip())
            shown = word.group() if word is not None else ""
            found = repr(shown if len(shown) <= 40 else shown[:40] + "…") if shown else "the end of the text"
        self.wrong(f"expected {expected}, found {found}")

    def wrong(self, what: str, pos: int | None = None, *, hint: str = "") -> NoReturn:
        """Raises ParseError with the message `what`, at `pos` or here."""
        place = self.pos if pos is None else pos
        start = self.text.rfind("\n", 0, place) + 1
        end = self.text.find("\n", place)
        source_line = self.text[start : end if end >= 0 else len(self.text)]
        line, column = self.text.count("\n", 0, start) + 1, place - start + 1
        shift = max(0, column - 80) if len(source_line) > 160 else 0  # of a long line, the part around the place is shown
        error = ParseError(what, line=line, column=column, hint=hint, file=self.file)
        error.where = marked(source_line.replace("\t", " ")[shift : shift + 160], column - shift)
        raise error


def quote(text: str) -> str:
    r"""A string as TorchScript prints it, but with printable non-ASCII characters as they are.

    >>> print(quote('a\n"b" \x01 é'))
    "a\n\"b\" \001 é"
    """
    return f'"{_UNSAFE.sub(_quoted, text)}"'


def _quoted(found: re.Match[str]) -> str:
    char = found.group()
    if char in _QUOTED:
        return _QUOTED[char]
    if char.isprintable():
        return char
    code = ord(char)
    escaped = "surrogateescape" if 0xDC80 <= code <= 0xDCFF else "surrogatepass"
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", escaped))


def unquote(literal: str) -> str:
    r"""The text of a quoted string, including torch's own escapes of non-ASCII bytes.

    Torch prints such a byte as a negative number in octal, each digit counted down from `0`: `é` is `\0)+\/.)`.

    >>> unquote(r'"a\n\303\251"'), unquote(r'"\0)+\/.)"')
    ('a\né', 'é')
    """
    inside = literal[1:-1]
    if "\\" not in inside:
        return inside
    escaped = _ESCAPE.sub(_unquoted, inside)
    if escaped.isascii():
        return escaped
    try:
        return escaped.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # the text itself contains a lone surrogate
        return escaped


def _unquoted(found: re.Match[str]) -> str:
    escape = found.group(1)
    if escape[0] == "x" and len(escape) == 3:
        code = int(escape[1:], 16)
    elif len(escape) == 3:
        digits = [ord(char) - ord("0") for char in escape]
        code = (64 * digits[0] + 8 * digits[1] + digits[2]) % 256
    elif escape[0] in "01234567":
        code = int(escape, 8)
    else:
        return _PLAIN.get(escape, escape)
    return chr(code) if code < 128 else chr(0xDC00 + code)
