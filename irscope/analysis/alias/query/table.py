"""The rows of an alias db's table: each value that is memory, its alias set, its locations, and its writers.

Values of one class have the same answers, which are computed once. Classes of one region may each meet nearly all others
(an if that merges a running value, again and again), so that all answers together can be quadratic in the program.
Rows are exact as long as the work is within a fixed multiple of the program; later rows describe the whole region:
`up to 5000 values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from typing import Final, NamedTuple, TypeVar

from irscope._base.words import plural
from irscope.analysis.alias.points_to import Label
from irscope.analysis.alias.query.answers import Answers
from irscope.ir import Node, Value

__all__ = ["COLUMNS", "rows"]

COLUMNS: Final = ("value", "type", "alias set", "locations", "writers")
_MOST: Final = 20
"""The number of items shown of a longer list, followed by the number of the rest."""
_WORK: Final = 50
"""How many classes are visited per value of the program, on average, before rows become coarse."""


class _Row(NamedTuple):
    """The cells that all values of a class have in common, in words."""

    alias_set: str
    locations: str
    writers: str


T = TypeVar("T")


def rows(db: Answers, wanted: Iterable[Value]) -> list[dict[str, str]]:
    """A row for each of these values."""
    answers = _Table(db)
    return [dict(zip(COLUMNS, (f"%{db.graph.names[v]}", str(v.type), *answers.of(v)), strict=True)) for v in wanted]


class _Table:
    def __init__(self, db: Answers) -> None:
        self._db = db
        self._class_of, self._element_of = db.sealed.class_of, db.sealed.element_of
        self._order = {value: index for index, value in enumerate(db.graph.values())}
        self._values: dict[int, list[Value]] = {}
        for value in self._order:
            place = self._place(value)
            if place is not None and db.is_memory(value):
                self._values.setdefault(place, []).append(value)
        self._writers: dict[int, list[Node]] = {}
        for write in db.sealed.writes:
            self._writers.setdefault(self._class_of[write.element], []).append(write.node)
        self._known: dict[int, _Row] = {}
        self._work = 10_000 + _WORK * len(self._order)

    def _place(self, value: Value) -> int | None:
        element = self._element_of.get(value)
        return None if element is None else self._class_of[element]

    def of(self, value: Value) -> _Row:
        place = self._place(value)
        if place is None:  # it has no other name
            return _Row(self._name(value), self._name(value), "")
        if place not in self._known:
            self._known[place] = self._exact(place) if self._work > 0 else self._coarse(place)
        return self._known[place]

    def _name(self, value: Value) -> str:
        return f"%{self._db.graph.names[value]}"

    def _exact(self, place: int) -> _Row:
        meeting = self._db.reach.all_meeting(place)
        leaves = sorted(self._db.reach.leaves(place))
        self._work -= len(meeting)
        values = [value for other in meeting for value in self._values.get(other, ())]
        self._work -= len(values)
        writers = {node for other in meeting for node in self._writers.get(other, ())}
        position = self._db.graph.position
        return _Row(
            _listed(nsmallest(_MOST, values, key=self._order.__getitem__), len(values), self._name),
            _listed(leaves[:_MOST], len(leaves), lambda leaf: self._db.place_words(self._db.label_of(leaf))),
            _listed(nsmallest(_MOST, writers, key=position.__getitem__), len(writers), self._db.node_words),
        )

    def _coarse(self, place: int) -> _Row:
        """A row computed from the region as a whole, without visiting its classes."""
        values, writers = self._regions[self._db.region(place)]
        leaves = self._db.reach.few_leaves(place, _MOST)
        locations: Sequence[Label] = [self._db.label_of(leaf) for leaf in leaves or ()]
        return _Row(
            f"up to {plural(values, 'value')}",
            _listed(locations, len(locations), self._db.place_words) if leaves else f"more than {_MOST}",
            f"up to {plural(writers, 'node')}" if self._db.sealed.is_written[place] else "",
        )

    @cached_property
    def _regions(self) -> Mapping[int, tuple[int, int]]:
        """For each region, the number of its values and of the nodes that write in it."""
        found: dict[int, tuple[int, int]] = {}
        for place in {*self._values, *self._writers}:
            values, writers = found.get(region := self._db.region(place), (0, 0))
            found[region] = (
                values + len(self._values.get(place, ())),
                writers + len(set(self._writers.get(place, ()))),
            )
        return found


def _listed(first: Sequence[T], count: int, words: Callable[[T], str]) -> str:
    """The first things in words, and how many more there are."""
    more = f" and {count - len(first)} more" if count > len(first) else ""
    return ", ".join(map(words, first)) + more
