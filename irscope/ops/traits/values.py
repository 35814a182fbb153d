"""Properties of ops' results and operands: created from numbers, packed into containers, laid out without gaps, commutative."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "COMMUTES",
    "CREATES",
    "CREATES_LIKE",
    "CUTS_GRADIENT",
    "DECIDES",
    "DENSE_RESULT",
    "LAID_OUT_LIKE_FIRST",
    "LAID_OUT_LIKE_INPUT_ON_CPU",
    "NARROWS",
    "OVERLAPPING_RESULT",
    "PACKS",
    "PACKS_SEQUENCE",
    "ROW_MAJOR_FROM_ROWS",
    "ROW_MAJOR_RESULT",
    "STARTS_LIKE_FIRST",
    "UNPACKS",
]


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


CREATES: Final = _aten("arange eye full ones zeros")
"""The result is a tensor determined by numbers."""

CREATES_LIKE: Final = _aten("full_like new_full new_ones new_zeros ones_like zeros_like")
"""The same, but reads the element type and the extents of a tensor operand."""

DENSE_RESULT: Final = _aten("clone empty_like full_like ones_like zeros_like")
"""Not pointwise, but the result is also in memory of its own and laid out without gaps."""

LAID_OUT_LIKE_FIRST: Final = _aten("copy")
"""Not pointwise, but the axes of the result are laid out in the order of those of the first operand; if that has no gaps, the
layouts are equal."""

LAID_OUT_LIKE_INPUT_ON_CPU: Final = _aten("group_norm native_group_norm")
"""On a CPU the result is channels-last if the input is; on a GPU it is row-major (torch 2.13)."""

STARTS_LIKE_FIRST: Final = _aten("copy as_strided_scatter diagonal_scatter masked_scatter select_scatter slice_scatter")
"""The result is the first operand with other elements. It may begin at an offset into its memory, as that operand does."""

ROW_MAJOR_RESULT: Final = _aten("zeros ones full empty arange rand randn eye linspace mm bmm addmm baddbmm linear matmul embedding")
"""The result is always row-major (torch 2.13)."""

ROW_MAJOR_FROM_ROWS: Final = _aten(
    "cat concat stack sum mean amax amin cumsum softmax _softmax log_softmax _log_softmax layer_norm index_select gather clone empty_like "
    "zeros_like ones_like full_like"
)
"""The result is row-major if all operands are (torch 2.13)."""

OVERLAPPING_RESULT: Final = _aten("as_strided as_strided_copy as_strided_scatter empty_strided new_empty_strided")
"""The result may contain the same memory location twice, because its strides are operands."""

CUTS_GRADIENT: Final = frozenset({"aten::data", "aten::detach", "prim::data"})
"""The result requires no gradient, whether or not the operand does."""

PACKS_SEQUENCE: Final = frozenset({"prim::ListConstruct", "prim::TupleConstruct"})
PACKS: Final = PACKS_SEQUENCE | {"prim::DictConstruct"}
"""The result is a new container of exactly the operands."""

NARROWS: Final = frozenset({"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional"})
"""The result is the operand, with a more precise static type."""

UNPACKS: Final = frozenset({"prim::ListUnpack", "prim::TupleUnpack"})
"""The results are the elements of the operand, a container, one by one."""

COMMUTES: Final = _aten("add bitwise_and bitwise_or bitwise_xor eq logical_and logical_or logical_xor mul ne") | {
    f"kernel::{name}" for name in "add and eq mul ne or xor".split()
}
"""Swapping two tensors changes no bit of a result that is a number, if `alpha` is 1. `maximum` does not commute: its result
for 0.0 and -0.0 depends on their order."""

DECIDES: Final[Mapping[str, frozenset[str]]] = {
    "aten::group_norm": frozenset({"eps"}), "aten::linalg_vector_norm": frozenset({"ord"}),
    "aten::nan_to_num": frozenset({"nan", "posinf", "neginf"}), "aten::norm": frozenset({"p"}), "aten::pow": frozenset({"exponent"}),
    "aten::std": frozenset({"correction"}), "aten::var": frozenset({"correction"}), "aten::var_mean": frozenset({"correction"}),
}  # fmt: skip
"""Numbers that determine which operations are computed, by op and argument; they must be known when a kernel is built."""
