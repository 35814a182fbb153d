"""What may be the same memory: a points-to graph, built in one walk over a program and then sealed.

**What is claimed.** If in some execution of the graph two names are bound, at one moment or at two, to the same
memory (one tensor storage, one list object, ...), then the elements of the two names reach a common element. A "no"
is therefore a proof; a "may" is not a proof of the opposite. The answer holds for the whole execution: order in time
is not used.

**Elements and edges.** An *element* stands for a set of memories: what one value may be over all executions and
iterations. An edge from e to f says "whatever f may be, e may be". An element with no edges is a *location*: memory
that came into being at one place of the program. A result that nothing else can share gets no element until somebody
asks (`Elements.element`): most values of most programs never have one, and are their own location. Each place
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
   Where the storages of bound inputs are known (`Graph.storages`), each storage has an element and the arguments share
   one for each structure. That no argument lies in such a storage, and that no two of them have become one, is assumed,
   and checked when the program is called. Objects, futures and whatever else one cannot look into may be, or hold, any
   input, as may attributes, what tasks write and what unseen code gives back: "input" has edges to all of them.
8. *Code that nobody sees* (calls of what is not known, unknown ops). We assume that it reaches only what such code was
   once given, and memory of its own: an operand *escapes*, with everything inside it, as does what a block that such
   code is given uses of the program around it (`prim::Closure` gives one and runs nothing), and the results may be anything
   that escaped (even later: that is the element "escaped", to which each escape adds an edge), any input, or unknown.
   Escaped containers may hold all of that, and an escaped tensor may get the storage of another. What was never given
   away and never came from outside cannot be touched. A task that the graph waits for and did
   not start is such code too, the caller's: it may have written any input. And where there are tasks, unseen code may wait
   for one: all memory is then read and written behind it.
9. *Groups*: a block whose parameters stand for the node's inputs one to one is read as if inlined. So is the callee of
   a call, if it is known, by its summary (`irscope.analysis.alias.build.callee_summary`).

**Assumed.** A constant tensor belongs to its node alone; a constant None, of whatever type, is no memory, nor
is a value that is declared and never set (`prim::Uninitialized`). Two names of incompatible structure (a list, a tensor) are
not the same memory unless a mixed type came between, which rule 5 sees. Schemas are true (1), and so is the reach of
unseen code (8).

**Writes** are kept beside the graph: pairs of a node and an element. A value has a writer if its element and a
written one share a location. `solver` spreads this as one boolean: down from written elements to locations, then up
again.

**Given up.** Offsets inside a storage, list positions, dict keys, which branch was taken, and order in time.

**Where it is.** Rule 1 is carried out in `schema_rules`, 2, 3 and 9 in `walk` (calls in `callee_summary`), taking things out of containers
and putting them in (4) in `node_rules`. What all of them use of 4 and 5 is in `elements`, of 6 to 8 in `external_memory`.

**Cost.** The walk appends to flat tables. Sealing collapses cycles if there are any (Tarjan, with an explicit stack) and
spreads the writes; the first question joins connected classes into regions by union-find, where most questions end. Each
is linear in elements and edges. No set of locations is stored per value: that is what makes TorchScript's version
quadratic when ifs merge a running value. The two phases are two types, as the authors of PyTorch's PR #36345 wished:
nothing can be asked of a `PointsToBuilder`, and nothing be added to a `PointsTo`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from irscope.analysis.alias.points_to.elements import Elements
from irscope.analysis.alias.points_to.external_memory import OutsideMemory
from irscope.analysis.alias.points_to.memory_structure import TENSOR
from irscope.analysis.alias.points_to.records import Called, Label, Place, PointsTo, Reasons, Write
from irscope.analysis.alias.points_to.solver import collapse_cycles, spread_writes
from irscope.ir import Node, Value

__all__ = ["Label", "Place", "PointsTo", "PointsToBuilder", "Shared", "Write"]


class PointsToBuilder:
    """Elements, edges and writes of a program that is being walked; only grows, and answers nothing.

    >>> from irscope.ir.types import TENSOR
    >>> a, b = Value(1, TENSOR, "a"), Value(2, TENSOR, "b")
    >>> builder = PointsToBuilder()
    >>> builder.elements.bind(b, builder.elements.element(a))
    >>> sealed = builder.seal()
    >>> sealed.element_of[a] == sealed.element_of[b]
    True
    """

    def __init__(self, elements: Elements | None = None, outside: OutsideMemory | None = None) -> None:
        self.elements = elements or Elements()
        self.outside = outside or OutsideMemory(self.elements)
        self.writes: list[Write] = []
        self.rebound: list[tuple[int, int, Node]] = []
        """Tensors that got another storage, and whose."""
        self.calls: dict[int, Called] = {}
        self._constants: dict[Value, int] = {}
        self._known: set[Hashable] = set()

    # Writes

    def write(self, node: Node, element: int, *, to_shape: bool = False) -> None:
        """A node writes the memory that an element stands for."""
        self.writes.append(Write(node, element, to_shape))

    def rebind_storage(self, tensor: int, source: int, node: Node) -> None:
        """`tensor.set_(source)`: the tensor object, under all its names, has the source's storage from now on."""
        self.rebound.append((tensor, source, node))

    # Calls

    def shared_elements(self, constants: Iterable[Value]) -> dict[int, Shared]:
        """The elements that two programs that call each other have in common, and how to find them in another builder.

        `constants` are the program's own; those of the programs that it calls are known.
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

    def shared_element(self, how: Shared) -> int:
        """The element here of what another builder shares."""
        return how(self)

    def constant_of_callee(self, value: Value) -> int:
        """A constant tensor of a program that is called: one memory, whoever calls."""
        if value not in self._constants:
            structure = self.elements.structures.of(value.type)
            assert structure is not None
            self._constants[value] = self.elements.fresh(structure, value)
        return self._constants[value]

    def is_first(self, key: Hashable) -> bool:
        """Whether this is asked for the first time."""
        if key in self._known:
            return False
        self._known.add(key)
        return True

    # Sealing

    def seal(self) -> PointsTo:
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
            elements.element_of,
            elements.labels,
            class_of,
            edges,
            targets,
            elements.cells,
            elements.fields,
            Reasons(elements.reason_of_source, elements.reason_of_edge),
            self.writes,
            written,
            reshaped,
            places,
            outside.slots,
            outside.opaque_element,
            elements.nones,
            elements.consulted,
            self.calls,
        )

    def _apply_rebinding(self) -> None:
        """Each location of a tensor whose storage was exchanged may be the new storage, so that all its names see it.

        Unseen code may exchange the storage of whatever it was given.
        """
        rebound: list[tuple[int, int, Node | None]] = list(self.rebound)
        opaque, edges = self.outside.opaque_element, self.elements.edges
        if opaque is not None:
            unseen = next((write.node for write in self.writes if write.element == opaque), None)
            rebound.append((opaque, self.outside.of("escaped", TENSOR), unseen))
        found: list[tuple[int, int, Node | None]] = []
        for tensor, new_storage, node in rebound:
            seen, todo = {tensor}, [tensor]
            while todo:
                element = todo.pop()
                if element not in edges and self._is_tensor(element):
                    found.append((element, new_storage, node))
                fresh = [target for target in edges.get(element, ()) if target not in seen]
                seen.update(fresh)
                todo.extend(fresh)
        for location, new_storage, node in found:
            self.elements.flow(location, new_storage, node)

    def _is_tensor(self, location: int) -> bool:
        label = self.elements.labels[location]
        is_plain = location not in self.elements.cells and location not in self.elements.fields
        return is_plain and not (isinstance(label, Place) and label.kind == "slot")


Shared = Callable[[PointsToBuilder], int]
"""How to find, in any builder, an element that all programs of one run share."""
