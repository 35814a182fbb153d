"""A sealed points-to graph under layers of changes: how they are built for the edits of one pass, and how they are queried."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NoReturn, TypeVar

from irscope._base.nested import grouped
from irscope.analysis.alias.points_to.builder import OutsideMemory
from irscope.analysis.alias.points_to.elements import Elements, Structure, Structures
from irscope.analysis.alias.points_to.graph import Label, PointsTo, Reachability, Write, closure, make_place
from irscope.ir import Graph, Node, TensorType, Value

# Persistent maps: a large table that never changes, under small layers of the changes since.
#
# Each step of a history has its own tables, which share all but the newest changes with those of the step before; to go
# back, keep the old ones. Changes are kept in layers of decreasing size, and small layers are merged as they accumulate, so
# a table that went through n changes has fewer than log2(n) layers, and each change is copied a few times as often.

K = TypeVar("K")
V = TypeVar("V")

_GONE: Final[Any] = object()


class Layers(Mapping[K, V]):
    """A mapping under layers of changes."""

    __slots__ = ("_base", "_deltas")

    def __init__(self, base: Mapping[K, V], deltas: tuple[dict[K, V], ...] = ()) -> None:
        self._base = base
        self._deltas = deltas
        """Newest first."""

    def changed(self, changes: dict[K, V], removed: Sequence[K] = ()) -> Layers[K, V]:
        """The next table; this one stays as it is."""
        if not changes and not removed:
            return self
        newest, older = {**changes, **dict.fromkeys(removed, _GONE)}, self._deltas
        while older and len(older[0]) <= 4 * len(newest):
            newest = {**older[0], **newest}
            older = older[1:]
        return Layers(self._base, (newest, *older))

    def changes(self) -> dict[K, V]:
        """The entries that differ from the base table, without the removed ones."""
        return {key: value for key, value in self.joined().items() if value is not _GONE}

    def joined(self) -> dict[K, V]:
        """All changes, with a mark for removed keys."""
        joined: dict[K, V] = {}
        for delta in reversed(self._deltas):
            joined.update(delta)
        return joined

    def get(self, key: K, default: Any = None, /) -> Any:
        for delta in self._deltas:
            found = delta.get(key, self)
            if found is not self:
                return default if found is _GONE else found
        return self._base.get(key, default)

    def __getitem__(self, key: K) -> V:
        found = self.get(key, _GONE)
        if found is _GONE:
            raise KeyError(key)
        return found  # type: ignore[no-any-return]

    def __contains__(self, key: object) -> bool:
        return self.get(key, _GONE) is not _GONE  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[K]:
        joined = self.joined()
        yield from (key for key in self._base if key not in joined)
        yield from (key for key, value in joined.items() if value is not _GONE)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Draft(dict[K, V]):
    """Changes to a mapping during an update: reads see both, writes go to the changes, which are its own items."""

    __slots__ = ("_base",)

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base

    def get(self, key: K, default: Any = None, /) -> Any:
        found = dict.get(self, key, _GONE)
        return self._base.get(key, default) if found is _GONE else found

    def __missing__(self, key: K) -> V:
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or key in self._base


class DraftList(list[V]):
    """Additions to a sequence during an update: indexes and the length are those of the whole."""

    __slots__ = ("_base", "_count")

    def __init__(self, base: Sequence[V]) -> None:
        self._base = base
        self._count = len(base)

    def __len__(self) -> int:
        return self._count + list.__len__(self)

    def __getitem__(self, index: Any) -> Any:
        return self._base[index] if index < self._count else list.__getitem__(self, index - self._count)

    def added(self) -> dict[int, V]:
        """The additions, by their index in the whole."""
        return dict(enumerate(iter(self), self._count))


# Extends a sealed points-to graph by a few elements, edges and writes: a builder for the edits of one pass.
#
# It knows which elements belong to one value alone, and refuses every edit that would change the classes of the graph or memory
# common to the whole program. The soundness argument is in `irscope.analysis.alias.points_to.update`.

_SEARCHED: Final = 256
"""How many classes below a new edge are searched for a cycle."""


class CannotFollow(Exception):
    """Raised when edits cannot be followed and the points-to graph must be rebuilt; says why."""


class _ElementOf(Draft[Value, int]):
    """Maps values to elements; a value that already has another element is redirected to the new one, or refused."""

    __slots__ = ("_elements",)

    def __init__(self, elements: Extension, base: Any) -> None:
        super().__init__(base)
        self._elements = elements

    def __setitem__(self, value: Value, element: int) -> None:
        known = dict.get(self, value)
        if known is None:
            known = self._base.get(value)
        if known is not None and known != element:
            self._elements.redirect(value, known, element)
        dict.__setitem__(self, value, element)


class _Edges(dict[int, list[int]]):
    """Forwards new edges, from any rule, to an extension."""

    __slots__ = ("_elements",)

    def __init__(self, elements: Extension) -> None:
        self._elements = elements

    def __setitem__(self, source: int, targets: list[int]) -> None:
        for target in targets:
            self._elements.add_edge(source, target)


class Extension(Elements):
    """Adds elements and edges to a sealed graph; refuses additions that would change its classes."""

    def __init__(self, before: PointsTo, structures: Structures) -> None:
        super().__init__(structures)
        self.element_of = _ElementOf(self, before.element_of)
        self._known_elements = before.element_of
        self.nones, self.consulted, self.typed = Draft(before.nones), Draft(before.consulted), Draft(before.typed)
        self.cells, self.fields = Draft(before.cells), Draft(before.fields)
        self.labels: DraftList[Label] = DraftList(before.labels)
        self.edges = _Edges(self)
        self.known_edges: Draft[int, Sequence[int]] = Draft(before.edges)
        self.targets: Draft[int, Sequence[int]] = Draft(before.targets)
        self.relabelled: dict[int, Label] = {}
        self.moved: dict[int, int] = {}
        self.gone: set[Value] = set()
        """Values that no node of the new program produces."""
        self._class_of = before.class_of

    # Ownership of elements

    def owns(self, value: Value, element: int) -> bool:
        """Whether all other names of the element come from users of the value, or from erased values."""
        label = self.label(element)
        return (label is value or label in self.gone) and self.is_plain(value, element)

    def label(self, element: int) -> Label:
        found = self.relabelled.get(element)
        return found if found is not None else self.labels[element]

    def is_plain(self, value: Value, element: int) -> bool:
        """Whether an element of a value belongs to a tensor, and is a location."""
        return value.type.__class__ is TensorType and element not in self.known_edges and element not in self.cells

    def keep(self, value: Value) -> None:
        """Keep the element of a value that is memory of its own, whichever node produces it now."""
        element = self.element_of.get(value)
        if element is not None:
            if not self.owns(value, element):
                raise CannotFollow(f"{value!r} shared memory with other values, and has its own memory now")
            if self.labels[element] is not value:
                self.relabelled[element] = value

    def redirect(self, value: Value, element: int, target: int) -> None:
        """Redirect all names of a value from its element to another one."""
        if not self.owns(value, element):
            raise CannotFollow(f"the memory of {value!r} has aliases that were merged with it")
        self.relabelled[element] = value
        self.stand_for(element, target)

    def stand_for(self, element: int, target: int) -> None:
        """Make an element that was a location just another name of a target element."""
        self.add_edge(element, target)
        self.moved[element] = target

    def share(self, value: Value, source: Value, node: Node) -> None:  # looks through the layers by hand, for speed
        known, base = self.element_of, self._known_elements
        if value.type.__class__ is not TensorType or source.type.__class__ is not TensorType:
            super().share(value, source, node)
            return
        element = dict.get(known, source)
        if element is None:
            element = base.get(source)
        if element is None:
            if source in self.nones:
                return
            element = len(self.labels)
            self.labels.append(source)
            dict.__setitem__(known, source, element)
        if value in known:
            known[value] = element
        else:
            dict.__setitem__(known, value, element)

    # Edges

    def class_of(self, element: int) -> int:
        while (target := self.moved.get(element)) is not None:
            element = target
        return self._class_of[element] if element < len(self._class_of) else element

    def add_edge(self, source: int, target: int, reason: Node | None = None) -> None:
        """Add an edge to an element, and so to its class."""
        if reason is not None:
            self.reason_of_edge[source, target] = reason
        here, there = self.class_of(source), self.class_of(target)
        if here == there:
            return
        if self._reaches(there, here):
            raise CannotFollow("an edit makes a cycle of aliases")
        self.known_edges[source] = (*self.known_edges.get(source, ()), target)
        self.targets[here] = (*self.targets.get(here, ()), there)

    def _reaches(self, start: int, goal: int) -> bool:
        if start not in self.targets:
            return False
        seen, todo = {start}, [start]
        while todo:
            fresh = [there for there in self.targets.get(todo.pop(), ()) if there not in seen]
            seen.update(fresh)
            todo.extend(fresh)
            if goal in seen:
                return True
            if len(seen) > _SEARCHED:
                raise CannotFollow("a new edge reaches too much memory")
        return False

    def list_of_tensors(self, value: Value, tensors: Sequence[Value]) -> None:
        held = [element for element in dict.fromkeys(map(self.element, tensors)) if element is not None]
        container = self.element_of[value] = self.new(value)  # after what it holds, so that edges go down
        cell = self.cells[container] = self.new(make_place("contents", value, ""))
        for element in held:
            self.add_edge(cell, element)

    # Memory common to the whole program

    def fresh(self, structure: Structure, label: Label) -> int:
        if structure.kind in ("mixed", "object"):
            refuse()
        return super().fresh(structure, label)

    def joins(self, cell: int, other: int) -> bool:
        raise CannotFollow("two containers share what they hold")

    def bag_of_objects(self) -> int:
        refuse()


class NothingOutside(OutsideMemory):
    """Memory common to the whole program: refuses every edit that touches it."""

    def _refused(self, *_: Any, **__: Any) -> Any:
        refuse()

    of = escape = opaque = give_away = attribute = slot = _refused


def refuse() -> NoReturn:
    """Raise CannotFollow because a node touches memory common to the whole program."""
    raise CannotFollow("a node uses memory that the whole program shares")


# The query view of an edited points-to graph: the sealed base graph under layers of changes.
#
# Results that the base graph computed for its own queries (regions, reverse edges) are reused; only the parts that edits
# touched are searched, on demand.


class _View(Sequence[Any]):
    """A sequence that is only indexed element by element."""

    def __init__(self, base: Sequence[Any], count: int) -> None:
        self.base, self._count = base, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if index >= len(self):
            raise IndexError(index)
        return self.at(index)

    def at(self, index: int) -> Any:
        raise NotImplementedError


class Classes(_View):
    """Maps elements to classes. An element created by an edit is a class by itself, with its own number; one that became
    another name of an element has the class of that one."""

    def __init__(self, base: Sequence[int], moved: Layers[int, int], count: int) -> None:
        super().__init__(base, count)
        self.moved = moved

    def at(self, index: int) -> Any:
        here = self.stands_for(index)
        return self.base[here] if here < len(self.base) else here

    def stands_for(self, element: int) -> int:
        """The element that this one is now another name of; usually itself."""
        while (target := self.moved.get(element)) is not None:
            element = target
        return element


class Labels(_View):
    """Maps elements to labels. An element that is another name of a second one has that one's label."""

    def __init__(self, base: Sequence[Label], changed: Layers[int, Label], classes: Classes) -> None:
        super().__init__(base, len(classes))
        self.changed, self._classes = changed, classes

    def at(self, index: int) -> Any:
        here = self._classes.stands_for(index)
        found = self.changed.get(here)
        return found if found is not None else self.base[here]


