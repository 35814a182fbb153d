"""The sealed points-to graph: its records, the linear passes that prepare it for queries, and the searches over it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

from irscope._base.frozen import fast_constructor
from irscope._base.nested import grouped
from irscope._base.words import in_dot
from irscope.ir import Node, Value

# The records of a points-to graph: labels of elements, writes, calls, and the sealed graph itself; data only.
#
# The meaning of the graph, and why its answers hold, is explained in `irscope.analysis.alias.points_to.builder`.


@dataclass(frozen=True, slots=True)
class Place:
    """The label of an element that belongs to no value."""

    kind: Literal["contents", "field", "input", "argument", "escaped", "unknown", "attribute", "slot", "objects", "opaque", "called"]
    of: Value | None = None
    """The container whose contents or field this is."""
    name: str = ""

    def __str__(self) -> str:
        of = f" of {self.of!r}" if self.of is not None else f" {self.name}" if self.name else ""
        return f"{self.kind}{of}"


make_place = fast_constructor(Place)
Label = Value | Place
Origin = Literal["input", "argument", "escaped", "unknown"]


class LazyLabels(list[Any]):
    """Labels by element, to be indexed only; None means the contents of the previous element."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        found = list.__getitem__(self, index)
        if found is None:
            found = self[index] = make_place("contents", list.__getitem__(self, index - 1), "")
        return found


class Write(NamedTuple):
    """A write of one element by one node."""

    node: Node
    element: int
    to_shape: bool
    """Whether extents, strides or the storage itself may change, not only data."""


class Effects(NamedTuple):
    """The effects of a callee besides reading and writing memory."""

    has_side_effect: bool = False
    is_random: bool = False
    stops: bool = False
    """May end the program by an exception."""
    waits: bool = False
    """Waits for a task that may have written anything."""
    starts: bool = False
    """Starts a task, which other code may wait for."""
    is_unseen: bool = False
    """Runs unseen code, which may wait for a task."""


class Called(NamedTuple):
    """One call, besides what it adds to the graph and writes."""

    callee: str
    effects: Effects
    reads: tuple[int, ...]
    """Elements that it may read, with all their contents, besides its operands."""


Edges = Mapping[int, Sequence[int]]


@dataclass(frozen=True, eq=False, slots=True)
class PointsTo:
    """A sealed points-to graph over *classes* of elements (each a cycle of the graph, or one element).

    Classes are numbered so that edges go from higher to lower.
    """

    element_of: Mapping[Value, int]
    """Values whose memory may be shared; the others are their own memory."""
    labels: Sequence[Label]
    class_of: Sequence[int]
    """Maps an element to its class."""
    edges: Edges
    """Maps an element to the elements it may be; a location has none."""
    targets: Edges
    """The same edges between classes."""
    cells: Mapping[int, int]
    """Maps a container element to the element of its contents."""
    fields: Mapping[int, tuple[int | None, ...]]
    """Maps a tuple element to the elements of its fields."""
    reasons: "Reasons"
    writes: Sequence[Write]
    is_written: Sequence[int]
    """For each class, whether some node writes its memory."""
    is_reshaped: Sequence[int]
    """The same for writes that may change shapes."""
    outside: frozenset[int]
    """Classes of memory that the graph's caller or unseen code can reach."""
    slots: Mapping[tuple[str, str], int]
    """Maps a class name and an attribute name to the element of that attribute's slot."""
    opaque: int | None
    """The element of everything passed to unseen code."""
    nones: Mapping[Value, None]
    """Values that are always None, or never set."""
    consulted: Mapping[Value, None]
    """Values that a rule checked for being known constants: indexes of tuples, training flags."""
    calls: Mapping[int, Called]
    """The calls whose callees are known, by the ids of their nodes."""
    typed: Mapping[Value, None]
    """Operands whose types decided whether a node copies."""
    writes_shapes: bool
    """Whether some write may change a shape."""
    has_inferred: bool
    """Whether such a decision needed more than declared types."""


@dataclass(frozen=True, eq=False, slots=True)
class Reasons:
    """The node that added each edge; usually one node added all edges of a source."""

    of_source: Mapping[int, Node]
    of_edge: Mapping[tuple[int, int], Node]

    def of(self, source: int, target: int) -> Node | None:
        """The node, or None for edges that no node adds, such as those between inputs."""
        return self.of_edge.get((source, target)) or self.of_source.get(source)


# The three linear passes that prepare a points-to graph for queries: collapse cycles, find regions, propagate writes.


