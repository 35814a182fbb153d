"""Finds the properties of ops whose dialects the bindings do not know: `"my.op"() <{axis = 1 : i64}>`.

The bindings omit them from the attributes of such an op, but return each one by its name. The names are in the module's
text, which is printed once, in generic form, when the first such op is read: there every op begins a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from irscope.errors import LoadError
from irscope.frontends.mlir.read.utf8 import unescaped

__all__ = ["Properties", "names_in"]

_OP: Final = re.compile(r'\s*(?:%[^"=]*= )?"((?:[^"\\]|\\.)*)"\([^)]*\)(?:\[[^\]]*\])?(?: <\{(.*))?')
_NAME: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([\w.$-]+))')
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|->|[][(){}<>,]')
_CLOSES: Final = {"]": "[", ")": "(", "}": "{", ">": "<"}
_ELEMENTS: Final = 4
"""The most elements of a constant that is printed."""


class Properties:
    """The properties of the ops under one root."""

    def __init__(self, ir: Any, root: Any) -> None:
        self._walk_order = ir.WalkOrder.PRE_ORDER
        self._advance = ir.WalkResult.ADVANCE
        self._root = root
        self._registered: dict[str, bool] = {}

    def names(self, operation: Any) -> tuple[str, ...]:
        """Returns the names of an op's properties that the bindings do not list among its attributes."""
        name = operation.name
        known = self._registered.get(name)
        if known is None:
            known = self._registered[name] = operation.context.is_registered_operation(name)
        return () if known else self._found.get(operation, ())

    @cached_property
    def _found(self) -> dict[Any, tuple[str, ...]]:
        """The names by op, for ops that have properties."""
        text = self._root.get_asm(
            print_generic_op_form=True, use_local_scope=True, assume_verified=True, enable_debug_info=False,
            large_elements_limit=_ELEMENTS, large_resource_limit=_ELEMENTS,
        )  # fmt: skip
        heads = [found for found in map(_OP.match, text.splitlines()) if found is not None]
        if not any(head.group(2) for head in heads):
            return {}
        operations: list[Any] = []

        def note(operation: Any) -> Any:
            operations.append(operation)
            return self._advance

        self._root.walk(note, self._walk_order)
        if len(operations) != len(heads):  # a name or an attribute that does not print in one line
            raise LoadError("the properties of ops cannot be read from the module's text", hint="write attributes without `<` `>`")
        pairs = zip(operations, heads, strict=True)
        return {op.operation: tuple(names_in(head.group(2))) for op, head in pairs if head.group(2)}


def names_in(text: str) -> Iterator[str]:
    """Yields the names of a dictionary's entries, from its text after the opening brace.

    >>> list(names_in('axis = 1 : i64, flag, "odd name" = {a = "}"}, map = affine_map<(d0) -> (d0)>}> : () -> ()'))
    ['axis', 'flag', 'odd name', 'map']
    """
    at = 0
    while (found := _NAME.match(text, at)) is not None:
        quoted, plain = found.groups()
        yield plain if plain is not None else unescaped(quoted)
        at = _behind_entry(text, found.end())
        if text[at : at + 1] != ",":
            return
        at += 1


def _behind_entry(text: str, start: int) -> int:
    """Returns the position of the comma or brace that ends an entry."""
    opened: list[str] = []
    for token in _TOKEN.finditer(text, start):
        mark = token.group()
        if mark in "[({<":
            opened.append(mark)
        elif mark in _CLOSES:
            if opened and opened[-1] == _CLOSES[mark]:
                opened.pop()
            elif not opened and mark == "}":
                return token.start()
        elif mark == "," and not opened:
            return token.start()
    return len(text)
