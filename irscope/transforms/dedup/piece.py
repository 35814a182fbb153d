"""Pieces, the units of comparison: a part of a program, the bodies that belong to it, and the meanings of its names.

A piece is a fusion group, a graph, a region of a graph, or a module inside another: an executable. An executable has
*roots*, the names under which it is called from outside, in the order in which it declares them; everything else in it
is private, and matters only if something refers to it. Two executables are the same if their first roots correspond,
their second ones, and so on. So two whose exports are exchanged are not the same, whatever they contain: a caller that
asks for the first export would get another computation.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, wraps
from itertools import count
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast
from weakref import ref

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.ir import (
    ANY,
    BOOL,
    GENERATOR,
    Block,
    Graph,
    Node,
    PrimitiveType,
    TensorType,
    Type,
    constant_value,
    make_block,
)  # fmt: skip
from irscope.ir.module import reference_to, symbol_name
from irscope.ir.structural import inner_blocks
from irscope.ops.functional import functional_source
from irscope.ops.registry import effect_of, schema_of
from irscope.ops.schema import draws_random_numbers

__all__ = [
    "NO_BLOCK", "Body", "Piece", "apart_from_symbols", "all_nodes", "attrs_of", "kept_in", "known_arguments", "renamed_symbols",
    "symbols_in",
]  # fmt: skip

P = ParamSpec("P")
T = TypeVar("T")
B = TypeVar("B", "Body", "Piece")

NO_BLOCK: Final[Block] = make_block(0, (), (), ())
"""The block of a symbol that is declared without a body."""
_SYMBOL = re.compile(r'@("(?:[^"\\]|\\.)*"|[\w$.-]+)')


@dataclass(frozen=True, eq=False)
class Body:
    """One block of a piece, with its attributes."""

    block: Block
    graph: Graph
    """The graph that contains it, for the names."""
    attrs: Mapping[str, Any] = EMPTY
    """Attributes of the group node, promises of the caller, or the attributes of a symbol's declaration."""

    @cached_property
    def is_free(self) -> bool:
        """Whether values are determined by their terms, so that the order of nodes does not matter."""
        values = [*self.block.params, *(value for node in self.block.nodes for value in node.outputs)]
        if not all(_is_plain(value.type) for value in values):
            return False
        return all(self._is_pure(node) for node in self.block.nodes)

    def _is_pure(self, node: Node) -> bool:
        if node.op == "prim::Constant":
            return isinstance(constant_value(node), int | float | complex | str | None)
        if inner_blocks(node) or (schema_of(node) is None and not functional_source(node.op)):
            return False
        known = known_arguments(node, self.constants)
        return effect_of(node, known) == "pure" and not draws_random_numbers(node.op, known)

    @cached_property
    def constants(self) -> Mapping[Any, Any]:
        """The payload of each constant directly in the block."""
        return {node.output: constant_value(node) for node in self.block.nodes if node.op == "prim::Constant"}

    @cached_property
    def called(self) -> frozenset[str]:
        """The names of symbols that nodes refer to."""
        found: set[str] = set()
        for node in all_nodes(self.block):
            if node.attrs and node.op != "prim::Constant":
                found.update(name for text in node.attrs.values() if isinstance(text, str) for name in symbols_in(text))
        return frozenset(found)


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a program that may occur again."""

    member: Node | str
    """The group node, or the name of the graph or module."""
    block: Block
    graph: Graph
    """The graph that contains it, for the names."""
    attrs: Mapping[str, Any]
    """Attributes of the group node; groups of different kinds are different pieces."""
    roots: tuple[str, ...] = ()
    """The names under which an executable is called; none for a piece that is one block."""
    named: Mapping[str, tuple[Body, ...]] = EMPTY
    """The bodies behind each name that the piece may refer to."""
    kind: str = "graph"
    """The word for a piece with a name, for sentences."""

    @cached_property
    def body(self) -> Body:
        """The piece's own block; for an executable, one that refers to its roots in their order."""
        return Body(self.block, self.graph, self.attrs)

    @cached_property
    def label(self) -> str:
        """The piece's description, for sentences."""
        if isinstance(self.member, str):
            return f"{'module' if self.roots else self.kind} {self.member!r}"
        names = self.graph.names
        return ", ".join(f"%{names.get(value, value.name)}" for value in self.member.outputs) or self.member.op

    @property
    def group(self) -> Node | None:
        """The fusion group, if the piece is one."""
        if isinstance(self.member, Node):
            return self.member
        return self.graph.owner.get(self.block) if self.kind == "group" else None

    @property
    def is_free(self) -> bool:
        """Whether values are determined by their terms, so that the order of nodes does not matter."""
        return self.body.is_free

    @property
    def nodes(self) -> list[Node]:
        """The nodes of all its bodies, roots first, without constants."""
        bodies = [self.body, *(body for name in self.roots for body in self.named[name])]
        return [node for body in bodies for node in all_nodes(body.block) if node.op != "prim::Constant"]


