"""Two pieces side by side: corresponding lines share a row, with the holes marked in each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from irscope._base.escaping import shortened
from irscope.ir import Node, Value
from irscope.report.view_models import BesideLine, BesideView, Word
from irscope.report.words import short_type
from irscope.transforms.dedup import Match, Piece
from irscope.transforms.dedup.holes import SlotPair, told

__all__ = ["beside_view"]

_MOST_LINES: Final = 160
_LONGEST: Final = 200

Spot = tuple[Node | Value, str, int]
"""A place in a piece: a node's operand or attribute, or a value's type."""
Pair = tuple[Node | None, Node | None]


def beside_view(left: Piece, right: Piece, found: Match | None, rows: Sequence[SlotPair], because: str) -> BesideView:
    """The view of two pieces, matched or not. `rows` are the holes in the order of the hole table; without a match, lines
    correspond by their ops."""
    holes: dict[Spot, int] = {}
    others: dict[Spot, int] = {}
    for number, pair in enumerate(rows):
        subject, part, place, _ = pair.site
        if isinstance(subject, str):
            continue
        holes.setdefault((subject, part, place), number)
        spot = _spot_in(found, pair) if found is not None else None
        if spot is not None:
            others.setdefault(spot, number)
    one, other = _Printer(left, holes), _Printer(right, others)
    pairs = _matched(left, right, found) if found is not None else _alike(left, right)
    lines = [BesideLine(left=one.head(), right=other.head(), left_node=0, right_node=0)]
    lines += [
        BesideLine(left=one.line(a), right=other.line(b), left_node=a.id if a is not None else 0, right_node=b.id if b is not None else 0)
        for a, b in pairs[:_MOST_LINES]
    ]
    return BesideView(left=left.label, right=right.label, because=because, lines=lines, left_out=max(0, len(pairs) - _MOST_LINES))


def _matched(left: Piece, right: Piece, found: Match) -> list[Pair]:
    """The pairs in the order of the left piece; nodes of the right one that its results do not need come last."""
    pairs: list[Pair] = [(node, found.nodes.get(node)) for node in left.nodes]
    met = {node for _, node in pairs}
    return pairs + [(None, node) for node in right.nodes if node not in met]


def _alike(left: Piece, right: Piece) -> list[Pair]:
    """The longest runs of equal ops. Quadratic, so at most a few hundred lines are compared."""
    one, other = left.nodes[: 2 * _MOST_LINES], right.nodes[: 2 * _MOST_LINES]
    pairs: list[Pair] = []
    at, to = 0, 0
    runs = SequenceMatcher(None, [node.op for node in one], [node.op for node in other], autojunk=False)
    for a, b, size in runs.get_matching_blocks():
        pairs += [(node, None) for node in one[at:a]]
        pairs += [(None, node) for node in other[to:b]]
        pairs += zip(one[a : a + size], other[b : b + size], strict=True)
        at, to = a + size, b + size
    return pairs


def _spot_in(found: Match, pair: SlotPair) -> Spot | None:
    """The place in the right piece that corresponds to a hole of the left one."""
    subject, part, place, _ = pair.site
    if isinstance(subject, Value):
        value = found.values.get(subject)
        return None if value is None else (value, part, place)
    node = found.nodes.get(subject) if isinstance(subject, Node) else None
    return None if node is None else (node, part, place)


def _constants(piece: Piece) -> Mapping[Value, Any]:
    bodies = [piece.body, *(body for name in piece.roots for body in piece.named[name])]
    return {value: payload for body in bodies for value, payload in body.constants.items()}


class _Printer:
    """Prints the lines of one piece, with constants inline."""

    def __init__(self, piece: Piece, holes: Mapping[Spot, int]) -> None:
        self._piece = piece
        self._holes = holes
        self._payloads = _constants(piece)
        self._names: dict[Value, str] = dict(piece.graph.names)
        for name in piece.roots:
            for body in piece.named[name]:
                self._names.update(body.graph.names)

    def head(self) -> list[Word]:
        """The parameters of the piece."""
        return [_plain("("), *_listed([self._declared(value) for value in self._piece.block.params]), _plain(")")]

    def line(self, node: Node | None) -> list[Word]:
        """The line of a node; empty for None."""
        if node is None:
            return []
        results = _listed([self._declared(value) for value in node.outputs])
        operands = _listed([[self._operand(node, k)] for k in range(len(node.inputs))])
        attrs = [
            Word(text=shortened(f", {key}={told(value)}", _LONGEST), value=0, hole=self._holes.get((node, key, 0), -1))
            for key, value in (node.attrs or {}).items()
        ]
        return [*results, _plain(" = " if results else ""), _plain(node.op), _plain("("), *operands, *attrs, _plain(")")]

    def _declared(self, value: Value) -> list[Word]:
        hole = self._holes.get((value, "type", 0), -1)
        kind = Word(text=shortened(short_type(value.type), _LONGEST), value=0, hole=hole)
        return [Word(text=self._name(value), value=value.id, hole=-1), _plain(" : "), kind]

    def _operand(self, node: Node, place: int) -> Word:
        value = node.inputs[place]
        text = shortened(told(self._payloads[value]), _LONGEST) if value in self._payloads else self._name(value)
        return Word(text=text, value=value.id, hole=self._holes.get((node, "operand", place), -1))

    def _name(self, value: Value) -> str:
        return f"%{self._names.get(value, value.name)}"


def _listed(parts: Sequence[list[Word]]) -> list[Word]:
    return [word for k, part in enumerate(parts) for word in ([_plain(", "), *part] if k else part)]


def _plain(text: str) -> Word:
    return Word(text=text, value=0, hole=-1)
