"""Walks over a program as a sequence of steps, the ops that have a program in a block, and counts of uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from irscope.ir.core import Block, Graph, Node, Value

# Ops that have a program in a block, classified by when it runs; by name, since none of them has a schema.


CONTROL_FLOW: Final = frozenset({"prim::If", "prim::Loop"})
"""Ops that run a block never, once or repeatedly; values of the enclosing blocks are visible inside."""

GROUPS: Final = frozenset({
    "prim::FusionGroup", "prim::CudaFusionGroup", "prim::oneDNNFusionGroup", "prim::MKLDNNGroup", "prim::TensorExprGroup",
    "prim::TensorExprDynamicGroup", "prim::DifferentiableGraph", "prim::FunctionalGraph", "prim::FallbackGraph",
    "prim::StaticSubgraph",
})  # fmt: skip
"""Ops that only run their one block, once, in their place, on their operands. The block is a graph of its own: only
its parameters are visible inside. Torch keeps it in the attribute `Subgraph`, and all its fusers and their guards
(TorchScript 2.13) create nodes of these names."""

ISOLATED: Final = GROUPS | {"prim::fork", "prim::awaitable"}
"""Ops whose block sees only its parameters: groups, and tasks, whose block runs at some time before a wait returns."""


def has_kernel(node: Node) -> bool:
    """Whether a node is a group that runs as kernels; one of kind `"view"` runs as its views.

    >>> has_kernel(Node(1, "prim::FusionGroup")), has_kernel(Node(1, "prim::FusionGroup", attrs={"kind": "view"}))
    (True, False)
    """
    return node.op == "prim::FusionGroup" and node.attrs.get("kind") != "view"


# Walks a program as a sequence of steps, so that nesting needs no recursion on the Python stack.


class Step(NamedTuple):
    """One step of a walk through a program in textual order.

    enter and leave: a block begins or ends, `node` owns it (None: the top block). node: a node, before its blocks.
    done: a node with blocks, after them; from here on its results are visible.
    """

    kind: Literal["enter", "node", "leave", "done"]
    node: Node | None
    block: Block
    """The block entered or left; for a node, the block that holds it."""
    place: int
    """The index of the block in its owner, or of the node in its block."""


def steps(graph: Graph) -> Iterator[Step]:
    """All steps through a program, from entering its top block to leaving it.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%c : bool):\\n  prim::If(%c)\\n    block0(): -> ()\\n    block1(): -> ()\\n  return (%c)")
    >>> [step.kind for step in steps(g)]
    ['enter', 'node', 'enter', 'leave', 'enter', 'leave', 'done', 'leave']
    """
    stack: list[Iterator[Step]] = [_inside(None, graph.body, 0)]
    while stack:
        for step in stack[-1]:
            yield step
            if step.kind == "node" and step.node is not None and step.node.blocks:
                stack.append(iter([Step("done", step.node, step.block, step.place)]))
                stack.extend(_inside(step.node, step.node.blocks[i], i) for i in reversed(range(len(step.node.blocks))))
                break
        else:
            stack.pop()


def _inside(owner: Node | None, block: Block, index: int) -> Iterator[Step]:
    yield Step("enter", owner, block, index)
    for position, node in enumerate(block.nodes):
        yield Step("node", node, block, position)
    yield Step("leave", owner, block, index)


# Counts the uses of each value of a graph.


def count_uses(graph: Graph) -> Counter[Value]:
    """The number of uses of each value as an operand or a block's result, over all blocks; much faster than `Graph.users`.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::mul(%x, %x)\\n  return (%y)")
    >>> [count_uses(g)[g.value(name)] for name in ("x", "y")]
    [2, 1]
    """
    readings: Counter[Value] = Counter()
    for block in graph.blocks():
        readings.update(value for node in block.nodes for value in node.inputs)
        readings.update(block.returns)
    return readings
