"""Computes the line of each node in the printed text, without printing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from irscope.analysis.per_graph import once
from irscope.ir import Block, Graph, Node

__all__ = ["heading_lines", "line_count", "node_lines"]


def heading_lines(graph: Graph) -> int:
    """The number of lines before the first node: one per input, at least one."""
    return max(1, len(graph.inputs))


def line_count(graph: Graph, nodes: Iterable[Node]) -> int:
    """The number of lines of the whole text; `nodes` are all nodes of the graph.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> line_count(g, list(g.nodes()))
    3
    """
    return heading_lines(graph) + sum([1 + 2 * len(node.blocks) for node in nodes]) + 1


def node_lines(graph: Graph) -> Mapping[int, int]:
    """The line of each node by id, counted from 0, in program order. A block has one line before its nodes and one after.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> list(node_lines(g).values())
    [1]
    """
    return once(graph, node_lines, lambda: _node_lines(graph))


def _node_lines(graph: Graph) -> Mapping[int, int]:
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
