"""The points-to graph after a rewriter's edits, made from the one before them by what the edits say.

**What is claimed.** The new graph answers as one that is built anew for the new program would, whichever values and
nodes are asked about. What cannot be followed so is refused (`CannotFollow`, with the reason), and the caller builds
anew. The old graph is not changed: the new one is layers over the same tables (`irscope.analysis.alias.incremental.persistent_map`).

**Why it holds.** A points-to graph is the set of what each node adds, whatever the order of nodes: edges, shared elements
and writes. So moved nodes change nothing, and an edit changes what its own nodes add and no more:

1. *Created.* The node goes through the same rules as in a build, against the layers. Rules that involve what is common to
   the whole program (memory from outside, what escaped, attributes, joined cells) are refused, and so is an edge that
   closes a cycle, for sealing collapsed the cycles there were. What is left adds new elements above old ones, writes,
   or an edge from an old cell; the writes of the regions concerned are spread again when somebody asks.
2. *Erased.* Nobody reads the results any more (`irscope.ir.verify`). Nodes are followed whose rule adds no more than
   edges downward from elements of their own results, names for elements that exist, and writes. The writes are taken
   away, with them the names; such edges may stay, for only names that are gone come from above. Others are refused.
3. *Replaced*, `old` by `new`. Elements are made when somebody first reads a value, so if `old` has none, no rule ever saw
   it, and nothing changes. If both share one element, nothing changes. If the element of `old` is its *own* (it was
   made for `old`, and has no edges), then all other names of it come from readers of `old`, who read `new` now: the
   element gets a single edge to the element of `new`, and its class, and so stands for just that; or `new` takes it
   over if it has none. An element that `old` shares with something else cannot be split, and is refused: who derived what from
   whom is not kept.
4. *The same value, made by another node* (a group, its parts, a node that was exchanged): the element of its own that
   readers know is kept, and if the new node gives it another one, rule 3 joins the two. If the value was known as
   another's memory and is its own now, or the other way round in a way that rule 3 cannot say: refused.
   A node that is only renamed, with operands of the same elements, adds what it added before: nothing is taken back.
5. *Groups* are read as if inlined, as in a build: merging nodes or taking a group apart is erasing and creating.
   What leaves the group keeps its element, and lends it to the value inside that it stands for.

**Assumed.** The record names every node that came or went and every value whose readers changed, as a `Rewriter` does.

Known numbers matter to two rules (an index of a tuple, a training flag). Values that were looked at are remembered;
replacing one is refused. So are ifs, loops, calls and objects that come or go, and programs whose inputs changed.

**Where it is.** `net_edits` has what the edits come to, `insert` rules 1, 4 and 5, `remove` rule 2; rule 3 is here. `delta_builder`
refuses edges that would change classes, and says whose an element is.

**Cost.** Linear in the edits: no table, index or node of the rest of the program is looked at. (Cycles are searched for below
the target of a new edge, and given up on after a few hundred classes.) Questions pay for what they need, once a graph.
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
    """What a pass leaves behind, as far as it is needed here."""

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
    if not record.edits:
        raise CannotFollow("the graph changed, and the record does not say how")
    base = reach.base if isinstance(reach, FollowedReach) else points_to
    if len(points_to.labels) > 2 * len(base.labels) + 4096:
        raise CannotFollow("the record adds more nodes than the graph had")
    step = _Step(points_to, knowledge, NetEdits(record.edits))
    step.apply()
    return step.sealed(after, base, reach)


class _Step:
    """The edits of one record, applied to one graph."""

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
        """Let the readers of a value read another; whether the old one has lost its element."""
        elements = self.elements
        is_tensor = old.type.__class__ is TensorType and new.type.__class__ is TensorType
        if not is_tensor and old.type != new.type:
            raise CannotFollow(f"{new!r} has another type than {old!r}")
        if old in elements.consulted or old in elements.nones or new in elements.nones:
            raise CannotFollow(f"answers rest on what {old!r} was")
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
    """All values that a node and the nodes inside it make."""
    found, todo = list[Value](), [node]
    while todo:
        here = todo.pop()
        found.extend(here.outputs)
        for block in here.blocks:
            found.extend(block.params)
            todo.extend(block.nodes)
    return found
