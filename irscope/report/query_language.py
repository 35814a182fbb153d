"""The language of queries: terms combined by `&`, `|`, `!` and brackets; adjacent terms are joined by `&`.

op:conv & bytes>1e6        writes %p.1        (line:10-20 | scope:layers.0) & !is:group        relu
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from irscope.errors import ArgumentError

FIELDS = ("op", "type", "name", "line", "source", "scope", "class", "group", "rule", "remark", "kind", "is")  # The fields of `field:text`.
AMOUNTS = ("bytes", "rank", "elements", "inputs", "outputs")  # Amounts that can be compared with a number.
RELATIONS = ("writes", "reads", "alias", "makes")  # Relations to a named value: `writes %p.1`.


@dataclass(frozen=True)
class Term:
    """One term: a field with a text, an amount compared with a number, a relation to a value, or a word."""

    field: str  # Empty for a plain word.
    text: str
    relation: Literal["", ":", "<", "<=", ">", ">=", "="] = ""  # `:` for a quoted word, too.
    meant: str = dataclasses.field(default="", repr=False)
    """The query that a plain word which is found nowhere was probably meant to be; empty if it looks like a word."""


@dataclass(frozen=True)
class Combined:
    """The intersection `&` or the union `|` of queries, or the complement `!` of one."""

    sign: Literal["&", "|", "!"]
    parts: tuple[Query, ...]


Query = Term | Combined

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<sign>[&|!()])
    | (?P<field>[a-z]+)\s*(?P<compare><=|>=|=|<|>)\s*(?P<number>[-+\d._eE]+[kMG]?B?)
    | (?P<name>[a-z]+):(?:"(?P<quoted>[^"]*)"|(?P<text>(?:[^\s&|()]|\((?=[^\s]*\)))+))
    | (?P<relation>writes|reads|alias|makes)\s+%?(?P<value>[\w.$-]*\w)
    | "(?P<phrase>[^"]*)"
    | (?P<word>[^\s&|()]+)
    )""",
    re.VERBOSE,
)
_DEEPEST = 60


def parse_query(text: str) -> Query:
    """Parse a query. Raises ArgumentError, with a suggestion, if it is not valid.

    >>> parse_query("op:conv & bytes>1e6")
    Combined(sign='&', parts=(Term(field='op', text='conv', relation=':'), Term(field='bytes', text='1e6', relation='>')))
    """
    reader = _Reader(list(_TOKEN.finditer(text)), text)  # a word is anything
    query = reader.either(0)
    if reader.tokens:
        raise ArgumentError(f"{reader.tokens[0][0].strip()!r} closes nothing", hint='quote what is meant as it stands: "f32[64, 64)"')
    return query


class _Reader:
    def __init__(self, tokens: list[re.Match[str]], text: str) -> None:
        self.tokens, self.text = tokens, text

    def _sign(self) -> str:
        return (self.tokens[0]["sign"] or "") if self.tokens else ""

    def either(self, depth: int) -> Query:
        parts = [self.both(depth)]
        while self._sign() == "|":
            self.tokens.pop(0)
            parts.append(self.both(depth))
        return parts[0] if len(parts) == 1 else Combined("|", tuple(parts))

    def both(self, depth: int) -> Query:
        parts = [self.part(depth)]
        while self.tokens and self._sign() not in ("|", ")"):
            if self._sign() == "&":
                self.tokens.pop(0)
            parts.append(self.part(depth))
        return parts[0] if len(parts) == 1 else Combined("&", tuple(parts))

    def part(self, depth: int) -> Query:
        if not self.tokens or depth > _DEEPEST:
            raise ArgumentError("the query ends too early: a term should follow", hint="op:conv & bytes>1e6")
        token = self.tokens.pop(0)
        sign = token["sign"]
        if sign == "!":
            return Combined("!", (self.part(depth + 1),))
        if sign == "(":
            inside = self.either(depth + 1)
            if self._sign() != ")":
                raise ArgumentError("a bracket is not closed", hint="(op:add | op:mul) & type:f32")
            self.tokens.pop(0)
            return inside
        if sign:
            raise ArgumentError(f"{sign!r} where a term should be", hint="op:conv & bytes>1e6")
        return _term(token, self.text)


