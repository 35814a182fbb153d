"""Layouts of results in fresh memory: from their types, from type rules, or from what always holds for such ops.

With symbolic extents, only what holds in torch 2.13 for all extents is used: an elementwise op over operands that are all laid out
row by row has a result that is, and over one dense operand a result of the same strides (`TensorIterator`); some ops always
allocate row by row, others do if their operands are laid out so. An axis of one index may have any stride in each case; no
conclusion relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from irscope.analysis.views.facts import Facts, has_numbers, is_complex
from irscope.errors import ArgumentError
from irscope.ir import NOT_CONSTANT, Node, TensorType, Value
from irscope.ops.registry import op_of, schema_of
from irscope.ops.traits import ROW_MAJOR_FROM_ROWS, ROW_MAJOR_RESULT
from irscope.ops.typing import SLIPS, Unknown, like_strides, static_shape
from irscope.ops.view_steps import ANY_STRIDE, Extent, Layout, Num, lies_in_order, loose, make_layout, row_major

__all__ = ["FreshLayouts"]


class FreshLayouts:
    """Computes the layouts of results in fresh memory."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def computed(self, node: Node, value: Value) -> Layout | None:
        """The layout of a fresh result."""
        declared = self._facts.declared(value, 0)
        if declared is not None and declared.dtype is not None and has_numbers(declared):
            if 1 not in declared.shape or getattr(value.type, "strides", None) is not None:
                return declared
            return self._facts.shared(replace(declared, strides=self._unless_marked(node, declared.shape, declared.strides or ())))
        operands = [self._facts.of[v].layout if v in self._facts.of else None for v in self._facts.tensors_of(node)]
        if operands and all(layout is not None and has_numbers(layout) for layout in operands):
            type = self._by_type_rule(node, self._fact)
            if type is not None and type.shape is not None and type.strides is not None:
                strides = type.strides if 1 not in type.shape else self._unless_marked(node, static_shape(type) or (), type.strides)
                return self._facts.shared(make_layout(type.shape, strides, 0, type.dtype))
            return declared
        if declared is None:
            return None
        return self._facts.shared(_computed_layout(node, declared, operands))

    def _unless_marked(self, node: Node, shape: tuple[Num, ...], strides: tuple[Num, ...]) -> tuple[Num, ...]:
        """The strides of a result, except for axes of one index whose stride differs if an operand is marked as a conjugate or
        as negated: torch computes such an operand first, in memory of its own."""
        operands = list(self._facts.tensors_of(node))
        if not any(map(self._may_be_marked, operands)):
            return strides
        layouts = [self._facts.of[value].layout if value in self._facts.of else None for value in operands]
        if not all(layout is not None and has_numbers(layout) for layout in layouts):
            return loose(shape, strides)
        type = self._by_type_rule(node, self._computed_fact)
        if type is None or type.strides is None:  # not elementwise: it allocates as it always does
            return strides
        if all(value in self._facts.conjugated for value in operands if self._may_be_marked(value)):
            return type.strides
        return tuple([one if one == other else ANY_STRIDE for one, other in zip(strides, type.strides, strict=True)])

    def _may_be_marked(self, value: Value) -> bool:
        layout = self._facts.of[value].layout if value in self._facts.of else None
        return value in self._facts.negated or (layout is not None and is_complex(layout) and value not in self._facts.plain)

    def _computed_fact(self, value: Value) -> Any:
        """The fact passed to a type rule for an operand that torch computes first."""
        found = self._fact(value)
        if isinstance(found, TensorType) and found.strides is not None and self._may_be_marked(value):
            return replace(found, strides=like_strides(found.shape, found.strides))  # type: ignore[arg-type]
        return found

    def _by_type_rule(self, node: Node, fact: Callable[[Value], Any]) -> TensorType | None:
        """The result of the op's type rule with the more precise facts known here; None without static shape and strides."""
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
        """The fact passed to a type rule for an operand."""
        layout = self._facts.of[value].layout if value in self._facts.of else None
        if layout is not None:
            return TensorType(layout.dtype, layout.shape, layout.strides, self._facts.device_of(value))  # type: ignore[arg-type]
        known = self._facts.argument(value)
        return Unknown(value.type) if known is NOT_CONSTANT or isinstance(known, Extent) else known


def _computed_layout(node: Node, declared: Layout, operands: Sequence[Layout | None]) -> Layout:
    """The layout of a fresh result, from its type and the layouts of the tensors that it is computed from."""
    op = op_of(node)
    if op is not None and op.category == "pointwise" and not op.operand_axes:
        return _elementwise(declared, operands)
    known = [layout for layout in operands if layout is not None]
    from_rows = node.op in ROW_MAJOR_FROM_ROWS and len(known) == len(operands) and all(map(_lies_by_rows, known))
    if node.op in ROW_MAJOR_RESULT or from_rows:
        return Layout(declared.shape, loose(declared.shape, row_major(declared.shape)), 0, declared.dtype)
    return declared


def _lies_by_rows(layout: Layout) -> bool:
    """Whether it is laid out row by row without gaps, for all values of its names."""
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
    """The extents of the result; those that its type leaves open are taken from the operands if these agree."""
    result = list(declared)
    for back in range(1, len(declared) + 1):
        if isinstance(declared[-back], int):
            continue
        sizes = {shape[-back] for shape in shapes if len(shape) >= back and shape[-back] != 1}
        if len(sizes) == 1:
            result[-back] = sizes.pop()
    return tuple(result)
