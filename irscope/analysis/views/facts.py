"""Facts about operands and declared types during a walk over a program: numbers, lists of numbers, layouts of tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from irscope.analysis.shapes import Shapes
from irscope.analysis.views.placement import Placement
from irscope.analysis.views.scalars import number_of
from irscope.ir import (
    INT,
    NOT_CONSTANT,
    Dim,
    Graph,
    ListType,
    Node,
    OptionalType,
    TensorType,
    Type,
    Value,
    erase_refinements,
)
from irscope.ops.registry import schema_of
from irscope.ops.traits import UNPACKS
from irscope.ops.view_steps import Extent, Layout, Num, make_layout, row_major

__all__ = ["Facts", "has_numbers", "is_complex", "is_tensor"]


class Facts:
    """The facts known so far."""

    def __init__(self, graph: Graph, shapes: Shapes, *, rows: bool, unmarked: bool) -> None:
        self.graph = graph
        self.shapes = shapes
        self._rows = rows or bool(graph.functional)
        """Whether tensors that exist before the run are laid out row by row unless their types say otherwise."""
        self.unmarked = unmarked
        """Whether no tensor that exists before the run is marked as a conjugate or as negated."""
        self.of: dict[Value, Placement] = {}
        self._known: dict[Value, Any] = {}
        self._numbers: dict[Value, Any] = {}
        """Whole numbers that are tensors, as traces have them."""
        self.negated: set[Value] = set()
        """Tensors that torch may have marked as negated (parts of conjugates); an op that declares no view computes them first."""
        self.plain: set[Value] = set()
        """Complex tensors that are certainly not marked as conjugates."""
        self.conjugated: set[Value] = set()
        """Complex tensors that certainly are marked as conjugates."""
        self.not_as_typed: Collection[Value] = ()
        """Values whose layout may differ from their types, because another layout is demanded of a value they depend on."""
        self._declared_layouts: dict[tuple[Any, ...], Layout] = {}
        self._layouts: dict[Layout, Layout] = {}
        self.reshaped = shapes.reshaped
        self._written_lists = shapes.written_lists

    def declared(self, value: Value, offset: Num | None) -> Layout | None:
        """The layout that the type declares; if `_rows` is set, values that no node produces default to row by row."""
        type = self.shapes.type(value)
        if isinstance(type, OptionalType):
            type = type.element
        if not isinstance(type, TensorType) or type.shape is None or value in self.reshaped:
            return None
        shape = self._extents(value, type.shape)
        strides: tuple[Num, ...] | None = type.strides if value not in self.not_as_typed else None
        if strides is None and self._rows and value not in self.graph.producer:
            strides = row_major(shape)
        key = shape, strides, offset, type.dtype
        found = self._declared_layouts.get(key)
        if found is None:
            found = self._declared_layouts[key] = self.shared(make_layout(shape, strides, offset, type.dtype))
        return found

    def shared(self, layout: Layout) -> Layout:
        """The interned layout, one object for all equal ones."""
        return self._layouts.setdefault(layout, layout)

    def _extents(self, value: Value, shape: tuple[Dim, ...]) -> tuple[Num, ...]:
        if _WHOLE.issuperset(map(type, shape)):
            return shape  # type: ignore[return-value]
        name = f"%{self.graph.names[value]}"
        return tuple(
            dim if isinstance(dim, int) else Extent.of(dim or f"size({name}, {axis})") for axis, dim in enumerate(shape)
        )

    def note_number(self, node: Node) -> None:
        """Record integers that a node computes, by name if they are not known."""
        if len(node.outputs) > 1:
            items = self.argument(node.inputs[0]) if node.op in UNPACKS else NOT_CONSTANT
            if isinstance(items, tuple) and len(items) == len(node.outputs):
                self._known.update(zip(node.outputs, items, strict=True))
            return
        (output,) = node.outputs
        found = NOT_CONSTANT if is_tensor(output.type) else self.shapes.known(output)
        if found is NOT_CONSTANT and self.is_trusted(output):
            operand = [self.argument(value) for value in node.inputs]
            found = number_of(node, operand.__getitem__, f"%{self.graph.names[output]}")
        if is_tensor(output.type):
            self._numbers[output] = found
        else:
            self._known[output] = found

    def is_trusted(self, value: Value) -> bool:
        """Whether a value keeps its initial contents: it is not a list that some op may write."""
        if not isinstance(value.type, ListType):
            return True
        return self._written_lists is not None and erase_refinements(value.type) not in self._written_lists

    def device_of(self, value: Value) -> str | None:
        type = self.shapes.type(value)
        return type.device if isinstance(type, TensorType) else None

    def arguments_of(self, node: Node) -> dict[str, Any] | None:
        schema = schema_of(node)
        if schema is None:
            return None
        inputs = node.inputs
        return {
            argument.name: self.argument(inputs[index]) if index < len(inputs) else argument.default
            for index, argument in enumerate(schema.arguments)
            if index
        }

    def argument(self, value: Value) -> Any:
        """The known value of an operand: a number, a list of numbers, a tensor by its layout; else NOT_CONSTANT."""
        known = self._known
        if value in known:
            return known[value]
        found: Any
        if value in self._numbers:
            return self._numbers[value]
        if is_tensor(value.type):
            placement = self.of.get(value)
            found = _Another(placement.layout if placement else None, self.device_of(value))
        else:
            found = self.shapes.known(value)
            if found is NOT_CONSTANT and value.type == INT:
                found = Extent.of(f"~%{self.graph.names[value]}")
        known[value] = found
        return found

    def tensors_of(self, node: Node) -> Iterator[Value]:
        """The tensors that a node computes from, including those in its list operands."""
        for value in node.inputs:
            if is_tensor(value.type):
                yield value
            elif isinstance(value.type, ListType) and is_tensor(value.type.element):
                producer = self.graph.producer.get(value)
                if producer is None or producer.op != "prim::ListConstruct":
                    yield value
                else:
                    yield from producer.inputs


_WHOLE: Final = frozenset({int})


class _Another:
    """A tensor among the arguments of a view op."""

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, layout: Layout | None, device: str | None) -> None:
        self.shape = None if layout is None else layout.shape
        self.dtype = None if layout is None else layout.dtype
        self.device = device


def has_numbers(layout: Layout) -> bool:
    """Whether extents and strides are all numbers."""
    return layout.strides is not None and _WHOLE.issuperset(map(type, (*layout.shape, *layout.strides)))


def is_complex(layout: Layout) -> bool:
    return layout.dtype is not None and layout.dtype.startswith("complex")


def is_tensor(type: Type) -> bool:
    """Whether a type is a tensor or an optional tensor."""
    return type.__class__ is TensorType or (isinstance(type, OptionalType) and isinstance(type.element, TensorType))
