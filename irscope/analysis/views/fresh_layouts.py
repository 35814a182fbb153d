"""How the results of ops lie that compute: by their types, by the rules of their types, or by what always holds of such ops.

Where extents have names, what holds of torch 2.13 whatever the extents: an elementwise op over operands that all lie row by
row gives a result that does, and over one dense operand a result of the same strides (`TensorIterator`); some ops always
allocate row by row, others do if their operands lie so. An axis of one index may have any stride, in either answer; no
conclusion rests on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from irscope.analysis.views.facts import Facts, has_numbers, is_complex
from irscope.analysis.views.layout import Layout, make_layout
from irscope.analysis.views.strided_steps import ANY_STRIDE, lies_in_order, loose, row_major
from irscope.errors import ArgumentError
from irscope.ir import NOT_CONSTANT, Node, TensorType, Value
from irscope.ops.registry import op_of, schema_of
from irscope.ops.typing import SLIPS, Unknown, like_strides, static_shape
from irscope.ops.view_steps import Extent, Num

__all__ = ["FreshLayouts"]


class FreshLayouts(Facts):
    """Tells the layouts of results in memory of their own."""

    def _computed(self, node: Node, value: Value) -> Layout | None:
        """The layout of a fresh result."""
        declared = self._declared(value, 0)
        if declared is not None and declared.dtype is not None and has_numbers(declared):
            if 1 not in declared.shape or getattr(value.type, "strides", None) is not None:
                return declared
            return self._one(replace(declared, strides=self._unless_marked(node, declared.shape, declared.strides or ())))
        operands = [self.of[v].layout if v in self.of else None for v in self._tensors_of(node)]
        if operands and all(layout is not None and has_numbers(layout) for layout in operands):
            type = self._by_type_rule(node, self._fact)
            if type is not None and type.shape is not None and type.strides is not None:
                strides = type.strides if 1 not in type.shape else self._unless_marked(node, static_shape(type) or (), type.strides)
                return self._one(make_layout(type.shape, strides, 0, type.dtype))
            return declared
        if declared is None:
            return None
        return self._one(_computed_layout(node, declared, operands))

    def _unless_marked(self, node: Node, shape: tuple[Num, ...], strides: tuple[Num, ...]) -> tuple[Num, ...]:
        """The strides of a result, but for those of axes of one index that are others if an operand is marked as a conjugate or
        as negated: torch computes it first, in memory of its own."""
        operands = list(self._tensors_of(node))
        if not any(map(self._may_be_marked, operands)):
            return strides
        layouts = [self.of[value].layout if value in self.of else None for value in operands]
        if not all(layout is not None and has_numbers(layout) for layout in layouts):
            return loose(shape, strides)
        type = self._by_type_rule(node, self._computed_fact)
        if type is None or type.strides is None:  # not elementwise: it allocates as it always does
            return strides
        if all(value in self._conjugated for value in operands if self._may_be_marked(value)):
            return type.strides
        return tuple([one if one == other else ANY_STRIDE for one, other in zip(strides, type.strides, strict=True)])

    def _may_be_marked(self, value: Value) -> bool:
        layout = self.of[value].layout if value in self.of else None
        return value in self._negated or (layout is not None and is_complex(layout) and value not in self._plain)

    def _computed_fact(self, value: Value) -> Any:
        """What a type rule is given of an operand that torch computes first."""
        found = self._fact(value)
        if isinstance(found, TensorType) and found.strides is not None and self._may_be_marked(value):
            return replace(found, strides=like_strides(found.shape, found.strides))  # type: ignore[arg-type]
        return found

    def _by_type_rule(self, node: Node, fact: Callable[[Value], Any]) -> TensorType | None:
        """What the op's type rule says of operands of which more is known here than type rules told."""
        op, schema = op_of(node), schema_of(node)
        if op is None or op.type_rule is None or schema is None or len(node.outputs) != 1 or schema.is_vararg:
            return None
        given = [fact(value) for value in node.inputs]
        named = {a.name: given[i] if i < len(given) else a.default for i, a in enumerate(schema.arguments)}
        try:
            found = op.type_rule(**named)
        except (*SLIPS, ArgumentError):
            return None
        return found if isinstance(found, TensorType) and static_shape(found) is not None and found.strides is not None else None

    def _fact(self, value: Value) -> Any:
        """What a type rule is given of an operand."""
        layout = self.of[value].layout if value in self.of else None
        if layout is not None:
            return TensorType(layout.dtype, layout.shape, layout.strides, self._device(value))  # type: ignore[arg-type]
        known = self._argument(value)
        return Unknown(value.type) if known is NOT_CONSTANT or isinstance(known, Extent) else known


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


_ROWS: Final = _aten("zeros ones full empty arange rand randn eye linspace mm bmm addmm baddbmm linear matmul embedding")
"""Their results always lie row by row."""
_ROWS_FROM_ROWS: Final = _aten(
    "cat concat stack sum mean amax amin cumsum softmax _softmax log_softmax _log_softmax layer_norm index_select gather clone empty_like "
    "zeros_like ones_like full_like"
)
"""Theirs do if those of all their operands do."""


def _computed_layout(node: Node, declared: Layout, operands: Sequence[Layout | None]) -> Layout:
    """The layout of a fresh result, from what its type tells and the layouts of the tensors that it is computed from."""
    op = op_of(node)
    if op is not None and op.category == "pointwise" and not op.operand_axes:
        return _elementwise(declared, operands)
    known = [layout for layout in operands if layout is not None]
    from_rows = node.op in _ROWS_FROM_ROWS and len(known) == len(operands) and all(map(_lies_by_rows, known))
    if node.op in _ROWS or from_rows:
        return Layout(declared.shape, loose(declared.shape, row_major(declared.shape)), 0, declared.dtype)
    return declared


def _lies_by_rows(layout: Layout) -> bool:
    """Whether it lies row by row without gaps, whatever its names stand for."""
    return layout.strides is not None and lies_in_order(layout.shape, layout.strides, range(len(layout.shape)))


def _elementwise(declared: Layout, operands: Sequence[Layout | None]) -> Layout:
    known = [layout for layout in operands if layout is not None]
    shape = _broadcast(declared.shape, [layout.shape for layout in known]) if len(known) == len(operands) else declared.shape
    strides: tuple[Num, ...] | None = declared.strides
    if strides is None and len(known) == len(operands) and known:
        if all(map(_lies_by_rows, known)):
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
