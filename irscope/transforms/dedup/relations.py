"""Proof that two pieces are the same, as a bijection of their values; or what keeps them apart, as holes.

This walks both pieces side by side and believes no fingerprint. Each value of one must stand for exactly one value of
the other, in both directions, and what the relation does not forget must be equal at each step. See `canonical` for
the relations.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from irscope.ir import Block, Graph, Node, Opaque, Type, Value
from irscope.ops.registry import schema_of
from irscope.transforms.dedup.canonical import Piece, Terms, inner_blocks
from irscope.transforms.dedup.encoding import Relation, spell_type

__all__ = ["Difference", "Hole", "bijection", "differences", "same_payload"]


@dataclass(frozen=True)
class Hole:
    """One place where two pieces differ."""

    kind: Literal["name", "constant", "attribute", "type", "op", "operand", "count", "result"]
    place: str
    """Where, in words: the op and the operand."""
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.place}: {self.left} against {self.right}"


@dataclass(frozen=True)
class Difference:
    """All holes of two pieces that are built alike, or the first difference of two that are not."""

    holes: tuple[Hole, ...]
    alike: bool
    """Whether ops and operands correspond throughout, so that only constants, types and names differ."""


def bijection(left: Piece, right: Piece, relation: Relation) -> dict[Value, Value] | None:
    """Which value of the right piece each value of the left one is, or None when the relation does not hold.

    Under `order` values that compute the same are one, and only what the results need is in it.
    """
    if relation in ("order", "extents") and left.is_free and right.is_free:
        return _term_bijection(left, right, relation)
    walk = _Walk(left, right, relation)
    walk.run()
    return None if walk.holes else walk.partner


def differences(left: Piece, right: Piece, relation: Relation = "alpha") -> Difference:
    """What keeps two pieces apart, in listed order."""
    walk = _Walk(left, right, relation)
    walk.run()
    return Difference(tuple(walk.holes), walk.alike)


# --- in listed order ------------------------------------------------------------------------------------------------


@dataclass
class _Walk:
    """Two pieces, node by node; stops at the first structural difference, collects the others."""

    left: Piece
    right: Piece
    relation: Relation
    partner: dict[Value, Value] = field(default_factory=dict)
    holes: list[Hole] = field(default_factory=list)
    alike: bool = True
    _back: dict[Value, Value] = field(default_factory=dict)

    def run(self) -> None:
        self._attributes(self.left.attrs, self.right.attrs, "the group")
        pending: list[tuple[Block, Block, int]] = []
        if self._open(self.left.block, self.right.block):
            pending.append((self.left.block, self.right.block, 0))
        while pending and self.alike:
            a, b, start = pending.pop()
            for place in range(start, len(a.nodes)):
                one, other = a.nodes[place], b.nodes[place]
                if not self._node(one, other):
                    return
                inner = list(zip(inner_blocks(one), inner_blocks(other), strict=True))
                if inner:
                    pending.append((a, b, place + 1))
                    for x, y in reversed(inner):
                        if not self._open(x, y):
                            return
                        pending.append((x, y, 0))
                    break
            else:
                self._read(a.returns, b.returns, "the results", "result")

    def _open(self, a: Block, b: Block) -> bool:
        """Begin two blocks: parameters, and how many of each thing there are."""
        counts = (("parameters", a.params, b.params), ("results", a.returns, b.returns))
        for what, x, y in counts:
            if len(x) != len(y):
                return self._stop(Hole("count", f"number of {what}", str(len(x)), str(len(y))))
        if len(a.nodes) != len(b.nodes):
            first = next((i for i, (x, y) in enumerate(zip(a.nodes, b.nodes, strict=False)) if x.op != y.op), None)
            if first is None:
                first = min(len(a.nodes), len(b.nodes))
                longer, side = (a, "left") if len(a.nodes) > first else (b, "right")
                what = f"number of nodes (only the {side} one goes on, with {longer.nodes[first].op})"
                return self._stop(Hole("count", what, str(len(a.nodes)), str(len(b.nodes))))
            return self._stop(Hole("op", f"node {first}", a.nodes[first].op, b.nodes[first].op))
        for place, (one, other) in enumerate(zip(a.params, b.params, strict=True)):
            self._define(one, other, f"parameter {place}")
        return True

    def _node(self, one: Node, other: Node) -> bool:
        number = len(self.partner)
        if one.op != other.op:
            return self._stop(Hole("op", f"the node that makes value {number}", one.op, other.op))
        if len(one.inputs) != len(other.inputs) or len(one.outputs) != len(other.outputs):
            counts = [f"{len(n.inputs)} operands and {len(n.outputs)} results" for n in (one, other)]
            return self._stop(Hole("count", one.op, *counts))
        if len(inner_blocks(one)) != len(inner_blocks(other)):
            return self._stop(Hole("count", f"blocks of {one.op}", str(len(one.blocks)), str(len(other.blocks))))
        if not self._read(one.inputs, other.inputs, one, "operand"):
            return False
        self._attributes(one.attrs, other.attrs, one)
        for x, y in zip(one.outputs, other.outputs, strict=True):
            self._define(x, y, f"result of {one.op}")
        return True

    def _define(self, x: Value, y: Value, place: str) -> None:
        self.partner[x], self._back[y] = y, x
        if spell_type(x.type, self.relation) != spell_type(y.type, self.relation):
            self.holes.append(Hole("type", place, str(x.type), str(y.type)))
        if self.relation == "text":
            names = self.left.graph.names.get(x, x.name), self.right.graph.names.get(y, y.name)
            if names[0] != names[1]:
                self.holes.append(Hole("name", place, f"%{names[0]}", f"%{names[1]}"))

    def _read(
        self, xs: Sequence[Value], ys: Sequence[Value], where: Node | str, kind: Literal["operand", "result"]
    ) -> bool:
        for place, (x, y) in enumerate(zip(xs, ys, strict=True)):
            if x not in self.partner and y not in self._back:
                self._define(x, y, "a value from outside")
            if self.partner.get(x) is not y or self._back.get(y) is not x:
                what = _operand_name(where, place) if isinstance(where, Node) else f"{where}, number {place}"
                return self._stop(Hole(kind, what, self._name(self.left, x), self._name(self.right, y)))
        return True

    def _name(self, piece: Piece, value: Value) -> str:
        return f"%{piece.graph.names.get(value, value.name)}"

    def _attributes(self, a: Mapping[str, Any], b: Mapping[str, Any], where: Node | str) -> None:
        for key in sorted({*a, *b}):
            x, y = a.get(key, _ABSENT), b.get(key, _ABSENT)
            if same_payload(x, y):
                continue
            if isinstance(where, Node) and where.op == "prim::Constant":
                self.holes.append(Hole("constant", self._use_of(where.output), _told(x), _told(y)))
            else:
                place = f"attribute {key!r} of {where if isinstance(where, str) else where.op}"
                self.holes.append(Hole("attribute", place, _told(x), _told(y)))

    def _use_of(self, value: Value) -> str:
        """Where a constant of the left piece goes, in words."""
        uses = self.left.graph.users.get(value, ())
        first = next((use for use in uses if isinstance(use.user, Node)), None)
        return _operand_name(first.user, first.index) if first and isinstance(first.user, Node) else "a constant"

    def _stop(self, hole: Hole) -> bool:
        self.holes.append(hole)
        self.alike = False
        return False


_ABSENT = Opaque("nothing")


def _operand_name(node: Node, index: int) -> str:
    schema = schema_of(node)
    if schema is not None and index < len(schema.arguments):
        return f"{schema.arguments[index].name!r} of {node.op}"
    return f"operand {index} of {node.op}"


def _told(payload: Any) -> str:
    text = payload.text if isinstance(payload, Opaque) else repr(payload)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- as terms -------------------------------------------------------------------------------------------------------


def _term_bijection(left: Piece, right: Piece, relation: Relation) -> dict[Value, Value] | None:
    """Pair the terms of the results, then their operands, down to the parameters."""
    ours, theirs = Terms(left, relation), Terms(right, relation)
    params, returns = (left.block.params, right.block.params), (left.block.returns, right.block.returns)
    if len(params[0]) != len(params[1]) or len(returns[0]) != len(returns[1]):
        return None
    if not _same_attributes(left.attrs, right.attrs) or not _same_identities(*returns):
        return None
    pairs = [*zip(*params, strict=True), *zip(*returns, strict=True)]
    pending = [(ours.of[x], theirs.of[y]) for x, y in pairs]
    partner: dict[int, int] = {}
    back: dict[int, int] = {}
    while pending:
        a, b = pending.pop()
        if a in partner or b in back:
            if partner.get(a) != b or back.get(b) != a:
                return None
            continue
        partner[a], back[b] = b, a
        operands = _same_term(ours, a, theirs, b, relation)
        if operands is None:
            return None
        pending.extend(operands)
    value = {
        theirs.of[v]: v for v in reversed([*right.block.params, *(o for n in right.block.nodes for o in n.outputs)])
    }
    return {v: value[partner[term]] for v, term in ours.of.items() if term in partner}


def _same_term(ours: Terms, a: int, theirs: Terms, b: int, relation: Relation) -> list[tuple[int, int]] | None:
    """The operands that must correspond for two terms to be the same; None when they differ in themselves."""
    x, y = ours.all[a], theirs.all[b]
    if x.output != y.output or len(x.operands) != len(y.operands):
        return None
    if x.node is None or y.node is None:
        params = ours.piece.block.params, theirs.piece.block.params
        types: list[Type] = [values[x.output].type for values in params]
        return [] if x.node is y.node and spell_type(types[0], relation) == spell_type(types[1], relation) else None
    if x.node.op != y.node.op or len(x.node.outputs) != len(y.node.outputs):
        return None
    if not _same_attributes(x.node.attrs, y.node.attrs):
        return None
    outputs = zip(x.node.outputs, y.node.outputs, strict=True)
    if any(spell_type(v.type, relation) != spell_type(w.type, relation) for v, w in outputs):
        return None
    return list(zip(x.operands, y.operands, strict=True))


def _same_identities(xs: Sequence[Value], ys: Sequence[Value]) -> bool:
    """Whether the same results are one value on both sides."""
    left: dict[Value, int] = {}
    right: dict[Value, int] = {}
    pairs = enumerate(zip(xs, ys, strict=True))
    return all(left.setdefault(x, place) == right.setdefault(y, place) for place, (x, y) in pairs)


# --- payloads -------------------------------------------------------------------------------------------------------


def _same_attributes(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return a.keys() == b.keys() and all(same_payload(a[key], b[key]) for key in a)


def same_payload(a: Any, b: Any) -> bool:
    """Whether two constants are the same, to the bit and in type.

    >>> same_payload(1, 1.0), same_payload(0.0, -0.0), same_payload((1, "a"), (1, "a")), same_payload(True, 1)
    (False, False, True, False)
    """
    if a is b:
        return True
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_payload, a, b))
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack(">d", a) == struct.pack(">d", b)
    if isinstance(a, complex):
        return same_payload(a.real, b.real) and same_payload(a.imag, b.imag)
    if isinstance(a, Opaque):
        return a.original is not None and a.original is b.original
    if isinstance(a, Graph):
        return True  # its body is compared with the blocks
    return bool(a == b)
