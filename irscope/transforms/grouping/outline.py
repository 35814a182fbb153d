"""Outlines nodes into a group, one node with a block that holds them, or says why it declines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.ir import (
    Block,
    Edit,
    Erased,
    Graph,
    Node,
    Rewriter,
    TensorType,
    Value,
    make_block,
    make_node,
    make_value,
    new_id,
)
from irscope.ops.traits import PACKS_SEQUENCE

__all__ = [
    "Identity", "MAKES_NUMBERS", "Refusal", "common_scope", "leaving_values", "outline_nodes", "outside_names",
    "unused_constants", "with_groups",
]  # fmt: skip


# The reason that a fuser declines: the rule, a sentence, and the values and nodes that the sentence names.


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not fused."""

    rule: str
    """The stable name of the rule."""
    because: str
    """A sentence without a full stop."""
    evidence: tuple[Value | Node, ...] = ()
    """The values and nodes that the sentence names."""


# Outlines nodes into a group: one node with a block that holds them, and the graph in which it replaces them.
#
# Values that leave a group stay the same Values; inside the group, new Values represent them and the group's inputs.
# Constants that the group reads are copied into it, and are removed outside where only groups read them.


MAKES_NUMBERS: Final = PACKS_SEQUENCE | {"prim::Constant"}
"""Ops that can be removed when their results are unused."""

Constant = Callable[[Value, Value, Node], Node | None]
"""Maps a value, the new Value for it inside the group, and the node that reads it, to the constant node that defines it
there; None if the group takes the value as an input."""


@dataclass(slots=True)
class Identity:
    """What stays the same while a group grows step by step: its ids, and which inside Value represents each outside one."""

    node: int = field(default_factory=new_id)
    block: int = field(default_factory=new_id)
    inside: dict[Value, Value] = field(default_factory=dict)
    constants: dict[Value, Node] = field(default_factory=dict)

    def stand_in(self, value: Value) -> Value:
        """The Value that represents an outside value inside the group."""
        copy = self.inside.get(value)
        if copy is None:
            copy = self.inside[value] = make_value(new_id(), value.type, value.name)
        return copy


def leaving_values(members: Sequence[Node], uses: Mapping[Value, int]) -> list[Value]:
    """The values that these nodes produce and other nodes read, in program order; `uses` counts the whole program's uses."""
    inside = Counter(value for node in members for value in node.inputs)
    return [v for node in members for v in node.outputs if uses.get(v, 0) > inside.get(v, 0)]


def outline_nodes(
    op: str, members: Sequence[Node], leaving: Sequence[Value], constant: Constant, *, identity: Identity | None = None,
    attrs: FrozenDict[str, str] = EMPTY,
) -> Node:  # fmt: skip
    """Returns one node of this op whose block runs the members in their order; its outputs are the values that leave."""
    identity = identity or Identity()
    standing = {value: value for node in members for value in node.outputs}
    standing.update((value, identity.stand_in(value)) for value in leaving)
    params: dict[Value, Value] = {}
    body: list[Node] = []
    for node in members:
        for value in node.inputs:
            if value in standing:
                continue
            made = identity.constants.get(value) or constant(value, identity.stand_in(value), node)
            if made is None:
                params[value] = standing[value] = identity.inside[value]
            else:
                identity.constants[value] = made
                standing[value] = made.outputs[0]
                body.append(made)
        inputs = tuple([standing[value] for value in node.inputs])
        outputs = tuple([standing[value] for value in node.outputs])
        if inputs != node.inputs or outputs != node.outputs:
            node = make_node(node.id, node.op, inputs, outputs, node.attrs, node.blocks, node.location, node.scope)
        body.append(node)
    returns = tuple([standing[value] for value in leaving])
    block = make_block(identity.block, tuple(params.values()), tuple(body), returns)
    scope = common_scope({node.scope for node in members})
    return make_node(
        identity.node, op, tuple(params), tuple(leaving), attrs, (block,), members[-1].location, scope
    )  # fmt: skip


def outside_names(group: Node) -> dict[Value, Value]:
    """Maps the parameters and results of a group's block to the outside values that they represent."""
    (block,) = group.blocks
    return dict(zip((*block.params, *block.returns), (*group.inputs, *group.outputs), strict=True))


def common_scope(scopes: Iterable[str]) -> str:
    """The innermost module that contains all of the scopes.

    >>> common_scope(["net.head.conv", "net.head.norm"]), common_scope(["net.body", "net.head"])
    ('net.head', 'net')
    """
    common: list[str] | None = None
    for scope in scopes:
        parts = scope.split(".")
        common = parts if common is None else common[: _agreement(common, parts)]
    return ".".join(common or [])


def _agreement(a: list[str], b: list[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def unused_constants(
    graph: Graph, members: Iterable[Node], is_known: Callable[[Value], bool], uses: Mapping[Value, int]
) -> set[Node]:
    """The producers of known numbers, and of lists of them, whose only users are members of groups, which now have copies."""
    inside: Counter[Value] = Counter()
    inside.update(
        value for node in members for value in node.inputs if value.type.__class__ is not TensorType
    )  # a constant tensor is an argument, and has no copy
    unused: set[Node] = set()
    pending = [value for value in inside if is_known(value)]
    while pending:
        value = pending.pop()
        producer = graph.producer.get(value)
        if producer is None or producer in unused or producer.op not in MAKES_NUMBERS or inside[value] < uses[value]:
            continue
        unused.add(producer)
        inside.update(producer.inputs)
        pending.extend(producer.inputs)
    return unused


def with_groups(
    graph: Graph, scheduled: Mapping[Block, Sequence[Node]], merged: Mapping[Block, Sequence[Edit]], unused: Collection[Node]
) -> tuple[Graph, tuple[Edit, ...]]:
    """The graph with these nodes in these blocks and without the `unused` constants, and all the edits."""
    rewriter = Rewriter(graph)
    for block in graph.blocks():
        erased = [Erased(node, "only groups read it, and have their own copy") for node in block.nodes if node in unused]
        edits = [*merged.get(block, ()), *erased]
        if edits:
            nodes = [node for node in scheduled.get(block, block.nodes) if node not in unused]
            rewriter.set_nodes(block, nodes, edits)
    return rewriter.finish(), rewriter.edits
