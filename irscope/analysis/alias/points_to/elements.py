"""The elements of a points-to graph and the edges between them, one for each part of a value's type that is memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from irscope.analysis.alias.points_to.graph import Label, LazyLabels, Place, make_place
from irscope.ir import (
    AwaitType,
    ClassType,
    DictType,
    FutureType,
    ListType,
    Node,
    OptionalType,
    PrimitiveType,
    RRefType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    Value,
)

# The structure of a value's shareable memory: the part of its type that the alias analysis needs.
#
# A tensor's extents and element type say nothing about sharing (a view changes both), so all tensors have the same
# structure. A list of lists of tensors is a box of a box of a tensor. If a type does not determine the value (`Any`,
# a union, an object of a class), the structure is `mixed` or `object`: the value may be anything, and its contents are
# one bag.

Kind = Literal["tensor", "handle", "box", "tuple", "mixed", "object"]


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """The structure of a value's memory."""

    kind: Kind
    bucket: str
    """Two values of unknown origin may be the same only if these are equal, or one is mixed."""
    fields: tuple[Structure | None, ...] = ()
    """Of a tuple, its fields; None for a field without shareable memory."""
    content: Structure | None = None
    """Of a box (list, dict, future, remote reference), the structure of its contents; None for numbers and strings."""
    members: tuple[Structure, ...] = ()
    """Of a union, the structures it may have; empty for `Any`."""


TENSOR: Final = Structure("tensor", "Tensor")
MIXED: Final = Structure("mixed", "Any")
_OBJECT: Final = Structure("object", "object")

_IMMUTABLE: Final = frozenset(
    "int float bool str complex Scalar number NoneType None Device Layout ScalarType MemoryFormat QScheme Dimname SymInt SymFloat SymBool "
    "Function AnyEnumType".split()
)
_HANDLES: Final = frozenset({"Generator", "Stream", "Capsule"})


ANY_CLASS: Final = "*"
"""Represents the class of an object known only by an interface."""


def class_name(type: ClassType) -> str:
    """The class whose attributes an object of this type has.

    >>> class_name(ClassType("__torch__.Net")), class_name(ClassType("InterfaceType<Layer>"))
    ('__torch__.Net', '*')
    """
    return ANY_CLASS if type.name.startswith("InterfaceType<") else type.name


class Structures:
    """The structures of the types of one program."""

    def __init__(self) -> None:
        self._by_type: dict[int, tuple[Type, Structure | None]] = {}
        self._by_bucket: dict[str, Structure] = {"Tensor": TENSOR, "Any": MIXED, "object": _OBJECT}

    def of(self, type: Type) -> Structure | None:
        """The structure of a type; None if its values cannot be shared (numbers, strings, None)."""
        if type.__class__ is TensorType:
            return TENSOR
        known = self._by_type.get(id(type))
        if known is None:
            known = self._by_type[id(type)] = (type, self._build(type))
        return known[1]

    def _build(self, type: Type) -> Structure | None:
        match type:
            case PrimitiveType(name):
                if name in _IMMUTABLE:
                    return None
                if name == "Storage":  # the memory of a tensor
                    return TENSOR
                return self._unique(Structure("handle", name)) if name in _HANDLES else MIXED
            case OptionalType(element):
                return self.of(element)
            case ListType(element) | FutureType(element) | AwaitType(element) | RRefType(element):
                content = self.of(element)
                word = type.__class__.__name__.removesuffix("Type")
                return self._unique(Structure("box", f"{word}[{content.bucket if content else element}]", content=content))
            case DictType(key, value):
                return self._dict(key, value)
            case TupleType(elements, name):
                fields = tuple(map(self.of, elements))
                if not any(fields):
                    return MIXED if name and not elements else None
                return self._unique(Structure("tuple", f"({', '.join(field.bucket if field else '-' for field in fields)})", fields))
            case UnionType(members):
                return self._union(members)
            case ClassType(name):
                return None if name.startswith("Enum<") else _OBJECT  # the members are numbers and strings
        return MIXED

    def _dict(self, key: Type, value: Type) -> Structure:
        holds = [part for part in (self.of(key), self.of(value)) if part is not None]
        content = None if not holds else holds[0] if len(set(holds)) == 1 else MIXED
        words = ", ".join(part.bucket if part else str(type) for type in (key, value) for part in [self.of(type)])
        return self._unique(Structure("box", f"Dict[{words}]", content=content))

    def _union(self, members: tuple[Type, ...]) -> Structure | None:
        found = tuple(dict.fromkeys(part for part in map(self.of, members) if part is not None))
        if len(found) < 2:
            return found[0] if found else None
        return self._unique(Structure("mixed", f"Union[{', '.join(part.bucket for part in found)}]", members=found))

    def _unique(self, structure: Structure) -> Structure:
        return self._by_bucket.setdefault(structure.bucket, structure)


