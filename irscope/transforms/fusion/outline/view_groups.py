"""Groups views that follow one another into one node: nothing runs faster, as views cost nothing, but the picture is smaller.

A group here has no kernel. Its nodes never copy, so its results share the memory of its inputs, as before. View groups are
formed after all kernels, from the remaining nodes, and so never keep a node out of a kernel. A group is legal when the
contraction of the block's dependences stays acyclic: see `irscope.transforms.grouping.partition`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from irscope._base.frozen import FrozenDict
from irscope.analysis.dependence import dependences
from irscope.ir import NOT_CONSTANT, Block, Edit, Graph, Merged, Node, Value, count_uses
from irscope.ops.registry import effect_of
from irscope.ops.traits import ALWAYS_SHARES, CUTS
from irscope.transforms.base import PassRecord, Remark
from irscope.transforms.cleanup import constant_node
from irscope.transforms.fusion.legality import profiles_of, unpacked_cut
from irscope.transforms.fusion.planning import fusible_blocks
from irscope.transforms.grouping import Partition, leaving_values, outline_nodes, unused_constants, with_groups

__all__ = ["group_views"]


def group_views(graph: Graph) -> PassRecord:
    """Group each maximal tree of views in the blocks of a graph, including those of ifs and loops, into one node.

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
    group_of: dict[Node, Node] = {}
    scheduled: dict[Block, list[Node]] = {}
    merged: dict[Block, list[Edit]] = {}
    for block in fusible_blocks(graph):
        placed, found = _placed(graph, block, known, readings, group_of)
        if found:
            scheduled[block], merged[block] = placed, found
    unused = unused_constants(graph, group_of, lambda value: known(value) is not NOT_CONSTANT, readings)
    after, edits = with_groups(graph, scheduled, merged, unused)
    remarks = tuple(map(_remark, dict.fromkeys(group_of.values())))
    return PassRecord("group-views", graph, after, edits, remarks, perf_counter() - started)


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
        producer = graph.producer.get(node.inputs[0])
        if producer in views:
            partition.merge(views[producer], index)
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
    """Whether a node is a view for all arguments, and its list of results, if it returns one, is only unpacked."""
    if node.op in CUTS or node.op == "prim::ListUnpack":
        return unpacked_cut(graph, node) is not None
    return node.op in ALWAYS_SHARES and effect_of(node) == "view"


def _cut_apart(graph: Graph, members: Sequence[Node]) -> bool:
    """Whether a list of tensors would cross the boundary of the group."""
    inside = set(members)
    pairs = (unpacked_cut(graph, node) for node in members if node.op in CUTS or node.op == "prim::ListUnpack")
    return any(pair is None or not inside.issuperset(pair) for pair in pairs)


def _group(members: Sequence[Node], known: Callable[[Value], Any], readings: Mapping[Value, int]) -> Node:
    """Build one group node that runs the members; values that leave it stay the same Values."""

    def constant(value: Value, copy: Value, user: Node) -> Node | None:
        payload = known(value)
        return None if payload is NOT_CONSTANT else constant_node(copy, payload, like=user)

    attrs: FrozenDict[str, str] = FrozenDict(kind="view")
    return outline_nodes("prim::FusionGroup", members, leaving_values(members, readings), constant, attrs=attrs)
