"""Maps operands of a loop nest to its iteration space: each operand dimension is indexed by a sum of scaled loops and a
constant.

`(d0, d1 * 2 + d3)` reads the second dimension in windows of `d3` with a stride of two. An operand is brought into the
iteration space with extent 1 for loops that do not index it: single loops permute dimensions, sums of two loops are
windows (`unfold`, a view), and anything else is gathered by the indices that the sums compute.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from irscope.frontends.mlir.emit import Emitter, dtype_of, shape_of
from irscope.frontends.mlir.meaning.shaping import along, iota, permuted, reshaped, sliced
from irscope.ir import Value

__all__ = ["Place", "in_loops", "places_of"]


class Place(NamedTuple):
    """The index expression of one dimension of an operand."""

    steps: tuple[tuple[int, int], ...]
    """Loops and their factors, each loop once."""
    start: int

    @property
    def loop(self) -> int | None:
        """The loop, if the expression is a single loop."""
        return self.steps[0][0] if len(self.steps) == 1 and self.steps[0][1] == 1 and not self.start else None


def places_of(text: str) -> list[Place] | None:
    """Returns the index expression of each dimension in a map; None if it does more than add and multiply by positive numbers.

    >>> places_of("affine_map<(d0, d1, d2) -> (d2, d0 * 2 + d1, 0)>")[1]
    Place(steps=((0, 2), (1, 1)), start=0)
    >>> places_of("affine_map<(d0, d1) -> (d0 floordiv 2)>") is None
    True
    """
    found = re.fullmatch(r"affine_map<\([^)]*\) -> \((.*)\)>", text)
    words = [word.strip() for word in found.group(1).split(",") if word.strip()] if found is not None else ["?"]
    places = [_place(word) for word in words]
    known = [place for place in places if place is not None]
    return known if len(known) == len(places) else None


def _place(word: str) -> Place | None:
    steps: dict[int, int] = {}
    start = 0
    for term in word.split(" + "):
        found = re.fullmatch(r"d(\d+)(?: \* (\d+))?|(\d+)", term)
        if found is None:
            return None
        loop, step, number = found.groups()
        if number is not None:
            start += int(number)
        elif int(loop) in steps or step == "0":
            return None
        else:
            steps[int(loop)] = int(step or 1)
    return Place(tuple(sorted(steps.items(), key=lambda item: -item[1])), start)


def in_loops(e: Emitter, value: Value, places: Sequence[Place], extents: Sequence[int]) -> Value:
    """Returns an operand with the loops as its dimensions."""
    loops = [loop for place in places for loop, _ in place.steps]
    if len(set(loops)) != len(loops) or any(len(place.steps) > 2 for place in places):
        return _gathered(e, value, places, extents)
    dims: list[int | None] = []
    windows = []
    for axis, place in enumerate(places):
        if place.loop is None:
            value = _ranged(e, value, axis, place, extents)
        dims.append(place.steps[0][0] if place.steps else None)
        if len(place.steps) == 2:
            windows.append((axis, place))
    for axis, ((wide, far), (narrow, near)) in [(axis, place.steps) for axis, place in windows]:
        before = shape_of(value)
        assert before is not None  # checked by the caller
        reach = (extents[narrow] - 1) * near + 1
        shape = [*before[:axis], extents[wide], *before[axis + 1 :], reach]
        value = e.tensor("unfold", value, axis, reach, far, dtype=dtype_of(value), shape=shape)
        value = sliced(e, value, len(dims), 0, reach, near)
        dims.append(narrow)
    order = sorted((axis for axis, loop in enumerate(dims) if loop is not None), key=lambda axis: dims[axis] or 0)
    fixed = [axis for axis, loop in enumerate(dims) if loop is None]
    shape = [extent if axis in loops else 1 for axis, extent in enumerate(extents)]
    return reshaped(e, permuted(e, value, [*order, *fixed]), shape)


def _ranged(e: Emitter, value: Value, axis: int, place: Place, extents: Sequence[int]) -> Value:
    """Returns the part of a dimension that is read: every n-th element, or the range that the windows cover."""
    if not place.steps:
        return sliced(e, value, axis, place.start, place.start + 1)
    last = place.start + sum((extents[loop] - 1) * step for loop, step in place.steps)
    return sliced(e, value, axis, place.start, last + 1, place.steps[0][1] if len(place.steps) == 1 else 1)


def _gathered(e: Emitter, value: Value, places: Sequence[Place], extents: Sequence[int]) -> Value:
    """Gathers the operand's elements at the computed indices."""
    rank, at = len(extents), list[Value]()
    for place in places:
        terms = [e.scalar(place.start, "int64")] if place.start or not place.steps else []
        for loop, step in place.steps:
            row = along(e, iota(e, extents[loop]), loop, rank)
            terms.append(e.like("mul", row, step) if step != 1 else row)
        made, *others = terms
        for other in others:
            made = _sum(e, other, made)
        at.append(made)
    used = {loop for place in places for loop, _ in place.steps}
    shape = [extent if axis in used else 1 for axis, extent in enumerate(extents)]
    return e.tensor("index", value, at, dtype=dtype_of(value), shape=shape if used else ())


def _sum(e: Emitter, a: Value, b: Value) -> Value:
    shapes = [list(shape_of(value) or ()) for value in (a, b)]
    rank = max(map(len, shapes))
    rows = [[1] * (rank - len(shape)) + shape for shape in shapes]
    return e.tensor("add", a, b, 1, dtype="int64", shape=[max(pair) for pair in zip(*rows, strict=True)])
