"""One place where two pieces differ: where it is, and what stands there in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from irscope._base.words import plural
from irscope.ir import Node, Opaque, TensorData, Type, Value
from irscope.ops.registry import schema_of

__all__ = ["Hole", "HoleKind", "Site", "SlotPair", "hole_of", "operand_name", "told", "told_apart"]

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
    return Hole(pair.kind, words, *told_apart(pair.left, pair.right), pair.site, (pair.left, pair.right))


def operand_name(node: Node, index: int) -> str:
    """An operand in words: the argument's name where the op has a schema."""
    schema = schema_of(node)
    if schema is not None and index < len(schema.arguments):
        return f"{schema.arguments[index].name!r} of {node.op}"
    return f"operand {index} of {node.op}"


def told(payload: Any) -> str:
    """A payload in at most sixty characters.

    >>> told(0.5), told((1, 2)), told(TensorData.of(np.full((2, 3), 0.5))), told(TensorData.of(np.arange(5)))
    ('0.5', '(1, 2)', '0.5 in all of float64[2, 3]', '0, 1, 2, … of int64[5]')
    """
    if isinstance(payload, TensorData) and payload.array is not None and payload.array.size:
        text = _told_tensor(payload, payload.array)
        return text if len(text) <= 60 else f"{text[:57]}..."
    text = payload.text if isinstance(payload, Opaque) else str(payload) if isinstance(payload, Type) else repr(payload)
    return text if len(text) <= 60 else f"{text[:57]}..."


def told_apart(left: Any, right: Any) -> tuple[str, str]:
    """Two payloads that differ; of tensors that differ in some elements the first of these.

    >>> told_apart(TensorData.of(np.arange(4)), TensorData.of(np.array([0, 1, 9, 8])))
    ('2 at [2]', '9 at [2], and 1 more element')
    >>> told_apart(0.5, 1)
    ('0.5', '1')
    """
    if isinstance(left, TensorData) and isinstance(right, TensorData) and (left.dtype, left.shape) == (right.dtype, right.shape):
        a, b = left.array, right.array
        if a is not None and b is not None and a.size > 1:
            unlike = np.flatnonzero((_bytes(a) != _bytes(b)).any(1))
            if 0 < len(unlike) < a.size:
                at = int(unlike[0])
                where = f"at [{', '.join(map(str, np.unravel_index(at, a.shape)))}]"
                more = f", and {plural(len(unlike) - 1, 'more element')}" if len(unlike) > 1 else ""
                return f"{_numbers(left.dtype, a, at)} {where}", f"{_numbers(right.dtype, b, at)} {where}{more}"
    return told(left), told(right)


def _told_tensor(payload: TensorData, array: np.ndarray[Any, Any]) -> str:
    if array.size == 1:
        return _numbers(payload.dtype, array, 0)
    what = f"{payload.dtype}[{', '.join(map(str, payload.shape))}]"
    elements = _bytes(array)
    if (elements == elements[0]).all():
        return f"{_numbers(payload.dtype, array, 0)} in all of {what}"
    return f"{_numbers(payload.dtype, array, 0, 3)}{', …' if array.size > 3 else ''} of {what}"


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of each element, a row each, in logical order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)


def _numbers(dtype: str, array: np.ndarray[Any, Any], first: int, count: int = 1) -> str:
    """Some elements in words; those of a bfloat16 lie there as bits."""
    some = array.reshape(-1)[first : first + count]
    if dtype == "bfloat16":
        some = (some.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return ", ".join(repr(one.item()) for one in some)


def first_told(holes: Sequence[Hole]) -> str:
    """The first three holes in a line, and how many more there are."""
    more = f"; and {len(holes) - 3} more" if len(holes) > 3 else ""
    return "; ".join(map(str, holes[:3])) + more
