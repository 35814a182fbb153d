"""What a program does to its caller's memory, summarised once, and applied at each of its calls."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from irscope._base.nested import grouped
from irscope.analysis.alias.points_to.builder import PointsToBuilder, Shared
from irscope.analysis.alias.points_to.elements import Elements, Structure
from irscope.analysis.alias.points_to.graph import Called, Effects, Label, Place
from irscope.ir import Node, Value

# The effect of a program on its caller's memory, summarised so that the program is walked once instead of once per call.
#
# **Claim.** A points-to graph to which a summary was applied answers every question about the caller's values
# as one in which the callee was inlined, or says "may" more often; but for "may" of what a tensor holds (below). The same
# holds for writes.
#
# **Why it holds.** A summary is the callee's own points-to graph, not yet sealed, with its own elements for the
# parameters, reduced to its *roots*: the elements that a caller can reach or name. These are the parameters and results with
# all their contents, memory from outside, attributes, constants, and the bags and tensors that a rule inspects when the
# caller's graph is sealed. For each root the summary keeps the roots, and the memories created by the callee, that it
# reaches over intermediate elements. Applying it (`irscope.analysis.alias.points_to.callee_summary`) substitutes the operands' elements,
# and the caller's own shared ones, for the roots, and new elements for memory that the callee
# creates, and repeats the edges by `PointsToBuilder.flow`, which joins contents as usual (rules 4 and 5).
#
# Of containers inside the callee that are not roots, only the object is kept. Their contents are not lost: every root with
# contents of its own that reaches such a container had them joined with the container's, and reaches them that way. A root
# without (a tensor's) reaches one only over an `Any` that a tensor was cast out of: in a run it is a tensor then, which holds nothing.
# A caller cannot distinguish two memories created by the callee if the same roots reach them and both are
# written or neither is; they are merged. A write is kept for the roots and memories that it reaches, attributed to the call.
#
# A constant tensor is one memory in all calls.
#
# **Cost.** One search from each root, over elements that are not roots. If these searches overlap so much that they visit
# more than a few times the graph, every element becomes a root: then nothing is searched and nothing cut.


@dataclass(frozen=True, eq=False, slots=True)
class Summary:
    """The summary of one callee, in terms of elements of the builder that walked it."""

    name: str
    params: tuple[tuple[int, Structure] | None, ...]
    """The element of each operand of a call; None if it is not memory."""
    results: tuple[int | None, ...]
    shared: Mapping[int, Shared]
    """Roots for which the caller's graph has its own elements."""
    inner: tuple[int, ...]
    """Roots and memories that are separate for each call."""
    cells: Mapping[int, int]
    fields: Mapping[int, tuple[int | None, ...]]
    edges: Mapping[int, Sequence[int]]
    writes: tuple[tuple[int, bool], ...]
    """Written elements, and whether their shapes may change."""
    given_away: tuple[int, ...]
    rebound: tuple[tuple[int, int], ...]
    effects: Effects


Summaries = Mapping[str, Summary]
NO_CALLEES: Final[Summaries] = {}


def summarize(
    builder: PointsToBuilder,
    name: str,
    params: Sequence[tuple[int, Structure] | None],
    returns: Sequence[Value],
    constants: Iterable[Value],
    effects: Effects,
) -> Summary:
    """Reduce a builder that has visited the callee's nodes to a summary; it must not be used for anything else."""
    elements, given_away = builder.elements, builder.outside.given_away
    results = tuple(map(elements.element, returns))
    shared = builder.shared_elements(constants)
    roots = [element for element, _ in filter(None, params)] + [element for element in results if element is not None]
    roots += [*shared, *given_away, *(element for t, s, _ in builder.rebound for element in (t, s))]
    cut = _Cut(builder, roots)
    known = {*shared, *(root for root in _closed(elements, [element for element, _ in filter(None, params)]))}
    inner = tuple(element for element in cut.kept if element not in known)
    return Summary(
        name,
        tuple(params),
        results,
        shared,
        inner,
        {root: elements.cells[root] for root in cut.roots if root in elements.cells},
        {root: elements.fields[root] for root in cut.roots if root in elements.fields},
        cut.edges,
        cut.writes,
        tuple(dict.fromkeys(given_away)),
        tuple(dict.fromkeys((tensor, source) for tensor, source, _ in builder.rebound)),
        effects,
    )


def _closed(table: Elements, elements: Iterable[int]) -> dict[int, None]:
    """The elements with all their contents, at any depth."""
    found = dict.fromkeys(elements)
    todo = list(found)
    while todo:
        here = todo.pop()
        held = [table.cells.get(here), *table.fields.get(here, ())]
        fresh = [inside for inside in held if inside is not None and inside not in found]
        found.update(dict.fromkeys(fresh))
        todo.extend(fresh)
    return found


class _Cut:
    """A builder's graph reduced to its roots and the memories they reach."""

    def __init__(self, builder: PointsToBuilder, roots: Sequence[int]) -> None:
        self._edges, count = builder.elements.edges, len(builder.elements.labels)
        self._budget = 8 * count + 1000
        self.roots = _closed(builder.elements, roots)
        found = self._search()
        if found is None:
            self.roots = dict.fromkeys(range(count))
            found = {root: tuple(self._edges.get(root, ())) for root in self.roots}
        marks = {shape: self._spread(w.element for w in builder.writes if w.to_shape >= shape) for shape in (0, 1)}
        reached = grouped((target, root) for root, targets in found.items() for target in targets if target not in self.roots)
        first: dict[tuple[object, ...], int] = {}
        stands = {memory: first.setdefault((*by, memory in marks[0], memory in marks[1]), memory) for memory, by in reached.items()}
        """Maps each memory created by the callee to the representative of all memories indistinguishable from it."""
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
        """The roots and memories that each root reaches; None if the search exceeds its budget."""
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
        """The first roots and memories reached from some elements."""
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


