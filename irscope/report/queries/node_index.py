"""An index of a graph's nodes by op, type, module and line, so that a query term examines each of these once and not each node.

Built lazily, in time linear in the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from irscope.ir import Graph, Node, Type, Value
from irscope.ir.text import print_graph
from irscope.report.boxes import node_lines

__all__ = ["NodeIndex"]


class NodeIndex:
    """The index of one graph.

    >>> from irscope.ir.text.parser import parse
    >>> index = NodeIndex(parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)"))
    >>> list(index.of_op), index.small_lines
    (['aten::relu'], ['  %y : tensor = aten::relu(%x)'])
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def prepare(self) -> None:
        """Build the whole index."""
        self.small_lines, self.of_op, self.of_types, self.of_place, self.value_of, self.record_of  # noqa: B018

    @cached_property
    def nodes(self) -> list[Node]:
        """All nodes in program order."""
        return list(self._graph.nodes())

    @cached_property
    def lines(self) -> list[str]:
        """The printed lines."""
        return print_graph(self._graph, locations=False).split("\n")

    @cached_property
    def line_of(self) -> Mapping[int, int]:
        """The line of each node by its id."""
        return node_lines(self._graph)

    @cached_property
    def small_lines(self) -> list[str]:
        """The line of each node in lower case, in the order of `nodes`."""
        lines, of = "\n".join(self.lines).lower().split("\n"), self.line_of
        return [lines[of[node.id]] for node in self.nodes]

    @cached_property
    def value_of(self) -> Mapping[str, Value]:
        """Values by their printed names."""
        return {name: value for value, name in self._graph.names.items()}

    @cached_property
    def record_of(self) -> Mapping[int, Node | Value]:
        """Every value and node by id; selections refer to these ids."""
        found: dict[int, Node | Value] = {value.id: value for value in self._graph.values()}
        found.update((node.id, node) for node in self.nodes)
        return found

    @cached_property
    def of_op(self) -> Mapping[str, list[Node]]:
        """Nodes by their op."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            found.setdefault(node.op, []).append(node)
        return found

    @cached_property
    def of_types(self) -> list[tuple[Type, list[Node]]]:
        """Types, each with the nodes that produce it; equal types may appear twice."""
        found: dict[int, tuple[Type, list[Node]]] = {}
        for node in self.nodes:
            for value in node.outputs:
                known = found.get(id(value.type))
                if known is None:
                    known = found[id(value.type)] = value.type, []
                known[1].append(node)
        return [*found.values()]

    @cached_property
    def of_place(self) -> Mapping[str, list[Node]]:
        """Nodes by module and by source location, both in lower case."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for told in (node.scope, "" if node.location is None else str(node.location)):
                if told:
                    found.setdefault(told.lower(), []).append(node)
        return found