def collapse_cycles(count: int, edges: Mapping[int, Sequence[int]]) -> tuple[Sequence[int], dict[int, tuple[int, ...]]]:
    """Each element's class, and the classes that each class points to; edges go from higher class numbers to lower.

    >>> class_of, targets = collapse_cycles(3, {1: [2, 0], 2: [1]})
    >>> class_of[1] == class_of[2], targets
    (True, {1: (0,)})
    """
    class_of = _strong_components(count, edges)
    joined: dict[int, dict[int, None]] = {}
    for source, found in edges.items():
        here = class_of[source]
        others = joined.setdefault(here, {})
        for target in found:
            if class_of[target] != here:
                others[class_of[target]] = None
    return class_of, {here: tuple(others) for here, others in joined.items() if others}


def _strong_components(count: int, out: Mapping[int, Sequence[int]]) -> list[int]:
    """Tarjan's algorithm with an explicit stack. Components are numbered targets first."""
    order = [-1] * count
    lowest = [0] * count
    class_of = [-1] * count
    clock = classes = 0
    for element in range(count):  # locations are components by themselves, below all others
        if element not in out:
            order[element] = 0
            class_of[element] = classes
            classes += 1
    pending: list[int] = []
    for root in out:
        if order[root] >= 0:
            continue
        order[root] = lowest[root] = clock
        clock += 1
        pending.append(root)
        path = [(root, iter(out[root]))]
        while path:
            here, rest = path[-1]
            for target in rest:
                if order[target] < 0:
                    order[target] = lowest[target] = clock
                    clock += 1
                    pending.append(target)
                    path.append((target, iter(out[target])))
                    break
                if class_of[target] < 0 and order[target] < lowest[here]:
                    lowest[here] = order[target]
            else:
                path.pop()
                if path and lowest[here] < lowest[path[-1][0]]:
                    lowest[path[-1][0]] = lowest[here]
                if lowest[here] == order[here]:
                    member = -1
                    while member != here:
                        member = pending.pop()
                        class_of[member] = classes
                    classes += 1
    return class_of


def partition(count: int, edges: Mapping[int, Sequence[int]]) -> Sequence[int]:
    """Each class's region: its connected component of the graph, named by one of its classes.

    >>> list(partition(4, {1: (0,), 3: (0,)}))
    [0, 0, 2, 0]
    """
    if not edges:
        return range(count)
    root = list(range(count))
    for source, found in edges.items():
        here = source
        while root[here] != here:
            root[here] = here = root[root[here]]
        for there in found:
            while root[there] != there:
                root[there] = there = root[root[there]]
            if there < here:
                root[here] = here = there
            else:
                root[there] = here
    for index in range(count):  # roots are smaller than their descendants, so one step is enough
        root[index] = root[root[index]]
    return root


def spread_writes(count: int, edges: Mapping[int, Sequence[int]], written: Iterable[int]) -> bytearray:
    """Marks the classes that share a location with one of the written classes.

    >>> list(spread_writes(4, {1: (0,), 2: (0,)}, [2]))
    [1, 1, 1, 0]
    """
    marks, seen = bytearray(count), bytearray(count)
    todo = list(written)
    if not todo:
        return marks
    while todo:
        here = todo.pop()
        if not seen[here]:
            seen[here] = 1
            found = edges.get(here)
            if found is None:
                marks[here] = 1
            else:
                todo.extend(found)
    for here in sorted(edges):  # targets before sources
        for there in edges[here]:
            if marks[there]:
                marks[here] = 1
                break
    return marks


# Reachability searches over a sealed points-to graph, to which every query reduces, with a bounded cache.

_KEPT: Final = 1 << 20
"""The number of members of reach sets that are cached; a deep chain of ifs must not cost quadratic memory."""


