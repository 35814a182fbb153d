"""What names, attributes, types and constants of two pieces have to do with each other: equal, equal but for slots, or not.

A name that a piece declares may stand for another name of the other piece, if the same one stands for it everywhere and what
the two mean corresponds: the bodies behind them are compared like everything else. It is a bijection, so no two names become
one. Names that are declared outside of the pieces mean the same for both, and must be the same.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from irscope.ir import Graph, Opaque, Type
from irscope.transforms.dedup.encoding import (
    Slot,
    leaf_slots,
    role_of_attr,
    spell_leaf,
    spell_type,
    split_text,
    type_slots,
)
from irscope.transforms.dedup.flow import Leaf
from irscope.transforms.dedup.piece import NO_BLOCK, Body, Piece, symbols_in, without_symbols
from irscope.transforms.dedup.steps import RANK, Relation

__all__ = ["SymbolMap", "pair_attributes", "pair_leaves", "pair_types", "same_payload"]

Pairs = list[tuple[Slot, Slot]]
_ABSENT: Final = Opaque("nothing")


class SymbolMap:
    """Which name of the right piece each name of the left one stands for, and the bodies that are still to be compared."""

    def __init__(self, left: Piece, right: Piece, relation: Relation) -> None:
        self.left, self.right = left, right
        self.to: dict[str, str] = {}
        self._back: dict[str, str] = {}
        self.pending: list[tuple[Body, Body]] = []
        self._exact = RANK[relation] < RANK["symbols"]
        self.roots = [
            name for ours, theirs in zip(left.roots, right.roots, strict=False)
            for name in (ours,) if self._pair(ours, theirs, exact=relation == "text")
        ]  # fmt: skip

    def agrees(self) -> bool:
        """Whether all roots correspond, each with the one at its place."""
        return len(self.roots) == len(self.left.roots) == len(self.right.roots)

    def same(self, ours: str, theirs: str) -> bool:
        """Whether two texts are the same but for names that may stand for each other."""
        x, y = symbols_in(ours), symbols_in(theirs)
        if len(x) != len(y) or without_symbols(ours) != without_symbols(theirs):
            return False
        return all(self._pair(one, other, exact=self._exact) for one, other in zip(x, y, strict=True))

    def _pair(self, ours: str, theirs: str, *, exact: bool) -> bool:
        if ours in self.to or theirs in self._back:
            return self.to.get(ours) == theirs and self._back.get(theirs) == ours
        here, there = self.left.named.get(ours), self.right.named.get(theirs)
        if here is None or there is None:
            return here is there and ours == theirs
        if (exact and ours != theirs) or len(here) != len(there):
            return False
        if ours != theirs and not self.left.roots and all(body.block is NO_BLOCK for body in here):
            return False  # a global of the module around both: to write another one is another thing to do
        self.to[ours], self._back[theirs] = theirs, ours
        if here is not there or self.left is self.right or not self._closed(ours):
            self.pending.extend(zip(here, there, strict=True))
        return True

    def _closed(self, name: str) -> bool:
        """Whether what a name means, the same thing on both sides, refers to no further name."""
        return not any(body.called for body in self.left.named[name])


def pair_types(x: Type, y: Type, relation: Relation) -> Pairs | None:
    """The slots of two types; None if the types differ in what the relation keeps."""
    if x is y:
        slots = type_slots(x, relation)
        return list(zip(slots, slots, strict=True))
    if spell_type(x, relation) != spell_type(y, relation):
        return None
    return list(zip(type_slots(x, relation), type_slots(y, relation), strict=True))


def pair_leaves(x: Leaf, y: Leaf, relation: Relation) -> Pairs | None:
    """The slots of two constants; None if they differ in what the relation keeps."""
    types = pair_types(x.type, y.type, relation)
    if types is None or x.role != y.role:
        return None
    if spell_leaf(x.payload, x.role, relation) != spell_leaf(y.payload, y.role, relation):
        return None
    ours, theirs = leaf_slots(x.payload, x.role, relation), leaf_slots(y.payload, y.role, relation)
    if not ours and not theirs and not same_payload(x.payload, y.payload):
        return None  # the digests of two tensors may be equal, the tensors are compared
    return list(zip(ours, theirs, strict=True))


def pair_attributes(
    a: Mapping[str, Any], b: Mapping[str, Any], relation: Relation, symbols: SymbolMap
) -> tuple[dict[str, Pairs], str | None]:
    """The slots of each attribute; and the first attribute that differs in what the relation keeps."""
    found: dict[str, Pairs] = {}
    for key in sorted({*a, *b}):
        pairs = _pair(key, a.get(key, _ABSENT), b.get(key, _ABSENT), relation, symbols)
        if pairs is None:
            return found, key
        if pairs:
            found[key] = [(Slot(x.kind, i, x.value), Slot(y.kind, i, y.value)) for i, (x, y) in enumerate(pairs)]
    return found, None


def _pair(key: str, x: Any, y: Any, relation: Relation, symbols: SymbolMap) -> Pairs | None:
    """The slots of one attribute, from left to right."""
    found: Pairs = []
    todo: list[tuple[str, Any, Any]] = [(key, x, y)]
    while todo:
        name, ours, theirs = todo.pop()
        inner = _parts(name, ours, theirs)
        if inner is not None:
            todo.extend(reversed(inner))
            continue
        pairs = _pair_plain(name, ours, theirs, relation, symbols)
        if pairs is None:
            return None
        found.extend(pairs)
    return found


def _parts(name: str, x: Any, y: Any) -> list[tuple[str, Any, Any]] | None:
    """The parts of two containers of one size."""
    if isinstance(x, tuple | list) and isinstance(y, tuple | list) and len(x) == len(y):
        return [(name, ours, theirs) for ours, theirs in zip(x, y, strict=True)]
    if isinstance(x, Mapping) and isinstance(y, Mapping) and x.keys() == y.keys():
        return [(key, x[key], y[key]) for key in sorted(x)]
    return None


def _pair_plain(name: str, x: Any, y: Any, relation: Relation, symbols: SymbolMap) -> Pairs | None:
    if isinstance(x, str) and isinstance(y, str):
        (ours, slots), (theirs, others) = split_text(x, relation), split_text(y, relation)
        literal = x.startswith('"') or y.startswith('"') or "@" not in x
        if ours != theirs if literal else not symbols.same(ours, theirs):
            return None
        return list(zip(slots, others, strict=True))
    role = role_of_attr(name, x)
    if (
        role != "structure"
        and role == role_of_attr(name, y)
        and spell_leaf(x, role, relation) == spell_leaf(y, role, relation)
    ):
        slots, others = tuple(leaf_slots(x, role, relation)), tuple(leaf_slots(y, role, relation))
        if slots or others:
            return list(zip(slots, others, strict=True))
    return [] if same_payload(x, y) else None


def same_payload(a: Any, b: Any) -> bool:
    """Whether two constants are the same, to the bit and in type.

    >>> same_payload(1, 1.0), same_payload(0.0, -0.0), same_payload((1, "a"), (1, "a")), same_payload(True, 1)
    (False, False, True, False)
    """
    if a is b:
        return True
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_payload, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_payload(a[key], b[key]) for key in a)
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


def same_identities(xs: Sequence[Any], ys: Sequence[Any]) -> bool:
    """Whether the same results are one value on both sides."""
    left: dict[Any, int] = {}
    right: dict[Any, int] = {}
    pairs = enumerate(zip(xs, ys, strict=True))
    return all(left.setdefault(x, place) == right.setdefault(y, place) for place, (x, y) in pairs)
