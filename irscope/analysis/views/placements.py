"""Computes the buffer and the layout of every tensor in one walk over a program.

* **A view op** with known steps places its result by applying the steps to its operand's layout.
* **An in-place op** returns its operand.
* **An op that shares memory by its schema**, without further knowledge, leaves the placement of its result open.
* **Every other op** with a schema allocates new buffers; if no schema describes the results (`prim::ConstantChunk`), their
  placement is open.
* **An if** has the placement of both branches, if that is the same buffer; a carried value of a loop that every round passes on
  keeps its placement from before the loop; others are open.
* **A group** is its block applied to its operands. Any other node with a block, and an unknown op, leaves everything open.
* **Containers.** The items of tuples are followed, and those of lists whose type no node of the program writes.
* **Tensors whose shape or storage some op changes** (`resize_`, `t_`, `set_`, `out=`) are left open under all their names.

"Open" is safe: it answers every question about sharing with "maybe". So is an unknown layout.

The effect of an op on a layout is computed once for each layout and arguments, so that equal layouts are mostly one object.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from irscope.analysis.shapes import Shapes
from irscope.analysis.views.assumed import Demand, following
from irscope.analysis.views.facts import Facts, Kind, Placement, has_numbers, is_complex, is_tensor, is_whole_list
from irscope.analysis.views.view_ops import ViewOps, placed
from irscope.errors import ArgumentError
from irscope.ir import (
    GROUPS,
    INT,
    NOT_CONSTANT,
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
    steps,
)
from irscope.ops.registry import category_of, effect_of, op_of, schema_of
from irscope.ops.traits import ALWAYS_SHARES, KNOWN_SIDE_EFFECTS, NARROWS, PACKS_SEQUENCE, ROW_MAJOR_FROM_ROWS, ROW_MAJOR_RESULT, UNPACKS
from irscope.ops.type_rules import SLIPS, Unknown, lies_in_order, like_strides, static_shape
from irscope.ops.view_steps import ANY_STRIDE, RULES, Extent, Layout, Num, loose, make_layout, row_major

# Layouts of results in fresh memory: from their types, from type rules, or from what always holds for such ops.
#
# With symbolic extents, only what holds in torch 2.13 for all extents is used: an elementwise op over operands that are all laid out
# row by row has a result that is, and over one dense operand a result of the same strides (`TensorIterator`); some ops always
# allocate row by row, others do if their operands are laid out so. An axis of one index may have any stride in each case; no
# conclusion relies on it.


class FreshLayouts:
    """Computes the layouts of results in fresh memory."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def computed(self, node: Node, value: Value) -> Layout | None:
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
        first = known[0]
        if all(map(_lies_by_rows, known)):
            strides = loose(shape, row_major(shape))
        elif _is_dense(first) and all((layout.shape, layout.strides) == (shape, first.strides) for layout in known):
            strides = first.strides
    return Layout(shape, strides, 0, declared.dtype)


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


Items = tuple[Placement, ...]
"""The items of a list or tuple."""


_OPEN: Final = Placement("view", None, "open", None, is_decided=False)


