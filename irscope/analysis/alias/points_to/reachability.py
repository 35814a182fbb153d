"""Reachability searches over a sealed points-to graph, to which every query reduces, with a bounded cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from irscope.analysis.alias.points_to.records import PointsTo
from irscope.analysis.alias.points_to.solver import partition

__all__ = ["Reachability"]

_KEPT: Final = 1 << 20
"""The number of members of reach sets that are cached; a deep chain of ifs must not cost quadratic memory."""


class Reachability:
    """Searches over one sealed graph.

    Two classes share memory if and only if they reach a common class, since every class is a location or reaches one.
    """

    def __init__(self, points_to: PointsTo) -> None:
        self._points_to = points_to
        self._below: dict[int, frozenset[int]] = {}
        self._below_inside: dict[int, frozenset[int]] = {}
        self._leaf_sets: dict[int, frozenset[int]] = {}

    def meet(self, a: int, b: int) -> bool:
        """Whether two classes may be the same memory."""
        if a == b:
            return True
        region, targets = self.region, self._points_to.targets
        if region[a] != region[b] or (a not in targets and b not in targets):
            return False
        if a not in targets:
            return a in self.below(b)
        if b not in targets:
            return b in self.below(a)
        return not self.below(a).isdisjoint(self.below(b))

    def meet_inside(self, a: int, b: int) -> bool:
        """Whether two classes, or anything they hold, may share memory."""
        region = self._region_inside
        if region[a] != region[b]:
            return False
        return a == b or not self._held(a).isdisjoint(self._held(b))

    def below(self, place: int) -> frozenset[int]:
        """The class and all that it may be."""
        return _search(place, (self._points_to.targets,), self._below)

    def _held(self, place: int) -> frozenset[int]:
        return _search(place, (self._points_to.targets, self.inside), self._below_inside)

    def leaves(self, place: int) -> list[int]:
        """The locations that a class may be."""
        return [here for here in self.below(place) if here not in self._points_to.targets]

    def leaf_set(self, place: int) -> frozenset[int]:
        """The locations that a class may be, as one object for all classes along a chain of views, which meet the same others."""
        known, targets = self._leaf_sets, self._points_to.targets
        todo = [place]
        while todo:
            here = todo[-1]
            below = targets.get(here, ())
            missing = [there for there in below if there not in known and there != here]
            if missing and here not in known:
                todo.extend(missing)
                continue
            todo.pop()
            if here not in known:
                sets = list({id(known[there]): known[there] for there in below if there != here}.values())
                known[here] = sets[0] if len(sets) == 1 else frozenset().union(*sets) if sets else frozenset((here,))
        return known[place]

    def few_leaves(self, place: int, limit: int) -> tuple[int, ...] | None:
        """The locations that a class may be; None if there are more than `limit`, or many classes in between."""
        targets = self._points_to.targets
        if place not in targets:
            return (place,)
        seen, todo, leaves = {place}, [place], list[int]()
        while todo:
            here = todo.pop()
            if here not in targets:
                leaves.append(here)
            for there in targets.get(here, ()):
                if there not in seen:
                    seen.add(there)
                    todo.append(there)
            if len(leaves) > limit or len(seen) > 8 * limit:
                return None
        return tuple(leaves)

    def all_meeting(self, place: int) -> set[int]:
        """All classes that share memory with this one: everything above everything below it."""
        found = set(self.below(place))
        todo = list(found)
        while todo:
            fresh = [above for above in self._above.get(todo.pop(), ()) if above not in found]
            found.update(fresh)
            todo.extend(fresh)
        return found

    @cached_property
    def _above(self) -> Mapping[int, Sequence[int]]:
        above: dict[int, list[int]] = {}
        for source, targets in self._points_to.targets.items():
            for target in targets:
                above.setdefault(target, []).append(source)
        return above

    @cached_property
    def region(self) -> Sequence[int]:
        """Maps a class to its region, a connected component of the graph: classes of two regions never share memory."""
        return partition(len(self._points_to.labels), self._points_to.targets)

    @cached_property
    def inside(self) -> Mapping[int, Sequence[int]]:
        """Maps a class to the classes of its contents: cells and tuple fields."""
        class_of, found = self._points_to.class_of, dict[int, dict[int, None]]()
        for element, cell in self._points_to.cells.items():
            found.setdefault(class_of[element], {})[class_of[cell]] = None
        for element, fields in self._points_to.fields.items():
            held = found.setdefault(class_of[element], {})
            held.update((class_of[field], None) for field in fields if field is not None)
        return {holder: tuple(held) for holder, held in found.items()}

    @cached_property
    def _region_inside(self) -> Sequence[int]:
        joined: dict[int, Sequence[int]] = dict(self._points_to.targets)
        for holder, held in self.inside.items():
            joined[holder] = (*joined.get(holder, ()), *held)
        return partition(len(self._points_to.labels), joined)


def _search(
    start: int, graphs: Sequence[Mapping[int, Sequence[int]]], memory: dict[int, frozenset[int]]
) -> frozenset[int]:
    known = memory.get(start)
    if known is not None:
        return known
    seen, todo = {start}, [start]
    while todo:
        here = todo.pop()
        for graph in graphs:
            for there in graph.get(here, ()):
                if there not in seen:
                    seen.add(there)
                    todo.append(there)
    if len(seen) * 64 > _KEPT or len(memory) * 64 > _KEPT:
        memory.clear()
    found = memory[start] = frozenset(seen)
    return found
