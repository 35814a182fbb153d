"""Views that a kernel can see through: those whose element's place in the operand follows from its place in the view by
adding, multiplying and leaving out indices.

This holds for cuts (select, slice, chunk, ...), transposes, and splitting an axis. Merging axes would need divisions,
which kernels avoid: they walk a finer space, in which both shapes are products of adjacent axes. Such a space exists
when, counted from the last axis, the sizes of the tails of both shapes divide each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from operator import mul

from irscope.ir import Dim, Graph, Node
from irscope.ops.traits import CUTS, JOINS, RESHAPES

__all__ = ["has_finer_space", "joined_list", "unpacked_cut"]


def has_finer_space(node: Node, before: Sequence[Dim] | None, after: Sequence[Dim] | None) -> bool:
    """Whether a view and its operand can be walked together; true for all views but some reshapes.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse('''graph(%x : Tensor, %s : int[]):
    ...   %y : Tensor = aten::view(%x, %s)
    ...   return (%y)''')
    >>> view = g.node("y")
    >>> has_finer_space(view, (2, 12), (2, 3, 4)), has_finer_space(view, (4, 6), (24,)), has_finer_space(view, (4, 6), (6, 4))
    (True, True, False)
    """
    if node.op not in RESHAPES or (before is not None and before == after and None not in before):
        return True
    tails = sorted({*_tails(before), *_tails(after)})
    return None not in (before, after) and 0 not in tails and all(big % small == 0 for small, big in pairwise(tails))


def _tails(shape: Sequence[Dim] | None) -> Iterator[int]:
    """Yields the number of elements in the last n axes, for each n; 0 where unknown."""
    return accumulate((dim if isinstance(dim, int) else 0 for dim in reversed(shape or ())), mul, initial=1)


def unpacked_cut(graph: Graph, node: Node) -> tuple[Node, Node] | None:
    """Returns a cut and the node that unpacks its list, given either, if the list has no other use."""
    cut = node if node.op in CUTS else graph.producer.get(node.inputs[0]) if node.op == "prim::ListUnpack" else None
    if cut is None or cut.op not in CUTS:
        return None
    uses = graph.users.get(cut.output, ())
    reader = uses[0].user if len(uses) == 1 else None
    if not isinstance(reader, Node) or reader.op != "prim::ListUnpack":
        return None
    return (cut, reader) if graph.block_of[reader] is graph.block_of[cut] else None


def joined_list(graph: Graph, node: Node) -> tuple[Node, Node] | None:
    """Returns the node that builds a list and the one that joins its tensors, given either, if the list has no other use."""
    made = (
        node if node.op == "prim::ListConstruct" else graph.producer.get(node.inputs[0]) if node.op in JOINS else None
    )
    if made is None or made.op != "prim::ListConstruct":
        return None
    uses = graph.users.get(made.output, ())
    reader = uses[0].user if len(uses) == 1 else None
    if not isinstance(reader, Node) or reader.op not in JOINS or reader.inputs[0] is not made.output:
        return None
    return (made, reader) if graph.block_of[reader] is graph.block_of[made] else None
