"""Copies the body of a class, the leader's block, for each member, with parameters in the holes.

All copies have the same nodes in the same order on the same operands, so that one kernel serves them. Differences that are not
parameters of a kernel (an extent, a size that is an operand, a layout) keep the member's own values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.ir import FLOAT, INT, Block, Node, TensorData, Type, Value, make_block, make_node, make_value, new_id
from irscope.transforms.dedup.encoding import leaf_slots
from irscope.transforms.dedup.flow import Leaf, flow_of
from irscope.transforms.dedup.holes import HoleKind, Site
from irscope.transforms.dedup.matching import Match
from irscope.transforms.dedup.rewrite.parameters import ClassHoles, HoleRow

__all__ = ["BodyCopy", "is_parameter", "parameter_type"]


def is_parameter(row: HoleRow) -> bool:
    """Whether a hole becomes a parameter: varying data that is an operand of a node."""
    return row.parameter is not None and row.kind == "constant" and row.site.part == "operand"


def parameter_type(value: Any, leaf: Type) -> Type:
    """Returns the type of a parameter that replaces a constant."""
    return (
        leaf
        if isinstance(value, TensorData)
        else FLOAT
        if isinstance(value, float)
        else INT
        if type(value) is int
        else leaf
    )


class BodyCopy:
    """Copies of the leader's block, one for each member of its class."""

    def __init__(self, holes: ClassHoles) -> None:
        self.holes = holes
        self.flow = flow_of(holes.leader.body, merged=False)
        self.leaves: dict[tuple[Node, int], Leaf] = {
            (term.node, place): operand
            for term in self.flow.terms
            if term.node is not None
            for place, operand in enumerate(term.operands)
            if isinstance(operand, Leaf)
        }
        self.rows: list[HoleRow] = []
        """One hole for each parameter, in order."""
        self.number: dict[Site, int] = {}
        """The number of the parameter that each place reads."""
        vectors: dict[tuple[int | None, str], int] = {}
        for row in holes.rows:
            if is_parameter(row):
                key = (row.parameter, row.follows)
                if key not in vectors:
                    vectors[key] = len(self.rows)
                    self.rows.append(row)
                self.number[row.site] = vectors[key]

    def parameter_types(self) -> list[Type]:
        """The type of each parameter."""
        found = []
        for row in self.rows:
            assert isinstance(row.site.subject, Node)
            leaf = self.leaves[row.site.subject, row.site.place]
            found.append(parameter_type(row.values[0], leaf.type))
        return found

    def why_not(self) -> str:
        """Returns why the leader's block cannot be copied; empty if it can."""
        if any(term.regions for term in self.flow.terms):
            return "its body has blocks inside"
        if any(isinstance(operand, Leaf) for operand in self.flow.top.returns):
            return "a result of it is a constant"
        if any(term.place < 0 and term.value is not None for term in self.flow.terms):
            return "it reads values that are not its operands"
        return ""

    def of(self, found: Match) -> Block:
        """The block for the member of a match."""
        return _Copy(self, found).block()


class _Copy:
    def __init__(self, body: BodyCopy, found: Match) -> None:
        self.body = body
        self.match = found
        self.slots: dict[tuple[HoleKind, Site], Any] = {(pair.kind, pair.site): pair.right for pair in found.slots}
        self.env: dict[Value, Value] = {}
        self.nodes: list[Node] = []
        self.constants: dict[tuple[Any, ...], Value] = {}
        self.extra: list[Value] = []

    def block(self) -> Block:
        leader = self.body.holes.leader.block
        params = [self.value(value) for value in leader.params]
        self.extra = [make_value(new_id(), type, "") for type in self.body.parameter_types()]
        needed = {self.body.flow.terms[number].node for number in self.body.flow.needed}
        for node in leader.nodes:
            if node in needed:
                self.node(node)
        returns = tuple([self.env[value] for value in leader.returns])
        return make_block(new_id(), (*params, *self.extra), tuple(self.nodes), returns)

    def value(self, value: Value) -> Value:
        """Create a value of the copy, with its type in the member."""
        theirs = self.match.values.get(value, value)
        made = self.env[value] = make_value(new_id(), theirs.type, theirs.name)
        return made

    def node(self, node: Node) -> None:
        other = self.match.nodes.get(node, node)
        inputs = tuple([self.operand(node, place, value) for place, value in enumerate(node.inputs)])
        outputs = tuple([self.value(value) for value in node.outputs])
        self.nodes.append(make_node(new_id(), node.op, inputs, outputs, other.attrs, (), other.location, other.scope))

    def operand(self, node: Node, place: int, value: Value) -> Value:
        leaf = self.body.leaves.get((node, place))
        if leaf is None:
            return self.env[value]
        number = self.body.number.get(Site(node, "operand", place, 0))
        return self.extra[number] if number is not None else self.constant(self.payload(node, place, leaf), leaf.type)

    def payload(self, node: Node, place: int, leaf: Leaf) -> Any:
        """The member's payload for a constant of the leader."""
        slots = leaf_slots(leaf.payload, leaf.role, self.match.step)
        if not slots:
            return leaf.payload
        parts = [self.slots.get((slot.kind, Site(node, "operand", place, slot.index)), slot.value) for slot in slots]
        return tuple(parts) if isinstance(leaf.payload, tuple | list) else parts[0]

    def constant(self, payload: Any, type: Type) -> Value:
        key = (type, payload if isinstance(payload, TensorData) else repr(payload))
        if key not in self.constants:
            value = self.constants[key] = make_value(new_id(), type, "")
            self.nodes.append(constant_node(payload, value))
        return self.constants[key]


def constant_node(payload: Any, value: Value) -> Node:
    """Returns a `prim::Constant` that produces a value."""
    attrs = EMPTY if payload is None else FrozenDict(value=int(payload) if isinstance(payload, bool) else payload)
    return make_node(new_id(), "prim::Constant", (), (value,), attrs, (), None, "")


def passed(rows: Sequence[HoleRow], member: int, make: Callable[[Any, int], Value]) -> tuple[Value, ...]:
    """Returns the operands that a member passes for the parameters."""
    return tuple(make(row.values[member], number) for number, row in enumerate(rows))


Values = Mapping[Value, Value]
