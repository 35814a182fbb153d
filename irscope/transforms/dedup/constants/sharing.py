"""Finds constants that another constant of the program equals, contains as a part, or yields by a cast.

For each constant, it finds the first of these that holds, with an earlier or larger one:

    tied       the same memory with the same shape and strides: stored once already
    view       memory inside the other's: stored once already
    equal      the same element type, shape and elements, bit by bit (so 0.0 and -0.0 differ, and a NaN equals the same NaN)
    transposed the same elements with the two axes exchanged
    cast       the other's elements, converted to this element type, are its elements bit by bit
    part       its elements are consecutive elements of the other, from some element on

These hold for the present contents; whether two may be merged is decided in `merging`, by strides, writes and training.

The constant that another follows from has more bytes, or as many and comes earlier; so there are no cycles, and constants are in
one class by a step if, by that step and finer ones, they finally follow from the same constant.

Elements are hashed to select what to compare, and compared exactly. They are read once for their digest, and only where another
constant has as many of the same type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from irscope._base.words import plural
from irscope.errors import ArgumentError, loading
from irscope.ir import Graph, Module
from irscope.transforms.dedup.constants.casts import converted, is_castable
from irscope.transforms.dedup.constants.parts import parts_of
from irscope.transforms.dedup.constants.stored import Stored, digest_of, stored_in

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ConstantStep", "Constants", "Sharing", "find_constants"]

ConstantStep = Literal["tied", "equal", "transposed", "cast", "part"]
"""The steps of the ladder for constants (`classes`)."""
How = Literal["tied", "view", "equal", "transposed", "cast", "part"]


@dataclass(frozen=True, slots=True)
class Sharing:
    """A constant whose elements another constant contains, too."""

    constant: Stored
    how: How
    other: Stored
    offset: int = 0
    """The start in the other: for a view in bytes, for a part in elements."""

    @property
    def bytes_saved(self) -> int:
        """The bytes that need not be stored; 0 for memory that is shared already."""
        return 0 if self.how in ("tied", "view") else self.constant.nbytes

    def __str__(self) -> str:
        verb = {
            "tied": "is tied to", "view": "is a view of", "equal": "equals", "transposed": "is the transpose of",
            "cast": f"is, as {self.constant.data.dtype}, what one gets of", "part": "is a part of",
        }[self.how]  # fmt: skip
        where = {"part": f" from element {self.offset} on", "view": f", {self.offset} bytes in"}.get(self.how, "")
        return f"%{self.constant.name} {verb} %{self.other.name}{where}"


@dataclass(frozen=True)
class Constants:
    """The constants of a program, and which of them are stored twice."""

    all: tuple[Stored, ...]
    shared: tuple[Sharing, ...]
    """The sharings in program order of the constant."""

    @property
    def bytes(self) -> int:
        """The bytes of all constants, with tied ones and views counted once."""
        again = {found.constant for found in self.shared if found.how in ("tied", "view")}
        return sum(one.nbytes for one in self.all if one not in again)

    @property
    def bytes_saved(self) -> int:
        """The bytes that need not be stored."""
        return sum(found.bytes_saved for found in self.shared)

    def table(self) -> pd.DataFrame:
        """One row for each constant that another contains, too."""
        with loading("pandas"):
            from irscope._base.tables import Table

        rows = [
            {
                "constant": found.constant.name, "kind": found.constant.kind, "type": found.constant.data.dtype,
                "shape": tuple(found.constant.data.shape), "how": found.how, "other": found.other.name,
                "offset": found.offset, "bytes saved": found.bytes_saved,
            } for found in self.shared
        ]  # fmt: skip
        columns = ["constant", "kind", "type", "shape", "how", "other", "offset", "bytes saved"]
        return Table(rows, columns=columns)

    def __repr__(self) -> str:
        return (
            f"<Constants: {plural(len(self.all), 'constant')} of {self.bytes} bytes, {len(self.shared)} of them held by others, "
            f"{self.bytes_saved} bytes to save>"
        )


def find_constants(program: Graph | Module | Any) -> Constants:
    """Returns the constants of a program, and those that are the same as others, parts of others, or casts of others.

    Constants are parameters and buffers bound to inputs, tensors in the program, and a module's data, with their present
    contents. Linear in their bytes, times the number of element types that occur with one shape.

    >>> import numpy as np, irscope as irs
    >>> w = np.arange(24, dtype=np.float32).reshape(2, 12)
    >>> m = irs.Module({}, constants={"w": w, "copy": w.copy(), "half": w.astype(np.float16), "row": w[1].copy()})
    >>> for found in find_constants(m).shared:
    ...     print(found)
    %copy equals %w
    %half is, as float16, what one gets of %w
    %row is a part of %w from element 12 on
    """
    if not isinstance(program, Graph | Module):
        program = getattr(program, "graph", program)
    if not isinstance(program, Graph | Module):
        raise ArgumentError(
            f"constants are those of a Graph, a Fusion or a Module, not of {type(program).__name__}",
            hint="irs.load(program, *example_arguments) makes a Graph of a model or a file",
        )
    every = tuple(one for one in stored_in(program) if one.data.array is not None and one.data.array.size)
    known: dict[Stored, Sharing] = {}
    for search in (_by_memory, _by_content, _by_casts, _by_parts):
        own = [one for one in every if one not in known or known[one].how in ("transposed", "cast")]  # these have their own elements
        for found in search(own):
            known.setdefault(found.constant, found)
    return Constants(every, tuple(known[one] for one in every if one in known))


def _by_memory(constants: Sequence[Stored]) -> Iterator[Sharing]:
    """Yields tied constants and views, by a sweep over their address ranges; only constants without gaps contain views."""
    inputs: dict[object, Stored] = {}
    for one in constants:
        if inputs.setdefault(one.where, one) is not one:  # another name of the same input
            yield Sharing(one, "tied", inputs[one.where])
    placed = [
        (one.memory, number, one) for number, one in enumerate(constants) if one.memory is not None and inputs[one.where] is one
    ]
    placed.sort(key=lambda entry: (entry[0][1], -entry[0][2], entry[1]))
    holder: tuple[int, int, Stored] | None = None
    same: dict[object, Stored] = {}
    for (first, low, high), _, one in placed:
        key = (first, one.data.dtype, tuple(one.data.shape), one.strides)
        tied = same.setdefault(key, one)
        if tied is not one:
            yield Sharing(one, "tied", tied)
        elif holder is not None and high <= holder[1]:
            yield Sharing(one, "view", holder[2], first - holder[0])
        elif high - low == one.nbytes and (holder is None or high > holder[1]):
            holder = (low, high, one)


def _by_content(constants: Sequence[Stored]) -> Iterator[Sharing]:
    """Yields constants with the same elements, in the same order or with the two axes exchanged."""
    groups: dict[tuple[str, int], list[Stored]] = {}
    for one in constants:
        groups.setdefault((one.data.dtype, one.rows.size), []).append(one)
    for group in groups.values():
        if len(group) > 1:
            yield from _equal_or_transposed(group)


def _equal_or_transposed(group: Sequence[Stored]) -> Iterator[Sharing]:
    buckets: dict[tuple[tuple[int, ...], bytes], list[Stored]] = {}
    shapes = {tuple(one.data.shape) for one in group}
    for one in group:
        shape = tuple(one.data.shape)
        found = buckets.setdefault((shape, one.digest), [])
        first = next((other for other in found if other.equals(one)), None)
        if first is not None:
            yield Sharing(one, "equal", first)
            continue
        if len(shape) == 2 and 1 not in shape and shape[::-1] in shapes:
            before = buckets.get((shape[::-1], digest_of(one.turned)), [])
            other = next((other for other in before if np.array_equal(other.rows, one.turned)), None)
            if other is not None:
                yield Sharing(one, "transposed", other)
        found.append(one)  # a later one may equal it


def _by_casts(constants: Sequence[Stored]) -> Iterator[Sharing]:
    """Yields constants that are conversions of others; the other has more bytes, or as many and comes earlier."""
    shapes: dict[tuple[int, ...], list[Stored]] = {}
    for one in constants:
        if is_castable(one.data.dtype):
            shapes.setdefault(tuple(one.data.shape), []).append(one)
    for group in shapes.values():
        types = {one.data.dtype for one in group}
        if len(types) > 1:
            yield from _casts(sorted(group, key=lambda one: -one.nbytes), types)


def _casts(group: Sequence[Stored], types: set[str]) -> Iterator[Sharing]:
    known: dict[tuple[str, bytes], list[Stored]] = {}
    for one in group:
        others = known.get((one.data.dtype, one.digest), [])
        other = next((other for other in others if np.array_equal(converted(other, one.data.dtype), one.rows)), None)
        if other is not None:
            yield Sharing(one, "cast", other)
            continue
        for dtype in types - {one.data.dtype}:
            known.setdefault((dtype, digest_of(converted(one, dtype))), []).append(one)


def _by_parts(constants: Sequence[Stored]) -> Iterator[Sharing]:
    groups: dict[str, list[Stored]] = {}
    for one in constants:
        groups.setdefault(one.data.dtype, []).append(one)
    for group in groups.values():
        for place, (holder, offset) in parts_of([one.rows for one in group]).items():
            yield Sharing(group[place], "part", group[holder], offset)
