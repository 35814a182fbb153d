"""What may share memory with one value, as a sentence, a set, and the part of the points-to graph around it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from irscope.analysis.alias import AliasDb
from irscope.ir import Value
from irscope.report.view_models import AliasDetail, PointsToView
from irscope.report.words import plural

__all__ = ["AliasViews"]

_MOST_ELEMENTS = 40
"""Elements in one picture; the nearest come first."""
_MOST_NAMED = 6

Kind = Literal["value", "content", "location", "wildcard"]


class AliasViews:
    """Alias details of the values of one graph."""

    def __init__(self, db: AliasDb) -> None:
        self._db = db
        self._names = db.graph.names

    def detail(self, value: Value) -> AliasDetail | None:
        """The alias detail of a value; None for numbers and the like, which are copied and never shared."""
        others = self._db.alias_set(value)
        if not self._db.locations(value):
            return None
        writers = self._db.writers(value)
        return AliasDetail(
            summary=self._summary(value, [other for other in others if other is not value]),
            alias_set=[other.id for other in others],
            writers=[node.id for node in writers],
            points_to=self._around(value),
        )

    def _summary(self, value: Value, others: list[Value]) -> str:
        name = f"%{self._names[value]}"
        if not others:
            told = f"{name} shares memory with no other value"
        elif len(others) == 1:
            told = f"{name} may share memory with %{self._names[others[0]]}, because {self._db.explain(value, others[0]).because}"
        else:
            listed = ", ".join(f"%{self._names[other]}" for other in others[:_MOST_NAMED])
            more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
            told = f"{name} may share memory with {listed}{more}"
        writers = self._db.writers(value)
        if not writers:
            return f"{told}. Nothing writes it."
        first = self._db.node_words(writers[0])
        return f"{told}. {plural(len(writers), 'node')} may write it, the first is {first}."

    @cached_property
    def _above(self) -> Mapping[int, list[int]]:
        above: dict[int, list[int]] = {}
        for source, targets in self._db.sealed.targets.items():
            for target in targets:
                above.setdefault(target, []).append(source)
        return above

    @cached_property
    def _inside(self) -> Mapping[int, list[int]]:
        """Class of a container to the classes of its contents or fields."""
        sealed = self._db.sealed
        inside: dict[int, list[int]] = {}
        for container, cell in sealed.cells.items():
            inside.setdefault(sealed.class_of[container], []).append(sealed.class_of[cell])
        for container, fields in sealed.fields.items():
            held = [sealed.class_of[field] for field in fields if field is not None]
            inside.setdefault(sealed.class_of[container], []).extend(held)
        return inside

    @cached_property
    def _members(self) -> Mapping[int, list[int]]:
        members: dict[int, list[int]] = {}
        for element in range(len(self._db.sealed.labels)):
            members.setdefault(self._db.sealed.class_of[element], []).append(element)
        return members

    @cached_property
    def _values(self) -> Mapping[int, list[Value]]:
        """The values of each class: several share an element when one always is the other."""
        values: dict[int, list[Value]] = {}
        for value, element in self._db.sealed.element_of.items():
            values.setdefault(self._db.sealed.class_of[element], []).append(value)
        return values

    def _around(self, value: Value) -> PointsToView:
        """The classes near a value's own, breadth first down to its locations and up to what else may be those."""
        sealed = self._db.sealed
        element = sealed.element_of.get(value)
        if element is None:
            return PointsToView(
                labels=[f"%{self._names[value]}"], kinds=["location"], records=[value.id], edges=[], contains=[]
            )
        places = [sealed.class_of[element]]
        found = {places[0]: 0}
        for place in places:  # grows while it is walked
            for other in (*sealed.targets.get(place, ()), *self._above.get(place, ()), *self._inside.get(place, ())):
                if len(places) < _MOST_ELEMENTS and other not in found:
                    found[other] = len(places)
                    places.append(other)
        return PointsToView(
            labels=[self._label(place, value) for place in places],
            kinds=[self._kind(place) for place in places],
            records=[self._record(place, value) for place in places],
            edges=[[found[a], found[b]] for a in places for b in sealed.targets.get(a, ()) if b in found],
            contains=[[found[a], found[b]] for a in places for b in self._inside.get(a, ()) if b in found and a != b],
        )

    def _label(self, place: int, asked: Value) -> str:
        values = self._values.get(place, [])
        if values:
            first = asked if asked in values else values[0]
            names = [f"%{self._names[first]}", *(f"%{self._names[other]}" for other in values if other is not first)]
            return " ≡ ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return self._db.place_words(self._db.sealed.labels[self._members[place][0]])

    def _record(self, place: int, asked: Value) -> int:
        values = self._values.get(place, [])
        return asked.id if asked in values else values[0].id if values else 0

    def _kind(self, place: int) -> Kind:
        sealed = self._db.sealed
        label = sealed.labels[self._members[place][0]]
        if isinstance(label, Value) or place in self._values:
            return "value" if place in sealed.targets else "location"
        return "content" if label.kind in ("contents", "field", "attribute", "slot", "objects") else "wildcard"
