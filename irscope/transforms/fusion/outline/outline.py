"""From plans to the next graph: each group becomes one node with a block, where its dependences allow it to stand.

Values that leave a group stay the same Values; inside the group new ones stand for them and for its inputs. Known
numbers are copied into the groups, and their constants removed where nobody else reads them.

A plan can be carried out after any number of its merges. What is the same at two steps is the same object in both
graphs: a group goes by its last node, keeps its id while it grows, and is made once for each size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from irscope._base.frozen import FrozenDict, fast_constructor
from irscope.ir import (
    NOT_CONSTANT,
    Block,
    Edit,
    Erased,
    Graph,
    Merged,
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
from irscope.transforms.cleanup import constant_node
from irscope.transforms.fusion.legality import Domain, NodeProfiles
from irscope.transforms.fusion.policy import BlockPlan

__all__ = ["MAKES_NUMBERS", "Grouped", "Groups", "common_scope", "unused_numbers"]

MAKES_NUMBERS: Final = PACKS_SEQUENCE | {"prim::Constant"}
"""Ops that can go when nobody reads what they make."""

_COPIED: Final = "only groups read it, and have their own copy"

_make_merged = fast_constructor(Merged)


@dataclass(frozen=True)
class Grouped:
    """The graph with groups, and where each node went."""

    graph: Graph
    edits: tuple[Edit, ...]
    group_of: dict[Node, Node]
    """The group of each node of the old graph that is in one."""


@dataclass(slots=True)
class _Identity:
    """What a group keeps while it grows: its ids, and what stands inside for values outside."""

    node: int = field(default_factory=new_id)
    block: int = field(default_factory=new_id)
    inside: dict[Value, Value] = field(default_factory=dict)
    constants: dict[Value, Node] = field(default_factory=dict)


class Groups:
    """Makes the groups of the plans of one graph."""

    def __init__(self, fitness: NodeProfiles, plans: Collection[BlockPlan], *, min_size: int) -> None:
        """`plans` may still grow."""
        self.outside_of: dict[Value, Value] = {}
        """What the values inside groups are called outside: parameters and results."""
        self._graph = fitness.rules.graph
        self._plans = plans
        self._fitness = fitness
        self._min_size = max(min_size, 2)
        self._identity: dict[Node, _Identity] = {}
        self._made: dict[tuple[Node, int], Node] = {}

    def carry_out(self) -> Grouped:
        """The graph after all merges; groups of fewer nodes than the smallest that is wanted stay apart."""
        return self._grouped([plan.partition.schedule() for plan in self._plans], self._min_size)

    def so_far(self) -> Graph:
        """The graph after the merges of a pass that is still deciding."""
        return self._grouped([plan.partition.schedule() for plan in self._plans], 2).graph

    def after(self, merges: int) -> Graph:
        """The graph after so many merges, in the order in which the plans stand and decided them.

        Merges of groups that turned out too small at the end do not count, and are not done.
        """
        schedules = []
        for plan in self._plans:
            schedules.append(plan.schedule_after(merges, self._min_size))
            merges = max(0, merges - len(plan.kept_merges(self._min_size)))
        return self._grouped(schedules, 1).graph

    def _grouped(self, schedules: Sequence[Sequence[Sequence[int]]], min_size: int) -> Grouped:
        rewriter = Rewriter(self._graph)
        group_of: dict[Node, Node] = {}
        scheduled: dict[Block, Sequence[Node]] = {}
        for plan, schedule in zip(self._plans, schedules, strict=True):
            scheduled[plan.block] = self._placed(plan, schedule, min_size, group_of)
        unused = unused_numbers(self._graph, group_of, self._fitness.rules.known, self._fitness.readings)
        merged = {plan.block: _merge_edits(plan, group_of) for plan in self._plans}
        for block in self._graph.blocks():
            gone = [Erased(node, _COPIED) for node in block.nodes if node in unused] if unused else []
            edits = [*merged.get(block, ()), *gone]
            if edits:
                nodes = [node for node in scheduled.get(block, block.nodes) if node not in unused]
                rewriter.set_nodes(block, nodes, edits)
        return Grouped(rewriter.finish(), rewriter.edits, group_of)

    def _placed(
        self, plan: BlockPlan, schedule: Sequence[Sequence[int]], min_size: int, group_of: dict[Node, Node]
    ) -> list[Node]:
        """The nodes of a block in their new order."""
        nodes, is_view = plan.block.nodes, self._fitness.rules.is_view
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
        """One node that does what the members do, in their order."""
        identity = self._identity.setdefault(members[-1], _Identity())
        leaving = plan.leaving(members)
        standing = {value: value for node in members for value in node.outputs}
        standing.update((value, self._stand_in(identity, value)) for value in leaving)
        params: dict[Value, Value] = {}
        body: list[Node] = []
        for node in members:
            for value in node.inputs:
                if value not in standing:
                    self._bring_in(value, node, identity, standing, params, body)
            inputs = tuple([standing[value] for value in node.inputs])
            outputs = tuple([standing[value] for value in node.outputs])
            if inputs != node.inputs or outputs != node.outputs:
                node = make_node(node.id, node.op, inputs, outputs, node.attrs, node.blocks, node.location, node.scope)
            body.append(node)
        returns = tuple([standing[value] for value in leaving])
        block = make_block(identity.block, tuple(params.values()), tuple(body), returns)
        attrs: FrozenDict[str, str] = FrozenDict(kind=plan.group(plan.index[members[-1]]).domain.kind)
        scope = common_scope({node.scope for node in members})
        return make_node(
            identity.node, "prim::FusionGroup", tuple(params), tuple(leaving), attrs, (block,),
            members[-1].location, scope,
        )  # fmt: skip

    def _bring_in(
        self, value: Value, reader: Node, identity: _Identity, standing: dict[Value, Value],
        params: dict[Value, Value], body: list[Node],
    ) -> None:  # fmt: skip
        """Let something stand inside a group for a value from outside: a parameter, or a constant."""
        payload = self._fitness.rules.known(value)
        if payload is NOT_CONSTANT:
            params[value] = standing[value] = self._stand_in(identity, value)
            return
        constant = identity.constants.get(value)
        if constant is None:
            copy = make_value(new_id(), value.type, value.name)
            constant = identity.constants[value] = constant_node(copy, payload, like=reader)
        standing[value] = constant.outputs[0]
        body.append(constant)

    def _stand_in(self, identity: _Identity, value: Value) -> Value:
        """What is inside a group for a value outside."""
        copy = identity.inside.get(value)
        if copy is None:
            copy = identity.inside[value] = make_value(new_id(), value.type, value.name)
            self.outside_of[copy] = value
        return copy


def common_scope(scopes: Iterable[str]) -> str:
    """The innermost module that holds all of them."""
    common: list[str] | None = None
    for scope in scopes:
        parts = scope.split(".")
        common = parts if common is None else common[: _agreement(common, parts)]
    return ".".join(common or [])


def _agreement(a: list[str], b: list[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def unused_numbers(
    graph: Graph, group_of: Mapping[Node, Node], known: Callable[[Value], Any], readings: Mapping[Value, int]
) -> set[Node]:
    """The makers of known numbers, and of lists of them, that only groups read, which have copies now."""
    inside: Counter[Value] = Counter()
    inside.update(
        value for node in group_of for value in node.inputs if value.type.__class__ is not TensorType
    )  # a constant tensor is an argument, and has no copy
    unused: set[Node] = set()
    pending = [value for value in inside if known(value) is not NOT_CONSTANT]
    while pending:
        value = pending.pop()
        maker = graph.producer.get(value)
        if maker is None or maker in unused or maker.op not in MAKES_NUMBERS or inside[value] < readings[value]:
            continue
        unused.add(maker)
        inside.update(maker.inputs)
        pending.extend(maker.inputs)
    return unused


def _merge_edits(plan: BlockPlan, group_of: dict[Node, Node]) -> list[Edit]:
    """The merges of a plan in the order in which they were decided."""
    edits: list[Edit] = []
    names, nodes = plan.rules.graph.names, plan.block.nodes
    told: dict[Domain, str] = {}
    for merge in plan.merges:
        producer, consumer = nodes[merge.producer], nodes[merge.consumer]
        group = group_of.get(consumer)
        if group is None:
            continue
        space = told.get(merge.domain)
        if space is None:
            space = told[merge.domain] = str(merge.domain)
        a, b = names[producer.outputs[0]], names[consumer.outputs[0]]
        if merge.is_sibling:
            both = f" both read %{names[merge.shared]}" if merge.shared is not None else " become one kernel"
            reason, rule = f"%{a} and %{b}{both}; iteration space {space}", "sibling"
        else:
            reason, rule = f"%{a} feeds %{b}; iteration space {space}", "producer-consumer"
        edits.append(_make_merged((producer, consumer), group, reason, merge.bytes_saved, rule))
    return edits
