"""The canonical form of a piece of program: a byte string that two pieces share exactly when a relation holds between
them.

*What is compared.* A piece is a block: parameters, nodes in order, results. Four relations, each coarser than the one
before:

* `text`: the same print, names of values included.
* `alpha`: the same but for names. Types, constants, attributes, node order, operand order and the order of parameters
  and results count.
* `order`: the same computation: independent nodes may be listed in any order, the operands of a commutative op may be
  exchanged, and computing the same thing twice is the same as computing it once.
* `extents`: as `order`, and a tensor's extents count only as one, more than one, or unknown (so the broadcast pattern
  stays); element type, rank, device and the order of its strides still count, not their sizes.

*Why equal forms mean equal pieces.* Numbering values by their definition is injective, every field is written with
its length or an end mark, and floats by their bits: the form of `text` and `alpha` can be read back, so equal forms
are the same piece but for what the relation forgets. A payload that cannot be read back (an object of which only the
text is known, a tensor without its elements) is written as its identity, and so equals itself only. For `order` the
form is that of the *terms* of the results: a term is an op, its attributes, its result types and its operands' terms.
That is sound only where a value is determined by its term, and where nobody can tell two equal values apart; so it is
done for pieces that are straight-line code of pure, deterministic ops on tensors and numbers, where two values share
memory only when they are the same value; which results are the same value is written too. Any other piece keeps its
order, under `order` and `extents` as well. Commutative are only ops for which exchanging operands changes no bit
(additions and multiplications are; `minimum` is not, because of signed zeros).

*What is given up.* Exchanged parameters are a difference. So is a sum that is associated another way.

*Fingerprints* are 16 bytes of BLAKE2 of the form, computed once a piece in linear time; they select what to compare,
and `irscope.transforms.dedup.relations` proves each merge with a bijection. IREE's pass omits symbol names from both,
and merges programs that compute different numbers; nothing is omitted here but what the relation says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final, Literal

from irscope.ir.core import Block, Graph, Node, Value
from irscope.ir.payload import Opaque, TensorData, constant_value
from irscope.ir.types import ANY, GENERATOR, PrimitiveType, TensorType, Type, walk
from irscope.ops.randomness import draws_random_numbers
from irscope.ops.registry import effect_of

__all__ = [
    "RELATIONS",
    "Piece",
    "Relation",
    "Term",
    "Terms",
    "canonical_form",
    "fingerprint",
    "inner_blocks",
    "spell_type",
]

Relation = Literal["text", "alpha", "order", "extents"]
RELATIONS: Final[tuple[Relation, ...]] = ("text", "alpha", "order", "extents")
"""From the finest to the coarsest."""

_COMMUTATIVE: Final = frozenset(
    f"aten::{name}" for name in ("add", "mul", "eq", "ne", "logical_and", "logical_or", "logical_xor",
                                 "bitwise_and", "bitwise_or", "bitwise_xor")
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a program that may occur again: a fusion group, or a whole graph."""

    member: Node | str
    """The group node, or the name of the graph."""
    block: Block
    graph: Graph
    """The graph that it is in, for the names."""
    attrs: Mapping[str, Any]
    """Attributes of the group node; a group of another kind is another piece."""

    @cached_property
    def label(self) -> str:
        """What to call the piece in a sentence."""
        if isinstance(self.member, str):
            return f"graph {self.member!r}"
        names = self.graph.names
        return ", ".join(f"%{names[value]}" for value in self.member.outputs) or self.member.op

    @cached_property
    def is_free(self) -> bool:
        """Whether values are determined by their terms, so that the order of nodes does not matter."""
        values = [*self.block.params, *(value for node in self.block.nodes for value in node.outputs)]
        return all(_is_plain(value.type) for value in values) and all(map(_is_pure, self.block.nodes))


def _is_plain(type: Type) -> bool:
    return isinstance(type, TensorType) or (isinstance(type, PrimitiveType) and type not in (ANY, GENERATOR))


def _is_pure(node: Node) -> bool:
    if node.op == "prim::Constant":
        return isinstance(constant_value(node), int | float | complex | str | None)
    return not inner_blocks(node) and effect_of(node) == "pure" and not draws_random_numbers(node.op)


