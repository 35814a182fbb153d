"""One walk over a program that says of each tensor in which buffer it lies, and how.

* **A view op** of which the steps are known puts its result where the steps lead from its operand's layout.
* **An in-place op** gives back its operand.
* **An op that shares memory by its schema**, and of which no more is known, leaves open where the result lies.
* **Every other op** with a schema makes new buffers; where none tells of results (`prim::ConstantChunk`) it is open where
  they lie.
* **An if** gives what both branches give, where that is the same buffer; a carried value of a loop that every round hands on is
  what it was before the loop; of others it is open where they lie.
* **A group** is its block on its operands. Anything else with a block, and an op that nobody knows, leaves all open.
* **Containers.** The items of tuples are followed, and those of lists whose type no node of the program writes.
* **Tensors whose shape or storage some op changes** (`resize_`, `t_`, `set_`, `out=`) are left open under all their names.

"Open" is safe: it answers every question about sharing with "maybe". So is a layout that is not known.

What an op does to a layout is worked out once for each layout and arguments, so that equal layouts are mostly one object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from irscope.analysis.shapes import Shapes
from irscope.analysis.views.computed_layouts import computed_layout
from irscope.analysis.views.demand import Demand
from irscope.analysis.views.layout import Layout, make_layout
from irscope.analysis.views.placement import Failure, Kind, Origin, Placement
from irscope.analysis.views.scalars import is_whole_list, number_of
from irscope.analysis.views.strided_steps import ANY_STRIDE, Failed, Undecided, apply, loose, row_major
from irscope.errors import ArgumentError
from irscope.ir import (
    GROUPS,
    INT,
    NOT_CONSTANT,
    Dim,
    Graph,
    ListType,
    Node,
    OpSchema,
    OptionalType,
    PrimitiveType,
    TensorType,
    TupleType,
    Type,
    Value,
    erase_refinements,
    steps,
)
from irscope.ops.registry import effect_of, op_of, schema_of
from irscope.ops.traits import ALWAYS_SHARES, JOINS, KNOWN_SIDE_EFFECTS, PACKS_SEQUENCE, UNPACKS
from irscope.ops.typing import Unknown, like_strides, static_shape
from irscope.ops.view_steps import FRESH, Extent, Lowered, Num, Steps, could_be_steps, is_lowered, lower

__all__ = ["Placements", "is_tensor"]

Items = tuple[Placement, ...]
"""What a list or tuple holds."""


class _Result(NamedTuple):
    """What a view op does to one layout."""

    layout: Layout | None
    is_view: bool
    is_decided: bool
    failure: Failure | None


_OPEN: Final = Placement("view", None, "open", None, is_decided=False)

_SAME_VALUE: Final = frozenset({"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional"})


class Placements:
    """Where every tensor of a graph lies."""

    def __init__(
        self, graph: Graph, shapes: Shapes, *, demands: Mapping[Value, Demand] | None = None, rows: bool = False, by_flags: bool = False
    ) -> None:
        self.graph = graph
        self.shapes = shapes
        self._demands = demands or {}
        self._rows = rows or bool(graph.functional)
        """Whether what was there before the run lies row by row where nothing else is said."""
        self._by_flags = by_flags
        """Whether of what was there before only the order of the axes and their flags are believed."""
        self.of: dict[Value, Placement] = {}
        self.wanders: set[Value] = set()
        """Values in loops of which it is open where they lie: each round, they may lie elsewhere in the same buffer."""
        self._negated: set[Value] = set()
        """Tensors that torch may have marked as negated, parts of conjugates: an op that declares no view computes them first."""
        self._items: dict[Value, Items] = {}
        self._known: dict[Value, Any] = {}
        self._numbers: dict[Value, Any] = {}
        """Whole numbers that are tensors, as traces have them."""
        self._declared_layouts: dict[tuple[Any, ...], Layout] = {}
        self._layouts: dict[Layout, Layout] = {}
        self._results: dict[tuple[Any, ...], tuple[_Result, ...] | str | None] = {}
        self._kept: list[object] = []
        """What keys of `_results` name by identity."""
        self._reshaped = shapes.reshaped
        self._written_lists = shapes.written_lists
        self._loops = 0
        self._walk()

    # The walk

    def _walk(self) -> None:
        for value in self.graph.inputs:
            self._given(value, "input")
        for kind, node, _, _ in steps(self.graph):
            if kind == "node":
                assert node is not None
                if node.blocks:
                    self._begin(node)
                else:
                    self._node(node)
            elif kind == "done":
                assert node is not None
                self._end(node)

    def _put(self, value: Value, placement: Placement) -> None:
        if value in self._reshaped and placement.kind != "input":
            placement = _OPEN
        elif value in self._reshaped:
            placement = placement._replace(layout=None)
        layout = placement.layout
        if layout is None or layout.strides is None:
            declared = self._declared(value, None if layout is None else layout.offset)
            placement = placement._replace(layout=layout if declared is None or (declared.strides is None and layout) else declared)
        if value in self._demands:
            placement = self._demanded(value, placement)
        if placement.root is None:
            placement = placement._replace(root=value)
        if self._loops and placement.origin == "open" and placement.root is value:
            self.wanders.add(value)
        self.of[value] = placement

    def _demanded(self, value: Value, placement: Placement) -> Placement:
        """Where a value lies of which the layout is demanded: in its own buffer, if it does not lie so already."""
        demand, layout = self._demands[value], placement.layout
        if layout is None or placement.kind == "input" or len(layout.shape) != len(demand.order) or demand.is_met(layout):
            return placement
        return Placement("copy", value, "made", demand.layout(layout), placement.source, is_decided=placement.is_decided)

    def _given(self, value: Value, kind: Kind) -> None:
        if is_tensor(value.type):
            layout = self._declared(value, 0)
            if layout is not None and layout.strides is None:
                name = f"%{self.graph.names[value]}"
                strides = tuple([Extent.of(f"~stride({name}, {axis})") for axis in range(len(layout.shape))])
                layout = make_layout(layout.shape, strides, 0, layout.dtype)
            if self._by_flags and layout is not None:
                layout = by_flags(layout, f"%{self.graph.names[value]}")
            self._put(value, Placement(kind, value, "given", layout))

    def _open(self, values: tuple[Value, ...], source: Value | None = None) -> None:
        for value in values:
            if is_tensor(value.type):
                self._put(value, _OPEN._replace(source=source))

    def _made(self, node: Node) -> None:
        for value in node.outputs:
            if is_tensor(value.type):
                self._put(value, Placement("copy", value, "made", self._computed(node, value)))

    def _computed(self, node: Node, value: Value) -> Layout | None:
        """The layout of a fresh result."""
        declared = self._declared(value, 0)
        if declared is not None and declared.dtype is not None and _has_numbers(declared):
            if 1 not in declared.shape or getattr(value.type, "strides", None) is not None:
                return declared
            return self._one(replace(declared, strides=self._unless_marked(node, declared.shape, declared.strides or ())))
        operands = [self.of[v].layout if v in self.of else None for v in self._tensors_of(node)]
        if operands and all(layout is not None and _has_numbers(layout) for layout in operands):
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
        if not all(layout is not None and _has_numbers(layout) for layout in layouts):
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

    def _tensors_of(self, node: Node) -> Iterator[Value]:
        """The tensors that it computes from, those in lists that it is given among them."""
        for value in node.inputs:
            if is_tensor(value.type):
                yield value
            elif isinstance(value.type, ListType) and is_tensor(value.type.element):
                producer = self.graph.producer.get(value)
                if producer is None or producer.op != "prim::ListConstruct":
                    yield value
                else:
                    yield from producer.inputs

    def _declared(self, value: Value, offset: Num | None) -> Layout | None:
        """The layout that the type tells; of a program without memory, rows lie one behind the other."""
        type = self.shapes.type(value)
        if isinstance(type, OptionalType):
            type = type.element
        if not isinstance(type, TensorType) or type.shape is None or value in self._reshaped:
            return None
        shape = self._extents(value, type.shape)
        strides: tuple[Num, ...] | None = type.strides
        if strides is None and self._rows and value not in self.graph.producer:
            strides = row_major(shape)
        key = shape, strides, offset, type.dtype
        found = self._declared_layouts.get(key)
        if found is None:
            found = self._declared_layouts[key] = self._one(make_layout(shape, strides, offset, type.dtype))
        return found

    def _one(self, layout: Layout) -> Layout:
        """The one object for all equal layouts."""
        return self._layouts.setdefault(layout, layout)

    def _extents(self, value: Value, shape: tuple[Dim, ...]) -> tuple[Num, ...]:
        if all(dim.__class__ is int for dim in shape):
            return shape  # type: ignore[return-value]
        name = f"%{self.graph.names[value]}"
        return tuple(
            dim if isinstance(dim, int) else Extent.of(dim or f"size({name}, {axis})") for axis, dim in enumerate(shape)
        )

    # Nodes without blocks

    def _node(self, node: Node) -> None:
        op, outputs = node.op, node.outputs
        if op == "prim::Constant":
            for value in outputs:
                self._given(value, "input")
            return
        if not outputs:
            return
        if outputs[0].type == INT or is_whole_list(outputs[0].type) or op in _NUMBER_TENSORS:
            self._number(node)
        if not any(_may_hold(value.type) for value in outputs):
            return
        if op in PACKS_SEQUENCE:
            self._items[outputs[0]] = tuple(self.of.get(value, _OPEN) for value in node.inputs)
        elif op in UNPACKS:
            self._unpack(node)
        elif op in _SAME_VALUE:
            self._pass_on(node.inputs[0], outputs[0])
        elif op in _PICKS and len(node.inputs) == 2:
            self._pick(node)
        elif is_lowered(op):
            self._view(node)
        else:
            self._other(node)

    def _number(self, node: Node) -> None:
        """Take note of whole numbers, by name where they are not known."""
        if len(node.outputs) > 1:
            items = self._argument(node.inputs[0]) if node.op in UNPACKS else NOT_CONSTANT
            if isinstance(items, tuple) and len(items) == len(node.outputs):
                self._known.update(zip(node.outputs, items, strict=True))
            return
        (output,) = node.outputs
        found = NOT_CONSTANT if is_tensor(output.type) else self.shapes.known(output)
        if found is NOT_CONSTANT and self._is_trusted(output):
            operand = [self._argument(value) for value in node.inputs]
            found = number_of(node, operand.__getitem__, f"%{self.graph.names[output]}")
        if is_tensor(output.type):
            self._numbers[output] = found
        else:
            self._known[output] = found

    def _is_trusted(self, value: Value) -> bool:
        """Whether it holds for good what it was made of: it is no list that some op may write."""
        if not isinstance(value.type, ListType):
            return True
        return self._written_lists is not None and erase_refinements(value.type) not in self._written_lists

    def _pass_on(self, old: Value, new: Value) -> None:
        if old in self._items:
            self._items[new] = self._items[old]
        if is_tensor(new.type):
            self._put(new, self.of[old]._replace(source=old) if old in self.of else _OPEN)

    def _trusted_items(self, container: Value) -> Items | None:
        return self._items.get(container) if self._is_trusted(container) else None

    def _unpack(self, node: Node) -> None:
        items = self._trusted_items(node.inputs[0])
        if items is None or len(items) != len(node.outputs):
            self._open(node.outputs)
            return
        for value, item in zip(node.outputs, items, strict=True):
            if is_tensor(value.type):
                self._put(value, item)
                if item.source in self._negated and item.kind == "view":
                    self._negated.add(value)

    def _pick(self, node: Node) -> None:
        items, index = self._trusted_items(node.inputs[0]), self._argument(node.inputs[1])
        (value,) = node.outputs
        if items is not None and isinstance(index, int) and -len(items) <= index < len(items) and is_tensor(value.type):
            self._put(value, items[index])
        else:
            self._open(node.outputs)

    def _other(self, node: Node) -> None:
        """An op without steps: its schema says whether results are operands, share with them, or are new."""
        schema, effect = schema_of(node), effect_of(node)
        if schema is None or schema.is_varret or (effect == "opaque" and node.op not in KNOWN_SIDE_EFFECTS):
            self._open(node.outputs)
        elif effect == "pure" and all(_is_told(result.type) for result in schema.returns):
            self._made(node)
        else:
            self._by_schema(node, schema)

    def _by_schema(self, node: Node, schema: OpSchema) -> None:
        for index, value in enumerate(node.outputs):
            result = schema.returns[index] if index < len(schema.returns) else None
            if not is_tensor(value.type):
                continue
            if result is None or not _is_told(result.type):
                self._open((value,))
            elif result.alias is None:
                self._put(value, Placement("copy", value, "made", self._computed(node, value)))
            else:
                written = _written_operand(node, schema, result.alias.before)
                if written is not None and written in self.of:
                    self._put(value, self.of[written]._replace(kind="view", source=written, in_place=True))
                else:
                    self._open((value,), node.inputs[0] if node.inputs else None)

    # View ops

    def _view(self, node: Node) -> None:
        source = node.inputs[0] if node.inputs else None
        operand = None if source is None else self.of.get(source)
        if source is None or operand is None or operand.layout is None or (source in self._negated and node.op in _DECLARE_NO_VIEW):
            self._without_layout(node)
            return
        results = self._results_of(node, operand)
        if results is None:
            self._without_layout(node)
        elif isinstance(results, str):
            self._made(node)
        elif node.outputs[0].type.__class__ is ListType:
            self._items[node.outputs[0]] = tuple(_placed(result, operand, source) for result in results)
        else:
            self._put(node.outputs[0], _placed(results[0], operand, source))
            if (node.op in _NEGATES or source in self._negated) and results[0].is_view:
                self._negated.add(node.outputs[0])

    def _without_layout(self, node: Node) -> None:
        """A view op of which only the schema is known: a view of all or of a part, if it is not a copy."""
        schema = schema_of(node)
        source = node.inputs[0] if node.inputs else None
        operand = None if source is None else self.of.get(source)
        if operand is not None and node.op in ALWAYS_SHARES and is_tensor(node.outputs[0].type):
            self._put(node.outputs[0], operand._replace(kind="view", layout=None, source=source, in_place=False, failure=None))
        elif schema is not None and all(result.alias is None for result in schema.returns):
            self._made(node)
        else:
            self._open(node.outputs, source)

    def _results_of(self, node: Node, operand: Placement) -> tuple[_Result, ...] | str | None:
        layout = operand.layout
        assert layout is not None
        form = None if node.op in _TAKES_ANOTHER else self.shapes.form(node)
        key: tuple[Any, ...]
        if form is not None:
            key = (id(form), id(layout))
            if key in self._results:
                return self._results[key]
        named = self._arguments(node)
        if named is None:
            return None
        if form is None:
            key = (node.op, id(layout), *map(_frozen, named.items()))
            if key in self._results:
                return self._results[key]
        device = self._device(node.inputs[0]) if node.op in _ASKS_DEVICE else None
        lowered = lower(node.op, layout.shape, layout.dtype, device, named)
        if node.op in _BY_STORAGE or node.op in _ASKS_DEVICE:
            return self._after(lowered, layout, self._base(operand))
        results = self._after(lowered, layout, None)
        if isinstance(results, tuple):
            results = tuple([each if each.layout is None else each._replace(layout=self._one(each.layout)) for each in results])
        self._results[key] = results
        self._kept.append(named)
        return results

    def outcome(self, node: Node, layout: Layout, index: int) -> tuple[Layout | None, bool]:
        """The layout of one result of a view op for an operand of this layout, and whether it is a view."""
        named = self._arguments(node) if is_lowered(node.op) and node.op not in _BY_STORAGE else None
        if named is None:
            return None, False
        device = self._device(node.inputs[0]) if node.op in _ASKS_DEVICE else None
        results = self._after(lower(node.op, layout.shape, layout.dtype, device, named), layout, None)
        if not isinstance(results, tuple) or index >= len(results):
            return None, False
        return results[index].layout, results[index].is_view

    def _after(self, lowered: Lowered, layout: Layout, base: Num | None) -> tuple[_Result, ...] | str | None:
        if lowered is None or lowered is FRESH:
            return lowered
        return tuple([after(each, layout, base) for each in lowered if not isinstance(each, str)])

    def _base(self, operand: Placement) -> Num | None:
        """Where the root's first element lies in its storage, in bytes."""
        if operand.origin == "made":
            return 0
        return None if operand.origin == "open" else Extent.of(f"first_byte(%{self.graph.names[operand.root]})")  # type: ignore[index]

    def _device(self, value: Value) -> str | None:
        type = self.shapes.type(value)
        return type.device if isinstance(type, TensorType) else None

    def _arguments(self, node: Node) -> dict[str, Any] | None:
        schema = schema_of(node)
        if schema is None:
            return None
        inputs = node.inputs
        return {
            argument.name: self._argument(inputs[index]) if index < len(inputs) else argument.default
            for index, argument in enumerate(schema.arguments)
            if index
        }

    def _argument(self, value: Value) -> Any:
        """What is known of an operand: a number, a list of numbers, a tensor by its layout; else NOT_CONSTANT."""
        known = self._known
        if value in known:
            return known[value]
        found: Any
        if value in self._numbers:
            return self._numbers[value]
        if is_tensor(value.type):
            placement = self.of.get(value)
            found = _Another(placement.layout if placement else None, self._device(value))
        else:
            found = self.shapes.known(value)
            if found is NOT_CONSTANT and value.type == INT:
                found = Extent.of(f"~%{self.graph.names[value]}")
        known[value] = found
        return found

    def possible_view(self, value: Value) -> tuple[Value, Layout] | None:
        """The value of which a copy could be a view, and how it would lie in the buffer of that one's root; None of most."""
        node = self.graph.producer.get(value)
        if node is None or not node.inputs:
            return None
        if node.op in JOINS:
            return self._side_by_side(node)
        operand, named = self.of.get(node.inputs[0]), self._arguments(node)
        if operand is None or operand.layout is None or named is None:
            return None
        found = could_be_steps(node.op, operand.layout.shape, named)
        result = None if found is None else after(found, operand.layout, None)
        return None if result is None or result.layout is None else (node.inputs[0], result.layout)

    def _side_by_side(self, node: Node) -> tuple[Value, Layout] | None:
        """Where parts that are joined lie one behind the other already, along the very axis that they are joined along."""
        parts = list(self._tensors_of(node))
        axis, placements = self._argument(node.inputs[1]) if len(node.inputs) > 1 else 0, [self.of.get(part) for part in parts]
        layouts = [placement.layout for placement in placements if placement is not None and placement.layout is not None]
        if node.op == "aten::stack" or len(layouts) != len(parts) or not layouts or not isinstance(axis, int):
            return None
        first, root = layouts[0], self.of[parts[0]].root
        axis %= max(len(first.shape), 1)
        if not all(layout.is_known for layout in layouts) or any(self.of[part].root is not root for part in parts):
            return None
        length: Any = 0
        for layout in layouts:
            past = _past(first, axis, length)
            rest = layout.shape[:axis] + layout.shape[axis + 1 :]
            if layout.strides != first.strides or layout.offset != past or rest != first.shape[:axis] + first.shape[axis + 1 :]:
                return None
            length += layout.shape[axis]
        shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
        return parts[0], make_layout(shape, first.strides, first.offset, first.dtype)

    # Nodes with blocks

    def _begin(self, node: Node) -> None:
        if node.op == "prim::Loop":
            self._loops += 1
            block = node.blocks[0]
            for index, (param, value) in enumerate(zip(block.params[1:], node.inputs[2:], strict=True)):
                if self._is_handed_on(block.returns[index + 1], param):
                    self._pass_on(value, param)
                elif is_tensor(param.type):
                    self._put(param, _OPEN)
        elif node.op in GROUPS and len(node.blocks) == 1 and len(node.blocks[0].params) == len(node.inputs):
            for param, value in zip(node.blocks[0].params, node.inputs, strict=True):
                self._pass_on(value, param)
        else:
            for block in node.blocks:
                self._open(block.params)

    def _is_handed_on(self, value: Value, param: Value) -> bool:
        """Whether a carried value is the very tensor that the round began with, after writes at most."""
        while value is not param:
            node = self.graph.producer.get(value)
            schema = None if node is None or node.blocks else schema_of(node)
            if node is None or schema is None or not schema.returns or schema.returns[0].alias is None:
                return False
            written = _written_operand(node, schema, schema.returns[0].alias.before)
            if written is None or value is not node.outputs[0]:
                return False
            value = written
        return True

    def _end(self, node: Node) -> None:
        if node.op == "prim::Loop":
            self._loops -= 1
            block = node.blocks[0]
            for output, param, value in zip(node.outputs, block.params[1:], node.inputs[2:], strict=True):
                if self._is_handed_on(block.returns[1:][node.outputs.index(output)], param):
                    self._pass_on(value, output)
                else:
                    self._open((output,))
        elif node.op == "prim::If":
            for output, *given in zip(node.outputs, *[block.returns for block in node.blocks], strict=True):
                reached = [v for v, block in zip(given, node.blocks, strict=True) if block not in self.shapes.unreached]
                self._join(output, reached or given)
        elif node.op in GROUPS and len(node.blocks) == 1 and len(node.blocks[0].returns) == len(node.outputs):
            for output, value in zip(node.outputs, node.blocks[0].returns, strict=True):
                self._pass_on(value, output)
        else:
            self._open(node.outputs)

    def _join(self, output: Value, given: list[Value]) -> None:
        """Where the value lies that is either the one or the other."""
        if len(given) == 1:
            self._pass_on(given[0], output)
            return
        if not is_tensor(output.type):
            return
        one, *others = [self.of.get(value, _OPEN) for value in given]
        if one.root is None or any(other.root is not one.root for other in others):
            self._open((output,))
            return
        same = all(other.layout == one.layout for other in others)
        layout = one.layout if same else None
        decided = all(each.is_decided for each in (one, *others))
        self._put(output, Placement("view", one.root, one.origin, layout, given[0], is_decided=decided))


