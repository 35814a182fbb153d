"""Pairs names, attributes, types and constants of two pieces: equal, equal up to slots, or different; and all of two pieces in
listed order (`Listing`), which finds a bijection of their values, or their differences.

A name that a piece declares may correspond to another name of the other piece, if it does so everywhere and the meanings
correspond: the bodies behind the names are compared like everything else. It is a bijection, so no two names become one.
Names that are declared outside the pieces mean the same for both, and must be equal.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from irscope._base.words import plural
from irscope.ir import Block, Graph, Node, Opaque, Type, Value
from irscope.ir.structural import SideBySide, Structural, first_unlike
from irscope.transforms.dedup.encoding import Slot, role_of_attr, split_leaf, split_text, split_type
from irscope.transforms.dedup.piece import (
    NO_BLOCK,
    RANK,
    Body,
    Hole,
    HoleKind,
    Piece,
    Relation,
    Site,
    all_nodes,
    apart_from_symbols,
    attrs_of,
    format_difference,
    operand_name,
)
from irscope.transforms.dedup.terms import Leaf

Pairs = list[tuple[Slot, Slot]]
ABSENT: Final = Opaque("nothing")
"""Compared with an attribute that only one of two nodes has."""


class SymbolMap:
    """Maps each name of the left piece to the corresponding one of the right, and collects the bodies still to be compared."""

    def __init__(self, left: Piece, right: Piece, relation: Relation) -> None:
        self.left, self.right = left, right
        self.to: dict[str, str] = {}
        self._back: dict[str, str] = {}
        self.pending: list[tuple[Body, Body]] = []
        self._relation = relation
        self._exact = RANK[relation] < RANK["symbols"]
        self.agrees = len(left.roots) == len(right.roots) and all(
            self._pair(ours, theirs, exact=relation == "text") for ours, theirs in zip(left.roots, right.roots, strict=True)
        )
        """Whether all roots correspond, each with the root at the same place."""

    def bodies(self, left: Body, right: Body) -> Iterator[tuple[Body, Body]]:
        """Yields the bodies to compare, each pair once: these two, and those behind all names that have been paired by then."""
        done: dict[tuple[Body, Body], None] = {}
        self.pending.insert(0, (left, right))
        while self.pending:
            pair = self.pending.pop(0)
            if pair not in done:
                done[pair] = None
                yield pair

    def pair_attribute(self, name: str, x: Any, y: Any) -> Pairs | None:
        """Returns the slots of an attribute, from left to right; None if both differ in a part that the relation keeps. Attributes nest
        a few levels at most."""
        parts: list[tuple[str, Any, Any]] | None = None
        if isinstance(x, tuple | list) and isinstance(y, tuple | list) and len(x) == len(y):
            parts = [(name, ours, theirs) for ours, theirs in zip(x, y, strict=True)]
        elif isinstance(x, Mapping) and isinstance(y, Mapping) and x.keys() == y.keys():
            parts = [(key, x[key], y[key]) for key in sorted(x)]
        if parts is not None:
            found: Pairs = []
            for part in parts:
                pairs = self.pair_attribute(*part)
                if pairs is None:
                    return None
                found += pairs
            return found
        if isinstance(x, str) and isinstance(y, str):
            (ours, slots), (theirs, others) = split_text(x, self._relation), split_text(y, self._relation)
            literal = x.startswith('"') or y.startswith('"') or "@" not in x
            if ours != theirs if literal else not self._same(ours, theirs):
                return None
            return list(zip(slots, others, strict=True))
        role = role_of_attr(name, x)
        if role != "structure" and role == role_of_attr(name, y):
            (ours_kept, slots), (theirs_kept, others) = (split_leaf(each, role, self._relation) for each in (x, y))
            if ours_kept == theirs_kept and (slots or others):
                return list(zip(slots, others, strict=True))
        return [] if same_bits(x, y) else None

    def _same(self, ours: str, theirs: str) -> bool:
        """Whether two texts are the same up to names that may correspond."""
        (between, x), (others, y) = apart_from_symbols(ours), apart_from_symbols(theirs)
        return between == others and all(self._pair(one, other, exact=self._exact) for one, other in zip(x, y, strict=True))

    def _pair(self, ours: str, theirs: str, *, exact: bool) -> bool:
        if ours in self.to or theirs in self._back:
            return self.to.get(ours) == theirs and self._back.get(theirs) == ours
        here, there = self.left.named.get(ours), self.right.named.get(theirs)
        if here is None or there is None:
            return here is there and ours == theirs
        if (exact and ours != theirs) or len(here) != len(there):
            return False
        if ours != theirs and not self.left.roots and all(body.block is NO_BLOCK for body in here):
            return False  # a global of the module around both: writing another global is a different effect
        self.to[ours], self._back[theirs] = theirs, ours
        if here is not there or self.left is self.right or any(body.called for body in here):  # shared ones that call none are the same
            self.pending.extend(zip(here, there, strict=True))
        return True


def pair_types(x: Type, y: Type, relation: Relation) -> Pairs | None:
    """Returns the slots of two types; None if the types differ in a part that the relation keeps."""
    (ours, slots), (theirs, others) = split_type(x, relation), split_type(y, relation)
    return list(zip(slots, others, strict=True)) if ours == theirs else None


def pair_leaves(x: Leaf, y: Leaf, relation: Relation) -> Pairs | None:
    """Returns the slots of two constants; None if they differ in a part that the relation keeps."""
    types = pair_types(x.type, y.type, relation)
    (ours, slots), (theirs, others) = (split_leaf(leaf.payload, leaf.role, relation) for leaf in (x, y))
    if types is None or ours != theirs or (x.role != y.role and (slots or others)):
        return None
    if not slots and not others and not same_bits(x.payload, y.payload):
        return None  # digests of different tensors may be equal, so the tensors themselves are compared
    return list(zip(slots, others, strict=True))


def same_bits(a: Any, b: Any) -> bool:
    """Whether two constants are the same, to the bit and in type.

    >>> same_bits(1, 1.0), same_bits(0.0, -0.0), same_bits((1, "a"), (1, "a")), same_bits(True, 1)
    (False, False, True, False)
    """
    if a is b:
        return True
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_bits, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_bits(a[key], b[key]) for key in a)
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack(">d", a) == struct.pack(">d", b)
    if isinstance(a, complex):
        return same_bits(a.real, b.real) and same_bits(a.imag, b.imag)
    if isinstance(a, Opaque):
        return a.original is not None and a.original is b.original
    if isinstance(a, Graph):
        return True  # its body is compared with the blocks
    return bool(a == b)


def same_identities(xs: Sequence[Any], ys: Sequence[Any]) -> bool:
    """Whether equal values are at the same places on both sides."""
    left: dict[Any, int] = {}
    right: dict[Any, int] = {}
    pairs = enumerate(zip(xs, ys, strict=True))
    return all(left.setdefault(x, place) == right.setdefault(y, place) for place, (x, y) in pairs)


# --- two pieces in listed order ---------------------------------------------------------------------------------------


class Listing(SideBySide):
    """A comparison of two pieces, node by node; it stops at the first structural difference and collects all others."""

    def __init__(self, left: Piece, right: Piece, relation: Relation) -> None:
        super().__init__()
        self.left, self.right, self.relation = left, right, relation
        self.holes: list[Hole] = []
        self.alike = True
        """Whether ops and operands correspond throughout, so that only constants, types and names differ."""
        self.apart: tuple[Node | None, Node | None] = (None, None)
        """The nodes at which the structures diverge."""
        self._read_by: dict[Value, tuple[Node, int]] | None = None

    def run(self) -> "Listing":
        """Compare the pieces and all bodies that they refer to."""
        self.symbols = SymbolMap(self.left, self.right, self.relation)
        if not self.symbols.agrees:
            ours, theirs = (", ".join(piece.roots[:4]) for piece in (self.left, self.right))
            self.holes.append(Hole("symbol", "the names from outside", ours, theirs))
            self.alike = False
            return self
        for left, right in self.symbols.bodies(self.left.body, self.right.body):
            self.left_names, self.right_names, self._block = left.graph.names, right.graph.names, left.block
            self._read_by = None
            self._attributes(left.attrs, right.attrs, "the group" if isinstance(self.left.member, Node) else "the piece")
            self.walk(left.block, right.block)
            if not self.alike:
                break
        return self

    def _name_of(self, constant: Value) -> str:
        """What a constant of the left body is to its first reader there: the graph knows no reader of a region's copy."""
        if self._read_by is None:
            reads = [(value, (node, index)) for node in all_nodes(self._block) for index, value in enumerate(node.inputs)]
            self._read_by = dict(reversed(reads))
        return operand_name(*self._read_by[constant]) if constant in self._read_by else "a constant"

    def stop(self, kind: Structural, one: Any, other: Any, place: int = 0) -> None:
        self.alike = False
        if isinstance(one, Node):
            self.apart = (one, other)
        match kind:
            case "parameters" | "results":
                ours, theirs = (str(len(block.params if kind == "parameters" else block.returns)) for block in (one, other))
                hole = Hole("count", f"number of {kind}", ours, theirs)
            case "nodes":
                hole = self._length_hole(one, other)
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

    def _length_hole(self, a: Block, b: Block) -> Hole:
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
            ours, theirs = a.get(key, ABSENT), b.get(key, ABSENT)
            if self.symbols.pair_attribute(key, ours, theirs) is not None:
                continue
            kind: HoleKind = "attribute"
            place = f"attribute {key!r} of {where if isinstance(where, str) else where.op}"
            if isinstance(where, Node) and where.op == "prim::Constant":
                kind, place = "constant", self._name_of(where.output)
            self.holes.append(Hole(kind, place, *format_difference(ours, theirs), Site(where, key, 0, 0), (a.get(key), b.get(key))))