def apply(builder: PointsToBuilder, summary: Summary, node: Node, operands: Sequence[Value]) -> None:
    """Add the effects of a call: a node that passes these operands to the callee."""
    elements = builder.elements
    of = _Roots(builder, summary, node, operands).of
    for source, targets in summary.edges.items():
        if (summary, source) in builder.applied:
            targets = [target for target in targets if target not in summary.shared]
        elif source in summary.shared:
            builder.applied.add((summary, source))
        here = of[source]
        for target in targets:
            there = of[target]
            if here is not None and there is not None:
                elements.flow(here, there, node)
    for memory, to_shape in summary.writes:
        written = of[memory]
        if written is not None:
            builder.write(node, written, to_shape=to_shape)
    builder.outside.give_away(*(given for bag in summary.given_away if (given := of[bag]) is not None))
    for tensor, source in summary.rebound:
        rebound, storage = of[tensor], of[source]
        if rebound is not None and storage is not None:
            builder.rebound.append((rebound, storage, node))
    for value, result in zip(node.outputs, summary.results, strict=True):
        if result is not None:
            elements.bind_any(value, [of[result]], node)
    reads = tuple(element for root in summary.shared if (element := of[root]) is not None)
    builder.calls[node.id] = Called(summary.name, summary.effects, reads)


class _Roots:
    """The caller's element for each root and memory of a summary; None for a parameter whose operand is None."""

    def __init__(self, builder: PointsToBuilder, summary: Summary, node: Node, operands: Sequence[Value]) -> None:
        self._builder, self._elements, self._summary, self._node = builder, builder.elements, summary, node
        self.of: dict[int, int | None] = {}
        for root, how in summary.shared.items():
            self._same(root, how(builder))
        for param, operand in zip(summary.params, operands, strict=True):
            if param is not None:
                self._same(param[0], self._passed(operand, param[1]))
        self._make_inner()

    def _passed(self, operand: Value, structure: Structure) -> int | None:
        """The element of an operand, converted to the parameter's structure."""
        elements = self._elements
        element = elements.element(operand)
        if element is None or (elements.structures.of(operand.type) is structure and self._has(element, structure)):
            return element
        own = elements.fresh(structure, Place("called", name=f"{self._summary.name}'s parameter"))
        elements.flow(own, element, self._node)
        return own

    def _has(self, element: int, structure: Structure) -> bool:
        """Whether an element has all parts of a structure, none of them mixed."""
        elements, todo = self._elements, [(element, structure)]
        while todo:
            here, built = todo.pop()
            if built.kind == "mixed":
                return False
            if built.kind == "box" and built.content is not None:
                if here not in elements.cells:
                    return False
                todo.append((elements.cells[here], built.content))
            elif built.kind == "tuple":
                fields = elements.fields.get(here, ())
                if len(fields) != len(built.fields):
                    return False
                for field, inside in zip(fields, built.fields, strict=True):
                    if (field is None) != (inside is None):
                        return False
                    if field is not None and inside is not None:
                        todo.append((field, inside))
        return True

    def _same(self, root: int, element: int | None) -> None:
        """Map a root to an element, and the root's contents to the element's contents."""
        elements, summary = self._elements, self._summary
        todo: list[tuple[int, int | None]] = [(root, element)]
        while todo:
            here, there = todo.pop()
            if here in self.of:
                continue
            self.of[here] = there
            if here in summary.cells:
                todo.append((summary.cells[here], None if there is None else elements.cells[there]))
            inside = summary.fields.get(here, ())
            fields = elements.fields.get(there, ()) if there is not None else ()
            assert there is None or len(fields) == len(inside), "an operand is not as its parameter"
            todo.extend((field, fields[index] if there is not None else None) for index, field in enumerate(inside) if field is not None)

    def _make_inner(self) -> None:
        elements, summary = self._elements, self._summary
        labels = self._labels()
        label = Place("called", name=summary.name)
        every = dict.fromkeys([*summary.inner, *summary.cells, *summary.fields])
        made = [element for element in every if element not in self.of]
        for element in made:
            self.of[element] = elements.new(labels.get(element, label))
        for element in made:
            here = self.of[element]
            assert here is not None
            if element in summary.cells:
                cell = self.of.get(summary.cells[element])
                if cell is not None:
                    elements.cells[here] = cell
            if element in summary.fields:
                elements.fields[here] = tuple(None if field is None else self.of.get(field) for field in summary.fields[element])

    def _labels(self) -> dict[int | None, Label]:
        """The labels of the results and their contents in the caller."""
        summary, found = self._summary, dict[int | None, Label]()
        for result, value in zip(summary.results, self._node.outputs, strict=True):
            if result is not None:
                found[result] = value
                found.setdefault(summary.cells.get(result), Place("contents", value))
                for index, field in enumerate(summary.fields.get(result, ())):
                    found.setdefault(field, Place("field", value, str(index)))
        return found
