"""Which ops make tensors out of numbers, or put values together, whose results have no gaps, whose operands may change places."""

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
"""A tensor that numbers determine."""

CREATES_LIKE: Final = _aten("full_like new_full new_ones new_zeros ones_like zeros_like")
"""The same, which looks at the element type and the extents of a tensor."""

DENSE_RESULT: Final = _aten("clone empty_like full_like ones_like zeros_like")
"""Not pointwise, and a result in memory of its own that lies without gaps all the same."""

LAID_OUT_LIKE_FIRST: Final = _aten("copy")
"""Not pointwise, and the axes of the result lie in the order of those of the first operand; without gaps, it lies the same."""

LAID_OUT_LIKE_INPUT_ON_CPU: Final = _aten("group_norm native_group_norm")
"""Channels last if the input lies so, on a processor; row by row on a GPU (torch 2.13)."""

STARTS_LIKE_FIRST: Final = _aten("copy as_strided_scatter diagonal_scatter masked_scatter select_scatter slice_scatter")
"""The result is the first operand with other elements, and may start later in its memory, as that one does in its own."""

ROW_MAJOR_RESULT: Final = _aten("zeros ones full empty arange rand randn eye linspace mm bmm addmm baddbmm linear matmul embedding")
"""The result always lies row by row (torch 2.13)."""

ROW_MAJOR_FROM_ROWS: Final = _aten(
    "cat concat stack sum mean amax amin cumsum softmax _softmax log_softmax _log_softmax layer_norm index_select gather clone empty_like "
    "zeros_like ones_like full_like"
)
"""The result lies row by row if all operands do (torch 2.13)."""

OVERLAPPING_RESULT: Final = _aten("as_strided as_strided_copy as_strided_scatter empty_strided new_empty_strided")
"""The result may show one place twice: its strides are operands."""

CUTS_GRADIENT: Final = frozenset({"aten::data", "aten::detach", "prim::data"})
"""The result asks for no gradient, whatever the operand does."""

PACKS_SEQUENCE: Final = frozenset({"prim::ListConstruct", "prim::TupleConstruct"})
PACKS: Final = PACKS_SEQUENCE | {"prim::DictConstruct"}
"""The result is a new container of just the operands."""

NARROWS: Final = frozenset({"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional"})
"""The result is the operand, whose type is now known better."""

UNPACKS: Final = frozenset({"prim::ListUnpack", "prim::TupleUnpack"})
"""The results are what the operand, a container, holds, one by one."""

COMMUTES: Final = _aten("add bitwise_and bitwise_or bitwise_xor eq logical_and logical_or logical_xor mul ne") | {
    f"kernel::{name}" for name in "add and eq mul ne or xor".split()
}
"""Two tensors may change places without a change in any bit of a result that is a number, if an `alpha` is 1. `maximum` gives
the first of 0.0 and -0.0, and does not."""

DECIDES: Final[Mapping[str, frozenset[str]]] = {
    "aten::group_norm": frozenset({"eps"}), "aten::linalg_vector_norm": frozenset({"ord"}),
    "aten::nan_to_num": frozenset({"nan", "posinf", "neginf"}), "aten::norm": frozenset({"p"}), "aten::pow": frozenset({"exponent"}),
    "aten::std": frozenset({"correction"}), "aten::var": frozenset({"correction"}), "aten::var_mean": frozenset({"correction"}),
}  # fmt: skip
"""Numbers that decide what is computed, by op and argument: a kernel must know them when it is made."""
