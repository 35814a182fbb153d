"""A kernel of its own for each max pooling, which then writes nothing but its result.

Torch's op also makes the places of the maxima, 8 bytes for each element of the result, which nobody sees. In a kernel a window is
as many reads of its operand; windows that the border cuts off have fewer, and are parts of the result that are computed apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final

from irscope._base.frozen import FrozenDict
from irscope.analysis.per_graph import shapes_of
from irscope.analysis.shapes import Shapes
from irscope.ir import NOT_CONSTANT, Block, Edit, Graph, Merged, Node, TensorType, Value
from irscope.ops.registry import bind, schema_of
from irscope.ops.traits import MAX_POOLS
from irscope.transforms.base import PassRecord, Remark
from irscope.transforms.cleanup import constant_node
from irscope.transforms.fusion.planning import fusible_blocks
from irscope.transforms.grouping import outline_nodes, with_groups

__all__ = ["group_pools"]

_MOST_PARTS: Final = 25
"""Of a result: more would be kernels for a few elements each."""


def group_pools(graph: Graph) -> PassRecord:
    """Make a group of each max pooling of which all extents are known.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 8, 16, 16, strides=[2048, 256, 16, 1])):
    ...   %3 : int[] = prim::Constant[value=[3, 3]]()
    ...   %2 : int[] = prim::Constant[value=[2, 2]]()
    ...   %1 : int[] = prim::Constant[value=[1, 1]]()
    ...   %0 : bool = prim::Constant[value=0]()
    ...   %y : Tensor = aten::max_pool2d(%x, %3, %2, %1, %1, %0)
    ...   return (%y)''')
    >>> record = group_pools(g)
    >>> print(record.told(record.remarks[0]))
    passed [pool-kernel] %y: a kernel of its own leaves out the indices of the maxima: 8,192 bytes
    """
    started = perf_counter()
    shapes, remarks = shapes_of(graph), list[Remark]()
    scheduled: dict[Block, Sequence[Node]] = {}
    merged: dict[Block, list[Edit]] = {}
    for block in fusible_blocks(graph):
        groups: dict[Node, Node] = {}
        for node in block.nodes:
            if node.op in MAX_POOLS:
                why_not = _refusal(node, shapes)
                if why_not:
                    remarks.append(Remark("missed", "pool-kernel", node, why_not, (node.inputs[0],)))
                else:
                    groups[node] = _group(node, shapes)
                    remarks.append(Remark("passed", "pool-kernel", node, _saved(node, shapes), (node.inputs[0],)))
        if groups:
            scheduled[block] = [groups.get(node, node) for node in block.nodes]
            reason = "its windows are read, and their places not written"
            merged[block] = [Merged((node,), group, reason, rule="pool") for node, group in groups.items()]
    after, edits = with_groups(graph, scheduled, merged, ())
    return PassRecord("group-pools", graph, after, edits, tuple(remarks), perf_counter() - started)


def _group(node: Node, shapes: Shapes) -> Node:
    def constant(value: Value, copy: Value, user: Node) -> Node | None:
        payload = shapes.known(value)
        return None if payload is NOT_CONSTANT else constant_node(copy, payload, like=user)

    return outline_nodes("prim::FusionGroup", [node], list(node.outputs), constant, attrs=FrozenDict(kind="pointwise"))


def _refusal(node: Node, shapes: Shapes) -> str:
    """Why a pooling stays an op of the library; nothing if it need not."""
    given, made, schema = shapes.type(node.inputs[0]), shapes.type(node.output), schema_of(node)
    if not isinstance(given, TensorType) or not given.is_static or not isinstance(made, TensorType) or not made.is_static:
        return "its extents are not all known before the run"
    known = {} if schema is None else {
        name: shapes.known(value) if isinstance(value, Value) else value for name, value in bind(node, schema).items() if name != "self"
    }
    if not known or NOT_CONSTANT in known.values():
        return "its windows are not all known before the run"
    axes = int(node.op[-2])
    parts = 1
    for axis in range(-axes, 0):
        parts *= _kinds(_whole(given, axis), _whole(made, axis), *(_along(known, name, axis, axes) for name in _SETTINGS))
    if parts > _MOST_PARTS:
        return f"the border cuts its windows off in {parts} ways, each of which would be a kernel"
    return ""


_SETTINGS: Final = ("kernel_size", "stride", "padding", "dilation")


def _whole(type: TensorType, axis: int) -> int:
    assert type.shape is not None
    size = type.shape[axis]
    assert isinstance(size, int)  # static
    return size


def _along(known: dict[str, Any], name: str, axis: int, axes: int) -> int:
    """A setting along one axis: one number stands for all, and windows lie side by side where no stride is given."""
    given = known["kernel_size"] if name == "stride" and known[name] in ((), []) else known[name]
    numbers = [given] if isinstance(given, int) else list(given)
    return numbers[axis] if len(numbers) == axes else numbers[0]


def _kinds(extent: int, count: int, size: int, step: int, margin: int, gap: int) -> int:
    """In how many ways windows along an axis are cut off, those that are not among them."""
    kinds = {
        tuple([0 <= index * step - margin + place * gap < extent for place in range(size)])
        for index in range(count)
    }
    return max(len(kinds), 1)


def _saved(node: Node, shapes: Shapes) -> str:
    made = shapes.type(node.output)
    count = made.numel if isinstance(made, TensorType) else None
    return f"a kernel of its own leaves out the indices of the maxima: {8 * (count or 0):,} bytes"
