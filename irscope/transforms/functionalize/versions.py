"""What every name of a family is called at the place where the walk is, and what is known of the tensors that got new names.

A member has a *view name*, a tensor that is the memory that the member would be: it is the version of the base, or is
taken again of it. After a write of a part it may also have an *apart* name: a tensor of its own with the elements that
the member has, until somebody may write the memory. An op that reads gets that only if its result then lies in memory as
it would: the type rule says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from irscope.ir import BOOL, Block, Created, Edit, Node, TensorType, Value, make_node, make_value, new_id
from irscope.transforms.functionalize.family_records import Family, Member, Write
from irscope.transforms.functionalize.pure_ops import Twins

__all__ = ["Frame", "Names", "Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done."""

    writes: Mapping[Node, Write]
    """The writes that become pure ops."""
    members: Mapping[Value, Member]
    """The names of the families that have such writes."""
    carried: Mapping[Node, tuple[Family, ...]]
    """The families that are written inside each if or loop."""
    kept: Mapping[Node, tuple[Value, ...]]
    """Of the pure nodes that take such names, the operands that they may give back or keep; others may keep them all."""
    twins: Twins


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
class Frame:
    """A block that is being rewritten."""

    block: Block
    params: tuple[Value, ...]
    nodes: list[Node] = field(default_factory=list)
    versions: list[tuple[Family, Value]] = field(default_factory=list)
    """What to put back at the end: the versions before."""
    names: list[tuple[Member, _Name | None]] = field(default_factory=list)


class Names:
    """The names at one place of the program, which the walk moves; new nodes go to the block that is open."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.edits: list[Edit] = []
        self.false: Value | None = None
        """The constant that `copy` wants, if it is wanted."""
        self._frames: list[Frame] = []
        self._version: dict[Family, Value] = {}
        self._names: dict[Member, _Name] = {}
        self._rounds = 0
        """How many bodies of loops were entered: what comes later in one may have run in the round before."""
        self._known: dict[Value, TensorType] = {}
        """Of new values, what is known beyond their declared types."""
        self._touched: Counter[Family] = Counter()
        """How often each family's memory was handed out, or written in place."""

    def _add(self, op: str, inputs: tuple[Value, ...], output: Value, like: Node, reason: str) -> Value:
        node = make_node(new_id(), op, inputs, (output,), like.attrs, (), like.location, like.scope)
        self._frames[-1].nodes.append(node)
        self.edits.append(Created(node, reason))
        return output

    def _store(self, target: Value, source: Value, result: Value, like: Node, reason: str) -> Value:
        """A tensor that lies as the target does, with the elements of the source."""
        if self.false is None:
            self.false = make_value(new_id(), BOOL, "false")
        return self._add("aten::copy", (target, source, self.false), result, like, reason)

    # Types

    def _like(self, value: Value) -> Value:
        """A new value for a tensor of which all is known that is known of another."""
        made = make_value(new_id(), value.type, value.name)
        fact = self._fact(value)
        if fact != value.type:
            self._known[made] = fact
        return made

    def _elements_of(self, value: Value, type: TensorType, *, is_new: bool = False) -> Value:
        """A value for the elements of another, which lie as `type` says; the other itself if it is new and lies so."""
        told = value.type
        assert isinstance(told, TensorType)
        told = told if told.strides in (None, type.strides) else told.with_(strides=None)
        made = value if is_new and told is value.type else make_value(new_id(), told, value.name)
        self._known[made] = type if type.shape is not None else told.with_(strides=None)
        return made

    def _fact(self, value: Value) -> TensorType:
        known = self._known.get(value) or self.plan.twins.shapes.type(value)
        assert isinstance(known, TensorType)
        return known

    def _type_of(self, node: Node, op: str, inputs: tuple[Value, ...]) -> TensorType:
        """What is known of the result of an op."""
        asked = make_node(node.id, op, inputs, node.outputs, node.attrs, (), None, "")
        return self.plan.twins.type_of_result(asked, self._known)

    # Names

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

    def _read(self, node: Node, kept: tuple[Value, ...]) -> tuple[Value, ...]:
        """The operands of a node by their names here; by those of equal elements, if its result then lies as it did."""
        found = {value: self._apart(value) for value in node.inputs if value not in kept}
        if any(found.values()):
            inputs = tuple(found.get(value) or self._view_name(value) for value in node.inputs)
            if self._gives_the_same(node, inputs):
                return inputs
        return tuple(map(self._view_name, node.inputs))

    def _gives_the_same(self, node: Node, inputs: tuple[Value, ...]) -> bool:
        if len(node.outputs) != 1 or not isinstance(node.outputs[0].type, TensorType):
            return node.op == "prim::Print"
        wanted, found = self._fact(node.outputs[0]), self._type_of(node, node.op, inputs)
        known = wanted.is_static and wanted.strides is not None
        return known and (wanted.dtype, wanted.shape, wanted.strides) == (found.dtype, found.shape, found.strides)

    def _apart(self, value: Value) -> Value | None:
        """A tensor that has the elements of a part, and has memory of its own."""
        member = self.plan.members.get(value)
        known = self._names.get(member) if member is not None else None
        if member is None or known is None or known.is_view or known.version is not self._version[member.family]:
            return None
        return known.value if known.epoch == self._epoch(member.family) else None

    def _elements(self, value: Value) -> Value:
        """A value with the elements that the old value would have here."""
        return self._apart(value) or self._view_name(value)

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
            here = self._add(view.op, (here, *view.inputs[1:]), self._like(member.value), view, "the view, taken again")
            self._set_name(member, here, is_view=True)
        return here
