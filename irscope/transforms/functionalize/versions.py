"""Maps each member of a family to its current value as the walk proceeds, with the known types of new values.

A member has a *view name*, a tensor in the memory that the member would have: the version of the base, or a view taken
again of it. After a write of a part it may also have an *apart* name: a tensor of its own with the member's elements,
valid until the memory may be written. An op reads the apart name only if its result keeps the layout that it would have,
according to the type rule.
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
    """The planned rewrites."""

    writes: Mapping[Node, Write]
    """The writes that become functional variants."""
    members: Mapping[Value, Member]
    """The names of the families that have such writes."""
    carried: Mapping[Node, tuple[Family, ...]]
    """The families that are written inside each if or loop."""
    kept: Mapping[Node, tuple[Value, ...]]
    """For pure nodes that take such names, the operands that they may return or keep; other nodes may keep all of them."""
    twins: Twins


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
class Frame:
    """A block that is being rewritten."""

    block: Block
    params: tuple[Value, ...]
    nodes: list[Node] = field(default_factory=list)
    versions: list[tuple[Family, Value]] = field(default_factory=list)
    """The previous versions, to restore at the end."""
    names: list[tuple[Member, _Name | None]] = field(default_factory=list)


class Names:
    """The names at the walk's current place in the program; new nodes are added to the open block."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.edits: list[Edit] = []
        self.false: Value | None = None
        """The `non_blocking` argument of all copies, once one is needed."""
        self._frames: list[Frame] = []
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
        known = self._known.get(value) or self.plan.twins.shapes.type(value)
        assert isinstance(known, TensorType)
        return known

    def _type_of(self, node: Node, op: str, inputs: tuple[Value, ...]) -> TensorType:
        """The known type of an op's result."""
        probe = make_node(node.id, op, inputs, node.outputs, node.attrs, (), None, "")
        return self.plan.twins.type_of_result(probe, self._known)

    # Names

    def _handed_out(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """The names of values that a block, or a node with blocks, takes or returns: they may be written from there on."""
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
        member = self.plan.members.get(value)
        known = self._names.get(member) if member is not None else None
        if member is None or known is None or known.is_view or known.version is not self._version[member.family]:
            return None
        return known.value if known.epoch == self._epoch(member.family) else None

    def _elements(self, value: Value) -> Value:
        """A value with the elements that the old value would have at this place."""
        return self._apart(value) or self._view_name(value)

    def _view_name(self, value: Value) -> Value:
        """A value in the memory that the old value would have at this place; stale views are taken again."""
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