# Elements of a points-to graph and the edges between them: what a name may be, and what a container holds.
#
# Rules 2 to 5 of the argument in `irscope.analysis.alias.points_to.builder` reduce to a few ways to create an element and one way
# to add an edge, `Elements.flow`, which joins contents and fields as it goes.


class Elements:
    """The elements of a program during the walk, with cells, fields and edges; only grows."""

    def __init__(self, structures: Structures | None = None) -> None:
        self.element_of: dict[Value, int] = {}
        self.nones: dict[Value, None] = {}
        self.consulted: dict[Value, None] = {}
        self.typed: dict[Value, None] = {}
        self.structures = structures or Structures()
        self.cells: dict[int, int] = {}
        self.fields: dict[int, tuple[int | None, ...]] = {}
        self.labels: list[Label] = LazyLabels()
        self.edges: dict[int, list[int]] = {}
        self.is_cyclic = False
        self.reason_of_source: dict[int, Node] = {}
        self.reason_of_edge: dict[tuple[int, int], Node] = {}
        self._same_cell: dict[int, int] = {}
        self.objects: int | None = None
        """The bag of objects, once it was requested."""

    # Elements

    def new(self, label: Label) -> int:
        """Create an element with no edges."""
        self.labels.append(label)
        return len(self.labels) - 1

    def fresh(self, structure: Structure, label: Label) -> int:
        """Create an element for memory that is not shared, with its cells and fields."""
        element = self.new(label)
        of = label if isinstance(label, Value) else label.of
        if structure.kind == "box":
            if structure.content is not None:
                self.cells[element] = self.fresh(structure.content, make_place("contents", of, ""))
        elif structure.kind == "tuple":
            self.fields[element] = tuple(
                self.fresh(field, make_place("field", of, str(index))) if field is not None else None
                for index, field in enumerate(structure.fields)
            )
        elif structure.kind == "mixed":
            bag = self.cells[element] = self.new(Place("contents", of))
            self.cells[bag] = bag
        elif structure.kind == "object":
            self.cells[element] = self.bag_of_objects()
        return element

    def element(self, value: Value) -> int | None:
        """The element of a value, created on first use; None for values that are not memory, such as numbers and None."""
        found = self.element_of.get(value)
        if found is None and value not in self.nones:
            if value.type.__class__ is TensorType:
                found = self.element_of[value] = len(self.labels)
                self.labels.append(value)
                return found
            structure = self.structures.of(value.type)
            if structure is not None:
                found = self.element_of[value] = self.fresh(structure, value)
        return found

    def bind(self, value: Value, element: int | None) -> None:
        """Let a value share an element: it is always one of the memories that the element represents."""
        if element is not None and self.structures.of(value.type) is not None:
            self.element_of[value] = element

    def bind_any(self, value: Value, elements: Sequence[int | None], node: Node) -> None:
        """Let a value be any of these elements; a single element is shared."""
        structure = self.structures.of(value.type)
        if structure is None:
            return
        found = list(dict.fromkeys(element for element in elements if element is not None))
        if len(found) == 1 and not self._needs_own(structure, found[0]):
            self.element_of[value] = found[0]
            return
        merged = self.element_of[value] = self.fresh(structure, value)
        for element in found:
            self.flow(merged, element, node)

    def share(self, value: Value, source: Value, node: Node) -> None:
        """Let a value be the same memory as another: `bind_any` of one element, with a fast path for tensors."""
        if value.type.__class__ is TensorType and source.type.__class__ is TensorType:
            element = self.element_of.get(source)
            if element is None and source not in self.nones:
                element = self.element_of[source] = len(self.labels)
                self.labels.append(source)
            if element is not None:
                self.element_of[value] = element
        else:
            self.bind_any(value, [self.element(source)], node)

    def _needs_own(self, structure: Structure, element: int) -> bool:
        """Whether a value of this structure has parts that the element lacks (a list taken out of an `Any`)."""
        if structure.kind == "tuple":
            return len(self.fields.get(element, ())) != len(structure.fields)
        return (
            structure.kind in ("box", "mixed", "object")
            and (structure.content is not None or structure.kind != "box")
            and element not in self.cells
        )

    def bag_of_objects(self) -> int:
        """The one cell that all objects of classes share."""
        if self.objects is None:
            bag = self.objects = self.new(Place("objects"))
            self.cells[bag] = bag
        return self.objects

    # Edges

    def flow(self, source: int, target: int, reason: Node | None = None) -> None:
        """Let `source` be whatever `target` may be, and propagate to their contents (rules 4 and 5)."""
        cells, fields = self.cells, self.fields
        if target not in cells and target not in fields and source not in fields:
            if source != target:
                self.add_edge(source, target, reason)
            return
        todo = [(source, target)]
        while todo:
            here, there = todo.pop()
            if here == there:
                continue
            self.add_edge(here, there, reason)
            mine, others = cells.get(here), cells.get(there)
            if mine is not None and others is not None and self.joins(mine, others):
                todo.append((mine, others))
                todo.append((others, mine))
            if here in fields or there in fields:
                todo.extend(self._field_flows(here, there))

    def add_edge(self, source: int, target: int, reason: Node | None) -> None:
        """Add a single edge, without propagating to the contents."""
        known = self.edges.get(source)
        if known is None:
            self.edges[source] = [target]
            if reason is not None:
                self.reason_of_source[source] = reason
        else:
            known.append(target)
            if reason is not None and self.reason_of_source.get(source) is not reason:
                self.reason_of_edge[source, target] = reason
        if source <= target:
            self.is_cyclic = True

    def merge_tensors(self, value: Value, one: int, other: int) -> None:
        """Let a tensor be either of two elements: `bind_any` without checks for cells and fields."""
        if one == other:
            self.element_of[value] = one
            return
        merged = self.element_of[value] = len(self.labels)
        self.labels.append(value)
        self.edges[merged] = [one, other]

    def carry_tensor(self, value: Value, start: int) -> None:
        """Let a carried tensor be its initial value; `flow` later adds the edge to the body's result."""
        carried = self.element_of[value] = len(self.labels)
        self.labels.append(value)
        self.edges[carried] = [start]

    def list_of_tensors(self, value: Value, tensors: Sequence[Value]) -> None:
        """Create a new list that holds these tensors: `fresh` and `hold` for a container that has no element yet."""
        element_of, labels = self.element_of, self.labels
        things: list[int] = []
        for tensor in tensors:
            element = element_of.get(tensor)
            if element is None:
                if tensor.type.__class__ is not TensorType or tensor in self.nones:
                    element = self.element(tensor)
                    if element is None:
                        continue
                else:
                    element = element_of[tensor] = len(labels)
                    labels.append(tensor)
            if len(things) > 8 or element not in things:
                things.append(element)
        container = element_of[value] = len(labels)
        cell = self.cells[container] = container + 1
        labels += (value, None)  # type: ignore[arg-type]  # see LazyLabels
        if things:
            self.edges[cell] = things if len(things) <= 8 else list(dict.fromkeys(things))

    def joins(self, cell: int, other: int) -> bool:
        """Record that two cells are the same from now on; returns False if they already were."""
        same = self._same_cell
        while cell in same:
            same[cell] = same.get(same[cell], same[cell])
            cell = same[cell]
        while other in same:
            same[other] = same.get(same[other], same[other])
            other = same[other]
        if cell == other:
            return False
        same[other] = cell
        return True

    def _field_flows(self, here: int, there: int) -> list[tuple[int, int]]:
        mine, others = self.fields.get(here), self.fields.get(there)
        if mine is not None and others is not None and len(mine) == len(others):
            pairs = zip(mine, others, strict=True)
        else:
            # a tuple put into a container of mixed content is represented by its fields, which may be the value itself
            left = mine if mine is not None else (self.cells.get(here), here)
            right = others if others is not None else (self.cells.get(there), there)
            pairs = ((a, b) for a in left for b in right)  # type: ignore[assignment]
        return [(a, b) for a, b in pairs if a is not None and b is not None]

    def hold(self, container: int, things: Sequence[int], reason: Node | None) -> None:
        """Let everything inside `container`, whatever its structure, be any of these elements (or of a tuple's fields)."""
        atoms = self._atoms(things)
        for place in (self.cells.get(container), *self.fields.get(container, ())):
            for target in self._atoms([place]) if place is not None else ():
                for atom in atoms:
                    self.flow(target, atom, reason)

    def _atoms(self, elements: Sequence[int]) -> list[int]:
        """The elements, with tuples replaced by their fields."""
        found: list[int] = []
        todo = list(reversed(elements))
        while todo:
            element = todo.pop()
            if element in self.fields:
                todo.extend(field for field in reversed(self.fields[element]) if field is not None)
            else:
                found.append(element)
        return found
