"""Carrying a plan out: each family is a variable, its versions are values, and every name is looked up where it is read.

The walk is the construction of static single assignment over blocks. A write makes the next version of the base. A view
of an old version is taken again of the present one, in the block where it is read. An if in which a family is written
gets one more result for it, a loop one more carried value. What is known inside a block is forgotten at its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from irscope._base.frozen import FrozenDict
from irscope.ir import (
    Block,
    Created,
    Edit,
    Erased,
    Graph,
    Node,
    TensorType,
    Value,
    make_block,
    make_node,
    make_value,
    new_id,
    steps,
)
from irscope.ops.traits import INVERSES, PUTS_BACK
from irscope.transforms.functionalize.family_records import Member, Write
from irscope.transforms.functionalize.versions import Frame, Names, Plan
from irscope.transforms.functionalize.view_inverses import restores

__all__ = ["Plan", "renamed"]


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
    body = walk.body
    assert body is not None
    if walk.false is not None:
        constant = make_node(new_id(), "prim::Constant", (), (walk.false,), FrozenDict(value=0), (), None, "")
        walk.edits.append(Created(constant, "the flag of the copies that now stand for writes: they are not asynchronous"))
        body = make_block(body.id, body.params, (constant, *body.nodes), body.returns)
    return (graph if body is graph.body else replace(graph, body=body)), walk.edits


class _Walk(Names):
    """The state of one walk."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.body: Block | None = None
        self._open: list[_Open] = []

    # Blocks

    def enter(self, owner: Node | None, block: Block) -> None:
        frame = Frame(block, block.params)
        self._frames.append(frame)
        if owner is not None and owner.op == "prim::Loop":
            self._rounds += 1
            for family in self.plan.carried.get(owner, ()):
                param = self._like(family.base)
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
        results = tuple(self._like(family.base) for family in families)
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
            kept = self.plan.kept.get(node, node.inputs)
            inputs = self._read(node, kept)
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
            self.edits.append(Erased(old, "it used a value that was written"))
            self.edits.append(Created(node, "it uses the value after the write"))

    def _is_member_view(self, node: Node) -> bool:
        member = self.plan.members.get(node.outputs[0]) if len(node.outputs) == 1 else None
        return member is not None and member.view is node

    # Writes

    def _write(self, write: Write) -> None:
        """The twin in the place of an in-place op, and the whole of which it wrote a part."""
        node, member, twin = write.node, write.member, write.twin
        self.edits.append(Erased(node, "all aliases of what it writes are known, and a pure op computes the new value"))
        inputs = tuple(map(self._elements if member.is_part else self._view_name, node.inputs))
        result = node.outputs[0] if node.outputs else self._like(member.value)
        told = f"{node.op} wrote in place; its functional variant makes a new value"
        if member.is_part:
            result = self._part(write, inputs, result, told)
        elif write.is_exact and twin.keeps_dtype:
            self._add(twin.op, inputs, result, node, told)
        else:
            raw = self._add(twin.op, inputs, _raw(result, twin.dtype), node, told)
            if write.is_exact and twin.dtype is not None and self._fact(inputs[0]).dtype is not None:
                self._add("aten::type_as", (raw, inputs[0]), result, node, f"{node.op} kept the element type")
            else:
                self._store(inputs[0], raw, result, node, f"{node.op} kept element type and layout")
        self._put_back(member, result, node)

    def _part(self, write: Write, inputs: tuple[Value, ...], result: Value, told: str) -> Value:
        """The new elements of a part, and their type; how they lie does not matter, for they go into the whole."""
        node, twin = write.node, write.twin
        type = self._type_of(node, twin.op, inputs)
        raw = _raw(result, twin.dtype)
        if twin.keeps_dtype:
            made = self._elements_of(result, type, is_new=True)
            return self._add(twin.op, inputs, made, node, told)
        self._add(twin.op, inputs, raw, node, told)
        self._known[raw] = type
        made = self._elements_of(result, type.with_(dtype=self._fact(inputs[0]).dtype), is_new=True)
        return self._add("aten::type_as", (raw, inputs[0]), made, node, f"{node.op} kept the element type")

    def _put_back(self, member: Member, value: Value, node: Node) -> None:
        """Make the version of the base that has `value` where the member lies, and call the members on the way so."""
        found = [(member, value)]
        apart = 0
        reason = f"puts back what {node.op} wrote through a view"
        while member.parent is not None and member.view is not None:
            parent, view = member.parent, member.view
            if view.op in PUTS_BACK:
                value, apart = self._scattered(view, value, parent, reason), len(found)
            elif parent.is_part:
                value = self._undone(view, value, parent, reason)
            elif view.op != "aten::view":
                value = self._add(INVERSES[view.op], (value, *view.inputs[1:]), self._like(parent.value), view, reason)
            else:
                value, is_exact = self._viewed_back(view, value, parent, reason)
                apart = apart if is_exact else len(found)
            member = parent
            found.append((member, value))
        self._set_version(member.family, value)
        for index, (name, named) in enumerate(found[:-1]):
            self._set_name(name, named, is_view=index >= apart)

    def _scattered(self, view: Node, value: Value, parent: Member, reason: str) -> Value:
        """A copy of the whole with the part replaced."""
        op, inputs = PUTS_BACK[view.op], (self._elements(parent.value), value, *view.inputs[1:])
        if not parent.is_part:
            return self._add(op, inputs, self._like(parent.value), view, reason)
        return self._add(op, inputs, self._elements_of(parent.value, self._type_of(view, op, inputs)), view, reason)

    def _undone(self, view: Node, value: Value, parent: Member, reason: str) -> Value:
        """The elements of a part, from those of a view of all of it."""
        op, inputs = INVERSES[view.op], (value, *view.inputs[1:])
        if view.op == "aten::view":
            op, inputs = "aten::reshape_as", (value, self._elements(parent.value))
        return self._add(op, inputs, self._elements_of(parent.value, self._type_of(view, op, inputs)), view, reason)

    def _viewed_back(self, view: Node, value: Value, parent: Member, reason: str) -> tuple[Value, bool]:
        """A tensor that lies as the whole did, from a `view` of all of it, and whether it shares memory with that."""
        whole, result = self._view_name(parent.value), self._like(parent.value)
        if restores(self._fact(parent.value), self._fact(view.output)):
            return self._add("aten::view_as", (value, whole), result, view, reason), True
        raw = self._add("aten::view_as", (value, whole), _without_strides(self._like(parent.value)), view, reason)
        return self._store(whole, raw, result, view, "the strides are those of the whole"), False


def _without_strides(value: Value) -> Value:
    assert isinstance(value.type, TensorType)
    return value if value.type.strides is None else make_value(value.id, value.type.with_(strides=None), value.name)


def _raw(value: Value, dtype: str | None) -> Value:
    """A result before it is converted: of the same shape, and it may lie otherwise."""
    assert isinstance(value.type, TensorType)
    return make_value(new_id(), TensorType(dtype, value.type.shape, None, value.type.device), value.name)


def _with(node: Node, inputs: tuple[Value, ...], outputs: tuple[Value, ...], blocks: tuple[Block, ...]) -> Node:
    same = inputs == node.inputs and len(outputs) == len(node.outputs)
    if same and all(new is old for new, old in zip(blocks, node.blocks, strict=True)):
        return node
    return make_node(node.id, node.op, inputs, outputs, node.attrs, blocks, node.location, node.scope)


def _same_or_new(frame: Frame, returns: tuple[Value, ...]) -> Block:
    block = frame.block
    same = len(frame.nodes) == len(block.nodes) and returns == block.returns and frame.params == block.params
    if same and all(new is old for new, old in zip(frame.nodes, block.nodes, strict=True)):
        return block
    return make_block(block.id, frame.params, tuple(frame.nodes), returns)
