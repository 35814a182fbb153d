"""Parses a schema from text: `aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)`.

The grammar is that of TorchScript's schema parser; all several thousand strings of its registry are parsed without
loss:

    schema   = name ["." overload] "(" arguments ")" "->" results
    argument = "*" | "..." | type [name] ["=" default]
    type     = base { "?" | "[" [length] "]" | annotation }
    base     = word | word "(" types ")" | "(" types ")"
    annotation = "(" set ["!"] ["->" set] ")"        set = "*" | letter { "|" letter }

An annotation belongs to the type on its left: in `Tensor(a!)[](b)` the list is of set b and its tensors, which are
written, of set a. Types are those that TorchScript computes with: `SymInt`, `ScalarType`, `MemoryFormat` and `Layout`
are `int`, `Dimname` is `str`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, Final

from irscope.errors import ParseError
from irscope.ir import (
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    REQUIRED,
    STR,
    TENSOR,
    AliasAnnotation,
    Argument,
    AwaitType,
    ClassType,
    DictType,
    FutureType,
    ListType,
    OpSchema,
    OptionalType,
    PrimitiveType,
    RRefType,
    TupleType,
    Type,
    UnionType,
)

_WORDS: Final[dict[str, Type]] = {
    "Tensor": TENSOR,
    "int": INT,
    "SymInt": INT,
    "ScalarType": INT,
    "MemoryFormat": INT,
    "Layout": INT,
    "float": FLOAT,
    "SymFloat": FLOAT,
    "bool": BOOL,
    "SymBool": BOOL,
    "str": STR,
    "Dimname": STR,
    "Scalar": NUMBER,
    "number": NUMBER,
}
"""The names that do not denote a primitive type of the same name."""

_NAMED_DEFAULTS: Final = {
    "None": None,
    "True": True,
    "False": False,
    "Mean": 1,
    "Sum": 2,
    "strided": 0,
    "contiguous_format": 0,
    "preserve_format": 1,
    "long": 4,
    "nan": float("nan"),
    "inf": float("inf"),
}

_WRAPPERS: Final = {"Future": FutureType, "Await": AwaitType, "RRef": RRefType}

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>-inf\b|-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?j?)
    | (?P<word>[A-Za-z_][\w.]*(?:::[\w.]+)?)
    | (?P<mark>->|\.\.\.|[()\[\]{}?!|*=,])
    )""",
    re.VERBOSE,
)


def parse_schema(text: str) -> OpSchema:
    """Return the schema that a text declares.

    >>> schema = parse_schema("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)")
    >>> schema.full_name, [a.name for a in schema.arguments], schema.arguments[2].default
    ('aten::add_.Tensor', ['self', 'other', 'alpha'], 1)
    >>> str(schema.arguments[0].alias), schema.is_mutable
    ('(a!)', True)

    Raises ParseError with the column at which the text stops being a schema.
    """
    return _Reader(text).schema()


def parse_schemas(text: str) -> Iterator[OpSchema]:
    """Yield the schemas of a text, one per line; empty lines and lines that start with `#` are skipped."""
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield parse_schema(line)