class Placements:
    """The placement of every tensor of a graph."""

    def __init__(
        self, graph: Graph, shapes: Shapes, *, demands: Mapping[Value, Demand] | None = None, rows: bool = False, by_flags: bool = False,
        assumed: Mapping[Value, Demand] | None = None, unmarked: bool = False,
    ) -> None:  # fmt: skip
        self.graph = graph
        self._facts = Facts(graph, shapes, rows=rows, unmarked=unmarked)
        self._fresh = FreshLayouts(self._facts)
        self.view_ops = ViewOps(self._facts)
        self.of: Mapping[Value, Placement] = self._facts.of
        self._demands = demands or {}
        self.assumed = assumed or {}
        """Assumed layouts of inputs whose types cannot state them, because their extents are symbolic."""
        self._by_flags = by_flags
        """Whether only the order of the axes and their flags are trusted for tensors that exist before the run."""
        self.wanders: set[Value] = set()
        """Values in loops whose placement is open: in each round they may be elsewhere in the same buffer."""
        self._items: dict[Value, Items] = {}
        self._facts.not_as_typed = set(following(graph, self._demands.keys())) - self._demands.keys() if self._demands else ()
        self._loops = 0
        self.has_loops = False
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
        if value in self._facts.reshaped and placement.kind != "input":
            placement = _OPEN
        elif value in self._facts.reshaped:
            placement = placement._replace(layout=None)
        layout = placement.layout
        if layout is None or layout.strides is None:
            declared = self._facts.declared(value, None if layout is None else layout.offset)
            placement = placement._replace(layout=layout if declared is None or (declared.strides is None and layout) else declared)
        if value in self._demands:
            placement = self._demanded(value, placement)
        if placement.root is None:
            placement = placement._replace(root=value)
        if self._loops and placement.origin == "open" and placement.root is value:
            self.wanders.add(value)
        self._facts.of[value] = placement

    def _demanded(self, value: Value, placement: Placement) -> Placement:
        """The placement of a value with a demanded layout: its own buffer, unless it has that layout already."""
        demand, layout = self._demands[value], placement.layout
        if layout is None or placement.kind == "input" or len(layout.shape) != len(demand.order) or demand.is_met(layout):
            return placement
        return Placement("copy", value, "made", demand.layout(layout), placement.source, is_decided=placement.is_decided)

    def _given(self, value: Value, kind: Kind) -> None:
        if is_tensor(value.type):
            layout = self._facts.declared(value, 0)
            if layout is not None and layout.strides is None and value in self.assumed:
                layout = self.assumed[value].layout(layout)
            if layout is not None and layout.strides is None:
                name = f"%{self.graph.names[value]}"
                strides = tuple([Extent.of(f"~stride({name}, {axis})") for axis in range(len(layout.shape))])
                layout = make_layout(layout.shape, strides, 0, layout.dtype)
            if self._by_flags and layout is not None:
                layout = by_flags(layout, f"%{self.graph.names[value]}")
            if self._facts.unmarked:
                self._facts.plain.add(value)
            self._put(value, Placement(kind, value, "given", layout))

    def _open(self, values: tuple[Value, ...], source: Value | None = None) -> None:
        for value in values:
            if is_tensor(value.type):
                self._put(value, _OPEN._replace(source=source))

    def _made(self, node: Node) -> None:
        for value in node.outputs:
            if is_tensor(value.type):
                layout = self._fresh.computed(node, value)
                if layout is not None and is_complex(layout) and category_of(node) == "pointwise":
                    self._facts.plain.add(value)  # others may end in a view of their result, as `mH` does
                self._put(value, Placement("copy", value, "made", layout))

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
            self._facts.note_number(node)
        if not any(is_tensor(value.type) or isinstance(value.type, ListType | TupleType | OptionalType) for value in outputs):
            return
        if op in PACKS_SEQUENCE:
            self._items[outputs[0]] = tuple(self.of.get(value, _OPEN) for value in node.inputs)
        elif op in UNPACKS:
            self._unpack(node)
        elif op in NARROWS:
            self._pass_on(node.inputs[0], outputs[0])
        elif op in _PICKS and len(node.inputs) == 2:
            self._pick(node)
        elif op in RULES:
            self._view(node)
        else:
            self._other(node)

    def _pass_on(self, old: Value, new: Value) -> None:
        if old in self._items:
            self._items[new] = self._items[old]
        if is_tensor(new.type):
            self._put(new, self.of[old]._replace(source=old) if old in self.of else _OPEN)
            for marked in (self._facts.plain, self._facts.conjugated, self._facts.negated):
                if old in marked:
                    marked.add(new)

    def _trusted_items(self, container: Value) -> Items | None:
        return self._items.get(container) if self._facts.is_trusted(container) else None

    def _unpack(self, node: Node) -> None:
        items = self._trusted_items(node.inputs[0])
        if items is None or len(items) != len(node.outputs):
            self._open(node.outputs)
            return
        for value, item in zip(node.outputs, items, strict=True):
            if is_tensor(value.type):
                self._put_item(value, item)

    def _put_item(self, value: Value, item: Placement) -> None:
        self._put(value, item)
        if item.source in self._facts.negated and item.kind == "view":
            self._facts.negated.add(value)
        if item.source in self._facts.plain:
            self._facts.plain.add(value)
        elif item.source in self._facts.conjugated and item.kind == "view":
            self._facts.conjugated.add(value)

    def _pick(self, node: Node) -> None:
        items, index = self._trusted_items(node.inputs[0]), self._facts.argument(node.inputs[1])
        (value,) = node.outputs
        if items is not None and isinstance(index, int) and -len(items) <= index < len(items) and is_tensor(value.type):
            self._put_item(value, items[index])
        else:
            self._open(node.outputs)

    def _other(self, node: Node) -> None:
        """Place the results of an op without steps: its schema says whether they are operands, share with them, or are new."""
        schema, effect = schema_of(node), effect_of(node)
        if schema is None or schema.is_varret or (effect == "opaque" and node.op not in KNOWN_SIDE_EFFECTS):
            self._open(node.outputs)
        elif effect == "pure" and all(_is_specific(result.type) for result in schema.returns):
            self._made(node)
        else:
            self._by_schema(node, schema)

    def _by_schema(self, node: Node, schema: OpSchema) -> None:
        for index, value in enumerate(node.outputs):
            result = schema.returns[index] if index < len(schema.returns) else None
            if not is_tensor(value.type):
                continue
            if result is None or not _is_specific(result.type):
                self._open((value,))
            elif result.alias is None:
                self._put(value, Placement("copy", value, "made", self._fresh.computed(node, value)))
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
        if source is None or operand is None or operand.layout is None or (source in self._facts.negated and node.op in _DECLARE_NO_VIEW):
            self._without_layout(node)
            return
        results = self.view_ops.results_of(node, operand)
        if results is None:
            self._without_layout(node)
        elif isinstance(results, str):
            self._made(node)
        elif node.outputs[0].type.__class__ is ListType:
            self._items[node.outputs[0]] = tuple(placed(result, operand, source) for result in results)
        else:
            self._put(node.outputs[0], placed(results[0], operand, source))
            negates = node.op == "aten::_neg_view" or (node.op == "aten::imag" and source not in self._facts.plain)
            if (negates or source in self._facts.negated) and results[0].is_view:
                self._facts.negated.add(node.outputs[0])
            plain, marked = self._facts.plain, self._facts.conjugated  # a view of a marked tensor is marked, its conjugate is not
            before, after = (marked, plain) if node.op in _CONJUGATES else (plain, marked)
            if source in before:
                plain.add(node.output)
            elif results[0].is_view and source in after and node.op != "prims::conj":
                marked.add(node.output)

    def _without_layout(self, node: Node) -> None:
        """Place the result of a view op with unknown steps: a view of all or of a part, if it is not a copy."""
        schema = schema_of(node)
        source = node.inputs[0] if node.inputs else None
        operand = None if source is None else self.of.get(source)
        if operand is not None and node.op in ALWAYS_SHARES and is_tensor(node.outputs[0].type):
            self._put(node.outputs[0], operand._replace(kind="view", layout=None, source=source, in_place=False, failure=None))
        elif schema is not None and all(result.alias is None for result in schema.returns):
            self._made(node)
        else:
            self._open(node.outputs, source)

    # Nodes with blocks

    def _begin(self, node: Node) -> None:
        if node.op == "prim::Loop":
            self._loops += 1
            self.has_loops = True
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
        """Whether a carried value is the tensor that the round began with, possibly after writes."""
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
                reached = [v for v, block in zip(given, node.blocks, strict=True) if block not in self._facts.shapes.unreached]
                self._join(output, reached or given)
        elif node.op in GROUPS and len(node.blocks) == 1 and len(node.blocks[0].returns) == len(node.outputs):
            for output, value in zip(node.outputs, node.blocks[0].returns, strict=True):
                self._pass_on(value, output)
        else:
            self._open(node.outputs)

    def _join(self, output: Value, given: list[Value]) -> None:
        """Place a value that is one of several: in their buffer, if it is the same."""
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


