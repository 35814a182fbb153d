"""Pieces, the units of comparison, the relations by which two may be the same, and the holes where they differ.

A piece is a part of a program with the bodies that belong to it and the meanings of its names: a fusion group, a graph, a
region of a graph, or a module inside another: an executable. An executable has *roots*, the names under which it is called from
outside, in the order in which it declares them; everything else in it is private, and matters only if something refers to it.
Two executables are the same if their first roots correspond, their second ones, and so on. So two whose exports are exchanged
are not the same, whatever they contain: a caller that asks for the first export would get another computation.

The *ladder* has ten relations, each of which forgets one more property than the one before.

    text       the same print, names of values and entry points included
    alpha      names of values and of entry points are forgotten
    symbols    private functions and globals may have other names, if what the names mean corresponds
    order      independent nodes in any order, operands of a commutative op either way
    arguments  parameters in any order
    constants  numbers and constant tensors that are data of an op may differ: holes
    extents    sizes may differ, if equal ones stay equal, distinct ones distinct, and ones stay ones
    free       sizes may differ in any way
    layout     so may strides
    dtype      so may element types

The op's schema decides which arguments may be holes: a `Scalar` or a `float` is data, a `SymInt` is a size, `int dim` and
`bool keepdim` are structure and never a hole.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, Concatenate, Final, Literal, NamedTuple, ParamSpec, TypeVar, get_args
from weakref import ref

import numpy as np

from irscope._base.frozen import EMPTY, FrozenDict
from irscope._base.words import plural
from irscope.errors import ArgumentError
from irscope.ir import ANY, BOOL, GENERATOR, Block, Graph, Node, Opaque, PrimitiveType, TensorData, TensorType, Type, Value, constant_value
from irscope.ir.module import symbol_name
from irscope.ir.structural import inner_blocks
from irscope.ops.op import draws_random_numbers
from irscope.ops.registry import effect_of, functional_source, named_inputs, schema_of

P = ParamSpec("P")
T = TypeVar("T")
B = TypeVar("B", "Body", "Piece")

NO_BLOCK: Final = Block(0, (), (), ())
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
        """Whether values are determined by their terms, so that the order of nodes does not matter; nodes that nothing needs are not
        asked."""
        if not all(_is_plain(value.type) for value in self.block.params):
            return False
        needed = set(self.block.returns)
        for node in reversed(self.block.nodes):
            known = known_arguments(node, self.constants)
            effect = "opaque" if inner_blocks(node) or draws_random_numbers(node.op, known) else effect_of(node, known)
            if (node.op == "prim::Constant" or effect in ("pure", "view")) and needed.isdisjoint(node.outputs):
                continue
            if node.op == "prim::Constant":
                is_determined = isinstance(constant_value(node), int | float | complex | str | None)
            else:
                is_determined = effect == "pure" and (schema_of(node) is not None or bool(functional_source(node.op)))
            if not is_determined or not all(_is_plain(value.type) for value in node.outputs):
                return False  # results are tensors or numbers that op and operands determine, in memory of their own
            needed.update(node.inputs)
        return True

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
        if isinstance(self.member, Node):
            return self.member
        return self.graph.owner.get(self.block) if self.kind == "group" else None

    @property
    def bodies(self) -> list[Body]:
        """Its own body, and those behind all names."""
        return [self.body, *(body for bodies in self.named.values() for body in bodies)]

    @property
    def nodes(self) -> list[Node]:
        """The nodes of all its bodies, roots first, without constants."""
        bodies = [self.body, *(body for name in self.roots for body in self.named[name])]
        return [node for body in bodies for node in all_nodes(body.block) if node.op != "prim::Constant"]


class _Results(dict[Hashable, Any]):
    """The results kept in one body or piece; a copy or pickle starts without any."""

    def __reduce__(self) -> "tuple[type[_Results], tuple[()]]":
        return _Results, ()


def kept_in(most: int) -> Callable[[Callable[Concatenate[B, P], T]], Callable[Concatenate[B, P], T]]:
    """Makes a function keep its last `most` results, each in its first argument: they refer to the graph, and with it to a
    model's weights, and so must not outlive the program as those of an `lru_cache` do."""
    recent: deque[ref[Any]] = deque()

    def keeping(function: Callable[Concatenate[B, P], T]) -> Callable[Concatenate[B, P], T]:
        @wraps(function)
        def call(holder: B, /, *args: P.args, **kwargs: P.kwargs) -> T:
            results = vars(holder).setdefault("_results", _Results())
            key = (function, *args, *kwargs.items())
            result: T = results.get(key, _MISSING)
            if result is _MISSING:
                result = results[key] = function(holder, *args, **kwargs)
                recent.append(ref(holder))  # not the key, whose arguments may be pieces of other programs
                if len(recent) > most:
                    oldest = getattr(recent.popleft()(), "_results", {})
                    oldest.pop(next((each for each in list(oldest) if each[0] is function), None), None)
            return result

        return call

    return keeping