class _Another:
    """A tensor among the arguments of a view op."""

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, layout: Layout | None, device: str | None) -> None:
        self.shape = None if layout is None else layout.shape
        self.dtype = None if layout is None else layout.dtype
        self.device = device


_NUMBER_TENSORS: Final = frozenset({"prim::NumToTensor"})
_PICKS: Final = frozenset({"aten::__getitem__", "prim::TupleIndex"})
_TAKES_ANOTHER: Final = frozenset({"aten::expand_as", "aten::reshape_as", "aten::view_as", "aten::to", "aten::type_as", "aten::as_strided"})
"""Ops of which the result depends on more than one layout and known numbers."""
_ASKS_DEVICE: Final = frozenset({"aten::to", "aten::type_as", "aten::cpu"})
_NEGATES: Final = frozenset({"aten::imag", "aten::_neg_view"})
_DECLARE_NO_VIEW: Final = frozenset({"aten::unsafe_chunk", "aten::unsafe_split", "aten::unsafe_split_with_sizes"})
_BY_STORAGE: Final = frozenset({"aten::as_strided"})


def after(lowered: Steps, layout: Layout, base: Num | None) -> _Result:
    """What a list of steps makes of a layout."""
    is_view, is_decided, failure = True, True, None
    here: Layout = layout
    for step in lowered:
        outcome = apply(step, here, base)
        if isinstance(outcome, Layout):
            here = outcome
            continue
        failure = failure or Failure(step, here, outcome)
        if isinstance(outcome, Failed):
            return _Result(None, True, False, failure)
        if isinstance(outcome, Undecided):
            is_decided = False
        is_view, here, base = False, outcome.layout, 0
    return _Result(here, is_view, is_decided, failure)


