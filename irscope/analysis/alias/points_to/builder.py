"""Builds a points-to graph, which over-approximates aliasing, in one walk over a program, and then seals it."""

from collections.abc import Callable, Hashable, Iterable

from irscope.analysis.alias.points_to.elements import ANY_CLASS, MIXED, TENSOR, Elements, Structure
from irscope.analysis.alias.points_to.graph import Called, Origin, Place, PointsTo, Reasons, Write, closure, collapse_cycles, spread_writes
from irscope.ir import Node, Value

# Memory from outside the program: inputs, memory that unseen code received or returns, attributes of objects.
#
# These are rules 6 to 8 of the argument in `irscope.analysis.alias.points_to.builder`. There is one element for each kind of origin and
# structure, created on first use. If the storages of bound inputs are known, each has an element, and "input" is then all of
# these and "argument". Mixed types (`Any`, unions, interfaces) are joined with the types they may be
# at the end, when all of them are known.


class OutsideMemory:
    """The elements that belong to the caller, unseen code and objects."""

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
        if kind == "input" and self.storages:  # memory of unknown origin may be an argument's, or be in a known storage
            if _is_open(structure):
                self.elements.flow(element, self.of("argument", structure))
            for storage in self.storages.values() if structure is TENSOR else ():
                self.elements.flow(element, storage)
            if structure is MIXED:
                self.elements.flow(element, self.of("input", TENSOR))
        return element

    def given(self, value: Value, structure: Structure, number: int | None) -> int:
        """The element of an input: that of its storage, if its number is known. Inputs of known storage must come first."""
        if number is not None and structure is TENSOR:
            if number not in self.storages:
                self.storages[number] = self.elements.fresh(structure, value)
            return self.storages[number]
        is_argument = bool(self.storages) and _is_open(structure)
        return self.of("argument" if is_argument else "input", structure)

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
                todo.extend((f, s) for f, s in zip(inside, built.fields, strict=False) if f is not None and s is not None)
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


