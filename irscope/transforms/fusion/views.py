"""Views that a kernel can see through: those whose element at some place is an element of what they see, at a place that
is found from the first by adding, multiplying and leaving out.

Cutting (select, slice, chunk, ...) and exchanging axes are; so is taking an axis apart into several. Putting axes together
takes a division, which kernels do not do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from irscope.ir.core import Graph, Node
from irscope.ir.types import Dim

__all__ = ["CUTS", "SEEN_THROUGH", "keeps_axes_apart", "unpacked_cut"]

CUTS: Final = frozenset(f"aten::{name}" for name in "chunk split split_with_sizes unbind tensor_split".split())
"""Views that cut a tensor into a list, which something must unpack."""
_RESHAPES: Final = frozenset(f"aten::{name}" for name in "view reshape _unsafe_view flatten unflatten".split())
SEEN_THROUGH: Final = CUTS | _RESHAPES | frozenset(
    f"aten::{name}"
    for name in (
        "select slice narrow transpose swapaxes swapdims t numpy_T mT permute movedim unsqueeze squeeze expand broadcast_to"
    ).split()
)  # fmt: skip


def keeps_axes_apart(node: Node, before: Sequence[Dim] | None, after: Sequence[Dim] | None) -> bool:
    """Whether no axis of a view's result runs along several axes of what it sees; true of all but reshapes.

    >>> from irscope.ir.parser import parse
    >>> g = parse('''graph(%x : Tensor, %s : int[]):
    ...   %y : Tensor = aten::view(%x, %s)
    ...   return (%y)''')
    >>> view = g.node("y")
    >>> keeps_axes_apart(view, (2, 12), (2, 1, 3, 4)), keeps_axes_apart(view, (2, 3, 4), (2, 12))
    (True, False)
    """
    if node.op not in _RESHAPES:
        return True
    if before is None or after is None:
        return False
    known = [dim for dim in before if isinstance(dim, int)]
    parts = [dim for dim in after if isinstance(dim, int)]
    if len(known) < len(before) or len(parts) < len(after):
        return None not in before and before == after
    rest = iter([dim for dim in parts if dim != 1])
    for extent in known:
        product = 1
        while product < extent:
            part = next(rest, 0)
            if part == 0:
                return False
            product *= part
        if product != extent and extent != 0:
            return False
    return next(rest, None) is None


def unpacked_cut(graph: Graph, node: Node) -> tuple[Node, Node] | None:
    """A cut and the node that unpacks its list, given either, if that alone reads the list."""
    cut = node if node.op in CUTS else graph.producer.get(node.inputs[0]) if node.op == "prim::ListUnpack" else None
    if cut is None or cut.op not in CUTS:
        return None
    uses = graph.users.get(cut.output, ())
    reader = uses[0].user if len(uses) == 1 else None
    if (
        not isinstance(reader, Node)
        or reader.op != "prim::ListUnpack"
        or graph.block_of[reader] is not graph.block_of[cut]
    ):
        return None
    return cut, reader
