"""Sorts constants into classes by content, by one of five nested relations, with queries like those of `Dedup`.

    tied        one memory, as a whole or a view of it: stored once already
    equal       the same element type, shape and elements, to the bit
    transposed  the same elements with the two axes exchanged
    cast        one is the result of converting the other
    part        one's elements are consecutive elements of the other

A class is a connected component of such pairs (`sharing` finds one for each constant, with an earlier or larger one), so each
step only joins classes of the previous step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from irscope._base.verdict import Verdict, no, yes
from irscope._base.words import each, plural
from irscope.errors import ArgumentError, UnknownName, UnknownNumber, loading
from irscope.ir import Graph, Module, Value
from irscope.transforms.dedup.constants.across import merge_constants_of_all
from irscope.transforms.dedup.constants.merging import STEPS, merge_constants, step_of
from irscope.transforms.dedup.constants.sharing import Constants, ConstantStep, Sharing, find_constants
from irscope.transforms.dedup.constants.stored import Stored
from irscope.transforms.dedup.holes import Hole, first_told
from irscope.transforms.dedup.rewrite import Applied

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ConstantClass", "ConstantDedup", "ConstantStep", "constant_classes"]

_GIVES_UP: Final[Mapping[ConstantStep, str]] = {
    "tied": "nothing",
    "equal": "that one of them could be changed and not the other",
    "transposed": "contiguous loads of one of them",
    "cast": "the element type: a conversion wherever one of them is read",
    "part": "an alignment and a memory of its own",
}


@dataclass(frozen=True)
class ConstantClass:
    """A class of constants, all of which follow from one of them."""

    index: int
    """The place among the classes; the class that saves most bytes is first."""
    members: tuple[str, ...]
    """The names, in program order."""
    representative: str
    """The constant to keep, from which all others follow."""
    bytes_saved: int

    def __len__(self) -> int:
        return len(self.members)


@dataclass(frozen=True, eq=False)
class ConstantDedup:
    """The constants of a program and their classes."""

    source: Graph | Module
    relation: ConstantStep
    found: Constants = field(repr=False)

    @property
    def note(self) -> str:
        """One sentence that says what the pieces are."""
        return f"{each(len(self.found.all), 'constant')} of the program is a piece"

    @cached_property
    def classes(self) -> tuple[ConstantClass, ...]:
        """The classes by bytes saved, the most first; then by number of members, then in program order."""
        made, shared = [], self._shared(self.relation)
        for members in self._classes(self.relation):
            keep = next(one for one in members if one not in shared)
            saved = sum(self._of[one].bytes_saved for one in members if one is not keep)
            made.append(([one.name for one in members], keep.name, saved))
        made.sort(key=lambda one: (-one[2], -len(one[0])))
        return tuple(ConstantClass(i, tuple(names), keep, saved) for i, (names, keep, saved) in enumerate(made))

    def ladder(self) -> pd.DataFrame:
        """One row for each step: the number of classes, the bytes saved by storing one constant for each, and what it gives up."""
        with loading("pandas"):
            from irscope._base.tables import Table

        rows = []
        for step in STEPS:
            classes = self._classes(step)
            saved = sum(found.bytes_saved for found in self._shared(step).values())
            rows.append([step, len(self.found.all), len(classes), max(map(len, classes), default=0), saved, _GIVES_UP[step]])
        columns = ["relation", "pieces", "classes", "largest", "bytes saved", "gives up"]
        return Table(rows, columns=columns).set_index("relation")

    def table(self) -> pd.DataFrame:
        """One row per class: the number of members, the one to keep and how the others follow from it, and the bytes saved."""
        with loading("pandas"):
            from irscope._base.tables import Table

        rows = []
        for cls in self.classes:
            kept = self._named[cls.representative]
            how = dict.fromkeys(self._of[self._named[name]].how for name in cls.members if name != cls.representative)
            rows.append([
                cls.index, len(cls), cls.representative, kept.kind, kept.data.dtype, tuple(kept.data.shape), ", ".join(how),
                cls.bytes_saved,
            ])  # fmt: skip
        columns = ["class", "members", "representative", "kind", "type", "shape", "how", "bytes saved"]
        return Table(rows, columns=columns).set_index("class")

    def class_of(self, constant: Value | str) -> ConstantClass:
        """The class of a constant, by its name or its value."""
        name = self._constant(constant).name
        return next(cls for cls in self.classes if name in cls.members)

    def difference(self, a: Value | str, b: Value | str) -> Verdict:
        """Whether two constants are the same by this relation and how one follows from the other; if not, where they differ."""
        left, right = self._constant(a), self._constant(b)
        chain = self._chain(left, right, self.relation)
        if chain is not None:
            because = "; ".join(map(str, chain)) or f"%{left.name} is one constant"
            return yes(because, *chain)
        holes = _holes(left, right)
        return no(f"%{left.name} and %{right.name} differ in {first_told(holes)}", *holes)

    def why_not(self, a: Value | str, b: Value | str) -> Verdict:
        """Whether two constants are the same by this relation; if not, by which they are, and what that relation gives up."""
        left, right = self._constant(a), self._constant(b)
        later = STEPS[STEPS.index(self.relation) + 1 :]
        if self._chain(left, right, self.relation) is None:
            for step in later:
                chain = self._chain(left, right, step)
                if chain is not None:
                    cost = f"which gives up {_GIVES_UP[step]}"
                    both = f"%{left.name} and %{right.name} are the same only from step {step!r} on"
                    return no(f"{both}, {cost}: {'; '.join(map(str, chain))}", step, *chain)
        return self.difference(a, b)

    def holes(self, cls: ConstantClass | int) -> pd.DataFrame:
        """The differences between the members of a class, one column for each: type, shape, and how it follows from which other."""
        with loading("pandas"):
            from irscope._base.tables import Table

        if isinstance(cls, int):
            if not 0 <= cls < len(self.classes):
                raise UnknownNumber(f"there is no class {cls}", hint=f"there are {len(self.classes)}, counted from 0")
            cls = self.classes[cls]
        members = [self._named[name] for name in cls.members]
        sharings = [self._of.get(one) if one.name != cls.representative else None for one in members]
        rows: dict[str, list[Any]] = {
            "type": [one.data.dtype for one in members],
            "shape": [tuple(one.data.shape) for one in members],
            "how": ["kept" if found is None else found.how for found in sharings],
            "of": ["" if found is None else found.other.name for found in sharings],
            "from": [0 if found is None else found.offset for found in sharings],
        }
        return Table(rows.values(), index=list(rows), columns=list(cls.members))

    def apply(self, *, frozen: bool = False) -> Graph | Module:
        """The program with one constant for those that are the same by this relation, where that is not observable; `frozen`
        promises that parameters and buffers never change again. A constant that follows from another is computed from it, as a
        view where possible. `applied` says why the others stay."""
        return self.applied(frozen=frozen).program

    def applied(self, *, frozen: bool = False) -> Applied:
        """Merge constants as `apply` does, and report what was done with each, and why others stay."""
        if isinstance(self.source, Module):
            program, remarks = merge_constants_of_all(self.source, frozen=frozen, step=self.relation)
            return Applied(program, remarks, None)
        record = merge_constants(self.source, frozen=frozen, step=self.relation)
        return Applied(record.after, tuple(map(record.told, record.remarks)), record)

    # -- pieces

    def _shared(self, step: ConstantStep) -> dict[Stored, Sharing]:
        return {found.constant: found for found in self.found.shared if STEPS.index(step_of(found)) <= STEPS.index(step)}

    @cached_property
    def _of(self) -> dict[Stored, Sharing]:
        return {found.constant: found for found in self.found.shared}

    @cached_property
    def _named(self) -> dict[str, Stored]:
        return {one.name: one for one in self.found.all}

    def _constant(self, constant: Value | str) -> Stored:
        found = None
        if isinstance(constant, str):
            found = self._named.get(constant.removeprefix("%"))
        else:
            found = next((one for one in self.found.all if one.where is constant), None)
        if found is None:
            some = ", ".join(f"%{name}" for name in list(self._named)[:5])
            raise UnknownName(f"there is no constant {constant!r} with elements", hint=f"the constants are {some}" if some else "")
        return found

    def _classes(self, step: ConstantStep) -> list[tuple[Stored, ...]]:
        """The classes in program order of their first members. The constant that another follows from itself follows from a third
        or is kept, so all members share the last constant of their chains."""
        shared = self._shared(step)
        classes: dict[Stored, list[Stored]] = {}
        for one in self.found.all:
            classes.setdefault(_last(_path(one, shared), one), []).append(one)
        return list(map(tuple, classes.values()))

    def _chain(self, a: Stored, b: Stored, step: ConstantStep) -> list[Sharing] | None:
        """How one follows from the other, or both from a third; None where they are in different classes."""
        shared = self._shared(step)
        ours, theirs = _path(a, shared), _path(b, shared)
        if _last(ours, a) is not _last(theirs, b):
            return None
        while ours and theirs and ours[-1] is theirs[-1]:
            ours.pop()
            theirs.pop()
        return [*ours, *theirs]

    def __len__(self) -> int:
        return len(self.classes)

    def __repr__(self) -> str:
        saved = sum(cls.bytes_saved for cls in self.classes)
        pieces = plural(len(self.found.all), "constant")
        return f"<Dedup of constants by {self.relation!r}: {pieces}, {plural(len(self), 'class', 'classes')}, {saved} bytes saved>"


def constant_classes(program: Graph | Module, relation: ConstantStep = "equal") -> ConstantDedup:
    """Returns the constants of a program in classes by a step.

    >>> import numpy as np, irscope as irs
    >>> w = np.arange(24, dtype=np.float32).reshape(2, 12)
    >>> d = constant_classes(irs.Module({}, constants={"w": w, "copy": w.copy(), "half": w.astype(np.float16)}))
    >>> [cls.members for cls in d.classes], d.classes[0].bytes_saved
    ([('w', 'copy'), ('half',)], 96)
    >>> print(d.why_not("half", "copy").because)
    %half and %copy are the same only from step 'cast' on, which gives up the element type: a conversion wherever one of them is read: \
