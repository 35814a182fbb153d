"""Turns the pretty form of torch-mlir's ops into their generic form, which every MLIR parser reads, line by line.

The pretty form of a dialect is read by its own package alone, which iree-base-compiler has and jaxlib has not. That of this dialect is
regular: `%r = torch.aten.relu %x : A -> B`. A line of any other form stays as it is, and the parser says what it thinks of it.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["generic_form"]

_LINE: Final = re.compile(r"(\s*(?:%[\w$.:-]+(?:\s*,\s*%[\w$.:-]+)*\s*=\s*)?)(torch\.[\w.]+)\s*(.*?)\s*$")
_OP: Final = re.compile(r"(%[\w$.#-]+(?:\s*,\s*%[\w$.#-]+)*)?\s*(\{.*\})?\s*:\s*(.*?)\s*(?:->|\bto\b)\s*(.*)")
_LOCATION: Final = re.compile(r'\s+loc\((?:[^"]|"[^"]*")*\)\s*$')
_LITERAL: Final = re.compile(r"\((.*)\)\s*:\s*(\S+)")
_CONSTANTS: Final = {"int": " : i64", "float": " : f64", "bool": "", "str": "", "device": ""}


def generic_form(text: str) -> str:
    """Returns the text with every op of torch-mlir in generic form.

    >>> generic_form("%1 = torch.aten.eq.Scalar %0, %n : !torch.vtensor<[4],f32>, !torch.int -> !torch.vtensor<[4],i1>")
    '%1 = "torch.aten.eq.Scalar"(%0, %n) : (!torch.vtensor<[4],f32>, !torch.int) -> !torch.vtensor<[4],i1>'
    >>> generic_form("  %int1 = torch.constant.int 1")
    '  %int1 = "torch.constant.int"() {value = 1 : i64} : () -> !torch.int'
    """
    return "\n".join(map(_line, text.split("\n")))


def _line(line: str) -> str:
    at = _LOCATION.search(line)
    if at is not None and _LINE.match(line):
        return _line(line[: at.start()]) + at[0]
    found = _LINE.fullmatch(line)
    if found is None:
        return line
    results, name, rest = found.groups()
    kind = name.removeprefix("torch.constant.")
    if kind == "none":
        return f'{results}"{name}"() : () -> !torch.none'
    if kind in _CONSTANTS:
        return f'{results}"{name}"() {{value = {rest}{_CONSTANTS[kind]}}} : () -> !torch.{"Device" if kind == "device" else kind}'
    if name.endswith("tensor.literal"):
        literal = _LITERAL.fullmatch(rest)
        return line if literal is None else f'{results}"{name}"() {{value = {literal[1]}}} : () -> {literal[2]}'
    op = _OP.fullmatch(rest)
    if op is None:
        return line
    operands, attributes, given, made = op.groups()
    given = given if given.startswith("(") else f"({given})"
    return f'{results}"{name}"({operands or ""}){f" {attributes}" if attributes else ""} : {given} -> {_results(made)}'


def _results(types: str) -> str:
    """Returns result types, in parentheses if there are several: a comma inside of `<…>` separates nothing."""
    depth = 0
    for letter in types:
        depth += (letter in "<[(") - (letter in ">])")
        if letter == "," and not depth:
            return f"({types})"
    return types