_NUMBER_TENSORS: Final = frozenset({"prim::NumToTensor"})
_PICKS: Final = frozenset({"aten::__getitem__", "prim::TupleIndex"})
_CONJUGATES: Final = frozenset({"aten::conj", "aten::_conj", "aten::mH", "aten::adjoint", "aten::matrix_H", "prims::conj"})
_DECLARE_NO_VIEW: Final = frozenset({"aten::unsafe_chunk", "aten::unsafe_split", "aten::unsafe_split_with_sizes"})


def by_flags(layout: Layout, name: str) -> Layout:
    """The layout with only the order of the axes and their flags kept: a gap becomes a symbolic number."""
    if layout.strides is None:
        return layout
    strides, past = list(layout.strides), cast(Num, 1)
    for axis, flag in zip(reversed(layout.order), reversed(layout.flags), strict=True):
        if flag in ("contiguous", "gap"):
            strides[axis] = past if flag == "contiguous" else Extent.of(f"~stride({name}, {axis})")
            past = strides[axis] * layout.shape[axis]
    return make_layout(layout.shape, loose(layout.shape, strides), layout.offset, layout.dtype)


def _is_specific(type: Type) -> bool:
    """Whether a result type determines the result. An op that returns `Any` or `t` may return an operand, or a part of one."""
    return not (isinstance(type, PrimitiveType) and type.name in ("Any", "t"))


def _written_operand(node: Node, schema: OpSchema, sets: frozenset[str]) -> Value | None:
    for argument, value in zip(schema.arguments, node.inputs, strict=False):
        alias = argument.alias
        if alias is not None and alias.is_write and alias.before & sets and is_tensor(value.type):
            return value
    return None
