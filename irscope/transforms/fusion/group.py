"""From plans to the next graph: each group becomes one node with a block, where its dependences allow it to stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from irscope._base.frozen import FrozenDict
from irscope.ir.core import Block, Graph, Node, Value, make_block, make_node, make_value, new_id
from irscope.ir.payload import NOT_CONSTANT
from irscope.ir.rewriter import Edit, Erased, Merged, Rewriter
from irscope.transforms.fold import constant_node
from irscope.transforms.fusion.plan import BlockPlan
from irscope.transforms.fusion.rules import Rules

__all__ = ["Grouped", "carry_out"]


class Grouped:
    """The graph with groups, and where each node went."""

    def __init__(
        self, graph: Graph, edits: tuple[Edit, ...], group_of: dict[Node, Node], outside_of: dict[Value, Value]
    ) -> None:
        self.graph = graph
        self.edits = edits
        self.group_of = group_of
        """The group of each node of the old graph that is in one."""
        self.outside_of = outside_of
        """What the values inside groups are called outside: parameters and results."""


def carry_out(graph: Graph, plans: Sequence[BlockPlan], rules: Rules, *, min_size: int) -> Grouped:
    """Make the groups of all plans; groups of fewer than `min_size` nodes stay apart.

    Values that leave a group stay the same Values; inside the group new ones stand for them and for its inputs. Known
    numbers are copied into the groups, and their constants removed where nobody else reads them.
    """
    rewriter = Rewriter(graph)
    group_of: dict[Node, Node] = {}
    outside_of: dict[Value, Value] = {}
    scheduled: dict[Block, Sequence[Node]] = {}
    for plan in plans:
        nodes = plan.block.nodes
        placed: list[Node] = []
        for members in plan.partition.schedule():
            if len(members) < max(min_size, 2):
                placed.extend(nodes[index] for index in members)
                continue
            group = _group_node([nodes[index] for index in members], plan, rules, outside_of)
            group_of.update((nodes[index], group) for index in members)
            placed.append(group)
        scheduled[plan.block] = placed
    unused = _unused_constants(graph, group_of, rules)
    merged = {plan.block: _merge_edits(plan, group_of) for plan in plans}
    for block in graph.blocks():
        gone = [Erased(node, "only groups read it, and have their own copy") for node in block.nodes if node in unused]
        edits = [*merged.get(block, ()), *gone]
        if edits:
            rewriter.set_nodes(block, [node for node in scheduled.get(block, block.nodes) if node not in unused], edits)
    return Grouped(rewriter.finish(), rewriter.edits, group_of, outside_of)


def _group_node(members: list[Node], plan: BlockPlan, rules: Rules, outside_of: dict[Value, Value]) -> Node:
    """One node that does what the members do, in their order."""
    made = {value for node in members for value in node.outputs}
    leaving = [value for node in members for value in node.outputs if plan.outside[value]]
    inside: dict[Value, Value] = {}
    params: dict[Value, Value] = {}
    body: list[Node] = []
    for value in leaving:
        outside_of[inside.setdefault(value, _copy(value))] = value
    for node in members:
        for value in node.inputs:
            if value in made or value in inside:
                continue
            payload = rules.known(value)
            inside[value] = _copy(value)
            if payload is NOT_CONSTANT:
                params[value] = inside[value]
                outside_of[inside[value]] = value
            else:
                body.append(constant_node(inside[value], payload, like=node))
        body.append(_renamed(node, inside))
    block = make_block(new_id(), tuple(params.values()), tuple(body), tuple(inside[value] for value in leaving))
    attrs: FrozenDict[str, str] = FrozenDict(kind=plan.domain(plan.index[members[-1]]).kind)
    scope = _common_scope(node.scope for node in members)
    return make_node(
        new_id(), "prim::FusionGroup", tuple(params), tuple(leaving), attrs, (block,), members[-1].location, scope
    )


def _copy(value: Value) -> Value:
    return make_value(new_id(), value.type, value.name)


def _renamed(node: Node, inside: dict[Value, Value]) -> Node:
    """The same node, reading and making the values of its group; unchanged parts keep their identity."""
    inputs = tuple(inside.get(value, value) for value in node.inputs)
    outputs = tuple(inside.get(value, value) for value in node.outputs)
    if inputs == node.inputs and outputs == node.outputs:
        return node
    return make_node(node.id, node.op, inputs, outputs, node.attrs, node.blocks, node.location, node.scope)


def _common_scope(scopes: Iterable[str]) -> str:
    """The innermost module that holds all of them."""
    common: list[str] | None = None
    for scope in scopes:
        parts = scope.split(".")
        common = parts if common is None else common[: _agreement(common, parts)]
    return ".".join(common or [])


def _agreement(a: list[str], b: list[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _unused_constants(graph: Graph, group_of: dict[Node, Node], rules: Rules) -> set[Node]:
    """Constants that only groups read, which have copies now."""
    candidates = {value for node in group_of for value in node.inputs if rules.known(value) is not NOT_CONSTANT}
    unused = set()
    for value in candidates:
        maker = graph.producer.get(value)
        if maker is None or maker.op != "prim::Constant":
            continue
        if all(isinstance(use.user, Node) and use.user in group_of for use in graph.users[value]):
            unused.add(maker)
    return unused


def _merge_edits(plan: BlockPlan, group_of: dict[Node, Node]) -> list[Edit]:
    """The merges of a plan in the order in which they were decided."""
    edits: list[Edit] = []
    for merge in plan.merges:
        group = group_of.get(merge.consumer)
        if group is not None:
            a, b = (plan.rules.name(node.output) for node in (merge.producer, merge.consumer))
            reason = f"{a} feeds {b}; iteration space {merge.domain}"
            edits.append(Merged((merge.producer, merge.consumer), group, reason, merge.bytes_saved))
    return edits
