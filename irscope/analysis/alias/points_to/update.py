"""Derives the points-to graph after a rewriter's edits from the graph before them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from irscope._base.frozen import fast_constructor
from irscope.analysis.alias.points_to.builder import PointsToBuilder
from irscope.analysis.alias.points_to.callee_summary import NO_CALLEES
from irscope.analysis.alias.points_to.delta import (
    CannotFollow,
    Classes,
    Extension,
    FollowedReach,
    Labels,
    Layers,
    Marks,
    NothingOutside,
    Writes,
    refuse,
)
from irscope.analysis.alias.points_to.elements import TENSOR, Structure, Structures
from irscope.analysis.alias.points_to.graph import PointsTo, Reachability, Reasons, Write
from irscope.analysis.alias.points_to.node_rules import STATISTICS, NodeRules, copy_flag, is_copy_by_types
from irscope.analysis.alias.points_to.walk import NOTHING, Walk, is_inlined
from irscope.analysis.effects import Signatures
from irscope.ir import (
    NOT_CONSTANT,
    Created,
    Edit,
    Erased,
    Graph,
    Merged,
    Node,
    Replaced,
    TensorType,
    Value,
    constant_of,
    make_block,
    make_node,
    with_inner,
)
from irscope.ops.traits import MAY_COPY, REBINDS_STORAGE

# The net effect of a pass's edits: nodes removed and added, and values whose users now use another value.


class NetEdits:
    """The net effect of edits in order: a node that is created and erased again does not count."""

    def __init__(self, edits: Iterable[Edit]) -> None:
        self.removed: dict[Node, None] = {}
        self.added: dict[Node, None] = {}
        self.replaced: dict[Value, Value] = {}
        for edit in edits:
            kind = edit.__class__  # a `match` would cost more than all the rest here
            if kind is Merged:
                for node in edit.nodes:  # type: ignore[union-attr]
                    self._remove(node)
                self.added[edit.group] = None  # type: ignore[union-attr]
            elif kind is Erased:
                self._remove(edit.node)  # type: ignore[union-attr]
            elif kind is Created:
                node = edit.node  # type: ignore[union-attr]
                if node in self.removed:
                    del self.removed[node]
                else:
                    self.added[node] = None
            elif kind is Replaced:
                self.replaced[self.resolve(edit.old)] = self.resolve(edit.new)  # type: ignore[union-attr]

    def _remove(self, node: Node) -> None:
        if node in self.added:
            del self.added[node]
        else:
            self.removed[node] = None

    def resolve(self, value: Value) -> Value:
        """The value that users of a value use now."""
        while (new := self.replaced.get(value)) is not None:
            value = new
        return value


# **Claim.** The new graph answers every question about values and nodes as a graph built from scratch for the new program
# would. Edits that cannot be followed in this way are refused (`CannotFollow`, with the reason), and the caller builds from
# scratch. The old graph is not changed: the new one is layers over the same tables (`Layers`).
#
# **Why it holds.** A points-to graph is the set of what each node adds, in any order of the nodes: edges, shared elements
# and writes. So moving nodes changes nothing, and an edit changes only what its own nodes add:
#
# 1. *Created.* The node goes through the same rules as in a build, on top of the layers. Rules that involve memory common to
#    the whole program (memory from outside, escaped memory, attributes, joined cells) are refused, and so is an edge that
#    closes a cycle, because sealing collapsed the cycles that existed. The remaining rules add new elements above old ones,
#    writes, or an edge from an old cell; the writes of the affected regions are propagated again on demand.
# 2. *Erased.* The results have no users any more (`irscope.ir.invariants`). A node is followed if its rule adds only
#    edges downward from elements of its own results, names for elements that exist, and writes. The writes and the names are
#    removed; the edges may stay, because only removed names lead to them from above. Other nodes are refused.
# 3. *Replaced*, `old` by `new`. Elements are created when a value is first read, so if `old` has none, no rule ever saw
#    it, and nothing changes. If both share one element, nothing changes. If the element of `old` is its *own* (it was
#    created for `old`, and has no edges), then all other names of it come from users of `old`, which use `new` now: the
#    element gets a single edge to the element of `new`, and its class, and so becomes another name of it; or `new` takes the
#    element over if it has none. An element that `old` shares with something else cannot be split, and is refused: the graph does
#    not record which name was derived from which.
# 4. *The same value, produced by another node* (a group, its parts, a replaced node): its own element, which its users
#    know, is kept, and if the new node assigns it another one, rule 3 joins the two. If the value shared another's memory
#    and now has its own, or the other way round in a way that rule 3 cannot express, the edit is refused.
#    A node that is only renamed, with operands of the same elements, adds what it added before: nothing is removed.
# 5. *Groups* are read as if inlined, as in a build: merging nodes or dissolving a group is erasing and creating.
#    A result of the group keeps its element, and shares it with the inner value that is returned as that result.
#
# **Assumption.** The record names every node that was added or removed and every value whose users changed, as a `Rewriter` does.
#
# Known numbers matter to some rules (a tuple index, a training flag, whether `to` must copy), and types to those of ops that may copy.
# The values that these rules consulted are recorded, and replacing one is refused, for types only by a value of another type. So are
# added or removed ifs, loops, calls and objects, and programs whose inputs changed.
#
# **Code.** `NetEdits` is the net effect of the edits, which `_Step` applies. `Extension` refuses edges that would change classes, and
# decides which value owns an element.
#
# **Cost.** Linear in the edits: no table, index or node of the rest of the program is visited. (The search for cycles below
# the target of a new edge gives up after a few hundred classes.) Queries compute what they need on demand, once per graph.


class Knowledge:
    """Cached facts about ops and types, shared by all graphs of a history."""

    def __init__(self) -> None:
        self.signatures = Signatures()
        self.structures = Structures()
        self.plans: dict[tuple[str, int], Any] = {}


class Record(Protocol):
    """The part of a pass's record that analyses use."""

    @property
    def before(self) -> Graph: ...
    @property
    def after(self) -> Graph: ...
    @property
    def edits(self) -> Sequence[Edit]: ...
    @property
    def keeps_facts(self) -> bool: ...


