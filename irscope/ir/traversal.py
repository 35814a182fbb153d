"""Walks a program as a sequence of steps, so that nesting needs no recursion on the Python stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from irscope.ir.core import Block, Graph, Node

__all__ = ["Step", "steps"]


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