# **Claim.** If in some execution of the graph two names are bound, at the same or at different times, to the same
# memory (one tensor storage, one list object, ...), then the elements of the two names reach a common element. A "no"
# is therefore a proof; a "may" is not a proof of the opposite. The analysis is flow-insensitive: the answer holds for the
# whole execution.
#
# **Elements and edges.** An *element* represents a set of memories: all that one value may be over all executions and
# iterations. An edge from e to f says "whatever f may be, e may be". An element with no edges is a *location*: memory
# created at one place of the program. A result that nothing else can share gets no element until one is requested
# (`Elements.element`): most values of most programs never have one, and are their own location. Each place
# where one name can become bound to the memory of another must add an edge, or let both names share one element.
# These places are:
#
# 1. *Ops whose result shares an operand*, by schema (`irscope.analysis.effects`). This relies on correct schemas; the
#    overlay corrects those that are known to be wrong, and execution checks them.
# 2. *If*: each result has edges to the results of both blocks.
# 3. *Loop*: a carried value is, on entry of the body, either the initial value or the body's result of the previous
#    iteration; after the loop it is one or the other as well (with no iteration, the initial value). One element with these
#    two edges serves the block parameter and the node's output. This creates cycles.
# 4. *Containers*. A list or dict has a *cell*, an element that represents everything it holds. A stored value gets an
#    edge from the cell; a value taken out shares the cell's element. Two names of one container must agree on its cell,
#    even for later stores through either name: so an edge between two containers adds edges between their cells in both
#    directions. Tuples are immutable, so each has one element per field, and plain edges. Nested containers
#    follow from the same two rules.
# 5. *Types that do not determine the value* (`Any`, unions, objects): one cell that is its own cell, a bag for all contents
#    at any depth. An edge from such a value to a container therefore makes the container's cell part of the bag. A tuple
#    that is put into a container is represented there by its fields; so if a value from the bag is used as a tuple again, its
#    fields may be what the bag holds, or the value itself.
# 6. *Attributes of objects*: one element for each class and attribute, whichever object has it. Objects of one class
#    are thus not distinguished, and need not be. If only an interface of an object is known, its attributes are those of all
#    classes.
# 7. *From outside*. Inputs of one structure share one element (any two may be the same object) whose cell holds the
#    inputs of its content's structure; with `distinct_inputs` each gets its own. A mixed input may be any input.
#    If the storages of bound inputs are known (`Graph.storages`), each storage has an element and the arguments share
#    one for each structure. We assume that no argument is in such a storage, and that no two storages have become one; this is
#    checked when the program is called. Objects, futures and other values that cannot be inspected may be, or hold, any
#    input, as may attributes, what tasks write and what unseen code returns: "input" has edges to all of them.
# 8. *Unseen code* (calls of unknown callees, unknown ops). We assume that it reaches only what such code was
#    passed at some time, and memory of its own: an operand *escapes*, with everything inside it, and so does every value that a
#    block passed to such code uses from the surrounding program (`prim::Closure` passes a block and runs nothing). The results may
#    be anything that escaped (even later: that is the element "escaped", to which each escape adds an edge), any input, or
#    unknown. Escaped containers may hold all of that, and an escaped tensor may get the storage of another. Memory that never
#    escaped and never came from outside cannot be touched. A task that the graph waits for and did
#    not start is unseen code too, the caller's: it may have written any input. And if there are tasks, unseen code may wait
#    for one: it then reads and writes all memory.
# 9. *Groups*: a block whose parameters correspond to the node's inputs one to one is read as if inlined. So is the callee of
#    a call, if it is known, by its summary (`irscope.analysis.alias.points_to.callee_summary`).
#
# **Assumptions.** A constant tensor belongs to its node alone; a constant None, of whatever type, is not memory, nor
# is a value that is declared and never set (`prim::Uninitialized`). Two names of incompatible structure (a list, a tensor) are
# not the same memory unless a mixed type came between, which rule 5 handles. A value is of its type, also after a cast
# (`prim::unchecked_cast`): what is called a tensor holds nothing, though an `Any` that it was cast out of may be a list.
# Schemas are correct (1), and so is the reach of unseen code (8).
#
# **Writes** are kept beside the graph: pairs of a node and an element. A value has a writer if its element and a
# written one share a location. `spread_writes` propagates this as one boolean: down from written elements to locations, then up
# again.
#
# **Imprecision.** Offsets inside a storage, list positions, dict keys, the branch taken, and order in time are not modelled.
#
# **Code.** Rule 1, and loads from and stores to containers (4), are in `NodeRules`; 2, 3 and 9 are in `Walk` (calls in
# `callee_summary`). The parts of 4 and 5 that all of them use are in `Elements`, those of 6 to 8 in `OutsideMemory`.
#
# **Cost.** The walk appends to flat tables. Sealing collapses cycles if there are any (Tarjan, with an explicit stack) and
# propagates the writes; the first query joins connected classes into regions by union-find, which decides most queries. Each
# step is linear in elements and edges. No set of locations is stored per value: such sets make TorchScript's version
# quadratic when ifs merge a running value. The two phases are two types, as the authors of PyTorch's PR #36345 wished:
# a `PointsToBuilder` has no queries, and a `PointsTo` cannot be extended.


