"""Carrying a plan out: each family is a variable, its versions are values, and every name is looked up where it is read.

The walk is the construction of static single assignment over blocks. A write makes the next version of the base. A view
of an old version is taken again of the present one, in the block where it is read. An if in which a family is written
gets one more result for it, a loop one more carried value. What is known inside a block is forgotten at its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from irscope.ir.core import Block, Graph, Node, Value, make_block, make_node, make_value, new_id
from irscope.ir.rewriter import Created, Edit, Erased
from irscope.ir.traversal import steps
from irscope.ir.types import TensorType
from irscope.ops.registry import effect_of
from irscope.ops.strides import like_strides
from irscope.ops.type_rules import static_shape
from irscope.transforms.functionalize.families import Family, Member, Write
from irscope.transforms.functionalize.operands import kept_operands
from irscope.transforms.functionalize.parts import INVERSES, SCATTERS

__all__ = ["Plan", "renamed"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done."""

    writes: Mapping[Node, Write]
    """The writes that become pure ops."""
    members: Mapping[Value, Member]
    """The names of the families that have such writes."""
    carried: Mapping[Node, tuple[Family, ...]]
    """The families that are written inside each if or loop."""


@dataclass(frozen=True, slots=True)
class _Name:
    """What a member is called while the base has a version."""

    version: Value
    value: Value
    is_view: bool
    """Whether it shares the version's memory; otherwise it has the same elements, until somebody else may write them."""
    epoch: tuple[int, int]
    """When it got the name."""


@dataclass(slots=True)
class _Frame:
    """A block that is being rewritten."""

    block: Block
    params: tuple[Value, ...]
    nodes: list[Node] = field(default_factory=list)
    versions: list[tuple[Family, Value]] = field(default_factory=list)
    """What to put back at the end: the versions before."""
    names: list[tuple[Member, _Name | None]] = field(default_factory=list)


@dataclass(slots=True)
class _Open:
    """A node whose blocks are being rewritten."""

    node: Node
    inputs: tuple[Value, ...]
    blocks: list[Block] = field(default_factory=list)


def renamed(graph: Graph, plan: Plan) -> tuple[Graph, list[Edit]]:
    """The graph after the plan, and the edits; linear in the graph and in what is carried."""
    walk = _Walk(plan)
    for step in steps(graph):
        if step.kind == "enter":
            walk.enter(step.node, step.block)
        elif step.kind == "leave":
            walk.leave(step.node)
        elif step.kind == "done":
            walk.close()
        elif step.node is not None:
            walk.node(step.node)
    assert walk.body is not None
    return (graph if walk.body is graph.body else replace(graph, body=walk.body)), walk.edits