class _Results(dict[Hashable, tuple[int, Any]]):
    """The results kept in one body or piece; a copy or pickle starts without any."""

    def __reduce__(self) -> tuple[type[_Results], tuple[()]]:
        return _Results, ()


def kept_in(most: int) -> Callable[[Callable[Concatenate[B, P], T]], Callable[Concatenate[B, P], T]]:
    """Makes a function keep its last `most` results, each in its first argument: they refer to the graph, and with it to a
    model's weights, and so must not outlive the program as those of an `lru_cache` do."""
    recent: OrderedDict[int, ref[Any]] = OrderedDict()
    numbers = count()

    def keeping(function: Callable[Concatenate[B, P], T]) -> Callable[Concatenate[B, P], T]:
        @wraps(function)
        def call(holder: B, /, *args: P.args, **kwargs: P.kwargs) -> T:
            results = vars(holder).setdefault("_results", _Results())
            key = (function, *args, *kwargs.items())
            if key in results:
                number, found = results[key]
                with suppress(KeyError):  # another thread has just dropped it
                    recent.move_to_end(number)
                return cast(T, found)
            number, result = next(numbers), function(holder, *args, **kwargs)
            results[key], recent[number] = (number, result), ref(holder)
            while len(recent) > most:
                with suppress(KeyError):
                    _forget(*recent.popitem(last=False))
            return result

        return call

    return keeping


def _forget(number: int, holder: ref[Any]) -> None:
    results = getattr(holder(), "_results", {})
    for key in [key for key, (kept, _) in list(results.items()) if kept == number]:
        results.pop(key, None)


def all_nodes(block: Block) -> list[Node]:
    """Returns the nodes of a block in textual order, those of inner blocks behind their node."""
    found: list[Node] = []
    stack = [iter(block.nodes)]
    while stack:
        for node in stack[-1]:
            found.append(node)
            inner = inner_blocks(node)
            if inner:
                stack.extend(iter(nested.nodes) for nested in reversed(inner))
                break
        else:
            stack.pop()
    return found


def _is_plain(type: Type) -> bool:
    return isinstance(type, TensorType) or (isinstance(type, PrimitiveType) and type not in (ANY, GENERATOR))


def known_arguments(node: Node, constants: Mapping[Any, Any]) -> dict[str, Any]:
    """Returns the constant arguments of a node, by name."""
    schema = schema_of(node)
    if schema is None:
        return {}
    arguments = zip(schema.arguments, node.inputs, strict=False)
    return {argument.name: constants[value] for argument, value in arguments if value in constants}


def attrs_of(node: Node) -> Mapping[str, Any]:
    """Returns a node's attributes; a constant of type bool has a bool, even if the frontend stores a number, as TorchScript does."""
    if node.op == "prim::Constant" and node.outputs and node.output.type == BOOL and node.attrs.get("value") in (0, 1):
        return FrozenDict({**node.attrs, "value": bool(node.attrs["value"])})
    return node.attrs


# --- names ----------------------------------------------------------------------------------------------------------


def symbols_in(text: str) -> list[str]:
    """Returns the names of symbols in an attribute's text, each without `@`.

    >>> symbols_in("@ex_0::@F"), symbols_in("#hal.device.affinity<@dev>"), symbols_in("no name")
    (['ex_0', 'F'], ['dev'], [])
    """
    return [symbol_name(found) for found in _SYMBOL.findall(text)]


def apart_from_symbols(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the text around the names of symbols, and the names.

    >>> apart_from_symbols("@ex_0::@F"), apart_from_symbols("no name")
    ((('', '::', ''), ('ex_0', 'F')), (('no name',), ()))
    """
    parts = _SYMBOL.split(text)
    return tuple(parts[::2]), tuple([symbol_name(found) for found in parts[1::2]])


def renamed_symbols(text: str, renamed: Mapping[str, str]) -> str:
    """Returns the text with some of its symbols renamed.

    >>> renamed_symbols("@ex_1::@G", {"ex_1": "ex_0"})
    '@ex_0::@G'
    """

    def change(found: re.Match[str]) -> str:
        new = renamed.get(symbol_name(found.group(1)))
        return found.group(0) if new is None else reference_to(new)

    return _SYMBOL.sub(change, text)


def without_symbols(text: str) -> str:
    """Returns the text with the same name for every symbol."""
    return renamed_symbols(text, dict.fromkeys(symbols_in(text), "#"))
