"""Makes writes functional: each family is a variable, its versions are values, and every name is looked up where it is read.

The walk constructs static single assignment form over blocks. A write defines the next version of the base. A view of an
old version is taken again of the current one, in the block where it is read. An if in which a family is written gets one
more result for it, a loop one more carried value. Names and versions of a block are dropped at its end.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import is_

from irscope._base.frozen import FrozenDict
from irscope.ir import BOOL, Block, Created, Edit, Erased, Graph, Node, TensorType, Value, make_block, make_node, make_value, new_id, steps
from irscope.ir.text import named_as
from irscope.ops.traits import INVERSES, LIKE_ANOTHER, PUTS_BACK
from irscope.transforms.functionalize.alias_families import Families, Family, Member, Write, restores

# Maps each member of a family to its current value as the walk proceeds, with the known types of new values.
#
# A member has a *view name*, a tensor in the memory that the member would have: the version of the base, or a view taken
# again of it. After a write of a part it may also have an *apart* name: a tensor of its own with the member's elements,
# valid until the memory may be written. An op reads the apart name only if its result keeps the layout that it would have,
# according to the type rule.


@dataclass(frozen=True, slots=True)
class _Name:
    """The value of a member for one version of the base."""

    version: Value
    value: Value
    is_view: bool
    """Whether it shares the version's memory; otherwise it has the same elements, until the memory may be written."""
    epoch: tuple[int, int]
    """The epoch in which it got the name."""


@dataclass(slots=True)
class _Frame:
    """A block that is being rewritten."""

    block: Block
    params: tuple[Value, ...]
    nodes: list[Node] = field(default_factory=list)
    versions: list[tuple[Family, Value]] = field(default_factory=list)
    """The previous versions, to restore at the end."""
    names: list[tuple[Member, _Name | None]] = field(default_factory=list)


def renamed(families: Families, writes: Sequence[Write]) -> tuple[Graph, list[Edit]]:
    """The graph in which these writes are functional, and the edits; linear in the graph and in the carried values."""
    graph, walk = families.graph, _Walk(families, writes)
    for step in steps(graph):
        if step.kind == "enter":
            walk.enter(step.node, step.block)
        elif step.kind == "leave":
            walk.leave(step.node)
        elif step.kind == "done":
            walk.close()
        elif step.node is not None:
            walk.node(step.node)
    body = walk.body
    assert body is not None
    if walk.false is not None:
        constant = make_node(new_id(), "prim::Constant", (), (walk.false,), FrozenDict(value=0), (), None, "")
        walk.edits.append(Created(constant, "the copies are not asynchronous (non_blocking is False)"))
        body = make_block(body.id, body.params, (constant, *body.nodes), body.returns)
    after = graph if body is graph.body else replace(graph, body=body)
    return named_as(after, graph), walk.edits


