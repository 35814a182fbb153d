"""Parses the text of a pipeline: names of passes separated by commas, each with its options in braces, separated by
commas or spaces.

functionalize, cse, fuse{policy=min-bytes min_size=3}, dce
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from irscope.errors import ArgumentError
from irscope.transforms.pipeline.registry import PASSES, Pass

__all__ = ["parse_pipeline"]

_TOKEN: Final = re.compile(r"\s*([A-Za-z_][\w-]*|[-+]?[\d.][\w.+-]*|\S)\s*")
_WORDS: Final = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}


def parse_pipeline(text: str) -> list[tuple[Pass, dict[str, Any]]]:
    """Returns the passes of a text with their options; raises ArgumentError with a caret under the mistake.

    >>> [(known.name, options) for known, options in parse_pipeline("cse, fuse{min_size=3}")]
    [('cse', {}), ('fuse', {'min_size': 3})]
    """
    reader = _Reader(text)
    if not text.strip():
        return []
    found = [_stage(reader)]
    while reader.accept(","):
        found.append(_stage(reader))
    reader.finish("a comma between passes")
    return found


def _stage(reader: _Reader) -> tuple[Pass, dict[str, Any]]:
    name = reader.word("the name of a pass")
    known = PASSES.get(name)
    if known is None:
        raise reader.error(f"there is no pass {name!r}", _near(name, PASSES))
    options: dict[str, Any] = {}
    if reader.accept("{"):
        kinds = known.options
        while not reader.accept("}"):
            if options:
                reader.accept(",")  # or a space, as MLIR writes it
            key, value = _option(reader, known.name, kinds)
            options[key] = value
    return known, options


def _option(reader: _Reader, name: str, kinds: Mapping[str, type]) -> tuple[str, Any]:
    key = reader.word("the name of an option, or }")
    wanted = kinds.get(key)
    if wanted is None:
        what = f"pass {name!r} has no option {key!r}"
        raise reader.error(what, _near(key, kinds) if kinds else "it has no options")
    reader.expect("=", f"= and a value for {key!r}")
    text = reader.any(f"a value for {key!r}")
    try:
        return key, _WORDS[text.lower()] if wanted is bool else wanted(text)
    except (KeyError, ValueError):
        words = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
        raise reader.error(f"{key!r} is {words[wanted]}, not {text!r}", f"{name}{{{key}=…}}") from None


def _near(name: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(name, known, n=2)
    question = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{question}there are: {', '.join(known)}"


class _Reader:
    """The text of a pipeline, token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens: Iterator[re.Match[str]] = _TOKEN.finditer(text)
        self._last = 0
        self._next = next(self._tokens, None)

    def any(self, wanted: str) -> str:
        """The next token, whatever it is."""
        if self._next is None:
            self._last = len(self.text.rstrip())
            raise self.error(f"the text ends where {wanted} is expected", "")
        token, self._last = self._next[1], self._next.start(1)
        self._next = next(self._tokens, None)
        return token

    def word(self, wanted: str) -> str:
        """The next token, which must be a name."""
        token = self.any(wanted)
        if not re.fullmatch(r"[A-Za-z_][\w-]*", token):
            raise self.error(f"expected {wanted}, found {token!r}", "")
        return token

    def accept(self, mark: str) -> bool:
        """Take the next token if it is this one, and return whether it was."""
        if self._next is None or self._next[1] != mark:
            return False
        self.any(mark)
        return True

    def expect(self, mark: str, wanted: str) -> None:
        """Take the next token, which must be this one."""
        token = self.any(wanted)
        if token != mark:
            raise self.error(f"expected {wanted}, found {token!r}", "")

    def finish(self, wanted: str) -> None:
        """Raise ArgumentError if a token is left."""
        if self._next is not None:
            self.expect("", wanted)

    def error(self, what: str, hint: str) -> ArgumentError:
        """Return the error, with a caret under the token taken last."""
        hint = hint or "a pipeline is written like functionalize,cse,fuse{min_size=3},dce"
        return ArgumentError(what, where=f"{self.text}\n{' ' * self._last}^", hint=hint)
