"""What a program does to the memory of its caller, so that it is walked once and not once for each call.

**What is claimed.** A points-to graph to which a summary was applied answers every question about the caller's values
as one for which the callee was inlined, or says "may" more often. Writes too.

**Why it holds.** A summary is the callee's own points-to graph, not yet sealed, with elements of its own for the
parameters, cut down to its *roots*: what a caller can get at or name. These are the parameters and results with all
that they hold, memory from outside, attributes, constants, and bags and tensors that a rule looks at when the
caller's graph is sealed. For each root the summary keeps which roots, and which memories that the callee makes, it
leads to over elements in between. Applying it puts the operands' elements, and the caller's own shared ones, in the
place of the roots, new elements in the place of memory that the callee makes, and repeats the edges by
`PointsToBuilder.flow`, which joins contents as ever (rules 4 and 5).

Of containers inside the callee that are no roots only the object stays. What they hold is not lost: everything that
leads to such a container had its contents joined with the container's, and leads to what is in it by that way.
Memories that the callee makes and that the same roots lead to cannot be told apart by a caller, and are one, if both
are written or neither is. A write keeps what it leads to among roots and memories, in the name of the call.

A constant tensor is one memory in all calls.

**Cost.** One search from each root, over elements that are no roots. If these searches overlap so much that they look
at more than a few times the graph, every element becomes a root: then nothing is searched and nothing cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from irscope.analysis.alias.points_to import PointsToBuilder, Shared
from irscope.analysis.alias.sealed import Called, Label, Place
from irscope.analysis.alias.structure import Structure
from irscope.ir.core import Node, Value

__all__ = ["NO_CALLEES", "Effects", "Summaries", "Summary", "apply", "summarize"]


@dataclass(frozen=True, slots=True)
class Effects:
    """What a callee does besides reading and writing memory."""

    has_side_effect: bool = False
    is_random: bool = False
    stops: bool = False
    """May end the program by an exception."""
    waits: bool = False
    """Waits for a task that may have written anything."""


@dataclass(frozen=True, eq=False, slots=True)
class Summary:
    """One callee, in terms of elements of the builder that it was walked with."""

    name: str
    params: tuple[tuple[int, Structure] | None, ...]
    """For each operand of a call its element; None where it is no memory."""
    results: tuple[int | None, ...]
    shared: Mapping[int, Shared]
    """Roots that the caller's graph has of its own."""
    inner: tuple[int, ...]
    """Roots and memories that each call has for itself."""
    cells: Mapping[int, int]
    fields: Mapping[int, tuple[int | None, ...]]
    edges: Mapping[int, Sequence[int]]
    writes: tuple[tuple[int, bool], ...]
    """Elements, and whether shapes may change."""
    given_away: tuple[int, ...]
    rebound: tuple[tuple[int, int], ...]
    effects: Effects


Summaries = Mapping[str, Summary]
NO_CALLEES: Final[Summaries] = {}


# From a callee's builder


def summarize(
    builder: PointsToBuilder,
    name: str,
    params: Sequence[tuple[int, Structure] | None],
    returns: Sequence[Value],
    constants: Iterable[Value],
    effects: Effects,
) -> Summary:
    """Cut down a builder that has visited the callee's nodes; it must not be used for anything else."""
    results = tuple(map(builder.element, returns))
    shared = builder.shared_elements(constants)
    roots = [element for element, _ in filter(None, params)] + [element for element in results if element is not None]
    roots += [*shared, *builder.given_away, *(element for t, s, _ in builder.rebound for element in (t, s))]
    cut = _Cut(builder, roots)
    known = {*shared, *(root for root in _closed(builder, [element for element, _ in filter(None, params)]))}
    inner = tuple(element for element in cut.kept if element not in known)
    return Summary(
        name,
        tuple(params),
        results,
        shared,
        inner,
        {root: builder.cells[root] for root in cut.roots if root in builder.cells},
        {root: builder.fields[root] for root in cut.roots if root in builder.fields},
        cut.edges,
        cut.writes,
        tuple(dict.fromkeys(builder.given_away)),
        tuple(dict.fromkeys((tensor, source) for tensor, source, _ in builder.rebound)),
        effects,
    )


