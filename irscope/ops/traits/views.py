"""The view ops by kind, and their inverses.

Each view op has exactly one kind, by what happens to the elements. The sets that passes use are unions of kinds,
minus the exceptions that are named here. An op that is missing may still be a view, if its schema says so. Then only the
schema counts, with conservative assumptions: it may have to copy, it reads the elements, and it does not keep their order.

Tested with torch 2.13, kind by kind and name by name: `tests/ops/traits/test_views.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "ALWAYS_SHARES",
    "ANOTHER_OBJECT",
    "CUTS",
    "INVERSES",
    "JOINS",
    "KEEPS_ORDER",
    "LIKE_ANOTHER",
    "LOGICAL",
    "MAX_POOLS",
    "MAYBE_ANOTHER_OBJECT",
    "MAY_COPY",
    "PATCHES",
    "PUTS_BACK",
    "READS_SHAPE",
    "RESHAPES",
    "SAME_PLACE",
    "SEEN_THROUGH",
    "VIEWS",
]


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


SAME_PLACE: Final = _aten("alias contiguous data detach lift lift_fresh positive")
"""All elements in the same positions, in the operand's shape."""

_UNIT_AXES: Final = _aten("squeeze unsqueeze")
"""Axes of extent 1 are inserted or removed."""

RESHAPES: Final = _aten("_unsafe_view flatten ravel reshape reshape_as unflatten view view_as")
"""All elements in row-major order, with any extents: axes may be merged or split."""

_STRETCHES: Final = _aten("broadcast_to expand expand_as")
"""Axes of extent 1, or new ones in front, are repeated."""

_EXCHANGES: Final = _aten("mT moveaxis movedim numpy_T permute swapaxes swapdims t transpose")
"""All elements, with axes in another order."""

_PARTS: Final = _aten("diagonal linalg_diagonal narrow select slice")
"""Some elements."""

CUTS: Final = _aten(
    "chunk dsplit hsplit split split_with_sizes tensor_split unbind unsafe_chunk unsafe_split unsafe_split_with_sizes vsplit"
)
"""A list of parts. Torch calls some unsafe because it does not track writes through them; they share memory nevertheless."""

_WINDOWS: Final = _aten("_reshape_alias as_strided unfold")
"""Elements may occur several times."""

_OF_ANOTHER_TYPE: Final = _aten("_conj _neg_view adjoint conj imag mH matrix_H real view_as_complex view_as_real")
"""The bits are reinterpreted: parts of complex numbers, conjugates, negatives. (`view` with an element type also does that.)"""

VIEWS: Final = (
    SAME_PLACE | _UNIT_AXES | RESHAPES | _STRETCHES | _EXCHANGES | _PARTS | CUTS | _WINDOWS | _OF_ANOTHER_TYPE
)

_REGROUPS: Final = _aten("flatten ravel reshape reshape_as")
"""Views only where the strides allow it, otherwise copies."""

MAY_COPY: Final = _REGROUPS | _aten("contiguous to type_as")
"""The result is a view of all elements of the first operand (the operand itself, unless it is regrouped), or else a copy; the element
types, extents and strides of both decide which."""

_GIVES_BACK: Final = _aten("lift lift_fresh positive")
"""The result is the operand, as an object."""

_MAY_GIVE_BACK: Final = _aten("adjoint conj contiguous flatten mH mT matrix_H real") | _GIVES_BACK
"""The result may be the operand, as an object: `real` of a real tensor, `mT` of a 0-d tensor."""

LIKE_ANOTHER: Final = _aten("expand_as reshape_as view_as")
"""Views that take extents from a second tensor, whose elements they do not read."""

ALWAYS_SHARES: Final = VIEWS - MAY_COPY
"""Every result shares memory with the first operand, whatever that is."""

READS_SHAPE: Final = ALWAYS_SHARES | {"prim::ConstantChunk", "prim::data", "prim::unchecked_cast"}
"""Views that read the shape of the operand, not its elements, and so may move across a write to them. A second tensor
is read as usual, except by `LIKE_ANOTHER`: `narrow` and `tensor_split` may take numbers out of one."""

ANOTHER_OBJECT: Final = ALWAYS_SHARES - _MAY_GIVE_BACK - CUTS
"""The result is a separate tensor object even where it has all elements of the operand: `t_` on one does not affect the other."""

MAYBE_ANOTHER_OBJECT: Final = VIEWS - _GIVES_BACK
"""Two results of equal calls may be distinguishable from a single one, as objects."""

KEEPS_ORDER: Final = SAME_PLACE | _UNIT_AXES | RESHAPES | _STRETCHES
"""Axes of extent 1 are inserted, removed or repeated, and axes are merged or split, but none are exchanged or cut."""

SEEN_THROUGH: Final = (
    (_UNIT_AXES | RESHAPES | _STRETCHES | _EXCHANGES | _PARTS | CUTS | {"aten::contiguous"})
    - LIKE_ANOTHER
    - _aten("diagonal linalg_diagonal dsplit hsplit moveaxis ravel vsplit")
    - _aten("unsafe_chunk unsafe_split unsafe_split_with_sizes")
)
"""Views that a kernel reads through: an element's position in the operand follows from its position in the result by adding,
multiplying and dropping indices. The excluded ones have no type rule, take a second tensor, or move along two axes at once."""

INVERSES: Final[Mapping[str, str]] = {
    "aten::alias": "aten::alias",
    "aten::swapaxes": "aten::swapaxes",
    "aten::swapdims": "aten::swapdims",
    "aten::t": "aten::t",
    "aten::transpose": "aten::transpose",
    "aten::unsqueeze": "aten::squeeze",
    "aten::view": "aten::view_as",
}
"""Views of all elements, and the inverse of each: it takes the same operands, and `view_as` the viewed tensor."""

PUTS_BACK: Final[Mapping[str, str]] = {"aten::select": "aten::select_scatter", "aten::slice": "aten::slice_scatter"}
"""Views of a part, and the op that writes such a part into a copy of the whole."""

LOGICAL: Final = VIEWS - _OF_ANOTHER_TYPE - _aten("_reshape_alias as_strided")
"""An element's position in the operand follows from its position in the result and from the shapes. So the view of a copy with
another layout has the same elements. The two excluded ones depend on strides."""

PATCHES: Final = frozenset(PUTS_BACK.values())
"""Ops that return a tensor with a part of it replaced."""

JOINS: Final = _aten("cat concat stack")
"""They join a list of tensors along an axis."""

MAX_POOLS: Final = _aten("max_pool1d max_pool2d max_pool3d")
"""Each element of the result is the largest one of a window of the operand."""
