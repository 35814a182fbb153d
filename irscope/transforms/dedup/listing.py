"""Compares two pieces in listed order: finds a bijection of their values, or their differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irscope._base.words import plural
from irscope.ir import Block, Node, Value
from irscope.ir.structural import SideBySide, Structural, first_unlike
from irscope.transforms.dedup.holes import Hole, HoleKind, Site, SlotPair, operand_name, told, told_apart
from irscope.transforms.dedup.pairing import SymbolMap, pair_attributes, pair_types
from irscope.transforms.dedup.piece import Body, Piece, attrs_of
from irscope.transforms.dedup.steps import Relation

__all__ = ["Listing"]


class Listing(SideBySide):
    """A comparison of two pieces, node by node; it stops at the first structural difference and collects all others."""

    def __init__(self, left: Piece, right: Piece, relation: Relation) -> None:
        super().__init__()
        self.left, self.right, self.relation = left, right, relation
        self.holes: list[Hole] = []
        self.slots: list[SlotPair] = []
        self.alike = True
        """Whether ops and operands correspond throughout, so that only constants, types and names differ."""
        self.apart: tuple[Node | None, Node | None] = (None, None)
        """The nodes at which the structures diverge."""

    def run(self) -> Listing:
        """Compare the pieces and all bodies that they refer to."""
        self.symbols = SymbolMap(self.left, self.right, self.relation)
        if not self.symbols.agrees():
            ours, theirs = (", ".join(piece.roots[:4]) for piece in (self.left, self.right))
            self.holes.append(Hole("symbol", "the names from outside", ours, theirs))
            self.alike = False
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
        self.walk(left.block, right.block)

    def stop(self, kind: Structural, one: Any, other: Any, place: int = 0) -> None:
        self.alike = False
        if isinstance(one, Node):
            self.apart = (one, other)
        match kind:
            case "parameters" | "results":
                ours, theirs = (str(len(block.params if kind == "parameters" else block.returns)) for block in (one, other))
                hole = Hole("count", f"number of {kind}", ours, theirs)
            case "nodes":
                hole = self._counted(one, other)
            case "op":
                hole = Hole("op", f"the node that produces value {len(self.partner)}", one.op, other.op)
            case "blocks":
                hole = Hole("count", f"blocks of {one.op}", str(len(one.blocks)), str(len(other.blocks)))
            case "arity":
                ours, theirs = (f"{plural(len(n.inputs), 'operand')} and {plural(len(n.outputs), 'result')}" for n in (one, other))
                hole = Hole("count", one.op, ours, theirs)
            case "operand" | "result":
                x, y = ((each.inputs if kind == "operand" else each.returns)[place] for each in (one, other))
                what = operand_name(one, place) if kind == "operand" else f"the results, number {place}"
                hole = Hole(kind, what, f"%{self.left_names.get(x, x.name)}", f"%{self.right_names.get(y, y.name)}")
        self.holes.append(hole)

    def _counted(self, a: Block, b: Block) -> Hole:
        """The hole where two blocks of different lengths diverge."""
        first = first_unlike(a, b)
        if first is not None:
            self.apart = (a.nodes[first], b.nodes[first])
            return Hole("op", f"node {first}", a.nodes[first].op, b.nodes[first].op)
        first = min(len(a.nodes), len(b.nodes))
        longer, side = (a, "left") if len(a.nodes) > first else (b, "right")
        rest = longer.nodes[first]
        self.apart = (rest, None) if side == "left" else (None, rest)
        what = f"number of nodes (only the {side} one goes on, with {rest.op})"
        return Hole("count", what, str(len(a.nodes)), str(len(b.nodes)))

    def same_types(self, x: Value, y: Value, what: str, place: int) -> bool:
        words = {"parameter": f"parameter {place}", "value from outside": "a value from outside"}.get(what, what)
        pairs = pair_types(x.type, y.type, self.relation)
        if pairs is None:
            site = Site(x, "type", 0, 0)
            self.holes.append(Hole("type", words, str(x.type), str(y.type), site, (x.type, y.type)))
        else:
            self.slots += [SlotPair(a.kind, Site(x, "type", 0, a.index), a.value, b.value) for a, b in pairs]
        if self.relation == "text":
            names = self.left_names.get(x, x.name), self.right_names.get(y, y.name)
            if names[0] != names[1]:
                self.holes.append(Hole("name", words, f"%{names[0]}", f"%{names[1]}"))
        return True

    def same_attributes(self, one: Node, other: Node) -> bool:
        self._attributes(attrs_of(one), attrs_of(other), one)
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
        """The use of a constant of the left piece, in words."""
        graph = self.left.graph
        for use in graph.users.get(value, ()):
            if isinstance(use.user, Node):
                return operand_name(use.user, use.index)
        return "a constant"
