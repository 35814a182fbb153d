"""One place where two pieces differ: where it is, and what stands there in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from irscope.ir import Node, Opaque, TensorData, Type, Value
from irscope.ops.registry import schema_of

__all__ = ["Hole", "HoleKind", "Site", "SlotPair", "hole_of", "operand_name", "told"]

HoleKind = Literal[
    "name", "symbol", "constant", "attribute", "type", "op", "operand", "count", "result", "extent", "size", "stride", "layout",
    "dtype",
]  # fmt: skip


class Site(NamedTuple):
    """A place in the left one of two pieces, the same for every piece that is matched with it."""

    subject: Node | Value | str
    """The node; of a part of a type the value; of what is said of the piece itself a name."""
    part: str
    """`operand`, `type`, or the name of an attribute."""
    place: int
    """Which operand; 0 for what has one part."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody looks for here
    """Within that part: the axis of an extent, the place in a list."""


class SlotPair(NamedTuple):
    """A part that a relation takes out, and what stands there in the left and in the right piece."""

    kind: HoleKind
    site: Site
    left: Any
    right: Any


@dataclass(frozen=True)
class Hole:
    """One place where two pieces differ."""

    kind: HoleKind
    place: str
    """Where, in words: the op and the operand."""
    left: str
    right: str
    site: Site | None = field(default=None, compare=False)
    """The place itself; None for a difference of structure."""
    values: tuple[Any, Any] = field(default=(None, None), compare=False)
    """What stands there."""

    def __str__(self) -> str:
        return f"{self.place}: {self.left} against {self.right}"


def hole_of(pair: SlotPair, words: str) -> Hole:
    """A slot with different values as a hole; `words` say where it is."""
    return Hole(pair.kind, words, told(pair.left), told(pair.right), pair.site, (pair.left, pair.right))


def operand_name(node: Node, index: int) -> str:
    """An operand in words: the argument's name where the op has a schema."""
    schema = schema_of(node)
    if schema is not None and index < len(schema.arguments):
        return f"{schema.arguments[index].name!r} of {node.op}"
    return f"operand {index} of {node.op}"


def told(payload: Any) -> str:
    """A payload in at most sixty characters.

    >>> told(0.5), told((1, 2))
    ('0.5', '(1, 2)')
    """
    if isinstance(payload, TensorData) and payload.array is not None and payload.array.size == 1:
        payload = payload.array.item()
    text = payload.text if isinstance(payload, Opaque) else str(payload) if isinstance(payload, Type) else repr(payload)
    return text if len(text) <= 60 else f"{text[:57]}..."


def first_told(holes: Sequence[Hole], most: int = 3) -> str:
    """The first holes in a line, and how many more there are."""
    more = f"; and {len(holes) - most} more" if len(holes) > most else ""
    return "; ".join(map(str, holes[:most])) + more
