"""Two pieces side by side in listed order: a bijection of their values, or what keeps them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from irscope._base.words import plural
from irscope.ir import Block, Node, Value
from irscope.transforms.dedup.holes import Hole, HoleKind, Site, SlotPair, operand_name, told, told_apart
from irscope.transforms.dedup.pairing import SymbolMap, pair_attributes, pair_types
from irscope.transforms.dedup.piece import Body, Piece, attrs_of, inner_blocks
from irscope.transforms.dedup.steps import Relation

__all__ = ["Listing"]


@dataclass
class Listing:
    """Two pieces, node by node; stops at the first structural difference, collects the others."""

    left: Piece
    right: Piece
    relation: Relation
    partner: dict[Value, Value] = field(default_factory=dict)
    nodes: dict[Node, Node] = field(default_factory=dict)
    blocks: dict[Block, Block] = field(default_factory=dict)
    holes: list[Hole] = field(default_factory=list)
    slots: list[SlotPair] = field(default_factory=list)
    alike: bool = True
    """Whether ops and operands correspond throughout, so that only constants, types and names differ."""
    apart: tuple[Node | None, Node | None] = (None, None)
    """The nodes at which the pieces part."""
    _back: dict[Value, Value] = field(default_factory=dict)

    def run(self) -> Listing:
        """Compare everything."""
        self.symbols = SymbolMap(self.left, self.right, self.relation)
        if not self.symbols.agrees():
            ours, theirs = (", ".join(piece.roots[:4]) for piece in (self.left, self.right))
            self._stop(Hole("symbol", "the names from outside", ours, theirs))
            return self
        self.symbols.pending.insert(0, (self.left.body, self.right.body))
        done: set[tuple[Body, Body]] = set()
        while self.symbols.pending and self.alike:
            pair = self.symbols.pending.pop(0)
            if pair not in done:
                done.add(pair)
                self._body(*pair)
        return self

    def _body(self, left: Body, right: Body) -> None:
        self.left_names, self.right_names = left.graph.names, right.graph.names
        self._attributes(left.attrs, right.attrs, "the group" if isinstance(self.left.member, Node) else "the piece")
        pending: list[tuple[Block, Block, int]] = []
        if self._open(left.block, right.block):
            pending.append((left.block, right.block, 0))
        while pending and self.alike:
            a, b, start = pending.pop()
            for place in range(start, len(a.nodes)):
                one, other = a.nodes[place], b.nodes[place]
                if not self._node(one, other):
                    self.apart = (one, other)
                    return
                inner = list(zip(inner_blocks(one), inner_blocks(other), strict=True))
                if inner:
                    pending.append((a, b, place + 1))
                    for x, y in reversed(inner):
                        if not self._open(x, y):
                            self.apart = (one, other)
                            return
                        pending.append((x, y, 0))
                    break
            else:
                self._read(a.returns, b.returns, "the results", "result")

    def _open(self, a: Block, b: Block) -> bool:
        """Begin two blocks: parameters, and how many of each thing there are."""
        self.blocks[a] = b
        counts = (("parameters", a.params, b.params), ("results", a.returns, b.returns))
        for what, x, y in counts:
            if len(x) != len(y):
                return self._stop(Hole("count", f"number of {what}", str(len(x)), str(len(y))))
        if len(a.nodes) != len(b.nodes):
            return self._stop(self._counted(a, b))
        for place, (one, other) in enumerate(zip(a.params, b.params, strict=True)):
            self._define(one, other, f"parameter {place}")
        return True

    def _counted(self, a: Block, b: Block) -> Hole:
        """Where two blocks of different lengths part."""
        first = next((i for i, (x, y) in enumerate(zip(a.nodes, b.nodes, strict=False)) if x.op != y.op), None)
        if first is not None:
            self.apart = (a.nodes[first], b.nodes[first])
            return Hole("op", f"node {first}", a.nodes[first].op, b.nodes[first].op)
        first = min(len(a.nodes), len(b.nodes))
        longer, side = (a, "left") if len(a.nodes) > first else (b, "right")
        rest = longer.nodes[first]
        self.apart = (rest, None) if side == "left" else (None, rest)
        what = f"number of nodes (only the {side} one goes on, with {rest.op})"
        return Hole("count", what, str(len(a.nodes)), str(len(b.nodes)))

    def _node(self, one: Node, other: Node) -> bool:
        number = len(self.partner)
        if one.op != other.op:
            return self._stop(Hole("op", f"the node that makes value {number}", one.op, other.op))
        if len(one.inputs) != len(other.inputs) or len(one.outputs) != len(other.outputs):
            ours, theirs = (f"{plural(len(n.inputs), 'operand')} and {plural(len(n.outputs), 'result')}" for n in (one, other))
            return self._stop(Hole("count", one.op, ours, theirs))
        if len(inner_blocks(one)) != len(inner_blocks(other)):
            return self._stop(Hole("count", f"blocks of {one.op}", str(len(one.blocks)), str(len(other.blocks))))
        if not self._read(one.inputs, other.inputs, one, "operand"):
            return False
        self.nodes[one] = other
        self._attributes(attrs_of(one), attrs_of(other), one)
        for x, y in zip(one.outputs, other.outputs, strict=True):
            self._define(x, y, f"result of {one.op}")
        return True

    def _define(self, x: Value, y: Value, place: str) -> None:
        self.partner[x], self._back[y] = y, x
        pairs = pair_types(x.type, y.type, self.relation)
        if pairs is None:
            site = Site(x, "type", 0, 0)
            self.holes.append(Hole("type", place, str(x.type), str(y.type), site, (x.type, y.type)))
        else:
            self.slots += [SlotPair(a.kind, Site(x, "type", 0, a.index), a.value, b.value) for a, b in pairs]
        if self.relation == "text":
            names = self.left_names.get(x, x.name), self.right_names.get(y, y.name)
            if names[0] != names[1]:
                self.holes.append(Hole("name", place, f"%{names[0]}", f"%{names[1]}"))

    def _read(
        self, xs: Sequence[Value], ys: Sequence[Value], where: Node | str, kind: Literal["operand", "result"]
    ) -> bool:
        for place, (x, y) in enumerate(zip(xs, ys, strict=True)):
            if x not in self.partner and y not in self._back:
                self._define(x, y, "a value from outside")
            if self.partner.get(x) is not y or self._back.get(y) is not x:
                what = operand_name(where, place) if isinstance(where, Node) else f"{where}, number {place}"
                ours, theirs = self.left_names.get(x, x.name), self.right_names.get(y, y.name)
                return self._stop(Hole(kind, what, f"%{ours}", f"%{theirs}"))
        return True

    def _attributes(self, a: Mapping[str, Any], b: Mapping[str, Any], where: Node | str) -> None:
        for key in sorted({*a, *b}):
            ours = {key: a[key]} if key in a else {}
            theirs = {key: b[key]} if key in b else {}
            found, differs = pair_attributes(ours, theirs, self.relation, self.symbols)
            for x, y in found.get(key, ()):
                self.slots.append(SlotPair(x.kind, Site(where, key, 0, x.index), x.value, y.value))
            if differs is None:
                continue
            values = a.get(key), b.get(key)
            both = key in a and key in b
            one, other = told_apart(*values) if both else (told(side[key]) if key in side else "nothing" for side in (a, b))
            kind: HoleKind = "attribute"
            place = f"attribute {key!r} of {where if isinstance(where, str) else where.op}"
            if isinstance(where, Node) and where.op == "prim::Constant":
                kind, place = "constant", self._use_of(where.output)
            self.holes.append(Hole(kind, place, one, other, Site(where, key, 0, 0), values))

    def _use_of(self, value: Value) -> str:
        """Where a constant of the left piece goes, in words."""
        graph = self.left.graph
        for use in graph.users.get(value, ()):
            if isinstance(use.user, Node):
                return operand_name(use.user, use.index)
        return "a constant"

    def _stop(self, hole: Hole) -> bool:
        self.holes.append(hole)
        self.alike = False
        return False