_MISSING: Final[Any] = object()


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
    return {name: constants[value] for name, value in named_inputs(node).items() if value in constants}


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


# --- the ladder of relations ------------------------------------------------------------------------------------------

Relation = Literal["text", "alpha", "symbols", "order", "arguments", "constants", "extents", "free", "layout", "dtype"]
RELATIONS: Final[tuple[Relation, ...]] = get_args(Relation)
"""The relations from the finest to the coarsest."""
RANK: Final[Mapping[str, int]] = {relation: place for place, relation in enumerate(RELATIONS)}
"""The place of each relation in the ladder."""
HOLED: Final = frozenset(RELATIONS[RANK["constants"] :])
"""The relations under which equal pieces may differ in holes."""
GIVES_UP: Final[Mapping[str, str]] = {
    "text": "nothing",
    "alpha": "names of values and entry points",
    "symbols": "names of private functions and globals",
    "order": "the order of nodes and operands, and repeated computations",
    "arguments": "the order of parameters: callers pass them in another",
    "constants": "the constants, which become arguments: nothing is folded with them",
    "extents": "the sizes, which become arguments: no loop is unrolled, and each has a remainder",
    "free": "which sizes are equal or 1: what is broadcast is decided at run time",
    "layout": "the strides: loads may not be contiguous",
    "dtype": "the element type: one body for each, or conversions",
    "tied": "nothing",
    "equal": "that one of them could be changed and not the other",
}
"""What a compiler no longer knows of one piece that replaces all pieces that are the same by a relation, of pieces or constants."""


def known_relation(relation: Any) -> Relation:
    """Returns a relation of pieces. Raises ArgumentError for anything else."""
    if not isinstance(relation, str) or relation not in RELATIONS:
        hint = 'that is one of unit="constants"' if relation in ("tied", "equal") else f"choose one of {', '.join(RELATIONS)}"
        raise ArgumentError(f"there is no relation {relation!r} of pieces", hint=hint)
    return relation


# --- holes ------------------------------------------------------------------------------------------------------------

HoleKind = Literal[
    "name", "symbol", "constant", "attribute", "type", "op", "operand", "count", "result", "extent", "size", "stride", "layout",
    "dtype",
]  # fmt: skip


