"""Strings in and out, and torch's own spelling of bytes beyond ASCII."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from irscope.errors import ParseError
from irscope.ir.text.lexer import Cursor, quote, unquote


@given(st.text())
@example('\\"\n\x00\x7f\ud800é')
@settings(max_examples=300, deadline=None)
def test_quoting_is_undone_by_unquoting(text):
    literal = quote(text)
    assert "\n" not in literal
    assert Cursor(literal).string() == text or any("\ud800" <= char <= "\udfff" for char in text)


@given(st.binary(max_size=20).map(lambda data: data.decode("utf-8", "replace")))
@settings(max_examples=100, deadline=None)
def test_bytes_as_torch_prints_them(text):
    """A negative char: each octal digit is a remainder of a negative number, counted down from `0`."""
    escaped = ""
    for byte in text.encode():
        number = byte - 256 if byte > 127 else byte
        digits = [int(number / 64), int((number - 64 * int(number / 64)) / 8), number - 8 * int(number / 8)]
        escaped += "\\" + "".join(chr(ord("0") + digit) for digit in digits)
    assert unquote(f'"{escaped}"') == text


def test_comments_and_spaces_mean_nothing():
    cursor = Cursor(" # a\n\t# b\n x")
    assert cursor.take("x")
    assert cursor.skip() == len(cursor.text)


@pytest.mark.parametrize(
    ("text", "word"), [("a, b", "a"), ("f(x, [1]), y", "f(x, [1])"), ('"a,]" ]', '"a,]"'), ("<x y>]", "<x y>")]
)
def test_balanced_text_ends_where_its_brackets_do(text, word):
    assert Cursor(text).balanced() == word


def test_balanced_text_that_never_ends():
    with pytest.raises(ParseError, match="expected a closing bracket"):
        Cursor("f(").balanced()
