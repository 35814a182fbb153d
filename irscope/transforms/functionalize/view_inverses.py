"""Properties of views that can be taken again and written back: disjoint parts, equal views, and restored strides."""

from __future__ import annotations

from irscope.ir import NOT_CONSTANT, Graph, Node, TensorType, constant_of
from irscope.ops.traits import PUTS_BACK
from irscope.ops.typing import static_shape, view_strides

__all__ = ["are_alike", "are_apart", "restores"]


def restores(whole: TensorType, seen: TensorType) -> bool:
    """Whether a tensor that was viewed with other extents has all its strides again after the inverse `view`.

    >>> whole, seen = TensorType("float32", (3, 1), (1, 3)), TensorType("float32", (3,), (1,))
    >>> restores(whole, seen), restores(whole.with_(strides=(1, 1)), seen), restores(whole.with_(shape=(3, 2)), seen)
    (False, True, True)
    """
    shape, viewed = static_shape(whole), static_shape(seen)
    if shape is None or viewed is None:
        return False
    if not shape or min(shape) > 1:
        return True  # then the elements' places determine every stride
    known = whole.strides is not None and seen.strides is not None
    return known and view_strides(viewed, seen.strides or (), shape) == whole.strides


def are_apart(graph: Graph, a: Node, b: Node) -> bool:
    """Whether two views of one tensor certainly share no element, by constant ranges of one dimension.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4, 6)):
    ...   %zero : int = prim::Constant[value=0]()
    ...   %one : int = prim::Constant[value=1]()
    ...   %two : int = prim::Constant[value=2]()
    ...   %last : int = prim::Constant[value=-1]()
    ...   %a : Tensor = aten::slice(%x, %one, %zero, %two, %one)
    ...   %b : Tensor = aten::slice(%x, %one, %two, %last, %one)
    ...   %c : Tensor = aten::select(%x, %one, %last)
    ...   return (%a, %b, %c)''')
    >>> are_apart(g, g.node("a"), g.node("b")), are_apart(g, g.node("b"), g.node("c")), are_apart(g, g.node("a"), g.node("a"))
    (True, True, False)
    """
    left, right = _range(graph, a), _range(graph, b)
    if left is None or right is None or left[0] != right[0]:
        return False
    return left[2] <= right[1] or right[2] <= left[1]


def are_alike(graph: Graph, a: Node, b: Node) -> bool:
    """Whether two views of one tensor are certainly the same view: one op, with the same numbers.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4, 6), %n : int):
    ...   %zero : int = prim::Constant[value=0]()
    ...   %null : int = prim::Constant[value=0]()
    ...   %a : Tensor = aten::select(%x, %zero, %n)
    ...   %b : Tensor = aten::select(%x, %null, %n)
    ...   %c : Tensor = aten::select(%x, %zero, %zero)
    ...   return (%a, %b, %c)''')
    >>> are_alike(g, g.node("a"), g.node("b")), are_alike(g, g.node("a"), g.node("c"))
    (True, False)
    """
    if a.op != b.op or len(a.inputs) != len(b.inputs):
        return False
    for x, y in zip(a.inputs[1:], b.inputs[1:], strict=True):
        known = constant_of(graph, x)
        if x is not y and (known is NOT_CONSTANT or x.type != y.type or known != constant_of(graph, y)):
            return False
    return True


def _range(graph: Graph, node: Node) -> tuple[int, int, int] | None:
    """The dimension of a select or slice, and the start and end of a range that contains its elements; None if unknown."""
    type = node.inputs[0].type
    shape = type.shape if isinstance(type, TensorType) else None
    given = [constant_of(graph, value) for value in node.inputs[1:4]]
    if node.op not in PUTS_BACK or len(given) < 2 or not isinstance(given[0], int) or (given[0] < 0 and shape is None):
        return None
    dim = given[0] + (len(shape) if given[0] < 0 and shape is not None else 0)
    extent = shape[dim] if shape is not None and dim < len(shape) else None
    low = _place(0 if given[1] is None else given[1], extent)
    high = (
        low + 1
        if node.op == "aten::select" and low is not None
        else _place(given[2] if len(given) > 2 else None, extent)
    )
    return None if low is None or high is None else (dim, low, high)


def _place(bound: object, extent: object) -> int | None:
    """A bound counted from the start; None when it is counted from an unknown end."""
    if bound is None:
        return extent if isinstance(extent, int) else None
    if not isinstance(bound, int):
        return None
    if bound >= 0:
        return bound
    return max(0, bound + extent) if isinstance(extent, int) else None