def _placed(result: _Result, operand: Placement, source: Value) -> Placement:
    if result.is_view:
        return Placement(
            "view", operand.root, operand.origin, result.layout, source, False, operand.is_decided and result.is_decided, result.failure
        )
    origin: Origin = "made" if result.is_decided else "open"
    layout = result.layout
    if layout is not None and not result.is_decided:
        layout = make_layout(layout.shape, layout.strides, 0, layout.dtype)
    return Placement("copy", None, origin, layout, source, False, result.is_decided, result.failure)


def _has_numbers(layout: Layout) -> bool:
    return layout.strides is not None and all(isinstance(n, int) for n in (*layout.shape, *layout.strides))


def _past(layout: Layout, axis: int, length: int) -> Num | None:
    """Where the element lies that is so many indices along an axis."""
    if layout.strides is None or layout.offset is None or layout.item_size is None:
        return None
    return layout.offset + layout.strides[axis] * length * layout.item_size


def by_flags(layout: Layout, name: str) -> Layout:
    """A layout of which only the order of the axes and their flags are known: a gap is a number with a name."""
    if layout.strides is None:
        return layout
    strides, past = list(layout.strides), cast(Num, 1)
    for axis, flag in zip(reversed(layout.order), reversed(layout.flags), strict=True):
        if flag in ("contiguous", "gap"):
            strides[axis] = past if flag == "contiguous" else Extent.of(f"~stride({name}, {axis})")
            past = strides[axis] * layout.shape[axis]
    return make_layout(layout.shape, loose(layout.shape, strides), layout.offset, layout.dtype)


def _is_told(type: Type) -> bool:
    """Whether a schema tells what a result is. One that says `Any` or `t` may well give back an operand, or a part of one."""
    return not (isinstance(type, PrimitiveType) and type.name in ("Any", "t"))


def is_tensor(type: Type) -> bool:
    """Whether it is a tensor, or may be none."""
    return type.__class__ is TensorType or (isinstance(type, OptionalType) and isinstance(type.element, TensorType))


def _may_hold(type: Type) -> bool:
    return is_tensor(type) or isinstance(type, ListType | TupleType | OptionalType)


def _written_operand(node: Node, schema: OpSchema, sets: frozenset[str]) -> Value | None:
    """The operand that the op writes and gives back."""
    for argument, value in zip(schema.arguments, node.inputs, strict=False):
        alias = argument.alias
        if alias is not None and alias.is_write and alias.before & sets and is_tensor(value.type):
            return value
    return None


def _frozen(item: tuple[str, Any]) -> Any:
    name, argument = item
    return (name, tuple(argument)) if isinstance(argument, list) else item