def _closed(builder: PointsToBuilder, elements: Iterable[int]) -> dict[int, None]:
    """The elements with all that they hold, at any depth."""
    found = dict.fromkeys(elements)
    todo = list(found)
    while todo:
        here = todo.pop()
        held = [builder.cells.get(here), *builder.fields.get(here, ())]
        fresh = [inside for inside in held if inside is not None and inside not in found]
        found.update(dict.fromkeys(fresh))
        todo.extend(fresh)
    return found


class _Cut:
    """What is left of a builder's graph."""

    def __init__(self, builder: PointsToBuilder, roots: Sequence[int]) -> None:
        self._edges = builder.edges
        self._budget = 8 * len(builder.labels) + 1000
        self.roots = _closed(builder, roots)
        found = self._search()
        if found is None:
            self.roots = dict.fromkeys(range(len(builder.labels)))
            found = {root: tuple(self._edges.get(root, ())) for root in self.roots}
        marks = {shape: self._spread(w.element for w in builder.writes if w.to_shape >= shape) for shape in (0, 1)}
        stands = self._representatives(found, marks)
        self.edges: dict[int, Sequence[int]] = {
            root: tuple(dict.fromkeys(stands.get(target, target) for target in targets if target != root))
            for root, targets in found.items()
            if targets
        }
        self.kept = dict.fromkeys([*self.roots, *stands.values()])
        written = dict.fromkeys(stands.get(element, element) for element in marks[0])
        reshaped = {stands.get(element, element) for element in marks[1]}
        self.writes = tuple((element, element in reshaped) for element in written if element in self.kept)

    def _search(self) -> dict[int, tuple[int, ...]] | None:
        """The roots and memories that each root leads to; None when that takes too long."""
        found: dict[int, tuple[int, ...]] = {}
        for root in self.roots:
            seen, todo, ends = {root}, [root], dict[int, None]()
            while todo:
                for there in self._edges.get(todo.pop(), ()):
                    if there in self.roots or there not in self._edges:
                        ends[there] = None
                    elif there not in seen:
                        seen.add(there)
                        todo.append(there)
            self._budget -= len(seen)
            if self._budget < 0:
                return None
            found[root] = tuple(ends)
        return found

    def _spread(self, elements: Iterable[int]) -> dict[int, None]:
        """The roots and memories that some elements lead to first."""
        todo, ends = list(dict.fromkeys(elements)), dict[int, None]()
        seen = set(todo)
        while todo:
            here = todo.pop()
            if here in self.roots or here not in self._edges:
                ends[here] = None
                continue
            fresh = [there for there in self._edges[here] if there not in seen]
            seen.update(fresh)
            todo.extend(fresh)
        return ends

    def _representatives(
        self, found: Mapping[int, Sequence[int]], marks: Mapping[int, Mapping[int, None]]
    ) -> dict[int, int]:
        """For each memory that the callee makes, the one that stands for all that nobody can tell from it."""
        reached: dict[int, list[int]] = {}
        for root, targets in found.items():
            for target in targets:
                if target not in self.roots:
                    reached.setdefault(target, []).append(root)
        first: dict[tuple[object, ...], int] = {}
        return {
            memory: first.setdefault((*by, memory in marks[0], memory in marks[1]), memory)
            for memory, by in reached.items()
        }


# Into a caller's builder


def apply(builder: PointsToBuilder, summary: Summary, node: Node, operands: Sequence[Value]) -> None:
    """Add what a call does: a node that passes these operands to the callee."""
    of = _Roots(builder, summary, node, operands).of
    for source, targets in summary.edges.items():
        if source in summary.shared and not builder.is_first((summary, source)):
            targets = [target for target in targets if target not in summary.shared]
        here = of[source]
        for target in targets:
            there = of[target]
            if here is not None and there is not None:
                builder.flow(here, there, node)
    for memory, to_shape in summary.writes:
        written = of[memory]
        if written is not None:
            builder.write(node, written, to_shape=to_shape)
    builder.give_away(*(given for bag in summary.given_away if (given := of[bag]) is not None))
    for tensor, source in summary.rebound:
        rebound, storage = of[tensor], of[source]
        if rebound is not None and storage is not None:
            builder.rebind_storage(rebound, storage, node)
    for value, result in zip(node.outputs, summary.results, strict=True):
        if result is not None:
            builder.bind_any(value, [of[result]], node)
    reads = tuple(element for root in summary.shared if (element := of[root]) is not None)
    effects = summary.effects
    builder.calls[node.id] = Called(
        summary.name, effects.has_side_effect, effects.is_random, effects.stops, effects.waits, reads
    )