class Reachability:
    """Searches over one sealed graph.

    Two classes share memory if and only if they reach a common class, since every class is a location or reaches one.
    """

    def __init__(self, points_to: PointsTo) -> None:
        self.points_to = points_to
        self._below: dict[int, frozenset[int]] = {}
        self._below_inside: dict[int, frozenset[int]] = {}
        self._leaf_sets: dict[int, frozenset[int]] = {}

    def meet(self, a: int, b: int) -> bool:
        """Whether two classes may be the same memory."""
        if a == b:
            return True
        region, targets = self.region, self.points_to.targets
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
        return _search(place, (self.points_to.targets,), self._below)

    def _held(self, place: int) -> frozenset[int]:
        return _search(place, (self.points_to.targets, self.inside), self._below_inside)

    def leaves(self, place: int) -> list[int]:
        """The locations that a class may be."""
        return [here for here in self.below(place) if here not in self.points_to.targets]

    def leaf_set(self, place: int) -> frozenset[int]:
        """The locations that a class may be, as one object for all classes along a chain of views, which meet the same others."""
        known, targets = self._leaf_sets, self.points_to.targets
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
        targets = self.points_to.targets
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
        return closure(self.below(place), self._above)

    @cached_property
    def _above(self) -> Mapping[int, Sequence[int]]:
        return grouped((target, source) for source, targets in self.points_to.targets.items() for target in targets)

    @cached_property
    def region(self) -> Sequence[int]:
        """Maps a class to its region, a connected component of the graph: classes of two regions never share memory."""
        return partition(len(self.points_to.labels), self.points_to.targets)

    @cached_property
    def inside(self) -> Mapping[int, Sequence[int]]:
        """Maps a class to the classes of its contents: cells and tuple fields."""
        class_of, found = self.points_to.class_of, dict[int, dict[int, None]]()
        for element, cell in self.points_to.cells.items():
            found.setdefault(class_of[element], {})[class_of[cell]] = None
        for element, fields in self.points_to.fields.items():
            held = found.setdefault(class_of[element], {})
            held.update((class_of[field], None) for field in fields if field is not None)
        return {holder: tuple(held) for holder, held in found.items()}

    @cached_property
    def _region_inside(self) -> Sequence[int]:
        joined: dict[int, Sequence[int]] = dict(self.points_to.targets)
        for holder, held in self.inside.items():
            joined[holder] = (*joined.get(holder, ()), *held)
        return partition(len(self.points_to.labels), joined)


def _search(start: int, graphs: Sequence[Mapping[int, Sequence[int]]], memory: dict[int, frozenset[int]]) -> frozenset[int]:
    known = memory.get(start)
    if known is not None:
        return known
    found = frozenset(closure((start,), *graphs))
    if len(found) * 64 > _KEPT or len(memory) * 64 > _KEPT:
        memory.clear()
    memory[start] = found
    return found


def closure(starts: Iterable[int], *graphs: Mapping[int, Sequence[int]]) -> set[int]:
    """All that is reached from some elements or classes over the edges of some graphs, the starts included."""
    found = set(starts)
    todo = list(found)
    while todo:
        here = todo.pop()
        for graph in graphs:
            fresh = [there for there in graph.get(here, ()) if there not in found]
            found.update(fresh)
            todo.extend(fresh)
    return found


# A points-to graph in Graphviz's language: a box for each class of memory, with the values in it.
#
# Solid arrows say "may be", dashed ones "holds"; written memory is drawn bold, memory from outside with a double
# border. Values that share memory with no other are left out.

_FULL = 8
"""Boxes with more values than this name only the first ones."""


def points_to_dot(points_to: PointsTo, reach: Reachability, words: Callable[[Label], str], starts: Iterable[int] | None = None) -> str:
    """The classes reachable from and held by some classes, or all of them. `words` names values and places."""
    members, class_of, boxes, arrows = _members(points_to), points_to.class_of, list[str](), list[str]()
    if starts is None:
        starts = {class_of[element] for element in points_to.element_of.values()}
    for place in sorted(closure(starts, points_to.targets, reach.inside)):
        names = list(dict.fromkeys(map(words, members.get(place, ())))) or ["="]  # another name of its arrow's target
        more = [f"and {len(names) - _FULL} more"] if len(names) > _FULL else []
        look = ["label=" + in_dot("\n".join([*names[:_FULL], *more]))]
        look += ["penwidth=2"] if points_to.is_written[place] else []
        look += ["peripheries=2"] if place in points_to.outside else []
        boxes.append(f"  c{place} [{' '.join(look)}]")
        arrows += [f"  c{place} -> c{target}" for target in points_to.targets.get(place, ())]
        arrows += [f"  c{place} -> c{held} [style=dashed]" for held in reach.inside.get(place, ())]
    head = ["digraph {", '  node [shape=box style=rounded fontname="Helvetica" fontsize=10]']
    return "\n".join([*head, *boxes, *arrows, "}"])


def _members(points_to: PointsTo) -> Mapping[int, Sequence[Label]]:
    """The labels of each class: its values; if it has none, the places of its elements."""
    named = grouped((points_to.class_of[element], value) for value, element in points_to.element_of.items())
    return named | grouped((place, points_to.labels[element]) for element, place in enumerate(points_to.class_of) if place not in named)