class _Walk:
    """The state of one walk."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.body: Block | None = None
        self.edits: list[Edit] = []
        self._frames: list[_Frame] = []
        self._open: list[_Open] = []
        self._version: dict[Family, Value] = {}
        self._names: dict[Member, _Name] = {}
        self._rounds = 0
        """How many bodies of loops were entered: what comes later in one may have run in the round before."""
        self._touched: Counter[Family] = Counter()
        """How often each family's memory was handed out, or written in place."""

    # Blocks

    def enter(self, owner: Node | None, block: Block) -> None:
        frame = _Frame(block, block.params)
        self._frames.append(frame)
        if owner is not None and owner.op == "prim::Loop":
            self._rounds += 1
            for family in self.plan.carried.get(owner, ()):
                param = _like(family.base)
                frame.params += (param,)
                self._set_version(family, param)

    def leave(self, owner: Node | None) -> None:
        frame = self._frames[-1]
        returns = self._handed_out(frame.block.returns)
        returns += tuple(self._version[family] for family in self.plan.carried.get(owner, ())) if owner else ()
        self._frames.pop()
        for family, version in reversed(frame.versions):
            self._version[family] = version
        for member, name in reversed(frame.names):
            if name is None:
                del self._names[member]
            else:
                self._names[member] = name
        done = _same_or_new(frame, returns)
        if self._open:
            self._open[-1].blocks.append(done)
        else:
            self.body = done

    def close(self) -> None:
        """All blocks of a node are done."""
        made = self._open.pop()
        families = self.plan.carried.get(made.node, ())
        results = tuple(_like(family.base) for family in families)
        outputs = made.node.outputs + results
        self._emit(_with(made.node, made.inputs, outputs, tuple(made.blocks)), made.node, bool(families))
        for family, result in zip(families, results, strict=True):
            self._set_version(family, result)
        self._define_results(made.node)

    # Nodes

    def node(self, node: Node) -> None:
        if node.blocks:
            inputs = self._handed_out(node.inputs)
            if node.op == "prim::Loop":
                inputs += tuple(self._version[family] for family in self.plan.carried.get(node, ()))
            self._open.append(_Open(node, inputs if inputs != node.inputs else node.inputs))
            return
        write = self.plan.writes.get(node)
        if write is not None:
            self._write(write)
            return
        if any(value in self.plan.members for value in node.inputs):
            kept = set(node.inputs if effect_of(node) != "pure" else kept_operands(node))
            inputs = tuple(self._view_name(v) if v in kept else self._element_name(v) for v in node.inputs)
            self._emit(node if inputs == node.inputs else _with(node, inputs, node.outputs, node.blocks), node)
            if not self._is_member_view(node):
                self._touch(kept)
        else:
            self._frames[-1].nodes.append(node)
        self._define_results(node)

    def _define_results(self, node: Node) -> None:
        for value in node.outputs:
            member = self.plan.members.get(value)
            if member is None or member.value is not value:
                continue
            if member.parent is None:
                self._set_version(member.family, value)
            else:
                self._set_name(member, value, is_view=True)

    def _emit(self, node: Node, old: Node, is_other: bool = False) -> None:
        self._frames[-1].nodes.append(node)
        if node.inputs != old.inputs or is_other:
            self.edits.append(Erased(old, "a write before it makes new values"))
            self.edits.append(Created(node, "it reads or passes on the values after the write"))

    def _add(self, op: str, inputs: tuple[Value, ...], output: Value, like: Node, reason: str) -> Value:
        node = make_node(new_id(), op, inputs, (output,), like.attrs, (), like.location, like.scope)
        self._frames[-1].nodes.append(node)
        self.edits.append(Created(node, reason))
        return output

    # Writes

    def _write(self, write: Write) -> None:
        """The twin in the place of an in-place op, and the whole of which it wrote a part."""
        node, member, twin = write.node, write.member, write.twin
        inputs = tuple(map(self._element_name, node.inputs))
        self.edits.append(Erased(node, "what it writes is known by name, and a pure op computes it"))
        result = node.outputs[0] if node.outputs else _copy_of(member.value)
        result = result if _is_dense(result) else _copy_of(result)
        if twin.needs_cast:
            raw = make_value(new_id(), _raw_type(result), result.name)
            self._add(twin.op, inputs, raw, node, f"computes what {node.op} wrote")
            self._add("aten::type_as", (raw, inputs[0]), result, node, f"{node.op} kept the element type")
        else:
            self._add(twin.op, inputs, result, node, f"computes what {node.op} wrote")
        self._put_back(member, result, node)

    def _put_back(self, member: Member, value: Value, node: Node) -> None:
        """Make the version of the base that has `value` where the member lies, and call the members on the way so."""
        found = [(member, value)]
        scattered_at = 0
        while member.parent is not None and member.view is not None:
            parent, view = member.parent, member.view
            whole, rest = self._element_name(parent.value), view.inputs[1:]
            if view.op in SCATTERS:
                op, inputs, scattered_at = SCATTERS[view.op], (whole, value, *rest), len(found)
            else:
                op, inputs = INVERSES[view.op], (value, whole) if view.op == "aten::view" else (value, *rest)
            reason = f"puts back what {node.op} wrote through a view"
            value = self._add(op, inputs, _copy_of(parent.value), view, reason)
            member = parent
            found.append((member, value))
        self._set_version(member.family, value)
        for index, (name, named) in enumerate(found[:-1]):
            self._set_name(name, named, is_view=index >= scattered_at)

    # Names

    def _is_member_view(self, node: Node) -> bool:
        member = self.plan.members.get(node.outputs[0]) if len(node.outputs) == 1 else None
        return member is not None and member.view is node

    def _handed_out(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """The values that a block, or a node with blocks, takes or gives: whoever gets them may write them."""
        names = tuple(map(self._view_name, values))
        self._touch(values)
        return names

    def _touch(self, values: Iterable[Value]) -> None:
        for value in values:
            member = self.plan.members.get(value)
            if member is not None:
                self._touched[member.family] += 1

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

    def _element_name(self, value: Value) -> Value:
        """A value with the elements that the old value would have here."""
        member = self.plan.members.get(value)
        if member is None:
            return value
        if member.parent is not None:
            known = self._names.get(member)
            here = known is not None and known.version is self._version[member.family]
            if known is not None and here and (known.is_view or known.epoch == self._epoch(member.family)):
                return known.value
        return self._view_name(value)

    def _view_name(self, value: Value) -> Value:
        """A value that is, here, the memory that the old value would be; views are taken again where they are stale."""
        member = self.plan.members.get(value)
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
            here = self._add(view.op, (here, *view.inputs[1:]), _like(member.value), view, "the view, taken again")
            self._set_name(member, here, is_view=True)
        return here


def _like(value: Value) -> Value:
    return make_value(new_id(), value.type, value.name)


def _is_dense(value: Value) -> bool:
    """Whether a value's type is also that of a copy: it does not tell strides, or those of a tensor without gaps."""
    type = value.type
    shape = static_shape(type) if isinstance(type, TensorType) else None
    if shape is None or not isinstance(type, TensorType) or type.strides is None:
        return True
    return type.strides == like_strides(shape, type.strides)


def _copy_of(value: Value) -> Value:
    """A new value for a copy of what a value was, which may lie elsewhere."""
    if _is_dense(value):
        return _like(value)
    assert isinstance(value.type, TensorType)
    return make_value(new_id(), value.type.with_(strides=None), value.name)


def _raw_type(value: Value) -> TensorType:
    """The type of a result before it is converted: of the same shape, of an element type that is not told."""
    assert isinstance(value.type, TensorType)
    return TensorType(None, value.type.shape, None, value.type.device)


def _with(node: Node, inputs: tuple[Value, ...], outputs: tuple[Value, ...], blocks: tuple[Block, ...]) -> Node:
    same = inputs == node.inputs and len(outputs) == len(node.outputs)
    if same and all(new is old for new, old in zip(blocks, node.blocks, strict=True)):
        return node
    return make_node(node.id, node.op, inputs, outputs, node.attrs, blocks, node.location, node.scope)


def _same_or_new(frame: _Frame, returns: tuple[Value, ...]) -> Block:
    block = frame.block
    same = len(frame.nodes) == len(block.nodes) and returns == block.returns and frame.params == block.params
    if same and all(new is old for new, old in zip(frame.nodes, block.nodes, strict=True)):
        return block
    return make_block(block.id, frame.params, tuple(frame.nodes), returns)