class _Reader:
    """A recursive-descent parser of one schema, with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.start = self.end = 0
        self.kind = self.token = ""
        self.advance()

    def advance(self) -> str:
        """Consume the next token and return it."""
        consumed = self.token if self.end else ""
        self.start = self.end
        found = _TOKEN.match(self.text, self.end)
        if found is None:
            rest = self.text[self.end :].strip()
            if rest:
                raise self.error(f"{rest[0]!r} has no meaning in a schema")
            self.kind, self.token = "end", ""
            self.end = len(self.text)
        else:
            self.kind = found.lastgroup or ""
            self.token = found.group(self.kind)
            self.start, self.end = found.start(self.kind), found.end()
        return consumed

    def error(self, what: str) -> ParseError:
        return ParseError(what, line=1, column=self.start + 1, source_line=self.text)

    def take(self, token: str) -> bool:
        """Consume the next token if it is this one, and return whether it was."""
        if self.token != token or self.kind == "string":
            return False
        self.advance()
        return True

    def need(self, token: str) -> None:
        if not self.take(token):
            raise self.error(f"expected {token!r}, found {self.token or 'the end'!r}")

    def schema(self) -> OpSchema:
        if self.kind != "word":
            raise self.error("expected the op's name, such as 'aten::add.Tensor'")
        space, _, rest = self.advance().rpartition("::")
        name, _, overload = rest.partition(".")
        full = f"{space}::{name}" if space else name
        arguments, is_vararg = self.arguments()
        self.need("->")
        returns, is_varret = self.returns()
        if self.kind != "end":
            raise self.error("expected the end of the schema")
        return OpSchema(full, overload, arguments, returns, is_vararg, is_varret)

    def arguments(self) -> tuple[tuple[Argument, ...], bool]:
        self.need("(")
        found: list[Argument] = []
        keyword_only = is_vararg = False
        while not self.take(")"):
            if found or keyword_only or is_vararg:
                self.need(",")
            if self.take("*"):
                keyword_only = True
            elif self.take("..."):
                is_vararg = True
            else:
                found.append(self.argument(keyword_only, needs_name=True))
        return tuple(found), is_vararg

    def returns(self) -> tuple[tuple[Argument, ...], bool]:
        if self.take("..."):
            return (), True
        if self.token != "(":
            return (self.argument(False, needs_name=False),), False
        if not self.results_are_listed():
            return (self.argument(False, needs_name=False),), False
        self.need("(")
        found: list[Argument] = []
        is_varret = False
        while not self.take(")"):
            if found:
                self.need(",")
            if self.take("..."):
                is_varret = True
            else:
                found.append(self.argument(False, needs_name=False))
        return tuple(found), is_varret

    def results_are_listed(self) -> bool:
        """Whether the next parenthesis closes at the end of the text: `(int, t)[]` is one result, `(int, t)` are
        two."""
        depth = 0
        for index in range(self.start, len(self.text)):
            depth += {"(": 1, ")": -1}.get(self.text[index], 0)
            if depth == 0:
                return not self.text[index + 1 :].strip()
        raise self.error("the parenthesis is never closed")

    def argument(self, keyword_only: bool, *, needs_name: bool) -> Argument:
        word = self.token
        type, alias, length = self.type()
        name = ""
        if self.kind == "word":
            name = self.advance()
        elif needs_name:
            raise self.error(f"expected the argument's name, found {self.token or 'the end'!r}")
        default: Any = REQUIRED
        if self.take("="):
            default = self.default()
            if length is not None and default is not None and not isinstance(default, tuple):
                default = (default,) * length
        return Argument(name, type, alias, default, keyword_only, length, word)

    def type(self) -> tuple[Type, AliasAnnotation | None, int | None]:
        """Parse a type; return it with the annotation of the whole and, for a list, its fixed length."""
        type = self.base_type()
        alias = length = None
        while True:
            if self.take("?"):
                type = OptionalType(type)
            elif self.take("["):
                length = int(self.advance()) if self.kind == "number" else None
                self.need("]")
                type = ListType(type)
                alias = AliasAnnotation(element=alias) if alias is not None else None
            elif self.token == "(":
                alias = self.annotation(alias.element if alias is not None else None)
            else:
                return type, alias, length

    def base_type(self) -> Type:
        if self.token == "(":
            return TupleType(self.types("(", ")"))
        if self.kind != "word":
            raise self.error(f"expected a type, found {self.token or 'the end'!r}")
        word = self.advance()
        if word == "Dict":
            key, value = self.types("(", ")")
            return DictType(key, value)
        if word in _WRAPPERS:
            (inner,) = self.types("(", ")")
            return _WRAPPERS[word](inner)
        if word == "Union":
            return UnionType(self.types("[", "]"))
        if word.startswith("__torch__"):
            return ClassType(word)
        return _WORDS.get(word) or PrimitiveType(word)

    def types(self, opening: str, closing: str) -> tuple[Type, ...]:
        self.need(opening)
        found: list[Type] = []
        while not self.take(closing):
            if found:
                self.need(",")
            found.append(self.type()[0])
        return tuple(found)

    def annotation(self, element: AliasAnnotation | None) -> AliasAnnotation:
        self.need("(")
        before = self.alias_set()
        is_write = self.take("!")
        after = self.alias_set() if self.take("->") else before
        self.need(")")
        return AliasAnnotation(before, after, is_write, element)

    def alias_set(self) -> frozenset[str]:
        found: set[str] = set()
        while not found or self.take("|"):
            if self.kind != "word" and self.token != "*":
                raise self.error("expected an alias set, such as 'a' or '*'")
            found.add(self.advance())
        return frozenset(found)

    def default(self) -> Any:
        if self.take("["):
            found: list[Any] = []
            while not self.take("]"):
                if found:
                    self.need(",")
                found.append(self.default())
            return tuple(found)
        if self.kind == "string":
            return _unquote(self.advance())
        if self.kind == "number":
            return _number(self.advance())
        if self.kind == "word" and self.token in _NAMED_DEFAULTS:
            return _NAMED_DEFAULTS[self.advance()]
        raise self.error(f"expected a default value, found {self.token or 'the end'!r}")


def _number(text: str) -> int | float | complex:
    if text.endswith("j"):
        return complex(text)
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _unquote(text: str) -> str:
    value = ast.literal_eval(text.replace("\n", "\\n"))
    assert isinstance(value, str)
    return value
