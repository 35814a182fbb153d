"""Removing nodes whose results nobody reads and that do nothing else."""

from __future__ import annotations

from time import perf_counter
from typing import Final

from irscope.ir.core import Graph, Node, Value
from irscope.ir.rewriter import Erased, Rewriter
from irscope.ops.randomness import draws_random_numbers
from irscope.ops.registry import effect_of
from irscope.transforms.base import PassRecord

__all__ = ["has_effect", "remove_dead_nodes"]

_TRANSPARENT: Final = frozenset(
    f"prim::{name}"
    for name in (
        "If",
        "Loop",
        "FusionGroup",
        "TensorExprGroup",
        "CudaFusionGroup",
        "oneDNNFusionGroup",
        "DifferentiableGraph",
    )
)
"""Nodes with blocks that do nothing but what the nodes inside do."""


def has_effect(node: Node) -> bool:
    """Whether running the node can be noticed otherwise than by its results, the nodes in its blocks left aside.

    Writes count, even to memory that nobody reads again, and so does drawing random numbers, which changes those
    drawn later.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Tensor):
    ...   %a : Tensor = aten::relu_(%x)
    ...   %b : Tensor = aten::relu(%x)
    ...   return (%a)''')
    >>> has_effect(g.node("a")), has_effect(g.node("b"))
    (True, False)
    """
    if node.op in _TRANSPARENT:
        return False
    return effect_of(node) in ("in-place", "opaque") or draws_random_numbers(node.op)


def remove_dead_nodes(graph: Graph) -> PassRecord:
    """Remove the nodes without effects whose results lead to no output and to no effect.

    An unused parameter or result of a kept if or loop stays. Linear.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Tensor):
    ...   %a : Tensor = aten::relu(%x)
    ...   %b : Tensor = aten::exp(%a)
    ...   return (%x)''')
    >>> [node.op for node in remove_dead_nodes(g).after.nodes()]
    []
    """
    started = perf_counter()
    live = _live_nodes(graph)
    rewriter = Rewriter(graph)
    for block in graph.blocks():
        owner = graph.owner.get(block)
        if owner is not None and owner not in live:
            continue
        dead = [node for node in block.nodes if node not in live]
        if dead:
            edits = [Erased(node, "nobody reads its results, and it does nothing else") for node in dead]
            rewriter.set_nodes(block, [node for node in block.nodes if node in live], edits)
    after = rewriter.finish()
    return PassRecord("remove-dead-nodes", graph, after, rewriter.edits, (), perf_counter() - started)


def _live_nodes(graph: Graph) -> set[Node]:
    """The nodes with effects, those around them, and all that these and the outputs read."""
    producer, owner, block_of = graph.producer, graph.owner, graph.block_of
    live: set[Node] = set()
    wanted: list[Node] = [node for node in graph.nodes() if has_effect(node)]
    values: list[Value] = list(graph.outputs)
    while wanted or values:
        while values:
            node = producer.get(values.pop())
            if node is not None and node not in live:
                wanted.append(node)
        while wanted:
            node = wanted.pop()
            if node in live:
                continue
            live.add(node)
            values.extend(node.inputs)
            for block in node.blocks:
                values.extend(block.returns)
            around = owner.get(block_of[node])
            if around is not None and around not in live:
                wanted.append(around)
    return live
