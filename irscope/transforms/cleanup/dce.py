"""Dead code elimination: removes nodes without effects whose results are unused."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from irscope.ir import CONTROL_FLOW, GROUPS, Erased, Graph, Node, Rewriter, Value, count_uses
from irscope.ops.op import draws_random_numbers
from irscope.ops.registry import constant_arguments, effect_of
from irscope.transforms.base import PassRecord


def has_effect(node: Node, graph: Graph | None = None) -> bool:
    """Whether running the node is observable other than by its results, ignoring the nodes in its blocks.

    Writes count, even to memory that is never read again, and so does drawing random numbers, which changes those
    drawn later. Given its graph, a batch norm or a dropout that is known not to train has no effect.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Tensor):
    ...   %a : Tensor = aten::relu_(%x)
    ...   %b : Tensor = aten::relu(%x)
    ...   return (%a)''')
    >>> has_effect(g.node("a")), has_effect(g.node("b"))
    (True, False)
    """
    if node.op in CONTROL_FLOW or node.op in GROUPS:  # their effects are those of the nodes inside
        return False
    if effect_of(node) not in ("in-place", "opaque") and not draws_random_numbers(node.op):
        return False
    known = {} if graph is None else constant_arguments(graph, node)
    return effect_of(node, known) in ("in-place", "opaque") or draws_random_numbers(node.op, known)


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
    dead = _dead_nodes(graph)
    if not dead:
        return PassRecord("dce", graph, graph, seconds=perf_counter() - started)
    rewriter = Rewriter(graph)
    for block in graph.blocks():
        if graph.owner.get(block) in dead:
            continue
        found = [node for node in block.nodes if node in dead]
        if found:
            edits = [Erased(node, "its results are unused, and it does nothing else") for node in found]
            rewriter.set_nodes(block, [node for node in block.nodes if node not in dead], edits)
    after = rewriter.finish()
    return PassRecord("dce", graph, after, rewriter.edits, (), perf_counter() - started, keeps_facts=True)


def _dead_nodes(graph: Graph) -> set[Node]:
    """The nodes without effects whose results are unused, those used only by these, and so on."""
    readings = count_uses(graph)
    dead: set[Node] = set()
    acting: set[Node] | None = None
    pending = [node for node in graph.nodes() if not any(map(readings.get, node.outputs))]
    while pending:
        node = pending.pop()
        if node in dead or has_effect(node, graph) or any(readings[value] for value in node.outputs):
            continue
        if node.blocks:
            acting = _acting_holders(graph) if acting is None else acting
            if node in acting:
                continue
        for value in _all_reads(node, dead):
            readings[value] -= 1
            producer = graph.producer.get(value)
            if producer is not None and not readings[value]:
                pending.append(producer)
    return dead


def _acting_holders(graph: Graph) -> set[Node]:
    """The nodes whose blocks contain a node with an effect, at any depth."""
    acting: set[Node] = set()
    inside = (node for block in graph.blocks() if block is not graph.body for node in block.nodes)
    for node in inside:
        if has_effect(node, graph):
            around = graph.owner.get(graph.block_of[node])
            while around is not None and around not in acting:
                acting.add(around)
                around = graph.owner.get(graph.block_of[around])
    return acting


def _all_reads(node: Node, dead: set[Node]) -> Iterator[Value]:
    """Yield what a node and all live nodes inside it read, and mark them dead."""
    dying = [node]
    for node in dying:  # grows
        dead.add(node)
        yield from node.inputs
        for block in node.blocks:
            yield from block.returns
            dying.extend(inner for inner in block.nodes if inner not in dead)