def _term(token: re.Match[str], query: str) -> Term:
    if token["field"]:
        if token["field"] not in AMOUNTS:
            raise ArgumentError(f"nodes have no number {token['field']!r}", hint=f"the numbers are {', '.join(AMOUNTS)}")
        return Term(token["field"], token["number"], token["compare"])  # type: ignore[arg-type]
    if token["name"]:
        text = token["quoted"] if token["quoted"] is not None else token["text"]
        if token["name"] in FIELDS and token["quoted"] is None and text.endswith(","):
            raise ArgumentError("a comma joins nothing", hint=f'{_joined(query)}, or in quotes: {token["name"]}:"{text}"')
        if token["name"] in FIELDS:
            return Term(token["name"], text, ":")
        if text.startswith(":"):  # aten::conv is a plain word
            return Term("", f"{token['name']}:{text}")
        if token["name"] in AMOUNTS:
            hint = f"{token['name']}={text}, or {token['name']}>{text}"
            raise ArgumentError(f"{token['name']} is a number, which is compared", hint=hint)
        raise ArgumentError(f"there is no field {token['name']!r}", hint=_field(token["name"], text))
    if token["relation"]:
        return Term(token["relation"], token["value"])
    return Term("", token["word"], meant=_meant(token["word"], query)) if token["phrase"] is None else Term("", token["phrase"], ":")


_MEANT = {
    "writes": "is:write, or writes %p", "reads": "reads %p", "alias": "alias %p", "makes": "makes %p",
    "op": "op:conv", "type": "type:f32", "name": "name:weight", "line": "line:10-20", "source": "source:model.py:12",
    "scope": "scope:layers.0", "class": "class:3", "group": "group:0, or is:group", "rule": "rule:iteration-space",
    "remark": "remark:missed", "kind": "kind:pointwise", "is": "is:write", "bytes": "bytes>1MB", "rank": "rank=4",
    "elements": "elements>1000", "inputs": "inputs>4", "outputs": "outputs=2", "kernel": "group:0, or is:group",
    "module": "scope:layers.0", "file": "source:model.py:12", "dtype": "type:f32", "shape": "type:\"f32[64, 64]\"", "size": "bytes>1MB",
}  # fmt: skip
_UNIT = re.compile(r"[kKMGT]i?B|[kMG]|B|bytes?")


_OPERATORS = {"and": "&", "&&": "&", "or": "|", "||": "|", "not": "!"}


def _meant(word: str, query: str) -> str:
    """A valid query near this one, for a word of it that is an operator, a unit or a field to most people."""
    field, sign, text = re.fullmatch(r"([a-z]*)([=<>!~]+)(.*)|.*", word).groups()  # type: ignore[union-attr]
    if word.lower() in _OPERATORS or word.endswith(","):
        return _joined(query) if query.strip() != word else ""
    if sign and field in FIELDS and text:
        return query.replace(word, f"{field}:{text}")
    if sign:
        return f"{field}>1e6" if field in AMOUNTS else _MEANT.get(field, "op:conv, or bytes>1MB")
    near = get_close_matches(word, RELATIONS, 1, 0.8)
    if near and near[0] != word and " " in query.strip():
        return query.replace(word, near[0])
    if word.endswith(":"):
        return _field(word[:-1])
    return "bytes>1MB, without a space" if _UNIT.fullmatch(word) else _MEANT.get(word, "")


def _field(name: str, text: str = "") -> str:
    """What can be asked in the place of a field that there is not, or of one without a text."""
    near = [name] if name in _MEANT else get_close_matches(name, FIELDS, 1)
    if near and text and near[0] in FIELDS:
        return f"{near[0]}:{text}"
    return _MEANT[near[0]] if near else f"the fields are {', '.join(FIELDS)}"


def _joined(query: str) -> str:
    """The query with operators in the place of words and commas.

    >>> _joined("op:conv and bytes>10"), _joined("not op:conv"), _joined("op:relu, op:tanh")
    ('op:conv & bytes>10', '!op:conv', 'op:relu | op:tanh')
    """
    found = re.findall(r'(?:"[^"]*"|[^\s"])+|"', query)
    words = [_OPERATORS.get(word.lower(), f"{word[:-1]} |" if word.endswith(",") else word) for word in found]
    return "".join(word if word == "!" else f"{word} " for word in words).strip("&| ")