class _Walk:
    """The state of one walk, with the names at its current place in the program; new nodes are added to the open block."""

    def __init__(self, families: Families, writes: Sequence[Write]) -> None:
        chosen = {write.member.family for write in writes}
        self._writes = {write.node: write for write in writes}
        self._members = {value: member for value, member in families.member_of.items() if member.family in chosen}
        """The names of the families that have such writes."""
        self._carried: dict[Node, dict[Family, None]] = {}
        """The families that are written inside each if or loop."""
        for write in writes:
            for _, owner in families.owners(write.member.family, write.block):
                self._carried.setdefault(owner, {})[write.member.family] = None
        self._kept, self._twins = families.kept, families.twins
        self.edits: list[Edit] = []
        self.false: Value | None = None
        """The `non_blocking` argument of all copies, once one is needed."""
        self.body: Block | None = None
        self._open: list[tuple[Node, tuple[Value, ...], list[Block]]] = []
        """The nodes whose blocks are being rewritten, with their new inputs and the blocks that are done."""
        self._frames: list[_Frame] = []
        self._version: dict[Family, Value] = {}
        self._names: dict[Member, _Name] = {}
        self._rounds = 0
        """The number of loop bodies entered: nodes later in a body may have run in the iteration before."""
        self._known: dict[Value, TensorType] = {}
        """For new values, the types known beyond the declared ones."""
        self._touched: Counter[Family] = Counter()
        """How often each family's memory was passed out, or written in place."""

    def _add(self, op: str, inputs: tuple[Value, ...], output: Value, like: Node, reason: str) -> Value:
        node = make_node(new_id(), op, inputs, (output,), like.attrs, (), like.location, like.scope)
        self._frames[-1].nodes.append(node)
        self.edits.append(Created(node, reason))
        return output

    def _store(self, target: Value, source: Value, result: Value, like: Node, reason: str) -> Value:
        """Emit a tensor with the layout of the target and the elements of the source."""
        if self.false is None:
            self.false = make_value(new_id(), BOOL, "false")
        return self._add("aten::copy", (target, source, self.false), result, like, reason)

    # Types

    def _like(self, value: Value) -> Value:
        """A new value with the declared and the known type of another."""
        made = make_value(new_id(), value.type, value.name)
        fact = self._fact(value)
        if fact != value.type:
            self._known[made] = fact
        return made

    def _elements_of(self, value: Value, type: TensorType, *, is_new: bool = False) -> Value:
        """A value for the elements of another in the layout of `type`; the other itself if it is new and declared so."""
        declared = value.type
        assert isinstance(declared, TensorType)
        declared = declared if declared.strides in (None, type.strides) else declared.with_(strides=None)
        made = value if is_new and declared is value.type else make_value(new_id(), declared, value.name)
        self._known[made] = type if type.shape is not None else declared.with_(strides=None)
        return made

    def _fact(self, value: Value) -> TensorType:
        known = self._known.get(value) or self._twins.shapes.type(value)
        assert isinstance(known, TensorType)
        return known

    def _type_of(self, node: Node, op: str, inputs: tuple[Value, ...]) -> TensorType:
        """The known type of an op's result."""
        probe = make_node(node.id, op, inputs, node.outputs, node.attrs, (), None, "")
        return self._twins.type_of_result(probe, self._known)

    # Names

    def _handed_out(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """The names of values that a block, or a node with blocks, takes or returns: they may be written from there on."""
        names = tuple(map(self._view_name, values))
        self._touch(values)
        return names

    def _touch(self, values: Iterable[Value]) -> None:
        members = map(self._members.get, values)
        self._touched.update(member.family for member in members if member is not None)

    def _epoch(self, family: Family) -> tuple[int, int]:
        return self._rounds, self._touched[family]

    def _set_version(self, family: Family, value: Value) -> None:
        before = self._version.get(family)
        if before is not None:
            self._frames[-1].versions.append((family, before))
        self._version[family] = value

    def _set_name(self, member: Member, value: Value, *, is_view: bool) -> None:
        self._frames[-1].names.append((member, self._names.get(member)))
        self._names[member] = _Name(self._version[member.family], value, is_view, self._epoch(member.family))

    def _read(self, node: Node, kept: tuple[Value, ...]) -> tuple[Value, ...]:
        """The operands of a node by their current names; by apart names, if its result then keeps its layout."""
        found = {value: self._apart(value) for value in node.inputs if value not in kept}
        if any(found.values()):
            inputs = tuple(found.get(value) or self._view_name(value) for value in node.inputs)
            if self._keeps_result_type(node, inputs):
                return inputs
        return tuple(map(self._view_name, node.inputs))

    def _keeps_result_type(self, node: Node, inputs: tuple[Value, ...]) -> bool:
        if len(node.outputs) != 1 or not isinstance(node.outputs[0].type, TensorType):
            return node.op == "prim::Print"
        wanted, found = self._fact(node.outputs[0]), self._type_of(node, node.op, inputs)
        known = wanted.is_static and wanted.strides is not None
        return known and (wanted.dtype, wanted.shape, wanted.strides) == (found.dtype, found.shape, found.strides)

    def _apart(self, value: Value) -> Value | None:
        """The valid apart name of a part, a tensor with its elements in memory of its own; None if there is none."""
        member = self._members.get(value)
        known = self._names.get(member) if member is not None else None
        if member is None or known is None or known.is_view or known.version is not self._version[member.family]:
            return None
        return known.value if known.epoch == self._epoch(member.family) else None

    def _elements(self, value: Value) -> Value:
        """A value with the elements that the old value would have at this place."""
        return self._apart(value) or self._view_name(value)

    def _view_name(self, value: Value) -> Value:
        """A value in the memory that the old value would have at this place; stale views are taken again."""
        member = self._members.get(value)
        if member is None:
            return value
        version = self._version[member.family]
        stale: list[tuple[Member, Node]] = []
        while member.parent is not None and member.view is not None:
            known = self._names.get(member)
            if known is not None and known.version is version and known.is_view:
                break
            stale.append((member, member.view))
            member = member.parent
        here = self._names[member].value if member.parent is not None else version
        for member, view in reversed(stale):
            here = self._add(view.op, (here, *view.inputs[1:]), self._like(member.value), view, "the view, taken again")
            self._set_name(member, here, is_view=True)
        return here

    # Blocks

    def enter(self, owner: Node | None, block: Block) -> None:
        frame = _Frame(block, block.params)
        self._frames.append(frame)
        if owner is not None and owner.op == "prim::Loop":
            self._rounds += 1
            for family in self._carried.get(owner, ()):
                param = self._like(family.base)
                frame.params += (param,)
                self._set_version(family, param)

    def leave(self, owner: Node | None) -> None:
        frame = self._frames[-1]
        returns = self._handed_out(frame.block.returns)
        returns += tuple(self._version[family] for family in self._carried.get(owner, ())) if owner else ()
        self._frames.pop()
        self._version.update(reversed(frame.versions))
        for member, name in reversed(frame.names):
            if name is None:
                del self._names[member]
            else:
                self._names[member] = name
        done, nodes = frame.block, tuple(frame.nodes)
        if (frame.params, returns) != (done.params, done.returns) or len(nodes) != len(done.nodes) or not all(map(is_, nodes, done.nodes)):
            done = make_block(done.id, frame.params, nodes, returns)
        if self._open:
            self._open[-1][2].append(done)
        else:
            self.body = done

    def close(self) -> None:
        """Emit a node whose blocks are all done."""
        node, inputs, blocks = self._open.pop()
        families = self._carried.get(node, ())
        results = tuple(self._like(family.base) for family in families)
        self._emit(_with(node, inputs, node.outputs + results, tuple(blocks)), node, bool(families))
        for family, result in zip(families, results, strict=True):
            self._set_version(family, result)
        self._define_results(node)

    # Nodes

    def node(self, node: Node) -> None:
        if node.blocks:
            inputs = self._handed_out(node.inputs)
            if node.op == "prim::Loop":
                inputs += tuple(self._version[family] for family in self._carried.get(node, ()))
            self._open.append((node, inputs if inputs != node.inputs else node.inputs, []))
            return
        write = self._writes.get(node)
        if write is not None:
            self._write(write)
            return
        if any(value in self._members for value in node.inputs):
            kept = self._kept.get(node, node.inputs)
            inputs = self._read(node, kept)
            self._emit(node if inputs == node.inputs else _with(node, inputs, node.outputs, node.blocks), node)
            if not self._is_member_view(node):
                self._touch(kept)
        else:
            self._frames[-1].nodes.append(node)
        self._define_results(node)

    def _define_results(self, node: Node) -> None:
        for value in node.outputs:
            member = self._members.get(value)
            if member is None or member.value is not value:
                continue
            if member.parent is None:
                self._set_version(member.family, value)
            else:
                self._set_name(member, value, is_view=True)

    def _emit(self, node: Node, old: Node, is_other: bool = False) -> None:
        self._frames[-1].nodes.append(node)
        if node.inputs != old.inputs or is_other:
            self.edits.append(Erased(old, "it used a value that was written"))
            self.edits.append(Created(node, "it uses the value after the write"))

    def _is_member_view(self, node: Node) -> bool:
        member = self._members.get(node.outputs[0]) if len(node.outputs) == 1 else None
        return member is not None and member.view is node

    # Writes

    def _write(self, write: Write) -> None:
        """Emit the functional variant of an in-place op, and the new whole of which it wrote a part."""
        node, member, twin = write.node, write.member, write.twin
        self.edits.append(Erased(node, "all aliases of what it writes are known, and a pure op computes the new value"))
        inputs = tuple(map(self._elements if member.is_part else self._view_name, node.inputs))
        result = node.outputs[0] if node.outputs else self._like(member.value)
        because = f"{node.op} wrote in place; its functional variant makes a new value"
        if member.is_part:
            result = self._part(write, inputs, result, because)
        elif write.is_exact and twin.keeps_dtype:
            self._add(twin.op, inputs, result, node, because)
        else:
            raw = self._add(twin.op, inputs, _raw(result, twin.dtype), node, because)
            if write.is_exact and twin.dtype is not None and self._fact(inputs[0]).dtype is not None:
                self._add("aten::type_as", (raw, inputs[0]), result, node, f"{node.op} kept the element type")
            else:
                self._store(inputs[0], raw, result, node, f"{node.op} kept element type and layout")
        self._put_back(member, result, node)

    def _part(self, write: Write, inputs: tuple[Value, ...], result: Value, because: str) -> Value:
        """Emit the new elements of a part; their layout does not matter, as they are copied into the whole."""
        node, twin = write.node, write.twin
        type = self._type_of(node, twin.op, inputs)
        raw = _raw(result, twin.dtype)
        if twin.keeps_dtype:
            made = self._elements_of(result, type, is_new=True)
            return self._add(twin.op, inputs, made, node, because)
        self._add(twin.op, inputs, raw, node, because)
        self._known[raw] = type
        made = self._elements_of(result, type.with_(dtype=self._fact(inputs[0]).dtype), is_new=True)
        return self._add("aten::type_as", (raw, inputs[0]), made, node, f"{node.op} kept the element type")

    def _put_back(self, member: Member, value: Value, node: Node) -> None:
        """Emit the version of the base with `value` at the member's place, and name the members on the way accordingly."""
        found = [(member, value)]
        apart = 0
        reason = f"puts back what {node.op} wrote through a view"
        while member.parent is not None and member.view is not None:
            parent, view = member.parent, member.view
            if view.op in PUTS_BACK or parent.is_part:
                value = self._undone(view, value, parent, reason)
                apart = len(found) if view.op in PUTS_BACK else apart
            elif INVERSES[view.op] not in LIKE_ANOTHER:
                value = self._add(INVERSES[view.op], (value, *view.inputs[1:]), self._like(parent.value), view, reason)
            else:
                value, is_exact = self._viewed_back(view, value, parent, reason)
                apart = apart if is_exact else len(found)
            member = parent
            found.append((member, value))
        self._set_version(member.family, value)
        for index, (name, named) in enumerate(found[:-1]):
            self._set_name(name, named, is_view=index >= apart)

    def _undone(self, view: Node, value: Value, parent: Member, reason: str) -> Value:
        """Emit a copy of the whole with a part replaced; for a part, its elements, from those of a view of all of it."""
        if view.op in PUTS_BACK:
            op, inputs = PUTS_BACK[view.op], (self._elements(parent.value), value, *view.inputs[1:])
        elif INVERSES[view.op] in LIKE_ANOTHER:  # what was computed may lie otherwise than a view can
            op, inputs = "aten::reshape_as", (value, self._elements(parent.value))
        else:
            op, inputs = INVERSES[view.op], (value, *view.inputs[1:])
        made = self._elements_of(parent.value, self._type_of(view, op, inputs)) if parent.is_part else self._like(parent.value)
        return self._add(op, inputs, made, view, reason)

    def _viewed_back(self, view: Node, value: Value, parent: Member, reason: str) -> tuple[Value, bool]:
        """Emit a tensor with the layout of the whole, from a `view` of all of it; return it, and whether they share memory."""
        whole, result = self._view_name(parent.value), self._like(parent.value)
        if restores(self._fact(parent.value), self._fact(view.output)):
            return self._add("aten::view_as", (value, whole), result, view, reason), True
        like = self._like(parent.value)
        assert isinstance(like.type, TensorType)
        raw = like if like.type.strides is None else make_value(like.id, like.type.with_(strides=None), like.name)
        self._add("aten::view_as", (value, whole), raw, view, reason)
        return self._store(whole, raw, result, view, "the strides are those of the whole"), False


def _raw(value: Value, dtype: str | None) -> Value:
    """A result before it is converted: of the same shape, in any layout."""
    assert isinstance(value.type, TensorType)
    return make_value(new_id(), TensorType(dtype, value.type.shape, None, value.type.device), value.name)


def _with(node: Node, inputs: tuple[Value, ...], outputs: tuple[Value, ...], blocks: tuple[Block, ...]) -> Node:
    if inputs == node.inputs and len(outputs) == len(node.outputs) and all(map(is_, blocks, node.blocks)):
        return node
    return make_node(node.id, node.op, inputs, outputs, node.attrs, blocks, node.location, node.scope)
