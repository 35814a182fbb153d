"""Queries about two pieces: the bijection by a relation, their differences, and the finest relation by which they are the same."""

from __future__ import annotations

from dataclasses import dataclass

from irscope.ir import Node, Value
from irscope.ir.text import print_node
from irscope.transforms.dedup.holes import Hole
from irscope.transforms.dedup.listing import Listing
from irscope.transforms.dedup.matching import Match, match
from irscope.transforms.dedup.pairing import same_payload
from irscope.transforms.dedup.piece import Piece
from irscope.transforms.dedup.steps import RANK, RELATIONS, Relation

__all__ = ["Difference", "Hole", "bijection", "differences", "excerpt", "meeting", "same_payload"]


@dataclass(frozen=True)
class Difference:
    """All holes of two pieces with the same structure, or the first structural difference of two others."""

    holes: tuple[Hole, ...]
    alike: bool
    """Whether ops and operands correspond throughout, so that only constants, types and names differ."""
    apart: tuple[Node | None, Node | None] = (None, None)
    """The nodes at which different structures diverge."""


def bijection(left: Piece, right: Piece, relation: Relation) -> dict[Value, Value] | None:
    """Returns the value of the right piece for each value of the left one, or None when the relation does not hold.

    From `order` on, it contains only values that the results need, and equal values are merged where that is allowed.
    """
    found = match(left, right, relation)
    return None if found is None else dict(found.values)


def differences(left: Piece, right: Piece, relation: Relation = "alpha") -> Difference:
    """Returns the differences of two pieces, in listed order."""
    walk = Listing(left, right, relation).run()
    return Difference(tuple(walk.holes), walk.alike, walk.apart)


def meeting(left: Piece, right: Piece, since: Relation = "text") -> Match | None:
    """Returns the match by the finest relation, from `since` on, by which two pieces are the same; None if there is none."""
    for relation in RELATIONS[RANK[since] :]:
        found = match(left, right, relation)
        if found is not None:
            return found
    return None


def excerpt(left: Piece, right: Piece, apart: tuple[Node | None, Node | None]) -> str:
    """Returns the two lines at which pieces diverge, as a clause; empty where there is no such line."""
    lines = [_line(piece, node) for piece, node in zip((left, right), apart, strict=True)]
    return f", at `{lines[0]}` and at `{lines[1]}`" if any(apart) else ""


def _line(piece: Piece, node: Node | None) -> str:
    if node is None:
        return "the end"
    bodies = [piece.body, *(body for bodies in piece.named.values() for body in bodies)]
    names = next((body.graph.names for body in bodies if node in body.graph.position), piece.graph.names)
    text = print_node(node, names).strip().partition("\n")[0]
    return text if len(text) <= 120 else f"{text[:117]}..."
