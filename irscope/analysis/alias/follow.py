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
   A node that is only renamed, with operands of the same elements, adds what it added before: nothing is taken back.
5. *Groups* are read as if inlined, as in a build: merging nodes or taking a group apart is erasing and creating.
   What leaves the group keeps its element, and lends it to the value inside that it stands for.

**Assumed.** The record names every node that came or went and every value whose readers changed, as a `Rewriter` does.

Known numbers matter to two rules (an index of a tuple, a training flag). Values that were looked at are remembered;
replacing one is refused. So are ifs, loops, calls and objects that come or go, and programs whose inputs changed.

**Cost.** Linear in the edits: no table, index or node of the rest of the program is looked at. (Cycles are searched for below
the target of a new edge, and given up on after a few hundred classes.) Questions pay for what they need, once a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from irscope._base.frozen import fast_constructor
from irscope.analysis.alias.by_schema import REBINDING, STATISTICS
from irscope.analysis.alias.extension import CannotFollow, Extension
from irscope.analysis.alias.followed import Classes, FollowedReach, FollowedReasons, Labels, Marks, Writes
from irscope.analysis.alias.layers import Layers, Members
from irscope.analysis.alias.reach import Reach
from irscope.analysis.alias.rules import NodeRules
from irscope.analysis.alias.sealed import PointsTo, Write
from irscope.analysis.alias.structure import TENSOR, Structure, Structures
from irscope.analysis.alias.summary import NO_CALLEES
from irscope.analysis.alias.walk import NOTHING, Walk, is_inlined
from irscope.analysis.effects import Signatures
from irscope.ir.core import Graph, Node, Value, make_block, make_node
from irscope.ir.payload import NOT_CONSTANT, constant_of
from irscope.ir.rewriter import Created, Edit, Erased, Merged, Replaced
from irscope.ir.types import TensorType

__all__ = ["Knowledge", "Record", "follow"]

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


_NO_CONSTANTS: Final = Graph(make_block(0, (), (), ()))


class Record(Protocol):
    """What a pass leaves behind, as far as it is needed here."""

    @property
    def before(self) -> Graph: ...
    @property
    def after(self) -> Graph: ...
    @property
    def edits(self) -> Sequence[Edit]: ...


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


