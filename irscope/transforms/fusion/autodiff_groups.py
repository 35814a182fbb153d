"""From slices to the next graph: each group becomes one `prim::DifferentiableGraph` with the members in its block."""

from __future__ import annotations

from collections.abc import Sequence

from irscope._base.frozen import EMPTY
from irscope.ir.core import Block, Graph, Node, Value, make_block, make_node, make_value, new_id
from irscope.ir.rewriter import Edit, Erased, Merged, Rewriter
from irscope.transforms.fusion.autodiff_plan import BlockSlices
from irscope.transforms.fusion.autodiff_rules import GradientRules

__all__ = ["Sliced", "carry_out_slices"]


class Sliced:
    """The graph with its subgraphs, and where each node and value went."""

    def __init__(self, rules: GradientRules) -> None:
        self.graph: Graph = rules.graph
        self.edits: tuple[Edit, ...] = ()
        self.group_of: dict[Node, Node] = {}
        """The subgraph of each node of the old graph that is in one."""
        self.outside_of: dict[Value, Value] = {}
        """What parameters and results of the subgraphs are called outside."""
        self.gone: set[Value] = set()
        """Constants that only subgraphs read, which have copies now."""


def carry_out_slices(plans: Sequence[BlockSlices], rules: GradientRules) -> Sliced:
    """Make the groups of all plans.

    Values that leave a group, and values that are only read inside, stay the same Values; new ones stand inside for the
    group's inputs and for what leaves it.
    """
    done = Sliced(rules)
    scheduled: dict[Block, list[Node]] = {}
    for plan in plans:
        groups = plan.groups()
        if not groups:
            continue
        made = {group[0]: _group_node(plan, group, done) for group in groups}
        scheduled[plan.block] = [
            node
            for members in plan.settled.schedule()
            for node in ([made[members[0]]] if members[0] in made else [plan.block.nodes[i] for i in members])
        ]
    unread = _unread_constants(rules, done)
    done.gone = {value for node in unread for value in node.outputs}
    merged = {plan.block: _merge_edits(plan, done) for plan in plans}
    rewriter = Rewriter(rules.graph)
    for block in rules.graph.blocks():
        erased = [
            Erased(node, "only subgraphs read it, and have their own copy") for node in block.nodes if node in unread
        ]
        edits = [*merged.get(block, ()), *erased]
        if edits:
            nodes = [node for node in scheduled.get(block, block.nodes) if node not in unread]
            rewriter.set_nodes(block, nodes, edits)
    done.graph, done.edits = rewriter.finish(), rewriter.edits
    return done


def _group_node(plan: BlockSlices, group: Sequence[int], done: Sliced) -> Node:
    """One node that does what the members do, in their order."""
    rules = plan.rules
    members = [plan.block.nodes[index] for index in group]
    inside = set(members)
    users = rules.graph.users
    leaving = [v for node in members for v in node.outputs if any(use.user not in inside for use in users.get(v, ()))]
    names = {value: make_value(new_id(), value.type, value.name) for value in leaving}
    made = {value for node in members for value in node.outputs}
    params: list[Value] = []
    body: list[Node] = []
    for node in members:
        for value in node.inputs:
            if value in made or value in names:
                continue
            names[value] = make_value(new_id(), value.type, value.name)
            if rules.is_number(value):
                constant = rules.graph.producer[value]
                body.append(_constant(constant, names[value]))
            else:
                params.append(value)
        body.append(_renamed(node, names))
    done.outside_of |= {names[value]: value for value in (*params, *leaving)}
    block = make_block(new_id(), tuple(names[v] for v in params), tuple(body), tuple(names[v] for v in leaving))
    last = members[-1]
    made_node = make_node(
        new_id(), "prim::DifferentiableGraph", tuple(params), tuple(leaving), EMPTY, (block,), last.location, last.scope
    )
    done.group_of |= dict.fromkeys(members, made_node)
    return made_node


def _constant(node: Node, value: Value) -> Node:
    return make_node(new_id(), node.op, (), (value,), node.attrs, (), node.location, node.scope)


def _renamed(node: Node, names: dict[Value, Value]) -> Node:
    """The same node with the values of its group; the very same one where nothing changes."""
    inputs = tuple([names.get(value, value) for value in node.inputs])
    outputs = tuple([names.get(value, value) for value in node.outputs])
    if inputs == node.inputs and outputs == node.outputs:
        return node
    return make_node(node.id, node.op, inputs, outputs, node.attrs, node.blocks, node.location, node.scope)


def _unread_constants(rules: GradientRules, done: Sliced) -> set[Node]:
    users, producer = rules.graph.users, rules.graph.producer
    read = {value for node in done.group_of for value in node.inputs if rules.is_number(value)}
    return {
        producer[value]
        for value in read
        if all(isinstance(use.user, Node) and use.user in done.group_of for use in users[value])
    }


def _merge_edits(plan: BlockSlices, done: Sliced) -> list[Edit]:
    """The merges in the order in which they were decided; one edit for what is left where members went away again."""
    nodes, edits = plan.block.nodes, list[Edit]()
    whole = {group[0] for group in plan.groups() if 1 < len(group) == len(plan.partition.members(group[0]))}
    first = {index: group[0] for group in plan.groups() for index in group}
    for producer, reader in plan.merges:
        if first.get(reader) in whole:
            a, b = (f"%{plan.rules.graph.names[nodes[i].outputs[0]]}" for i in (producer, reader))
            edits.append(Merged((nodes[producer], nodes[reader]), done.group_of[nodes[reader]], f"{a} feeds {b}"))
    for group in plan.groups():
        if group[0] not in whole:
            reason = "left of a larger group, of which others had to go" if len(group) > 1 else "a subgraph of its own"
            edits.append(Merged(tuple(nodes[index] for index in group), done.group_of[nodes[group[0]]], reason))
    return edits
