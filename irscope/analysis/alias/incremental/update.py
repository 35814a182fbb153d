"""Derives the points-to graph after a rewriter's edits from the graph before them.

**Claim.** The new graph answers every question about values and nodes as a graph built from scratch for the new program
would. Edits that cannot be followed in this way are refused (`CannotFollow`, with the reason), and the caller builds from
scratch. The old graph is not changed: the new one is layers over the same tables (`irscope.analysis.alias.incremental.persistent_map`).

**Why it holds.** A points-to graph is the set of what each node adds, in any order of the nodes: edges, shared elements
and writes. So moving nodes changes nothing, and an edit changes only what its own nodes add:

1. *Created.* The node goes through the same rules as in a build, on top of the layers. Rules that involve memory common to
   the whole program (memory from outside, escaped memory, attributes, joined cells) are refused, and so is an edge that
   closes a cycle, because sealing collapsed the cycles that existed. The remaining rules add new elements above old ones,
   writes, or an edge from an old cell; the writes of the affected regions are propagated again on demand.
2. *Erased.* The results have no users any more (`irscope.ir.verify`). A node is followed if its rule adds only
   edges downward from elements of its own results, names for elements that exist, and writes. The writes and the names are
   removed; the edges may stay, because only removed names lead to them from above. Other nodes are refused.
3. *Replaced*, `old` by `new`. Elements are created when a value is first read, so if `old` has none, no rule ever saw
   it, and nothing changes. If both share one element, nothing changes. If the element of `old` is its *own* (it was
   created for `old`, and has no edges), then all other names of it come from users of `old`, which use `new` now: the
   element gets a single edge to the element of `new`, and its class, and so becomes another name of it; or `new` takes the
   element over if it has none. An element that `old` shares with something else cannot be split, and is refused: the graph does
   not record which name was derived from which.
4. *The same value, produced by another node* (a group, its parts, a replaced node): its own element, which its users
   know, is kept, and if the new node assigns it another one, rule 3 joins the two. If the value shared another's memory
   and now has its own, or the other way round in a way that rule 3 cannot express, the edit is refused.
   A node that is only renamed, with operands of the same elements, adds what it added before: nothing is removed.
5. *Groups* are read as if inlined, as in a build: merging nodes or dissolving a group is erasing and creating.
   A result of the group keeps its element, and shares it with the inner value that is returned as that result.

**Assumption.** The record names every node that was added or removed and every value whose users changed, as a `Rewriter` does.

Known numbers matter to some rules (a tuple index, a training flag, whether `to` must copy), and types to those of ops that may copy.
The values that these rules consulted are recorded, and replacing one is refused, for types only by a value of another type. So are
added or removed ifs, loops, calls and objects, and programs whose inputs changed.

**Modules.** `net_edits` computes the net effect of the edits, `insert` has rules 1, 4 and 5, `remove` rule 2, and this module
rule 3. `delta_builder` refuses edges that would change classes, and decides which value owns an element.

**Cost.** Linear in the edits: no table, index or node of the rest of the program is visited. (The search for cycles below
the target of a new edge gives up after a few hundred classes.) Queries compute what they need on demand, once per graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from irscope._base.frozen import fast_constructor
from irscope.analysis.alias.incremental.delta_builder import CannotFollow
from irscope.analysis.alias.incremental.delta_views import (
    Classes,
    FollowedReach,
    FollowedReasons,
    Labels,
    Marks,
    Writes,
)
from irscope.analysis.alias.incremental.insert import Creating
from irscope.analysis.alias.incremental.net_edits import NetEdits
from irscope.analysis.alias.incremental.persistent_map import Layers, Members
from irscope.analysis.alias.incremental.remove import Erasing, Knowledge
from irscope.analysis.alias.points_to import PointsTo, Reachability
from irscope.ir import Edit, Graph, Node, TensorType, Value

__all__ = ["Knowledge", "Record", "follow"]


class Record(Protocol):
    """The part of a pass's record that is needed here."""

    @property
    def before(self) -> Graph: ...
    @property
    def after(self) -> Graph: ...
    @property
    def edits(self) -> Sequence[Edit]: ...


def follow(
    points_to: PointsTo, reach: Reachability, knowledge: Knowledge, record: Record
) -> tuple[PointsTo, Reachability]:
    """The points-to graph of `record.after`, and the searches over it. Raises CannotFollow."""
    before, after = record.before, record.after
    if before.body.params is not after.body.params and before.body.params != after.body.params:
        raise CannotFollow("the graph has other inputs")
    if points_to.has_inferred:
        raise CannotFollow("inferred types decided what copies")
    if not record.edits:
        raise CannotFollow("the graph changed, and the record does not say how")
    base = reach.base if isinstance(reach, FollowedReach) else points_to
    if len(points_to.labels) > 2 * len(base.labels) + 4096:
        raise CannotFollow("the edits added more elements than the points-to graph had")
    step = _Step(points_to, knowledge, NetEdits(record.edits))
    step.apply()
    return step.sealed(after, base, reach)


