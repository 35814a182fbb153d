"""The effect of a program on its caller's memory, summarised so that the program is walked once instead of once per call.

**Claim.** A points-to graph to which a summary was applied answers every question about the caller's values
as one in which the callee was inlined, or says "may" more often. The same holds for writes.

**Why it holds.** A summary is the callee's own points-to graph, not yet sealed, with its own elements for the
parameters, reduced to its *roots*: the elements that a caller can reach or name. These are the parameters and results with
all their contents, memory from outside, attributes, constants, and the bags and tensors that a rule inspects when the
caller's graph is sealed. For each root the summary keeps the roots, and the memories created by the callee, that it
reaches over intermediate elements. Applying it (`irscope.analysis.alias.build.call`) substitutes the operands' elements,
and the caller's own shared ones, for the roots, and new elements for memory that the callee
creates, and repeats the edges by `PointsToBuilder.flow`, which joins contents as usual (rules 4 and 5).

Of containers inside the callee that are not roots, only the object is kept. Their contents are not lost: everything that
reaches such a container had its contents joined with the container's, and reaches them that way.
A caller cannot distinguish two memories created by the callee if the same roots reach them and both are
written or neither is; they are merged. A write is kept for the roots and memories that it reaches, attributed to the call.

A constant tensor is one memory in all calls.

**Cost.** One search from each root, over elements that are not roots. If these searches overlap so much that they visit
more than a few times the graph, every element becomes a root: then nothing is searched and nothing cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from irscope.analysis.alias.points_to import Elements, PointsToBuilder, Shared, Structure
from irscope.ir import Value

__all__ = ["NO_CALLEES", "Effects", "Summaries", "Summary", "summarize"]


@dataclass(frozen=True, slots=True)
class Effects:
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

    def _representatives(
        self, found: Mapping[int, Sequence[int]], marks: Mapping[int, Mapping[int, None]]
    ) -> dict[int, int]:
        """Maps each memory created by the callee to the representative of all memories indistinguishable from it."""
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
