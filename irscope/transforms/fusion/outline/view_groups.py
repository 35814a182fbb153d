"""Views that follow one another as one node: nothing runs faster, for views cost nothing, but the picture is smaller.

A group here has no kernel. Its nodes are those that never copy, so its results share the memory of its inputs, as before.
It is formed when all kernels are, among what they left over, and so keeps nothing from becoming part of a kernel. It is
legal when the contraction of the block's dependences stays acyclic: see `irscope.transforms.grouping.partition`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from irscope._base.frozen import FrozenDict
from irscope.analysis.dependence import dependences
from irscope.ir import (
    NOT_CONSTANT,
    Block,
    Edit,
    Erased,
    Graph,
    Merged,
    Node,
    Rewriter,
    Value,
    count_uses,
    make_block,
    make_node,
    make_value,
    new_id,
)
from irscope.ops.registry import effect_of
from irscope.ops.traits import ALWAYS_SHARES, CUTS
from irscope.transforms.base import PassRecord, Remark
from irscope.transforms.cleanup import constant_node
from irscope.transforms.fusion.legality import profiles_of, unpacked_cut
from irscope.transforms.fusion.outline.outline import common_scope, unused_numbers
from irscope.transforms.fusion.planning import fusible_blocks
from irscope.transforms.grouping import Partition

__all__ = ["group_views"]


def group_views(graph: Graph) -> PassRecord:
    """Make a node of each maximal tree of views in the blocks of a graph, ifs and loops included.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3)):
    ...   %a : Float(3, 2) = aten::t(%x)
    ...   %b : Float(3, 2) = aten::detach(%a)
    ...   return (%b)''')
    >>> print(group_views(g).remarks[0].because)
    2 nodes are views of the same memory: no kernel
    """
    started = perf_counter()
    known, readings = profiles_of(graph).rules.known, count_uses(graph)
    rewriter = Rewriter(graph)
    group_of: dict[Node, Node] = {}
    planned: dict[Block, tuple[list[Node], list[Edit]]] = {}
    blocks = list(fusible_blocks(graph))
    for block in blocks:
        placed, edits = _placed(graph, block, known, readings, group_of)
        if edits:
            planned[block] = placed, edits
    unused = unused_numbers(graph, group_of, known, readings) if planned else set()
    for block in blocks:
        nodes, edits = planned.get(block, (list(block.nodes), []))
        gone = [node for node in block.nodes if node in unused]
        if edits or gone:
            told = [*edits, *(Erased(node, "only groups read it, and have their own copy") for node in gone)]
            rewriter.set_nodes(block, [node for node in nodes if node not in unused], told)
    after = rewriter.finish() if planned else graph
    remarks = tuple(map(_remark, dict.fromkeys(group_of.values())))
    return PassRecord("group-views", graph, after, rewriter.edits, remarks, perf_counter() - started)


def _remark(group: Node) -> Remark:
    count = sum(node.op != "prim::Constant" for node in group.blocks[0].nodes)
    return Remark("passed", "view", group, f"{count} nodes are views of the same memory: no kernel", group.outputs)


def _placed(
    graph: Graph, block: Block, known: Callable[[Value], Any], readings: Mapping[Value, int],
    group_of: dict[Node, Node],
) -> tuple[list[Node], list[Edit]]:  # fmt: skip
    """The nodes of a block in their new order, and its groups."""
    edits: list[Edit] = []
    views = {node: index for index, node in enumerate(block.nodes) if _never_copies(graph, node)}
    if len(views) < 2:
        return [], edits
    partition = Partition.behind(dependences(graph, block).before)
    for node, index in views.items():
        maker = graph.producer.get(node.inputs[0])
        if maker in views:
            partition.merge(views[maker], index)
    placed: list[Node] = []
    for indexes in partition.schedule():
        members = [block.nodes[index] for index in indexes]
        if sum(node.op != "prim::ListUnpack" for node in members) < 2 or _cut_apart(graph, members):
            placed += members
            continue
        group = _group(members, known, readings)
        group_of.update(dict.fromkeys(members, group))
        names = ", ".join(f"%{graph.names[value]}" for value in group.outputs)
        edits.append(Merged(tuple(members), group, f"only views lie between its inputs and {names}", rule="view"))
        placed.append(group)
    return placed, edits


def _never_copies(graph: Graph, node: Node) -> bool:
    """Whether a node is a view whatever it is given, and whether its list, if it makes one, is only unpacked."""
    if node.op in CUTS or node.op == "prim::ListUnpack":
        return unpacked_cut(graph, node) is not None
    return node.op in ALWAYS_SHARES and effect_of(node) == "view"


def _cut_apart(graph: Graph, members: Sequence[Node]) -> bool:
    """Whether a list of tensors would cross the edge of the group."""
    inside = set(members)
    pairs = (unpacked_cut(graph, node) for node in members if node.op in CUTS or node.op == "prim::ListUnpack")
    return any(pair is None or not inside.issuperset(pair) for pair in pairs)


def _group(members: Sequence[Node], known: Callable[[Value], Any], readings: Mapping[Value, int]) -> Node:
    """One node that does what the members do, in their order; values that others read stay the same outside."""
    inside = Counter(value for node in members for value in node.inputs)
    leaving = [v for node in members for v in node.outputs if readings.get(v, 0) > inside.get(v, 0)]
    standing = {value: value for node in members for value in node.outputs}
    standing.update((value, _copy(value)) for value in leaving)
    params: dict[Value, Value] = {}
    body: list[Node] = []
    for node in members:
        for value in node.inputs:
            if value in standing:
                continue
            standing[value] = copy = _copy(value)
            payload = known(value)
            if payload is NOT_CONSTANT:
                params[value] = copy
            else:
                body.append(constant_node(copy, payload, like=node))
        inputs, outputs = _renamed(node.inputs, standing), _renamed(node.outputs, standing)
        body.append(make_node(node.id, node.op, inputs, outputs, node.attrs, (), node.location, node.scope))
    block = make_block(new_id(), tuple(params.values()), tuple(body), _renamed(leaving, standing))
    attrs: FrozenDict[str, str] = FrozenDict(kind="view")
    return make_node(
        new_id(), "prim::FusionGroup", tuple(params), tuple(leaving), attrs, (block,), members[-1].location,
        common_scope({node.scope for node in members}),
    )  # fmt: skip


def _copy(value: Value) -> Value:
    return make_value(new_id(), value.type, value.name)


def _renamed(values: Sequence[Value], standing: Mapping[Value, Value]) -> tuple[Value, ...]:
    return tuple([standing[value] for value in values])
