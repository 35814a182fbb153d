"""From slices to the next graph: each group becomes one `prim::DifferentiableGraph` with the members in its block."""

from __future__ import annotations

from collections.abc import Sequence

from irscope._base.frozen import EMPTY
from irscope.ir import (
    Block,
    Edit,
    Erased,
    Graph,
    Merged,
    Node,
    Rewriter,
    Value,
    make_block,
    make_node,
    make_value,
    new_id,
)
from irscope.transforms.autodiff.block_slices import BlockSlices
from irscope.transforms.autodiff.eligibility import GradientRules

__all__ = ["Sliced", "Slicer"]


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


class Slicer:
    """Makes the graph of some plans, after all merges or after only some; ids are the same in all these graphs."""

    def __init__(self, plans: Sequence[BlockSlices], rules: GradientRules) -> None:
        self.plans = plans
        self.rules = rules
        self._ids: dict[object, int] = {}
        self._values: dict[object, dict[Value, Value]] = {}

    def carry_out(self, count: int | None = None) -> Sliced:
        """Make the groups of the first `count` merges, of all without it.

        Values that leave a group, and values that are only read inside, stay the same Values; new ones stand inside for
        the group's inputs and for what leaves it.
        """
        done = Sliced(self.rules)
        scheduled: dict[Block, list[Node]] = {}
        merged: dict[Block, list[Edit]] = {}
        for plan in self.plans:
            share = len(plan.decided) if count is None else min(count, len(plan.decided))
            count = None if count is None else count - share
            if share:
                scheduled[plan.block] = self._scheduled(plan, share, done)
                merged[plan.block] = _merge_edits(plan, share, done)
        unread = _unread_constants(self.rules, done)
        done.gone = {value for node in unread for value in node.outputs}
        rewriter = Rewriter(self.rules.graph)
        why = "only subgraphs read it, and have their own copy"
        for block in self.rules.graph.blocks():
            edits = [*merged.get(block, ()), *(Erased(node, why) for node in block.nodes if node in unread)]
            if edits:
                nodes = [node for node in scheduled.get(block, block.nodes) if node not in unread]
                rewriter.set_nodes(block, nodes, edits)
        done.graph, done.edits = rewriter.finish(), rewriter.edits
        return done

    def _scheduled(self, plan: BlockSlices, share: int, done: Sliced) -> list[Node]:
        """The block's nodes in their new order, with a node for each group; a group goes by its first merge."""
        partition = plan.after(share)
        earliest: dict[int, int] = {}
        for number, nodes in enumerate(plan.decided[:share]):
            earliest.setdefault(partition.find(nodes[0]), number)
        placed: list[Node] = []
        for members in partition.schedule():
            number = earliest.get(partition.find(members[0]), -1)
            found = [plan.block.nodes[index] for index in members]
            placed.extend(found if number < 0 else [self._group_node(found, (plan, number), done)])
        return placed

    def _group_node(self, members: Sequence[Node], key: object, done: Sliced) -> Node:
        """One node that does what the members do, in their order."""
        rules, users = self.rules, self.rules.graph.users
        inside = set(members)
        made = {value for node in members for value in node.outputs}
        leaving = [
            value
            for node in members
            for value in node.outputs
            if any(use.user not in inside for use in users.get(value, ()))
        ]
        known = self._values.setdefault(key, {})
        names: dict[Value, Value] = {}
        for value in leaving:
            names[value] = known[value] = known.get(value) or make_value(new_id(), value.type, value.name)
        params: list[Value] = []
        body: list[Node] = []
        for node in members:
            for value in node.inputs:
                if value in made or value in names:
                    continue
                names[value] = known[value] = known.get(value) or make_value(new_id(), value.type, value.name)
                if rules.is_number(value):
                    body.append(self._constant(rules.graph.producer[value], names[value]))
                else:
                    params.append(value)
            body.append(_renamed(node, names))
        done.outside_of |= {names[value]: value for value in (*params, *leaving)}
        inner = tuple([names[value] for value in params]), tuple(body), tuple([names[value] for value in leaving])
        block = make_block(self._id((key, "block")), *inner)
        outer = tuple(params), tuple(leaving), EMPTY, (block,), members[-1].location, members[-1].scope
        group = make_node(self._id(key), "prim::DifferentiableGraph", *outer)
        done.group_of |= dict.fromkeys(members, group)
        return group

    def _constant(self, node: Node, value: Value) -> Node:
        return make_node(self._id(value), node.op, (), (value,), node.attrs, (), node.location, node.scope)

    def _id(self, key: object) -> int:
        return self._ids[key] if key in self._ids else self._ids.setdefault(key, new_id())


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


def _merge_edits(plan: BlockSlices, share: int, done: Sliced) -> list[Edit]:
    edits: list[Edit] = []
    nodes, names = plan.block.nodes, plan.rules.graph.names
    merges = set(plan.merges)
    for indices in plan.decided[:share]:
        members = tuple([nodes[index] for index in indices])
        if indices in merges:
            a, b = members
            reason, rule = f"%{names[a.outputs[0]]} feeds %{names[b.outputs[0]]}", "producer-consumer"
        elif len(members) > 1:
            reason, rule = "left of a larger group, of which others had to go", "remainder"
        else:
            reason, rule = "a subgraph of its own", "single"
        edits.append(Merged(members, done.group_of[members[0]], reason, rule=rule))
    return edits