def inner_blocks(node: Node) -> tuple[Block, ...]:
    """The blocks of a node, and the bodies of graphs among its attributes."""
    graphs = [node.attrs[key] for key in sorted(node.attrs) if isinstance(node.attrs[key], Graph)] if node.attrs else []
    return (*node.blocks, *(graph.body for graph in graphs)) if graphs else node.blocks


def fingerprint(piece: Piece, relation: Relation) -> bytes:
    """Sixteen bytes that pieces share when the relation holds between them, and (but for a collision) only then."""
    return blake2b(canonical_form(piece, relation), digest_size=16).digest()


def canonical_form(piece: Piece, relation: Relation) -> bytes:
    """The form described above."""
    if relation in ("order", "extents") and piece.is_free:
        return Terms(piece, relation).form
    return b"".join(_tokens(piece, relation))


# --- listing a block in order ---------------------------------------------------------------------------------------


def _tokens(piece: Piece, relation: Relation) -> Iterator[bytes]:
    """The piece, token by token, each prefix-free; nested blocks on an explicit stack."""
    names = piece.graph.names if relation == "text" else None
    number: dict[Value, bytes] = {}
    types: dict[Type, bytes] = {}

    def define(values: Sequence[Value]) -> bytes:
        out = [b"%d:" % len(values)]
        for value in values:
            spelled = types.get(value.type)
            if spelled is None:
                spelled = types[value.type] = _text(spell_type(value.type, relation))
            number[value] = b"%d;" % len(number)
            out.append(spelled if names is None else spelled + _text(names.get(value, value.name)))
        return b"".join(out)

    def read(values: Sequence[Value]) -> bytes:
        free = [value for value in values if value not in number]
        return (b"!" + define(free) if free else b"") + b"%d:" % len(values) + b"".join([number[v] for v in values])

    yield spell_attrs(piece.attrs)
    yield b"{" + define(piece.block.params)
    stack: list[tuple[Block, Iterator[Node]]] = [(piece.block, iter(piece.block.nodes))]
    while stack:
        block, nodes = stack[-1]
        for node in nodes:
            inner = inner_blocks(node)
            yield _text(node.op) + read(node.inputs) + spell_attrs(node.attrs) + define(node.outputs)
            if inner:
                stack.extend((nested, iter(nested.nodes)) for nested in reversed(inner))
                yield b"[%d:" % len(inner) + b"".join([b"{" + define(nested.params) for nested in inner])
                break
        else:
            stack.pop()
            yield b"}" + read(block.returns)


# --- terms ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Term:
    """What a value is: the node that computes it first, the output of that node, and its operands' terms in canonical
    order.

    A parameter's term has no node, and its place among the parameters as `output`.
    """

    node: Node | None
    output: int
    operands: tuple[int, ...]
    digest: bytes


class Terms:
    """The terms of a piece; equal terms, compared exactly, have one number."""

    def __init__(self, piece: Piece, relation: Relation) -> None:
        self.piece = piece
        self.all: list[Term] = []
        self.of: dict[Value, int] = {}
        self._known: dict[object, int] = {}
        self._relation: Relation = relation
        self._types: dict[Type, bytes] = {}
        self._constants = {n.output: constant_value(n) for n in piece.block.nodes if n.op == "prim::Constant"}
        for place, value in enumerate(piece.block.params):
            text = b"p%d;" % place + self._type(value)
            self.of[value] = self._intern(text, Term(None, place, (), _digest(text)))
        for node in piece.block.nodes:
            self._add(node)

    @cached_property
    def form(self) -> bytes:
        """The canonical form: how many parameters, and the terms and identities of the results."""
        first: dict[Value, int] = {}
        out = [spell_attrs(self.piece.attrs), b"%d:" % len(self.piece.block.params)]
        out.extend(map(self._type, self.piece.block.params))
        for place, value in enumerate(self.piece.block.returns):
            out.append(self.all[self.of[value]].digest + b"%d;" % first.setdefault(value, place))
        return b"~" + b"".join(out)

    def _add(self, node: Node) -> None:
        operands = [self.of[value] for value in node.inputs]
        if node.op in _COMMUTATIVE and self._may_exchange(node):
            operands[:2] = sorted(operands[:2], key=lambda term: self.all[term].digest)
        types = b"".join(map(self._type, node.outputs))
        head = _text(node.op) + spell_attrs(node.attrs) + b"%d:" % len(node.outputs) + types
        digest = _digest(b"n" + head + b"%d:" % len(operands) + b"".join([self.all[term].digest for term in operands]))
        for output, value in enumerate(node.outputs):
            key = (head, output, tuple(operands))
            self.of[value] = self._intern(key, Term(node, output, tuple(operands), digest + b"%d;" % output))

    def _type(self, value: Value) -> bytes:
        spelled = self._types.get(value.type)
        if spelled is None:
            spelled = self._types[value.type] = _text(spell_type(value.type, self._relation))
        return spelled

    def _intern(self, key: object, term: Term) -> int:
        number = self._known.setdefault(key, len(self.all))
        if number == len(self.all):
            self.all.append(term)
        return number

    def _may_exchange(self, node: Node) -> bool:
        """Whether both operands are tensors and neither is scaled (`aten::add(a, b, alpha)` is a + alpha·b)."""
        tensors = len(node.inputs) >= 2 and all(isinstance(value.type, TensorType) for value in node.inputs[:2])
        return tensors and all(self._constants.get(value) == 1 for value in node.inputs[2:])


