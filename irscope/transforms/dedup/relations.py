"""The proof that two pieces are the same in the shape that a question asks for: a bijection, or what keeps them apart, in words."""

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
    """All holes of two pieces that are built alike, or the first difference of two that are not."""

    holes: tuple[Hole, ...]
    alike: bool
    """Whether ops and operands correspond throughout, so that only constants, types and names differ."""
    apart: tuple[Node | None, Node | None] = (None, None)
    """Where two that are not built alike part."""


def bijection(left: Piece, right: Piece, relation: Relation) -> dict[Value, Value] | None:
    """Which value of the right piece each value of the left one is, or None when the relation does not hold.

    From `order` on, only what the results need is in it, and where equal values may be taken for one, they are.
    """
    found = match(left, right, relation)
    return None if found is None else dict(found.values)


def differences(left: Piece, right: Piece, relation: Relation = "alpha") -> Difference:
    """What keeps two pieces apart, in listed order."""
    walk = Listing(left, right, relation).run()
    return Difference(tuple(walk.holes), walk.alike, walk.apart)


def meeting(left: Piece, right: Piece, since: Relation = "text") -> Match | None:
    """The finest relation, from one on, by which two pieces are the same; None if they differ in structure."""
    for relation in RELATIONS[RANK[since] :]:
        found = match(left, right, relation)
        if found is not None:
            return found
    return None


def excerpt(left: Piece, right: Piece, apart: tuple[Node | None, Node | None]) -> str:
    """The two lines at which pieces part, as a clause; nothing where there is no such line."""
    lines = [_line(piece, node) for piece, node in zip((left, right), apart, strict=True)]
    return f", at `{lines[0]}` and at `{lines[1]}`" if any(apart) else ""


def _line(piece: Piece, node: Node | None) -> str:
    if node is None:
        return "the end"
    bodies = [piece.body, *(body for bodies in piece.named.values() for body in bodies)]
    names = next((body.graph.names for body in bodies if node in body.graph.position), piece.graph.names)
    text = print_node(node, names).strip().partition("\n")[0]
    return text if len(text) <= 120 else f"{text[:117]}..."
