"""Extends a sealed points-to graph by a few elements, edges and writes: a builder for the edits of one pass.

It knows which elements belong to one value alone, and refuses every edit that would change the classes of the graph or memory
common to the whole program. The soundness argument is in `irscope.analysis.alias.incremental.update`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn

from irscope.analysis.alias.incremental.persistent_map import Draft, DraftList
from irscope.analysis.alias.points_to import Elements, Label, OutsideMemory, PointsTo, Structure, Structures, make_place
from irscope.ir import Node, TensorType, Value

__all__ = ["CannotFollow", "Extension", "NothingOutside", "refuse"]

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


class _Seen(set[Value]):
    """The additions to a set during an update."""

    def __init__(self, base: Any) -> None:
        self._base = base

    def __contains__(self, value: object) -> bool:
        return set.__contains__(self, value) or value in self._base


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
        self.nones, self.consulted, self.typed = _Seen(before.nones), _Seen(before.consulted), _Seen(before.typed)
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
        self.reasons = self.reason_of_source, self.reason_of_edge

    # Ownership of elements

    def owns(self, value: Value, element: int) -> bool:
        """Whether all other names of the element come from users of the value, or from erased values."""
        label = self.label(element)
        return (label is value or label in self.gone) and self.is_plain(value, element)

    def label(self, element: int) -> Label:
        """The current label of an element."""
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

    def of(self, *_: Any) -> int:
        refuse()

    def escape(self, *_: Any) -> None:
        refuse()

    def opaque(self) -> int:
        refuse()

    def give_away(self, *_: Any) -> None:
        refuse()

    def attribute(self, *_: Any) -> int:
        refuse()

    def slot(self, *_: Any) -> int:
        refuse()


def refuse() -> NoReturn:
    """Raise CannotFollow because a node touches memory common to the whole program."""
    raise CannotFollow("a node uses memory that the whole program shares")