%half is, as float16, what one gets of %w; %copy equals %w
    """
    if relation not in STEPS:
        raise ArgumentError(f"there is no relation {relation!r} of constants", hint=f"choose one of {', '.join(STEPS)}")
    return ConstantDedup(program, relation, find_constants(program))


def _path(one: Stored, shared: Mapping[Stored, Sharing]) -> list[Sharing]:
    """The chain from a constant to the one that it finally follows from."""
    path: list[Sharing] = []
    while one in shared:
        path.append(shared[one])
        one = shared[one].other
    return path


def _last(path: Iterable[Sharing], one: Stored) -> Stored:
    for found in path:
        one = found.other
    return one


def _holes(left: Stored, right: Stored) -> list[Hole]:
    """The differences of two constants: type and shape, or the number of different elements and the first of them."""
    ours, theirs = left.data, right.data
    holes = [Hole("dtype", "the element type", ours.dtype, theirs.dtype)] if ours.dtype != theirs.dtype else []
    if tuple(ours.shape) != tuple(theirs.shape):
        holes.append(Hole("extent", "the shape", str(tuple(ours.shape)), str(tuple(theirs.shape))))
    if holes or ours.array is None or theirs.array is None:
        return holes
    unlike = np.flatnonzero(left.rows != right.rows)
    if not len(unlike):
        return [Hole("attribute", "the memory", f"%{left.name}", f"%{right.name}")]
    first = tuple(int(place) for place in np.unravel_index(int(unlike[0]), ours.array.shape))
    where = f"{len(unlike)} of {left.rows.size} elements, the first at {list(first)}"
    return [Hole("constant", where, str(ours.array[first]), str(theirs.array[first]))]
