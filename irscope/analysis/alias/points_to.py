"""What may be the same memory: a points-to graph, built in one walk over a program and then sealed.

**What is claimed.** If in some execution of the graph two names are bound, at one moment or at two, to the same
memory (one tensor storage, one list object, ...), then the elements of the two names reach a common element. A "no"
is therefore a proof; a "may" is not a proof of the opposite. The answer holds for the whole execution: order in time
is not used.

**Elements and edges.** An *element* stands for a set of memories: what one value may be over all executions and
iterations. An edge from e to f says "whatever f may be, e may be". An element with no edges is a *location*: memory
that came into being at one place of the program. A result that nothing else can share gets no element until somebody
asks (`PointsToBuilder.element`): most values of most programs never have one, and are their own location. Each place
where one name can come to be bound to what another is bound to must add an edge, or let both names share one element.
These places are:

1. *Ops whose result shares an operand*, by schema (`irscope.analysis.effects`). What the caller owes is that schemas
   tell the truth; the overlay corrects those that are known not to, and execution checks them.
2. *If*: each result has edges to the results of both blocks.
3. *Loop*: a carried value is, on entry of the body, either the initial value or the body's result of the round
   before; after the loop it is one or the other as well (no round at all: the initial value). One element with these
   two edges serves the block parameter and the node's output. This makes cycles.
4. *Containers*. A list or dict has a *cell*, an element that stands for everything it holds. What is stored gets an
   edge from the cell; what is taken out shares the cell's element. Two names of one container must agree on its cell,
   also for stores that come later through either name: so an edge between two containers makes each one's cell an
   edge of the other's. Tuples cannot change, so they have a field element each and plain edges. What sits in boxes in
   boxes follows by the same two rules.
5. *Types that do not say* (`Any`, unions, objects): one cell that is its own cell, a bag for all that is inside at
   any depth. An edge from such a value to a container therefore makes the container's cell part of the bag. A tuple
   that is put into a container is there by its fields; so a value that is known to be a tuple again has fields which may be
   what the bag holds, or the thing itself.
6. *Attributes of objects*: one element for each class and attribute, whichever object it is of. Objects of one class
   are thus not told apart, and need not be. Of an object that is known by an interface alone, they are those of all classes.
7. *From outside*. Inputs of one structure share one element (any two may be the same object) whose cell holds the
   inputs of its content's structure; with `distinct_inputs` each gets its own. A mixed input may be any input.
8. *Code that nobody sees* (calls of what is not known, unknown ops). We assume that it reaches only what such code was
   once given, and memory of its own: an operand *escapes*, with everything inside it, and the results may be anything
   that escaped (even later: that is the element "escaped", to which each escape adds an edge), any input, or unknown.
   Escaped containers may hold all of that, and an escaped tensor may get the storage of another. What was never given
   away and never came from outside cannot be touched.
9. *Groups*: a block whose parameters stand for the node's inputs one to one is read as if inlined. So is the callee of
   a call, if it is known, by its summary (`irscope.analysis.alias.summary`).

**Assumed.** A constant tensor belongs to its node alone; a constant None, of whatever type, is no memory, nor
is a value that is declared and never set (`prim::Uninitialized`). Two names of incompatible structure (a list, a tensor) are
not the same memory unless a mixed type came between, which rule 5 sees. Schemas are true (1), and so is the reach of
unseen code (8).

**Writes** are kept beside the graph: pairs of a node and an element. A value has a writer if its element and a
written one share a location. `seal` spreads this as one boolean: down from written elements to locations, then up
again.

**Given up.** Offsets inside a storage, list positions, dict keys, which branch was taken, and order in time.

**Cost.** The walk appends to flat tables. Sealing collapses cycles if there are any (Tarjan, with an explicit stack) and
spreads the writes; the first question joins connected classes into regions by union-find, where most questions end. Each
is linear in elements and edges. No set of locations is stored per value: that is what makes TorchScript's version
quadratic when ifs merge a running value. The two phases are two types, as the authors of PyTorch's PR #36345 wished:
nothing can be asked of a `PointsToBuilder`, and nothing be added to a `PointsTo`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from irscope.analysis.alias.seal import collapse_cycles, spread_writes
from irscope.analysis.alias.sealed import Called, Label, LazyLabels, Origin, Place, PointsTo, Reasons, Write, make_place
from irscope.analysis.alias.structure import ANY_CLASS, MIXED, TENSOR, Structure, Structures
from irscope.ir.core import Node, Value
from irscope.ir.types import TensorType

__all__ = ["Label", "Place", "PointsTo", "PointsToBuilder", "Shared", "Write"]


class PointsToBuilder:
    """Elements, edges and writes of a program that is being walked; only grows, and answers nothing.

    >>> from irscope.ir.types import TENSOR
    >>> a, b = Value(1, TENSOR, "a"), Value(2, TENSOR, "b")
    >>> builder = PointsToBuilder()
    >>> builder.bind(b, builder.element(a))
    >>> sealed = builder.seal()
    >>> sealed.element_of[a] == sealed.element_of[b]
    True
    """

    def __init__(self, structures: Structures | None = None) -> None:
        self.element_of: dict[Value, int] = {}
        self.nones: set[Value] = set()
        self.consulted: set[Value] = set()
        self.structures = structures or Structures()
        self.cells: dict[int, int] = {}
        self.fields: dict[int, tuple[int | None, ...]] = {}
        self.slots: dict[tuple[str, str], int] = {}
        self.labels: list[Label] = LazyLabels()
        self.edges: dict[int, list[int]] = {}
        self._is_cyclic = False
        self._reason_of_source: dict[int, Node] = {}
        self._reason_of_edge: dict[tuple[int, int], Node] = {}
        self.writes: list[Write] = []
        self._same_cell: dict[int, int] = {}
        self._from_outside: dict[tuple[str, str], tuple[int, Structure]] = {}
        self._escaped: set[int] = set()
        self.given_away: list[int] = []
        """Bags that unseen code was given, and that may hold all that it knows."""
        self.rebound: list[tuple[int, int, Node]] = []
        """Tensors that got another storage, and whose."""
        self.calls: dict[int, Called] = {}
        self._constants: dict[Value, int] = {}
        self._known: set[Hashable] = set()
        self._attributes: dict[tuple[str, str], tuple[int, Structure]] = {}
        self._bag_of_objects: int | None = None
        self._opaque: int | None = None

    # Elements

    def new(self, label: Label) -> int:
        """One more element, with no edges."""
        self.labels.append(label)
        return len(self.labels) - 1

    def fresh(self, structure: Structure, label: Label) -> int:
        """An element for memory that is shared with nothing, with its cells and fields."""
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
        """The element of a value, made now if nothing was known of it; None for numbers, for None, and the like."""
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
        """Let a value share an element: it is always one of the memories that the element stands for."""
        if element is not None and self.structures.of(value.type) is not None:
            self.element_of[value] = element

    def bind_any(self, value: Value, elements: Sequence[int | None], node: Node) -> None:
        """Let a value be whatever one of these elements is; with a single one it shares that element."""
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
        """Let a value be what another is: `bind_any` of one element, at once where both are tensors."""
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
        if self._bag_of_objects is None:
            bag = self._bag_of_objects = self.new(Place("objects"))
            self.cells[bag] = bag
        return self._bag_of_objects

    # Edges

    def flow(self, source: int, target: int, reason: Node | None = None) -> None:
        """`source` may be whatever `target` may be, and what they hold follows (rules 4 and 5)."""
        cells, fields = self.cells, self.fields
        if target not in cells and target not in fields and source not in fields:
            if source != target:
                self._add_edge(source, target, reason)
            return
        todo = [(source, target)]
        while todo:
            here, there = todo.pop()
            if here == there:
                continue
            self._add_edge(here, there, reason)
            mine, others = cells.get(here), cells.get(there)
            if mine is not None and others is not None and self._joins(mine, others):
                todo.append((mine, others))
                todo.append((others, mine))
            if here in fields or there in fields:
                todo.extend(self._field_flows(here, there))

    def _add_edge(self, source: int, target: int, reason: Node | None) -> None:
        known = self.edges.get(source)
        if known is None:
            self.edges[source] = [target]
            if reason is not None:
                self._reason_of_source[source] = reason
        else:
            known.append(target)
            if reason is not None and self._reason_of_source.get(source) is not reason:
                self._reason_of_edge[source, target] = reason
        if source <= target:
            self._is_cyclic = True

    def merge_tensors(self, value: Value, one: int, other: int) -> None:
        """Let a tensor be one of two things: what `bind_any` does, without looking for cells and fields."""
        if one == other:
            self.element_of[value] = one
            return
        merged = self.element_of[value] = len(self.labels)
        self.labels.append(value)
        self.edges[merged] = [one, other]

    def carry_tensor(self, value: Value, start: int) -> None:
        """Let a tensor be what a loop starts with; an edge to what a round ends with follows by `flow`."""
        carried = self.element_of[value] = len(self.labels)
        self.labels.append(value)
        self.edges[carried] = [start]

    def list_of_tensors(self, value: Value, tensors: Sequence[Value]) -> None:
        """A new list that holds these: what `fresh` and `hold` do, for a container that nobody knows yet."""
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

    def _joins(self, cell: int, other: int) -> bool:
        """Note that two cells are the same from now on; False if they were already."""
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
            # a tuple that was put into a container of anything is there by its fields, which may be the thing itself
            left = mine if mine is not None else (self.cells.get(here), here)
            right = others if others is not None else (self.cells.get(there), there)
            pairs = ((a, b) for a in left for b in right)  # type: ignore[assignment]
        return [(a, b) for a, b in pairs if a is not None and b is not None]

    def hold(self, container: int, things: Sequence[int], reason: Node | None) -> None:
        """Everything inside `container`, whatever its shape, may be one of these things (or one of a tuple's
        fields)."""
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

    def rebind_storage(self, tensor: int, source: int, node: Node) -> None:
        """`tensor.set_(source)`: the tensor object, under all its names, has the source's storage from now on."""
        self.rebound.append((tensor, source, node))

    # Memory from outside

    def outside(self, kind: Origin, structure: Structure) -> int:
        """The element of all inputs, all that escaped, or all that unseen code gives back, of one structure."""
        known = self._from_outside.get((kind, structure.bucket))
        if known is not None:
            return known[0]
        element = self.fresh(structure, Place(kind, name=structure.bucket))
        self._from_outside[kind, structure.bucket] = (element, structure)
        content: Origin = "input" if kind == "input" else "unknown"
        if structure.kind == "box" and structure.content is not None:
            self.flow(self.cells[element], self.outside(content, structure.content))
        elif structure.kind == "tuple":
            for index, field in enumerate(structure.fields):
                if field is not None:
                    inside = self.fields[element][index]
                    assert inside is not None
                    self.flow(inside, self.outside(kind, field))
        elif structure.kind in ("mixed", "object"):
            self.flow(self.cells[element], self.outside(content, MIXED))
            for member in structure.members:
                self.flow(element, self.outside(kind, member))
        if kind == "unknown":
            self.flow(element, self.outside("input", structure))
            self.flow(element, self.outside("escaped", structure))
        return element

    def escape(self, element: int, structure: Structure, node: Node) -> None:
        """Unseen code is given this, and with it everything inside."""
        todo: list[tuple[int, Structure]] = [(element, structure)]
        while todo:
            here, built = todo.pop()
            if here in self._escaped:
                continue
            self._escaped.add(here)
            if built.kind == "tuple":
                inside = self.fields.get(here, ())
                todo.extend(
                    (f, s) for f, s in zip(inside, built.fields, strict=False) if f is not None and s is not None
                )
            self.flow(self.outside("escaped", built), here, node)
            if built.kind in ("mixed", "object"):
                self.give_away(here, self.cells[here])
                self.flow(self.cells[here], self.outside("unknown", MIXED), node)
            elif built.kind == "box" and built.content is not None:
                todo.append((self.cells[here], built.content))

    def opaque(self) -> int:
        """The element of everything that unseen code was given, at any time."""
        if self._opaque is None:
            self._opaque = self.new(Place("opaque"))
        return self._opaque

    def give_away(self, *bags: int) -> None:
        """Unseen code may put what it knows into these."""
        self.given_away.extend(bags)

    @property
    def opaque_element(self) -> int | None:
        """What `opaque` gives, if there is unseen code."""
        return self._opaque

    def attribute(self, class_name: str, name: str, structure: Structure) -> int:
        """What attribute `name` of objects of a class may be."""
        known = self._attributes.get((class_name, name))
        if known is None:
            known = (self.fresh(structure, Place("attribute", name=f"{class_name}.{name}")), structure)
            self._attributes[class_name, name] = known
            self.flow(known[0], self.outside("input", structure))
            self.flow(self.bag_of_objects(), known[0])
            self.flow(self.bag_of_objects(), self.slot(class_name, name))
        return known[0]

    def slot(self, class_name: str, name: str) -> int:
        """The place in the object where the attribute is kept: what `SetAttr` writes and `GetAttr` reads."""
        if (class_name, name) not in self.slots:
            self.slots[class_name, name] = self.new(Place("slot", name=f"{class_name}.{name}"))
        return self.slots[class_name, name]

    # Calls

    def shared_elements(self, constants: Iterable[Value]) -> dict[int, Shared]:
        """The elements that two programs that call each other have in common, and how to find them in another builder.

        `constants` are the program's own; those of the programs that it calls are known.
        """
        found: dict[int, Shared] = {}
        for (kind, _), (element, structure) in self._from_outside.items():
            found[element] = lambda builder, kind=kind, of=structure: builder.outside(kind, of)  # type: ignore[misc]
        for (holder, name), (element, structure) in self._attributes.items():
            found[element] = lambda builder, at=(holder, name), of=structure: builder.attribute(*at, of)  # type: ignore[misc]
        for at, element in self.slots.items():
            found[element] = lambda builder, at=at: builder.slot(*at)  # type: ignore[misc]
        if self._bag_of_objects is not None:
            found[self._bag_of_objects] = PointsToBuilder.bag_of_objects
        if self._opaque is not None:
            found[self._opaque] = PointsToBuilder.opaque
        own = {value: self.element_of[value] for value in constants if value in self.element_of}
        for value, element in {**own, **self._constants}.items():
            found[element] = lambda builder, value=value: builder.constant_of_callee(value)  # type: ignore[misc]
        return found

    def shared_element(self, how: Shared) -> int:
        """The element here of what another builder shares."""
        return how(self)

    def constant_of_callee(self, value: Value) -> int:
        """A constant tensor of a program that is called: one memory, whoever calls."""
        if value not in self._constants:
            structure = self.structures.of(value.type)
            assert structure is not None
            self._constants[value] = self.fresh(structure, value)
        return self._constants[value]

    def is_first(self, key: Hashable) -> bool:
        """Whether this is asked for the first time."""
        if key in self._known:
            return False
        self._known.add(key)
        return True

    # Writes

    def write(self, node: Node, element: int, *, to_shape: bool = False) -> None:
        """A node writes the memory that an element stands for."""
        self.writes.append(Write(node, element, to_shape))

    # Sealing

    def seal(self) -> PointsTo:
        """The finished graph. The builder must not be used any more."""
        self._join_mixed()
        self._apply_rebinding()
        count, edges = len(self.labels), self.edges
        class_of, targets = collapse_cycles(count, edges) if self._is_cyclic else (range(count), edges)
        written = spread_writes(count, targets, {class_of[write.element] for write in self.writes})
        reshaped = spread_writes(count, targets, {class_of[write.element] for write in self.writes if write.to_shape})
        outside = frozenset(class_of[element] for element, _ in self._from_outside.values())
        return PointsTo(
            self.element_of,
            self.labels,
            class_of,
            edges,
            targets,
            self.cells,
            self.fields,
            Reasons(self._reason_of_source, self._reason_of_edge),
            self.writes,
            written,
            reshaped,
            outside,
            self.slots,
            self._opaque,
            self.nones,
            self.consulted,
            self.calls,
        )

    def _join_mixed(self) -> None:
        """Values that may be anything may be what any structure's values are (rules 5 and 7)."""
        self._join_interfaces()
        by_kind: dict[str, list[tuple[int, Structure]]] = {"input": [], "escaped": [], "unknown": []}
        if self._bag_of_objects is not None and self._bag_of_objects in self.given_away:
            for element, structure in self._attributes.values():
                self.flow(element, self.outside("unknown", structure))
        for (kind, _), (element, structure) in self._from_outside.items():
            by_kind[kind].append((element, structure))
        for members in by_kind.values():
            anything = [element for element, structure in members if structure is MIXED]
            for element, structure in members:
                if anything and structure is not MIXED:
                    self.flow(anything[0], element)
                    if structure.kind == "mixed":
                        self.flow(element, anything[0])
        for element, _ in by_kind["escaped"]:
            for bag in dict.fromkeys(self.given_away):
                self.flow(element, bag)
            if self._opaque is not None:
                self.flow(self._opaque, element)

    def _join_interfaces(self) -> None:
        """An attribute of an object of which only an interface is known is that of any class (rule 6)."""
        unknown = {name: element for (owner, name), (element, _) in self._attributes.items() if owner == ANY_CLASS}
        for (_, name), (element, _) in list(self._attributes.items()) if unknown else ():
            other = unknown.get(name)
            if other is not None and other != element:
                self.flow(element, other)
                self.flow(other, element)
        for (owner, name), slot in list(self.slots.items()):
            other = self.slots.get((ANY_CLASS, name))
            if other is not None and owner != ANY_CLASS:
                self.flow(slot, other)
                self.flow(other, slot)

    def _apply_rebinding(self) -> None:
        """Each location of a tensor whose storage was exchanged may be the new storage, so that all its names see it.

        Unseen code may exchange the storage of whatever it was given.
        """
        rebound: list[tuple[int, int, Node | None]] = list(self.rebound)
        if self._opaque is not None:
            unseen = next((write.node for write in self.writes if write.element == self._opaque), None)
            rebound.append((self._opaque, self.outside("escaped", TENSOR), unseen))
        found: list[tuple[int, int, Node | None]] = []
        for tensor, new_storage, node in rebound:
            seen, todo = {tensor}, [tensor]
            while todo:
                element = todo.pop()
                if element not in self.edges and self._is_tensor(element):
                    found.append((element, new_storage, node))
                fresh = [target for target in self.edges.get(element, ()) if target not in seen]
                seen.update(fresh)
                todo.extend(fresh)
        for location, new_storage, node in found:
            self.flow(location, new_storage, node)

    def _is_tensor(self, location: int) -> bool:
        label = self.labels[location]
        is_plain = location not in self.cells and location not in self.fields
        return is_plain and not (isinstance(label, Place) and label.kind == "slot")


Shared = Callable[[PointsToBuilder], int]
"""How to find, in any builder, an element that all programs of one run share."""