class _Roots:
    """The caller's element for each root and memory of a summary; None for a parameter that is given None."""

    def __init__(self, builder: PointsToBuilder, summary: Summary, node: Node, operands: Sequence[Value]) -> None:
        self._builder, self._summary, self._node = builder, summary, node
        self.of: dict[int, int | None] = {}
        for root, how in summary.shared.items():
            self._same(root, builder.shared_element(how))
        for param, operand in zip(summary.params, operands, strict=True):
            if param is not None:
                self._same(param[0], self._passed(operand, param[1]))
        self._make_inner()

    def _passed(self, operand: Value, structure: Structure) -> int | None:
        """The element of an operand, as the parameter sees it: of the parameter's structure."""
        builder = self._builder
        element = builder.element(operand)
        if element is None or (builder.structures.of(operand.type) is structure and self._has(element, structure)):
            return element
        own = builder.fresh(structure, Place("called", name=f"{self._summary.name}'s parameter"))
        builder.flow(own, element, self._node)
        return own

    def _has(self, element: int, structure: Structure) -> bool:
        """Whether an element has the parts of a structure that says what they are."""
        builder, todo = self._builder, [(element, structure)]
        while todo:
            here, built = todo.pop()
            if built.kind == "mixed":
                return False
            if built.kind == "box" and built.content is not None:
                if here not in builder.cells:
                    return False
                todo.append((builder.cells[here], built.content))
            elif built.kind == "tuple":
                fields = builder.fields.get(here, ())
                if len(fields) != len(built.fields):
                    return False
                for field, inside in zip(fields, built.fields, strict=True):
                    if (field is None) != (inside is None):
                        return False
                    if field is not None and inside is not None:
                        todo.append((field, inside))
        return True

    def _same(self, root: int, element: int | None) -> None:
        """Let an element stand for a root, and what it holds for what the root holds."""
        builder, summary = self._builder, self._summary
        todo: list[tuple[int, int | None]] = [(root, element)]
        while todo:
            here, there = todo.pop()
            if here in self.of:
                continue
            self.of[here] = there
            if here in summary.cells:
                todo.append((summary.cells[here], None if there is None else builder.cells[there]))
            inside = summary.fields.get(here, ())
            fields = builder.fields.get(there, ()) if there is not None else ()
            assert there is None or len(fields) == len(inside), "an operand is not as its parameter"
            todo.extend(
                (field, fields[index] if there is not None else None)
                for index, field in enumerate(inside)
                if field is not None
            )

    def _make_inner(self) -> None:
        builder, summary = self._builder, self._summary
        labels = self._labels()
        label = Place("called", name=summary.name)
        every = dict.fromkeys([*summary.inner, *summary.cells, *summary.fields])
        made = [element for element in every if element not in self.of]
        for element in made:
            self.of[element] = builder.new(labels.get(element, label))
        for element in made:
            here = self.of[element]
            assert here is not None
            if element in summary.cells:
                cell = self.of.get(summary.cells[element])
                if cell is not None:
                    builder.cells[here] = cell
            if element in summary.fields:
                builder.fields[here] = tuple(
                    None if field is None else self.of.get(field) for field in summary.fields[element]
                )

    def _labels(self) -> dict[int | None, Label]:
        """What the results and their contents are called in the caller."""
        summary, found = self._summary, dict[int | None, Label]()
        for result, value in zip(summary.results, self._node.outputs, strict=True):
            if result is not None:
                found[result] = value
                found.setdefault(summary.cells.get(result), Place("contents", value))
                for index, field in enumerate(summary.fields.get(result, ())):
                    found.setdefault(field, Place("field", value, str(index)))
        return found