class Writes(Sequence[Write]):
    """The remaining writes of the base and those that edits added, in textual order of the current graph."""

    def __init__(self, graph: Graph, base: Sequence[Write], changed: Layers[int, tuple[Write, ...]]) -> None:
        self._graph = graph
        self.base = base
        self.changed = changed
        """All current writes of a changed node, by its id."""

    @cached_property
    def _all(self) -> list[Write]:
        changed, position = self.changed.joined(), self._graph.position
        found = [write for write in self.base if write.node.id not in changed]
        found += [write for writes in self.changed.changes().values() for write in writes]
        if any(write.node not in position for write in found):  # renaming an operand makes a new Node
            nodes = {node.id: node for node in position}
            found = [write._replace(node=nodes[write.node.id]) for write in found if write.node.id in nodes]
        return sorted(found, key=lambda write: position[write.node])

    def __getitem__(self, index: Any) -> Any:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def touched(self) -> Iterable[int]:
        """The elements whose writes changed: no longer written, or newly written."""
        changed = self.changed.joined()
        if changed:
            yield from (write.element for write in self.base if write.node.id in changed)
            yield from (write.element for writes in self.changed.changes().values() for write in writes)


class FollowedReach(Reachability):
    """Reachability searches over a layered points-to graph."""

    def __init__(self, points_to: PointsTo, base: PointsTo, base_reach: Reachability) -> None:
        super().__init__(points_to)
        self.base = base
        self.base_reach = base_reach

    @cached_property
    def new_targets(self) -> Mapping[int, Sequence[int]]:
        """The classes whose targets differ from the base, with their targets."""
        targets = self.points_to.targets
        assert isinstance(targets, Layers)
        return targets.changes()

    @cached_property
    def _above(self) -> Mapping[int, Sequence[int]]:
        added = grouped((target, source) for source, targets in self.new_targets.items() for target in targets)
        base = self.base_reach._above
        return ChainMap({target: (*base.get(target, ()), *found) for target, found in added.items()}, base)  # type: ignore[arg-type]

    @cached_property
    def region(self) -> Sequence[int]:
        return _Regions(self.base_reach.region, len(self.points_to.labels), self.new_targets)

    @cached_property
    def inside(self) -> Mapping[int, Sequence[int]]:
        return ChainMap(self._new_inside, self.base_reach.inside)  # type: ignore[arg-type]

    @cached_property
    def _new_inside(self) -> dict[int, Sequence[int]]:
        """The contents of the new elements; those of the old ones are unchanged."""
        class_of, cells, fields = self.points_to.class_of, self.points_to.cells, self.points_to.fields
        assert isinstance(cells, Layers) and isinstance(fields, Layers)
        found: dict[int, Sequence[int]] = {class_of[here]: (class_of[cell],) for here, cell in cells.changes().items()}
        for here, held in fields.changes().items():
            found[class_of[here]] = tuple(dict.fromkeys(class_of[field] for field in held if field is not None))
        return found

    @cached_property
    def _region_inside(self) -> Sequence[int]:
        joined = dict(self.new_targets)
        for holder, held in self._new_inside.items():
            joined[holder] = (*joined.get(holder, ()), *held)
        return _Regions(self.base_reach._region_inside, len(self.points_to.labels), joined)


