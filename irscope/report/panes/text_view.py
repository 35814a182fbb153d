"""IR text line by line, with the node that each line prints."""

from __future__ import annotations

import re

from irscope._base.escaping import shortened
from irscope.ir import Graph
from irscope.ir.text import print_graph
from irscope.report.view_models import TextView

__all__ = ["text_view"]

_FRAME = re.compile(r"\s*(?:block\d+\(|-> \(|return \()")
"""Lines that open and close blocks; every other line after the heading is one node."""


def text_view(graph: Graph) -> TextView:
    """The text view of a program; source locations are separate from the lines.

    >>> from irscope.ir.text.parser import parse
    >>> view = text_view(parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)"))
    >>> [bool(node) for node in view["nodes"]], sorted(view["names"])
    ([False, True, False], ['x', 'y'])
    """
    lines = [_line(line) for line in print_graph(graph, locations=False).split("\n")]
    heading = max(1, len(graph.inputs))
    nodes = graph.nodes()
    owners = [0] * heading + [0 if _FRAME.match(line) else next(nodes).id for line in lines[heading:]]
    assert next(nodes, None) is None, "every node prints one line"
    return TextView(
        lines=lines,
        nodes=owners,
        names={name: value.id for value, name in graph.names.items()},
        locations={node.id: shortened(str(node.location)) for node in graph.nodes() if node.location is not None},
    )


def _line(line: str) -> str:
    """A line cut to the length, after its indentation, that details use as well."""
    stripped = line.lstrip(" ")
    return " " * (len(line) - len(stripped)) + shortened(stripped)
