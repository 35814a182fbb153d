"""The points-to graph after a rewriter's edits, made from the one before them by what the edits say.

**What is claimed.** The new graph answers as one that is built anew for the new program would, whichever values and
nodes are asked about. What cannot be followed so is refused (`CannotFollow`, with the reason), and the caller builds
anew. The old graph is not changed: the new one is layers over the same tables (`irscope.analysis.alias.layers`).

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
5. *Groups* are read as if inlined, as in a build: merging nodes or taking a group apart is erasing and creating.
   What leaves the group keeps its element, and lends it to the value inside that it stands for.

Known numbers matter to two rules (an index of a tuple, a training flag). Values that were looked at are remembered;
replacing one is refused. So are ifs, loops, calls and objects that come or go, and programs whose inputs changed.

**Cost.** Linear in the edits: no table, index or node of the rest of the program is looked at. (Cycles are searched for below
the target of a new edge, and given up on after `_SEARCHED` classes.) Questions pay for what they need, once a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn, Protocol, TypeVar

from irscope._base.frozen import fast_constructor
from irscope.analysis.alias.followed import Classes, FollowedReach, FollowedReasons, Labels, Marks, Writes
from irscope.analysis.alias.layers import Draft, DraftList, Layers, Members
from irscope.analysis.alias.points_to import PointsToBuilder
from irscope.analysis.alias.reach import Reach
from irscope.analysis.alias.rules import REBINDING, STATISTICS, NodeRules
from irscope.analysis.alias.sealed import Label, PointsTo, Write
from irscope.analysis.alias.structure import TENSOR, Structure, Structures
from irscope.analysis.alias.walk import NOTHING, Walk, is_inlined
from irscope.analysis.effects import Signatures
from irscope.ir.core import Graph, Node, Value, make_block, make_node
from irscope.ir.payload import NOT_CONSTANT, constant_of
from irscope.ir.rewriter import Created, Edit, Erased, Merged, Replaced
from irscope.ir.types import TensorType

__all__ = ["CannotFollow", "Knowledge", "Record", "follow"]

_SEARCHED: Final = 256
_SHARES_ONLY: Final = frozenset(
    {
        NodeRules.constant,
        NodeRules.uninitialized,
        NodeRules.tuple_unpack,
        NodeRules.tuple_index,
        NodeRules.list_unpack,
    }
)
"""Rules that add nothing but names, and edges down from their results, if those are tensors or numbers."""

K = TypeVar("K")
V = TypeVar("V")


class Record(Protocol):
    """What a pass leaves behind, as far as it is needed here."""

    @property
    def before(self) -> Graph: ...
    @property
    def after(self) -> Graph: ...
    @property
    def edits(self) -> Sequence[Edit]: ...


class CannotFollow(Exception):
    """The edits have to be answered by building anew; says why."""


class Knowledge:
    """What was found out of ops and types, for all graphs of a history."""

    def __init__(self) -> None:
        self.signatures = Signatures()
        self.structures = Structures()
        self.plans: dict[tuple[str, int], Any] = {}


def follow(points_to: PointsTo, reach: Reach, knowledge: Knowledge, record: Record) -> tuple[PointsTo, Reach]:
    """The points-to graph of `record.after`, and the searches over it. Raises CannotFollow."""
    before, after = record.before, record.after
    if before.body.params is not after.body.params and before.body.params != after.body.params:
        raise CannotFollow("the graph has other inputs")
    if not record.edits:
        raise CannotFollow("the graph changed, and the record does not say how")
    base = reach.base if isinstance(reach, FollowedReach) else points_to
    if len(points_to.labels) > 2 * len(base.labels) + 4096:
        raise CannotFollow("more was added than there was")
    step = _Step(points_to, knowledge, record.edits)
    step.apply()
    return step.sealed(after, base, reach)


class _Elements(Draft[Value, int]):
    """Which element each value has; a value that has another one already is joined with the new one, or refused."""

    __slots__ = ("_builder",)

    def __init__(self, builder: _Builder, base: Any) -> None:
        super().__init__(base)
        self._builder = builder

    def __setitem__(self, value: Value, element: int) -> None:
        known = self.get(value)
        if known is not None and known != element:
            self._builder.redirect(value, known, element)
        dict.__setitem__(self, value, element)


class _Seen(set[Value]):
    """Additions to a set while they are made."""

    def __init__(self, base: Any) -> None:
        self._base = base

    def __contains__(self, value: object) -> bool:
        return set.__contains__(self, value) or value in self._base


class _Builder(PointsToBuilder):
    """Adds elements, edges and writes to a graph that is sealed; refuses what would change its classes."""

    def __init__(self, before: PointsTo, structures: Structures) -> None:
        super().__init__()
        self.structures = structures
        self.element_of = _Elements(self, before.element_of)
        self.nones, self.consulted = _Seen(before.nones), _Seen(before.consulted)
        self.cells, self.fields = Draft(before.cells), Draft(before.fields)
        self.labels: DraftList[Label] = DraftList(before.labels)
        self.known_edges: Draft[int, Sequence[int]] = Draft(before.edges)
        self.targets: Draft[int, Sequence[int]] = Draft(before.targets)
        self.relabelled: dict[int, Label] = {}
        self.moved: dict[int, int] = {}
        self.gone: set[Value] = set()
        """Values that no node of the new program makes."""
        self._class_of = before.class_of

    # Whose an element is

    def owns(self, value: Value, element: int) -> bool:
        """Whether all other names of the element come from readers of the value, or from what is gone."""
        label = self.relabelled.get(element) or self.labels[element]
        return (label is value or label in self.gone) and self.is_plain(value, element)

    def is_plain(self, value: Value, element: int) -> bool:
        return value.type.__class__ is TensorType and element not in self.known_edges and element not in self.cells

    def keep(self, value: Value) -> None:
        """A value is memory of its own, whoever makes it now."""
        element = self.element_of.get(value)
        if element is not None:
            if not self.owns(value, element):
                raise CannotFollow(f"{value!r} was known as other memory, and is its own now")
            if self.labels[element] is not value:
                self.relabelled[element] = value

    def redirect(self, value: Value, element: int, target: int) -> None:
        """All that knew a value by an element mean another one now."""
        if not self.owns(value, element):
            raise CannotFollow(f"the memory of {value!r} has other names, which are not told apart")
        self.relabelled[element] = value
        self.stand_for(element, target)

    def stand_for(self, element: int, target: int) -> None:
        """An element that was a location is from now on just what another is."""
        self._add_edge(element, target, None)
        self.moved[element] = target

    # Edges

    def class_of(self, element: int) -> int:
        while (target := self.moved.get(element)) is not None:
            element = target
        return self._class_of[element] if element < len(self._class_of) else element

    def _add_edge(self, source: int, target: int, reason: Node | None) -> None:
        here, there = self.class_of(source), self.class_of(target)
        if here == there:
            return
        if self._reaches(there, here):
            raise CannotFollow("an edit closes a cycle of names")
        self.known_edges[source] = (*self.known_edges.get(source, ()), target)
        self.targets[here] = (*self.targets.get(here, ()), there)
        if reason is not None:
            self._reason_of_edge[source, target] = reason

    def _reaches(self, start: int, goal: int) -> bool:
        if start not in self.targets:
            return False
        seen, todo = {start}, [start]
        while todo:
            fresh = [there for there in self.targets.get(todo.pop(), ()) if there not in seen]
            seen.update(fresh)
            todo.extend(fresh)
            if goal in seen:
                return True
            if len(seen) > _SEARCHED:
                raise CannotFollow("too much lies below a new edge")
        return False

    def fill(self, container: int, things: list[int], reason: Node) -> None:
        for thing in things:
            self._add_edge(self.cells[container], thing, reason)

    # What is common to the whole program

    def fresh(self, structure: Structure, label: Label) -> int:
        if structure.kind in ("mixed", "object"):
            _refuse()
        return super().fresh(structure, label)

    def _joins(self, cell: int, other: int) -> bool:
        raise CannotFollow("two containers share what they hold")

    def outside(self, *_: Any) -> int:
        _refuse()

    def escape(self, *_: Any) -> None:
        _refuse()

    def opaque(self) -> int:
        _refuse()

    def attribute(self, *_: Any) -> int:
        _refuse()

    def slot(self, *_: Any) -> int:
        _refuse()

    def bag_of_objects(self) -> int:
        _refuse()

    def rebind_storage(self, *_: Any) -> None:
        _refuse()


def _refuse() -> NoReturn:
    raise CannotFollow("a node deals with memory that the whole program shares")


class _Step(Walk):
    """The edits of one record, applied to one graph."""

    builder: _Builder

    def __init__(self, points_to: PointsTo, knowledge: Knowledge, edits: Iterable[Edit]) -> None:
        self.before = points_to
        self.signatures = knowledge.signatures
        self.builder = _Builder(points_to, knowledge.structures)
        self._plans = knowledge.plans
        self._removed: dict[Node, None] = {}
        self._added: dict[Node, None] = {}
        self._replaced: dict[Value, Value] = {}
        self._writes: dict[int, tuple[Write, ...]] = {}
        for edit in edits:
            self._note(edit)
        self.graph = Graph(make_block(0, (), tuple(self._added), ()))  # where rules look for constants

    def _note(self, edit: Edit) -> None:
        """Keep what the edits come to: a node that is created and erased again does not count."""
        match edit:
            case Merged(nodes, group):
                for node in nodes:
                    self._remove(node)
                self._added[group] = None
            case Created(node):
                if node in self._removed:
                    del self._removed[node]
                else:
                    self._added[node] = None
            case Erased(node):
                self._remove(node)
            case Replaced(old, new):
                self._replaced[self._resolve(old)] = self._resolve(new)

    def _remove(self, node: Node) -> None:
        if node in self._added:
            del self._added[node]
        else:
            self._removed[node] = None

    def _resolve(self, value: Value) -> Value:
        while (new := self._replaced.get(value)) is not None:
            value = new
        return value

    def apply(self) -> None:
        """Erase, create, replace."""
        builder = self.builder
        for node in self._removed:
            self._forget(node)
        for node in self._added:
            builder.gone.difference_update(_defined(node))
        for node in self._added:
            self._create(node)
        taken = [old for old in self._replaced if self._replace(old, self._resolve(old))]
        self.nameless = [value for value in (*builder.gone, *taken) if value in builder.element_of]

    # Erasing

    def _forget(self, node: Node) -> None:
        todo = [node]
        while todo:
            node = todo.pop()
            gone = self.builder.gone
            gone.update(node.outputs)
            if node.blocks:
                self._check_group(node)
                gone.update(node.blocks[0].params)
                todo.extend(node.blocks[0].nodes)
                continue
            plan = self._plan_of(node)
            if plan is NOTHING:
                continue
            if plan.__class__ is tuple:
                if plan[1]:
                    self._writes[node.id] = ()
            else:
                self._forget_rule(node, plan)

    def _forget_rule(self, node: Node, rule: Any) -> None:
        structures = [self.builder.structures.of(value.type) for value in node.outputs]
        if rule in (NodeRules.list_construct, NodeRules.tuple_construct):
            if any(s is not None and s.kind != "tuple" and s.content not in (None, TENSOR) for s in structures):
                raise CannotFollow(f"{node.op} joined what it held")
            if any(s is not None and s.kind not in ("tuple", "box") for s in structures):
                raise CannotFollow(f"{node.op} made a value of any type")
            return
        if any(structure not in (None, TENSOR) for structure in structures):
            raise CannotFollow(f"what {node.op} gave is not told apart from what it was given")
        if rule in _SHARES_ONLY:
            return
        signature = self.signatures.of(node)
        joins = signature.is_container and signature.writes
        if rule not in (NodeRules.by_signature, NodeRules.get_item) or signature.is_opaque or signature.stores or joins:
            raise CannotFollow(f"what {node.op} did cannot be taken back")
        if node.op in REBINDING:
            raise CannotFollow(f"{node.op} exchanged a storage")
        self._writes[node.id] = ()

    # Creating

    def _create(self, node: Node) -> None:
        todo: list[tuple[Node, bool]] = [(node, False)]
        while todo:
            node, is_left = todo.pop()
            if is_left:
                self.leave_group(node)
                continue
            if self._replaced:
                node = self._renamed(node)
            if node.blocks:
                self._check_group(node)
                self._lend(node)
                self.enter(node)
                todo.append((node, True))
                todo.extend((inner, False) for inner in reversed(node.blocks[0].nodes))
            else:
                self._add(node, self._plan_of(node))

    def _renamed(self, node: Node) -> Node:
        if not any(value in self._replaced for value in node.inputs):
            return node
        inputs = tuple(map(self._resolve, node.inputs))
        return make_node(node.id, node.op, inputs, node.outputs, node.attrs, node.blocks, node.location, node.scope)

    def _add(self, node: Node, plan: Any) -> None:
        builder = self.builder
        if plan is NOTHING:
            for value in node.outputs:
                builder.keep(value)
            return
        if plan.__class__ is tuple:
            index, does_write, to_shape = plan
            element = builder.element(node.inputs[index])
            if element is None:
                raise CannotFollow(f"{node.op} is given None")
            if does_write:
                builder.write(node, element, to_shape=to_shape)
            for value in node.outputs:
                builder.element_of[value] = element
            return
        if any(value in builder.element_of for value in node.outputs):
            raise CannotFollow(f"{node.op} makes a value that was known before")
        known = node.inputs[1:2] if node.op == "prim::TupleIndex" else ()
        if node.op in STATISTICS:
            known = node.inputs[STATISTICS[node.op][2] :][:1]
        if any(constant_of(self.graph, value) is NOT_CONSTANT for value in known):
            raise CannotFollow(f"{node.op} depends on a number that is known elsewhere")
        plan(self, node)

    def _plan_of(self, node: Node) -> Any:
        key = (node.op, len(node.inputs))
        plan: Any = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self.plan(node)
        if plan.__class__ is dict:
            kind = node.inputs[0].type.__class__
            chosen: Any = plan.get(kind)
            if chosen is None:
                chosen = plan[kind] = self.plan(node, kind)
            return chosen
        return plan

    # Groups

    def _check_group(self, node: Node) -> None:
        if not is_inlined(node) or node.op == "prim::fork":
            raise CannotFollow(f"{node.op} has blocks, and they come or go")
        block = node.blocks[0]
        for inside, outside in ((block.params, node.inputs), (block.returns, node.outputs)):
            for inner, outer in zip(inside, outside, strict=True):
                is_tensor = inner.type.__class__ is TensorType and outer.type.__class__ is TensorType
                if not is_tensor and inner.type != outer.type:
                    raise CannotFollow(f"{outer!r} has another type inside {node.op}")

    def _lend(self, node: Node) -> None:
        """Let the values inside a new group have the elements by which their readers know what leaves it."""
        builder, block = self.builder, node.blocks[0]
        for value, inner in zip(node.outputs, block.returns, strict=True):
            element = builder.element_of.get(value)
            if element is None or inner in builder.element_of or inner in block.params:
                continue
            if builder.owns(value, element):
                builder.element_of[inner] = element
                builder.relabelled[element] = inner

    # Replacing

    def _replace(self, old: Value, new: Value) -> bool:
        """Let the readers of a value read another; whether the old one has lost its element."""
        builder = self.builder
        is_tensor = old.type.__class__ is TensorType and new.type.__class__ is TensorType
        if not is_tensor and old.type != new.type:
            raise CannotFollow(f"{new!r} has another type than {old!r}")
        if old in builder.consulted or old in builder.nones or new in builder.nones:
            raise CannotFollow(f"what {old!r} is was known before")
        known, other = builder.element_of.get(old), builder.element_of.get(new)
        if known is None or known == other:
            return False
        label = builder.relabelled.get(known) or builder.labels[known]
        if label is not old or not builder.is_plain(old, known):
            raise CannotFollow(f"the memory of {old!r} has other names, which are not told apart")
        builder.relabelled[known] = new
        if other is None:
            builder.element_of[new] = known
        else:
            builder.stand_for(known, other)
        return True

    # Sealing

    def sealed(self, graph: Graph, base: PointsTo, reach: Reach) -> tuple[PointsTo, Reach]:
        """The new graph, and the searches over it."""
        builder, before = self.builder, self.before
        writes = self._writes
        for write in builder.writes:
            writes[write.node.id] = (*writes.get(write.node.id, ()), write)
        old_writes = before.writes.changed if isinstance(before.writes, Writes) else Layers({})
        moved = before.class_of.moved if isinstance(before.class_of, Classes) else Layers({})
        labels = before.labels.changed if isinstance(before.labels, Labels) else Layers({})
        classes = Classes(base.class_of, moved.changed(builder.moved), len(builder.labels))
        written, reshaped = Marks(base.is_written), Marks(base.is_reshaped, to_shape=True)
        points_to = _points_to(
            _layered(before.element_of).changed(builder.element_of, self.nameless),
            Labels(base.labels, labels.changed({**builder.labels.added(), **builder.relabelled}), classes),
            classes,
            _layered(before.edges).changed(builder.known_edges),
            _layered(before.targets).changed(builder.targets),
            _layered(before.cells).changed(builder.cells),
            _layered(before.fields).changed(builder.fields),
            FollowedReasons.in_graph(
                _layered(before.reasons.of_source),
                _layered(before.reasons.of_edge).changed(builder._reason_of_edge),
                graph,
            ),
            Writes(graph, base.writes, old_writes.changed(writes)),
            written,
            reshaped,
            before.outside,
            before.slots,
            before.opaque,
            _extended(before.nones, builder.nones),
            _extended(before.consulted, builder.consulted),
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
