"""How the results of computing ops lie where extents have names: the type rules, which know numbers only, do not tell.

What holds of torch 2.13 whatever the extents: an elementwise op over operands that all lie row by row gives a result that does, and
over one dense operand a result of the same strides (`TensorIterator`); some ops always allocate row by row, others do if
their operands lie so. An axis of one index may have any stride, in either answer; no conclusion rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from irscope.analysis.views.layout import Layout
from irscope.analysis.views.strided_steps import lies_in_order, loose, row_major
from irscope.ir import Node
from irscope.ops.registry import op_of
from irscope.ops.view_steps import Num

__all__ = ["computed_layout"]


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


_ROWS: Final = _aten("zeros ones full empty arange rand randn eye linspace mm bmm addmm baddbmm linear matmul embedding")
"""Their results always lie row by row."""
_ROWS_FROM_ROWS: Final = _aten(
    "cat concat stack sum mean amax amin cumsum softmax _softmax log_softmax _log_softmax layer_norm index_select gather clone empty_like "
    "zeros_like ones_like full_like"
)
"""Theirs do if those of all their operands do."""


def computed_layout(node: Node, declared: Layout, operands: Sequence[Layout | None]) -> Layout:
    """The layout of a fresh result, from what its type tells and the layouts of the tensors that it is computed from."""
    op = op_of(node)
    if op is not None and op.category == "pointwise" and not op.operand_axes:
        return _elementwise(declared, operands)
    known = [layout for layout in operands if layout is not None]
    from_rows = node.op in _ROWS_FROM_ROWS and len(known) == len(operands) and all(map(lies_by_rows, known))
    if node.op in _ROWS or from_rows:
        return Layout(declared.shape, loose(declared.shape, row_major(declared.shape)), 0, declared.dtype)
    return declared


def lies_by_rows(layout: Layout) -> bool:
    """Whether it lies row by row without gaps, whatever its names stand for."""
    return layout.strides is not None and lies_in_order(layout.shape, layout.strides, range(len(layout.shape)))


def _elementwise(declared: Layout, operands: Sequence[Layout | None]) -> Layout:
    known = [layout for layout in operands if layout is not None]
    shape = _broadcast(declared.shape, [layout.shape for layout in known]) if len(known) == len(operands) else declared.shape
    strides: tuple[Num, ...] | None = declared.strides
    if strides is None and len(known) == len(operands) and known:
        if all(map(lies_by_rows, known)):
            strides = loose(shape, row_major(shape))
        elif known[0].shape == shape and _is_dense(known[0]) and all(_lies_like(layout, known[0]) for layout in known):
            strides = known[0].strides
    return Layout(shape, strides, 0, declared.dtype)


def _lies_like(a: Layout, b: Layout) -> bool:
    return a.shape == b.shape and a.strides == b.strides


def _is_dense(layout: Layout) -> bool:
    return layout.strides is not None and lies_in_order(layout.shape, layout.strides, layout.order)


def _broadcast(declared: tuple[Num, ...], shapes: Sequence[tuple[Num, ...]]) -> tuple[Num, ...]:
    """The extents of the result, those that the type does not tell from the operands where these agree."""
    result = list(declared)
    for back in range(1, len(declared) + 1):
        if isinstance(declared[-back], int):
            continue
        sizes = {shape[-back] for shape in shapes if len(shape) >= back and shape[-back] != 1}
        if len(sizes) == 1:
            result[-back] = sizes.pop()
    return tuple(result)