class _Step:
    """Applies the edits of one record to one graph."""

    def __init__(self, points_to: PointsTo, knowledge: Knowledge, edits: NetEdits) -> None:
        self._edits, self._erasing = edits, Erasing(points_to, knowledge)
        self.elements = self._erasing.elements

    def apply(self) -> None:
        """Erase, create, replace."""
        elements, edits = self.elements, self._edits
        self._erasing.forget(edits.removed)
        again = [value for node in edits.added for value in _defined(node) if value in elements.gone]
        if any(value in elements.nones for value in again):
            raise CannotFollow("a value that was known to be None has a new producer")
        elements.gone.difference_update(again)
        creating = Creating(self._erasing, edits)
        for node in edits.added:
            creating.create(node)
        for node, rule in self._erasing.in_doubt.items():
            self._erasing.forget_rule(node, rule)
        taken = [old for old in edits.replaced if self._replace(old, edits.resolve(old))]
        self.nameless = [value for value in (*elements.gone, *taken) if value in elements.element_of]

    def _replace(self, old: Value, new: Value) -> bool:
        """Redirect the users of a value to another; returns whether the old one has lost its element."""
        elements = self.elements
        is_tensor = old.type.__class__ is TensorType and new.type.__class__ is TensorType
        if not is_tensor and old.type != new.type:
            raise CannotFollow(f"{new!r} has another type than {old!r}")
        if old in elements.consulted or old in elements.nones or new in elements.nones:
            raise CannotFollow(f"the analysis relied on the known value of {old!r}")
        if old in elements.typed and old.type != new.type:
            raise CannotFollow(f"the analysis relied on the type of {old!r}")
        known, other = elements.element_of.get(old), elements.element_of.get(new)
        if known is None or known == other:
            return False
        if elements.label(known) is not old or not elements.is_plain(old, known):
            raise CannotFollow(f"{old!r} has aliases that were merged with it")
        elements.relabelled[known] = new
        if other is None:
            elements.element_of[new] = known
        else:
            elements.stand_for(known, other)
        return True

    def _writes_shapes(self) -> bool:
        """Whether some write may change a shape; refused where types decided what copies."""
        found = self._erasing.before.writes_shapes or any(write.to_shape for write in self._erasing.builder.writes)
        if found and (self.elements.typed or self._erasing.before.typed != frozenset()):
            raise CannotFollow("types decided what copies, and a write may change a shape")
        return found

    def sealed(self, graph: Graph, base: PointsTo, reach: Reachability) -> tuple[PointsTo, Reachability]:
        """The new graph, and the searches over it."""
        elements, before = self.elements, self._erasing.before
        writes = self._erasing.writes
        for write in self._erasing.builder.writes:
            writes[write.node.id] = (*writes.get(write.node.id, ()), write)
        old_writes = before.writes.changed if isinstance(before.writes, Writes) else Layers({})
        moved = before.class_of.moved if isinstance(before.class_of, Classes) else Layers({})
        labels = before.labels.changed if isinstance(before.labels, Labels) else Layers({})
        classes = Classes(base.class_of, moved.changed(elements.moved), len(elements.labels))
        written, reshaped = Marks(base.is_written), Marks(base.is_reshaped, to_shape=True)
        points_to = _points_to(
            _layered(before.element_of).changed(elements.element_of, self.nameless),
            Labels(base.labels, labels.changed({**elements.labels.added(), **elements.relabelled}), classes),
            classes,
            _layered(before.edges).changed(elements.known_edges),
            _layered(before.targets).changed(elements.targets),
            _layered(before.cells).changed(elements.cells),
            _layered(before.fields).changed(elements.fields),
            FollowedReasons.in_graph(
                _layered(before.reasons.of_source).changed(elements.reasons[0]),
                _layered(before.reasons.of_edge).changed(elements.reasons[1]),
                graph,
            ),
            Writes(graph, base.writes, old_writes.changed(writes)),
            written,
            reshaped,
            before.outside,
            before.slots,
            before.opaque,
            _extended(before.nones, elements.nones),
            _extended(before.consulted, elements.consulted),
            before.calls,
            _extended(before.typed, elements.typed) if elements.typed else before.typed,
            self._writes_shapes(),
            False,
        )
        searches = FollowedReach(points_to, base, reach.base_reach if isinstance(reach, FollowedReach) else reach)
        written.see(points_to, searches)
        reshaped.see(points_to, searches)
        return points_to, searches


_points_to = fast_constructor(PointsTo)


def _layered(table: Any) -> Layers[Any, Any]:
    return table if isinstance(table, Layers) else Layers(table)


def _extended(members: Any, added: set[Value]) -> Members[Value]:
    known = members if isinstance(members, Members) else Members(members, Layers({}))
    return known.extended(dict.fromkeys(added))


def _defined(node: Node) -> list[Value]:
    """All values defined by a node and the nodes inside it."""
    found, todo = list[Value](), [node]
    while todo:
        here = todo.pop()
        found.extend(here.outputs)
        for block in here.blocks:
            found.extend(block.params)
            todo.extend(block.nodes)
    return found
