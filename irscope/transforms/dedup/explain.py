"""What keeps two pieces apart, in words: the lines at which they part."""

from __future__ import annotations

from irscope.ir import Node
from irscope.ir.text import print_node
from irscope.transforms.dedup.piece import Piece

__all__ = ["excerpt"]


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
