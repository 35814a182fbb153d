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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from irscope._base.concurrency.cached import cached_property
from irscope.ir import ANY, GENERATOR, Block, Graph, Node, PrimitiveType, TensorType, Type, Value, constant_value
from irscope.ops.registry import effect_of, schema_of
from irscope.ops.schema import draws_random_numbers
from irscope.ops.traits import COMMUTES
from irscope.transforms.dedup.encoding import Relation, prefixed, spell_attrs, spell_type

__all__ = ["Piece", "Term", "Terms", "canonical_form", "fingerprint", "inner_blocks"]


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
        if not all(_is_plain(value.type) for value in values):
            return False
        constants = {node.output: constant_value(node) for node in self.block.nodes if node.op == "prim::Constant"}
        return all(_is_pure(node, constants) for node in self.block.nodes)


def _is_plain(type: Type) -> bool:
    return isinstance(type, TensorType) or (isinstance(type, PrimitiveType) and type not in (ANY, GENERATOR))


def _is_pure(node: Node, constants: Mapping[Value, Any]) -> bool:
    if node.op == "prim::Constant":
        return isinstance(constants[node.output], int | float | complex | str | None)
    schema = schema_of(node)
    if schema is None or inner_blocks(node):
        return False
    arguments = zip(schema.arguments, node.inputs, strict=False)
    known = {argument.name: constants[value] for argument, value in arguments if value in constants}
    return effect_of(node, known) == "pure" and not draws_random_numbers(node.op, known)


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
                spelled = types[value.type] = prefixed(spell_type(value.type, relation))
            number[value] = b"%d;" % len(number)
            out.append(spelled if names is None else spelled + prefixed(names.get(value, value.name)))
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
            yield prefixed(node.op) + read(node.inputs) + spell_attrs(node.attrs) + define(node.outputs)
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
        if node.op in COMMUTES and self._may_exchange(node):
            operands[:2] = sorted(operands[:2], key=lambda term: self.all[term].digest)
        types = b"".join(map(self._type, node.outputs))
        head = prefixed(node.op) + spell_attrs(node.attrs) + b"%d:" % len(node.outputs) + types
        digest = _digest(b"n" + head + b"%d:" % len(operands) + b"".join([self.all[term].digest for term in operands]))
        for output, value in enumerate(node.outputs):
            key = (head, output, tuple(operands))
            self.of[value] = self._intern(key, Term(node, output, tuple(operands), digest + b"%d;" % output))

    def _type(self, value: Value) -> bytes:
        spelled = self._types.get(value.type)
        if spelled is None:
            spelled = self._types[value.type] = prefixed(spell_type(value.type, self._relation))
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