class _Step(Walk):
    """The edits of one record, applied to one graph."""

    builder: Extension

    def __init__(self, points_to: PointsTo, knowledge: Knowledge, edits: Iterable[Edit]) -> None:
        self.before = points_to
        self.signatures = knowledge.signatures
        self.callees = NO_CALLEES
        self._list_of_tensors = None
        self.builder = Extension(points_to, knowledge.structures)
        self._plans = knowledge.plans
        self._removed: dict[Node, None] = {}
        self._added: dict[Node, None] = {}
        self._replaced: dict[Value, Value] = {}
        self._writes: dict[int, tuple[Write, ...]] = {}
        self._forgotten: dict[int, Node] = {}
        self._in_doubt: dict[Node, Any] = {}
        """Erased nodes and their rules, as long as nobody makes the same node again."""
        for edit in edits:
            self._note(edit)
        self.graph = _NO_CONSTANTS

    def _note(self, edit: Edit) -> None:
        """Keep what the edits come to: a node that is created and erased again does not count."""
        kind = edit.__class__  # a `match` would cost more than all the rest here
        if kind is Merged:
            for node in edit.nodes:  # type: ignore[union-attr]
                self._remove(node)
            self._added[edit.group] = None  # type: ignore[union-attr]
        elif kind is Erased:
            self._remove(edit.node)  # type: ignore[union-attr]
        elif kind is Created:
            node = edit.node  # type: ignore[union-attr]
            if node in self._removed:
                del self._removed[node]
            else:
                self._added[node] = None
        elif kind is Replaced:
            self._replaced[self._resolve(edit.old)] = self._resolve(edit.new)  # type: ignore[union-attr]

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
        self._forget(self._removed)
        again = [value for node in self._added for value in _defined(node) if value in builder.gone]
        if any(value in builder.nones for value in again):
            raise CannotFollow("a value that was None is made again")
        builder.gone.difference_update(again)
        for node in self._added:
            self._create(node)
        for node, rule in self._in_doubt.items():
            self._forget_rule(node, rule)
        taken = [old for old in self._replaced if self._replace(old, self._resolve(old))]
        self.nameless = [value for value in (*builder.gone, *taken) if value in builder.element_of]

    # Erasing

    def _forget(self, nodes: Iterable[Node]) -> None:
        """Note what is gone with some nodes; rules that may have done more than can be taken back stay in doubt."""
        gone, forgotten, structure_of = self.builder.gone, self._forgotten, self.builder.structures.of
        todo = list(nodes)
        for node in todo:  # grows
            if node.op == "prim::Constant" and structure_of(node.outputs[0].type) is None:
                continue  # a number is no memory: no rule ever saw an element of it
            gone.update(node.outputs)
            if node.blocks:
                self._check_group(node)
                gone.update(node.blocks[0].params)
                todo.extend(node.blocks[0].nodes)
                continue
            forgotten[node.id] = node
            plan = self._plan_of(node)
            if plan is NOTHING:
                continue
            if plan.__class__ is not tuple:
                self._in_doubt[node] = plan
            elif plan[1]:
                self._writes[node.id] = ()

    def _forget_rule(self, node: Node, rule: Any) -> None:
        """Take back what a rule added, if that is no more than names, writes and edges that nobody comes to from above."""
        if rule in (NodeRules.constant, NodeRules.uninitialized):
            return
        structures = [self.builder.structures.of(value.type) for value in node.outputs]
        if rule in (NodeRules.list_construct, NodeRules.tuple_construct):
            if any(s is not None and s.kind != "tuple" and s.content not in (None, TENSOR) for s in structures):
                raise CannotFollow(f"{node.op} joined what it held")
            if any(s is not None and s.kind not in ("tuple", "box") for s in structures):
                raise CannotFollow(f"{node.op} made a value of any type")
            return
        is_plain = all(structure in (None, TENSOR) for structure in structures)
        if rule in _SHARES_ONLY and is_plain:
            return
        signature = self.signatures.of(node)
        if not is_plain and (
            any(signature.results) or any(s is not None and not _holds_tensors(s) for s in structures)
        ):
            raise CannotFollow(f"what {node.op} gave is not told apart from what it was given")
        joins = signature.is_container and signature.writes
        if rule not in (NodeRules.by_signature, NodeRules.get_item) or signature.is_opaque or signature.stores or joins:
            raise CannotFollow(f"what {node.op} did cannot be taken back")
        if node.op in REBINDING:
            raise CannotFollow(f"{node.op} exchanged a storage")
        self._writes[node.id] = ()

    # Creating

    def _create(self, node: Node) -> None:
        """Add a node; a group with everything in it."""
        structure_of = self.builder.structures.of
        pending: list[Iterator[Node]] = [iter((node,))]
        groups: list[Node] = []
        while pending:
            for node in pending[-1]:
                if node.op == "prim::Constant" and structure_of(node.outputs[0].type) is None:
                    continue
                if self._replaced:
                    node = self._renamed(node)
                if node.blocks:
                    self._check_group(node)
                    self._lend(node)
                    self.enter(node)
                    groups.append(node)
                    pending.append(iter(node.blocks[0].nodes))
                    break
                self._add(node, self._plan_of(node))
            else:
                pending.pop()
                if groups:
                    self.leave_group(groups.pop())

    def _renamed(self, node: Node) -> Node:
        if not any(value in self._replaced for value in node.inputs):
            return node
        inputs = tuple(map(self._resolve, node.inputs))
        return make_node(node.id, node.op, inputs, node.outputs, node.attrs, node.blocks, node.location, node.scope)

    def _add(self, node: Node, plan: Any) -> None:
        builder = self.builder
        if plan is NOTHING:
            old = self._forgotten.get(node.id)
            if old is not None and old.outputs is not node.outputs:
                self._hand_on(old, node)
            for value in node.outputs:
                builder.keep(value)
            return
        if node.id in self._forgotten and self._is_carried_over(node):
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
        self._add_by_rule(node, plan)

    def _add_by_rule(self, node: Node, rule: Any) -> None:
        builder = self.builder
        known = node.inputs[1:2] if node.op == "prim::TupleIndex" else ()
        if node.op in STATISTICS:
            known = node.inputs[STATISTICS[node.op][2] :][:1]
        if known and self.graph is _NO_CONSTANTS:  # rules look here for what is known
            self.graph = Graph(make_block(0, (), tuple(self._added), ()))
        if any(constant_of(self.graph, value) is NOT_CONSTANT for value in known):
            raise CannotFollow(f"{node.op} depends on a number that is known elsewhere")
        is_something = rule is NodeRules.constant and any(payload is not None for payload in node.attrs.values())
        if is_something or (node.op in STATISTICS and self.signatures.of(node).is_pure):
            for value in node.outputs:
                builder.keep(value)
        elif any(value in builder.element_of or value in builder.nones for value in node.outputs):
            raise CannotFollow(f"{node.op} makes a value that was known before")
        rule(self, node)

    def _hand_on(self, old: Node, new: Node) -> None:
        """A node that is renamed: its fresh results keep the elements by which they were known."""
        builder = self.builder
        for known, value in zip(old.outputs, new.outputs, strict=False):
            element = builder.element_of.get(known)
            if element is not None and value not in builder.element_of and builder.owns(known, element):
                builder.element_of[value] = element
                builder.relabelled[element] = value

    def _is_carried_over(self, node: Node) -> bool:
        """Whether an erased node is made again, with operands that are the same memory: then what it added stays, and its
        results have other names."""
        old, element_of = self._forgotten[node.id], self.builder.element_of
        if old.op != node.op or old.attrs != node.attrs or len(old.inputs) != len(node.inputs):
            return False
        if node.op in STATISTICS:
            flag = STATISTICS[node.op][2]
            if node.inputs[flag : flag + 1] != old.inputs[flag : flag + 1]:
                return False
        for known, new in zip(old.inputs, node.inputs, strict=True):
            if known is not new and element_of.get(known) != element_of.get(new):
                return False
        for known, new in (*zip(old.inputs, node.inputs, strict=True), *zip(old.outputs, node.outputs, strict=True)):
            if known is not new and (known.type != new.type or known in self.builder.consulted):
                return False
        for known, new in zip(old.outputs, node.outputs, strict=True):
            element = element_of.get(known)
            if element_of.get(new, element) != element:
                return False
        self._rename(old, node)
        return True

    def _rename(self, old: Node, new: Node) -> None:
        builder = self.builder
        for known, value in zip(old.outputs, new.outputs, strict=True):
            element = builder.element_of.get(known)
            if element is None:
                continue
            builder.element_of[value] = element
            if value is not known and builder.label(element) is known:
                builder.relabelled[element] = value
        self._in_doubt.pop(old, None)
        self._writes.pop(old.id, None)

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
            plan = chosen
        if plan is NodeRules.by_signature and node.op not in STATISTICS and self.signatures.of(node).is_pure:
            return NOTHING
        return plan

    # Groups

    def _check_group(self, node: Node) -> None:
        if not is_inlined(node) or node.op == "prim::fork":
            raise CannotFollow(f"{node.op} has blocks, and they come or go")
        block = node.blocks[0]
        for inner, outer in (
            *zip(block.params, node.inputs, strict=True),
            *zip(block.returns, node.outputs, strict=True),
        ):
            if inner.type is outer.type or inner.type.__class__ is outer.type.__class__ is TensorType:
                continue
            if inner.type != outer.type:
                raise CannotFollow(f"{outer!r} has another type inside {node.op}")

    def _lend(self, node: Node) -> None:
        """Let the values inside a new group have the elements by which their readers know what leaves it."""
        builder, block = self.builder, node.blocks[0]
        for value, inner in zip(node.outputs, block.returns, strict=True):
            element = builder.element_of.get(value)
            if element is None or inner in builder.element_of or inner in block.params:
                continue
            if builder.label(element) is value and builder.is_plain(value, element):
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
        if builder.label(known) is not old or not builder.is_plain(old, known):
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
                _layered(before.reasons.of_source).changed(builder.reasons[0]),
                _layered(before.reasons.of_edge).changed(builder.reasons[1]),
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
            before.calls,
        )
        searches = FollowedReach(points_to, base, reach.base_reach if isinstance(reach, FollowedReach) else reach)
        written.see(points_to, searches)
        reshaped.see(points_to, searches)
        return points_to, searches


_points_to = fast_constructor(PointsTo)


def _holds_tensors(structure: Structure) -> bool:
    return structure.kind == "tensor" or (structure.kind == "box" and structure.content in (None, TENSOR))


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
