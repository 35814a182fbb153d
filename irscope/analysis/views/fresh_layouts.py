"""How the results of ops lie that compute: by their types, by the rules of their types, or by what always holds of such ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from irscope.analysis.views.computed_layouts import computed_layout
from irscope.analysis.views.facts import Facts, has_numbers
from irscope.analysis.views.layout import Layout, make_layout
from irscope.analysis.views.strided_steps import ANY_STRIDE, loose
from irscope.errors import ArgumentError
from irscope.ir import NOT_CONSTANT, Node, TensorType, Value
from irscope.ops.registry import op_of, schema_of
from irscope.ops.typing import Unknown, like_strides, static_shape
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
        return self._one(computed_layout(node, declared, operands))

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
        return tuple([one if one == other else ANY_STRIDE for one, other in zip(strides, type.strides, strict=True)])

    def _may_be_marked(self, value: Value) -> bool:
        layout = self.of[value].layout if value in self.of else None
        return value in self._negated or (layout is not None and (layout.dtype or "").startswith("complex"))

    def _computed_fact(self, value: Value) -> Any:
        """What a type rule is given of an operand that torch computes first."""
        found = self._fact(value)
        if isinstance(found, TensorType) and found.strides is not None:
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
        except (ArgumentError, TypeError, ValueError, AttributeError, LookupError):
            return None
        return found if isinstance(found, TensorType) and static_shape(found) is not None and found.strides is not None else None

    def _fact(self, value: Value) -> Any:
        """What a type rule is given of an operand."""
        layout = self.of[value].layout if value in self.of else None
        if layout is not None:
            return TensorType(layout.dtype, layout.shape, layout.strides, self._device(value))  # type: ignore[arg-type]
        known = self._argument(value)
        return Unknown(value.type) if known is NOT_CONSTANT or isinstance(known, Extent) else known
