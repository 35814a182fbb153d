"""The rewrites that reduce the workspace of library ops, which a memory plan cannot place.

A plan has a place for each tensor that the program names, but an op may need more while it runs; two such ops are rewritten.
Max pooling, which stores the indices of its maxima, gets a kernel instead (`group_pools`); a convolution over planes, which
copies its operand and its result, is converted to channels last (`channels_last`). The latter sums in another order than torch
does over planes; among zeros of both signs, torch's max pooling may return the other one.
"""

from __future__ import annotations

from irscope.ir import Graph
from irscope.transforms.base import Remark
from irscope.transforms.cleanup.channels_last import channels_last
from irscope.transforms.fusion import group_pools

__all__ = ["without_workspaces"]


def without_workspaces(graph: Graph, *, exact: bool) -> tuple[Graph, tuple[Remark, ...]]:
    """Returns the program with less workspace, and remarks on what was done and declined; `exact` keeps torch's bits.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Float(4)):\\n  %y : Float(4) = aten::neg(%x)\\n  return (%y)")
    >>> without_workspaces(g, exact=False) == (g, ())
    True
    """
    if exact:
        return graph, ()
    pools = group_pools(graph)
    laid = channels_last(pools.after)
    return laid.after, (*pools.remarks, *laid.remarks)
