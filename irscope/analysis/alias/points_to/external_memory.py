"""Memory from outside the program: inputs, memory that unseen code received or returns, attributes of objects.

These are rules 6 to 8 of the argument in `irscope.analysis.alias.points_to.builder`. There is one element for each kind of origin and
structure, created on first use. If the storages of bound inputs are known, each has an element, and "input" is then all of
these and "argument". Mixed types (`Any`, unions, interfaces) are joined with the types they may be
at the end, when all of them are known.
"""

from __future__ import annotations

from irscope.analysis.alias.points_to.elements import Elements
from irscope.analysis.alias.points_to.memory_structure import ANY_CLASS, MIXED, TENSOR, Structure
from irscope.analysis.alias.points_to.records import Origin, Place
from irscope.ir import Node, Value

__all__ = ["OutsideMemory"]


class OutsideMemory:
    """The elements that belong to the caller, unseen code and objects.

    >>> memory = OutsideMemory(Elements())
    >>> memory.of("input", MIXED) == memory.of("input", MIXED) != memory.of("escaped", MIXED)
    True
    """

    def __init__(self, elements: Elements) -> None:
        self.elements = elements
        self.slots: dict[tuple[str, str], int] = {}
        self.given_away: list[int] = []
        """Bags that escaped to unseen code, and so may hold everything known to it."""
        self.by_origin: dict[tuple[str, str], tuple[int, Structure]] = {}
        self._escaped: set[int] = set()
        self.attributes: dict[tuple[str, str], tuple[int, Structure]] = {}
        self.opaque_element: int | None = None
        """The result of `opaque`, if there is unseen code."""
        self.storages: dict[int, int] = {}
        """The elements of known storages, by their numbers. If there are any, no argument is in one of them."""

    def of(self, kind: Origin, structure: Structure) -> int:
        """The element of all inputs, all escaped memory, or all that unseen code returns, of one structure."""
        known = self.by_origin.get((kind, structure.bucket))
        if known is not None:
            return known[0]
        element = self.elements.fresh(structure, Place(kind, name=structure.bucket))
        self.by_origin[kind, structure.bucket] = (element, structure)
        content: Origin = kind if kind in ("input", "argument") else "unknown"
        if structure.kind == "box" and structure.content is not None:
            self.elements.flow(self.elements.cells[element], self.of(content, structure.content))
        elif structure.kind == "tuple":
            for index, field in enumerate(structure.fields):
                if field is not None:
                    inside = self.elements.fields[element][index]
                    assert inside is not None
                    self.elements.flow(inside, self.of(kind, field))
        elif structure.kind in ("mixed", "object"):
            self.elements.flow(self.elements.cells[element], self.of(content, MIXED))
            for member in structure.members:
                self.elements.flow(element, self.of(kind, member))
        if kind == "unknown":
            self.elements.flow(element, self.of("input", structure))
            self.elements.flow(element, self.of("escaped", structure))
        if kind == "input" and self.storages:
            self._is_any(element, structure)
        return element

    def given(self, value: Value, structure: Structure, number: int | None) -> int:
        """The element of an input: that of its storage, if its number is known. Inputs of known storage must come first."""
        if number is not None and structure is TENSOR:
            if number not in self.storages:
                self.storages[number] = self.elements.fresh(structure, value)
            return self.storages[number]
        is_argument = bool(self.storages) and _is_open(structure)
        return self.of("argument" if is_argument else "input", structure)

    def _is_any(self, element: int, structure: Structure) -> None:
        """Let memory of unknown origin be an argument's, or be in a known storage."""
        if _is_open(structure):
            self.elements.flow(element, self.of("argument", structure))
        if structure is TENSOR:
            for storage in self.storages.values():
                self.elements.flow(element, storage)
        elif structure is MIXED:
            self.elements.flow(element, self.of("input", TENSOR))

    def escape(self, element: int, structure: Structure, node: Node) -> None:
        """Record that an element, with everything inside it, escapes to unseen code."""
        todo: list[tuple[int, Structure]] = [(element, structure)]
        while todo:
            here, built = todo.pop()
            if here in self._escaped:
                continue
            self._escaped.add(here)
            if built.kind == "tuple":
                inside = self.elements.fields.get(here, ())
                todo.extend(
                    (f, s) for f, s in zip(inside, built.fields, strict=False) if f is not None and s is not None
                )
            self.elements.flow(self.of("escaped", built), here, node)
            if built.kind in ("mixed", "object"):
                self.give_away(here, self.elements.cells[here])
                self.elements.flow(self.elements.cells[here], self.of("unknown", MIXED), node)
            elif built.kind == "box" and built.content is not None:
                todo.append((self.elements.cells[here], built.content))

    def opaque(self) -> int:
        """The element of everything passed to unseen code, at any time."""
        if self.opaque_element is None:
            self.opaque_element = self.elements.new(Place("opaque"))
        return self.opaque_element

    def give_away(self, *bags: int) -> None:
        """Record that unseen code may store anything it knows in these bags."""
        self.given_away.extend(bags)

    def attribute(self, class_name: str, name: str, structure: Structure) -> int:
        """The element of attribute `name` of the objects of a class."""
        known = self.attributes.get((class_name, name))
        if known is None:
            known = (self.elements.fresh(structure, Place("attribute", name=f"{class_name}.{name}")), structure)
            self.attributes[class_name, name] = known
            self.elements.flow(known[0], self.of("input", structure))
            self.elements.flow(self.elements.bag_of_objects(), known[0])
            self.elements.flow(self.elements.bag_of_objects(), self.slot(class_name, name))
        return known[0]

    def slot(self, class_name: str, name: str) -> int:
        """The element of the attribute's slot in the object, which `SetAttr` writes and `GetAttr` reads."""
        if (class_name, name) not in self.slots:
            self.slots[class_name, name] = self.elements.new(Place("slot", name=f"{class_name}.{name}"))
        return self.slots[class_name, name]

    def join_mixed(self) -> None:
        """Let mixed values be the values of any structure (rules 5 and 7)."""
        self._join_interfaces()
        by_kind: dict[str, list[tuple[int, Structure]]] = {"input": [], "escaped": [], "unknown": []}
        by_kind["argument"] = by_kind["input"]  # whatever may be any input may be any argument; arguments hold nothing mixed
        if self.elements.objects in self.given_away:
            for element, structure in self.attributes.values():
                self.elements.flow(element, self.of("unknown", structure))
        for (kind, _), (element, structure) in self.by_origin.items():
            by_kind[kind].append((element, structure))
        for members in (by_kind["input"], by_kind["escaped"], by_kind["unknown"]):
            anything = [element for element, structure in members if structure is MIXED]
            for element, structure in members:
                if anything and structure is not MIXED:
                    self.elements.flow(anything[0], element)
                    if structure.kind == "mixed":
                        self.elements.flow(element, anything[0])
        for element, _ in by_kind["escaped"]:
            for bag in dict.fromkeys(self.given_away):
                self.elements.flow(element, bag)
            if self.opaque_element is not None:
                self.elements.flow(self.opaque_element, element)

    def _join_interfaces(self) -> None:
        """Join the attributes of an object known only by an interface with those of all classes (rule 6)."""
        unknown = {name: element for (owner, name), (element, _) in self.attributes.items() if owner == ANY_CLASS}
        for (_, name), (element, _) in list(self.attributes.items()) if unknown else ():
            other = unknown.get(name)
            if other is not None and other != element:
                self.elements.flow(element, other)
                self.elements.flow(other, element)
        for (owner, name), slot in list(self.slots.items()):
            other = self.slots.get((ANY_CLASS, name))
            if other is not None and owner != ANY_CLASS:
                self.elements.flow(slot, other)
                self.elements.flow(other, slot)


def _is_open(structure: Structure) -> bool:
    """Whether all contents of a value can be inspected: tensors, and lists, dicts and tuples of them."""
    todo = [structure]
    for here in todo:
        if here.kind not in ("tensor", "tuple") and not (here.kind == "box" and here.bucket.startswith(("List", "Dict"))):
            return False
        todo.extend(part for part in (here.content, *here.fields) if part is not None)
    return True
