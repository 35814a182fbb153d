"""Equivalence classes for every relation of the ladder, each made of the classes of the one before.

Hash first, then prove: a piece joins a class only by a `Match` with its first member. From one step to the next only first
members are compared, so a coarser step costs less, and a class never falls apart again: what two pieces have in common is
the chain of matches between them.
"""

from __future__ import annotations

from collections.abc import Mapping

from irscope.ir import Node
from irscope.transforms.dedup.canonical import fingerprint
from irscope.transforms.dedup.matching import match
from irscope.transforms.dedup.piece import Piece
from irscope.transforms.dedup.steps import RANK, RELATIONS, Relation

__all__ = ["Ladder", "Members"]

Members = tuple[Node | str, ...]


class Ladder:
    """The classes of some pieces by each relation, computed when they are asked for."""

    def __init__(self, pieces: Mapping[Node | str, Piece]) -> None:
        self.pieces = pieces
        self._place = {member: place for place, member in enumerate(pieces)}
        self._known: dict[Relation, list[tuple[Members, bytes]]] = {}

    def classes(self, relation: Relation) -> list[tuple[Members, bytes]]:
        """The members of each class in program order, and the fingerprint of the first; in program order of the first."""
        known = self._known.get(relation)
        if known is None:
            known = self._known[relation] = self._joined(relation)
        return known

    def _joined(self, relation: Relation) -> list[tuple[Members, bytes]]:
        """Pairwise within a bucket, whose members have equal fingerprints: nearly always they are one class."""
        if RANK[relation] <= RANK["alpha"]:
            before: list[Members] = [(member,) for member in self.pieces]
        else:
            before = [members for members, _ in self.classes(RELATIONS[RANK[relation] - 1])]
        buckets: dict[bytes, list[list[Members]]] = {}
        for members in before:
            piece = self.pieces[members[0]]
            found = buckets.setdefault(fingerprint(piece, relation), [])
            for joined in found:
                if match(self.pieces[joined[0][0]], piece, relation) is not None:
                    joined.append(members)
                    break
            else:
                found.append([members])
        made = [(self._in_order(joined), mark) for mark, found in buckets.items() for joined in found]
        return sorted(made, key=lambda entry: self._place[entry[0][0]])

    def _in_order(self, joined: list[Members]) -> Members:
        if len(joined) == 1:
            return joined[0]
        return tuple(sorted((member for members in joined for member in members), key=self._place.__getitem__))