class _Regions(_View):
    """The regions of the base, some of them joined by new edges."""

    def __init__(self, base: Sequence[int], count: int, edges: Mapping[int, Sequence[int]]) -> None:
        super().__init__(base, count)
        self._joined: dict[int, int] = {}
        for source, targets in edges.items():
            for target in targets:
                here, there = self.at(source), self.at(target)
                if here != there:
                    self._joined[here] = there

    def at(self, index: int) -> Any:
        here, joined = self.base[index] if index < len(self.base) else index, self._joined
        while here in joined:
            if joined[here] in joined:
                joined[here] = joined[joined[here]]
            here = joined[here]
        return here


class Marks(_View):
    """The written classes: as in the base, except in the regions where edits added or removed something."""

    reach: FollowedReach
    """The searches over the graph that contains these marks; both are created after them."""

    def __init__(self, base: Sequence[int], count: int, *, to_shape: bool = False) -> None:
        super().__init__(base, count)
        self._to_shape = to_shape

    def at(self, index: int) -> Any:
        if self.reach.region[index] in self._touched_regions:
            return index in self._written
        return self.base[index] if index < len(self.base) else 0

    @cached_property
    def _touched_regions(self) -> set[int]:
        region, class_of, writes = self.reach.region, self.reach.points_to.class_of, self.reach.points_to.writes
        assert isinstance(writes, Writes)
        touched = {region[class_of[element]] for element in writes.touched()}
        return touched.union(region[source] for source in self.reach.new_targets)

    @cached_property
    def _written(self) -> set[int]:
        """The written classes of the touched regions: from the writes down to the locations, and up again."""
        points_to, region, touched = self.reach.points_to, self.reach.region, self._touched_regions
        class_of, targets = points_to.class_of, points_to.targets
        starts = {class_of[write.element] for write in points_to.writes if write.to_shape or not self._to_shape}
        below = closure({start for start in starts if region[start] in touched}, targets)
        return closure({here for here in below if here not in targets}, self.reach._above)
