"""On which line of the text each node stands, without printing it."""

from __future__ import annotations

from collections.abc import Iterator

from irscope.ir import Block, Graph, Node

__all__ = ["heading_lines", "node_lines"]


def heading_lines(graph: Graph) -> int:
    """Lines before the first node: one for each input, and one at least."""
    return max(1, len(graph.inputs))


def node_lines(graph: Graph) -> dict[int, int]:
    """Line of each node by its id, counted from 0. A block has a line before its nodes and one behind them.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> list(node_lines(g).values())
    [1]
    """
    found: dict[int, int] = {}
    line = heading_lines(graph)
    stack: list[tuple[Iterator[Node], Iterator[Block]]] = [(iter(graph.body.nodes), iter(()))]
    while stack:
        nodes, siblings = stack[-1]
        for node in nodes:
            found[node.id] = line
            line += 1
            if node.blocks:
                blocks = iter(node.blocks)
                line += 1
                stack.append((iter(next(blocks).nodes), blocks))
                break
        else:
            line += 1
            following = next(siblings, None)
            if following is None:
                stack.pop()
            else:
                line += 1
                stack[-1] = (iter(following.nodes), siblings)
    return found
