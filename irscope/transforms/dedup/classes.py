"""Equivalence classes for every relation of the ladder, each built from the classes of the previous relation.

Hash first, then prove: a piece joins a class only by a `Match` with its first member. From one step to the next only first
members are compared, so a coarser step costs less, and a class never splits again: any two of its members are connected by a
chain of matches. For `alpha`, equal keys (`form.Keys`) are the proof, which saves most pieces the form and the match;
for `symbols`, pieces with a key have no names that could be exchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from irscope._base.running import counted, without_collector
from irscope.ir import Node
from irscope.transforms.dedup.form import Keys, Token, fingerprint
from irscope.transforms.dedup.matching import match
from irscope.transforms.dedup.piece import RANK, RELATIONS, Piece, Relation

Members = tuple[Node | str, ...]


class Ladder:
    """The classes of some pieces by each relation, computed on first use."""

    def __init__(self, pieces: Mapping[Node | str, Piece]) -> None:
        self.pieces = pieces
        self._place = {member: place for place, member in enumerate(pieces)}
        self._known: dict[Relation, list[Members]] = {}
        self._class_of: dict[Relation, dict[Node | str, Members]] = {}

    def classes(self, relation: Relation) -> list[Members]:
        """The members of each class in program order; the classes are in program order of their first members."""
        known = self._known.get(relation)
        if known is None:
            with without_collector():
                known = self._known[relation] = self._join(relation)
        return known

    @property
    def holds_groups(self) -> bool:
        """Whether the pieces are fusion groups."""
        return any(piece.group is not None for piece in self.pieces.values())

    def class_of(self, member: Node | str, relation: Relation) -> Members:
        """The class of a piece."""
        known = self._class_of.get(relation)
        if known is None:
            known = self._class_of[relation] = {one: members for members in self.classes(relation) for one in members}
        return known[member]

    def within(self, members: Members, relation: Relation) -> list[Members]:
        """The classes of a finer relation into which a class splits."""
        return list(dict.fromkeys(self.class_of(member, relation) for member in members))

    def fingerprint(self, members: Members, relation: Relation) -> bytes:
        """The fingerprint of the first member of a class."""
        return fingerprint(self.pieces[members[0]], relation)

    @cached_property
    def _keys(self) -> dict[Node | str, tuple[Token, ...] | None]:
        keys = Keys()
        return {member: keys.key(piece) for member, piece in counted(self.pieces.items(), "comparing pieces")}

    def _join(self, relation: Relation) -> list[Members]:
        """Join classes pairwise within each bucket of equal fingerprints, which nearly always becomes one class."""
        if RANK[relation] <= RANK["alpha"]:
            before: list[Members] = [(member,) for member in self.pieces]
        else:
            before = self.classes(RELATIONS[RANK[relation] - 1])
        made, rest = self._split_by_keys(before, relation)
        buckets: dict[bytes, list[list[Members]]] = {}
        for members in counted(rest, f"classes by {relation}"):
            piece = self.pieces[members[0]]
            found = buckets.setdefault(fingerprint(piece, relation), [])
            for joined in found:
                if match(self.pieces[joined[0][0]], piece, relation) is not None:
                    joined.append(members)
                    break
            else:
                found.append([members])
        made += [self._in_order(joined) for found in buckets.values() for joined in found]
        return sorted(made, key=lambda members: self._place[members[0]])

    def _split_by_keys(self, before: list[Members], relation: Relation) -> tuple[list[Members], list[Members]]:
        """The classes that keys decide, and the previous ones that they do not decide."""
        if relation not in ("alpha", "symbols"):
            return [], before
        rest = [members for members in before if self._keys[members[0]] is None]
        if relation == "symbols":
            return [members for members in before if self._keys[members[0]] is not None], rest
        found: dict[tuple[Token, ...], list[Node | str]] = {}
        for member, key in self._keys.items():
            if key is not None:
                found.setdefault(key, []).append(member)
        return list(map(tuple, found.values())), rest

    def _in_order(self, joined: list[Members]) -> Members:
        if len(joined) == 1:
            return joined[0]
        return tuple(sorted((member for members in joined for member in members), key=self._place.__getitem__))