def _digest(form: bytes) -> bytes:
    return blake2b(form, digest_size=16).digest()


# --- spelling -------------------------------------------------------------------------------------------------------


def spell_type(type: Type, relation: Relation) -> str:
    """A type as far as the relation looks at it."""
    if relation != "extents" or not any(isinstance(part, TensorType) for part in walk(type)):
        return _spell_exact(type)
    if not isinstance(type, TensorType):
        return repr(type)  # extents inside containers are kept: repr tells all fields of all parts
    if type.shape is None:
        return _spell_exact(type)
    pattern = ["1" if dim == 1 else "n" if isinstance(dim, int) else "*" for dim in type.shape]
    return f"{type.dtype}({','.join(pattern)}){_stride_order(type)}{type.device}{type.requires_grad}{type.undefined}"


def _spell_exact(type: Type) -> str:
    if isinstance(type, TensorType):
        return f"{type.dtype}{type.shape}{type.strides}{type.device}{type.requires_grad}{type.undefined}"
    return repr(type)


def _stride_order(type: TensorType) -> str:
    """The dimensions from the largest step to the smallest, which steps are 0 or 1, and whether there are gaps."""
    if type.strides is None or type.shape is None:
        return ""
    extents = [dim if isinstance(dim, int) else 0 for dim in type.shape]
    order = sorted((axis for axis, extent in enumerate(extents) if extent != 1), key=lambda axis: -type.strides[axis])  # type: ignore[index]
    steps, dense, step = [], True, 1
    for axis in reversed(order):
        dense = dense and type.strides[axis] == step
        step *= extents[axis]
        steps.append({0: "0", 1: "1"}.get(type.strides[axis], "s"))
    return f"{order}{''.join(steps)}{dense}"


def spell_attrs(attrs: Mapping[str, Any]) -> bytes:
    """Attributes by name, as bytes that can be read back."""
    if not attrs:
        return b"0:"
    return b"%d:" % len(attrs) + b"".join([_text(key) + spell_payload(attrs[key]) for key in sorted(attrs)])


def spell_payload(payload: Any) -> bytes:
    """A constant as bytes that can be read back, or that no other constant has."""
    match payload:
        case None:
            return b"N"
        case bool():
            return b"T" if payload else b"F"
        case int():
            return b"i%d;" % payload
        case float():
            return b"f" + struct.pack(">d", payload)
        case complex():
            return b"c" + struct.pack(">dd", payload.real, payload.imag)
        case str():
            return b"s" + _text(payload)
        case tuple() | list():
            return b"(%d:" % len(payload) + b"".join(map(spell_payload, payload))
        case TensorData() if payload.array is not None:
            head = f"{payload.dtype}{payload.shape}{payload.device}"
            return b"t" + _text(head) + blake2b(payload.array.tobytes(), digest_size=32).digest()
        case Graph():
            return b"g"  # its body is listed with the blocks
        case Type():
            return b"y" + _text(repr(payload))
        case Opaque() if payload.original is not None:
            return b"o%d;" % id(payload.original)
    return b"o%d;" % id(payload)


def _text(text: str) -> bytes:
    data = text.encode()
    return b"%d'" % len(data) + data
