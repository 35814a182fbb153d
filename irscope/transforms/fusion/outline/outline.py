"""Builds the next graph from plans: each group becomes one node with a block, at a place that its dependences allow.

`irscope.transforms.grouping.outline` describes groups; known numbers are the constants that are copied into them.

A plan can be carried out after any number of its merges. Parts that are the same at two steps are the same objects in
both graphs: a group is identified by its last node, keeps its id while it grows, and is built once for each size.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from irscope._base.frozen import FrozenDict, fast_constructor
from irscope.ir import NOT_CONSTANT, Block, Edit, Graph, Merged, Node, Value
from irscope.transforms.cleanup import constant_node
from irscope.transforms.fusion.legality import Domain, NodeProfiles
from irscope.transforms.fusion.policy import BlockPlan
from irscope.transforms.grouping import Identity, outline_nodes, outside_names, unused_constants, with_groups

__all__ = ["Grouped", "Groups"]

_make_merged = fast_constructor(Merged)


@dataclass(frozen=True)
class Grouped:
    """The graph with groups, and the group of each node."""

    graph: Graph
    edits: tuple[Edit, ...]
    group_of: dict[Node, Node]
    """Maps each grouped node of the old graph to its group."""


class Groups:
    """Builds the groups of the plans of one graph."""

    def __init__(self, profiles: NodeProfiles, plans: Collection[BlockPlan], *, min_size: int) -> None:
        """`plans` may still grow."""
        self.outside_of: dict[Value, Value] = {}
        """Maps parameters and results inside groups to the outside values that they represent."""
        self._graph = profiles.rules.graph
        self._plans = plans
        self._profiles = profiles
        self._min_size = max(min_size, 2)
        self._identity: dict[Node, Identity] = {}
        self._made: dict[tuple[Node, int], Node] = {}

    def carry_out(self) -> Grouped:
        """The graph after all merges; groups of fewer than `min_size` nodes are not built."""
        return self._grouped([plan.partition.schedule() for plan in self._plans], self._min_size)

    def so_far(self) -> Graph:
        """The graph after the merges of a pass that is still deciding."""
        return self._grouped([plan.partition.schedule() for plan in self._plans], 2).graph

    def after(self, merges: int) -> Graph:
        """The graph after so many merges, in the order of the plans and of their decisions.

        Merges of groups that are too small in the end do not count, and are not done.
        """
        schedules = []
        for plan in self._plans:
            schedules.append(plan.schedule_after(merges, self._min_size))
            merges = max(0, merges - len(plan.kept_merges(self._min_size)))
        return self._grouped(schedules, 1).graph

    def _grouped(self, schedules: Sequence[Sequence[Sequence[int]]], min_size: int) -> Grouped:
        group_of: dict[Node, Node] = {}
        scheduled: dict[Block, Sequence[Node]] = {}
        for plan, schedule in zip(self._plans, schedules, strict=True):
            scheduled[plan.block] = self._placed(plan, schedule, min_size, group_of)
        unused = unused_constants(self._graph, group_of, self._is_known, self._profiles.readings)
        merged = {plan.block: _merge_edits(plan, group_of) for plan in self._plans}
        return Grouped(*with_groups(self._graph, scheduled, merged, unused), group_of)

    def _placed(
        self, plan: BlockPlan, schedule: Sequence[Sequence[int]], min_size: int, group_of: dict[Node, Node]
    ) -> list[Node]:
        """The nodes of a block in their new order."""
        nodes, is_view = plan.block.nodes, self._profiles.rules.is_view
        placed: list[Node] = []
        for members in schedule:
            if len(members) < 2 or sum(not is_view(nodes[index]) for index in members) < min_size:
                placed.extend(nodes[index] for index in members)
                continue
            key = nodes[members[-1]], len(members)
            group = self._made.get(key)
            if group is None:
                group = self._made[key] = self._group([nodes[index] for index in members], plan)
            for index in members:
                group_of[nodes[index]] = group
            placed.append(group)
        return placed

    def _group(self, members: list[Node], plan: BlockPlan) -> Node:
        """Build one group node that runs the members in their order."""
        identity = self._identity.setdefault(members[-1], Identity())
        attrs: FrozenDict[str, str] = FrozenDict(kind=plan.group(plan.index[members[-1]]).domain.kind)
        group = outline_nodes(
            "prim::FusionGroup", members, plan.leaving(members), self._constant, identity=identity, attrs=attrs
        )
        self.outside_of |= outside_names(group)
        return group

    def _is_known(self, value: Value) -> bool:
        return self._profiles.rules.known(value) is not NOT_CONSTANT

    def _constant(self, value: Value, copy: Value, user: Node) -> Node | None:
        payload = self._profiles.rules.known(value)
        return None if payload is NOT_CONSTANT else constant_node(copy, payload, like=user)


def _merge_edits(plan: BlockPlan, group_of: dict[Node, Node]) -> list[Edit]:
    """The merges of a plan in the order in which they were decided."""
    edits: list[Edit] = []
    names, nodes = plan.rules.graph.names, plan.block.nodes
    formatted: dict[Domain, str] = {}
    for merge in plan.merges:
        producer, consumer = nodes[merge.producer], nodes[merge.consumer]
        group = group_of.get(consumer)
        if group is None:
            continue
        space = formatted.get(merge.domain)
        if space is None:
            space = formatted[merge.domain] = str(merge.domain)
        a, b = names[producer.outputs[0]], names[consumer.outputs[0]]
        if merge.is_sibling:
            both = f" both read %{names[merge.shared]}" if merge.shared is not None else " become one kernel"
            reason, rule = f"%{a} and %{b}{both}; iteration space {space}", "sibling"
        else:
            reason, rule = f"%{a} feeds %{b}; iteration space {space}", "producer-consumer"
        saved = merge.bytes_saved if isinstance(merge.bytes_saved, int) else 0
        edits.append(_make_merged((producer, consumer), group, reason, saved, rule))
    return edits
