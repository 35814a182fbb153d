"""What may share memory with a value: a sentence, an alias set, and the points-to graph around it."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, islice
from typing import Literal, NamedTuple

from irscope._base.words import plural
from irscope.analysis.alias import AliasDb
from irscope.ir import Value
from irscope.report.view_models import AliasDetail, PointsToView

_MOST_ELEMENTS = 40
"""The most elements in one picture, nearest first."""
_MOST_NAMED = 6

Kind = Literal["value", "content", "location", "wildcard"]


class _Shared(NamedTuple):
    """The part of the details that all values with one alias set share."""

    values: tuple[Value, ...]
    ids: list[int]
    writer_ids: list[int]
    first_writer: str


class AliasViews:
    """Alias details of the values of one graph; each set is computed once, not per value."""

    def __init__(self, db: AliasDb) -> None:
        self.db = db
        self._names = db.graph.names
        self._sets: dict[Hashable, _Shared] = {}
        self._targets_of: dict[int, Mapping[int, None]] = {}
        self._held_in: dict[int, Mapping[int, None]] = {}

    def detail(self, value: Value) -> AliasDetail | None:
        """The alias detail of a value; None for numbers and other types that are copied and never shared.

        All values with the same alias set get the same list objects, which must not be changed.
        """
        if not self.db.is_memory(value):
            return None
        shared = self._shared(value)
        return AliasDetail(
            summary=self._summary(value, shared), alias_set=shared.ids, writers=shared.writer_ids, points_to=self._around(value)
        )

    def _shared(self, value: Value) -> _Shared:
        key = self.db.same_alias_set(value)
        found = self._sets.get(key)
        if found is None:
            others, writers = self.db.alias_set(value), self.db.writers(value)
            ids = [other.id for other in others], [node.id for node in writers]
            first = self.db.node_words(writers[0]) if writers else ""
            found = self._sets[key] = _Shared(others, *ids, first)
        return found

    def _summary(self, value: Value, shared: _Shared) -> str:
        name = f"%{self._names[value]}"
        others = list(islice((other for other in shared.values if other is not value), _MOST_NAMED))
        count = len(shared.values) - 1
        if not count:
            sentence = f"{name} shares memory with no other value"
        elif count == 1:
            sentence = f"{name} may share memory with %{self._names[others[0]]}, because {self.db.explain(value, others[0]).because}"
        else:
            listed = ", ".join(f"%{self._names[other]}" for other in others)
            more = f" and {count - _MOST_NAMED:,} more" if count > _MOST_NAMED else ""
            sentence = f"{name} may share memory with {listed}{more}"
        if not shared.writer_ids:
            return f"{sentence}. Nothing writes it."
        return f"{sentence}. {plural(len(shared.writer_ids), 'node')} may write it, the first is {shared.first_writer}."

    @cached_property
    def _above(self) -> Mapping[int, list[int]]:
        above: dict[int, list[int]] = {}
        for source, targets in self.db.sealed.targets.items():
            for target in targets:
                above.setdefault(target, []).append(source)
        return above

    @cached_property
    def _inside(self) -> Mapping[int, list[int]]:
        """The class of a container, mapped to the classes of its contents or fields."""
        sealed = self.db.sealed
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
        for element in range(len(self.db.sealed.labels)):
            members.setdefault(self.db.sealed.class_of[element], []).append(element)
        return members

    @cached_property
    def _values(self) -> Mapping[int, list[Value]]:
        """The values of each class: several share an element if they are always the same object."""
        values: dict[int, list[Value]] = {}
        for value, element in self.db.sealed.element_of.items():
            values.setdefault(self.db.sealed.class_of[element], []).append(value)
        return values

    def _around(self, value: Value) -> PointsToView:
        """The classes near that of a value, breadth first: down to its locations, and up to other values that may be there."""
        sealed = self.db.sealed
        element = sealed.element_of.get(value)
        if element is None:
            return PointsToView(labels=[f"%{self._names[value]}"], kinds=["location"], records=[value.id], edges=[], contains=[])
        places = self._nearest(sealed.class_of[element])
        found = {place: number for number, place in enumerate(places)}
        return PointsToView(
            labels=[self._label(place, value) for place in places],
            kinds=[self._kind(place) for place in places],
            records=[self._record(place, value) for place in places],
            edges=[[found[a], found[b]] for a in places for b in self._among(found, self._targets_of, a, sealed.targets)],
            contains=[[found[a], found[b]] for a in places for b in self._among(found, self._held_in, a, self._inside) if a != b],
        )

    def _nearest(self, start: int) -> list[int]:
        """A class and those near it, breadth first, up to the limit of one picture."""
        places, found = [start], {start}
        for place in places:  # grows during the loop
            near = chain(self.db.sealed.targets.get(place, ()), self._above.get(place, ()), self._inside.get(place, ()))
            for other in near:
                if len(places) == _MOST_ELEMENTS:
                    return places
                if other not in found:
                    found.add(other)
                    places.append(other)
        return places

    def _among(
        self, shown: Mapping[int, int], known: dict[int, Mapping[int, None]], place: int, near: Mapping[int, Iterable[int]]
    ) -> Iterator[int]:
        """The classes near one that are shown, found through the smaller of both collections. Those near are an ordered set, built
        once in `known`: a class may have a hundred thousand neighbours."""
        if place not in known:
            known[place] = dict.fromkeys(near.get(place, ()))
        places = known[place]
        return (other for other in places if other in shown) if len(places) < len(shown) else (p for p in shown if p in places)

    def _label(self, place: int, asked: Value) -> str:
        values = self._values.get(place, [])
        if values:
            first = asked if self._place(asked) == place else values[0]
            names = [f"%{self._names[first]}"]
            names += [f"%{self._names[other]}" for other in values[:3] if other is not first]
            shown = names[:3]
            return " ≡ ".join(shown) + (f" and {len(values) - len(shown):,} more" if len(values) > len(shown) else "")
        return self.db.place_words(self.db.sealed.labels[self._members[place][0]])

    def _place(self, value: Value) -> int | None:
        element = self.db.sealed.element_of.get(value)
        return None if element is None else self.db.sealed.class_of[element]

    def _record(self, place: int, asked: Value) -> int:
        if self._place(asked) == place:
            return asked.id
        values = self._values.get(place, [])
        return values[0].id if values else 0

    def _kind(self, place: int) -> Kind:
        sealed = self.db.sealed
        label = sealed.labels[self._members[place][0]]
        if isinstance(label, Value) or place in self._values:
            return "value" if place in sealed.targets else "location"
        return "content" if label.kind in ("contents", "field", "attribute", "slot", "objects") else "wildcard"