class PointsToBuilder:
    """Collects the elements, edges and writes of a program during the walk; it only grows, and has no queries."""

    def __init__(self, elements: Elements, outside: OutsideMemory | None = None) -> None:
        self.elements = elements
        self.outside = outside or OutsideMemory(self.elements)
        self.writes: list[Write] = []
        self.rebound: list[tuple[int, int, Node]] = []
        """Tensor objects that got another storage, under all their names (`tensor.set_(source)`): tensor, source, and node."""
        self.calls: dict[int, Called] = {}
        self._constants: dict[Value, int] = {}
        self.applied: set[tuple[Hashable, int]] = set()
        """The summaries of callees, each with a root that is shared by all its calls, whose edges were added."""

    # Writes

    def write(self, node: Node, element: int, *, to_shape: bool = False) -> None:
        """Record that a node writes the memory of an element."""
        self.writes.append(Write(node, element, to_shape))

    # Calls

    def shared_elements(self, constants: Iterable[Value]) -> "dict[int, Shared]":
        """The elements that a program shares with its callers, and how to find them in another builder.

        `constants` are the program's own; those of its callees are known already.
        """
        found: dict[int, Shared] = {}
        for (kind, _), (element, structure) in self.outside.by_origin.items():
            found[element] = lambda builder, kind=kind, of=structure: builder.outside.of(kind, of)  # type: ignore[misc]
        for (holder, name), (element, structure) in self.outside.attributes.items():
            found[element] = lambda builder, at=(holder, name), of=structure: builder.outside.attribute(*at, of)  # type: ignore[misc]
        for at, element in self.outside.slots.items():
            found[element] = lambda builder, at=at: builder.outside.slot(*at)  # type: ignore[misc]
        if self.elements.objects is not None:
            found[self.elements.objects] = lambda builder: builder.elements.bag_of_objects()
        if self.outside.opaque_element is not None:
            found[self.outside.opaque_element] = lambda builder: builder.outside.opaque()
        known = self.elements.element_of
        own = {value: known[value] for value in constants if value in known}
        for value, element in {**own, **self._constants}.items():
            found[element] = lambda builder, value=value: builder.constant_of_callee(value)  # type: ignore[misc]
        return found

    def constant_of_callee(self, value: Value) -> int:
        """The element of a callee's constant tensor: one memory for all callers."""
        if value not in self._constants:
            structure = self.elements.structures.of(value.type)
            assert structure is not None
            self._constants[value] = self.elements.fresh(structure, value)
        return self._constants[value]

    # Sealing

    def seal(self, *, has_inferred: bool = False) -> PointsTo:
        """The finished graph. The builder must not be used any more."""
        elements, outside = self.elements, self.outside
        outside.join_mixed()
        self._apply_rebinding()
        count, edges = len(elements.labels), elements.edges
        class_of, targets = collapse_cycles(count, edges) if elements.is_cyclic else (range(count), edges)
        written = spread_writes(count, targets, {class_of[write.element] for write in self.writes})
        reshaped = spread_writes(count, targets, {class_of[write.element] for write in self.writes if write.to_shape})
        known = (element for element, _ in outside.by_origin.values())
        places = frozenset(class_of[element] for element in (*known, *outside.storages.values()))
        return PointsTo(
            elements.element_of, elements.labels, class_of, edges, targets, elements.cells, elements.fields,
            Reasons(elements.reason_of_source, elements.reason_of_edge), self.writes, written, reshaped, places, outside.slots,
            outside.opaque_element, elements.nones, elements.consulted, self.calls, elements.typed,
            any(write.to_shape for write in self.writes), has_inferred,
        )  # fmt: skip

    def _apply_rebinding(self) -> None:
        """Let each location of a tensor whose storage was replaced be the new storage, so that all its names see it.

        Unseen code may replace the storage of everything passed to it.
        """
        rebound: list[tuple[int, int, Node | None]] = list(self.rebound)
        opaque, edges = self.outside.opaque_element, self.elements.edges
        if opaque is not None:
            unseen = next((write.node for write in self.writes if write.element == opaque), None)
            rebound.append((opaque, self.outside.of("escaped", TENSOR), unseen))
        reached = [
            (sorted(closure((tensor,), edges)), new_storage, node) for tensor, new_storage, node in rebound
        ]  # before any edge is added
        for locations, new_storage, node in reached:
            for location in locations:
                if location not in edges and self._is_tensor(location):
                    self.elements.flow(location, new_storage, node)

    def _is_tensor(self, location: int) -> bool:
        label = self.elements.labels[location]
        is_plain = location not in self.elements.cells and location not in self.elements.fields
        return is_plain and not (isinstance(label, Place) and label.kind == "slot")


Shared = Callable[[PointsToBuilder], int]
"""Finds, in any builder, an element that all programs of one run share."""
