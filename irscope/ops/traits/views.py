"""Which ops give views, of which kind, and what undoes them.

Each view is in one kind, by what becomes of the elements: the kinds are disjoint. What passes ask is a union of kinds, or
one less the exceptions that are named here. An op that is missing may be a view all the same, if its schema says so; then
only the schema is believed: it may have to copy, it reads the elements, and it does not keep their order.

Tried with torch 2.13, kind by kind and name by name: `tests/ops/traits/test_views.py`.
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
"""All elements at their places, in the operand's shape."""

_UNIT_AXES: Final = _aten("squeeze unsqueeze")
"""Axes of extent 1 are put in or taken out."""

RESHAPES: Final = _aten("_unsafe_view flatten ravel reshape reshape_as unflatten view view_as")
"""All elements in row-major order, with any extents: axes may be put together or taken apart."""

_STRETCHES: Final = _aten("broadcast_to expand expand_as")
"""Axes of extent 1, or new ones in front, repeat what they have."""

_EXCHANGES: Final = _aten("mT moveaxis movedim numpy_T permute swapaxes swapdims t transpose")
"""All elements, with axes in another order."""

_PARTS: Final = _aten("diagonal linalg_diagonal narrow select slice")
"""Some elements."""

CUTS: Final = _aten(
    "chunk dsplit hsplit split split_with_sizes tensor_split unbind unsafe_chunk unsafe_split unsafe_split_with_sizes vsplit"
)
"""A list of parts. Torch calls some unsafe because it does not follow writes through them; they share all the same."""

_WINDOWS: Final = _aten("_reshape_alias as_strided unfold")
"""Elements may be seen several times over."""

_OF_ANOTHER_TYPE: Final = _aten("_conj _neg_view adjoint conj imag mH matrix_H real view_as_complex view_as_real")
"""The bits mean something else: parts of complex numbers, conjugates, negatives. (`view` with an element type does so too.)"""

VIEWS: Final = (
    SAME_PLACE | _UNIT_AXES | RESHAPES | _STRETCHES | _EXCHANGES | _PARTS | CUTS | _WINDOWS | _OF_ANOTHER_TYPE
)

_MAY_COPY: Final = _aten("contiguous flatten ravel reshape reshape_as")
"""Views only where the strides allow it."""

_GIVES_BACK: Final = _aten("lift lift_fresh positive")
"""The result is the operand, as an object."""

_MAY_GIVE_BACK: Final = _aten("adjoint conj contiguous flatten mH mT matrix_H real") | _GIVES_BACK
"""The result may be the operand, as an object: a `real` of what is real, an `mT` without dimensions."""

LIKE_ANOTHER: Final = _aten("expand_as reshape_as view_as")
"""Views that take extents from a second tensor, whose elements they do not read."""

ALWAYS_SHARES: Final = VIEWS - _MAY_COPY
"""Every result is memory of the first operand, whatever that is."""

READS_SHAPE: Final = ALWAYS_SHARES | {"prim::ConstantChunk", "prim::data", "prim::unchecked_cast"}
"""Views that look at the shape of the operand, and not at its elements: they may cross a write of those. A second tensor
is read as usual, but for `LIKE_ANOTHER`: `narrow` and `tensor_split` may take numbers out of one."""

ANOTHER_OBJECT: Final = ALWAYS_SHARES - _MAY_GIVE_BACK - CUTS
"""The result is a tensor object of its own even where it shows all that there was: `t_` of one leaves the other alone."""

MAYBE_ANOTHER_OBJECT: Final = VIEWS - _GIVES_BACK
"""Somebody who holds two results of the same call may be able to tell them from one."""

KEEPS_ORDER: Final = SAME_PLACE | _UNIT_AXES | RESHAPES | _STRETCHES
"""Axes of extent 1 are put in, taken out, or stretched, and all are regrouped, but none are exchanged or cut."""

SEEN_THROUGH: Final = (
    (_UNIT_AXES | RESHAPES | _STRETCHES | _EXCHANGES | _PARTS | CUTS | {"aten::contiguous"})
    - LIKE_ANOTHER
    - _aten("diagonal linalg_diagonal dsplit hsplit moveaxis ravel vsplit")
    - _aten("unsafe_chunk unsafe_split unsafe_split_with_sizes")
)
"""Views that a kernel reads through: an element's place in the operand follows from its place in the result by adding,
multiplying and leaving out. Those left out have no type rule, have a tensor beside the operand, or walk two axes at once."""

INVERSES: Final[Mapping[str, str]] = {
    "aten::alias": "aten::alias",
    "aten::swapaxes": "aten::swapaxes",
    "aten::swapdims": "aten::swapdims",
    "aten::t": "aten::t",
    "aten::transpose": "aten::transpose",
    "aten::unsqueeze": "aten::squeeze",
    "aten::view": "aten::view_as",
}
"""Views of all elements, and the view that undoes each: with the same operands, `view_as` with the tensor viewed."""

PUTS_BACK: Final[Mapping[str, str]] = {"aten::select": "aten::select_scatter", "aten::slice": "aten::slice_scatter"}
"""Views of a part, and the op that puts a part into a copy of the whole."""

LOGICAL: Final = VIEWS - _OF_ANOTHER_TYPE - _aten("_reshape_alias as_strided")
"""An element's place in the operand follows from its place in the result and from the shapes: so a copy of the operand that
lies otherwise shows the same. The two left out go by strides."""

PATCHES: Final = frozenset(PUTS_BACK.values())
"""Ops that give a tensor with a part of it replaced."""

JOINS: Final = _aten("cat concat stack")
"""They put a list of tensors one behind the other."""

MAX_POOLS: Final = _aten("max_pool1d max_pool2d max_pool3d")
"""Each element of the result is the largest one of a window of the operand."""