def follow(points_to: PointsTo, reach: Reachability, knowledge: Knowledge, record: Record) -> tuple[PointsTo, Reachability]:
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


_SHARES_ONLY: Final = frozenset(
    {NodeRules.constant, NodeRules.uninitialized, NodeRules.tuple_unpack, NodeRules.tuple_index, NodeRules.list_unpack}
)
"""Rules that add only names, and edges down from their results, if the results are tensors or numbers."""

NO_CONSTANTS: Final = Graph(make_block(0, (), (), ()))


class _Step:
    """Applies the edits of one record to one graph."""

    def __init__(self, points_to: PointsTo, knowledge: Knowledge, edits: NetEdits) -> None:
        self._before, self._edits, self._plans = points_to, edits, knowledge.plans
        self._elements = Extension(points_to, knowledge.structures)
        self._builder = PointsToBuilder(self._elements, NothingOutside(self._elements))
        self._rules = NodeRules(NO_CONSTANTS, self._builder, knowledge.signatures, NO_CALLEES)
        self._walk = Walk(self._rules)
        self._writes: dict[int, tuple[Write, ...]] = {}
        """The remaining writes of a changed node, by its id."""
        self._forgotten: dict[int, Node] = {}
        self._in_doubt: dict[Node, Any] = {}
        """Erased nodes with their rules, unless the same node is created again."""

    def apply(self) -> None:
        """Erase, create, replace."""
        elements, edits = self._elements, self._edits
        self._forget(edits.removed)
        again = [value for node in edits.added for value in _defined(node) if value in elements.gone]
        if any(value in elements.nones for value in again):
            raise CannotFollow("a value that was known to be None has a new producer")
        elements.gone.difference_update(again)
        for node in edits.added:
            self._create(node)
        for node, rule in self._in_doubt.items():
            self._forget_rule(node, rule)
        taken = [old for old in edits.replaced if self._replace(old, edits.resolve(old))]
        self._nameless = [value for value in (*elements.gone, *taken) if value in elements.element_of]

    # Rule 2: removes what erased nodes added to a points-to graph, if it can be distinguished from what others added

    def _forget(self, nodes: Iterable[Node]) -> None:
        """Record what disappears with some nodes; nodes whose rules may have added more than can be removed stay in doubt."""
        gone, forgotten, structure_of = self._elements.gone, self._forgotten, self._elements.structures.of
        todo = list(nodes)
        for node in todo:  # grows
            if node.op == "prim::Constant" and structure_of(node.outputs[0].type) is None:
                continue  # a number is not memory: no rule ever saw an element of it
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
        """Remove what a rule added, if that is only names, writes and edges that are not reachable from above."""
        if rule in (NodeRules.constant, NodeRules.uninitialized):
            return
        structures = [self._elements.structures.of(value.type) for value in node.outputs]
        if rule in (NodeRules.list_construct, NodeRules.tuple_construct):
            if any(s is not None and s.kind != "tuple" and s.content not in (None, TENSOR) for s in structures):
                raise CannotFollow(f"{node.op} merged its operands into one memory location")
            if any(s is not None and s.kind not in ("tuple", "box") for s in structures):
                raise CannotFollow(f"{node.op} made a value of any type")
            return
        is_plain = all(structure in (None, TENSOR) for structure in structures)
        if rule in _SHARES_ONLY and is_plain:
            return
        signature = self._rules.signatures.of(node)
        if not is_plain and (any(signature.results) or any(s is not None and not _holds_tensors(s) for s in structures)):
            raise CannotFollow(f"the results of {node.op} were merged with its operands")
        joins = signature.is_container and signature.writes
        if rule not in (NodeRules.by_signature, NodeRules.get_item) or signature.is_opaque or signature.stores or joins:
            raise CannotFollow(f"the effects of {node.op} cannot be removed one by one")
        if node.op in REBINDS_STORAGE:
            raise CannotFollow(f"{node.op} replaced a storage")
        self._writes[node.id] = ()

    def _plan_of(self, node: Node) -> Any:
        key = (node.op, len(node.inputs))
        plan: Any = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._walk.plan(node)
        if plan.__class__ is dict:
            kind = node.inputs[0].type.__class__
            chosen: Any = plan.get(kind)
            if chosen is None:
                chosen = plan[kind] = self._walk.plan(node, kind)
            plan = chosen
        if plan is NodeRules.unless_copied:
            return (0, False, False) if node.inputs[0].type.__class__ is TensorType else NodeRules.by_signature
        if plan is NodeRules.by_signature and node.op not in STATISTICS and self._rules.signatures.of(node).is_pure:
            return NOTHING
        return plan

    def _check_group(self, node: Node) -> None:
        if not is_inlined(node) or node.op == "prim::fork":
            raise CannotFollow(f"{node.op} has blocks, and they come or go")
        block = node.blocks[0]
        for inner, outer in (*zip(block.params, node.inputs, strict=True), *zip(block.returns, node.outputs, strict=True)):
            if inner.type is outer.type or inner.type.__class__ is outer.type.__class__ is TensorType:
                continue
            if inner.type != outer.type:
                raise CannotFollow(f"{outer!r} has another type inside {node.op}")

    # Rules 1, 4 and 5: adds created nodes, reusing the elements by which users know their results. A created node may be an erased one
    # under other names.

    def _create(self, node: Node) -> None:
        """Add a node; a group is added with all its nodes."""
        structure_of = self._elements.structures.of
        pending: list[Iterator[Node]] = [iter((node,))]
        groups: list[Node] = []
        while pending:
            for node in pending[-1]:
                if node.op == "prim::Constant" and structure_of(node.outputs[0].type) is None:
                    continue
                if self._edits.replaced:
                    node = self._renamed(node)
                if node.blocks:
                    self._check_group(node)
                    self._lend(node)
                    self._walk.enter(node)
                    groups.append(node)
                    pending.append(iter(node.blocks[0].nodes))
                    break
                self._add(node, NOTHING if node.op in MAY_COPY and self._is_copied(node) else self._plan_of(node))
            else:
                pending.pop()
                if groups:
                    self._walk.leave_group(groups.pop())

    def _renamed(self, node: Node) -> Node:
        if not any(value in self._edits.replaced for value in node.inputs):
            return node
        inputs = tuple(map(self._edits.resolve, node.inputs))
        return make_node(node.id, node.op, inputs, node.outputs, node.attrs, node.blocks, node.location, node.scope)

    def _is_copied(self, node: Node) -> bool:
        """Whether a node copies in every run, as a build would decide by declared types."""
        self._elements.typed[node.inputs[0]] = None
        flag = copy_flag(node)
        copies = is_copy_by_types(node)
        if copies or flag is None:
            return copies
        self._elements.consulted[flag] = None
        return self._known(node, flag) is True

    def _known(self, node: Node, value: Value) -> Any:
        """The constant that a created node depends on."""
        if self._rules.graph is NO_CONSTANTS:
            self._rules.graph = Graph(make_block(0, (), tuple(self._edits.added), ()))
        found = constant_of(self._rules.graph, value)
        if found is NOT_CONSTANT:
            raise CannotFollow(f"{node.op} depends on a number that no created node defines")
        return found

    def _add(self, node: Node, plan: Any) -> None:
        elements = self._elements
        if plan is NOTHING:
            old = self._forgotten.get(node.id)
            if old is not None and old.outputs is not node.outputs:
                self._hand_on(old, node)
            for value in node.outputs:
                elements.keep(value)
            return
        if node.id in self._forgotten and self._is_carried_over(node):
            return
        if plan.__class__ is tuple:
            index, does_write, to_shape = plan
            element = elements.element(node.inputs[index])
            if element is None:
                raise CannotFollow(f"an operand of {node.op} is None")
            if does_write:
                self._rules.builder.write(node, element, to_shape=to_shape)
            for value in node.outputs:
                elements.element_of[value] = element
            return
        self._add_by_rule(node, plan)

    def _add_by_rule(self, node: Node, rule: Any) -> None:
        elements = self._elements
        known = node.inputs[1:2] if node.op == "prim::TupleIndex" else ()
        if node.op in REBINDS_STORAGE:
            refuse()
        if node.op in STATISTICS:
            known = node.inputs[STATISTICS[node.op][2] :][:1]
        for value in known:
            self._known(node, value)
        is_something = rule is NodeRules.constant and any(payload is not None for payload in node.attrs.values())
        if is_something or (node.op in STATISTICS and self._rules.signatures.of(node).is_pure):
            for value in node.outputs:
                elements.keep(value)
        elif any(value in elements.element_of or value in elements.nones for value in node.outputs):
            raise CannotFollow(f"{node.op} redefines a value that the points-to graph already has")
        rule(self._rules, node)

    def _hand_on(self, old: Node, new: Node) -> None:
        """Keep the elements of a renamed node's fresh results."""
        elements = self._elements
        for known, value in zip(old.outputs, new.outputs, strict=False):
            element = elements.element_of.get(known)
            if element is not None and value not in elements.element_of and elements.owns(known, element):
                elements.element_of[value] = element
                elements.relabelled[element] = value

    def _is_carried_over(self, node: Node) -> bool:
        """Whether an erased node is created again, with operands that are the same memory; if so, keeps what it added and
        renames its results."""
        old, element_of = self._forgotten[node.id], self._elements.element_of
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
            if known is not new and (known.type != new.type or known in self._elements.consulted):
                return False
        for known, new in zip(old.outputs, node.outputs, strict=True):
            element = element_of.get(known)
            if element_of.get(new, element) != element:
                return False
        self._rename(old, node)
        return True

    def _rename(self, old: Node, new: Node) -> None:
        elements = self._elements
        for known, value in zip(old.outputs, new.outputs, strict=True):
            element = elements.element_of.get(known)
            if element is None:
                continue
            elements.element_of[value] = element
            if value is not known and elements.label(element) is known:
                elements.relabelled[element] = value
        self._in_doubt.pop(old, None)
        self._writes.pop(old.id, None)

    def _lend(self, node: Node) -> None:
        """Give the values inside a new group the elements by which users know the group's results."""
        elements, block = self._elements, node.blocks[0]
        for value, inner in zip(node.outputs, block.returns, strict=True):
            element = elements.element_of.get(value)
            if element is None or inner in elements.element_of or inner in block.params:
                continue
            if elements.label(element) is value and elements.is_plain(value, element):
                elements.element_of[inner] = element
                elements.relabelled[element] = inner

    # Rule 3, and the result

    def _replace(self, old: Value, new: Value) -> bool:
        """Redirect the users of a value to another; returns whether the old one has lost its element."""
        elements = self._elements
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
        found = self._before.writes_shapes or any(write.to_shape for write in self._builder.writes)
        if found and (self._elements.typed or len(self._before.typed)):
            raise CannotFollow("types decided what copies, and a write may change a shape")
        return found

    def sealed(self, graph: Graph, base: PointsTo, reach: Reachability) -> tuple[PointsTo, Reachability]:
        """The new graph, and the searches over it."""
        elements, before = self._elements, self._before
        writes = self._writes
        for write in self._builder.writes:
            writes[write.node.id] = (*writes.get(write.node.id, ()), write)
        old_writes = before.writes.changed if isinstance(before.writes, Writes) else Layers({})
        moved = before.class_of.moved if isinstance(before.class_of, Classes) else Layers({})
        labels = before.labels.changed if isinstance(before.labels, Labels) else Layers({})
        classes = Classes(base.class_of, moved.changed(elements.moved), len(elements.labels))
        written, reshaped = Marks(base.is_written, len(classes)), Marks(base.is_reshaped, len(classes), to_shape=True)
        points_to = _points_to(
            _layered(before.element_of).changed(elements.element_of, self._nameless),
            Labels(base.labels, labels.changed({**elements.labels.added(), **elements.relabelled}), classes),
            classes,
            _layered(before.edges).changed(elements.known_edges),
            _layered(before.targets).changed(elements.targets),
            _layered(before.cells).changed(elements.cells),
            _layered(before.fields).changed(elements.fields),
            Reasons(
                _layered(before.reasons.of_source).changed(elements.reason_of_source),
                _layered(before.reasons.of_edge).changed(elements.reason_of_edge),
            ),
            Writes(graph, base.writes, old_writes.changed(writes)),
            written,
            reshaped,
            before.outside,
            before.slots,
            before.opaque,
            _layered(before.nones).changed(elements.nones),
            _layered(before.consulted).changed(elements.consulted),
            before.calls,
            _layered(before.typed).changed(elements.typed),
            self._writes_shapes(),
            False,
        )
        searches = FollowedReach(points_to, base, reach.base_reach if isinstance(reach, FollowedReach) else reach)
        written.reach = reshaped.reach = searches
        return points_to, searches


_points_to = fast_constructor(PointsTo)


def _holds_tensors(structure: Structure) -> bool:
    return structure.kind == "tensor" or (structure.kind == "box" and structure.content in (None, TENSOR))


def _layered(table: Any) -> Layers[Any, Any]:
    return table if isinstance(table, Layers) else Layers(table)


def _defined(node: Node) -> list[Value]:
    return [value for each in with_inner(node) for made in (each.outputs, *(block.params for block in each.blocks)) for value in made]
