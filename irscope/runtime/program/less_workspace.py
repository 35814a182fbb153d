"""The program whose memory is planned, without what ops of the library take for themselves where a plan cannot put it.

A plan has a place for each tensor that the program names. An op may need more while it runs: of these, two are written otherwise.
Max pooling writes down where it found its maxima, and gets a kernel instead (`group_pools`); a convolution over planes copies
its operand and its result, and is given channels last (`channels_last`). The latter adds up in another order than torch does over
planes, and of zeros with two signs torch may take the other one for a maximum.
"""

from __future__ import annotations

from irscope.ir import Graph
from irscope.transforms.base import Remark
from irscope.transforms.cleanup.channels_last import channels_last
from irscope.transforms.fusion import group_pools

__all__ = ["without_workspaces"]


def without_workspaces(graph: Graph, *, exact: bool) -> tuple[Graph, tuple[Remark, ...]]:
    """The program that needs less beside its tensors, and what was done and declined for it; `exact` keeps torch's bits.

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
