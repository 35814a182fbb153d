"""Builds the next graph from slices: each group becomes one `prim::DifferentiableGraph` with the members in its block."""

from __future__ import annotations

from collections.abc import Sequence

from irscope.ir import Block, Edit, Graph, Merged, Node, Value, count_uses, make_node, new_id
from irscope.transforms.autodiff.block_slices import BlockSlices
from irscope.transforms.autodiff.eligibility import GradientRules
from irscope.transforms.grouping import (
    Identity,
    leaving_values,
    outline_nodes,
    outside_names,
    unused_constants,
    with_groups,
)

__all__ = ["Sliced", "Slicer"]


class Sliced:
    """The graph with its subgraphs, and where each node and value is in it."""

    def __init__(self, rules: GradientRules) -> None:
        self.graph: Graph = rules.graph
        self.edits: tuple[Edit, ...] = ()
        self.group_of: dict[Node, Node] = {}
        """The subgraph of each node of the old graph that is in one."""
        self.outside_of: dict[Value, Value] = {}
        """Maps parameters and results of the subgraphs' blocks to the outside values that they represent."""
        self.gone: set[Value] = set()
        """Constants that were used only by subgraphs, which now have copies."""


class Slicer:
    """Builds the graph of some plans, after all merges or only some; ids are the same in all these graphs."""

    def __init__(self, plans: Sequence[BlockSlices], rules: GradientRules) -> None:
        self.plans = plans
        self.rules = rules
        self._uses = count_uses(rules.graph)
        self._identity: dict[object, Identity] = {}

    def carry_out(self, count: int | None = None) -> Sliced:
        """Build the groups of the first `count` merges, or of all merges without it.

        Values that leave a group, and values that are only read inside, stay the same Values; inside, new Values represent
        the group's inputs and the values that leave it.
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
        unread = unused_constants(self.rules.graph, done.group_of, self.rules.is_number, self._uses)
        done.gone = {value for node in unread for value in node.outputs}
        done.graph, done.edits = with_groups(self.rules.graph, scheduled, merged, unread)
        return done

    def _scheduled(self, plan: BlockSlices, share: int, done: Sliced) -> list[Node]:
        """The block's nodes in their new order, with a node for each group; its first merge identifies a group."""
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
        """Build one group node that runs the members in their order."""
        identity, leaving = self._identity.setdefault(key, Identity()), leaving_values(members, self._uses)
        group = outline_nodes("prim::DifferentiableGraph", members, leaving, self._constant, identity=identity)
        done.outside_of |= outside_names(group)
        done.group_of |= dict.fromkeys(members, group)
        return group

    def _constant(self, value: Value, copy: Value, user: Node) -> Node | None:
        if not self.rules.is_number(value):
            return None
        node = self.rules.graph.producer[value]
        return make_node(new_id(), node.op, (), (copy,), node.attrs, (), node.location, node.scope)


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
            reason, rule = "the rest of a larger group, from which other nodes had to be removed", "remainder"
        else:
            reason, rule = "a subgraph of its own", "single"
        edits.append(Merged(members, done.group_of[members[0]], reason, rule=rule))
    return edits