class Site(NamedTuple):
    """A place in the left one of two pieces, the same for every piece matched with it."""

    subject: Node | Value | str
    """The node; for a part of a type, the value; for an attribute or result of the piece itself, a name."""
    part: str
    """`operand`, `type`, or the name of an attribute."""
    place: int
    """The number of the operand; 0 where there is only one part."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used here
    """The place within that part: the axis of an extent, the index in a list."""


class SlotPair(NamedTuple):
    """A part that a relation takes out, with its values in the left and in the right piece."""

    kind: HoleKind
    site: Site
    left: Any
    right: Any

    def hole(self, words: str) -> "Hole":
        """The hole for different values; `words` name its place."""
        return Hole(self.kind, words, *format_difference(self.left, self.right), self.site, (self.left, self.right))


@dataclass(frozen=True)
class Hole:
    """One place where two pieces differ."""

    kind: HoleKind
    place: str
    """The place in words: the op and the operand."""
    left: str
    right: str
    site: Site | None = field(default=None, compare=False)
    """The place itself; None for a difference of structure."""
    values: tuple[Any, Any] = field(default=(None, None), compare=False)
    """The values at the place, in the left and in the right piece."""

    def __str__(self) -> str:
        return f"{self.place}: {self.left} against {self.right}"


def format_ops(nodes: Iterable[Node]) -> str:
    """Returns the names of the eight most frequent ops, with their counts."""
    counts = Counter(node.op.partition("::")[2] or node.op for node in nodes).most_common(8)
    return ", ".join(op + (f" ×{count}" if count > 1 else "") for op, count in counts)


def operand_name(node: Node, index: int) -> str:
    """Returns an operand in words: the argument's name where the op has a schema."""
    schema = schema_of(node)
    if schema is not None and index < len(schema.arguments):
        return f"{schema.arguments[index].name!r} of {node.op}"
    return f"operand {index} of {node.op}"


def format_payload(payload: Any) -> str:
    """Returns a payload as text of at most sixty characters.

    >>> [format_payload(each) for each in (0.5, (1, 2), TensorData.of(np.full((2, 3), 0.5)), TensorData.of(np.arange(5)))]
    ['0.5', '(1, 2)', '0.5 in all of float64[2, 3]', '0, 1, 2, … of int64[5]']
    """
    if isinstance(payload, TensorData) and payload.array is not None and payload.array.size:
        text = _numbers(payload.dtype, payload.array, 0)
        if payload.array.size > 1:
            what, elements = f"{payload.dtype}[{', '.join(map(str, payload.shape))}]", _bytes(payload.array)
            first = f"{_numbers(payload.dtype, payload.array, 0, 3)}{', …' if payload.array.size > 3 else ''}"
            text = f"{text} in all of {what}" if (elements == elements[0]).all() else f"{first} of {what}"
    else:
        text = payload.text if isinstance(payload, Opaque) else str(payload) if isinstance(payload, Type) else repr(payload)
    return text if len(text) <= 60 else f"{text[:57]}..."


def format_difference(left: Any, right: Any) -> tuple[str, str]:
    """Returns two different payloads as text; for tensors that differ in some elements, the first of these."""
    if isinstance(left, TensorData) and isinstance(right, TensorData) and (left.dtype, left.shape) == (right.dtype, right.shape):
        a, b = left.array, right.array
        if a is not None and b is not None and a.size > 1:
            unlike = np.flatnonzero((_bytes(a) != _bytes(b)).any(1))
            if 0 < len(unlike) < a.size:
                at = int(unlike[0])
                where = f"at [{', '.join(map(str, np.unravel_index(at, a.shape)))}]"
                more = f", and {plural(len(unlike) - 1, 'more element')}" if len(unlike) > 1 else ""
                return f"{_numbers(left.dtype, a, at)} {where}", f"{_numbers(right.dtype, b, at)} {where}{more}"
    return format_payload(left), format_payload(right)


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of each element, one row per element, in logical order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)


def _numbers(dtype: str, array: np.ndarray[Any, Any], first: int, count: int = 1) -> str:
    """Some elements as text; those of a bfloat16 are stored as bits."""
    some = array.reshape(-1)[first : first + count]
    if dtype == "bfloat16":
        some = (some.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return ", ".join(repr(one.item()) for one in some)


def format_holes(holes: Sequence[Hole]) -> str:
    """Returns the first three holes in one line, and the number of further ones."""
    more = f"; and {len(holes) - 3} more" if len(holes) > 3 else ""
    return "; ".join(map(str, holes[:3])) + more
